package marshal

import (
	"sync/atomic"
	"time"

	"github.com/kafka-marshal/marshal/internal/member"
)

// clock reads the three clocks of one machine (PROTOCOL.md §6 "Trust").
type clock struct {
	origin time.Time
	set    *atomic.Int64 // how far somebody has set the wall clock, in nanoseconds: a test
}

func newClock() clock { return clock{origin: time.Now(), set: new(atomic.Int64)} }

// now leaves the boot clock out: it costs several times what the other two do.
func (c clock) now() member.Now {
	t := time.Now()
	return member.Now{Mono: t.Sub(c.origin), Wall: time.Duration(t.UnixNano() + c.set.Load())}
}

// tick reads all three.
func (c clock) tick() member.Now {
	n := c.now()
	n.Boot = bootTime()
	return n
}

// until is how long it is until mono, at least 0.
func (c clock) until(mono time.Duration) time.Duration {
	return max(mono-time.Since(c.origin), 0)
}
