package sim

import (
	"math/bits"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// coverageBits is the size of the map that what a run came by is hashed into.
const coverageBits = 1 << 18

// Coverage is a set of things that happened: the rows of the table, by the magnitude of their counts, and which events
// happened to a member at which stage of its life soon after which faults.
type Coverage struct {
	bits  [coverageBits / 64]uint64
	Count int
}

// Add puts one thing in, and tells whether it is new.
func (c *Coverage) Add(thing uint32) bool {
	at, bit := thing/64, uint64(1)<<(thing%64)
	if c.bits[at]&bit != 0 {
		return false
	}
	c.bits[at] |= bit
	c.Count++
	return true
}

// things lists what is in it.
func (c *Coverage) things() []uint32 {
	list := make([]uint32, 0, c.Count)
	for at, word := range c.bits {
		for ; word != 0; word &= word - 1 {
			list = append(list, uint32(at*64+bits.TrailingZeros64(word)))
		}
	}
	return list
}

// thing hashes some small numbers into the map.
func thing(of ...int) uint32 {
	h := uint64(len(of))
	for _, n := range of {
		h = (h ^ uint64(n)) * 0x9e3779b97f4a7c15
		h ^= h >> 29
	}
	return uint32(h % coverageBits)
}

// The stages of a member that are told apart.
const (
	nobodysStage = iota // it belongs to no process that runs
	deadStage
	frozenStage
	suspendedStage
	absentStage // its process has no world
	endedStage
	leavingStage
	untrustedStage
	drainingStage
	stuckStage
	holdingStage
	idleStage
)

// stage tells where the member of an instance stands.
func (s *simulation) stage(id lease.InstanceID) int {
	a := s.byID[id]
	switch {
	case a == nil:
		return nobodysStage
	case a.p.phase == dead:
		return deadStage
	case a.p.suspended:
		return suspendedStage
	case a.p.frozen:
		return frozenStage
	case a.p.phase != following:
		return absentStage
	case a.over || a.evicted:
		return endedStage
	case a.leaving:
		return leavingStage
	case a.held:
		return untrustedStage
	}
	for _, c := range a.claims {
		switch {
		case c.draining:
			return drainingStage
		case c.stuck:
			return stuckStage
		}
	}
	if len(a.claims) > 0 {
		return holdingStage
	}
	return idleStage
}

// noteFault keeps the two newest faults.
func (s *simulation) noteFault(k faultKind) {
	s.newest[1] = s.newest[0]
	s.newest[0] = aFault{int(k) + 1, s.now}
}

// aFault is a fault that has happened, counted from 1, and when.
type aFault struct {
	kind int
	at   time.Duration
}

// recent gives the newest fault but one or two, if its consequences may still be felt.
func (s *simulation) recent(i int) int {
	if f := s.newest[i]; s.now-f.at < 3*s.maxTTL {
		return f.kind
	}
	return 0
}

// coverEvent notes what happened to whom, and after what.
func (s *simulation) coverEvent(ev *lease.Event) {
	stage := s.stage(ev.Instance)
	last, before := s.recent(0), s.recent(1)
	s.cover.Add(thing(last, stage, int(ev.Kind), int(ev.Reason)))
	s.cover.Add(thing(before, last, stage, int(ev.Kind)))
}

// covered is all that the run has come by.
func (s *simulation) covered() []uint32 {
	for row, n := range s.table.Count {
		if n > 0 {
			s.cover.Add(thing(row, bits.Len64(uint64(n))))
		}
	}
	return s.cover.things()
}
