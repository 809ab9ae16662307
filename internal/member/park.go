package member

import "github.com/kafka-marshal/marshal/internal/lease"

// inheritance lists the keys of parked instances with our client id: they are the last run of us, and the world grants
// them to a plain Claim. They are claimed together, wanted or not, as soon as we want anything.
func (m *Member) inheritance() []lease.Key {
	if len(m.claims.want.Interests) == 0 {
		return nil
	}
	var keys []lease.Key
	for _, p := range m.watch.peers {
		if p.parked && p.client == m.cfg.Client {
			for k := range m.world().HeldBy(p.id) {
				keys = append(keys, k)
			}
		}
	}
	return keys
}

// keep works out which keys are held unread: those of a consumer that ended with Terminate(false), for its RestartGrace;
// and what was reclaimed before anybody wanted it, for a while (reclaim.go).
func (m *Member) keep() {
	c := &m.claims
	clear(c.kept)
	if m.now < c.want.KeptUntil {
		for _, k := range c.want.Kept {
			if l, ok := m.world().Lease(k); ok && l.Instance == m.cfg.Instance {
				c.kept[k] = true
			}
		}
		if len(c.kept) > 0 {
			m.later(c.want.KeptUntil)
		}
	}
	switch {
	case len(c.reclaimed) == 0:
	case !m.reclaimOpen():
		clear(c.reclaimed)
	case c.first != Never:
		m.later(c.first + reclaimWait)
	}
}
