package toy

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestWell(t *testing.T) {
	for _, c := range []struct {
		a, b, n int
		ok      bool
	}{{1, 3, 2, true}, {3, 1, 0, false}, {2, 2, 0, false}, {1, 100, 0, false}} {
		n, ok := Well(c.a, c.b)
		assert.Equal(t, c.n, n)
		assert.Equal(t, c.ok, ok)
	}
}

func TestBadly(t *testing.T) {
	assert.True(t, Badly(5))
	assert.False(t, Badly(-5))
}

func TestSum(t *testing.T) { assert.Equal(t, 6, Sum([]int{1, 2, 3})) }

func TestHalvings(t *testing.T) { assert.Equal(t, 2, Halvings(5)) }

func TestGrown(t *testing.T) { assert.Equal(t, []int{1, 2}, Grown([]int{1, 2}, 5)) }

func TestDue(t *testing.T) {
	assert.False(t, Due(10*time.Second-1, 4))
	assert.True(t, Due(10*time.Second, 4))
	assert.True(t, Due(0, 100))
}

func TestNamed(t *testing.T) { assert.True(t, Named(1)) }

func TestNested(t *testing.T) {
	assert.Equal(t, uint64(9), Nested(true, false, false, 2))
	assert.Equal(t, uint64(9), Nested(false, true, false, 2))
	assert.Zero(t, Nested(true, true, true, 2))
	assert.Zero(t, Nested(false, false, false, 2))
}

func TestBreakable(t *testing.T) {
	assert.NoError(t, Breakable(3))
	assert.Error(t, Breakable(4))
}

func TestString(t *testing.T) { assert.Equal(t, "few", text(0).String()) }
