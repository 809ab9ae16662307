package audit

import (
	"errors"
	"fmt"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
)

// FindingKind tells the findings apart.
type FindingKind uint8

// What can be wrong; see the package's comment.
const (
	TwoOwners FindingKind = iota + 1
	Regression
	Disagreement
	Foreign
)

func (k FindingKind) String() string {
	return [...]string{"", "two owners", "regression", "disagreement", "foreign"}[k]
}

// Finding is one thing that is wrong with a record.
type Finding struct {
	Kind FindingKind
	Text string
}

func (f Finding) String() string { return f.Kind.String() + ": " + f.Text }

// Message is one message that stands in the shard under the group's name.
type Message struct {
	Record   *lease.Record // decoded, with offset and timestamp; of Kind Foreign where that was not possible
	Value    []byte
	Original bool // it has the form of the original Marshal's text records
}

// Entry says what a message is and what it did.
type Entry struct {
	Kind     string // "join", "heartbeat", "claim" …
	Author   lease.InstanceID
	Client   string // the author's, where it is known
	Text     string
	Judged   bool // it was replayed; else it stands before the base, or what came before it cannot be read
	Effects  []string
	Changes  []Change // the same for programs: every key
	Findings []Finding
}

// Limits of what is remembered of a long log, so that memory stays bounded whatever is in it.
const (
	maxAuthors   = 1 << 16
	maxGrants    = 1 << 16
	maxAnnounced = 1 << 10
	// likelyJump is how far a seq may be above the one before. Heartbeats that were never written leave gaps, but nobody
	// stays in a group for a million of them.
	likelyJump = 1 << 20
)

// Audit replays one group. Not safe for concurrent use.
type Audit struct {
	from     int64 // the first offset that is judged
	log      *history.Log
	outdated bool // a member wrote in a newer version: what it did is not known
	events   []lease.Event
	takeover bool // the newest record replaces a former run
	entry    Entry

	authors   memory[lease.InstanceID, member] // each who ever joined
	grants    memory[grant, struct{}]
	announced memory[announcement, struct{}]
	reported  map[lease.Key]report
	snapshots history.Assembler
	token     int64 // the largest that was granted
}

// grant is a lease that the world granted once.
type grant struct {
	key   lease.Key
	epoch int64
	owner lease.InstanceID
}

type announcement struct {
	author lease.InstanceID
	upto   int64
}

// member is who joined.
type member struct {
	client string
	wants  int64 // offset of its newest Join
}

// report is what was taken last of a partition's progress, and whose.
type report struct {
	author  lease.InstanceID
	epoch   int64
	next    int64
	reached int64 // offset of the first record that had it as far
}

// New begins at a base, whose world is the Audit's from now on. nil: there is none, so nothing can be judged.
func New(b *history.Base) *Audit {
	a := &Audit{
		authors:   newMemory[lease.InstanceID, member](maxAuthors),
		grants:    newMemory[grant, struct{}](maxGrants),
		announced: newMemory[announcement, struct{}](maxAnnounced),
		reported:  map[lease.Key]report{},
	}
	if b == nil {
		return a
	}
	a.from, a.log = b.From, history.NewLog(*b)
	w := b.World
	for i := range w.Instances() {
		a.authors.add(i.ID, member{client: i.Client})
	}
	for k, l := range w.Leases() {
		a.grant(k, l)
	}
	return a
}

// World is the group's world as replayed so far; nil: there is no base.
func (a *Audit) World() *lease.World {
	if a.log == nil {
		return nil
	}
	return a.log.World()
}

// Take looks at the group's next message. The entry is valid until the next call.
func (a *Audit) Take(m Message) *Entry {
	rec := m.Record
	a.entry = Entry{
		Kind: kindNames[rec.Kind], Author: author(rec),
		Judged:  a.log != nil && !a.outdated && rec.Offset >= a.from,
		Effects: a.entry.Effects[:0], Changes: a.entry.Changes[:0], Findings: a.entry.Findings[:0],
	}
	if rec.Kind == lease.KindJoin {
		a.entry.Client = rec.Join.Client
	}
	if m, ok := a.authors.find(a.entry.Author); ok {
		a.entry.Client = m.client
	}
	a.entry.Text = a.describe(m)
	if rec.Kind == lease.Foreign {
		a.find(Foreign, "%s", a.entry.Text)
	}
	if a.entry.Judged {
		a.judge(m)
	} else if rec.Kind == lease.KindJoin && rec.Seq == 1 {
		a.authors.add(rec.Instance, member{client: rec.Join.Client})
	}
	return &a.entry
}

// author is who wrote a record, as it says itself.
func author(rec *lease.Record) lease.InstanceID {
	switch rec.Kind {
	case lease.KindSnapshot:
		return rec.Snapshot.Author
	case lease.Foreign, lease.KindBase, lease.KindProbe:
		return lease.InstanceID{}
	}
	return rec.Instance
}

func (a *Audit) find(kind FindingKind, format string, args ...any) {
	a.entry.Findings = append(a.entry.Findings, Finding{kind, fmt.Sprintf(format, args...)})
}

// judge replays a message and looks at what came of it.
func (a *Audit) judge(m Message) {
	rec, w := m.Record, a.log.World()
	var seq uint64
	if in := w.Instance(rec.Instance); in != nil && in.Status == lease.Alive {
		seq = in.Seq
	}
	var outcome history.Outcome
	a.events, outcome = a.log.Take(rec, m.Value, a.events[:0])
	a.learn()
	a.takeover = rec.Kind == lease.KindEvict && rec.Evict.Takeover
	a.entry.Effects = a.effects(a.entry.Effects)
	a.entry.Changes = a.changes(a.entry.Changes)
	if outcome == history.HashDiffers {
		a.find(Disagreement, "its author has read another history up to offset %d", rec.Heartbeat.P)
	}
	if rec.Kind == lease.KindSnapshot {
		a.snapshot(rec, outcome)
	}
	jumps := seq > 0 && rec.Seq > seq && rec.Seq-seq > likelyJump
	if jumps && rec.Kind != lease.Foreign {
		a.find(Foreign, "seq jumps from %d to %d", seq, rec.Seq)
	}
	for i := range a.events {
		e := &a.events[i]
		switch {
		case e.Kind == lease.Newer:
			a.outdated = true
		case e.Kind == lease.Rebased:
			if first := w.TokenBase() + e.Offset; first < a.token {
				a.find(Regression, "tokens go on at %d, below %d which was granted before", first, a.token)
			}
		case e.Kind != lease.Ignored || jumps || rec.Kind == lease.Foreign:
		case e.Reason == lease.Malformed:
			a.malformed(rec)
		case e.Reason == lease.AuthorUnknown:
			a.unknown(rec)
		case e.Reason == lease.Behind:
			a.behind(rec, e.Key)
		}
	}
	a.owners(rec)
}

// learn keeps what later records are held against.
func (a *Audit) learn() {
	w := a.log.World()
	for i := range a.events {
		e := &a.events[i]
		switch e.Kind {
		case lease.Joined, lease.Interested:
			a.authors.add(e.Instance, member{w.Instance(e.Instance).Client, e.Offset})
		case lease.Granted, lease.HandedOver, lease.TakenOver:
			a.grant(e.Key, lease.Lease{Instance: e.Instance, Epoch: e.Epoch})
		case lease.Sought:
			if e.Instance.IsZero() {
				break
			}
			if k, l, ok := w.Conflict(e.Key); ok { // of a partition it may be its whole topic's lease
				a.grant(k, l)
			}
		case lease.Progressed:
			r := report{e.Instance, e.Epoch, e.Next, e.Offset}
			if before, ok := a.reported[e.Key]; ok && before.next == e.Next {
				r.reached = before.reached
			}
			a.reported[e.Key] = r
		case lease.Announced:
			a.announced.add(announcement{e.Instance, e.Offset}, struct{}{})
		}
	}
}

func (a *Audit) grant(k lease.Key, l lease.Lease) {
	a.grants.add(grant{k, l.Epoch, l.Instance}, struct{}{})
	a.token = max(a.token, a.log.World().TokenBase()+l.Epoch)
}

// unknown judges a record by somebody who is not there. It may have been, and have ended: long ago, before a Base, or before
// what is left of the log.
func (a *Audit) unknown(rec *lease.Record) {
	_, joined := a.authors.find(rec.Instance)
	wasThere := a.from > 0 && rec.Offset-a.from <= lease.EndedMemory
	if !joined && !wasThere {
		a.find(Foreign, "%s has never joined", rec.Instance)
	}
}

func (a *Audit) malformed(rec *lease.Record) {
	if rec.Kind == lease.KindNewer {
		if _, joined := a.authors.find(rec.Instance); !joined {
			a.find(Foreign, "%s, which has never joined, writes in version %d", rec.Instance, rec.Version)
		}
		return
	}
	a.find(Foreign, "values that no member writes")
}

// behind judges a position that goes back under one epoch. A member that has stopped and begun to want a partition meanwhile
// may have begun where its reading of the log was then, behind what it had written itself.
func (a *Audit) behind(rec *lease.Record, k lease.Key) {
	m, _ := a.authors.find(rec.Instance)
	if r, ok := a.reported[k]; ok && r.reached < m.wants {
		return
	}
	next, epoch := entryOf(rec, k)
	p, _ := a.log.World().Progress(k.Topic, k.Partition)
	a.find(Regression, "%s goes back to %d under epoch %d, it stands at %d", keyName(k), next, epoch, p.Next)
}

// owners looks at what a record that was taken does as an owner: under which epochs, and whether they were granted to it.
func (a *Audit) owners(rec *lease.Record) {
	stale := false
	for i := range a.events {
		e := &a.events[i]
		stale = stale || e.Kind == lease.Ignored && (e.Reason == lease.NotHeld || e.Reason == lease.OldEpoch)
	}
	if !stale {
		return
	}
	for k, o := range entries(rec) {
		switch before := a.reported[k]; {
		case !a.granted(rec, k, o.epoch):
			a.find(TwoOwners, "%s acts as the owner of %s under epoch %d, which it was never granted%s",
				a.name(rec.Instance), keyName(k), o.epoch, a.holder(k))
		case rec.Kind == lease.KindHeartbeat && before.author == rec.Instance && o.epoch < before.epoch:
			a.find(Regression, "%s goes back to epoch %d of %s, it had reported under %d", a.name(rec.Instance), o.epoch, keyName(k), before.epoch)
		}
	}
}

// granted tells whether the author was granted k, or its whole topic, with that epoch; and true where nobody can tell any more.
func (a *Audit) granted(rec *lease.Record, k lease.Key, epoch int64) bool {
	if epoch >= rec.Offset {
		return false
	}
	if epoch < a.from || a.grants.full() && epoch <= a.grants.oldest().epoch {
		return true
	}
	_, own := a.grants.find(grant{k, epoch, rec.Instance})
	_, whole := a.grants.find(grant{lease.Key{Topic: k.Topic, Partition: lease.WholeTopic}, epoch, rec.Instance})
	return own || whole
}

// holder says who holds a key instead.
func (a *Audit) holder(k lease.Key) string {
	if held, l, ok := a.log.World().Conflict(k); ok {
		return fmt.Sprintf("; %s holds %s under epoch %d", a.name(l.Instance), keyName(held), l.Epoch)
	}
	return "; nobody holds it"
}

// snapshot judges a piece of one.
func (a *Audit) snapshot(rec *lease.Record, outcome history.Outcome) {
	s := &rec.Snapshot
	_, announced := a.announced.find(announcement{s.Author, s.Upto})
	_, _, complete, err := a.snapshots.Add(rec)
	switch {
	case complete && errors.Is(err, lease.ErrTwoOwners):
		a.find(TwoOwners, "the snapshot of offset %d: %v", s.Upto, err)
	case !announced && s.Upto >= a.from:
		a.find(Foreign, "a snapshot of offset %d that %s has not announced", s.Upto, a.name(s.Author))
	case outcome == history.SnapshotWrong:
		a.find(Disagreement, "the snapshot of offset %d is not the world as it was there", s.Upto)
	}
}
