package lease

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestATokenBaseIsTheLaterOfTheAuthorsClockAndTheShardsTimestamps(t *testing.T) {
	assert.Equal(t, int64(1000)<<20, ProposeTokenBase(1000, 900))
	assert.Equal(t, int64(1001)<<20, ProposeTokenBase(900, 1000))
}

func TestNoTimestampInTheShardKeepsANewcomerOut(t *testing.T) {
	for _, seen := range []int64{math.MinInt64, -1, 0, 1 << 41, 1<<42 - 1, 1 << 42, 1 << 43, math.MaxInt64} {
		for _, wall := range []int64{math.MinInt64, 0, 1_800_000_000_000, math.MaxInt64} {
			base := ProposeTokenBase(wall, seen)
			assert.True(t, base >= 0 && base < MaxTokenBase, "wall %d, seen %d: %d", wall, seen, base)
		}
	}
}
