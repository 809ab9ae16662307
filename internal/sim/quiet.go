package sim

import (
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// calm ends all faults. From here on the members have a bounded time to come to rest.
func (s *simulation) calm() {
	s.quiet = true
	s.heldUntil = 0
	s.tracef("---- no more faults ----")
	s.up()
	for _, p := range s.procs {
		if p.frozen {
			p.wake()
		}
		p.usualLink()
		p.touchUntil(s.now)
		p.batch = max(p.batch, 10)
		p.dark = 0
		for i := range p.plan {
			clear(p.plan[i].unable)
			p.plan[i].hangs = false
		}
		for _, a := range p.agents {
			for _, c := range a.claims {
				c.stuck = false
			}
		}
		if p.phase == following || p.phase == beginning {
			p.fetch()
		}
	}
	if s.lost && s.log.blind {
		// Those who have read what was lost, and cannot see that the log was cut, agree with each other. It takes one who
		// has not to tell them.
		s.newProcess().start()
	}
	s.calmAt = s.now
	s.live.OwnedBound, s.live.BalancedBound = s.bounds()
	s.beginMoves()
	s.rest(s.now, s.ref.moves)
}

// unrest says what is not as it should be; "": all is well. moving: a key may be about to go to another.
func (s *simulation) unrest(moving bool) string {
	if s.upgrade {
		return ""
	}
	w := s.restWorld()
	for _, p := range s.procs {
		switch {
		case p.phase == dead:
		case p.phase != following || !p.ready:
			return p.name + " is not ready"
		case !s.sameHistory(p):
			return p.name + " is behind, or has another history than the log"
		}
		for _, a := range p.agents {
			if a.leaving {
				return a.name + " is still leaving"
			}
			if i := w.Instance(a.id); i == nil || i.Status != lease.Alive {
				return a.name + " is not in the world"
			}
		}
	}
	for k, l := range w.Leases() {
		a := s.byID[l.Instance]
		switch {
		case a == nil || a.over || a.id != l.Instance:
			return keyString(k) + " is held by nobody who lives"
		case slices.Contains(a.plan.wanted.Kept, k):
		case !a.wantsKey(k):
			return keyString(k) + " is held by " + a.name + ", which does not want it"
		default:
			epoch, ok := a.m.HandsOut(k, a.p.nowClocks())
			if (!ok || epoch != l.Epoch) && !s.overMax(a, w) && !(moving && a.drains(k)) {
				return keyString(k) + " is held by " + a.name + ", which does not hand it out"
			}
		}
	}
	return s.unheld(w)
}

// drains tells whether a claim of the agent is waiting to be handed on.
func (a *agent) drains(k lease.Key) bool {
	i, ok := a.claimOf(k)
	return ok && a.claims[i].draining
}

// sameHistory tells whether a process follows the log as it is, and is not behind. Where the log has lost records, all
// who run must have the same history, be it the one that was lost: nobody is left then who could tell.
func (s *simulation) sameHistory(p *process) bool {
	if e := s.log.at(p.cursor); e != nil && s.now-e.real > s.ttl/2 {
		return false
	}
	return !p.strange() || s.lost && !s.diverged(p)
}

// strange tells whether what a process has applied is not what the log says.
func (p *process) strange() bool {
	e := p.sim.log.before(p.cursor - 1)
	return e != nil && p.chain != e.chain
}

// diverged tells whether somebody who runs has read another history than p has, as far as both remember.
func (s *simulation) diverged(p *process) bool {
	for _, q := range s.procs {
		if q == p || q.phase != following {
			continue
		}
		for o := min(p.cursor, q.cursor) - 1; o >= s.log.first; o-- {
			mine, known := p.chainAt(o)
			theirs, too := q.chainAt(o)
			if known && too {
				if mine != theirs {
					return true
				}
				break
			}
		}
	}
	return false
}

// restWorld is the world that everybody has come to: the log's own, or, where the log has lost records that all who run
// had read, theirs.
func (s *simulation) restWorld() *lease.World {
	if s.lost {
		for _, p := range s.procs {
			if p.phase == following {
				return p.log.World()
			}
		}
	}
	return s.ref.world
}

// wantsKey tells whether what the agent's consumers want covers a key.
func (a *agent) wantsKey(k lease.Key) bool {
	if slices.Contains(a.plan.wanted.Pinned, k) {
		return true
	}
	for _, in := range a.plan.wanted.Interests {
		for _, t := range in.Topics {
			if t.Topic == k.Topic && in.Whole == (k.Partition == lease.WholeTopic) && k.Partition < t.Partitions {
				return true
			}
		}
	}
	return false
}

// overMax tells whether the agent holds more than some interest of it may have, so that what is more is not run.
func (s *simulation) overMax(a *agent, w *lease.World) bool {
	for _, in := range a.plan.wanted.Interests {
		if in.Max > 0 && held(w, a.id, in) > in.Max {
			return true
		}
	}
	return false
}

// held counts what an instance holds for one of its interests.
func held(w *lease.World, id lease.InstanceID, in lease.Interest) int32 {
	var n int32
	for k := range w.HeldBy(id) {
		for _, t := range in.Topics {
			if k.Topic == t.Topic && in.Whole == (k.Partition == lease.WholeTopic) {
				n++
			}
		}
	}
	return n
}

// unheld finds a key that nobody holds although somebody wants it and has room.
func (s *simulation) unheld(w *lease.World) string {
	for _, t := range s.topics {
		for n := lease.WholeTopic; n < t.count; n++ {
			k := lease.Key{Topic: t.name, Partition: n}
			if _, _, held := w.Conflict(k); held {
				continue
			}
			for _, a := range s.agents {
				if a.wantsKey(k) && !w.Unfit(a.id, k) && a.room(w, k) {
					return keyString(k) + " is held by nobody, and " + a.name + " wants it"
				}
			}
		}
	}
	return ""
}

// room tells whether an interest of the agent in k has room below its maximum.
func (a *agent) room(w *lease.World, k lease.Key) bool {
	for _, in := range a.plan.wanted.Interests {
		for _, t := range in.Topics {
			covers := t.Topic == k.Topic && in.Whole == (k.Partition == lease.WholeTopic) && k.Partition < t.Partitions
			if covers && (in.Max == 0 || held(w, a.id, in) < in.Max) {
				return true
			}
		}
	}
	return false
}

// checkBalance: where everybody wants the same and nothing limits anybody, nobody holds more than one key more than
// another (L2).
func (s *simulation) checkBalance() {
	if s.upgrade || len(s.agents) == 0 {
		return
	}
	w := s.restWorld()
	var first []lease.Interest
	most, least := 0, 1<<30
	clients := map[string]bool{}
	for _, a := range s.agents {
		ins := a.plan.wanted.Interests
		if len(ins) != 1 || len(a.plan.wanted.Pinned)+len(a.plan.wanted.Kept) > 0 || ins[0].Max > 0 || ins[0].Weight > 1 || ins[0].Greedy {
			return
		}
		if clients[a.plan.client] || first != nil && !sameInterest(first[0], ins[0]) {
			return
		}
		clients[a.plan.client] = true
		first = ins
		held := 0
		for k := range w.HeldBy(a.id) {
			held++
			if w.HasMark(k) {
				return
			}
		}
		most, least = max(most, held), min(least, held)
	}
	if most-least > 1 {
		s.fail("L2", "at rest one holds %d keys, another %d", most, least)
	}
}

func sameInterest(x, y lease.Interest) bool {
	return x.Whole == y.Whole && slices.Equal(x.Topics, y.Topics)
}
