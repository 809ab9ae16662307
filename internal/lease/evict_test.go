package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// PROTOCOL.md §5 Evict.

func TestEvictEndsATargetWhoseRenewalIsStillThatOne(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	s.claim("a", "t/1", "t/0")
	o := s.evict("b", "a", s.renewed("a"))
	s.happened("evicted a by b", "released a t/0 @102 by b", "released a t/1 @102 by b")
	s.status("a", Ended)
	assert.Equal(t, o, s.w.Instance(id("a")).EndedAt)
	s.isFree("t/0", "t/1")
}

func TestEvictDoesNothingIfThereIsAnotherRenewal(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	e := s.claim("a", "t/0")
	o := s.heartbeat("a")
	for _, renewed := range []int64{e, o + 1, 0, -1} {
		s.evict("b", "a", renewed)
		s.happened("ignored a: renewed since")
	}
	s.status("a", Alive)
	s.holds("a", "t/0", e)
}

func TestEvictOfItsAuthorAnEndedOrAnUnknownOneDoesNothing(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	s.evict("a", "a", s.renewed("a"))
	s.happened("ignored a: target self")
	s.evict("a", "a", s.next)
	s.happened("ignored a: target self")
	s.evict("a", "nobody", 5)
	s.happened("ignored nobody: target unknown")
	o := s.renewed("b")
	s.leave("b")
	s.evict("a", "b", o)
	s.happened("ignored b: target ended")
	s.status("a", Alive)
}

func TestEvictEndsAParkedInstanceToo(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	s.claim("a", "t/0")
	o := s.park("a", time.Minute)
	s.evict("b", "a", o)
	s.happened("evicted a by b", "released a t/0 @102 by b")
	s.status("a", Ended)
}

func TestEvictGoesTargetAfterTarget(t *testing.T) {
	s := newScript(t)
	s.join("a", "b", "c")
	s.claim("b", "t/0")
	a, b := s.renewed("a"), s.renewed("b")
	s.write("c", Record{Kind: KindEvict, Evict: Evict{Targets: []Target{{id("b"), b}, {id("b"), b}, {id("a"), a + 1}, {id("a"), a}}}})
	s.happened("evicted b by c", "released b t/0 @103 by c", "ignored b: target ended", "ignored a: renewed since", "evicted a by c")
}

// takeover: the scene of a restart. old holds t/0 and u, next has its client id.
func restarted(t *testing.T) (s *script, renewed int64) {
	s = newScript(t)
	s.joinAs("old", "client")
	e := s.claim("old", "u", "t/0")
	renewed = s.heartbeat("old", at("t/0", e, 5))
	s.joinAs("next", "client")
	return s, renewed
}

func TestTakeoverGivesTheAuthorWhatTheTargetHeld(t *testing.T) {
	s, renewed := restarted(t)
	o := s.takeover("next", "old", renewed)
	s.happened("evicted old by next", "taken over next t/0 @104 by old", "taken over next u @104 by old")
	s.status("old", Ended)
	s.holds("next", "t/0", o)
	s.holds("next", "u", o)
	s.progress("t/0", 5)
	assert.Equal(t, 2, s.w.HeldCount(id("next")))
}

func TestTakeoverOnlyIfTheTargetHasTheAuthorsClientID(t *testing.T) {
	s, renewed := restarted(t)
	s.joinAs("stranger", "another")
	s.takeover("stranger", "old", renewed)
	s.happened("ignored old: no takeover")
	s.status("old", Alive)
}

func TestTakeoverOnlyIfTheTargetJoinedBeforeTheAuthor(t *testing.T) {
	s, _ := restarted(t)
	s.takeover("old", "next", s.renewed("next"))
	s.happened("ignored next: no takeover")
}

func TestTakeoverOnlyIfTheTargetIsNotParked(t *testing.T) {
	s := newScript(t)
	s.joinAs("old", "client")
	o := s.park("old", time.Minute)
	s.joinAs("next", "client")
	s.takeover("next", "old", o)
	s.happened("ignored old: no takeover")
	s.joinAs("another", "client")
	s.takeover("next", "old", o)
	s.happened("ignored old: no takeover")
	s.status("old", IsParked)
}

func TestTakeoverOnlyIfNothingOfTheTargetWasLoggedSinceTheAuthorsJoin(t *testing.T) {
	s, _ := restarted(t)
	o := s.heartbeat("old")
	s.takeover("next", "old", o)
	s.happened("ignored old: no takeover")
	s.evict("next", "old", o)
	s.happened("evicted old by next", "released old t/0 @101 by next", "released old u @101 by next")
}

func TestTakeoverOnlyIfNoThirdUnendedUnparkedNamesakeIsThere(t *testing.T) {
	s, renewed := restarted(t)
	s.joinAs("third", "client")
	s.takeover("next", "old", renewed)
	s.happened("ignored old: no takeover")
	s.park("third", time.Minute)
	s.takeover("next", "old", renewed)
	s.happened("evicted old by next", "taken over next t/0 @107 by old", "taken over next u @107 by old")
}

func TestTakeoverNamesTheRenewalToo(t *testing.T) {
	s, renewed := restarted(t)
	s.takeover("next", "old", renewed-1)
	s.happened("ignored old: renewed since")
}
