package main

import (
	"fmt"
	"strings"
	"time"
)

// What a run must reach.
const (
	planBar    = 2 * time.Millisecond // after one change, at 1,000 members x 10,000 partitions
	applyBar   = time.Microsecond     // a record with three positions, there
	beatBar    = 200                  // bytes of a heartbeat without changed positions
	recordsBar = 1.05                 // records per member and heartbeat interval, settled; jitter is in it
	keyBar     = 250                  // bytes a key
)

// bar is one figure and what became of it.
type bar struct {
	name string
	text string
	ok   bool
}

// verdict is the last line, and whether all bars are met.
func (r *results) verdict() (string, bool) {
	ok := true
	parts := []string{"scale:"}
	for _, b := range r.bars() {
		parts = append(parts, b.name+"="+b.text)
		if !b.ok {
			parts[len(parts)-1] += "(missed)"
			ok = false
		}
	}
	return strings.Join(parts, " "), ok
}

func (r *results) bars() []bar {
	var bars []bar
	add := func(name, format string, value any, ok bool) {
		bars = append(bars, bar{name, fmt.Sprintf(format, value), ok})
	}
	for _, a := range r.lones {
		if a.members == 1000 && a.partitions == 10_000 && a.topics == 1 {
			plan := max(a.died.plan, a.joined.plan, a.handed.plan)
			add("plan_ms_1000x10000", "%.2f", plan.Seconds()*1e3, plan <= planBar)
			add("apply_ns_3pos", "%d", a.catching.apply.Nanoseconds(), a.catching.apply <= applyBar)
		}
		if a.members == 10 && a.partitions == 100_000 && a.topics == 1 {
			perKey := a.world / int64(a.partitions)
			add("bytes_per_key", "%d", perKey, perKey < keyBar)
		}
	}
	if len(r.crowds) == 0 {
		return bars
	}
	var size, rate float64
	var cold, died, parked, rolled time.Duration
	wrong, stuck := 0, 0
	worst := func(sum *time.Duration, f figure) {
		if f.took < 0 {
			stuck++
		}
		*sum = max(*sum, f.took)
	}
	for _, f := range r.crowds {
		size = max(size, f.beatBytes())
		rate = max(rate, f.rate())
		worst(&cold, f.cold)
		worst(&died, f.died)
		worst(&parked, f.parked)
		worst(&rolled, f.rolled)
		wrong += f.wrong
	}
	add("beat_bytes_idle", "%.0f", size, size < beatBar)
	add("records_per_member_beat", "%.2f", rate, rate <= recordsBar)
	add("converge_cold", "%v", cold, true)
	add("converge_died", "%v", died, true)
	add("converge_deploy_grace", "%v", parked, true)
	add("converge_deploy", "%v", rolled, true)
	add("never_converged", "%d", stuck, stuck == 0)
	add("evicted_alive", "%d", wrong, wrong == 0)
	return bars
}

// beatBytes is the size of a record of a group in which nothing changes.
func (f *flows) beatBytes() float64 {
	return float64(f.idle.bytes) / float64(max(1, f.idle.beats+f.idle.records))
}

// rate is how many records each member writes in a heartbeat interval then, of whatever kind.
func (f *flows) rate() float64 {
	return float64(f.idle.beats+f.idle.records) / float64(f.members) / (f.idle.took.Seconds() / heartbeat.Seconds())
}
