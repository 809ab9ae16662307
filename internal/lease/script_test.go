package lease

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// script is a log being written and applied, record by record: the language of the tests of this package. Instances are
// named by a letter, and their seq counts by itself. After every record the digest, the bytes and a copy are checked.
type script struct {
	t    *testing.T
	w    *World
	next int64 // offset of the next record
	seqs map[string]uint64
	last []Event // of the newest record
}

var coordination = TopicID{0xc0}

func newScript(t *testing.T) *script {
	return &script{t: t, w: NewWorld(coordination), next: 100, seqs: map[string]uint64{}}
}

// id is the id of an instance by its name.
func id(name string) (i InstanceID) {
	if name != "" {
		copy(i[:], name)
	}
	return i
}

// key reads "topic/3", or "topic" for a whole topic.
func key(text string) Key {
	topic, p, found := strings.Cut(text, "/")
	k := Key{Topic: topic, Partition: WholeTopic}
	if found {
		if _, err := fmt.Sscan(p, &k.Partition); err != nil {
			panic(err)
		}
	}
	return k
}

func keys(text ...string) (ks []Key) {
	for _, k := range text {
		ks = append(ks, key(k))
	}
	return ks
}

// topicID is a topic id by a letter; "" is the unknown one.
func topicID(name string) (t TopicID) {
	copy(t[:], name)
	return t
}

// write appends a record by an instance, with its next seq, and gives the record's offset.
func (s *script) write(author string, rec Record) int64 {
	s.t.Helper()
	s.seqs[author]++
	return s.writeSeq(author, s.seqs[author], rec)
}

func (s *script) writeSeq(author string, seq uint64, rec Record) int64 {
	s.t.Helper()
	rec.Instance, rec.Seq = id(author), seq
	return s.append(rec)
}

// append appends a record as it is.
func (s *script) append(rec Record) int64 {
	s.t.Helper()
	rec.Offset = s.next
	s.next++
	rec.Timestamp = 1_000 + rec.Offset
	s.last = s.w.Apply(&rec, nil)
	for _, e := range s.last {
		require.Equal(s.t, Event{Offset: rec.Offset, Seq: rec.Seq, Author: rec.Instance, Record: rec.Kind},
			Event{Offset: e.Offset, Seq: e.Seq, Author: e.Author, Record: e.Record}, "every event tells its record")
	}
	require.NoError(s.t, checkWorld(s.w))
	return rec.Offset
}

// joinAs makes an instance with a client id.
func (s *script) joinAs(name, client string) int64 {
	s.t.Helper()
	return s.write(name, join(client))
}

func join(client string) Record {
	return Record{Kind: KindJoin, Join: Join{Client: client, Host: "host", TTL: 10 * time.Second, TopicID: coordination, MaxVersion: 2}}
}

// join makes instances, each with a client id of its own.
func (s *script) join(names ...string) {
	s.t.Helper()
	for _, name := range names {
		s.joinAs(name, "client-"+name)
	}
}

func (s *script) heartbeat(author string, entries ...TopicProgress) int64 {
	s.t.Helper()
	return s.write(author, Record{Kind: KindHeartbeat, Heartbeat: Heartbeat{Topics: entries}})
}

// at is one entry of a heartbeat.
func at(k string, epoch, next int64) TopicProgress { return atID(k, "", epoch, next) }

func atID(k, topic string, epoch, next int64) TopicProgress {
	return TopicProgress{
		Topic: key(k).Topic, TopicID: topicID(topic), Partitions: []int32{key(k).Partition}, Epochs: []int64{epoch}, Next: []int64{next},
	}
}

func (s *script) claim(author string, ks ...string) int64 {
	s.t.Helper()
	return s.write(author, Record{Kind: KindClaim, Claim: Claim{Keys: keys(ks...)}})
}

func (s *script) claimAtomic(author string, ks ...string) int64 {
	s.t.Helper()
	return s.write(author, Record{Kind: KindClaim, Claim: Claim{Keys: keys(ks...), Atomic: true}})
}

// releasing is one key of a Release or Leave, with next offsets of its partitions, from the first on.
func releasing(k string, epoch int64, next ...int64) ReleasedKey {
	r := ReleasedKey{Key: key(k), Epoch: epoch, Next: next}
	for i := range next {
		r.Partitions = append(r.Partitions, max(0, key(k).Partition)+int32(i))
	}
	return r
}

func (r ReleasedKey) of(topic string) ReleasedKey {
	r.TopicID = topicID(topic)
	return r
}

func (s *script) release(author, successor string, ks ...ReleasedKey) int64 {
	s.t.Helper()
	return s.write(author, Record{Kind: KindRelease, Release: Release{Keys: ks, Successor: id(successor)}})
}

func (s *script) releaseUnfit(author string, ks ...ReleasedKey) int64 {
	s.t.Helper()
	return s.write(author, Record{Kind: KindRelease, Release: Release{Keys: ks, Unfit: true}})
}

func (s *script) leave(author string, ks ...ReleasedKey) int64 {
	s.t.Helper()
	return s.write(author, Record{Kind: KindLeave, Release: Release{Keys: ks}})
}

func (s *script) park(author string, grace time.Duration, ks ...ReleasedKey) int64 {
	s.t.Helper()
	return s.write(author, Record{Kind: KindLeave, Release: Release{Keys: ks}, Leave: Leave{Keep: true, Grace: grace}})
}

func (s *script) evict(author, target string, renewed int64) int64 {
	s.t.Helper()
	return s.write(author, Record{Kind: KindEvict, Evict: Evict{Targets: []Target{{id(target), renewed}}}})
}

func (s *script) takeover(author, target string, renewed int64) int64 {
	s.t.Helper()
	return s.write(author, Record{Kind: KindEvict, Evict: Evict{Targets: []Target{{id(target), renewed}}, Takeover: true}})
}

func (s *script) seek(author, k, topic string, next, epoch int64) int64 {
	s.t.Helper()
	return s.write(author, Record{Kind: KindDirective, Directive: Directive{
		Kind: Seek, Key: key(k), TopicID: topicID(topic), Next: next, Epoch: epoch,
	}})
}

func (s *script) base(seen, tokenBase int64) int64 {
	s.t.Helper()
	return s.append(Record{Kind: KindBase, Base: Base{Seen: seen, TokenBase: tokenBase}})
}

// foreign lets the log grow by so many records that are none of ours.
func (s *script) foreign(n int64) {
	s.t.Helper()
	s.next += n - 1
	s.append(Record{Kind: Foreign})
}

// did is an event by what tells it from others, as text.
func did(e Event) string {
	text := eventNames[e.Kind]
	if e.Instance != (InstanceID{}) {
		text += " " + name(e.Instance)
	}
	if e.Key.Topic != "" {
		text += " " + e.Key.Topic
		if e.Key.Partition != WholeTopic {
			text += fmt.Sprintf("/%d", e.Key.Partition)
		}
	}
	switch e.Kind {
	case Granted, Held, Released, HandedOver, TakenOver:
		text += fmt.Sprintf(" @%d", e.Epoch)
	case Progressed:
		text += fmt.Sprintf(" @%d =%d", e.Epoch, e.Next)
	case Sought:
		text += fmt.Sprintf(" @%d =%d", e.Epoch, e.Next)
	}
	if e.By != (InstanceID{}) {
		text += " by " + name(e.By)
	}
	if e.Reason != NoReason {
		text += ": " + reasonNames[e.Reason]
	}
	return text
}

func name(i InstanceID) string { return strings.TrimRight(string(i[:]), "\x00") }

// happened asserts what the newest record did, beside the renewal of its author.
func (s *script) happened(want ...string) {
	s.t.Helper()
	require.NotEmpty(s.t, s.last)
	require.Equal(s.t, Renewed, s.last[0].Kind, "a record that is taken renews its author: %s", did(s.last[0]))
	require.Equal(s.t, s.last[0].Author, s.last[0].Instance)
	var got []string
	for _, e := range s.last[1:] {
		got = append(got, did(e))
	}
	assert.Equal(s.t, want, got)
}

// ignored asserts that the newest record was ignored as a whole.
func (s *script) ignored(reason Reason) {
	s.t.Helper()
	require.Len(s.t, s.last, 1)
	assert.Equal(s.t, Ignored, s.last[0].Kind, did(s.last[0]))
	assert.Equal(s.t, reasonNames[reason], reasonNames[s.last[0].Reason])
}

// holds asserts who holds a key, and its epoch.
func (s *script) holds(who, k string, epoch int64) {
	s.t.Helper()
	l, ok := s.w.Lease(key(k))
	if assert.True(s.t, ok, "%s is free", k) {
		assert.Equal(s.t, Lease{id(who), epoch}, l, "%s is held by %s", k, name(l.Instance))
	}
}

func (s *script) isFree(ks ...string) {
	s.t.Helper()
	for _, k := range ks {
		l, ok := s.w.Lease(key(k))
		assert.False(s.t, ok, "%s is held by %s", k, name(l.Instance))
	}
}

// progress asserts the next offset of a partition.
func (s *script) progress(k string, next int64) {
	s.t.Helper()
	p, ok := s.w.Progress(key(k).Topic, key(k).Partition)
	assert.True(s.t, ok, "nothing known of %s", k)
	assert.Equal(s.t, next, p.Next, "progress of %s", k)
}

func (s *script) status(who string, want Status) {
	s.t.Helper()
	in := s.w.Instance(id(who))
	if assert.NotNil(s.t, in, "%s is unknown", who) {
		assert.Equal(s.t, want, in.Status, "status of %s", who)
	}
}

func (s *script) renewed(who string) int64 {
	s.t.Helper()
	in := s.w.Instance(id(who))
	require.NotNil(s.t, in, "%s is unknown", who)
	return in.Renewed
}

var eventNames = map[EventKind]string{
	Renewed: "renewed", Joined: "joined", Interested: "interested", Left: "left", Parked: "parked", Evicted: "evicted",
	Granted: "granted", Held: "held", Refused: "refused", Released: "released", HandedOver: "handed over",
	TakenOver: "taken over", Progressed: "progressed", Marked: "marked", Unmarked: "unmarked", Sought: "sought",
	Rebased: "rebased", Announced: "announced", Ignored: "ignored", Newer: "newer",
}

var reasonNames = map[Reason]string{
	NoReason: "no reason", AuthorUnknown: "author unknown", AuthorEnded: "author ended", AuthorParked: "author parked",
	OtherTopic: "other topic", Echo: "echo", Malformed: "malformed", NotHeld: "not held", OldEpoch: "old epoch",
	Behind: "behind", OldTopic: "old topic", HeldByOther: "held by other", AtomicPartner: "atomic partner",
	NotSuccessor: "not successor", TargetUnknown: "target unknown", TargetEnded: "target ended", TargetSelf: "target self",
	RenewedSince: "renewed since", NoTakeover: "no takeover", BaseNotEmpty: "base not empty", TooMany: "too many",
	OldOffset: "old offset",
}
