package member

import (
	"bytes"
	"crypto/sha256"
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

	mine  [sha256.Size]byte // our place in the rendezvous order of it
	ahead int               // how many other live instances come before us in that order
	evict uint64            // seq of our Evict of it; 0: none on its way
}

// live tells whether it is joined and not past its ttl by our log-live time.
func (p *peer) live() bool { return !p.parked && !p.dead }

// watch is the other instances, in the order in which we met them (that of their first Join).
type watch struct {
	peers []*peer
	byID  map[lease.InstanceID]*peer
	moved time.Duration // Mono of the newest Join, Leave or Evict applied
}

func (w *watch) init() { w.byID = map[lease.InstanceID]*peer{} }

// place is where an instance stands in the rendezvous order of x (larger is first), as lease.Rank sorts it.
func place(x []byte, id lease.InstanceID) [sha256.Size]byte {
	return sha256.Sum256(append(bytes.Clone(x), id[:]...))
}

func (p *peer) before(other lease.InstanceID) bool {
	theirs := place(p.id[:], other)
	return bytes.Compare(theirs[:], p.mine[:]) > 0
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
		p = &peer{id: i.ID, client: i.Client, readAt: now.Mono, mine: place(i.ID[:], m.cfg.Instance)}
		for _, q := range m.watch.peers {
			if q.live() && p.before(q.id) {
				p.ahead++
			}
		}
		p.parked = true // not counted in the orders yet
		m.watch.peers = append(m.watch.peers, p)
		m.watch.byID[i.ID] = p
	}
	p.ttl = i.TTL
	if rule.Broken(rule.OwnTTL) {
		p.ttl = m.cfg.TTL
	}
	m.flip(p, i.Status == lease.IsParked, p.dead)
}

// lose forgets a peer that has ended.
func (m *Member) lose(id lease.InstanceID) {
	p := m.watch.byID[id]
	if p == nil {
		return
	}
	m.flip(p, true, p.dead)
	delete(m.watch.byID, id)
	m.watch.peers = slices.DeleteFunc(m.watch.peers, func(q *peer) bool { return q == p })
}

// flip sets what liveness follows from, and keeps every peer's count of who comes before us.
func (m *Member) flip(p *peer, parked, dead bool) {
	was := p.live()
	p.parked, p.dead = parked, dead
	is := p.live()
	if was == is {
		return
	}
	m.claims.stale = true // who is silent gets nothing
	for _, q := range m.watch.peers {
		if q == p || !q.before(p.id) {
			continue
		}
		if is {
			q.ahead++
		} else {
			q.ahead--
		}
	}
}

// renewed takes that a record of another instance was read that renewed it.
func (m *Member) renewed(id lease.InstanceID, now Now) {
	p := m.watch.byID[id]
	if p == nil {
		return
	}
	p.readAt, p.silent = now.Mono, 0
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
		if p.ahead < 2 {
			d = min(d, p.ttl/5)
		}
	}
	return d
}

// proofDue is when a heartbeat is wanted because, once read back, it shows that a silent peer is past its ttl. Whoever is
// among the first two to watch it writes that heartbeat at exactly this time.
func (m *Member) proofDue() time.Duration {
	due := Never
	if !m.own.anyRead {
		return due
	}
	newest := m.newest()
	for _, p := range m.watch.peers {
		if p.dead || p.ahead >= 2 {
			continue
		}
		// What was written at or after t serves already.
		if t := max(m.own.read, p.readAt) + limit(p.ttl) - p.silent; newest < t {
			due = min(due, t)
		}
	}
	return due
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
	return max(p.passed+time.Duration(p.ahead)*evictTurn, m.take.pause)
}

// evict declares dead who is past its ttl, naming the renewal that we waited after.
func (m *Member) evict(now Now) {
	var targets []lease.Target
	var due []*peer
	for _, p := range m.watch.peers {
		i := m.world().Instance(p.id)
		if !p.dead || i == nil || m.now < m.evictAt(p) {
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
