package sim

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// calmRun is a run without faults, that something happens to after their end.
func calmRun(seed uint64, after func(s *simulation)) *simulation {
	s := newSimulation(Config{Schedule: Schedule{Seed: seed}.with(members, 3).with(keys, 8).with(faultsOf, 0).with(ttlOf, 1000)})
	s.setUp()
	s.at(s.period+time.Millisecond, func() { after(s) })
	for s.violation == nil && !s.settled {
		e, ok := s.queue.pop()
		if !ok {
			break
		}
		s.now = e.at
		e.fn()
	}
	return s
}

// TestWhoNeverComesToRestIsFoundAtTheBound freezes a process when all faults are over: its keys pass to the others, but it is
// not there itself.
func TestWhoNeverComesToRestIsFoundAtTheBound(t *testing.T) {
	s := calmRun(1, func(s *simulation) {
		p := s.alive()[0]
		p.freeze(time.Hour, false)
		p.touchUntil(s.now + time.Hour)
	})
	require.NotNil(t, s.violation)
	assert.Equal(t, "L1", s.violation.Invariant, "%s", s.violation)
	assert.Greater(t, s.violation.At, s.calmAt+s.live.OwnedBound)
	assert.LessOrEqual(t, s.violation.At, s.calmAt+s.live.OwnedBound+2*s.look())
	assert.Less(t, s.live.OwnedBound, time.Minute)
}

// TestAMoveThatNoPlanWantsIsFound lets a member hand a key on at rest, as one would that plans otherwise than the others.
func TestAMoveThatNoPlanWantsIsFound(t *testing.T) {
	s := calmRun(1, func(s *simulation) {
		s.after(s.ttl, func() {
			for k, l := range s.ref.world.Leases() {
				from := s.byID[l.Instance]
				for _, to := range s.agents {
					if to != from {
						s.uid++
						rec := lease.Record{
							Kind: lease.KindRelease, Version: lease.WireVersion, Instance: from.id, Seq: s.ref.world.Instance(from.id).Seq + 1,
							Release: lease.Release{Keys: []lease.ReleasedKey{{Key: k, Epoch: l.Epoch}}, Successor: to.id},
						}
						s.append(&rec, uidBytes(s.uid), s.uid, true, origin{by: from, readTo: s.ref.world.Last()})
						return
					}
				}
			}
		})
	})
	require.NotNil(t, s.violation)
	assert.Equal(t, "L2", s.violation.Invariant, "%s", s.violation)
	assert.Contains(t, s.violation.Text, "keys were moved, and the plans needed")
}

// TestBoundsFollowFromTheScenario: a longer ttl, a longer drain, a mark and a process without a world each take their time.
func TestBoundsFollowFromTheScenario(t *testing.T) {
	bounds := func(change func(s *simulation)) (time.Duration, time.Duration) {
		s := newSimulation(Config{Schedule: Schedule{Seed: 3}.with(members, 3).with(faultsOf, 0).with(ttlOf, 2000)})
		s.setUp()
		change(s)
		return s.bounds()
	}
	owned, balanced := bounds(func(*simulation) {})
	assert.Greater(t, balanced, owned)
	for name, change := range map[string]func(s *simulation){
		"ttl":   func(s *simulation) { s.maxTTL += time.Second },
		"drain": func(s *simulation) { s.drainTimeout += time.Second },
		"wish":  func(s *simulation) { s.wishUntil(s.now + time.Minute) },
		"world": func(s *simulation) { s.procs[0].phase, s.log.start = beginning, 5 },
	} {
		o, b := bounds(change)
		assert.GreaterOrEqual(t, o, owned+time.Second, name)
		assert.GreaterOrEqual(t, b, balanced+time.Second, name)
	}
}
