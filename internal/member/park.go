package member

import (
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// inheritance lists the keys of parked instances with our client id that are not asked for yet: they are the last run of
// us, and the world grants them to a plain Claim. As soon as the world knows what we want they are claimed all together,
// wanted or not (reclaimWait), in the form in which we want them: partitions of a parked run may become a whole topic.
func (m *Member) inheritance() []lease.Key {
	if len(m.claims.want.Interests) == 0 || !m.settled() {
		return nil
	}
	var keys []lease.Key
	chosen := map[lease.Key]bool{}
	for _, k := range m.claims.plan.Parked(m.cfg.Instance) {
		chosen[k] = true
		if m.mayAsk(k) {
			keys = append(keys, k)
		}
	}
	covered := func(k lease.Key) bool {
		if k.Partition != lease.WholeTopic {
			return chosen[k] || chosen[lease.Key{Topic: k.Topic, Partition: lease.WholeTopic}]
		}
		return slices.ContainsFunc(keys, func(o lease.Key) bool { return o.Topic == k.Topic })
	}
	for _, p := range m.watch.peers {
		if !p.parked || p.client != m.cfg.Client {
			continue
		}
		for k := range m.world().HeldBy(p.id) {
			if !covered(k) && m.mayAsk(k) {
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
