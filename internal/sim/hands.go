package sim

import (
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
)

// hand is one key that an agent hands out.
type hand struct {
	key   lease.Key
	epoch int64
}

// checkHands asks the agents of p, after each thing that happened in it, what they would hand out now, and then everybody
// else about these keys (S3). Between two of its own steps an agent can only cease to hand out - its trust ends - so an
// overlap begins at a step of one of the two.
func (s *simulation) checkHands(p *process) {
	if p.phase != following || p.frozen || s.violation != nil {
		return
	}
	for _, a := range p.agents {
		if a.m == nil {
			continue
		}
		before := a.hands
		a.hands = a.handing(a.spare[:0], p.nowClocks())
		a.spare = before
		if !slices.Equal(before, a.hands) {
			s.lists(a, before, a.hands)
			s.noteClosed(a, before)
		}
		s.noteStandstill(a)
		for _, h := range a.hands {
			if l, ok := p.log.World().Lease(h.key); !ok || l.Instance != a.id || l.Epoch != h.epoch {
				s.fail("S3", "%s hands out %s under e%d, which by its own world it does not hold", a.name, keyString(h.key), h.epoch)
			}
			s.checkHand(a, h)
		}
		s.checkEnd(a)
		a.noteTrust()
	}
}

// handing lists what a hands out at the moment. It is asked about what it runs, what it handed out before, and now and
// then about every key there is.
func (a *agent) handing(hands []hand, now member.Now) []hand {
	s := a.sim
	ask := func(k lease.Key) {
		if epoch, ok := a.m.HandsOut(k, now); ok {
			hands = append(hands, hand{k, epoch})
		}
	}
	if s.rng.IntN(16) == 0 {
		for _, t := range s.topics {
			ask(lease.Key{Topic: t.name, Partition: lease.WholeTopic})
			for i := range t.count {
				ask(lease.Key{Topic: t.name, Partition: i})
			}
		}
		return hands
	}
	for _, c := range a.claims {
		ask(c.key)
	}
	for _, h := range a.hands {
		if _, ok := a.claimOf(h.key); !ok {
			ask(h.key)
		}
	}
	return hands
}

// claimOf finds the claim of a key, or where it would stand: claims are in the order of keys.
func (a *agent) claimOf(k lease.Key) (int, bool) {
	return slices.BinarySearchFunc(a.claims, k, func(c *claim, k lease.Key) int { return compareKeys(c.key, k) })
}

// listed is a key in the list of an agent.
type listed struct {
	a *agent
	hand
}

// lists brings the lists of who hands out a key up to date.
func (s *simulation) lists(a *agent, before, after []hand) {
	for _, h := range before {
		at := s.listsOf(h.key)
		*at = slices.DeleteFunc(*at, func(l listed) bool { return l.a == a })
	}
	for _, h := range after {
		at := s.listsOf(h.key)
		*at = append(*at, listed{a, h})
	}
}

func (s *simulation) listsOf(k lease.Key) *[]listed {
	t := s.data[k.Topic]
	if k.Partition == lease.WholeTopic {
		return &t.handing
	}
	return &t.parts[k.Partition].handing
}

// unlist empties an agent's list: it is over, or another member is in its place.
func (a *agent) unlist() {
	a.sim.lists(a, a.hands, nil)
	a.hands = nil
}

// checkHand holds one key of a against what everybody else hands out.
func (s *simulation) checkHand(a *agent, h hand) {
	t := s.data[h.key.Topic]
	s.checkAgainst(a, h, t.handing)
	if h.key.Partition != lease.WholeTopic {
		s.checkAgainst(a, h, t.parts[h.key.Partition].handing)
		return
	}
	for _, p := range t.parts {
		s.checkAgainst(a, h, p.handing)
	}
}

// checkAgainst holds it against those that hand out a key that conflicts with it.
func (s *simulation) checkAgainst(a *agent, h hand, others []listed) {
	for _, o := range others {
		b := o.a
		if b == a || b.m == nil || b.p.suspended || b.p.phase != following {
			continue
		}
		epoch, ok := b.m.HandsOut(o.key, b.p.nowClocks())
		if !ok || s.excepted(a, h, b, hand{o.key, epoch}) {
			continue
		}
		s.fail("S3", "%s (e%d) and %s (e%d) both hand out %s", s.names[a.id], h.epoch, s.names[b.id], epoch, keyString(h.key))
		return
	}
}

// excepted tells whether one of the exceptions of PROTOCOL.md §9 allows an overlap. In each of them the one that has lost
// the key has the older epoch.
func (s *simulation) excepted(a *agent, h hand, b *agent, o hand) bool {
	if s.now < s.lossUntil {
		return true
	}
	older := b
	if h.epoch < o.epoch {
		older = a
	}
	if h.epoch != o.epoch && s.ref.takenOver[older.id] {
		s.table.branch(exceptNamesakeBranch)
		return true
	}
	return false
}

// checkEnd holds HandsOut against Trust: at the end of trust it is over, on each clock by itself.
func (s *simulation) checkEnd(a *agent) {
	if len(a.hands) == 0 || s.rng.IntN(32) != 0 {
		return
	}
	h := pick(s, a.hands)
	end := a.m.Trust()
	now := a.p.nowClocks()
	if _, ok := a.m.HandsOut(h.key, member.Now{Mono: end.Mono, Wall: now.Wall}); ok {
		s.fail("S3", "%s hands out %s at the very end of its trust", a.name, keyString(h.key))
	}
	if a.p.clock.suspended > 0 {
		return // the boot clock, as a tick has read it, may end it earlier
	}
	// The boot clock is reckoned from the newest tick, and two readings of it are not as exact as one clock is with itself.
	if _, ok := a.m.HandsOut(h.key, member.Now{Mono: end.Mono - time.Microsecond, Wall: now.Wall}); !ok {
		s.fail("L1", "%s does not hand out %s just before the end of its trust", a.name, keyString(h.key))
	}
}

// noteTrust counts trust that ended under claims, and came back.
func (a *agent) noteTrust() {
	s := a.sim
	now := a.p.nowClocks()
	out := now.Mono >= a.m.Trust().Mono
	switch {
	case out && !a.held && len(a.claims) > 0:
		a.held = true
		s.table.branch(trustEndedBranch)
	case !out && a.held:
		a.held = false
		if len(a.hands) > 0 {
			s.table.branch(trustBackBranch)
		}
	}
}

// checkWake looks at a process that has just woken up, before anything else happens in it.
func (s *simulation) checkWake(p *process) {
	if p.phase != following {
		return
	}
	now := p.nowClocks()
	for _, a := range p.agents {
		if a.m == nil || len(a.hands) == 0 {
			continue
		}
		trust := a.m.Trust()
		refused := 0
		for _, h := range a.hands {
			if _, ok := a.m.HandsOut(h.key, now); !ok {
				refused++
			}
		}
		if refused > 0 {
			s.table.branch(wakeRefusedBranch)
			if now.Mono < trust.Mono {
				s.table.branch(suspendedTrustBranch)
			}
		}
	}
	s.checkHands(p)
}

// judge looks at one message that is handed out: tokens of a partition never go back, in real time, whoever hands out.
func (s *simulation) judge(a *agent, c *claim, r *read) {
	p := r.part
	if s.tracing() {
		s.tracef("%s hands out %s:%d e%d", a.name, keyString(p.key), r.next, c.epoch)
	}
	if s.now < s.lossUntil {
		return // leases of records that were lost: exception 2
	}
	token := a.p.log.World().TokenBase() + c.epoch
	if token < p.token && !s.ref.takenOver[a.id] && !s.ref.tokensFell {
		s.fail("S3", "%s hands out %s:%d with token %d after %s did with %d", s.names[a.id], keyString(p.key), r.next,
			token, s.names[p.holder], p.token)
	}
	if token > p.token {
		p.token, p.holder = token, a.id
	}
}

// standstill keeps how long partitions were handed out by nobody although somebody wanted them.
type standstill struct {
	topics []*topic
}

// noteClosed notes which keys a has ceased to hand out.
func (s *simulation) noteClosed(a *agent, before []hand) {
	for _, h := range before {
		if !slices.ContainsFunc(a.hands, func(o hand) bool { return o.key == h.key }) {
			s.close(h.key)
		}
	}
}

// noteStandstill brings the standstill of each partition that a hands out up to date.
func (s *simulation) noteStandstill(a *agent) {
	if len(a.hands) == 0 {
		return
	}
	until := min(a.p.clock.real(a.m.Trust().Mono), s.now+time.Hour)
	for _, h := range a.hands {
		s.each(h.key, func(p *partition) {
			if p.openUntil > 0 && s.now > p.openUntil && s.wantedSince(h.key) <= p.openUntil {
				p.gap = max(p.gap, s.now-p.openUntil)
			}
			p.openUntil = max(p.openUntil, until)
		})
	}
}

// each calls fn for each partition of a key.
func (s *simulation) each(k lease.Key, fn func(p *partition)) {
	t := s.data[k.Topic]
	if t == nil {
		return
	}
	if k.Partition != lease.WholeTopic {
		if k.Partition < t.count {
			fn(t.parts[k.Partition])
		}
		return
	}
	for i := range t.count {
		fn(t.parts[i])
	}
}

// close notes that a key is not handed out any more.
func (s *simulation) close(k lease.Key) {
	s.each(k, func(p *partition) { p.openUntil = min(p.openUntil, s.now) })
}

// closeAll notes that an agent hands out nothing for now: it is dead, or its process stands still.
func (a *agent) closeAll() {
	for _, h := range a.hands {
		a.sim.close(h.key)
	}
}

// wantedSince is since when there was always somebody who wants the key.
func (s *simulation) wantedSince(k lease.Key) time.Duration {
	return s.lonely[k.Topic]
}

func (st *standstill) longest() Standstill {
	var all Standstill
	for _, t := range st.topics {
		for _, p := range t.parts {
			all = append(all, p.gap.Milliseconds())
		}
	}
	return all
}
