package history

import (
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// Outcome is what Take found beyond the events.
type Outcome uint8

// Outcomes, worst last.
const (
	Fine          Outcome = iota
	SnapshotWrong         // a complete Snapshot differs from the world that we had at its upto: a bug, or a foreign writer
	HashDiffers           // a heartbeat has another hash for a position that we have: read from the base again (Recheck)
	Rewound               // an offset not above the last one: the log is another (the caller leaves out what a batch brings along)
)

// Log is a group's history from its base on: it applies, hashes and compares. Not safe for concurrent use.
type Log struct {
	world *lease.World
	hash  uint64 // rolling, at world.Last()
	taken int64  // newest offset taken, Probes included
	ring  ring

	doubted bool

	snapshots snapshots
}

// NewLog starts a log at a base. The world of b is the Log's from now on.
func NewLog(b Base) *Log {
	l := &Log{world: b.World, hash: b.Hash, taken: b.From - 1}
	if p := b.World.Last(); p >= 0 {
		l.ring.add(p, b.Hash)
	}
	return l
}

// Clone makes an independent copy, of what has happened; whose announced snapshots are kept is not copied (Own).
func (l *Log) Clone() *Log {
	c := *l
	c.world = l.world.Clone()
	c.ring.entries, c.ring.heads = slices.Clone(l.ring.entries), slices.Clone(l.ring.heads)
	c.snapshots = l.snapshots.clone()
	return &c
}

// World is the group's world. The pointer never changes.
func (l *Log) World() *lease.World { return l.world }

// Position is the newest offset applied and the rolling hash there; -1: none yet.
func (l *Log) Position() (p int64, hash uint64) { return l.world.Last(), l.hash }

// Doubt says whether a second reading is under way, of a log that may be another than the one that was applied.
func (l *Log) Doubt(begun bool) { l.doubted = begun }

// Doubted tells whether one is. What is read meanwhile proves nothing.
func (l *Log) Doubted() bool { return l.doubted }

// Take applies the group's next record and appends its events. value is the message's value as it stands in the log.
// A Probe is passed to it too. What is Rewound is not applied.
func (l *Log) Take(rec *lease.Record, value []byte, events []lease.Event) ([]lease.Event, Outcome) {
	if rec.Offset <= l.taken {
		return events, Rewound
	}
	l.taken = rec.Offset
	if rec.Kind == lease.KindProbe {
		l.snapshots.probe(rec)
		return events, Fine
	}
	before := len(events)
	events = l.world.Apply(rec, events)
	news := events[before:]
	if rec.Kind == lease.KindBase && did(news, lease.Rebased) {
		l.rebase()
	}
	outcome := Fine
	if rec.Kind == lease.KindHeartbeat && l.contradicts(rec) {
		outcome = HashDiffers
	}
	l.hash = roll(l.hash, rec.Offset, value)
	l.ring.add(rec.Offset, l.hash)
	l.snapshots.records++
	switch rec.Kind {
	case lease.KindHeartbeat:
		if rec.Heartbeat.Announces && did(news, lease.Announced) {
			l.snapshots.announced(rec, l.hash, l.world)
		}
	case lease.KindSnapshot:
		if !l.snapshots.chunk(rec) {
			outcome = max(outcome, SnapshotWrong)
		}
	}
	return events, outcome
}

// did tells whether one of a record's events is of a kind.
func did(events []lease.Event, kind lease.EventKind) bool {
	for i := range events {
		if events[i].Kind == kind {
			return true
		}
	}
	return false
}

// rebase starts the rolling hash again: what was before a valid Base is no part of the history any more.
func (l *Log) rebase() {
	l.hash = 0
	l.ring.reset()
	l.snapshots.rebase()
}

// contradicts tells whether a heartbeat speaks of another log than ours: another hash at a position that we remember, or
// a position among those that we remember at which we have nothing. Its author need not be one that we know: where the log
// has lost what we have read, the Join of who reads it as it is now may stand at an offset that we are past.
func (l *Log) contradicts(rec *lease.Record) bool {
	p := rec.Heartbeat.P
	oldest, ok := l.ring.oldest()
	if !ok || p < oldest || p >= rec.Offset {
		return false
	}
	hash, ok := l.ring.find(p)
	return !ok || hash != rec.Heartbeat.Hash
}
