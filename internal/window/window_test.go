package window

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// model says the same as Window in the dumbest way: a list of all offsets that were ever handed out.
type model struct {
	handed []int64
	done   map[int64]bool
	start  int64
	skip   int64
	limit  int
}

func (m *model) position() int64 {
	for _, o := range m.handed {
		if !m.done[o] {
			return o
		}
	}
	p := max(m.start, m.skip)
	if n := len(m.handed); n > 0 {
		p = max(p, m.handed[n-1]+1)
	}
	return p
}

func (m *model) len() (n int) {
	position := m.position()
	for _, o := range m.handed {
		if o >= position {
			n++
		}
	}
	return n
}

func (m *model) pending() (n int) {
	for _, o := range m.handed {
		if !m.done[o] {
			n++
		}
	}
	return n
}

func (m *model) add(o int64) bool {
	if o == math.MaxInt64 || m.len() >= m.limit || o < max(m.start, m.skip) {
		return false
	}
	for _, h := range m.handed {
		if o <= h {
			return false
		}
	}
	m.handed = append(m.handed, o)
	return true
}

func (m *model) finish(o int64) bool {
	for _, h := range m.handed {
		if h == o && !m.done[o] {
			m.done[o] = true
			return true
		}
	}
	return false
}

func (m *model) finishBelow(next int64) {
	for _, h := range m.handed {
		if h < next {
			m.done[h] = true
		}
	}
	m.skip = max(m.skip, next)
}

func check(t *testing.T, w *Window, m *model) {
	t.Helper()
	require.Equal(t, m.position(), w.Position(), "position")
	require.Equal(t, m.len(), w.Len(), "len")
	require.Equal(t, m.pending(), w.Pending(), "pending")
	require.Equal(t, m.len() >= m.limit, w.Full(), "full")
	require.Equal(t, m.limit-m.len(), w.Room(), "room")
}

// run plays a script of bytes on a Window and on the model.
func run(t *testing.T, start int64, limit int, script []byte) {
	w, m := New(start, limit), &model{start: start, limit: limit, done: map[int64]bool{}}
	next := start
	for len(script) >= 2 {
		op, arg := script[0]%9, int64(script[1])
		script = script[2:]
		before := w.Position()
		switch op {
		case 0, 1, 2: // hand out, the next offset or behind a hole
			o := next
			if op == 2 && arg < math.MaxInt64-next {
				o += arg
			}
			ok := m.add(o)
			require.Equal(t, ok, w.Add(o), "add %d", o)
			if ok && o < math.MaxInt64-1 {
				next = o + 1
			}
		case 3, 4: // finish some offset that was handed out
			if n := int64(len(m.handed)); n > 0 {
				o := m.handed[arg*7%n]
				require.Equal(t, m.finish(o), w.Done(o), "done %d", o)
			}
		case 5: // finish the lowest
			o := w.Position()
			require.Equal(t, m.finish(o), w.Done(o), "done %d", o)
		case 6: // offsets that make no sense
			o := next - arg
			require.Equal(t, m.finish(o), w.Done(o), "done %d", o)
			o = start - arg
			require.Equal(t, m.add(o), w.Add(o), "add %d", o)
		case 7:
			o := next
			if arg < math.MaxInt64-next {
				o += arg % 5
			}
			m.skip = max(m.skip, o)
			next = max(next, o)
			w.Skip(o)
		case 8: // finish all below some offset, handed out or not
			o := next
			switch n := int64(len(m.handed)); {
			case arg%3 == 0 && arg < math.MaxInt64-next:
				o += arg % 5
			case n > 0:
				o = m.handed[arg*7%n]
			}
			m.finishBelow(o)
			next = max(next, o)
			w.DoneBelow(o)
		}
		check(t, w, m)
		require.GreaterOrEqual(t, w.Position(), before, "the position went back")
	}
}

func TestWindowEqualsTheModel(t *testing.T) {
	for seed := range uint64(100) {
		r := rand.New(rand.NewPCG(seed, 1))
		script := make([]byte, 400)
		for i := range script {
			script[i] = byte(r.Uint32())
		}
		start := []int64{0, 1 << 31, 1 << 40, math.MaxInt64 - 60}[r.IntN(4)]
		run(t, start, []int{0, 1, 3, 17, 64, 1000}[r.IntN(6)], script)
	}
}

func FuzzWindow(f *testing.F) {
	f.Add(int64(0), uint16(4), []byte{0, 0, 0, 0, 3, 1, 5, 0, 7, 3})
	f.Add(int64(math.MaxInt64-3), uint16(9), []byte{0, 0, 0, 0, 0, 0, 0, 0, 5, 0, 5, 0, 5, 0, 7, 3})
	f.Fuzz(func(t *testing.T, start int64, limit uint16, script []byte) {
		run(t, max(start, 0), int(limit), script[:min(len(script), 300)])
	})
}

func TestThePositionMovesOverTheFinishedPrefixOnly(t *testing.T) {
	w := New(10, 100)
	for o := int64(10); o < 15; o++ {
		require.True(t, w.Add(o))
	}
	require.True(t, w.Done(12))
	require.True(t, w.Done(11))
	assert.Equal(t, int64(10), w.Position())
	assert.Equal(t, 5, w.Len(), "finished ones behind a hole count")
	assert.Equal(t, 3, w.Pending())
	require.True(t, w.Done(10))
	assert.Equal(t, int64(13), w.Position())
	assert.Equal(t, 2, w.Len())
}

func TestDoneIsIdempotent(t *testing.T) {
	w := New(0, 10)
	require.True(t, w.Add(0))
	require.True(t, w.Add(1))
	assert.False(t, w.Done(2), "never handed out")
	require.True(t, w.Done(1))
	assert.False(t, w.Done(1), "finished before, behind a hole")
	require.True(t, w.Done(0))
	assert.False(t, w.Done(0), "finished before, below the position")
	assert.Equal(t, int64(2), w.Position())
}

func TestSkipMovesThePositionWhenAllIsFinished(t *testing.T) {
	w := New(0, 10)
	w.Skip(3)
	assert.Equal(t, int64(3), w.Position(), "nothing was handed out")
	require.True(t, w.Add(3))
	w.Skip(9)
	w.Skip(5)
	assert.Equal(t, int64(3), w.Position(), "3 is in hand")
	assert.False(t, w.Add(8), "nothing below 9 was to come")
	require.True(t, w.Done(3))
	assert.Equal(t, int64(9), w.Position())
	assert.True(t, w.Add(9))
}

func TestDoneBelowFinishesEverythingBefore(t *testing.T) {
	w := New(0, 10)
	for o := range int64(5) {
		require.True(t, w.Add(o))
	}
	require.True(t, w.Done(3))
	w.DoneBelow(2)
	assert.Equal(t, int64(2), w.Position())
	assert.Equal(t, 2, w.Pending())
	w.DoneBelow(1)
	assert.Equal(t, int64(2), w.Position(), "never back")
	w.DoneBelow(3)
	assert.Equal(t, int64(4), w.Position(), "3 was finished before")
	w.DoneBelow(9)
	assert.Equal(t, int64(9), w.Position(), "also over what was not handed out")
	assert.Zero(t, w.Pending())
	assert.Zero(t, w.Len())
	assert.False(t, w.Add(8))
	assert.True(t, w.Add(9))
}

func TestTheLastOffsets(t *testing.T) {
	w := New(math.MaxInt64-2, 10)
	require.True(t, w.Add(math.MaxInt64-2))
	require.True(t, w.Add(math.MaxInt64-1))
	assert.False(t, w.Add(math.MaxInt64), "no position lies behind it")
	assert.False(t, w.Add(math.MinInt64))
	assert.False(t, w.Done(math.MaxInt64))
	assert.False(t, w.Done(math.MinInt64))
	require.True(t, w.Done(math.MaxInt64-2))
	require.True(t, w.Done(math.MaxInt64-1))
	assert.Equal(t, int64(math.MaxInt64), w.Position())
}

func TestOffsetsFarApartAreFound(t *testing.T) {
	w := New(0, 1000)
	var offsets []int64
	for o := int64(1); o > 0 && o < math.MaxInt64/2; o *= 2 {
		offsets = append(offsets, o, o+o/2+1)
	}
	for i := 0; i < len(offsets); i++ {
		if !w.Add(offsets[i]) {
			offsets = append(offsets[:i], offsets[i+1:]...)
			i--
		}
	}
	require.Greater(t, len(offsets), 60)
	rand.New(rand.NewPCG(1, 2)).Shuffle(len(offsets), func(i, j int) { offsets[i], offsets[j] = offsets[j], offsets[i] })
	for _, o := range offsets {
		require.True(t, w.Done(o), "%d", o)
	}
	assert.Zero(t, w.Pending())
	assert.Zero(t, w.Len())
}

func TestMemoryFollowsUse(t *testing.T) {
	w := New(0, 1<<20)
	assert.Zero(t, cap(w.ring), "unused: nothing")
	next := int64(0)
	round := func(n int) {
		for range n {
			w.Add(next)
			next++
		}
		for o := next - int64(n); o < next; o++ {
			w.Done(o)
		}
	}
	round(10)
	assert.Len(t, w.ring, smallest)
	round(10_000)
	assert.Len(t, w.ring, 16384, "no more than twice what is used, whatever the limit")
	for range 20 * patience {
		round(1)
	}
	assert.Len(t, w.ring, smallest, "what a burst took comes back")

	for range 5 {
		round(10_000)
		for range patience - 1 {
			round(1)
		}
		require.Len(t, w.ring, 16384, "bursts that come again and again keep their room")
	}
	assert.Equal(t, next, w.Position())
	assert.Zero(t, w.Len())
}

func TestARingIsHalvedAfter64RoundsThatLeaveThreeQuartersUnused(t *testing.T) {
	for name, finish := range map[string]func(w *Window, from, next int64){
		"Done": func(w *Window, from, next int64) {
			for o := from; o < next; o++ {
				w.Done(o)
			}
		},
		"DoneBelow": func(w *Window, _, next int64) { w.DoneBelow(next) },
	} {
		t.Run(name, func(t *testing.T) {
			w, next := New(0, 1000), int64(0)
			round := func(n int) {
				from := next
				for range n {
					w.Add(next)
					next++
				}
				finish(w, from, next)
			}
			round(64)
			for range patience - 1 {
				round(16)
			}
			require.Len(t, w.ring, 64)
			for range patience {
				w.DoneBelow(next) // it is empty already
			}
			require.Len(t, w.ring, 64, "no round")
			round(16)
			assert.Len(t, w.ring, 32)
			for range 2 * patience {
				round(9)
			}
			assert.Len(t, w.ring, 32, "more than a quarter is used")
		})
	}
}

func TestSteadyUseDoesNotAllocate(t *testing.T) {
	for name, batch := range map[string]int{"one": 1, "some": 10, "many": 5000} {
		t.Run(name, func(t *testing.T) {
			w, next := New(0, 10_000), int64(0)
			round := func() {
				for range batch {
					w.Add(next)
					next++
				}
				for o := next - 1; o >= next-int64(batch); o-- {
					w.Done(o)
				}
			}
			round()
			assert.Zero(t, testing.AllocsPerRun(200, round))
			assert.Equal(t, next, w.Position())
		})
	}
}
