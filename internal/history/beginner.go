package history

import (
	"encoding/binary"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/rule"
)

// When a Base may be written (PROTOCOL.md §7).
const (
	probeInterval = time.Second
	quiet         = lease.MaxTTL // rule b: log-live time without a record of the group
	// reach is how far two of our Probes may be apart to count for it (§6, with the largest ttl and probeInterval).
	reach     = min(lease.MaxTTL/2, max(2*probeInterval, lease.MaxTTL/4))
	oldEnough = int64(time.Hour / time.Millisecond) // rule a
)

// Beginner is one who found no base although the log does not start at 0: it probes, waits, and writes a Base when it may.
type Beginner struct {
	scan      *Scan
	read      int64
	groupSeen bool
	nonce     uint64

	oldest      int64 // of the shard's oldest record, Unix ms
	oldestKnown bool  // and it is a LogAppendTime
	probedAt    int64 // timestamp of our newest Probe read back, Unix ms

	live  time.Duration // log-live time without a record of the group
	mark  time.Duration // when our newest Probe was read back, or a record of the group if that was later
	back  time.Duration // when our newest Probe was read back
	begun bool          // one was

	nextProbe, nextBase time.Duration
}

// NewBeginner begins. read is the last offset of the shard that was read before (log start - 1 if nothing was there);
// groupSeen tells whether any record of the group was in what was read; scan is the scan that found nothing (it goes on
// with what comes).
func NewBeginner(topicID lease.TopicID, scan *Scan, read int64, groupSeen bool, nonce uint64, now time.Duration) *Beginner {
	return &Beginner{scan: scan, read: read, groupSeen: groupSeen, nonce: nonce, nextProbe: now, nextBase: now}
}

// Clone makes an independent copy.
func (b *Beginner) Clone() *Beginner {
	c, scan := *b, *b.scan
	scan.chunks = b.scan.chunks.clone()
	c.scan = &scan
	return &c
}

// AppendTimes appends what a Beginner knows beyond the records that it was given: times, told from now, and those further back than
// horizon alike (for the explorer).
func (b *Beginner) AppendTimes(to []byte, now, horizon time.Duration) []byte {
	for _, t := range []time.Duration{b.mark, b.back, b.nextProbe, b.nextBase} {
		to = binary.LittleEndian.AppendUint64(to, uint64(max(t-now, -horizon)))
	}
	to = binary.LittleEndian.AppendUint64(to, uint64(b.live))
	if b.begun {
		return append(to, 1)
	}
	return append(to, 0)
}

// Oldest tells the timestamp of the shard's oldest record (Unix ms) and whether it is a LogAppendTime, for rule a.
// The caller calls it once the whole shard has been read, from its start, and again when the log start moved.
func (b *Beginner) Oldest(ms int64, logAppendTime bool) {
	b.oldest, b.oldestKnown = ms, logAppendTime
}

// Read says that the shard was read up to and including offset (records of other groups too).
func (b *Beginner) Read(offset int64, now time.Duration) { b.read = max(b.read, offset) }

// Add takes the group's next record (Probes included).
func (b *Beginner) Add(rec *lease.Record, value []byte, now time.Duration) {
	b.Read(rec.Offset, now)
	b.scan.Add(rec, value)
	if rec.Kind != lease.KindProbe {
		b.groupSeen = true
		b.live, b.mark = 0, now
		return
	}
	if rec.Probe.Nonce != b.nonce {
		return
	}
	if b.begun && now-b.back < reach {
		b.live += now - b.mark
	}
	b.begun, b.back, b.mark = true, now, now
	b.probedAt = rec.Timestamp
}

// mayBegin tells whether a Base may be written: rule a, or rule b.
func (b *Beginner) mayBegin() bool {
	if rule.Broken(rule.BaseWait) {
		return true
	}
	longAgo := b.begun && b.oldestKnown && !b.groupSeen && b.oldest <= b.probedAt-oldEnough
	return longAgo || b.live >= quiet
}

// Tick gives the records to append now: a Probe every second, a Base as soon as it may be written, again each second
// until it is read back (a second one changes nothing); and when it next wants to be called. It is to be called after
// what was read, too. tokenBase is the proposal for a Base.
func (b *Beginner) Tick(now time.Duration, tokenBase int64) (records []lease.Record, wake time.Duration) {
	if _, found := b.scan.Base(); found {
		return nil, now + probeInterval
	}
	if b.mayBegin() && now >= b.nextBase {
		b.nextBase = now + probeInterval
		records = append(records, lease.Record{Kind: lease.KindBase, Version: lease.WireVersion,
			Base: lease.Base{Seen: b.read, TokenBase: tokenBase}})
	}
	if now >= b.nextProbe {
		b.nextProbe = now + probeInterval
		records = append(records, lease.Record{Kind: lease.KindProbe, Version: lease.WireVersion,
			Probe: lease.Probe{Nonce: b.nonce, WantsBase: true}})
	}
	return records, b.nextProbe
}

// Base gives the base once there is one: a complete Snapshot, or a valid Base record read back. What was read since is
// to be read again from Base.From.
func (b *Beginner) Base() (Base, bool) { return b.scan.Base() }
