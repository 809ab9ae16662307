// Package history knows, for one group, where its log begins for us and whether it is still the same log (PROTOCOL.md §7).
//
// A newcomer reads a stretch of the shard through a Scan, which finds the base that the group's history can start from;
// from there a Log applies record after record, keeps the rolling hash of what it has applied and holds it against what
// others say. Where there is no base, a Beginner finds out whether it may write one.
package history

import (
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/rule"
)

// Lookbacks is how far back from now a newcomer looks for a base, by the broker's timestamps, one after the other; after
// the last it looks from the log's start.
func Lookbacks() []time.Duration {
	const first, factor, steps = 20 * time.Minute, 4, 5 // the last is 85 hours, half of the topic's own retention
	back := make([]time.Duration, steps)
	for i, d := 0, first; i < steps; i, d = i+1, d*factor {
		back[i] = d
	}
	return back
}

// Base is what a group's history starts from.
type Base struct {
	From  int64        // the first offset to apply
	World *lease.World // the world after all records below From
	Hash  uint64       // the rolling hash there
}

// emptyBase is the base at an offset below which nothing counts.
func emptyBase(topicID lease.TopicID, from int64) Base {
	return Base{From: from, World: lease.NewWorld(topicID)}
}

// validBase judges a Base record by the offset of the group's newest record before it, as lease.World.Apply does. It is
// for those who have no world: readers who look for a base, and those who compare a second reading.
func validBase(rec *lease.Record, last int64) bool {
	if rec.Base.TokenBase < 0 || rec.Base.TokenBase >= lease.MaxTokenBase || rec.Base.Seen < -1 {
		return false
	}
	return rule.Broken(rule.BaseSeen) || last <= rec.Base.Seen && rec.Base.Seen < rec.Offset
}
