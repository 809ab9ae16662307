package sim

import (
	"slices"
	"time"

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
	s.rest(s.now, s.now, s.ref.moves, s.bound())
}

// rest looks again and again whether everybody has come to rest (L1), and then whether it stays like this (L2). since is
// when it last became true, moves how many Claims and Releases there were then.
func (s *simulation) rest(began, since time.Duration, moves int64, bound time.Duration) {
	s.after(s.ttl/8+20*time.Millisecond, func() {
		if !slices.ContainsFunc(s.procs, func(p *process) bool { return p.phase != dead }) {
			pick(s, s.procs).start() // the last ones have left
		}
		unrest := s.unrest()
		if unrest != "" || s.ref.moves != moves {
			if s.now-began > bound {
				switch {
				case unrest != "":
					s.fail("L1", "after %s without faults: %s", s.now-began, unrest)
				default:
					s.fail("L2", "after %s without faults there are still Claims and Releases", s.now-began)
				}
			}
			s.rest(began, s.now, s.ref.moves, max(bound, s.bound()))
			return
		}
		if s.now-since < 2*s.maxTTL+time.Second {
			s.rest(began, since, moves, bound)
			return
		}
		s.checkBalance()
		s.settled, s.restedIn = true, since-began
	})
}

// bound is how long it may take to come to rest: who is dead or parked is evicted within its ttl, by clocks that may be
// slow; the last wishes of the applications come within some ttls. Who looks for a base may have to wait for silence,
// who dropped its world waits a ttl, who gave a key up waits up to a minute before it takes it again.
func (s *simulation) bound() time.Duration {
	w := s.restWorld()
	longest := s.maxTTL
	for i := range w.Instances() {
		longest = max(longest, i.TTL)
	}
	d := longest*6/5 + 6*s.ttl + 5*time.Second
	if s.lost || slices.ContainsFunc(s.procs, func(p *process) bool { return p.phase != dead && !p.ready }) {
		d += 3*longest + lease.MaxTTL + 10*time.Second
	}
	for _, t := range s.topics {
		for n := lease.WholeTopic; n < t.count; n++ {
			if w.HasMark(lease.Key{Topic: t.name, Partition: n}) {
				return d + 65*time.Second
			}
		}
	}
	return d
}

// unrest says what is not as it should be; "": all is well.
func (s *simulation) unrest() string {
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
			if (!ok || epoch != l.Epoch) && !s.overMax(a, w) {
				return keyString(k) + " is held by " + a.name + ", which does not hand it out"
			}
		}
	}
	return s.unheld(w)
}

// sameHistory tells whether a process follows the log as it is, and is not behind. Where the log has lost records, all
// who run must have the same history, be it the one that was lost: nobody is left then who could tell.
func (s *simulation) sameHistory(p *process) bool {
	if e := s.log.at(p.cursor); e != nil && s.now-e.real > s.ttl/2 {
		return false
	}
	e := s.log.before(p.cursor - 1)
	if e == nil || p.chain == e.chain {
		return true
	}
	if !s.lost {
		return false
	}
	return !s.diverged(p)
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
