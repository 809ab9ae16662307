package sim

import (
	"bytes"
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// reference is the world as the log itself would have it: it applies each record at the moment when the log takes it,
// from the log's first record on. What each record changed is checked here (S2, S4 .. S7).
type reference struct {
	world   *lease.World
	planner policy.Planner
	chain   uint64
	records int64
	events  []lease.Event
	rec     lease.Record // the one that is being applied

	before, after state
	unchecked     bool // the world was made anew: after is not what the next record finds
	lastEpoch     map[lease.Key]int64
	firstJoin     map[lease.InstanceID]int64
	endedAt       map[lease.InstanceID]int64
	ghosts        map[lease.InstanceID]bool // there again after they were forgotten
	announced     []announcement            // snapshots that are not complete yet
	written       announcement              // the newest complete one, and when it was
	writtenAt     time.Duration
	takenOver     map[lease.InstanceID]bool // by a namesake: exception 1 of S3
	uids          map[uint64]int64          // offset of the first copy
	baseAt        int64                     // offset of the newest valid Base; -1: none
	tokensFell    bool                      // the author of a Base had a clock behind: tokens may have gone back (S5)
	moved         moveCount
	moves         int64 // Claims and Releases so far
}

// append puts a message into the log, applies it to the reference and wakes who waits for something to read.
func (s *simulation) append(rec *lease.Record, value []byte, uid uint64, group bool, o origin) *entry {
	e := &entry{
		millis: s.brokerMillis(), group: group, rec: *rec, value: value, uid: uid, origin: o, real: s.now,
	}
	s.log.add(e)
	e.rec.Offset, e.rec.Timestamp = e.offset, e.millis
	if group {
		s.refer(e)
	}
	s.wakeReaders()
	return e
}

// wakeReaders lets the fetches go on that wait for something to read.
func (s *simulation) wakeReaders() {
	for _, p := range s.procs {
		if wake := p.parked; wake != nil {
			p.parked = nil
			wake()
		}
	}
}

func (s *simulation) brokerMillis() int64 { return s.log.millis + s.now.Milliseconds() }

// link64 carries the identity of a sequence of messages one message further, as the rolling hash does.
func link64(chain uint64, e *entry) uint64 {
	if e.rec.Kind == lease.KindProbe {
		return chain // no world and no hash tells of it
	}
	x := chain ^ e.uid*0x9e3779b97f4a7c15 ^ uint64(e.offset)*0xbf58476d1ce4e5b9
	x ^= x >> 31
	x *= 0x94d049bb133111eb
	return x ^ x>>29
}

// rebased tells whether a valid Base is among the events of a record.
func rebased(events []lease.Event) bool {
	return slices.ContainsFunc(events, func(ev lease.Event) bool { return ev.Kind == lease.Rebased })
}

// refer applies one message of the group to the reference and checks what it did.
func (s *simulation) refer(e *entry) {
	r := &s.ref
	r.records++
	first, again := r.uids[e.uid]
	if !again {
		first = e.offset
	}
	e.anew = s.countsAnew(e, first)
	if again && !e.anew {
		e.copyOf = first > r.baseAt
		s.table.fault(duplicateFault)
	} else {
		r.uids[e.uid] = e.offset
	}
	if r.forgotten(e) {
		s.table.branch(forgottenBranch)
	}
	r.before, r.after = r.after, r.before
	if r.unchecked {
		r.before.read(r.world)
	}
	r.rec = e.rec
	rec := &r.rec
	var plan *policy.Plan
	if rec.Kind == lease.KindClaim && e.origin.by != nil {
		plan = r.planner.Plan(r.world)
		s.noteClaim(plan, rec)
	}
	if s.quiet && rec.Kind == lease.KindRelease {
		s.beforeRelease(rec)
	}
	r.events = r.world.Apply(rec, r.events[:0])
	if rebased(r.events) {
		r.chain = 0
	}
	r.chain = link64(r.chain, e)
	e.chain, e.digest = r.chain, r.world.Digest()
	if s.rng.IntN(32) == 0 {
		e.bytes = r.world.AppendBinary(nil)
	}
	r.after.read(r.world)
	now := r.after.instance(rec.Instance)
	e.took = now != nil && now.renewed == e.offset
	if s.tracing() {
		s.tracef("  @%d %s %s%s", e.offset, s.authorOf(e), recordString(rec), eventStrings(r.events, s.names))
	}
	for i := range r.events {
		s.table.event(&r.events[i])
		s.coverEvent(&r.events[i])
		s.noteEvent(e, &r.events[i])
	}
	if rec.Kind == lease.KindSnapshot && e.origin.raw == "" && rec.Snapshot.Index+1 == rec.Snapshot.Count {
		s.noteSnapshot(&rec.Snapshot)
	}
	s.checkRecord(e)
	if s.quiet {
		s.noteMoves(e)
	}
	if rec.Kind == lease.KindClaim || rec.Kind == lease.KindRelease {
		r.moves++
	}
}

func (s *simulation) authorOf(e *entry) string {
	if name, ok := s.names[e.rec.Instance]; ok {
		return name
	}
	if e.origin.raw != "" {
		return "(" + e.origin.raw + ")"
	}
	return "-"
}

func eventStrings(events []lease.Event, names map[lease.InstanceID]string) string {
	var b bytes.Buffer
	for i := range events {
		b.WriteString("; ")
		if n := names[events[i].Instance]; n != "" {
			b.WriteString(n + " ")
		}
		b.WriteString(eventString(&events[i]))
	}
	return b.String()
}

// noteClaim counts in whose turn a claim was made.
func (s *simulation) noteClaim(plan *policy.Plan, rec *lease.Record) {
	if len(rec.Claim.Keys) > 1 {
		s.table.branch(claimManyBranch)
	}
	for _, k := range rec.Claim.Keys {
		switch turn := plan.TurnOf(k, rec.Instance); {
		case turn == 0:
			s.table.branch(claimFirstTurnBranch)
		case turn > 0:
			s.table.branch(claimLaterTurnBranch)
		}
	}
	for _, k := range plan.Greedy(rec.Instance) {
		for _, c := range rec.Claim.Keys {
			if c == k {
				s.table.branch(claimGreedyBranch)
			}
		}
	}
}

// noteEvent keeps what the checkers need of the past, and counts branches.
func (s *simulation) noteEvent(e *entry, ev *lease.Event) {
	r, t := &s.ref, &s.table
	switch ev.Kind {
	case lease.Granted, lease.HandedOver:
		if r.before.marked(r.world, ev.Instance, ev.Key) {
			t.branch(unfitRetakenBranch)
		}
	}
	switch ev.Kind {
	case lease.Joined:
		if r.noteJoined(e) {
			t.branch(ghostBranch)
		}
		if a := s.byID[ev.Instance]; a != nil && a.id == ev.Instance {
			a.firstAt = e.offset
		}
	case lease.Evicted:
		was := r.before.instance(ev.Instance)
		switch {
		case e.rec.Evict.Takeover:
			t.branch(takeoverBranch)
			r.takenOver[ev.Instance] = true
			s.checkTakeover(e, ev.Instance)
		case was != nil && was.status == lease.IsParked:
			t.branch(parkExpiredBranch)
		default:
			t.branch(evictBranch)
		}
		if r.ghosts[ev.Instance] {
			t.branch(ghostGoneBranch)
		}
		s.checkEviction(e, ev.Instance)
		s.noteEnd(e, ev.Instance)
	case lease.Left:
		s.noteEnd(e, ev.Instance)
	case lease.Announced:
		s.noteAnnounced(announcement{e.rec.Instance, e.offset})
	case lease.Parked:
		t.branch(parkBranch)
		s.rearm()
	case lease.Granted:
		if !ev.By.IsZero() {
			t.branch(reclaimParkedBranch)
		}
		if a := s.byID[ev.Instance]; a != nil {
			for _, k := range a.plan.wanted.Pinned {
				if k == ev.Key {
					t.branch(pinnedBranch)
				}
			}
		}
	case lease.Marked:
		t.branch(unfitBranch)
		s.rearm()
	case lease.Sought:
		switch {
		case ev.Epoch == lease.NoEpoch:
			t.branch(seekFreeBranch)
		case s.wholeLease(ev.Key.Topic):
			t.branch(seekWholeBranch)
			t.branch(seekHeldBranch)
		default:
			t.branch(seekHeldBranch)
		}
		s.noteSeek(e, ev.Key)
	case lease.Ignored:
		if ev.Reason == lease.NoTakeover {
			t.branch(takeoverRefusedBranch)
		}
	case lease.Rebased:
		r.tokensFell = r.tokensFell || e.rec.Base.TokenBase < r.before.tokenBase
		r.baseAt = e.offset
		s.checkBase(e)
		s.rearm()
		for _, in := range r.before.instances {
			s.noteEnd(e, in.id)
		}
	}
}

// noteJoined keeps where the author of a Join was first there, and tells whether it is there again after it was forgotten.
func (r *reference) noteJoined(e *entry) bool {
	id, ghost := e.rec.Instance, r.forgotten(e)
	if first, ok := r.firstJoin[id]; !ok || first <= r.baseAt || ghost {
		r.firstJoin[id] = e.offset
	}
	if ghost {
		r.ghosts[id] = true
		delete(r.endedAt, id)
	}
	return ghost
}

func (s *simulation) wholeLease(topic string) bool {
	_, ok := s.ref.world.Lease(lease.Key{Topic: topic, Partition: lease.WholeTopic})
	return ok
}

func (s *simulation) noteSeek(e *entry, k lease.Key) {
	t := s.data[k.Topic]
	if t == nil {
		return
	}
	for i, p := range t.parts {
		if k.Partition == lease.WholeTopic || k.Partition == int32(i) {
			p.sought = e.offset
		}
	}
}

// announcement is a snapshot that somebody is to write.
type announcement struct {
	by   lease.InstanceID
	upto int64
}

// noteAnnounced counts snapshots that are announced while another is not complete.
func (s *simulation) noteAnnounced(an announcement) {
	r := &s.ref
	if len(r.announced) > 0 {
		s.table.branch(twoAnnouncedBranch)
	}
	r.announced = append(r.announced, an)
}

// noteSnapshot counts snapshots that come at the same time.
func (s *simulation) noteSnapshot(rec *lease.Snapshot) {
	r := &s.ref
	an := announcement{rec.Author, rec.Upto}
	if r.written.by != an.by && !r.written.by.IsZero() && s.now-r.writtenAt < 100*time.Millisecond {
		s.table.branch(twoWrittenBranch)
	}
	r.written, r.writtenAt = an, s.now
	r.announced = slices.DeleteFunc(r.announced, func(o announcement) bool { return o.upto <= an.upto })
}

func (s *simulation) noteEnd(e *entry, id lease.InstanceID) {
	s.ref.endedAt[id] = e.offset
	if a := s.byID[id]; a != nil && a.id == id {
		a.evicted = true
	}
}

// chainBelow identifies the history that a base stands for.
func (s *simulation) chainBelow(base history.Base) uint64 {
	e := s.log.before(base.From - 1)
	if e == nil {
		return 0
	}
	if s.lost && base.World.Last() >= 0 {
		// It may be a snapshot of the history that was lost: it is up to the hashes to find out.
		for _, e := range slices.Backward(s.log.between(base.From, s.log.end())) {
			if e.rec.Kind == lease.KindSnapshot && e.rec.Snapshot.Upto == base.From-1 && e.origin.chain != 0 {
				return e.origin.chain
			}
		}
	}
	return e.chain
}

// compareBase holds a base's world against the reference (S1, through snapshots).
func (s *simulation) compareBase(p *process, from int64) {
	e := s.log.before(from - 1)
	if e == nil || p.chain != e.chain {
		return
	}
	if got := p.log.World().Digest(); got != e.digest {
		s.fail("S1", "%s starts at %d with a world that differs from the log's", p.name, from)
	}
}

// compareWorlds holds the world of a process after a message against the reference after the same messages (S1).
func (s *simulation) compareWorlds(p *process, e *entry) {
	if p.chain != e.chain {
		if !s.lost {
			s.fail("S1", "%s has read another sequence of messages at %d", p.name, e.offset)
		}
		return
	}
	w := p.log.World()
	if w.Digest() != e.digest {
		s.fail("S1", "the world of %s at %d differs from the log's", p.name, e.offset)
		return
	}
	if e.bytes != nil && !bytes.Equal(w.AppendBinary(nil), e.bytes) {
		s.fail("S1", "the world of %s at %d has the log's digest but not its bytes", p.name, e.offset)
	}
}
