package sim

import (
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// causeWish is something that an application wants from now on, or that happens to its data topics.
func (s *simulation) causeWish(k faultKind) bool {
	switch k {
	case growTopicFault:
		return s.growTopic()
	case recreateTopicFault:
		t := pick(s, s.topics)
		t.id = s.randomID()
		return true
	}
	a := s.someAgent()
	if a == nil {
		return false
	}
	switch k {
	case interestFault:
		a.plan.wanted.Interests = s.newInterests()
		if s.chance(0.1) {
			a.plan.wanted.Interests = nil
		}
		a.want()
	case pinFault:
		return a.pin()
	case keepFault:
		return a.keep()
	case hangFault:
		return a.hang()
	case unableFault:
		t := pick(s, s.topics)
		key := lease.Key{Topic: t.name, Partition: s.rng.Int32N(t.count)}
		if s.whole {
			key.Partition = lease.WholeTopic
		}
		a.plan.unable[key] = true
		for _, c := range a.claims {
			if c.key == key {
				c.stuck, c.stuckAt = true, s.now+s.between(0, s.commitEvery)
			}
		}
	case seekFault, seekFreeFault, seekTopicFault:
		return a.seek(k)
	}
	return true
}

func (s *simulation) growTopic() bool {
	t := pick(s, s.topics)
	if int(t.count) >= len(t.parts) {
		return false
	}
	t.count++
	for _, p := range s.procs {
		for i := range p.plan {
			pl := &p.plan[i]
			s.wishUntil(s.now + s.ttl)
			s.after(s.between(0, s.ttl), func() {
				pl.wanted.Interests = s.refreshed(pl.wanted.Interests)
				p.planChanged(pl)
			})
		}
	}
	return true
}

// refreshed gives interests with the partition counts of now. What a member was given before is left alone.
func (s *simulation) refreshed(interests []lease.Interest) []lease.Interest {
	interests = slices.Clone(interests)
	for i := range interests {
		topics := slices.Clone(interests[i].Topics)
		for j := range topics {
			topics[j].Partitions = s.data[topics[j].Topic].count
		}
		interests[i].Topics = topics
	}
	return interests
}

// pin claims some partitions by hand, for a while.
func (a *agent) pin() bool {
	s, plan := a.sim, a.plan
	if len(plan.wanted.Pinned) > 0 {
		return false
	}
	t := pick(s, s.topics)
	for n := 1 + s.rng.IntN(2); n > 0; n-- {
		k := lease.Key{Topic: t.name, Partition: s.rng.Int32N(t.count)}
		if s.whole && !s.mixed {
			k.Partition = lease.WholeTopic
		}
		plan.wanted.Pinned = append(plan.wanted.Pinned, k)
	}
	a.want()
	s.wishUntil(s.now + 4*s.ttl)
	s.after(s.between(s.ttl, 4*s.ttl), func() {
		plan.wanted.Pinned = nil
		a.wantSoon()
	})
	return true
}

// wantSoon tells whoever runs by the agent's plan now that it has changed.
func (a *agent) wantSoon() { a.p.planChanged(a.plan) }

func (p *process) planChanged(plan *agentPlan) {
	p.deliver(p.run, func() {
		for _, a := range slices.Clone(p.agents) {
			if a.plan == plan && !a.over && !a.leaving {
				a.want()
			}
		}
	})
}

// keep ends the consumers with Terminate(false): what they hold stays leased, unread, until they are back.
func (a *agent) keep() bool {
	s, plan := a.sim, a.plan
	if len(plan.wanted.Kept) > 0 || len(a.claims) == 0 {
		return false
	}
	for _, c := range a.claims {
		plan.wanted.Kept = append(plan.wanted.Kept, c.key)
	}
	interests := plan.wanted.Interests
	plan.wanted.Interests = nil
	grace := s.between(s.ttl, 3*s.ttl)
	plan.wanted.KeptUntil = a.p.nowClocks().Mono + grace
	a.want()
	back := s.between(grace/4, grace*3/2)
	s.wishUntil(s.now + back)
	s.after(back, func() {
		plan.wanted.Interests, plan.wanted.Kept = s.refreshed(interests), nil
		a.wantSoon()
	})
	return true
}

// seek sets progress, on the word of the owner or of somebody else.
func (a *agent) seek(k faultKind) bool {
	s := a.sim
	now := a.p.nowClocks()
	t := pick(s, s.topics)
	key := lease.Key{Topic: t.name, Partition: s.rng.Int32N(t.count)}
	switch {
	case k == seekTopicFault:
		key.Partition = lease.WholeTopic
	case k == seekFault && len(a.claims) > 0:
		c := pick(s, a.claims)
		if !c.started || c.unread || c.answered {
			return false
		}
		r := pick(s, c.parts)
		next := max(0, r.win.Position()+s.rng.Int64N(20)-10)
		a.do(a.m.Seek(r.part.key, r.topicID, next, c.epoch, now))
		return true
	case k == seekFault:
		return false
	}
	a.do(a.m.Seek(key, t.id, s.rng.Int64N(30), lease.NoEpoch, now))
	return true
}
