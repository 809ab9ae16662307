package sim

import (
	"time"

	"github.com/kafka-marshal/marshal/internal/member"
)

// clock is the three clocks of one machine. They start anywhere and go at a rate of their own; the wall clock may be
// stepped; while the machine is suspended the monotonic one stands still and the two others go on.
type clock struct {
	rate             float64
	mono, wall, boot time.Duration // what each showed at real time 0
	suspended        time.Duration // real time that the monotonic clock missed
}

func (c *clock) elapsed(real time.Duration) time.Duration {
	return time.Duration(float64(real) * c.rate)
}

// at reads the clocks. The boot clock is read on ticks only.
func (c *clock) at(real time.Duration, boot bool) member.Now {
	now := member.Now{Mono: c.mono + c.elapsed(real-c.suspended), Wall: c.wall + c.elapsed(real)}
	if boot {
		now.Boot = c.boot + c.elapsed(real)
	}
	return now
}

// real gives the first moment at which the monotonic clock shows mono or more, unless it is suspended again before.
func (c *clock) real(mono time.Duration) time.Duration {
	return time.Duration(float64(mono-c.mono)/c.rate) + c.suspended + 1
}
