package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// PROTOCOL.md §5 Claim.

func TestClaimGrantsEachFreeKeyWithTheRecordsOffsetAsEpoch(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	e := s.claim("a", "t/0", "u")
	s.happened("granted a t/0 @102", "granted a u @102")
	s.holds("a", "t/0", e)
	s.holds("a", "u", e)
	s.claim("b", "t/0", "t/1", "u/4", "u")
	s.happened("refused b t/0 by a: held by other", "granted b t/1 @103", "refused b u/4 by a: held by other", "refused b u by a: held by other")
}

func TestClaimOfAKeyThatItsAuthorHoldsChangesNothing(t *testing.T) {
	s := newScript(t)
	s.join("a")
	e := s.claim("a", "t/0", "u")
	version := s.w.Version()
	s.claim("a", "u", "t/0")
	s.happened("held a u @101", "held a t/0 @101")
	s.holds("a", "t/0", e)
	assert.Equal(t, version, s.w.Version())
}

func TestAWholeTopicConflictsWithEachOfItsPartitions(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	s.claim("a", "t/7", "t/3")
	s.claim("b", "t/5", "t")
	s.happened("granted b t/5 @103", "refused b t by a: held by other")
	k, l, ok := s.w.Conflict(key("t"))
	assert.True(t, ok)
	assert.Equal(t, key("t/3"), k, "the lowest")
	assert.Equal(t, id("a"), l.Instance)
	s.claim("a", "t")
	s.happened("refused a t by a: held by other")
	s.claim("a", "u")
	s.claim("a", "u/1")
	s.happened("refused a u/1 by a: held by other")
	k, _, ok = s.w.Conflict(key("u/1"))
	assert.True(t, ok)
	assert.Equal(t, key("u"), k)
	k, _, ok = s.w.Owner("u", 1)
	assert.True(t, ok)
	assert.Equal(t, key("u"), k)
	for _, free := range []string{"t/4", "v", "v/1"} {
		_, _, ok = s.w.Conflict(key(free))
		assert.False(t, ok, free)
	}
}

func TestClaimGoesKeyAfterKeyEachOnTheResultOfTheOneBefore(t *testing.T) {
	s := newScript(t)
	s.join("a")
	s.claim("a", "t", "t/0", "t", "u/0", "u", "u/0")
	s.happened("granted a t @101", "refused a t/0 by a: held by other", "held a t @101",
		"granted a u/0 @101", "refused a u by a: held by other", "held a u/0 @101")
}

func TestAParkedKeyIsGrantedToItsClientAlone(t *testing.T) {
	s := newScript(t)
	s.joinAs("old", "client")
	e := s.claim("old", "t/0", "t/1")
	s.joinAs("next", "client")
	s.claim("next", "t/0")
	s.happened("refused next t/0 by old: held by other") // not parked yet
	s.park("old", time.Minute)
	s.joinAs("other", "another")
	s.claim("other", "t/0", "t")
	s.happened("refused other t/0 by old: held by other", "refused other t by old: held by other")
	o := s.claim("next", "t/0")
	s.happened("granted next t/0 @107 by old")
	s.holds("next", "t/0", o)
	s.holds("old", "t/1", e)
	assert.Equal(t, 1, s.w.HeldCount(id("old")))
}

func TestParkedLeasesOnConflictingKeysEnd(t *testing.T) {
	s := newScript(t)
	s.joinAs("old", "client")
	s.claim("old", "t/4", "t/2", "u")
	s.park("old", time.Minute)
	s.joinAs("next", "client")
	o := s.claim("next", "t", "u/1", "u/2")
	s.happened("released old t/2 @101 by next", "released old t/4 @101 by next", "granted next t @104 by old",
		"released old u @101 by next", "granted next u/1 @104 by old", "granted next u/2 @104")
	s.holds("next", "t", o)
	s.holds("next", "u/2", o)
	s.isFree("t/2", "t/4", "u")
	assert.Zero(t, s.w.HeldCount(id("old")))
}

func TestEveryConflictingLeaseMustBeAParkedNamesakes(t *testing.T) {
	s := newScript(t)
	s.joinAs("old", "client")
	s.join("b")
	e := s.claim("old", "t/0")
	f := s.claim("b", "t/1")
	s.park("old", time.Minute)
	s.joinAs("next", "client")
	s.claim("next", "t")
	s.happened("refused next t by b: held by other")
	s.holds("old", "t/0", e)
	s.holds("b", "t/1", f)
}

func TestAtomicOneRefusalUndoesAll(t *testing.T) {
	s := newScript(t)
	s.joinAs("old", "client")
	e := s.claim("old", "t/0", "t/1", "w")
	s.park("old", time.Minute)
	s.joinAs("next", "client")
	f := s.claim("next", "v/0")
	s.join("b")
	g := s.claim("b", "u/0")
	version, restore := s.w.Version(), s.w.AppendBinary(nil)
	o := s.claimAtomic("next", "t", "v/0", "x/1", "w/3", "u/0", "x/2", "x/1")
	s.happened("refused next t: atomic partner", "refused next v/0: atomic partner", "refused next x/1: atomic partner", "refused next w/3: atomic partner",
		"refused next u/0 by b: held by other", "refused next x/2: atomic partner", "refused next x/1: atomic partner")
	s.holds("old", "t/0", e)
	s.holds("old", "t/1", e)
	s.holds("old", "w", e)
	s.holds("next", "v/0", f)
	s.holds("b", "u/0", g)
	s.isFree("t", "x/1", "x/2", "w/3")
	assert.Equal(t, o, s.renewed("next"))
	assert.Equal(t, version, s.w.Version())
	_, known := s.w.Progress("x", 1)
	assert.False(t, known, "as if nobody had ever held it")

	// But for the renewal of its author the world is what it was.
	was, err := ParseWorld(restore)
	assert.NoError(t, err)
	rec := Record{Kind: KindHeartbeat, Instance: id("next"), Seq: s.seqs["next"], Offset: o}
	was.Apply(&rec, nil)
	assert.Equal(t, was.AppendBinary(nil), s.w.AppendBinary(nil))
}

func TestAtomicGrantsAllWhereNoneIsRefused(t *testing.T) {
	s := newScript(t)
	s.join("a")
	s.claim("a", "t/0")
	s.claimAtomic("a", "t/0", "t/1", "u")
	s.happened("held a t/0 @101", "granted a t/1 @102", "granted a u @102")
	s.claimAtomic("a", "v/0", "v")
	s.happened("refused a v/0: atomic partner", "refused a v by a: held by other")
	s.isFree("v/0", "v")
}

func TestClaimOfWhatIsNoKeyIsRefused(t *testing.T) {
	s := newScript(t)
	s.join("a")
	s.claim("a", "/0", "t/-2", "t/0")
	s.happened("refused a: malformed", "refused a t/-2: malformed", "granted a t/0 @101")
}
