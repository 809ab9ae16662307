package member

import (
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

const (
	minTurn     = 50 * time.Millisecond
	minRetake   = time.Second
	maxRetake   = time.Minute
	refusedWait = time.Second
)

// retake is when we may claim a key again that we gave up.
type retake struct {
	at   time.Duration // Mono
	wait time.Duration // how long it was this time
}

// vacancy is a free key that we want.
type vacancy struct {
	since time.Duration // Mono since when
	turn  int           // no earlier one is ours among those who may claim it; -1: none is
}

// take is what there is to claim, and what we asked for.
type take struct {
	free  map[lease.Key]vacancy
	asked map[lease.Key]uint64 // Claims on their way
	given map[lease.Key]retake
	pause time.Duration // Mono before which nothing that was refused is written anew
}

func (t *take) init() {
	t.free = map[lease.Key]vacancy{}
	t.asked = map[lease.Key]uint64{}
	t.given = map[lease.Key]retake{}
}

// turn is how long one candidate for a free key waits for the one before.
func (m *Member) turn() time.Duration { return max(3*m.own.trip, minTurn) }

// claim asks, in one record, for all the keys that are ours to claim at this moment.
func (m *Member) claim(now Now) {
	t := &m.take
	if m.leaving.active || m.silenced() {
		return // reading a record of ours, or nothing at all, ends this
	}
	if m.now < t.pause {
		m.later(t.pause)
		return
	}
	keys := m.inheritance()
	chosen := map[lease.Key]bool{}
	for _, k := range keys {
		chosen[k] = true
	}
	choose := func(k lease.Key) {
		if !chosen[k] {
			chosen[k] = true
			keys = append(keys, k)
		}
	}
	for _, k := range m.claims.want.Pinned {
		if m.grantable(k) && m.mayAsk(k) {
			choose(k)
		}
	}
	room := m.room()
	for _, ours := range [][]lease.Key{m.claims.plan.Greedy(m.cfg.Instance), m.claims.plan.Planned(m.cfg.Instance)} {
		for _, k := range ours {
			if !chosen[k] && m.mayAsk(k) && room.take(m, k) {
				choose(k)
			}
		}
	}
	for _, k := range m.claims.plan.Free() {
		if !chosen[k] && m.myTurn(k) && m.mayAsk(k) && room.take(m, k) {
			choose(k)
		}
	}
	slices.SortFunc(keys, compareKeys)
	for _, part := range split(keys, m.own.bound, func(k lease.Key) int { return keySize + len(k.Topic) }) {
		seq := m.write(lease.Record{Kind: lease.KindClaim, Claim: lease.Claim{Keys: part}}, now)
		for _, k := range part {
			t.asked[k] = seq
		}
	}
}

// grantable tells whether the world would grant us a key: it is free, or parked for our client id.
func (m *Member) grantable(k lease.Key) bool {
	for _, l := range m.world().Conflicts(k) {
		if p := m.watch.byID[l.Instance]; p == nil || !p.parked || p.client != m.cfg.Client {
			return false
		}
	}
	return true
}

// survey notes, for a new plan, which free keys we want and since when they are free.
func (m *Member) survey() {
	t := &m.take
	free := make(map[lease.Key]vacancy, len(t.free))
	for _, k := range m.claims.plan.Free() {
		if _, ok := m.wants(k); !ok {
			continue
		}
		v, ok := t.free[k]
		if !ok {
			v.since = m.now
		}
		v.turn = 1 // the first is the plan's
		free[k] = v
	}
	t.free = free
}

// myTurn tells whether those before us had the time to claim a free key, one after the other.
func (m *Member) myTurn(k lease.Key) bool {
	v, ok := m.take.free[k]
	if !ok || v.turn < 0 || m.take.asked[k] != 0 {
		return false
	}
	due := v.since + time.Duration(v.turn)*m.turn()
	if m.now >= due {
		begun := int((m.now - v.since) / m.turn())
		v.turn = m.claims.plan.TurnWithin(k, m.cfg.Instance, begun+1)
		m.take.free[k] = v
		if v.turn < 0 {
			return false
		}
		due = v.since + time.Duration(v.turn)*m.turn()
	}
	if m.now < due {
		m.later(due)
		return false
	}
	return true
}

// mayAsk tells whether a key may be asked for now: no Claim of it is on its way, and it is not one that we gave up too
// short a while ago.
func (m *Member) mayAsk(k lease.Key) bool {
	if m.take.asked[k] != 0 {
		return false
	}
	if r, ok := m.take.given[k]; ok && m.now < r.at {
		m.later(r.at)
		return false
	}
	return true
}

// room is how many keys each interest may still ask for; an interest without a maximum is not in it.
type room map[int]int

func (m *Member) room() room {
	r := room{}
	for i, interest := range m.claims.want.Interests {
		if interest.Max > 0 {
			r[i] = int(interest.Max)
		}
	}
	if len(r) == 0 {
		return r
	}
	count := func(k lease.Key) {
		if i, ok := m.wants(k); ok && r.limits(i) && !m.claims.pinned[k] {
			r[i]--
		}
	}
	for k := range m.world().HeldBy(m.cfg.Instance) {
		count(k)
	}
	for k := range m.take.asked {
		count(k)
	}
	return r
}

func (r room) limits(i int) bool { _, ok := r[i]; return ok }

// take uses up room for a key, if there is any.
func (r room) take(m *Member, k lease.Key) bool {
	i, ok := m.wants(k)
	if !ok {
		return false
	}
	if r.limits(i) {
		if r[i] <= 0 {
			return false
		}
		r[i]--
	}
	return true
}

// ruleClaims: whatever became of a Claim, its keys may be asked for again; the world says who has them.
func (m *Member) ruleClaims(r ruling) {
	for k, seq := range m.take.asked {
		if r.of(seq) != open {
			delete(m.take.asked, k)
			m.claims.stale = true
		}
	}
}

// refused takes that our Claim of a key was refused. Where another was faster the world shows it; for any other reason
// the key looks as free as before, and is not asked for again at once.
func (m *Member) refused(k lease.Key, why lease.Reason) {
	if why != lease.HeldByOther {
		m.take.given[k] = retake{at: m.now + refusedWait}
	}
}

// gaveUp takes that our unfit Release of a key was read: we take it again after a while that doubles each time, until
// its progress moves in our hands.
func (m *Member) gaveUp(k lease.Key) {
	wait := min(max(2*m.take.given[k].wait, minRetake), maxRetake)
	m.take.given[k] = retake{at: m.now + wait, wait: wait}
}
