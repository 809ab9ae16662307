package member

import (
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/rule"
)

const (
	// silence is for how much log-live time a namesake must say nothing to be taken for dead.
	silence = time.Second
	// reclaimWait is for how long after our first interests a reclaimed key that no consumer wants is kept.
	reclaimWait = 5 * time.Second
)

// probe asks whether the namesake that was there when we joined is alive. Our Join is the question.
type probe struct {
	active bool // a single namesake was there, and nothing of it, nor a third one, was read since
	target lease.InstanceID
	since  time.Duration // Mono at which our Join was read
	silent time.Duration // log-live time since then
	evict  uint64        // seq of our takeover; 0: none on its way
}

// namesakes are the unparked instances with our client id, ourselves not counted.
func (m *Member) namesakes() []*peer {
	var list []*peer
	for _, p := range m.watch.peers {
		if (p.client == m.cfg.Client || rule.Broken(rule.TakeoverClient)) && !p.parked {
			list = append(list, p)
		}
	}
	return list
}

// ask begins the silence probe, when our Join is read and exactly one namesake is there.
func (m *Member) ask() {
	there := m.namesakes()
	switch len(there) {
	case 0:
	case 1:
		m.probe = probe{active: true, target: there[0].id, since: m.now}
	default:
		m.notice(Notice{Kind: ClientInUse, Other: there[0].id})
	}
}

// arrived takes that another instance with our client id joined. To the only one that was there this is a question, which
// is answered by a heartbeat at once; a newcomer that is still asking gives up: two may think the same of each other.
func (m *Member) arrived(before []*peer) {
	if m.stage != member {
		return
	}
	if len(before) == 0 {
		m.beat.at = m.now
	}
	m.inUse(m.probe.target)
}

// answered takes that something of a peer was read.
func (m *Member) answered(p *peer) {
	if p.id == m.probe.target && !rule.Broken(rule.TakeoverOrder) {
		m.inUse(p.id)
	}
}

// inUse ends the probe for good: both stay.
func (m *Member) inUse(id lease.InstanceID) {
	if m.probe.active {
		m.probe = probe{}
		m.notice(Notice{Kind: ClientInUse, Other: id})
	}
}

// grow lets the silence grow as suspicion does, from the reading of our Join on.
func (p *probe) grow(since, now time.Duration) {
	if p.active && since < silence {
		p.silent += min(since, now-p.since)
	}
}

// probeDue is when the probe wants a heartbeat: every half of the silence, and exactly when one that is read back makes it
// complete.
func (m *Member) probeDue() time.Duration {
	p := &m.probe
	if !p.active || p.silent >= silence {
		return Never
	}
	due := m.beat.last + silence/2
	if t := m.own.read + silence - p.silent; m.newest() < t {
		due = min(due, t)
	}
	return due
}

// takeOverDue is when we may take over what our silent namesake holds: as soon as a consumer wants it so.
func (m *Member) takeOverDue() time.Duration {
	p := &m.probe
	if !p.active || p.silent < silence || p.evict != 0 || !m.claims.want.FastReclaim || m.leaving.active || m.silenced() {
		return Never
	}
	return max(m.now, m.take.pause)
}

// takeOver evicts the namesake in our favour. The world checks again that nothing of it was logged since our Join.
func (m *Member) takeOver(now Now) {
	if m.now < m.takeOverDue() {
		return
	}
	i := m.world().Instance(m.probe.target)
	there := m.namesakes()
	if i == nil || len(there) != 1 || there[0].id != m.probe.target {
		m.probe = probe{}
		return
	}
	m.probe.evict = m.write(lease.Record{Kind: lease.KindEvict, Evict: lease.Evict{
		Takeover: true, Targets: []lease.Target{{Instance: i.ID, Renewed: i.Renewed}},
	}}, now)
}

// ruleTakeOver: one that was taken settles the matter, whatever came of it; a void one is judged anew.
func (m *Member) ruleTakeOver(r ruling) {
	switch r.of(m.probe.evict) {
	case took:
		m.probe = probe{}
	case void:
		m.probe.evict = 0
	}
}

// reclaimOpen tells whether reclaimed keys are still kept for consumers to come.
func (m *Member) reclaimOpen() bool {
	return m.claims.first == Never || m.now < m.claims.first+reclaimWait
}
