package member

import (
	"time"

	"github.com/kafka-marshal/marshal/internal/rule"
)

// What a member does where a rule is broken and that takes more than leaving out a comparison. No build for use has it in it.

// judge does nothing, but where time that no record of ours has proved is taken for silence.
func (m *Member) judge() {
	switch {
	case rule.Broken(rule.LogLive):
		for _, p := range m.watch.peers {
			p.silent = m.now - p.readAt
			m.suspect(p, m.now)
		}
	case rule.Broken(rule.OpenGap):
		since := m.now - m.own.read
		for _, p := range m.watch.peers {
			if m.own.anyRead && m.counts(since, p) && p.silent+min(since, m.now-p.readAt) >= p.ttl && !p.dead {
				p.passed = m.now
				m.flip(p, p.parked, true)
			}
		}
	}
}

// compareTimestamps takes the distance between the broker's timestamps of our newest record and of a peer's for its silence.
func (m *Member) compareTimestamps(p *peer, now time.Duration) {
	ours, theirs := m.self(), m.world().Instance(p.id)
	if ours != nil && theirs != nil && ours.RenewedTime != 0 && theirs.RenewedTime != 0 { // a snapshot has none
		p.silent = time.Duration(ours.RenewedTime-theirs.RenewedTime) * time.Millisecond
		m.suspect(p, now)
	}
}

// restart takes the attempt to write a record once more for the start of its writing, which is wrong.
func (m *Member) restart(seq uint64, now Now) {
	for i := range m.own.sent {
		if m.own.sent[i].seq == seq {
			m.own.sent[i].started = m.started(now)
		}
	}
}
