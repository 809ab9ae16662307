package sim

import (
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// Records that no member wrote. Those named harmless must change nothing in any world (S7).
const (
	rawGarbage = "garbage"
	rawUnknown = "an unknown"
	rawJump    = "absurd seq"
	rawAbsurd  = "absurd join"
	rawEnded   = "one that has ended"
	rawOther   = "another topic's"
	rawNewer   = "a newer unknown"
	rawUpgrade = "a newer member"
	rawForged  = "a forger"
	rawJunk    = "junk snapshot"
	rawBase    = "stale base"
	rawProbe   = "probe"
	rawTool    = "tool"
)

var harmless = map[string]bool{
	rawGarbage: true, rawUnknown: true, rawJump: true, rawAbsurd: true, rawEnded: true, rawOther: true, rawNewer: true,
	rawJunk: true, rawBase: true, rawProbe: true,
}

// raw appends an injected record, after a delay.
func (s *simulation) raw(kind string, d time.Duration, rec lease.Record) {
	s.uid++
	uid := s.uid
	if rec.Version == 0 {
		rec.Version = lease.WireVersion
	}
	s.after(d, func() {
		if !s.log.down {
			s.append(&rec, uidBytes(uid), uid, true, origin{raw: kind})
		}
	})
}

// causeRecord puts a record into the log that no member decided to write.
func (s *simulation) causeRecord(k faultKind) bool {
	w := s.ref.world
	switch k {
	case probeFault:
		s.raw(rawProbe, 0, lease.Record{Kind: lease.KindProbe, Probe: lease.Probe{Nonce: s.rng.Uint64(), WantsBase: true}})
	case foreignFault:
		s.raw(rawGarbage, 0, lease.Record{Kind: lease.Foreign})
	case unknownAuthorFault:
		rec := s.someRecord(s.randomID(), uint64(1+s.rng.IntN(9)))
		if rec.Kind == lease.KindJoin && rec.Seq == 1 {
			rec.Seq = 2
		}
		s.raw(rawUnknown, 0, rec)
	case seqJumpFault:
		a := s.someAgent()
		if a == nil || w.Instance(a.id) == nil {
			return false
		}
		s.raw(rawJump, 0, s.someRecord(a.id, w.Instance(a.id).Seq+lease.MaxSeqJump+1+s.rng.Uint64N(1000)))
	case absurdJoinFault:
		rec := s.someRecord(s.randomID(), 1)
		rec.Kind = lease.KindJoin
		rec.Join = lease.Join{Client: "absurd", TTL: s.ttl, TopicID: topicID, TokenBase: lease.MaxTokenBase + s.rng.Int64N(1000)}
		s.raw(rawAbsurd, 0, rec)
	case endedAuthorFault:
		return s.endedAuthor()
	case otherTopicFault:
		id := lease.InstanceID(s.randomID())
		s.raw(rawOther, 0, lease.Record{Kind: lease.KindJoin, Instance: id, Seq: 1, Join: lease.Join{Client: "other", TTL: s.ttl, TopicID: lease.TopicID{1}}})
	case newerUnknownFault:
		s.raw(rawNewer, 0, lease.Record{Kind: lease.KindNewer, Version: lease.WireVersion + 1, Instance: s.randomID(), Seq: 3})
	case newerJoinedFault:
		a := s.someAgent()
		if a == nil || w.Instance(a.id) == nil {
			return false
		}
		s.upgrade = true
		s.raw(rawUpgrade, 0, lease.Record{Kind: lease.KindNewer, Version: lease.WireVersion + 1, Instance: a.id, Seq: w.Instance(a.id).Seq + 1})
	case forgedHashFault:
		return s.forge()
	case junkSnapshotFault:
		s.raw(rawJunk, 0, lease.Record{Kind: lease.KindSnapshot, Snapshot: lease.Snapshot{
			Upto: max(0, s.log.end()-1-s.rng.Int64N(5)), Author: s.randomID(), TopicID: topicID, Count: 1, Chunk: uidBytes(s.rng.Uint64()),
		}})
	case staleBaseFault:
		if w.Last() < 0 {
			return false
		}
		d := s.between(0, s.ttl/2)
		base := lease.Record{Kind: lease.KindBase, Base: lease.Base{Seen: w.Last() - 1 - s.rng.Int64N(3), TokenBase: s.brokerMillis() << 20}}
		s.after(d, func() {
			if s.ref.world == w { // else the log has lost what makes it stale
				s.raw(rawBase, 0, base)
			}
		})
	case lateCopyFault:
		return s.lateCopy()
	case toolFault:
		return s.useTool()
	}
	return true
}

// someRecord makes a record of any kind that tries to change something.
func (s *simulation) someRecord(id lease.InstanceID, seq uint64) lease.Record {
	t := pick(s, s.topics)
	key := lease.Key{Topic: t.name, Partition: s.rng.Int32N(t.count)}
	rec := lease.Record{Instance: id, Seq: seq}
	epoch := s.ref.lastEpoch[key]
	switch s.rng.IntN(6) {
	case 0:
		rec.Kind = lease.KindHeartbeat
		rec.Heartbeat = lease.Heartbeat{P: -1, Topics: []lease.TopicProgress{{
			Topic: t.name, TopicID: t.id, Partitions: []int32{key.Partition}, Epochs: []int64{epoch}, Next: []int64{1 << 30},
		}}}
	case 1:
		rec.Kind = lease.KindClaim
		for i := range t.count {
			rec.Claim.Keys = append(rec.Claim.Keys, lease.Key{Topic: t.name, Partition: i})
		}
	case 2:
		rec.Kind = lease.KindRelease
		rec.Release.Keys = []lease.ReleasedKey{{Key: key, Epoch: epoch, TopicID: t.id}}
	case 3:
		rec.Kind = lease.KindEvict
		for i := range s.ref.world.Instances() {
			rec.Evict.Targets = append(rec.Evict.Targets, lease.Target{Instance: i.ID, Renewed: i.Renewed})
		}
	case 4:
		rec.Kind = lease.KindDirective
		rec.Directive = lease.Directive{Kind: lease.Seek, Key: key, TopicID: t.id, Next: 7, Epoch: lease.NoEpoch}
	case 5:
		rec.Kind = lease.KindJoin
		rec.Join = lease.Join{Client: "raw", TTL: s.ttl, TopicID: topicID, MaxVersion: lease.WireVersion}
	}
	return rec
}

// endedAuthor writes in the name of an instance that has ended, or is parked.
func (s *simulation) endedAuthor() bool {
	var ended []lease.InstanceID
	for _, e := range slices.Backward(s.log.entries) {
		if len(ended) == 8 {
			break
		}
		if !e.group || e.rec.Instance.IsZero() || s.byID[e.rec.Instance] == nil {
			continue
		}
		if i := s.ref.world.Instance(e.rec.Instance); i != nil && i.Status != lease.Alive {
			ended = append(ended, i.ID)
		}
	}
	if len(ended) == 0 {
		return false
	}
	id := pick(s, ended)
	s.raw(rawEnded, 0, s.someRecord(id, s.ref.world.Instance(id).Seq+1))
	return true
}

// lateCopy appends a copy of one of the newest records again, as a retry does that was long under way.
func (s *simulation) lateCopy() bool {
	n := len(s.log.entries)
	if n == 0 {
		return false
	}
	e := s.log.entries[n-1-s.rng.IntN(min(n, 60))]
	if !e.group || s.log.down {
		return false
	}
	s.append(&e.rec, e.value, e.uid, true, e.origin)
	return true
}

// forge writes a heartbeat of a tool with a wrong hash: everybody who meets it reads the log again and finds it right.
func (s *simulation) forge() bool {
	if s.ref.world.Last() < 0 {
		return false
	}
	s.forgedHash = true
	id := s.newTool("forger")
	s.raw(rawForged, s.ttl/10, lease.Record{Kind: lease.KindHeartbeat, Instance: id, Seq: 2, Heartbeat: lease.Heartbeat{P: s.ref.world.Last(), Hash: s.rng.Uint64()}})
	return true
}

// newTool joins an instance that no process runs, with no interests; it ends by eviction.
func (s *simulation) newTool(client string) lease.InstanceID {
	id := lease.InstanceID(s.randomID())
	s.tools++
	s.names[id] = "tool." + id.String()[:4]
	s.raw(rawTool, 0, lease.Record{Kind: lease.KindJoin, Instance: id, Seq: 1, Join: lease.Join{
		Client: client, Host: "tool", TTL: min(s.ttl, 2*time.Second), TopicID: topicID, MaxVersion: lease.WireVersion,
		TokenBase: (s.brokerMillis() + 1) << 20,
	}})
	return id
}

// useTool joins a tool that writes what a member with old news, or without the manners of ours, would write. What it
// writes must be refused, apart from claims of free keys.
func (s *simulation) useTool() bool {
	w := s.ref.world
	t := pick(s, s.topics)
	key := lease.Key{Topic: t.name, Partition: s.rng.Int32N(t.count)}
	if s.whole && s.chance(0.8) {
		key.Partition = lease.WholeTopic
	}
	other := s.someAgent()
	if other == nil || w.Instance(other.id) == nil {
		return false
	}
	client := "tool"
	scheme := s.rng.IntN(8)
	if s.scheme >= 0 && s.chance(0.8) {
		scheme = s.scheme
	}
	if scheme == 0 {
		client = other.plan.client
	}
	id := s.newTool(client)
	soon := s.between(0, s.ttl/2)
	switch scheme {
	case 0: // a takeover of a namesake that has answered, by whatever its newest renewal is
		s.after(soon, func() {
			i, me := w.Instance(other.id), w.Instance(id)
			if i != nil && me != nil && i.Renewed > me.FirstJoin && s.ref.world == w {
				s.raw(rawTool, 0, lease.Record{Kind: lease.KindEvict, Instance: id, Seq: 2, Evict: lease.Evict{
					Takeover: true, Targets: []lease.Target{{Instance: other.id, Renewed: i.Renewed}},
				}})
			}
		})
	case 1: // all of a topic at once, or nothing
		rec := lease.Record{Kind: lease.KindClaim, Instance: id, Seq: 2, Claim: lease.Claim{Atomic: true}}
		for i := range t.count {
			rec.Claim.Keys = append(rec.Claim.Keys, lease.Key{Topic: t.name, Partition: i})
		}
		s.raw(rawTool, soon, rec)
	case 2: // itself, and somebody who never was
		s.raw(rawTool, soon, lease.Record{Kind: lease.KindEvict, Instance: id, Seq: 2, Evict: lease.Evict{
			Targets: []lease.Target{{Instance: id, Renewed: w.Last() + 1}, {Instance: s.randomID(), Renewed: 1}},
		}})
	case 3: // an old renewal
		renewed := w.Instance(other.id).Renewed
		s.raw(rawTool, s.ttl/2, lease.Record{Kind: lease.KindEvict, Instance: id, Seq: 2, Evict: lease.Evict{
			Targets: []lease.Target{{Instance: other.id, Renewed: renewed - 1}},
		}})
	case 4: // takes what is free, and hands it to one that is not there any more
		s.raw(rawTool, soon, lease.Record{Kind: lease.KindClaim, Instance: id, Seq: 2, Claim: lease.Claim{Keys: []lease.Key{key}}})
		s.after(soon+time.Millisecond, func() {
			if l, ok := w.Lease(key); ok && l.Instance == id {
				s.raw(rawTool, 0, lease.Record{Kind: lease.KindRelease, Instance: id, Seq: 3, Release: lease.Release{
					Keys: []lease.ReleasedKey{{Key: key, Epoch: l.Epoch}}, Successor: s.someoneEnded(),
				}})
			}
		})
	case 5: // what is parked for another client, what is held, what it does not hold
		rec := lease.Record{Kind: lease.KindClaim, Instance: id, Seq: 2}
		for k := range w.Leases() {
			rec.Claim.Keys = append(rec.Claim.Keys, k)
		}
		s.raw(rawTool, soon, rec)
		s.raw(rawTool, soon+time.Millisecond, s.someRelease(id, key))
		s.raw(rawTool, soon+2*time.Millisecond, s.somePosition(id, key, t.id))
	case 6: // a seek from outside
		s.raw(rawTool, soon, lease.Record{Kind: lease.KindDirective, Instance: id, Seq: 2, Directive: lease.Directive{
			Kind: lease.Seek, Key: key, TopicID: t.id, Next: s.rng.Int64N(20), Epoch: lease.NoEpoch,
		}})
	case 7: // a topic of its own, recreated, and old positions of it
		s.oldTopic(id, soon)
	}
	return true
}

// oldTopic claims a partition that nobody else wants and moves its progress in one incarnation of the topic, in the
// next, in the first again, and back.
func (s *simulation) oldTopic(id lease.InstanceID, soon time.Duration) {
	key := lease.Key{Topic: "tools"}
	s.raw(rawTool, soon, lease.Record{Kind: lease.KindClaim, Instance: id, Seq: 2, Claim: lease.Claim{Keys: []lease.Key{key}}})
	s.after(soon+time.Millisecond, func() {
		l, ok := s.ref.world.Lease(key)
		if !ok || l.Instance != id {
			return
		}
		next := []int64{1, 2, 3, 1} // the last is behind
		for i, topic := range []byte{1, 2, 1, 2} {
			s.raw(rawTool, 0, lease.Record{Kind: lease.KindHeartbeat, Instance: id, Seq: uint64(3 + i), Heartbeat: lease.Heartbeat{
				P: -1, Topics: []lease.TopicProgress{{
					Topic: key.Topic, TopicID: lease.TopicID{topic}, Partitions: []int32{0}, Epochs: []int64{l.Epoch}, Next: next[i : i+1],
				}},
			}})
		}
	})
}

func (s *simulation) someRelease(id lease.InstanceID, key lease.Key) lease.Record {
	return lease.Record{Kind: lease.KindRelease, Instance: id, Seq: 3, Release: lease.Release{Keys: []lease.ReleasedKey{{Key: key, Epoch: s.ref.lastEpoch[key]}}}}
}

// somePosition is a heartbeat of one that does not hold the key, ahead of whoever does.
func (s *simulation) somePosition(id lease.InstanceID, key lease.Key, topic lease.TopicID) lease.Record {
	return lease.Record{Kind: lease.KindHeartbeat, Instance: id, Seq: 4, Heartbeat: lease.Heartbeat{P: -1, Topics: []lease.TopicProgress{{
		Topic: key.Topic, TopicID: topic, Partitions: []int32{max(0, key.Partition)}, Epochs: []int64{s.ref.lastEpoch[key]}, Next: []int64{1 << 30},
	}}}}
}

// someoneEnded is an instance that has ended, if one is remembered.
func (s *simulation) someoneEnded() lease.InstanceID {
	for _, e := range slices.Backward(s.log.entries) {
		if e.group && !e.rec.Instance.IsZero() {
			if i := s.ref.world.Instance(e.rec.Instance); i != nil && i.Status == lease.Ended {
				return i.ID
			}
		}
	}
	return s.randomID()
}
