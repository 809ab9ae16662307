package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// phase is where a process stands.
type phase int

const (
	dead      phase = iota // not running
	scanning               // looks for a base
	beginning              // found none: probes
	following              // applies the log, runs members
	waiting                // dropped its world, waits before it starts as a newcomer
)

// process is one machine with one process on it: what floor 3 does around the pure core, without threads.
type process struct {
	sim    *simulation
	name   string
	clock  clock
	link   link
	client string
	plan   []agentPlan // what its next run runs

	phase     phase
	run       int // counts its runs; what belongs to an older one is dropped
	frozen    bool
	suspended bool // frozen, and its monotonic clock too
	frozeAt   time.Duration
	pending   []func()
	touched   time.Duration // real time until which a fault troubled it
	stepBack  time.Duration // when its wall clock was last set back
	batch     int           // messages of one fetch at most
	timeout   time.Duration // of a request
	slowRead  time.Duration // how much longer its fetches take at most
	window    int           // of its producers
	appEvery  time.Duration

	log      *history.Log
	planner  *policy.Planner
	beginner *history.Beginner
	began    time.Duration // real time of its first Probe
	dark     time.Duration // for how long the log is away once it has no base and has read a Probe back; 0: not at all
	aux      *producer     // of snapshots, probes and bases
	cursor   int64         // next offset to fetch
	lastRead *entry
	chain    uint64   // identifies the sequence of messages that its world has applied
	read     []passed // every message of this run that it has applied
	fetchRun int
	parked   func() // a fetch that waits for something to arrive
	readyAt  int64  // offset up to which it reads before it is ready
	ready    bool
	stepped  bool // something was asked of a member, or its world moved on: it may hand out something else now
	rechecks int
	agents   []*agent
	events   []lease.Event
	rec      lease.Record // the one that is being applied
}

// passed is a place in a history.
type passed struct {
	offset int64
	chain  uint64
	mono   time.Duration // when it was read, by the process's own clock
}

// pass notes that the process has applied one more message. A history begins anew at a Base that counts.
func (p *process) pass(e *entry, events []lease.Event) {
	if rebased(events) {
		p.chain = 0
	}
	p.chain = link64(p.chain, e)
	p.read = append(p.read, passed{e.offset, p.chain, p.nowClocks().Mono})
}

// chainAt is the process's history up to an offset that it has applied in this run.
func (p *process) chainAt(offset int64) (uint64, bool) {
	at := p.passedAt(offset)
	return at.chain, at.chain != 0
}

// readAt is when the process read an offset in this run.
func (p *process) readAt(offset int64) (time.Duration, bool) {
	at := p.passedAt(offset)
	return at.mono, at.chain != 0
}

func (p *process) passedAt(offset int64) passed {
	i, found := slices.BinarySearchFunc(p.read, offset, func(at passed, o int64) int { return cmp.Compare(at.offset, o) })
	if !found {
		return passed{}
	}
	return p.read[i]
}

// deliver runs something of one run of the process: at once, or when it wakes up, or never when that run is over.
func (p *process) deliver(run int, fn func()) {
	if p.run != run || p.phase == dead {
		return
	}
	if p.frozen {
		p.pending = append(p.pending, func() {
			if p.run == run && p.phase != dead {
				fn()
			}
		})
		return
	}
	fn()
	if p.stepped {
		p.stepped = false
		p.sim.checkHands(p)
	}
}

// touchUntil notes that a fault troubles the process until then: it may be evicted by right.
func (p *process) touchUntil(t time.Duration) { p.touched = max(p.touched, t) }

func (p *process) nowClocks() member.Now { return p.clock.at(p.sim.now, false) }

// start begins a run: look for a base, each time further back.
func (p *process) start() {
	p.run++
	p.phase, p.frozen, p.suspended, p.pending = scanning, false, false, nil
	p.log, p.planner, p.beginner, p.agents = nil, nil, nil, nil
	p.read = p.read[:0]
	p.lastRead, p.parked, p.ready, p.rechecks = nil, nil, false, 0
	p.aux = p.newProducer(nil, 1, p.timeout)
	for i := range p.plan {
		p.plan[i].wanted.Kept = nil // what was kept was the old run's
	}
	p.sim.tracef("%s starts, run %d", p.name, p.run)
	p.look(0)
}

// take applies a batch and steps the members.
func (p *process) take(batch []*entry) {
	if p.phase == beginning {
		p.takeBeginning(batch)
		return
	}
	s := p.sim
	p.stepped = true
	p.reportAll()
	p.events = p.events[:0]
	worst := history.Fine
	for _, e := range batch {
		p.cursor, p.lastRead = e.offset+1, e
		if !e.group {
			continue
		}
		p.rec = e.rec // as a decoder does: one record, used again
		var out history.Outcome
		before := len(p.events)
		p.events, out = p.log.Take(&p.rec, e.value, p.events)
		p.pass(e, p.events[before:])
		worst = max(worst, out)
		if out == history.SnapshotWrong && !s.lost {
			s.fail("S1", "%s: the snapshot at %d differs from its world", p.name, e.offset)
		}
		if e.rec.Kind == lease.KindSnapshot && out == history.Fine && e.rec.Snapshot.Index+1 == e.rec.Snapshot.Count {
			s.table.branch(snapshotCheckedBranch)
		}
		s.compareWorlds(p, e)
	}
	switch worst {
	case history.Rewound:
		p.dropWorld(rewoundBranch)
		return
	case history.HashDiffers:
		p.recheck()
	}
	if !p.ready {
		return
	}
	now := p.nowClocks()
	for _, a := range slices.Clone(p.agents) {
		if !a.over && len(p.events) > 0 {
			a.step(p.events, now)
		}
	}
	p.takeSnapshots()
}

// reportAll brings the positions of all members up to date, before the world moves on.
func (p *process) reportAll() {
	now := p.nowClocks()
	for _, a := range slices.Clone(p.agents) {
		if !a.over {
			a.report(now)
		}
	}
}

// takeSnapshots appends what own instances have announced.
func (p *process) takeSnapshots() {
	if p.log == nil {
		return
	}
	for _, rec := range p.log.TakeSnapshot() {
		p.sim.tracef("%s writes %s", p.name, recordString(&rec))
		chain, _ := p.chainAt(rec.Snapshot.Upto)
		p.aux.add(rec, nil, origin{readTo: p.cursor - 1, chain: chain})
	}
}

// recheck reads the group's records from the base again.
func (p *process) recheck() {
	s, run := p.sim, p.run
	s.table.branch(hashDiffersBranch)
	if !s.lost && !s.forgedHash {
		s.fail("S1", "%s meets another hash although the log lost nothing", p.name)
	}
	if p.rechecks > 0 {
		return
	}
	p.rechecks++
	log := p.log
	log.Doubt(true)
	s.after(p.delay()+p.delay(), func() {
		p.deliver(run, func() {
			if p.log != log {
				return
			}
			p.rechecks--
			log.Doubt(false)
			sc := history.NewScan(topicID, s.log.start)
			position, _ := log.Position()
			read := s.log.between(s.log.start, position+1)
			for _, e := range read {
				if e.group {
					rec := e.rec
					sc.Add(&rec, e.value)
				}
			}
			var again *history.Recheck
			base, ok := sc.Base()
			from := base.From
			if ok {
				again = log.Recheck(base)
			} else if again, from, ok = log.RecheckFrom(s.log.start); !ok {
				return
			}
			for _, e := range read {
				if e.group && e.offset >= from {
					rec := e.rec
					again.Add(&rec, e.value)
				}
			}
			same, reached := again.Same()
			switch {
			case reached && same:
				s.table.branch(recheckSameBranch)
			case reached:
				s.table.branch(recheckOtherBranch)
				p.dropWorld(worldDroppedBranch)
			}
		})
	})
}

// dropWorld ends all claims, waits the largest ttl of the old world's joined, and starts as a newcomer.
func (p *process) dropWorld(why branch) {
	s := p.sim
	s.table.branch(why)
	if why != worldDroppedBranch {
		s.table.branch(worldDroppedBranch)
	}
	if p.phase != following {
		p.endRun()
		p.phase = waiting
		s.after(p.timeout, p.restartIf(p.run))
		return
	}
	var ttl time.Duration
	for i := range p.log.World().Instances() {
		if i.Status == lease.Alive {
			ttl = max(ttl, i.TTL)
		}
	}
	s.tracef("%s drops its world (%s), waits %s", p.name, branchNames[why], ttl)
	p.endRun()
	p.phase = waiting
	s.at(p.clock.real(p.nowClocks().Mono+ttl), p.restartIf(p.run))
	s.rearm()
}

func (p *process) restartIf(run int) func() {
	return func() { p.deliver(run, p.start) }
}

// endRun ends everything of this run at once.
func (p *process) endRun() {
	for _, a := range p.agents {
		a.end()
	}
	p.agents, p.log, p.beginner, p.parked = nil, nil, nil, nil
	p.fetchRun++
	p.ready = false
}

// crash is kill -9: what is on the way to the log still arrives.
func (p *process) crash() {
	p.endRun()
	p.run++
	p.phase, p.frozen, p.suspended, p.pending = dead, false, false, nil
	p.sim.tracef("%s is dead", p.name)
}

// freeze stops the process for d; its clocks go on, but for the monotonic one of a suspended machine.
func (p *process) freeze(d time.Duration, suspend bool) {
	s, run := p.sim, p.run
	p.frozen, p.suspended, p.frozeAt = true, suspend, s.now
	p.touchUntil(s.now + d)
	for _, a := range p.agents {
		a.closeAll()
	}
	s.tracef("%s is frozen for %s (suspended: %t)", p.name, d, suspend)
	s.after(d, func() {
		if p.run == run && p.frozen {
			p.wake()
		}
	})
}

// wake goes on. The application may be the first to run: it takes a message before any tick or fetch.
func (p *process) wake() {
	s := p.sim
	if p.suspended {
		p.clock.suspended += s.now - p.frozeAt
	}
	p.frozen, p.suspended = false, false
	p.touchUntil(s.now)
	s.tracef("%s wakes up", p.name)
	s.checkWake(p)
	pending := p.pending
	p.pending = nil
	if s.chance(0.8) {
		p.workNow(true)
		s.checkHands(p)
	}
	if s.chance(0.3) {
		s.rng.Shuffle(len(pending), func(i, j int) { pending[i], pending[j] = pending[j], pending[i] })
	}
	for _, fn := range pending {
		if p.frozen {
			p.pending = append(p.pending, fn)
			continue
		}
		fn()
		s.checkHands(p)
	}
}
