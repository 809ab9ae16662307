package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// PROTOCOL.md §5 Release.

func TestReleaseOfAKeyHeldWithThatEpochFreesIt(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	e := s.claim("a", "t/0", "t/1", "u")
	f := s.claim("b", "v/0")
	s.release("a", "", releasing("t/0", e-1), releasing("t/1", e), releasing("v/0", f), releasing("u/1", e), releasing("w/1", e), releasing("t/1", e))
	s.happened("ignored a t/0: old epoch", "released a t/1 @102", "ignored a v/0: not held",
		"ignored a u/1: not held", "ignored a w/1: not held", "ignored a t/1: not held")
	s.holds("a", "t/0", e)
	s.holds("a", "u", e)
	s.holds("b", "v/0", f)
	s.isFree("t/1")
}

func TestReleaseSetsTheProgressOfItsPartitions(t *testing.T) {
	s := newScript(t)
	s.join("a")
	e := s.claim("a", "t/5", "u")
	rk := releasing("t/5", e, 7)
	rk.Partitions, rk.Next = append(rk.Partitions, 6, 4, -1), append(rk.Next, 8, 8, 9)
	s.release("a", "", rk.of("A"), releasing("u", e, 10, 11).of("B"))
	s.happened("progressed a t/5 @101 =7", "ignored a t/6: malformed", "ignored a t/4: malformed", "ignored a t: malformed", "released a t/5 @101",
		"progressed a u/0 @101 =10", "progressed a u/1 @101 =11", "released a u @101")
	p, _ := s.w.Progress("t", 5)
	assert.Equal(t, Progress{TopicID: topicID("A"), Next: 7, Client: "client-a", Epoch: e}, p)
	_, known := s.w.Progress("t", 6)
	assert.False(t, known)
}

func TestReleaseNeverLowersProgressAndTreatsTopicIDsAsHeartbeat(t *testing.T) {
	s := newScript(t)
	s.join("a")
	e := s.claim("a", "t/0", "t/1", "t/2", "t/3")
	for _, k := range []string{"t/0", "t/1", "t/2"} {
		s.heartbeat("a", atID(k, "A", e, 5))
	}
	s.heartbeat("a", atID("t/2", "B", e, 5))
	s.release("a", "", releasing("t/0", e, 4), releasing("t/1", e, 4).of("B"), releasing("t/3", e, -1))
	s.happened("ignored a t/0: behind", "released a t/0 @101", "progressed a t/1 @101 =4", "released a t/1 @101",
		"ignored a t/3: malformed", "released a t/3 @101")
	s.release("a", "", releasing("t/2", e, 9).of("A"))
	s.happened("ignored a t/2: old topic", "released a t/2 @101")
	s.progress("t/0", 5)
	s.progress("t/1", 4)
	s.progress("t/2", 5)
}

func TestASuccessorThatIsJoinedHoldsTheKeyAtOnce(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	e := s.claim("a", "t/0", "u")
	o := s.release("a", "b", releasing("t/0", e, 7), releasing("u", e))
	s.happened("progressed a t/0 @102 =7", "handed over b t/0 @103 by a", "handed over b u @103 by a")
	s.holds("b", "t/0", o)
	s.holds("b", "u", o)
	p, _ := s.w.Progress("t", 0)
	assert.Equal(t, Progress{Next: 7, Client: "client-b", Epoch: o}, p)
	assert.Zero(t, s.w.HeldCount(id("a")))
}

func TestASuccessorThatIsNotJoinedOrTheAuthorLeavesTheKeyFree(t *testing.T) {
	s := newScript(t)
	s.join("a", "ended", "parked")
	s.leave("ended")
	s.park("parked", time.Minute)
	for _, successor := range []string{"a", "ended", "parked", "unknown"} {
		e := s.claim("a", "t/0")
		s.release("a", successor, releasing("t/0", e, 7))
		s.isFree("t/0")
		assert.Equal(t, "ignored a t/0: not successor", did(s.last[2]), successor)
		assert.Equal(t, Released, s.last[3].Kind)
		s.progress("t/0", 7)
	}
}

func TestUnfitMarksUntilTheAuthorsNextJoinOrEnd(t *testing.T) {
	for what, end := range map[string]func(s *script){
		"join":  func(s *script) { s.joinAs("a", "client-a") },
		"leave": func(s *script) { s.leave("a") },
		"evict": func(s *script) { s.evict("b", "a", s.renewed("a")) },
		"evict when parked": func(s *script) {
			s.park("a", time.Minute)
			assert.True(s.t, s.w.Unfit(id("a"), key("t/0")), "parked is not ended")
			s.evict("b", "a", s.renewed("a"))
		},
	} {
		t.Run(what, func(t *testing.T) {
			s := newScript(t)
			s.join("a", "b")
			e := s.claim("a", "t/0", "u", "t/1")
			s.releaseUnfit("a", releasing("u", e), releasing("t/0", e, 3))
			s.happened("released a u @102", "marked a u", "progressed a t/0 @102 =3", "released a t/0 @102", "marked a t/0")
			f := s.claim("b", "t/0")
			version := s.w.Version()
			s.releaseUnfit("b", releasing("t/0", f), releasing("t/1", e))
			assert.NotEqual(t, version, s.w.Version())
			assert.True(t, s.w.Unfit(id("a"), key("t/0")))
			assert.True(t, s.w.Unfit(id("a"), key("u")))
			assert.True(t, s.w.Unfit(id("b"), key("t/0")))
			assert.False(t, s.w.Unfit(id("a"), key("t/1")))
			assert.False(t, s.w.Unfit(id("b"), key("t/1")), "it did not hold it")
			assert.True(t, s.w.HasMark(key("u")))

			end(s)
			var unmarked []string
			for _, e := range s.last {
				if e.Kind == Unmarked {
					unmarked = append(unmarked, did(e))
				}
			}
			assert.Equal(t, []string{"unmarked a t/0", "unmarked a u"}, unmarked)
			assert.False(t, s.w.Unfit(id("a"), key("t/0")))
			assert.True(t, s.w.Unfit(id("b"), key("t/0")), "that of another stays")
			assert.False(t, s.w.HasMark(key("u")))
			assert.True(t, s.w.HasMark(key("t/0")))
		})
	}
}

func TestUnfitWithASuccessorMarksTheAuthor(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	e := s.claim("a", "t/0")
	rec := Record{Kind: KindRelease, Release: Release{Keys: []ReleasedKey{releasing("t/0", e)}, Successor: id("b"), Unfit: true}}
	f := s.write("a", rec)
	s.happened("handed over b t/0 @103 by a", "marked a t/0")

	// It comes back, and is given up again: one mark.
	s.release("b", "a", releasing("t/0", f))
	rec.Release.Keys[0].Epoch = s.w.Last()
	s.write("a", rec)
	s.happened("handed over b t/0 @105 by a")
	s.joinAs("a", "client-a")
	assert.False(t, s.w.HasMark(key("t/0")))
}
