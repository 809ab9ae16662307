package member

import (
	"maps"
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// leaving is the wish to end.
type leaving struct {
	active  bool
	keep    bool          // park instead of ending
	grace   time.Duration // for how long
	abandon bool          // do not wait for drains
	seq     uint64        // our Leave, while it is not read back
}

// Leave ends the instance: everything is drained and handed over first, then Leave is written. keep parks it instead:
// nothing is handed over, its keys stay leased for grace, and the Leave is written at once, with the positions reported so
// far; what is read is drained all the same, so that nothing is handed out any more.
func (m *Member) Leave(keep bool, grace time.Duration, now Now) Output {
	if m.stage == over {
		return m.done()
	}
	m.clocks(now)
	if !m.leaving.active {
		m.leaving = leaving{active: true, keep: keep, grace: min(max(grace, 0), lease.MaxGrace)}
		m.probe = probe{}
		m.claims.stale = true
	}
	if m.own.seq == 0 {
		m.leave() // nobody has heard of us
	}
	return m.settle(now)
}

// Abandon gives up what a Leave still waits for: writes Leave with what is known at once. One whose Join is not read
// back has nothing to give up and is over.
func (m *Member) Abandon(now Now) Output {
	if m.stage == over {
		return m.done()
	}
	m.clocks(now)
	m.leaving.active, m.leaving.abandon = true, true
	m.claims.stale = true
	if m.stage == joining {
		m.end("abandoned")
	}
	return m.settle(now)
}

// departs tells whether all that a Leave waits for has happened.
func (m *Member) departs() bool {
	l := &m.leaving
	switch {
	case !l.active, l.seq != 0:
		return false
	case l.keep, l.abandon:
		return true
	}
	return len(m.claims.run) == 0 // a key that is held is in it, if only to be released
}

func (m *Member) departDue() time.Duration {
	if !m.departs() {
		return Never
	}
	return max(m.now, m.take.pause)
}

// depart writes the Leave when it is time.
func (m *Member) depart(now Now) {
	if m.now >= m.departDue() {
		m.leaving.seq = m.farewell(now)
	}
}

// farewell writes a Leave with the next offsets of all that we still run. What does not fit goes before it: as Releases
// where the keys are to be free, as heartbeats where they are to be kept.
func (m *Member) farewell(now Now) uint64 {
	var list []lease.ReleasedKey
	for _, k := range slices.SortedFunc(maps.Keys(m.claims.run), compareKeys) {
		if c := m.claims.run[k]; !c.lost {
			if r := m.released(k, c); len(r.Partitions) > 0 {
				list = append(list, r)
			}
		}
	}
	parts := split(list, m.own.bound, sizeOf)
	rec := lease.Record{Kind: lease.KindLeave, Leave: lease.Leave{Keep: m.leaving.keep, Grace: m.leaving.grace}}
	switch n := len(parts); {
	case n == 1:
		rec.Release.Keys = parts[0]
	case n > 1 && m.leaving.keep:
		m.beatWith(m.pending(), now)
	case n > 1:
		for _, part := range parts[:n-1] {
			m.write(lease.Record{Kind: lease.KindRelease, Release: lease.Release{Keys: part}}, now)
		}
		rec.Release.Keys = parts[n-1]
	}
	return m.write(rec, now)
}

func (m *Member) ruleLeave(r ruling) {
	if r.of(m.leaving.seq) == void {
		m.leaving.seq = 0
	}
}

// leave ends the member as it wished.
func (m *Member) leave() {
	for _, k := range slices.SortedFunc(maps.Keys(m.claims.run), compareKeys) {
		if c := m.claims.run[k]; !c.lost {
			m.finish(k, c)
		}
	}
	m.out.Left = true
	m.close()
}

// end ends the member, and every claim with it.
func (m *Member) end(reason string) {
	for _, k := range slices.SortedFunc(maps.Keys(m.claims.run), compareKeys) {
		m.stop(k, m.claims.run[k], reason)
	}
	m.out.Ended = true
	m.close()
}

// close forgets everything: a member that is over answers every call with an empty Output.
func (m *Member) close() {
	m.s.Log.Disown(m.cfg.Instance)
	out := m.out
	*m = Member{cfg: m.cfg, s: m.s, now: m.now, stage: over, out: out}
}
