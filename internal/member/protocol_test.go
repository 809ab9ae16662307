package member

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// The arithmetic of "why it is safe" in PROTOCOL.md: an owner whose clock is 5 % slow has stopped before an evictor whose clock
// is 5 % fast has counted a ttl, although both begin at the same moment of real time (the owner begins earlier).
func TestTrustEndsBeforeAnEvictionWithClocksFivePercentOff(t *testing.T) {
	const slow, fast, whole = 95, 105, 100 // per cent of the true rate
	check := func(ttl time.Duration) {
		trust := trustFrom(Now{}, ttl).Mono
		// Real time is trust/0.95 at the owner and ttl/1.05 at the evictor; both sides times 0.95 x 1.05 / 1 %.
		require.Less(t, trust*fast*whole, ttl*slow*whole, "ttl %v", ttl)
	}
	for ttl := lease.MinTTL; ttl <= lease.MaxTTL; ttl += time.Millisecond {
		check(ttl)
		check(ttl + 7*time.Nanosecond)
	}
	// What is left at the default: 9 s at 0.95 is 9.474 s, 10 s at 1.05 is 9.524 s.
	const ttl = 10 * time.Second
	left := ttl*whole/fast - trustFrom(Now{}, ttl).Mono*whole/slow
	assert.InDelta(t, 50*time.Millisecond, left, float64(time.Millisecond))
}

// §4: an Evict larger than the limit is split by its writer.
func TestEvictsLargerThanTheLimitAreSplit(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{MaxReleaseBytes: 2 * targetSize}, want())
	var dead []*proc
	for _, n := range []string{"d1", "d2", "d3", "d4", "d5"} {
		dead = append(dead, s.process(n, Config{}, want()))
	}
	s.pass(3 * time.Second)
	// A single record of each is read at one moment, and nothing after it.
	for _, d := range dead {
		d.do(d.m.Flush(d.clock(false)))
	}
	for _, d := range dead {
		d.crashed = true
	}
	s.until(20*time.Second, "evictions", func() bool {
		for _, d := range dead {
			if p.log.World().Instance(d.id).Status != lease.Ended {
				return false
			}
		}
		return true
	})
	var sizes []int
	for _, r := range p.of(lease.KindEvict) {
		sizes = append(sizes, len(r.Evict.Targets))
	}
	assert.Equal(t, []int{2, 2, 1}, sizes)
}
