package sim

import (
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// causeRestart restarts everybody, at once or one after the other.
func (s *simulation) causeRestart(k faultKind) bool {
	ps := s.alive()
	if len(ps) < 2 {
		return false
	}
	if k == massRestartFault {
		for _, p := range ps {
			p.crash()
			s.after(s.between(0, s.ttl/10), p.startAgain)
		}
		return true
	}
	s.roll(ps, s.rng.IntN(3))
	return true
}

// roll restarts the first of some processes in one of three ways, and goes on with the next when it is there again.
func (s *simulation) roll(ps []*process, way int) {
	for len(ps) > 0 && (ps[0].phase != following || ps[0].frozen) {
		ps = ps[1:]
	}
	if s.quiet {
		return
	}
	if len(ps) == 0 {
		s.table.branch(rolledBranch)
		return
	}
	p := ps[0]
	switch way {
	case 0:
		p.leaveAll(false, 0)
	case 1:
		p.leaveAll(true, s.between(2*s.ttl, 4*s.ttl))
	default:
		p.crash()
	}
	s.restartWhenGone(p, s.between(0, s.ttl/8))
	s.whenBack(p, p.run, func() { s.roll(ps[1:], way) })
}

// whenBack calls fn soon after a later run of a process than this one is ready.
func (s *simulation) whenBack(p *process, run int, fn func()) {
	s.after(s.ttl/10, func() {
		switch {
		case s.quiet:
		case p.ready && (p.run > run || run == 0):
			fn()
		default:
			s.whenBack(p, run, fn)
		}
	})
}

// hang lets an application stop to finish messages: its drains do not end before their limit.
func (a *agent) hang() bool {
	s, plan := a.sim, a.plan
	if len(a.claims) == 0 || plan.hangs {
		return false
	}
	plan.hangs = true
	s.after(s.between(2*s.ttl, 6*s.ttl), func() { plan.hangs = false })
	if s.chance(0.5) {
		a.p.leaveAll(s.chance(0.3), s.between(s.ttl, 3*s.ttl))
		s.restartWhenGone(a.p, s.between(0, s.ttl))
	}
	return true
}

// holdSnapshots lets somebody ask for a snapshot, and holds what is written of one up until others have given it up and
// announced their own.
func (s *simulation) holdSnapshots() bool {
	if len(s.alive()) < 2 || s.now < s.heldUntil || s.log.down {
		return false
	}
	s.heldUntil = s.now + s.between(4*time.Second, 8*time.Second)
	s.raw(rawProbe, 0, lease.Record{Kind: lease.KindProbe, Probe: lease.Probe{Nonce: s.rng.Uint64(), WantsBase: true}})
	return true
}

// skipOffsets lets other groups write more into the shard than an instance that has ended is remembered for, and records
// of such a one come back.
func (s *simulation) skipOffsets() bool {
	if s.log.down {
		return false
	}
	if p := s.victim(); p != nil && s.chance(0.3) {
		p.freeze(s.between(s.ttl, 3*s.ttl), false) // it comes back behind them
		s.after(s.between(s.ttl, 2*s.ttl), s.skip)
		return true
	}
	s.skip()
	return true
}

func (s *simulation) skip() {
	s.uid++
	last := &entry{uid: s.uid, millis: s.brokerMillis(), real: s.now}
	s.log.skip(lease.EndedMemory+1+s.rng.Int64N(100_000), last)
	s.wakeReaders()
	var old []*entry
	for _, e := range s.log.entries {
		i := s.ref.world.Instance(e.rec.Instance)
		if e.group && e.rec.Seq > 0 && i != nil && i.Status == lease.Ended && (len(old) == 0 || old[0].rec.Instance == e.rec.Instance) {
			old = append(old, e)
		}
	}
	if len(old) == 0 {
		return
	}
	// Its Join comes back first, or only something later: what an application of it wrote once counts anew after the Join.
	at := s.between(s.ttl/10, s.ttl)
	for n := 1 + s.rng.IntN(4); n > 0 && len(old) > 0; n-- {
		e := old[0]
		if s.chance(0.4) {
			e = pick(s, old)
		}
		old = old[1:]
		s.after(at, func() {
			if !s.log.down {
				s.append(&e.rec, e.value, e.uid, true, e.origin)
			}
		})
		at += s.between(0, s.ttl/10)
	}
}

// countsAnew tells whether a copy of a record, the first of which is at an offset, is a copy to nobody: its author was
// forgotten meanwhile. This is how far the memory of a world goes (PROTOCOL.md §5); such an instance holds nothing of what it
// had, nobody acts for it, and it ends by eviction.
func (s *simulation) countsAnew(e *entry, first int64) bool {
	id := e.rec.Instance
	return s.ref.forgotten(e) || s.ref.ghosts[id] && first < s.ref.firstJoin[id]
}

// forgotten tells whether the author of a record is one that has ended so long ago that no world remembers it.
func (r *reference) forgotten(e *entry) bool {
	ended, ok := r.endedAt[e.rec.Instance]
	return ok && e.offset-ended > lease.EndedMemory
}
