package marshal

import "time"

// calm says when the broker lets the records of a shard gather before it answers a poll. A group of a hundred members writes fifty
// heartbeats a second, and nobody waits for them: to be woken for each costs a process far more than what it does about it. Anything
// else is waited for, and so is a heartbeat of ours that makes positions durable; while such come, and for a while after, each record is
// read as it comes. Reading later is always safe: trust counts from the writing, and suspicion from the reading.
type calm struct {
	beat    time.Duration // the interval of our heartbeats
	stirred time.Time     // when the newest record was read that is no heartbeat
	began   time.Time     // of the interval in which
	count   int           // so many records were read
	crowded bool          // the one before had many
}

const (
	gatherOfBeat = 20               // records gather for so small a part of an interval
	crowd        = 2 * gatherOfBeat // and only where so many come in one: else there is nothing to gain
	stirring     = 2                // intervals after which what was read is over
	gatherBytes  = 1 << 20          // so many are more than heartbeats
)

// gather is for how long records may gather for the next answer; 0: not at all. The newest came at now and brought so many records;
// stirs tells that not all of them are heartbeats.
func (c *calm) gather(records int, stirs bool, now time.Time) time.Duration {
	if now.Sub(c.began) >= c.beat {
		c.crowded = c.count > crowd && now.Sub(c.began) < 2*c.beat
		c.began, c.count = now, 0
	}
	c.count += records
	if stirs {
		c.stirred = now
	}
	if !c.crowded || now.Sub(c.stirred) < stirring*c.beat {
		return 0
	}
	return c.beat / gatherOfBeat
}
