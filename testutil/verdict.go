package testutil

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Verdict is what the judge found.
type Verdict struct {
	Produced    int64 // messages written
	Delivered   int64 // of these, handed out at least once
	Lost        int64 // of these, never handed out, or passed over by a later claim before anybody had finished them
	Unknown     int64 // offsets handed out that nobody wrote
	Overlaps    int   // pairs of claims that are proven to have been handed messages at the same time
	Regressions int   // positions or tokens that went back
	Duplicates  int64 // hand-outs of a message that had been handed out before

	Handovers []Handover  // planned, in the order of time
	Failovers []Failover  // after a kill, in the order of time
	Repeats   []Duplicate // what Duplicates counts, with its cause
	Findings  []Finding   // every fault, in words
}

// Handover is a partition's planned move. Took is from the last message at the old owner to the first at the new one.
type Handover struct {
	Place
	From, To string // processes
	At       int64  // when To had its first message
	Took     time.Duration
}

// Failover is a partition's move after its owner was killed. Took is from the kill to the first message at the new one.
type Failover struct {
	Place
	From, To string
	Restart  bool // To is another run of the same client id
	At       int64
	Took     time.Duration
}

// Duplicate is a run of messages that came again, and why.
type Duplicate struct {
	Place
	Offsets  Span
	From, To string // processes: who had them before, who got them again
	Cause    Cause
}

// Cause says why messages came again.
type Cause string

// The causes.
const (
	AfterKill   Cause = "its process was killed"
	AfterFreeze Cause = "its process was frozen"
	NotFinished Cause = "they were not finished"
	AboveOne    Cause = "they lay above one that was not finished" // a position cannot tell of them
	NoCause     Cause = "no cause"                                 // a regression
)

// Finding is one fault.
type Finding struct {
	Place
	Kind string // lost, unknown, overlap, regression
	Text string
}

func (f Finding) String() string { return fmt.Sprintf("%s %v: %s", f.Kind, f.Place, f.Text) }

// Err says what is wrong, nil if nothing is. That nothing was delivered is wrong too: a judge without evidence has
// not acquitted anybody.
func (v *Verdict) Err() error {
	var errs []error
	if v.Produced == 0 {
		errs = append(errs, errors.New("nothing was produced"))
	}
	if v.Delivered == 0 {
		errs = append(errs, errors.New("nothing was delivered"))
	}
	for _, f := range v.Findings {
		errs = append(errs, errors.New(f.String()))
	}
	return errors.Join(errs...)
}

// Line is the verdict in one line. Times are milliseconds, 0 where there was no such move; failover_ms is the longest
// one to another client.
func (v *Verdict) Line() string {
	p50, longest := v.HandoverTimes()
	return fmt.Sprintf("produced=%d delivered=%d lost=%d overlaps=%d regressions=%d duplicates=%d handovers=%d"+
		" handover_p50_ms=%.1f handover_max_ms=%.1f failover_ms=%.0f",
		v.Produced, v.Delivered, v.Lost, v.Overlaps, v.Regressions, v.Duplicates, len(v.Handovers),
		ms(p50), ms(longest), ms(v.LongestFailover()))
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// HandoverTimes gives the median and the longest of the planned hand-overs.
func (v *Verdict) HandoverTimes() (p50, longest time.Duration) {
	if len(v.Handovers) == 0 {
		return 0, 0
	}
	took := make([]time.Duration, len(v.Handovers))
	for i, h := range v.Handovers {
		took[i] = h.Took
	}
	slices.Sort(took)
	return took[(len(took)-1)/2], took[len(took)-1]
}

// LongestFailover is the longest failover to another client than the one that was killed.
func (v *Verdict) LongestFailover() time.Duration {
	var longest time.Duration
	for _, f := range v.Failovers {
		if !f.Restart {
			longest = max(longest, f.Took)
		}
	}
	return longest
}
