package member

import (
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// minSeq is the seq that a successor must have reached: a crash loop never gets there.
const minSeq = 3

// awake tells whether an instance is another one, joined, and not past its ttl.
func (m *Member) awake(id lease.InstanceID) bool {
	p := m.watch.byID[id]
	return p != nil && p.live()
}

// fit tells whether a successor has shown that it lives: seq >= 3, and renewed within two intervals of its own.
func (m *Member) fit(id lease.InstanceID) bool {
	p := m.watch.byID[id]
	i := m.world().Instance(id)
	return p != nil && i != nil && p.live() && i.Seq >= minSeq && p.silent < 2*p.ttl/5
}

// mayMove tells whether we may act on a move that balance wants: membership has been still for a while, or the move was
// wanted for long; no Release of ours is under way, of which the plan does not know yet and in whose place it may want this one; and
// the successor is fit.
func (m *Member) mayMove(mv policy.Move) bool {
	if len(m.claims.releasing) > 0 {
		return false // what becomes of it brings us here again
	}
	still := m.watch.moved + max(m.pace/4, 3*m.own.trip)
	late := m.claims.since[mv.Key] + 4*m.pace
	if t := min(still, late); m.now < t {
		m.later(t)
		return false
	}
	if !m.fit(mv.To) || !m.heardSince(mv.To, mv.Key) {
		m.claims.waiting = true
		return false
	}
	return true
}

// heardSince tells whether an instance has been heard of since we got a key. Who claimed a key because the one before
// it in the order let its turn pass must not hand it straight back: that one may just have died.
func (m *Member) heardSince(id lease.InstanceID, k lease.Key) bool {
	l, _ := m.world().Lease(k)
	i := m.world().Instance(id)
	return i != nil && i.Renewed > l.Epoch
}

// heir is who gets a key that we must give up: whom the plan names, unless it is silent; zero: nobody.
func (m *Member) heir(k lease.Key, unfit bool) lease.InstanceID {
	if mv, ok := m.claims.moves[k]; ok && !unfit && (mv.To.IsZero() || m.awake(mv.To)) {
		return mv.To
	}
	return m.claims.plan.Successor(k, m.cfg.Instance, func(id lease.InstanceID) bool {
		return !m.awake(id) || unfit && m.world().Unfit(id, k)
	})
}

// drain stops handing a key out; what is in flight is waited for.
func (m *Member) drain(k lease.Key, c *claim) {
	c.phase = draining
	m.claims.draining++
	m.act(Action{Kind: Drain, Key: k, Epoch: c.epoch})
}

// undrain takes a claim back to where it was before its drain.
func (m *Member) undrain(k lease.Key, c *claim) {
	if c.phase == draining {
		m.claims.draining--
	}
	c.phase, c.offsets = running, nil
	delete(m.claims.ready, k)
}

// resume goes on with a key whose move is not wanted any more, or whose Release was void.
func (m *Member) resume(k lease.Key, c *claim) {
	m.undrain(k, c)
	m.act(Action{Kind: Resume, Key: k, Epoch: c.epoch})
}

// Drained answers a Drain: nothing more is in flight, and these are the exact next offsets (one per partition known).
func (m *Member) Drained(k lease.Key, epoch int64, topicID lease.TopicID, ps []Position, now Now) Output {
	if m.stage == over {
		return m.done()
	}
	m.clocks(now)
	if c := m.claims.run[k]; c != nil && c.epoch == epoch && c.phase == draining {
		c.phase, c.topicID, c.offsets = drained, topicID, slices.Clone(ps)
		m.claims.draining--
		m.claims.ready[k] = true
		m.claims.unsent = true
		m.claims.linger = m.claims.draining > 0
		for _, p := range ps {
			p.Epoch, p.TopicID = epoch, topicID
			m.report(p) // so that they are in the log should the Release come to nothing
		}
	}
	return m.settle(now)
}

// raise takes over a position that has moved since its claim was drained: over what nobody will see, or by work that was not waited
// for. The Release may still have to wait for a Join, or be written anew, and a heartbeat with that position comes before it.
func (c *claim) raise(p Position) {
	for i := range c.offsets {
		if o := &c.offsets[i]; o.Key == p.Key && p.TopicID.Same(c.topicID) {
			o.Next = max(o.Next, p.Next)
		}
	}
}

// Fitter is who would get k if we gave it up now as unfit for it: one that has shown that it lives, may have the key and has
// no mark against it; zero: nobody.
func (m *Member) Fitter(k lease.Key) lease.InstanceID {
	if m.stage != member || m.claims.plan == nil {
		return lease.InstanceID{}
	}
	return m.claims.plan.Successor(k, m.cfg.Instance, func(id lease.InstanceID) bool {
		return !m.fit(id) || m.world().Unfit(id, k)
	})
}

// GiveUp asks to hand k to somebody fitter (StallTimeout): drain, then Release with unfit. Where there is nobody, or nobody
// any more when it is drained, it stays: who marks a key against itself knows of one that has not done so, so a message that stops
// everybody makes the round once, and the last one keeps it.
func (m *Member) GiveUp(k lease.Key, epoch int64, now Now) Output {
	if m.stage == over {
		return m.done()
	}
	m.clocks(now)
	if c := m.claims.run[k]; c != nil && c.epoch == epoch && !c.lost && !m.Fitter(k).IsZero() {
		c.unfit = true
		m.claims.stale = true
	}
	return m.settle(now)
}

// LetGo is GiveUp where there need not be anybody fitter: then the key is free, and we take it again after the wait of one that was
// given up.
func (m *Member) LetGo(k lease.Key, epoch int64, now Now) Output {
	if m.stage == over {
		return m.done()
	}
	m.clocks(now)
	if c := m.claims.run[k]; c != nil && c.epoch == epoch && !c.lost {
		c.unfit, c.letGo = true, true
		m.claims.stale = true
	}
	return m.settle(now)
}

// givesUp tells whether a claim that was given up still is: a leaver hands its keys to whomever the plan names, and without
// an heir it goes on.
func (m *Member) givesUp(k lease.Key, c *claim) bool {
	return c.unfit && !m.leaving.active && (c.letGo || !m.heir(k, true).IsZero())
}

// parcel is what one Release is about.
type parcel struct {
	to    lease.InstanceID
	unfit bool
}

// release writes Releases for all that is drained: one for each successor.
func (m *Member) release(now Now) {
	c := &m.claims
	c.unsent = false
	if m.leaving.keep {
		return
	}
	if m.now < m.take.pause {
		if len(c.ready) > 0 {
			m.later(m.take.pause)
		}
		return
	}
	keys := make([]lease.Key, 0, len(c.ready))
	for k := range c.ready {
		keys = append(keys, k)
	}
	slices.SortFunc(keys, compareKeys)

	var order []parcel
	parcels := map[parcel][]lease.ReleasedKey{}
	known := m.settled()
	changed := len(c.releasing) > 0 && c.written != c.version
	for _, k := range keys {
		held := c.run[k]
		m.attend(k, held.epoch)
		if !c.ready[k] {
			continue
		}
		if changed && m.fate(k) == move {
			continue // by an older plan others are under way: to where this one wants the key, one of them may bring another
		}
		if _, ok := m.wants(k); !known && (!ok || m.leaving.active) {
			continue // first the Join that says that we do not want it
		}
		p := parcel{m.heir(k, held.unfit), held.unfit}
		if _, ok := parcels[p]; !ok {
			order = append(order, p)
		}
		parcels[p] = append(parcels[p], m.released(k, held))
	}
	for _, p := range order {
		for _, part := range split(parcels[p], m.own.bound, sizeOf) {
			seq := m.write(lease.Record{Kind: lease.KindRelease,
				Release: lease.Release{Keys: part, Successor: p.to, Unfit: p.unfit}}, now)
			if len(c.releasing) == 0 {
				c.written = c.version
			}
			for _, r := range part {
				c.run[r.Key].release = seq
				c.releasing[r.Key] = seq
				delete(c.ready, r.Key)
			}
		}
	}
}

// released gives a key with the next offsets that we know: the exact ones if it was drained.
func (m *Member) released(k lease.Key, c *claim) lease.ReleasedKey {
	r := lease.ReleasedKey{Key: k, Epoch: c.epoch, TopicID: c.topicID}
	ps := slices.Clone(c.offsets)
	if ps == nil {
		ps = m.reported(k, c.epoch)
		r.TopicID = m.lifeOf(ps)
	}
	slices.SortFunc(ps, func(a, b Position) int { return compareKeys(a.Key, b.Key) })
	for _, p := range ps {
		if p.TopicID.Same(r.TopicID) {
			r.Partitions = append(r.Partitions, p.Key.Partition)
			r.Next = append(r.Next, p.Next)
		}
	}
	return r
}

// reported gives the positions that were reported under a claim and are not known to be in the world, in the order of keys.
func (m *Member) reported(k lease.Key, epoch int64) []Position {
	var ps []Position
	for key, p := range m.beat.dirty {
		if p.Epoch == epoch && (key == k || k.Partition == lease.WholeTopic && key.Topic == k.Topic) {
			ps = append(ps, p.Position)
		}
	}
	slices.SortFunc(ps, func(a, b Position) int { return compareKeys(a.Key, b.Key) })
	return ps
}

// lifeOf tells which topic id goes into a record that can name one only. Where the topic was recreated and only some of its
// partitions were reported since, it is the id that the world does not have yet; the positions of the earlier life are left out.
func (m *Member) lifeOf(ps []Position) lease.TopicID {
	var life lease.TopicID
	for i, p := range ps {
		if i == 0 || life.IsZero() {
			life = p.TopicID
			continue
		}
		if p.TopicID.Same(life) {
			continue
		}
		known, _ := m.world().Progress(p.Key.Topic, p.Key.Partition)
		if known.TopicID != p.TopicID {
			life = p.TopicID
		}
	}
	return life
}

// ruleReleases: a key whose Release was taken is finished with; one whose Release was void is looked at again.
func (m *Member) ruleReleases(r ruling) {
	for k, seq := range m.claims.releasing {
		c := m.claims.run[k]
		switch r.of(seq) {
		case took:
			c.released, c.release = true, 0
			if c.unfit {
				m.gaveUp(k)
			}
		case void:
			c.release = 0
			if c.lost {
				delete(m.claims.run, k)
			} else {
				m.claims.ready[k] = true
			}
		default:
			continue
		}
		delete(m.claims.releasing, k)
		m.claims.stale = true
	}
}
