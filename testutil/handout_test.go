package testutil

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestHandoutLogComesBackAsItWasWritten(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenHandoutLog(dir, "w1.1", "w1")
	require.NoError(t, err)
	l.Note(Started)
	b := Now()
	a := Now()
	require.LessOrEqual(t, b, a)
	l.Handout(b, a, "orders", 7, 1<<60, 42)
	l.Handouts(b, a, "orders", 7, 1<<60, 43, 50)
	l.Finished("orders", 7, 1<<60, 42, 42)
	l.NoteOf("w2.1", Killed)
	// What is written is in the file at once: the process may die now.
	logs, err := ReadHandoutLogs(dir)
	require.NoError(t, err)
	require.NoError(t, l.Close())

	require.Len(t, logs, 1)
	got := logs[0]
	p := Place{"orders", 7}
	assert.Equal(t, "w1.1", got.Process)
	assert.Equal(t, "w1", got.Client)
	assert.Equal(t, []Handout{{p, b, a, 1 << 60, 42, 42}, {p, b, a, 1 << 60, 43, 50}}, got.Handouts)
	require.Len(t, got.Finishes, 1)
	assert.Equal(t, Finish{p, got.Finishes[0].At, 1 << 60, 42, 42}, got.Finishes[0])
	assert.GreaterOrEqual(t, got.Finishes[0].At, a)
	require.Len(t, got.Happenings, 2)
	assert.Equal(t, Started, got.Happenings[0].What)
	assert.Equal(t, Happening{got.Happenings[1].At, Killed, "w2.1"}, got.Happenings[1])
	assert.False(t, got.Torn)
}

func TestATornLastLineIsLeftOut(t *testing.T) {
	l, err := ReadHandoutLog(strings.NewReader("p a ca\nh 1 2 t 0 3 4 5\nh 6 7 t 0 3 6 1"))
	require.NoError(t, err)
	assert.True(t, l.Torn)
	assert.Len(t, l.Handouts, 1)
}

func TestALineInTheMiddleThatMakesNoSenseIsAnError(t *testing.T) {
	for _, line := range []string{"", "x 1", "h 1 2 t 0 3 4", "h 1 2 t 0 3 x 5", "h 1 2 t 0 3 5 4", "c 1 t 0 3 4", "e 1 killed"} {
		_, err := ReadHandoutLog(strings.NewReader("p a ca\n" + line + "\nh 1 2 t 0 3 4 5\n"))
		assert.ErrorContains(t, err, "line 2", "%q", line)
	}
}

func TestARunNeverWritesOverAnothersLog(t *testing.T) {
	dir := t.TempDir()
	l, err := OpenHandoutLog(dir, "a", "")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	_, err = OpenHandoutLog(dir, "a", "")
	assert.ErrorIs(t, err, os.ErrExist)
	for _, bad := range []string{"", "a b", "a/b"} {
		_, err = OpenHandoutLog(dir, bad, "")
		assert.Error(t, err, "%q", bad)
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	require.NoError(t, err)
	assert.Len(t, names, 1)
}

func TestWritingToAClosedLogIsReported(t *testing.T) {
	l, err := OpenHandoutLog(t.TempDir(), "a", "ca")
	require.NoError(t, err)
	require.NoError(t, l.Close())
	l.Note(Ended)
	assert.ErrorIs(t, l.Err(), os.ErrClosed)
}

// TestSpansAgreeWithSets compares the arithmetic of spans with that of plain sets of numbers.
func TestSpansAgreeWithSets(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	random := func() (spans, map[int64]bool) {
		var in []Span
		set := make(map[int64]bool)
		for range rnd.IntN(6) {
			s := Span{rnd.Int64N(30), rnd.Int64N(30)}
			in = append(in, s)
			for o := s.From; o < s.To; o++ {
				set[o] = true
			}
		}
		return setOf(in...), set
	}
	check := func(got spans, want func(int64) bool) {
		var n int64
		for o := int64(-1); o < 31; o++ {
			in := false
			for _, s := range got {
				in = in || s.From <= o && o < s.To
			}
			require.Equal(t, want(o), in, "offset %d of %v", o, got)
			if in {
				n++
			}
		}
		require.Equal(t, n, got.count())
		for i := 1; i < len(got); i++ {
			require.Less(t, got[i-1].To, got[i].From, "spans that touch: %v", got)
		}
	}
	for range 2000 {
		a, as := random()
		b, bs := random()
		check(a, func(o int64) bool { return as[o] })
		check(a.or(b), func(o int64) bool { return as[o] || bs[o] })
		check(a.and(b), func(o int64) bool { return as[o] && bs[o] })
		check(a.without(b), func(o int64) bool { return as[o] && !bs[o] })
	}
}

func BenchmarkHandout(b *testing.B) {
	l, err := OpenHandoutLog(b.TempDir(), "a", "ca")
	require.NoError(b, err)
	for i := range b.N {
		l.Handout(1, 2, "orders", 7, 1<<60, int64(i))
	}
	require.NoError(b, l.Close())
}
