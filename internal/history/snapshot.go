package history

import (
	"encoding/binary"
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// When a snapshot is due (PROTOCOL.md §7), and how it is cut.
const (
	snapshotRecords = 20_000           // at least so many records of the group after the last one ...
	snapshotPerKey  = 4                // ... or so many for each key that somebody holds ...
	snapshotAge     = 10 * time.Minute // ... or so old
	// patience is for how long an announced snapshot is waited for before another may be announced.
	patience  = 3 * time.Second
	chunkSize = 480 << 10 // a record stays below 512 KiB
	maxNotes  = 16        // announced snapshots that are remembered to be compared
)

// snapshots is a Log's knowledge of snapshots: which were announced, what they must contain, when the next is due.
type snapshots struct {
	chunks assembler
	notes  []note // of announced ones, oldest first
	own    []lease.InstanceID
	ready  []lease.Record

	records int64 // of the group since the base
	since   int64 // records when the newest complete one was announced
	asked   bool  // a Probe wants one
	doneAt  stamp // when the newest complete one was read
	dueAt   stamp // since when one is due
	waitAt  stamp // since when an announced one is waited for
}

// stamp is a time that is filled in when somebody next tells the time: records carry none.
type stamp struct {
	state stampState
	at    time.Duration
}

type stampState uint8

const (
	unset stampState = iota
	waiting
	set
)

// read fills the stamp in, if that is wanted, and tells how long ago it was.
func (s *stamp) read(now time.Duration) time.Duration {
	if s.state == waiting {
		s.state, s.at = set, now
	}
	return now - s.at
}

// note is what a snapshot must contain that was announced at an offset.
type note struct {
	offset  int64
	author  lease.InstanceID
	digest  uint64
	hash    uint64
	records int64
}

// Own says that id is an instance of this process: its announced snapshots are to be kept for TakeSnapshot. Disown
// ends that.
func (l *Log) Own(id lease.InstanceID) {
	if !slices.Contains(l.snapshots.own, id) {
		l.snapshots.own = append(l.snapshots.own, id)
	}
}

// Disown ends Own.
func (l *Log) Disown(id lease.InstanceID) {
	l.snapshots.own = slices.DeleteFunc(l.snapshots.own, func(o lease.InstanceID) bool { return o == id })
}

func (s *snapshots) probe(rec *lease.Record) { s.asked = s.asked || rec.Probe.WantsBase }

// announced notes what a snapshot must contain, and makes it if it is to be ours.
func (s *snapshots) announced(rec *lease.Record, hash uint64, w *lease.World) {
	if len(s.notes) == maxNotes {
		s.notes = slices.Delete(s.notes, 0, 1)
	}
	s.notes = append(s.notes, note{rec.Offset, rec.Instance, w.Digest(), hash, s.records})
	s.waitAt = stamp{state: waiting}
	if slices.Contains(s.own, rec.Instance) {
		s.ready = cut(rec, w.TopicID(), appendPayload(nil, hash, w))
	}
}

// cut makes the records of a snapshot.
func cut(rec *lease.Record, topicID lease.TopicID, payload []byte) []lease.Record {
	count := uint32((len(payload) + chunkSize - 1) / chunkSize)
	records := make([]lease.Record, 0, count)
	for chunk := range slices.Chunk(payload, chunkSize) {
		records = append(records, lease.Record{Kind: lease.KindSnapshot, Version: lease.WireVersion, Snapshot: lease.Snapshot{
			Upto: rec.Offset, Author: rec.Instance, TopicID: topicID,
			Index: uint32(len(records)), Count: count, Chunk: slices.Clip(chunk),
		}})
	}
	return records
}

func (s *snapshots) clone() snapshots {
	c := *s
	c.notes, c.own, c.ready = slices.Clone(s.notes), nil, nil
	c.chunks = s.chunks.clone()
	return c
}

// AppendTimes appends what a Log knows beyond the records that it has taken: since when it waits for what, told from now, and
// those further back than horizon alike (for the explorer).
func (l *Log) AppendTimes(b []byte, now, horizon time.Duration) []byte {
	for _, s := range []stamp{l.snapshots.doneAt, l.snapshots.dueAt, l.snapshots.waitAt} {
		b = append(b, byte(s.state))
		if s.state == set {
			b = binary.LittleEndian.AppendUint64(b, uint64(max(s.at-now, -horizon)))
		}
	}
	return b
}

// TakeSnapshot gives, once, the world that an own instance announced, as records to append (chunks below the record
// limit), without author's seq: Snapshot records carry none. If another was announced since, only that one is given.
func (l *Log) TakeSnapshot() []lease.Record {
	records := l.snapshots.ready
	l.snapshots.ready = nil
	return records
}

// chunk takes a piece of a snapshot; false: it made one complete that differs from what we had. Such a one counts as
// done too: if it is we who are wrong, asking for another with every heartbeat would not help.
func (s *snapshots) chunk(rec *lease.Record) bool {
	i := slices.IndexFunc(s.notes, func(n note) bool {
		return n.offset == rec.Snapshot.Upto && n.author == rec.Snapshot.Author
	})
	if i < 0 {
		return true // never announced, compared already, or announced before we came: nothing to hold it against
	}
	payload, complete := s.chunks.add(rec)
	if !complete {
		return true
	}
	n := s.notes[i]
	s.notes = slices.Delete(s.notes, 0, i+1)
	s.since, s.asked = n.records, false
	s.doneAt, s.dueAt, s.waitAt = stamp{state: waiting}, stamp{}, stamp{}
	hash, w, err := parsePayload(payload)
	return err == nil && hash == n.hash && w.Digest() == n.digest
}

// rebase forgets what was announced before a valid Base.
func (s *snapshots) rebase() {
	s.notes, s.ready, s.asked = s.notes[:0], nil, false
	s.since, s.chunks = s.records, assembler{}
	s.doneAt, s.dueAt, s.waitAt = stamp{state: waiting}, stamp{}, stamp{}
}

// SnapshotDue tells whether somebody should announce one now: records since the last complete one, its age by the
// given log-live clock, or a Probe that asked. now is the caller's monotonic clock. While an announced one is waited for
// none is due.
func (l *Log) SnapshotDue(now time.Duration) bool {
	s := &l.snapshots
	if s.doneAt.state == unset {
		s.doneAt.state = waiting // nothing is known before the base
	}
	age := s.doneAt.read(now)
	if !s.asked && age < snapshotAge && s.records-s.since < max(snapshotRecords, snapshotPerKey*l.keys()) {
		return false
	}
	if s.dueAt.state == unset {
		s.dueAt.state = waiting
	}
	s.dueAt.read(now)
	return s.waitAt.state == unset || s.waitAt.read(now) >= patience
}

// SnapshotOverdue counts the intervals since one became due without a complete one: the k-th in rendezvous order
// announces when it is >= k. interval is the heartbeat interval. -1: none is due.
func (l *Log) SnapshotOverdue(now, interval time.Duration) int {
	if !l.SnapshotDue(now) {
		return -1
	}
	return int(l.snapshots.dueAt.read(now) / max(interval, 1))
}

// keys is how many keys are held in the group.
func (l *Log) keys() int64 {
	var n int64
	for in := range l.world.Instances() {
		n += int64(l.world.HeldCount(in.ID))
	}
	return n
}
