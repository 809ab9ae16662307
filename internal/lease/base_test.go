package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

// PROTOCOL.md §7: "Valid iff world.last <= seen < o. Then the world is the empty world, with that token base".

func TestBaseIsValidIffLastIsSeenAndSeenIsBeforeIt(t *testing.T) {
	for _, c := range []struct {
		seen  int64
		valid bool
	}{{99, false}, {100, true}, {104, true}, {105, false}, {106, false}, {-1, false}} {
		s := newScript(t)
		s.join("a") // at 100
		s.next = 105
		o := s.base(c.seen, 7)
		assert.Equal(t, o, s.w.Last())
		if c.valid {
			assert.Equal(t, "rebased", did(s.last[0]))
			assert.Len(t, s.last, 1)
			assert.Nil(t, s.w.Instance(id("a")))
			continue
		}
		s.ignored(BaseNotEmpty)
		s.status("a", Alive)
	}
	s := newScript(t)
	s.base(-1, 7)
	assert.Equal(t, "rebased", did(s.last[0]), "of a log of which nothing was read")
}

func TestAValidBaseMakesTheEmptyWorldWithThatTokenBase(t *testing.T) {
	s := newScript(t)
	rec := wanting("client", TopicInterest{"t", 4})
	rec.Join.TokenBase = 5
	s.write("a", rec)
	s.join("ended", "parked", "unfit")
	e := s.claim("unfit", "t/0", "t/1")
	s.releaseUnfit("unfit", releasing("t/0", e, 5))
	s.leave("ended")
	s.claim("parked", "u")
	s.park("parked", time.Minute)
	o := s.base(s.w.Last(), 9)

	empty := NewWorld(coordination)
	empty.Apply(&Record{Kind: KindBase, Offset: o, Base: Base{Seen: o - 1, TokenBase: 9}}, nil)
	assert.Equal(t, empty.AppendBinary(nil), s.w.AppendBinary(nil))
	assert.EqualValues(t, 9, s.w.TokenBase())
	assert.EqualValues(t, 2, s.w.WireVersion())
	assert.Equal(t, coordination, s.w.TopicID())
	s.isFree("u", "t/1")
	_, known := s.w.Progress("t", 0)
	assert.False(t, known)
	assert.Zero(t, s.w.Partitions("t"))

	// No memory of ended ones either.
	s.writeSeq("ended", 1, join("client"))
	s.happened("joined ended")
	assert.EqualValues(t, 9, s.w.TokenBase())
}

func TestABaseWithoutATokenBaseLeavesItToTheFirstJoin(t *testing.T) {
	s := newScript(t)
	s.base(-1, 0)
	rec := join("client")
	rec.Join.TokenBase = 4
	s.write("a", rec)
	assert.EqualValues(t, 4, s.w.TokenBase())
}
