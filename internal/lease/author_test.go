package lease

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// PROTOCOL.md §5.1 to §5.3, §5.6 and §5.7: who is heard at all.

func TestEndedOrParkedAuthorIsIgnored(t *testing.T) {
	s := newScript(t)
	s.join("ended", "parked", "b")
	e := s.claim("parked", "t/0")
	s.leave("ended")
	s.park("parked", time.Minute)
	was := s.renewed("parked")

	s.heartbeat("ended")
	s.ignored(AuthorEnded)
	s.joinAs("ended", "client-ended")
	s.ignored(AuthorEnded)
	s.heartbeat("parked", at("t/0", e, 9))
	s.ignored(AuthorParked)
	s.release("parked", "", releasing("t/0", e))
	s.ignored(AuthorParked)
	s.joinAs("parked", "client-parked")
	s.ignored(AuthorParked)

	assert.Equal(t, was, s.renewed("parked"))
	s.holds("parked", "t/0", e)
}

func TestNotJoinedOnlyAJoinWithSeq1Counts(t *testing.T) {
	for kind := KindJoin; kind <= KindDirective; kind++ {
		s := newScript(t)
		rec := join("client")
		rec.Kind = kind
		s.writeSeq("a", 2, rec)
		s.ignored(AuthorUnknown)
		if s.writeSeq("a", 1, rec); kind == KindJoin {
			s.happened("joined a")
			continue
		}
		s.ignored(AuthorUnknown)
		assert.Nil(t, s.w.Instance(id("a")))
	}
}

func TestNotJoinedOnlyAJoinWithThatTopicIDCounts(t *testing.T) {
	rec := join("client")
	rec.Join.TopicID = TopicID{1}
	s := newScript(t)
	s.write("a", rec)
	s.ignored(OtherTopic)
	assert.Nil(t, s.w.Instance(id("a")))
}

func TestZeroTopicIDOnEitherSideComparesAsEqual(t *testing.T) {
	rec := join("client")
	rec.Join.TopicID = TopicID{}
	s := newScript(t)
	s.write("a", rec)
	s.happened("joined a")

	rec.Join.TopicID = TopicID{1}
	s = newScript(t)
	s.w = NewWorld(TopicID{})
	s.write("a", rec)
	s.happened("joined a")
}

func TestNobodyWithoutAnID(t *testing.T) {
	s := newScript(t)
	s.write("", join("client"))
	s.ignored(Malformed)
}

func TestSeqNotAboveTheLastIsIgnored(t *testing.T) {
	s := newScript(t)
	s.join("a")
	e := s.claim("a", "t/0") // seq 2
	s.writeSeq("a", 2, Record{Kind: KindClaim, Claim: Claim{Keys: keys("t/1")}})
	s.ignored(Echo)
	s.writeSeq("a", 1, join("client-a"))
	s.ignored(Echo)
	s.isFree("t/1")
	assert.Equal(t, e, s.renewed("a"))

	// An append that arrived late: its successor has been read.
	s.writeSeq("a", 4, Record{Kind: KindHeartbeat})
	s.happened()
	s.writeSeq("a", 3, Record{Kind: KindRelease, Release: Release{Keys: []ReleasedKey{releasing("t/0", e)}}})
	s.ignored(Echo)
	s.holds("a", "t/0", e)
}

func TestEveryRecordThatIsTakenRenewsItsAuthor(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	for _, rec := range []Record{
		join("client-a"), {Kind: KindHeartbeat}, {Kind: KindClaim}, {Kind: KindRelease}, {Kind: KindEvict}, {Kind: KindDirective},
	} {
		b := s.renewed("b")
		o := s.write("a", rec)
		s.happened(map[bool][]string{true: {"interested a"}, false: nil}[rec.Kind == KindJoin]...)
		assert.Equal(t, o, s.renewed("a"))
		assert.Equal(t, s.seqs["a"], s.w.Instance(id("a")).Seq)
		assert.Equal(t, 1_000+o, s.w.Instance(id("a")).RenewedTime, "display only: the broker's time of it")
		assert.Equal(t, b, s.renewed("b"), "nobody else")
	}
}

// §3: "Absurd values (token base ≥ 2^62, a jump of seq over 2^32) are malformed."
func TestAbsurdValuesAreMalformed(t *testing.T) {
	s := newScript(t)
	for _, base := range []int64{1 << 62, math.MaxInt64, -1} {
		rec := join("client")
		rec.Join.TokenBase = base
		s.writeSeq("a", 1, rec)
		s.ignored(Malformed)
		assert.Zero(t, s.w.TokenBase())
		s.base(s.w.Last(), base)
		s.ignored(Malformed)
	}
	s.join("b") // seq 1
	was := s.renewed("b")
	s.writeSeq("b", 1+1<<32+1, Record{Kind: KindHeartbeat})
	s.ignored(Malformed)
	assert.Equal(t, was, s.renewed("b"))
	s.writeSeq("b", 1+1<<32, Record{Kind: KindHeartbeat})
	s.happened()

	broken := at("t/0", 1, 2)
	broken.Next = nil
	rk := releasing("t/0", 1)
	rk.Next = []int64{4}
	wrong := func(change func(*Join)) Record {
		rec := join("client-b")
		rec.Join.Interests = []Interest{{Topics: []TopicInterest{{"t", 1}}}}
		change(&rec.Join)
		return rec
	}
	for i, rec := range []Record{
		{Kind: KindHeartbeat, Heartbeat: Heartbeat{Topics: []TopicProgress{broken}}},
		{Kind: KindRelease, Release: Release{Keys: []ReleasedKey{rk}}},
		{Kind: KindLeave, Release: Release{Keys: []ReleasedKey{rk}}},
		wrong(func(j *Join) { j.Interests[0].Topics[0].Partitions = -1 }),
		wrong(func(j *Join) { j.Interests[0].Topics[0].Topic = "" }),
		wrong(func(j *Join) { j.Interests[0].Max = -1 }),
		wrong(func(j *Join) { j.Interests[0].Weight = -1 }),
		wrong(func(j *Join) { j.Pinned = keys("t/-2") }),
	} {
		s.writeSeq("b", 1<<32+2+uint64(i), rec)
		s.ignored(Malformed)
	}
}

// §3: a record of a newer version by a joined author is met, not applied; by anybody else it is foreign.
func TestNewerVersionByAJoinedAuthor(t *testing.T) {
	s := newScript(t)
	s.join("a", "left", "parked")
	s.leave("left")
	s.park("parked", time.Second)
	was, seq := s.renewed("a"), s.w.Instance(id("a")).Seq
	o := s.write("a", Record{Kind: KindNewer, Version: 3})
	if assert.Len(t, s.last, 1) {
		assert.Equal(t, "newer a", did(s.last[0]))
	}
	assert.Equal(t, was, s.renewed("a"), "it does not renew")
	assert.Equal(t, seq, s.w.Instance(id("a")).Seq)
	assert.Equal(t, o, s.w.Last(), "it moves world.last")
	for _, other := range []string{"nobody", "left", "parked"} {
		o = s.write(other, Record{Kind: KindNewer, Version: 3})
		s.ignored(Malformed)
		assert.Equal(t, o, s.w.Last())
	}
}

// §3: "nobody writes above the lowest of the joined."
func TestWireVersionIsTheLowestOfTheJoined(t *testing.T) {
	s := newScript(t)
	with := func(v uint8) Record {
		rec := join("client")
		rec.Join.MaxVersion = v
		return rec
	}
	assert.EqualValues(t, 2, s.w.WireVersion(), "nobody there")
	s.write("new", with(5))
	assert.EqualValues(t, 5, s.w.WireVersion())
	s.write("newer", with(9))
	s.write("old", with(3))
	assert.EqualValues(t, 3, s.w.WireVersion())
	s.park("old", time.Second)
	assert.EqualValues(t, 5, s.w.WireVersion())
	s.evict("newer", "new", s.renewed("new"))
	assert.EqualValues(t, 9, s.w.WireVersion())
	s.write("odd", with(0))
	assert.EqualValues(t, 2, s.w.WireVersion(), "at least 2")
	s.write("odd", with(9))
	assert.EqualValues(t, 2, s.w.WireVersion(), "the first Join says it")
}

func TestEndedInstancesAreForgotten65536OffsetsLater(t *testing.T) {
	s := newScript(t)
	s.join("a", "b", "c")
	end := s.leave("a")
	s.evict("c", "b", s.renewed("b"))

	s.next = end + EndedMemory
	s.joinAs("a", "client")
	s.ignored(AuthorEnded)
	s.status("a", Ended)

	// The record of the group that is one offset too far meets it for the last time: the check of its author comes first.
	s.writeSeq("a", 1, join("client"))
	s.ignored(AuthorEnded)
	assert.Nil(t, s.w.Instance(id("a")))
	s.status("b", Ended)
	s.append(Record{Kind: KindProbe})
	s.status("b", Ended)
	s.append(Record{Kind: KindSnapshot})
	assert.Nil(t, s.w.Instance(id("b")), "b ended one offset after a")
	s.writeSeq("a", 1, join("client"))
	s.happened("joined a")
}

func TestLastMovesByEveryRecordOfTheGroupButAProbe(t *testing.T) {
	s := newScript(t)
	assert.EqualValues(t, -1, s.w.Last())
	s.join("a")
	for _, rec := range []Record{
		{Kind: Foreign}, {Kind: KindSnapshot}, {Kind: KindBase, Base: Base{Seen: 1}}, {Kind: KindNewer},
		{Kind: KindHeartbeat, Instance: id("nobody")}, {Kind: KindHeartbeat, Instance: id("a"), Seq: 1}, {Kind: 99},
	} {
		assert.Equal(t, s.append(rec), s.w.Last())
	}
	was, digest := s.w.Last(), s.w.Digest()
	s.append(Record{Kind: KindProbe, Instance: id("a"), Seq: 2, Probe: Probe{Nonce: 1, WantsBase: true}})
	assert.Empty(t, s.last)
	assert.Equal(t, was, s.w.Last())
	assert.Equal(t, digest, s.w.Digest())
}

func TestForeignRecordsAreCountedAndSkipped(t *testing.T) {
	s := newScript(t)
	s.append(Record{Kind: Foreign})
	s.ignored(Malformed)
	s.append(Record{Kind: 77})
	s.ignored(Malformed)
}

func TestAnOffsetNotAboveTheLastChangesNothing(t *testing.T) {
	s := newScript(t)
	s.join("a")
	e := s.claim("a", "t/0")
	digest := s.w.Digest()
	for _, o := range []int64{e, e - 1, -1, math.MinInt64} {
		s.next = o
		s.writeSeq("a", 9, Record{Kind: KindLeave})
		s.ignored(OldOffset)
		assert.Equal(t, digest, s.w.Digest())
	}
}
