package member

import (
	"bytes"
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/rule"
)

// evictTurn is by how much each later instance in rendezvous order waits for the ones before it to evict.
const evictTurn = 50 * time.Millisecond

// peer is another instance that has not ended.
type peer struct {
	id     lease.InstanceID
	client string
	ttl    time.Duration
	parked bool

	readAt time.Duration // Mono at which its newest renewal was read
	silent time.Duration // log-live time since then
	passed time.Duration // Mono at which silent reached ttl; meaningful while it is suspected
	dead   bool          // silent for a ttl

	rank  rank   // what we know of our place in the rendezvous order of it
	evict uint64 // seq of our Evict of it; 0: none on its way
}

// rank is how many live instances come before us in the rendezvous order of a peer, as far as they were counted.
type rank struct {
	ahead int
	all   bool   // there are no more
	turn  uint64 // of the watch, when they were counted
}

// live tells whether it is joined and not past its ttl by our log-live time.
func (p *peer) live() bool { return !p.parked && !p.dead }

// watch is the other instances, in the order in which we met them (that of their first Join).
type watch struct {
	peers []*peer
	byID  map[lease.InstanceID]*peer
	moved time.Duration // Mono of the newest Join, Leave or Evict applied

	// A group may have thousands of instances, and each of them writes every few seconds: what follows from all of them is
	// worked out when it changes, not for each record.
	turn  uint64 // counts the changes of who is there, who is live, and their ttls
	dead  int    // how many are past their ttl
	paced uint64 // the turn of which Member.pace is
	proof proof  // the newest answer of proofDue
}

func (w *watch) init() { w.byID = map[lease.InstanceID]*peer{} }

// ahead counts how many live instances come before us in the rendezvous order of a peer, up to a limit. Whoever is not
// among the first finds as many in a few tries, however large the group is; so nobody works out whole orders.
func (m *Member) ahead(p *peer, limit int) int {
	if p.rank.turn != m.watch.turn || !p.rank.all && p.rank.ahead < limit {
		p.rank = rank{turn: m.watch.turn, all: true}
		mine := lease.Place(p.id[:], m.cfg.Instance)
		for _, q := range m.watch.peers {
			if q == p || !q.live() {
				continue
			}
			if theirs := lease.Place(p.id[:], q.id); bytes.Compare(theirs[:], mine[:]) < 0 {
				continue
			}
			if p.rank.ahead++; p.rank.ahead == limit {
				p.rank.all = false
				break
			}
		}
	}
	return min(p.rank.ahead, limit)
}

// meet brings the peers in line with the world, whatever the events said.
func (m *Member) meet(now Now) {
	there := map[lease.InstanceID]bool{}
	for i := range m.world().Instances() {
		there[i.ID] = true
		m.see(i, now)
	}
	for _, p := range slices.Clone(m.watch.peers) {
		if !there[p.id] {
			m.lose(p.id)
		}
	}
}

// see makes or changes the peer for an instance of the world. A new one counts as renewed now: that is when we read it,
// or later.
func (m *Member) see(i *lease.Instance, now Now) {
	if i.ID == m.cfg.Instance || i.Status == lease.Ended {
		return
	}
	p := m.watch.byID[i.ID]
	if p == nil {
		p = &peer{id: i.ID, client: i.Client, readAt: now.Mono, parked: true} // not live until it is counted
		m.watch.peers = append(m.watch.peers, p)
		m.watch.byID[i.ID] = p
	}
	p.ttl = i.TTL
	if rule.Broken(rule.OwnTTL) {
		p.ttl = m.cfg.TTL
	}
	m.watch.turn++
	m.flip(p, i.Status == lease.IsParked, p.dead)
}

// lose forgets a peer that has ended.
func (m *Member) lose(id lease.InstanceID) {
	p := m.watch.byID[id]
	if p == nil {
		return
	}
	m.flip(p, true, false)
	m.watch.turn++
	delete(m.watch.byID, id)
	m.watch.peers = slices.DeleteFunc(m.watch.peers, func(q *peer) bool { return q == p })
}

// flip sets what liveness follows from.
func (m *Member) flip(p *peer, parked, dead bool) {
	if parked == p.parked && dead == p.dead {
		return
	}
	if was := p.live(); was != (!parked && !dead) {
		m.claims.stale = true // who is silent gets nothing
	}
	switch {
	case dead && !p.dead:
		m.watch.dead++
	case p.dead && !dead:
		m.watch.dead--
	}
	p.parked, p.dead = parked, dead
	m.watch.turn++
}

// renewed takes that a record of another instance was read that renewed it.
func (m *Member) renewed(id lease.InstanceID, now Now) {
	p := m.watch.byID[id]
	if p == nil {
		return
	}
	p.readAt, p.silent = now.Mono, 0
	if m.watch.proof.of == p {
		m.watch.proof = proof{}
	}
	m.flip(p, p.parked, false)
	m.answered(p)
	if m.claims.waiting {
		m.claims.stale = true // a move may wait for its successor to be heard of
	}
}

// grow lets suspicion grow, when a record of our own was read: only then do we know that the log was there all the time
// since the one before, and that others could have renewed. A longer pause between the two proves nothing.
func (m *Member) grow(now time.Duration) {
	if !m.own.anyRead {
		return
	}
	since := now - m.own.read
	for _, p := range m.watch.peers {
		if m.counts(since, p) {
			p.silent += min(since, now-p.readAt)
			m.suspect(p, now)
		}
		if rule.Broken(rule.Timestamps) {
			m.compareTimestamps(p, now)
		}
	}
	m.probe.grow(since, now)
}

// counts tells whether a pause of this length between two of our records says anything of a peer.
func (m *Member) counts(since time.Duration, p *peer) bool {
	return since < p.ttl/2 && since < max(2*m.pace, p.ttl/4)
}

// suspect looks whether a peer is past its ttl.
func (m *Member) suspect(p *peer, now time.Duration) {
	if p.silent >= limit(p.ttl) && !p.dead {
		p.passed = now
		m.flip(p, p.parked, true)
	}
}

// limit is for how long a peer with this ttl may be silent.
func limit(ttl time.Duration) time.Duration {
	if rule.Broken(rule.EvictEarly) {
		return ttl * 6 / 10
	}
	return ttl
}

// interval is the period of our heartbeats: short enough for ourselves, and for each instance that we are among the
// first two to watch.
func (m *Member) interval() time.Duration {
	d := min(m.cfg.Heartbeat, m.ttl()/5)
	for _, p := range m.watch.peers {
		if p.ttl/5 < d && m.ahead(p, 2) < 2 {
			d = p.ttl / 5
		}
	}
	return d
}

// proof is when a heartbeat is wanted for the sake of a peer, and what that follows from.
type proof struct {
	turn                  uint64
	read, newest, regular time.Duration

	due time.Duration
	of  *peer // nil: none
}

// proofDue is when a heartbeat is wanted, before the regular one, because once read back it shows that a silent peer is past
// its ttl. Whoever is among the first two to watch it writes that heartbeat at exactly this time.
func (m *Member) proofDue(regular time.Duration) time.Duration {
	if !m.own.anyRead {
		return regular
	}
	w := &m.watch
	newest := m.newest()
	if k := &w.proof; k.turn == w.turn && k.read == m.own.read && k.newest == newest && k.regular == regular {
		return k.due
	}
	w.proof = proof{turn: w.turn, read: m.own.read, newest: newest, regular: regular, due: regular}
	for _, p := range w.peers {
		// What was written at or after t serves already.
		if t := max(m.own.read, p.readAt) + limit(p.ttl) - p.silent; !p.dead && newest < t && t < w.proof.due && m.ahead(p, 2) < 2 {
			w.proof.due, w.proof.of = t, p
		}
	}
	return w.proof.due
}

// newest is when our newest record was made, or an earlier one read back: what we shall read back soon proves that the
// log was there until then.
func (m *Member) newest() time.Duration {
	if n := len(m.own.sent); n > 0 {
		return m.own.sent[n-1].started.Mono
	}
	return m.own.read
}

// evictDue is when the next peer may be evicted: at once by the first in rendezvous order, later by each further one.
func (m *Member) evictDue() time.Duration {
	due := Never
	if m.watch.dead == 0 && !rule.Broken(rule.LogLive) {
		return due
	}
	for _, p := range m.watch.peers {
		due = min(due, m.evictAt(p))
	}
	return due
}

func (m *Member) evictAt(p *peer) time.Duration {
	switch {
	case rule.Broken(rule.LogLive) && !p.dead && p.evict == 0:
		return p.readAt + p.ttl
	case !p.dead, p.evict != 0, m.silenced():
		return Never
	}
	passed := 1 + int((m.now-p.passed)/evictTurn) // so many turns have begun
	return max(p.passed+time.Duration(m.ahead(p, passed))*evictTurn, m.take.pause)
}

// evict declares dead who is past its ttl, naming the renewal that we waited after.
func (m *Member) evict(now Now) {
	if m.now < m.evictDue() {
		return
	}
	var targets []lease.Target
	var due []*peer
	for _, p := range m.watch.peers {
		if !p.dead || m.now < m.evictAt(p) {
			continue
		}
		i := m.world().Instance(p.id)
		if i == nil {
			continue
		}
		targets = append(targets, lease.Target{Instance: p.id, Renewed: i.Renewed})
		due = append(due, p)
	}
	for part := range slices.Chunk(targets, max(m.own.bound/targetSize, 1)) {
		seq := m.write(lease.Record{Kind: lease.KindEvict, Evict: lease.Evict{Targets: part}}, now)
		for range part {
			due[0].evict = seq
			due = due[1:]
		}
	}
}

// ruleEvictions: a target is judged anew when its Evict was void, or when it was taken and the target is still there.
func (m *Member) ruleEvictions(r ruling) {
	for _, p := range m.watch.peers {
		if r.of(p.evict) != open {
			p.evict = 0
		}
	}
}

// LiveTime is the log-live time since we read the newest renewal of t (display and tests).
func (m *Member) LiveTime(t lease.InstanceID) time.Duration {
	if p := m.watch.byID[t]; p != nil {
		return p.silent
	}
	return 0
}
