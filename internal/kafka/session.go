package kafka

import (
	"errors"
	"math"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// session is what the broker remembers of the fetches on one connection (KIP-227): a request then names only the partitions whose
// question has changed, and its answer only those with something new. With few partitions that spares nothing.
//
// It ends with the connection, or when the broker says that it knows nothing of it (any more): then the next request names
// everything again.
type session struct {
	id    int32 // 0: none
	epoch int32 // of the next request
	byID  bool  // whether its partitions are named by the ids of their topics
	kept  bool  // the request under way is one that parts keeps account of
	whole bool  // it names everything, and so will its answer
	round int   // counts requests
	parts map[partKey]*sessionPart
}

// partKey is how a request names a partition.
type partKey struct {
	id        [16]byte
	name      string
	partition int32
}

// sessionPart is a partition as the broker was last asked for it.
type sessionPart struct {
	FetchPart
	at    int // in asked
	round int // when
}

// sessionFrom is from how many partitions on a session is worth having. A broker has 1,000 in all.
const sessionFrom = 16

// bySession is the first version of Fetch that has sessions.
const bySession = 7

// next fills in which session req belongs to, and what is to be forgotten of it, and gives those of parts that must be named.
func (s *session) next(req *kmsg.FetchRequest, parts []FetchPart) []FetchPart {
	named := req.Version >= byID
	s.kept = req.Version >= bySession && (s.id != 0 || len(parts) >= sessionFrom)
	s.whole = !s.kept || s.id == 0 || s.byID != named
	if !s.kept {
		req.SessionID, req.SessionEpoch = 0, -1
		return parts
	}
	s.round++
	if s.whole {
		s.epoch, s.byID = 0, named // ends the one that there was
		s.parts = make(map[partKey]*sessionPart, len(parts))
	}
	req.SessionID, req.SessionEpoch = s.id, s.epoch
	changed := make([]FetchPart, 0, len(parts))
	for i := range parts {
		k := s.key(&parts[i])
		p := s.parts[k]
		if p == nil {
			p = &sessionPart{}
			s.parts[k] = p
		}
		if p.FetchPart != parts[i] {
			p.FetchPart = parts[i]
			changed = append(changed, parts[i])
		}
		p.at, p.round = i, s.round
	}
	if len(s.parts) > len(parts) {
		s.forget(req)
	}
	return changed
}

// forget names what was asked for before and is not any more.
func (s *session) forget(req *kmsg.FetchRequest) {
	topics := map[partKey]int{}
	for k, p := range s.parts {
		if p.round == s.round {
			continue
		}
		delete(s.parts, k)
		k.partition = 0
		at, ok := topics[k]
		if !ok {
			at = len(req.ForgottenTopics)
			topics[k] = at
			req.ForgottenTopics = append(req.ForgottenTopics, kmsg.FetchRequestForgottenTopic{Topic: p.Topic, TopicID: p.TopicID})
		}
		req.ForgottenTopics[at].Partitions = append(req.ForgottenTopics[at].Partitions, p.Partition)
	}
}

// answered takes what an answer says of the session. It gives true where the answer is no more than that.
func (s *session) answered(id int32, err error) (lost bool) {
	switch {
	case !s.kept:
		return false
	case err == nil && s.whole:
		s.id, s.epoch = id, 1 // 0: the broker has no room for one
		return false
	case err == nil:
		if s.epoch == math.MaxInt32 {
			s.epoch = 0
		}
		s.epoch++
		return false
	}
	whole := s.whole
	s.id = 0
	return !whole && lostSession(err)
}

// lostSession tells whether the broker does not have the session as we have it.
func lostSession(err error) bool {
	const idNotFound, invalidEpoch, topicID, inconsistentTopicID = 70, 71, 106, 103
	e, ok := errors.AsType[*BrokerError](err)
	return ok && (e.Code == idNotFound || e.Code == invalidEpoch || e.Code == topicID || e.Code == inconsistentTopicID)
}

func (s *session) key(p *FetchPart) partKey {
	if s.byID {
		return partKey{id: p.TopicID, partition: p.Partition}
	}
	return partKey{name: p.Topic, partition: p.Partition}
}

// place notes where each of those asked for is, where that is not the order of Send.
func (s *session) place(asked []FetchPart) {
	for i := range asked {
		s.parts[s.key(&asked[i])].at = i
	}
}

// find tells where among those asked for a partition of an answer is; -1: nowhere.
func (s *session) find(t *kmsg.FetchResponseTopic, partition int32) int {
	k := s.key(&FetchPart{Topic: t.Topic, TopicID: t.TopicID, Partition: partition})
	if p := s.parts[k]; p != nil { // and what is there was asked for: the others are forgotten
		return p.at
	}
	return -1
}
