package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// PROTOCOL.md §5 Join and Leave.

func wanting(client string, topics ...TopicInterest) Record {
	rec := join(client)
	rec.Join.Interests = []Interest{{Topics: topics}}
	return rec
}

func TestFirstJoinSetsClientTTLHostVersion(t *testing.T) {
	s := newScript(t)
	rec := join("first")
	rec.Join.TTL, rec.Join.MaxVersion = 3*time.Second, 4
	o := s.write("a", rec)
	rec.Join = Join{Client: "second", Host: "other", TTL: time.Second, MaxVersion: 9, TopicID: TopicID{1}}
	s.write("a", rec)
	s.happened("interested a")
	in := s.w.Instance(id("a"))
	assert.Equal(t, "first", in.Client)
	assert.Equal(t, "host", in.Host)
	assert.Equal(t, 3*time.Second, in.TTL)
	assert.EqualValues(t, 4, in.MaxVersion)
	assert.Equal(t, o, in.FirstJoin)
}

func TestTTLIsClamped(t *testing.T) {
	for ttl, want := range map[time.Duration]time.Duration{
		0: MinTTL, -time.Hour: MinTTL, MinTTL: MinTTL, MinTTL + 1: MinTTL + 1, MaxTTL: MaxTTL, MaxTTL + 1: MaxTTL, time.Hour: MaxTTL,
	} {
		s := newScript(t)
		rec := join("client")
		rec.Join.TTL = ttl
		s.write("a", rec)
		assert.Equal(t, want, s.w.Instance(id("a")).TTL)
	}
}

func TestEveryJoinSetsTheInterests(t *testing.T) {
	s := newScript(t)
	rec := wanting("client", TopicInterest{"t", 3})
	rec.Join.Pinned = keys("u/1", "v")
	s.write("a", rec)
	s.happened("joined a")
	in := s.w.Instance(id("a"))
	assert.Equal(t, rec.Join.Interests, in.Interests)
	assert.Equal(t, rec.Join.Pinned, in.Pinned)

	// The world keeps copies: a decoder uses its Record again.
	rec.Join.Interests[0].Topics[0].Topic, rec.Join.Pinned[0].Topic = "changed", "changed"
	assert.Equal(t, "t", in.Interests[0].Topics[0].Topic)
	assert.Equal(t, "u", in.Pinned[0].Topic)

	rec = join("client")
	rec.Join.Interests = []Interest{{Whole: true, Max: 2, Weight: 3, Greedy: true}}
	s.write("a", rec)
	assert.Equal(t, rec.Join.Interests, in.Interests)
	assert.Empty(t, in.Pinned)
}

// "A topic's partition count in the world is the largest that a joined instance's newest Join states."
func TestPartitionCountIsTheLargestThatTheJoinedState(t *testing.T) {
	s := newScript(t)
	assert.Zero(t, s.w.Partitions("t"))
	s.write("a", wanting("a", TopicInterest{"t", 3}, TopicInterest{"u", 1}))
	s.write("b", wanting("b", TopicInterest{"t", 5}, TopicInterest{"t", 2}))
	s.write("c", wanting("c", TopicInterest{"t", 5}))
	assert.EqualValues(t, 5, s.w.Partitions("t"))
	s.write("b", wanting("b", TopicInterest{"t", 4}))
	assert.EqualValues(t, 5, s.w.Partitions("t"), "c states it still")
	s.park("c", time.Minute)
	assert.EqualValues(t, 4, s.w.Partitions("t"), "the parked are not joined")
	s.write("b", wanting("b", TopicInterest{"v", 4}))
	assert.EqualValues(t, 3, s.w.Partitions("t"))
	s.evict("b", "a", s.renewed("a"))
	assert.Zero(t, s.w.Partitions("t"))
	assert.Zero(t, s.w.Partitions("u"))
}

// §3: "token_base is set once, while it is 0, by a Join or by the Base that carries one, and never changes after."
func TestTokenBaseIsSetOnceByAFirstJoin(t *testing.T) {
	with := func(base int64) Record {
		rec := join("client")
		rec.Join.TokenBase = base
		return rec
	}
	s := newScript(t)
	s.write("a", with(0))
	assert.Zero(t, s.w.TokenBase())
	s.write("a", with(5))
	assert.Zero(t, s.w.TokenBase(), "a later Join does not set it")
	rec := with(6)
	rec.Join.TopicID = TopicID{1}
	s.write("b", rec)
	assert.Zero(t, s.w.TokenBase(), "nor one that is not valid")
	s.write("c", with(1<<62-1))
	assert.Equal(t, MaxTokenBase-1, s.w.TokenBase())
	s.write("d", with(8))
	assert.Equal(t, MaxTokenBase-1, s.w.TokenBase())
}

func TestLeaveWithoutKeepFreesItsLeasesAndEndsIt(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	e := s.claim("a", "t/1", "t/0", "u")
	b := s.claim("b", "v")
	o := s.leave("a", releasing("t/0", e, 7), releasing("u", e, 1, 2))
	s.happened("progressed a t/0 @102 =7", "progressed a u/0 @102 =1", "progressed a u/1 @102 =2",
		"left a", "released a t/0 @102", "released a t/1 @102", "released a u @102")
	s.isFree("t/0", "t/1", "u")
	s.holds("b", "v", b)
	s.status("a", Ended)
	assert.Equal(t, o, s.w.Instance(id("a")).EndedAt)
	for in := range s.w.Instances() {
		assert.Equal(t, id("b"), in.ID)
	}
}

func TestLeaveTakesProgressAsInRelease(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	e := s.claim("a", "t/0", "t/1")
	f := s.claim("b", "u/0")
	s.heartbeat("a", at("t/1", e, 9))
	s.leave("a", releasing("t/0", e-1, 5), releasing("t/1", e, 8), releasing("u/0", f, 3))
	s.happened("ignored a t/0: old epoch", "ignored a t/1: behind", "ignored a u/0: not held",
		"left a", "released a t/0 @102", "released a t/1 @102")
	s.progress("t/0", NoProgress)
	s.progress("t/1", 9)
}

func TestLeaveWithKeepParksIt(t *testing.T) {
	for grace, want := range map[time.Duration]time.Duration{
		0: 10 * time.Second, -1: 10 * time.Second, time.Second: 10 * time.Second, time.Minute: time.Minute,
		time.Hour: time.Hour, time.Hour + 1: time.Hour,
	} {
		s := newScript(t)
		s.write("a", wanting("client", TopicInterest{"t", 2}))
		e := s.claim("a", "t/0")
		o := s.park("a", grace, releasing("t/0", e, 7))
		s.happened("progressed a t/0 @101 =7", "parked a")
		s.status("a", IsParked)
		s.holds("a", "t/0", e)
		in := s.w.Instance(id("a"))
		assert.Equal(t, want, in.TTL, "max(its ttl, grace), grace at most an hour")
		assert.Equal(t, o, in.Renewed)
		assert.Empty(t, in.Interests)
	}
}

func TestInstancesComeInTheOrderOfTheirFirstJoin(t *testing.T) {
	s := newScript(t)
	s.join("z", "m", "a", "k")
	s.join("z")
	s.leave("m")
	s.park("a", time.Minute)
	var names []string
	for in := range s.w.Instances() {
		names = append(names, name(in.ID))
	}
	assert.Equal(t, []string{"z", "a", "k"}, names)
	assert.Nil(t, s.w.Instance(id("nobody")))
	assert.Zero(t, s.w.HeldCount(id("nobody")))
	for range s.w.HeldBy(id("nobody")) {
		assert.Fail(t, "nobody holds nothing")
	}
}
