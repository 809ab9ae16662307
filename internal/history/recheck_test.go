package history

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// second reads the shard again from a base, entries changed on the way.
func (s *shard) second(l *Log, b Base, change func(*entry) bool) *Recheck {
	r := l.Recheck(b)
	for _, e := range s.entries {
		if e.rec.Offset >= b.From && change(&e) {
			r.Add(&e.rec, e.value)
		}
	}
	return r
}

func asItIs(*entry) bool { return true }

func TestASecondReadingOfTheSameLogIsTheSame(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.foreign()
	s.base(s.next - 1)
	s.seqs = map[string]uint64{}
	s.join("a")
	s.claim("a", 1)
	s.probe()
	s.snapshot("a", 60)
	s.beat("a")
	for _, from := range []int64{0, 1, 4} {
		b, ok := s.scan(from).Base()
		require.True(t, ok)
		same, reached := s.second(s.log, b, asItIs).Same()
		assert.True(t, same && reached)
	}
	same, reached := s.second(s.log, emptyBase(coordination, 0), asItIs).Same()
	assert.True(t, same && reached)
}

func TestASecondReadingOfAnotherLogDiffers(t *testing.T) {
	s := newShard(t)
	s.join("a")
	for range 5 {
		s.beat("a")
	}
	at := func(o int64, change func(*entry) bool) (same, reached bool) {
		return s.second(s.log, emptyBase(coordination, 0), func(e *entry) bool {
			return e.rec.Offset != o || change(e)
		}).Same()
	}
	for o := range s.next {
		same, reached := at(o, func(e *entry) bool { e.value = []byte("other"); return true })
		assert.True(t, !same && reached, "another value at %d", o)
		same, reached = at(o, func(*entry) bool { return false })
		assert.False(t, same, "nothing at %d", o)
		assert.Equal(t, o != s.next-1, reached, "a reading that ends before the position has not reached it")
	}
	s.foreign()
	s.log.hash++
	same, reached := s.second(s.log, emptyBase(coordination, 0), asItIs).Same()
	assert.True(t, !same && reached)
}

func TestTheLogMayGoOnBesideARecheck(t *testing.T) {
	s := newShard(t)
	s.join("a")
	r := s.log.Recheck(emptyBase(coordination, 0))
	s.beat("a")
	for _, e := range s.entries {
		r.Add(&e.rec, e.value)
	}
	same, reached := r.Same()
	assert.True(t, same && reached)
}

// A log that takes nothing more is held against the second reading where it stands, however far that reads on.
func TestASecondReadingMayGoOnBeyondThePosition(t *testing.T) {
	s := newShard(t)
	s.join("a")
	upto := s.snapshot("a", 1<<20)
	s.beat("a")
	log, at := s.log, s.next
	s.log = nil
	for range 3 {
		s.foreign()
	}
	for _, b := range []Base{emptyBase(coordination, 0), {From: upto + 1, World: log.World(), Hash: log.hash}} {
		r := s.second(log, b, asItIs)
		same, reached := r.Same()
		assert.True(t, same && reached, "from %d", b.From)
		r = s.second(log, b, func(e *entry) bool { return e.rec.Offset >= at })
		_, reached = r.Same()
		assert.Equal(t, b.From > 0, reached, "from %d: one that leaves the position out cannot be judged", b.From)
	}
}

func TestABaseNewerThanThePositionAtWhichTheLogHasNothingIsOfAnother(t *testing.T) {
	s := newShard(t)
	s.join("a")
	behind, without := s.follow(emptyBase(coordination, 0)), s.follow(emptyBase(coordination, 0))
	upto := s.snapshot("a", 1<<20)
	b, ok := s.scan(1).Base()
	require.True(t, ok)
	exact, other := behind.Recheck(b), behind.Recheck(Base{From: b.From, World: b.World})
	behind.Take(&s.entries[upto].rec, s.entries[upto].value, nil)
	require.Equal(t, upto, behind.World().Last())
	same, reached := exact.Same()
	assert.True(t, same && reached, "the log stands exactly there")
	same, reached = other.Same()
	assert.True(t, !same && reached)

	r := without.Recheck(Base{From: b.From, World: b.World})
	rec := lease.Record{Kind: lease.Foreign, Offset: upto + 1}
	without.Take(&rec, nil, nil)
	same, reached = r.Same()
	assert.True(t, !same && reached, "no hash there, and 0 is none")
}

func TestABaseNewerThanThePositionIsComparedWhenTheLogIsThere(t *testing.T) {
	s := newShard(t)
	s.join("a")
	behind := s.follow(emptyBase(coordination, 0))
	s.snapshot("a", 1<<20)
	b, ok := s.scan(1).Base()
	require.True(t, ok)
	r := behind.Recheck(b)
	_, reached := r.Same()
	assert.False(t, reached)
	for _, e := range s.entries[1:] {
		behind.Take(&e.rec, e.value, nil)
	}
	same, reached := r.Same()
	assert.True(t, same && reached)
	b.Hash++
	same, reached = s.second(behind, b, asItIs).Same()
	assert.True(t, !same && reached)
	empty := NewLog(emptyBase(coordination, 0))
	same, reached = empty.Recheck(emptyBase(coordination, 0)).Same()
	assert.True(t, same && reached, "nothing is the same as nothing")
}

// TestASecondReadingWithoutABaseBeginsAtWhatIsRemembered: the log's start may have passed every base, and who has read what the log
// has lost must notice all the same.
func TestASecondReadingWithoutABaseBeginsAtWhatIsRemembered(t *testing.T) {
	s := newShard(t)
	s.join("a")
	for range 6 {
		s.beat("a")
	}
	read := func(l *Log, start int64, change func(*entry) bool) (same, reached bool) {
		_, ok := s.scan(start).Base()
		require.False(t, ok && start > 0)
		r, from, ok := l.RecheckFrom(start)
		require.True(t, ok)
		require.GreaterOrEqual(t, from, start)
		for _, e := range s.entries {
			if e.rec.Offset >= from && change(&e) {
				r.Add(&e.rec, e.value)
			}
		}
		return r.Same()
	}
	for start := int64(1); start < s.next; start++ {
		same, reached := read(s.log, start, asItIs)
		assert.True(t, same && reached, "from %d", start)
		for o := start; o < s.next; o++ {
			same, reached = read(s.log, start, func(e *entry) bool {
				if e.rec.Offset == o {
					e.value = []byte("other")
				}
				return true
			})
			assert.True(t, !same && reached, "from %d, another value at %d", start, o)
		}
	}
	same, reached := read(s.log, s.next, asItIs)
	assert.True(t, same && reached, "nothing is left to tell")

	late := s.follow(emptyBase(coordination, 0))
	late.ring.reset()
	rec := lease.Record{Kind: lease.Foreign, Offset: s.next}
	late.Take(&rec, nil, nil)
	_, from, ok := late.RecheckFrom(1)
	require.True(t, ok)
	assert.Equal(t, s.next+1, from, "the oldest that is remembered is above the start")

	_, _, ok = NewLog(emptyBase(coordination, 0)).RecheckFrom(0)
	assert.False(t, ok, "nothing is remembered")
}
