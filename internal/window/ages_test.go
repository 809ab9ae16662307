package window

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

const second = time.Second

func TestTheAgeIsThatOfTheOldestUnfinishedOffset(t *testing.T) {
	var a Ages
	_, ok := a.Since(0)
	assert.False(t, ok, "nothing was handed out")
	a.Note(5, 5, second)
	a.Note(6, 69, 2*second)
	a.Note(80, 80, 3*second)
	for _, c := range []struct {
		position int64
		want     time.Duration
		found    bool
	}{{5, second, true}, {6, 2 * second, true}, {69, 2 * second, true}, {70, 3 * second, true}, {80, 3 * second, true}, {81, 0, false}} {
		at, ok := a.Since(c.position)
		assert.Equal(t, c.want, at, c.position)
		assert.Equal(t, c.found, ok, c.position)
	}
	a.Note(81, 81, 4*second)
	at, ok := a.Since(81)
	assert.True(t, ok)
	assert.Equal(t, 4*second, at)
}

func TestWhatWasTakenBackCountsFromWhenItIsHandedOutAgain(t *testing.T) {
	var a Ages
	a.Note(0, 9, 1*second)
	a.Note(10, 19, 2*second)
	a.Note(20, 29, 3*second)
	a.Note(15, 15, 9*second) // 15 to 29 came back
	for position, want := range map[int64]time.Duration{0: second, 10: 2 * second, 14: 2 * second, 15: 9 * second} {
		b := Ages{marks: append([]mark(nil), a.marks...)}
		at, ok := b.Since(position)
		assert.True(t, ok)
		assert.Equal(t, want, at, position)
	}
	a.Note(10, 10, 10*second)
	assert.Equal(t, []mark{{9, second}, {10, 10 * second}}, a.marks)
	a.Note(0, 0, 11*second) // all of it
	at, _ := a.Since(0)
	assert.Equal(t, 11*second, at)
}

func TestOffsetsHandedOutWithin10MsShareTheAgeOfTheFirst(t *testing.T) {
	var a Ages
	a.Note(0, 4, second)
	a.Note(5, 9, second+sameAge-1)
	a.Note(10, 19, second+sameAge)
	for position, want := range map[int64]time.Duration{4: second, 9: second, 10: second + sameAge} {
		b := Ages{marks: append([]mark(nil), a.marks...)}
		at, ok := b.Since(position)
		assert.True(t, ok, position)
		assert.Equal(t, want, at, position)
	}
	a.Note(9, 9, 2*second) // the last that share the first's
	at, _ := a.Since(8)
	assert.Equal(t, second, at)
	at, _ = a.Since(9)
	assert.Equal(t, 2*second, at)
}

func TestAgesCostTimeNotMessages(t *testing.T) {
	var a Ages
	for i := range int64(1_000_000) { // 1 µs each
		a.Note(i, i, time.Duration(i)*time.Microsecond)
	}
	assert.Len(t, a.marks, 100)
	at, _ := a.Since(500_000)
	assert.InDelta(t, 500*time.Millisecond, at, float64(sameAge))
	i := int64(1_000_000)
	assert.Zero(t, testing.AllocsPerRun(10_000, func() {
		a.Note(i, i, time.Duration(i)*time.Millisecond)
		a.Since(i - 10)
		i++
	}))
	assert.LessOrEqual(t, cap(a.marks), 1024)
}
