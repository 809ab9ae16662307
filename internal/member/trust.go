package member

import (
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/rule"
)

// maxSent bounds how many records of our own we remember until they are read back. Forgetting the start of one costs
// trust that it might have given, never more than that.
const maxSent = 128

// sent is a record of ours that is not read back.
type sent struct {
	seq     uint64
	kind    lease.Kind
	started Now           // when it was made: its writing cannot have begun earlier
	acked   time.Duration // Mono of the broker's acknowledgement; negative: none yet
}

// own is what we know of the records that we wrote.
type own struct {
	seq     uint64
	sent    []sent        // in the order of seq
	trust   Now           // until when we may act on our leases; zero: not at all
	trip    time.Duration // smoothed time from writing a record to reading it back
	read    time.Duration // Mono at which the newest record of ours was read back
	anyRead bool
	deaf    uint64        // seq of the record that was acknowledged and is not read back; 0: we hear
	reopen  time.Duration // Mono of the next Reopen while deaf
	reopens int           // so far, while deaf
	bound   int           // a record larger than this is split
}

// write takes a record's seq and its started in one step, and puts it out.
func (m *Member) write(rec lease.Record, now Now) uint64 {
	m.own.seq++
	rec.Instance = m.cfg.Instance
	rec.Seq = m.own.seq
	rec.Version = lease.WireVersion
	if rec.Seq > 1 {
		rec.Version = min(rec.Version, m.world().WireVersion())
	}
	if len(m.own.sent) == maxSent {
		m.own.sent = slices.Delete(m.own.sent, 0, 1)
	}
	m.own.sent = append(m.own.sent, sent{rec.Seq, rec.Kind, m.started(now), -1})
	m.out.Appends = append(m.out.Appends, Append{rec})
	return rec.Seq
}

// started is now with the boot clock filled in. Between ticks it is reckoned from the last one: a suspension since then
// makes that too early, and the trust that follows from it too short, which is the safe side.
func (m *Member) started(now Now) Now {
	if now.Boot == 0 && m.tick.Boot != 0 {
		now.Boot = m.tick.Boot + now.Mono - m.tick.Mono
	}
	return now
}

// readBack takes that Apply took our record with this seq: it gives trust, and what came before it and was not read is
// void.
func (m *Member) readBack(seq uint64, now Now) {
	known := false
	var rec sent
	for len(m.own.sent) > 0 && m.own.sent[0].seq <= seq {
		if rec = m.own.sent[0]; rec.seq == seq {
			known = true
		}
		m.own.sent = m.own.sent[1:]
	}
	if known {
		m.renew(rec.started, now)
		m.measure(now.Mono - rec.started.Mono)
	}
	if m.own.deaf != 0 && seq >= m.own.deaf {
		m.own.deaf = 0
		m.claims.stale = true // what was held back
	}
	m.grow(now.Mono)
	m.own.read, m.own.anyRead = now.Mono, true
	m.conclude(ruling{seq: seq})
}

// ruling is what has come out about the records of ours up to one of them: it was read back, or it was refused for good.
type ruling struct {
	seq     uint64
	refused bool
}

// verdict is what it means for one record.
type verdict uint8

const (
	open verdict = iota // not known yet, or no record at all
	took                // Apply took it
	void                // it never will be taken
)

// of tells what it means for the record with this seq (0: there is none). One that was not read before a later one never
// will be: seq only grows.
func (r ruling) of(seq uint64) verdict {
	switch {
	case seq == 0:
		return open
	case seq == r.seq && !r.refused:
		return took
	case seq == r.seq, seq < r.seq && !r.refused:
		return void
	}
	return open
}

// conclude tells every wish what became of its record.
func (m *Member) conclude(r ruling) {
	m.ruleJoin(r)
	m.ruleProgress(r)
	m.ruleClaims(r)
	m.ruleReleases(r)
	m.ruleSeeks(r)
	m.ruleLeave(r)
	m.ruleEvictions(r)
	m.ruleTakeOver(r)
}

// renew moves trust to a ttl, less the margin, after the start of the writing of a renewal. Nothing gives trust while the log is in
// doubt: who was frozen while the brokers lost records finds its own heartbeat in a log in which its claims are another's.
func (m *Member) renew(started, now Now) {
	if m.s.Log.Doubted() {
		return
	}
	if rule.Broken(rule.Started) {
		started = m.started(now)
	}
	if t := trustFrom(started, m.ttl()); t.Mono > m.own.trust.Mono {
		m.own.trust = t
	}
}

// trustFrom is until when a renewal that was started then may be trusted. A clock that was not read stays out of it.
func trustFrom(started Now, ttl time.Duration) Now {
	d := ttl - ttl/10
	switch {
	case rule.Broken(rule.NoMargin):
		d = ttl
	case rule.Broken(rule.Margin):
		d = ttl + ttl/10
	}
	t := Now{Mono: started.Mono + d, Wall: started.Wall + d}
	if started.Boot != 0 {
		t.Boot = started.Boot + d
	}
	return t
}

// before tells whether n is before t on each clock that both have.
func (n Now) before(t Now) bool {
	return n.Mono < t.Mono && n.Wall < t.Wall && (n.Boot == 0 || t.Boot == 0 || n.Boot < t.Boot)
}

// measure smooths the round trip. A record that waited for an outage to end says nothing of the usual one, so a sample
// counts for an interval at most.
func (m *Member) measure(sample time.Duration) {
	sample = min(max(sample, 0), m.pace)
	if m.own.trip == 0 {
		m.own.trip = sample
	}
	m.own.trip += (sample - m.own.trip) / 8
}

// ttl is our own as the world has it; before our Join is read, as it will be.
func (m *Member) ttl() time.Duration {
	if i := m.self(); i != nil {
		return i.TTL
	}
	return m.cfg.TTL
}

// Trust is until when the instance may act on its leases: hand-out is allowed while now is before it on each clock
// (Boot only where it was read). Zero: not at all.
func (m *Member) Trust() Now { return m.own.trust }

// Acked says that the append of our record with this seq was acknowledged.
func (m *Member) Acked(seq uint64, now Now) Output {
	if m.stage == over {
		return m.done()
	}
	m.clocks(now)
	for i := range m.own.sent {
		if s := &m.own.sent[i]; s.seq == seq && s.acked < 0 {
			s.acked = m.now
		}
	}
	return m.settle(now)
}

// deafDue is when we shall be deaf, or open the reading side anew because the last time did not help.
func (m *Member) deafDue() time.Duration {
	if m.own.deaf != 0 {
		return m.own.reopen
	}
	due := Never
	for _, s := range m.own.sent {
		if s.acked >= 0 {
			due = min(due, s.acked+m.ttl()/2)
		}
	}
	return due
}

// maxReopens is how often a deaf member opens its reading side anew, once a ttl, before it ends.
const maxReopens = 3

// listen finds out that we are deaf: what we wrote is in the log, and half a ttl later we have not read it. From then on
// we are silent (our renewals would keep keys that we may not hand out) until it is read. If that helps nothing for long the
// brokers may have lost what they acknowledged: where nobody else writes, nothing would ever show it, so we end and join anew.
func (m *Member) listen() {
	if m.now < m.deafDue() {
		return
	}
	switch {
	case m.own.deaf != 0 && m.own.reopens == maxReopens && m.stage == member:
		m.end("what it wrote was acknowledged and cannot be read")
		return
	case m.own.deaf == 0:
		m.own.reopens = 0
		i := slices.IndexFunc(m.own.sent, func(s sent) bool { return s.acked >= 0 && m.now >= s.acked+m.ttl()/2 })
		m.own.deaf = m.own.sent[i].seq
		m.notice(Notice{Kind: Deaf})
	}
	m.own.reopens = min(m.own.reopens+1, maxReopens)
	m.own.reopen = m.now + m.ttl()
	m.out.Reopen = true
}

// Rejected says that our record with this seq was refused for good: too large (a heartbeat is followed by an empty one).
// What it was to do is done again in smaller records.
func (m *Member) Rejected(seq uint64, now Now) Output {
	if m.stage == over {
		return m.done()
	}
	m.clocks(now)
	kind := m.refuse(seq)
	if kind != lease.Foreign {
		m.own.bound = max(m.own.bound/2, minBound)
	}
	if kind == lease.KindHeartbeat {
		now.Mono = m.now
		m.beatWith(nil, now)
	}
	return m.settle(now)
}

// refuse makes a record void that is not in the log, or that the world will never take, and tells its kind (Foreign: we
// wait for no such record). Unless it is a heartbeat nothing is written anew before the next one would be: who refuses
// everything must not be asked in a loop.
func (m *Member) refuse(seq uint64) lease.Kind {
	i := slices.IndexFunc(m.own.sent, func(s sent) bool { return s.seq == seq })
	if i < 0 {
		return lease.Foreign
	}
	kind := m.own.sent[i].kind
	m.own.sent = slices.Delete(m.own.sent, i, i+1)
	m.conclude(ruling{seq: seq, refused: true})
	if kind != lease.KindHeartbeat {
		m.take.pause = m.now + m.pace
	}
	return kind
}

// minBound is the smallest size that records are split to, whatever is refused.
const minBound = 4 << 10
