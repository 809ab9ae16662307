// Package history knows, for one group, where its log begins for us and whether it is still the same log (PROTOCOL.md §7).
package history

import (
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// Lookbacks is how far back from now a newcomer looks for a base, by the broker's timestamps, one after the other; after
// the last it looks from the log's start.
func Lookbacks() []time.Duration { panic("todo") }

// Base is what a group's history starts from.
type Base struct {
	From  int64        // the first offset to apply
	World *lease.World // the world after all records below From
	Hash  uint64       // the rolling hash there
}

// Scan reads a stretch of the shard, from an offset to the end that it had, and finds the newest base in it.
type Scan struct{}

// NewScan begins a scan that reads from offset from on. from == 0 is a base by itself, if nothing newer is found.
func NewScan(topicID lease.TopicID, from int64) *Scan { panic("todo") }

// Add takes the group's next record. value is the message's value as it stands in the log.
func (s *Scan) Add(rec *lease.Record, value []byte) { panic("todo") }

// Base gives the newest base found: the complete Snapshot with the largest upto that can still be followed from here, a
// valid Base record, or offset 0.
func (s *Scan) Base() (Base, bool) { panic("todo") }

// Log is a group's history from its base on: it applies, hashes and compares. Not safe for concurrent use.
type Log struct{}

// NewLog starts a log at a base. The world of b is the Log's from now on.
func NewLog(b Base) *Log { panic("todo") }

// World is the group's world. The pointer never changes.
func (l *Log) World() *lease.World { panic("todo") }

// Position is the newest offset applied and the rolling hash there; -1: none yet.
func (l *Log) Position() (p int64, hash uint64) { panic("todo") }

// Own says that id is an instance of this process: its announced snapshots are to be kept for TakeSnapshot. Disown
// ends that.
func (l *Log) Own(id lease.InstanceID)    { panic("todo") }
func (l *Log) Disown(id lease.InstanceID) { panic("todo") }

// Outcome is what Take found beyond the events.
type Outcome uint8

// Outcomes, worst last.
const (
	Fine          Outcome = iota
	SnapshotWrong         // a complete Snapshot differs from the world that we had at its upto: a bug, or a foreign writer
	HashDiffers           // a heartbeat has another hash for a position that we have: read from the base again (Recheck)
	Rewound               // an offset not above the last one: the log is another (the caller leaves out what a batch brings along)
)

// Take applies the group's next record and appends its events. value is the message's value as it stands in the log.
// A Probe is passed to it too.
func (l *Log) Take(rec *lease.Record, value []byte, events []lease.Event) ([]lease.Event, Outcome) {
	panic("todo")
}

// SnapshotDue tells whether somebody should announce one now: records since the last complete one, its age by the
// given log-live clock, or a Probe that asked. now is the caller's monotonic clock.
func (l *Log) SnapshotDue(now time.Duration) bool { panic("todo") }

// SnapshotOverdue counts the intervals since SnapshotDue became true without a complete one: the k-th in rendezvous
// order announces when it is >= k. interval is the heartbeat interval.
func (l *Log) SnapshotOverdue(now, interval time.Duration) int { panic("todo") }

// TakeSnapshot gives, once, the world that an own instance announced, as records to append (chunks below the record
// limit), without author's seq: Snapshot records carry none.
func (l *Log) TakeSnapshot() []lease.Record { panic("todo") }

// Recheck compares a second reading from the base with what was applied the first time.
type Recheck struct{}

// Recheck begins: b is the base as found again, and what it finds is held against l.
func (l *Log) Recheck(b Base) *Recheck { panic("todo") }

// Add takes the next record of the second reading.
func (r *Recheck) Add(rec *lease.Record, value []byte) { panic("todo") }

// Same tells, when the second reading has reached the log's position, whether the log is the one that was applied.
func (r *Recheck) Same() (same, reached bool) { panic("todo") }

// Beginner is one who found no base although the log does not start at 0: it probes, waits, and writes a Base when it may.
type Beginner struct{}

// NewBeginner begins. read is the last offset of the shard that was read before (log start - 1 if nothing was there);
// groupSeen tells whether any record of the group was in what was read; scan is the scan that found nothing (it goes on
// with what comes).
func NewBeginner(topicID lease.TopicID, scan *Scan, read int64, groupSeen bool, nonce uint64, now time.Duration) *Beginner {
	panic("todo")
}

// Oldest tells the timestamp of the shard's oldest record (Unix ms) and whether it is a LogAppendTime, for rule a.
// The caller calls it once it knows, and again when the log start moved.
func (b *Beginner) Oldest(ms int64, logAppendTime bool) { panic("todo") }

// Read says that the shard was read up to and including offset (records of other groups too).
func (b *Beginner) Read(offset int64, now time.Duration) { panic("todo") }

// Add takes the group's next record (Probes included).
func (b *Beginner) Add(rec *lease.Record, value []byte, now time.Duration) { panic("todo") }

// Tick gives the records to append now: a Probe every second, a Base as soon as it may be written; and when it next
// wants to be called. tokenBase is the proposal for a Base.
func (b *Beginner) Tick(now time.Duration, tokenBase int64) (records []lease.Record, wake time.Duration) {
	panic("todo")
}

// Base gives the base once there is one: a complete Snapshot, or a valid Base record read back. What was read since is
// to be read again from Base.From.
func (b *Beginner) Base() (Base, bool) { panic("todo") }
