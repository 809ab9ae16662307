package main

import (
	"slices"
	"time"
)

// handed is one message, as it was handed out.
type handed struct {
	at     time.Time
	offset int64
	who    int // the process
}

// timeline is what all processes of a group were handed, by partition.
type timeline [][]handed

// sort brings each partition into the order of time: each process is read by itself.
func (t timeline) sort() {
	for _, all := range t {
		slices.SortStableFunc(all, func(a, b handed) int { return a.at.Compare(b.at) })
	}
}

// unsorted is how far what was not sorted yet may be out of the order of time.
const unsorted = time.Second

// span is a time that is looked at.
type span struct{ from, to time.Time }

func (s span) has(t time.Time) bool { return t.After(s.from) && !t.After(s.to) }

// newest is the last message of a partition up to a moment.
func (t timeline) newest(partition int, at time.Time) (handed, bool) {
	for _, h := range slices.Backward(t[partition]) {
		if !h.at.After(at) {
			return h, true
		}
	}
	return handed{}, false
}

// longest is the longest time in s between two messages of one partition, or from the last to the end; which is such that others may be
// left out.
func (t timeline) longest(s span, which func(partition int) bool) (gap time.Duration) {
	for p := range t {
		if which == nil || which(p) {
			for _, g := range t.gaps(p, s) {
				gap = max(gap, g.to.Sub(g.from))
			}
		}
	}
	return gap
}

// worst is where the longest such gap is.
func (t timeline) worst(s span, which func(partition int) bool) (partition int, gap span) {
	for p := range t {
		if which == nil || which(p) {
			for _, g := range t.gaps(p, s) {
				if g.to.Sub(g.from) > gap.to.Sub(gap.from) {
					partition, gap = p, g
				}
			}
		}
	}
	return partition, gap
}

// gaps lists the times without a message of a partition that end in s, or that s ends.
func (t timeline) gaps(partition int, s span) (gaps []span) {
	last := s.from
	if h, ok := t.newest(partition, s.from); ok && s.from.Sub(h.at) < time.Minute {
		last = h.at
	}
	for _, h := range t[partition] {
		if s.has(h.at) {
			gaps = append(gaps, span{last, h.at})
			last = h.at
		}
	}
	return append(gaps, span{last, s.to})
}

// stayed tells whether a partition had one owner all the time.
func (t timeline) stayed(partition int, s span) bool {
	before, ok := t.newest(partition, s.from)
	if !ok {
		return false
	}
	for _, h := range slices.Backward(t[partition]) {
		if s.from.Sub(h.at) > unsorted {
			break
		}
		if s.has(h.at) && h.who != before.who {
			return false
		}
	}
	return true
}

// settled is when the last partition began to flow again, in s: from then on each stays at its owner, and is quiet for no longer than
// pause. Zero: some partition does not.
func (t timeline) settled(s span, pause time.Duration) (at time.Time) {
	at = s.from
	for p, all := range t {
		owner, known := 0, false
		if h, ok := t.newest(p, s.from); ok {
			owner, known = h.who, true
		}
		for _, h := range all {
			if s.has(h.at) && (!known || h.who != owner) {
				owner, known = h.who, true
				at = later(at, h.at)
			}
		}
		for _, g := range t.gaps(p, s) {
			switch long := g.to.Sub(g.from) > pause; {
			case long && g.to.Equal(s.to):
				return time.Time{}
			case long:
				at = later(at, g.to)
			}
		}
	}
	return at
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// owners tells how many partitions each of so many processes was handed the newest message of.
func (t timeline) owners(processes int, at time.Time) []int {
	n := make([]int, processes)
	for p := range t {
		if h, ok := t.newest(p, at); ok {
			n[h.who]++
		}
	}
	return n
}

// even tells whether shares of living processes differ by one at most, and nobody else has any.
func even(owners []int, living []bool) bool {
	least, most := 1<<30, 0
	for i, n := range owners {
		switch {
		case !living[i] && n > 0:
			return false
		case living[i]:
			least, most = min(least, n), max(most, n)
		}
	}
	return most-least <= 1
}

// handover is the move of one partition from one process to another.
type handover struct {
	to      int
	at      time.Time // of the first message at the new owner
	took    time.Duration
	skipped int64 // messages that nobody was handed; negative: handed again
}

// handovers lists the moves of a partition.
func (t timeline) handovers(partition int) (moves []handover) {
	all := t[partition]
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1], all[i]; a.who != b.who {
			moves = append(moves, handover{b.who, b.at, b.at.Sub(a.at), b.offset - a.offset - 1})
		}
	}
	return moves
}

// between lists the times between two messages of a partition at one owner, in ms: what a machine costs without any hand-over.
func (t timeline) between(partition int) (gaps []float64) {
	all := t[partition]
	for i := 1; i < len(all); i++ {
		if a, b := all[i-1], all[i]; a.who == b.who {
			gaps = append(gaps, float64(b.at.Sub(a.at).Nanoseconds())/1e6)
		}
	}
	return gaps
}

// quantile of values, q from 0 to 1: the smallest that so large a part of all is not above.
func quantile(values []float64, q float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	i := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
