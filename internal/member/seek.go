package member

import (
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// seek is a Directive that is not read back.
type seek struct {
	d   lease.Directive
	seq uint64 // 0: to be written
}

// Seek sets the progress of a key that we hold, or of a free one. If epoch is NoEpoch it counts whatever the epoch is.
func (m *Member) Seek(k lease.Key, topicID lease.TopicID, next, epoch int64, now Now) Output {
	if m.stage == over {
		return m.done()
	}
	m.clocks(now)
	d := lease.Directive{Kind: lease.Seek, Key: k, TopicID: topicID, Next: next, Epoch: epoch}
	m.seeks = slices.DeleteFunc(m.seeks, func(s seek) bool { return s.seq == 0 && supersedes(d, s.d) })
	m.seeks = append(m.seeks, seek{d: d})
	return m.settle(now)
}

// supersedes tells whether an earlier Seek need not be written where a later one is. One that names an epoch may come to
// nothing, and then the earlier one is still wanted, if that counts under any.
func supersedes(later, earlier lease.Directive) bool {
	return later.Key == earlier.Key && (later.Epoch == lease.NoEpoch || later.Epoch == earlier.Epoch)
}

// seekAgain writes the Seeks that are new, and those whose record was void, if they are still wanted.
func (m *Member) seekAgain(now Now) {
	if m.silenced() || m.now < m.take.pause {
		if slices.ContainsFunc(m.seeks, func(s seek) bool { return s.seq == 0 }) {
			m.later(max(m.take.pause, m.own.reopen))
		}
		return
	}
	m.seeks = slices.DeleteFunc(m.seeks, func(s seek) bool { return s.seq == 0 && !m.current(s.d) })
	for i := range m.seeks {
		if s := &m.seeks[i]; s.seq == 0 {
			s.seq = m.write(lease.Record{Kind: lease.KindDirective, Directive: s.d}, now)
		}
	}
}

// current tells whether a Seek can still do anything: who names an epoch means the claim that it runs under it.
func (m *Member) current(d lease.Directive) bool {
	if d.Epoch == lease.NoEpoch {
		return true
	}
	_, l, ok := m.world().Owner(d.Key.Topic, d.Key.Partition)
	return ok && l.Epoch == d.Epoch
}

// ruleSeeks: a Seek that was taken is done; of those for one key that were void only the newest is written anew.
func (m *Member) ruleSeeks(r ruling) {
	kept := m.seeks[:0]
	for i, s := range m.seeks {
		v := r.of(s.seq)
		newer := slices.ContainsFunc(m.seeks[i+1:], func(o seek) bool { return supersedes(o.d, s.d) })
		if v == took || v == void && newer {
			continue
		}
		if v == void {
			s.seq = 0
		}
		kept = append(kept, s)
	}
	m.seeks = kept
}
