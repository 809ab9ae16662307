package sim

import (
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
)

// agentPlan is what one Marshaler of a process is made with, in this run of it and in the next.
type agentPlan struct {
	client         string
	ttl, heartbeat time.Duration
	grace          time.Duration // RestartGrace
	maxBytes       int           // where its records are split
	wanted         member.Wanted
	unable         map[lease.Key]bool // what it cannot run, by partition or topic
	hangs          bool               // its applications finish nothing for now
}

// agent is one Marshaler: it drives one member, has its outputs carried out in order, and runs its claims.
type agent struct {
	sim  *simulation
	p    *process
	name string
	plan *agentPlan
	id   lease.InstanceID
	m    *member.Member
	out  *producer

	tick     uint64 // counts the timers that were armed; only the newest fires
	claims   []*claim
	hands    []hand // what it handed out after its last step, and under which epochs
	spare    []hand // room for the next list
	leaving  bool
	over     bool
	outdated bool // a newer version is written in the group: joining again is no use
	held     bool // trust has ended under a claim and has not come back

	wrote    map[lease.Key]int64 // releases written: the epoch by key, to see void ones written anew
	evicted  bool                // its instance has ended in the reference
	firstAt  int64               // offset of its first Join in the reference; -1: not there
	joinedAt time.Duration
	made     time.Duration // when its member was made, by the process's clock
}

// newAgent makes a Marshaler in p, as at its start or after its instance has ended.
func (p *process) newAgent(plan *agentPlan, name string) *agent {
	s := p.sim
	a := &agent{sim: s, p: p, name: name, plan: plan, firstAt: -1, wrote: map[lease.Key]int64{}}
	p.agents = append(p.agents, a)
	s.agents = append(s.agents, a)
	a.join()
	return a
}

// join makes the member, with a new instance.
func (a *agent) join() {
	s, p := a.sim, a.p
	a.id = s.randomID()
	a.firstAt, a.evicted, a.held = -1, false, false
	a.joinedAt = s.now
	s.byID[a.id] = a
	s.names[a.id] = a.name + "." + a.id.String()[:4]
	a.out = p.newProducer(a, p.window, p.timeout)
	p.log.Own(a.id)
	now := p.nowClocks()
	a.made = now.Mono
	a.m = member.New(member.Config{
		Instance: a.id, Client: a.plan.client, Host: p.name, Group: group, TTL: a.plan.ttl, Heartbeat: a.plan.heartbeat,
		CommitInterval: s.commitEvery, Seed: s.rng.Uint64(), LargestSeen: p.largestSeen(),
		MaxReleaseBytes: a.plan.maxBytes,
	}, &member.Shared{Log: p.log, Planner: p.planner}, now)
	s.tracef("%s joins as %s, client %s, ttl %s", a.name, s.names[a.id], a.plan.client, a.plan.ttl)
	a.want()
	a.arm(a.m.Tick(p.clock.at(s.now, true)))
}

// want tells the member what its consumers want.
func (a *agent) want() {
	w := a.plan.wanted
	w.FastReclaim = w.FastReclaim && len(w.Interests) > 0 // it is a consumer's option
	a.do(a.m.Want(w, a.p.nowClocks()))
}

func (a *agent) step(events []lease.Event, now member.Now) {
	if a.sim.overMax(a, a.p.log.World()) {
		a.sim.table.branch(overflowBranch)
	}
	if !a.over {
		a.do(a.m.Step(events, now))
	}
}

func (a *agent) acked(seq uint64) {
	if a.m != nil {
		a.do(a.m.Acked(seq, a.p.nowClocks()))
	}
}

// arm carries out an output that came from a tick.
func (a *agent) arm(out member.Output) { a.do(out) }

// do carries out an output: actions at once, appends in order after those before, the timer anew.
func (a *agent) do(out member.Output) {
	s, p := a.sim, a.p
	p.stepped = true
	if a.over {
		return
	}
	a.noteSplit(out.Appends)
	for i := range out.Appends {
		a.append(out.Appends[i].Record)
	}
	for i := range out.Actions {
		a.act(out.Actions[i])
	}
	for _, n := range out.Notices {
		a.notice(n)
	}
	if out.Reopen {
		s.table.branch(deafBranch)
		s.tracef("%s is deaf and reopens its reading side", a.name)
		p.link.stuckFetch = false
		p.fetch()
	}
	switch {
	case out.Ended && (a.leaving || a.outdated), out.Left:
		s.tracef("%s has left", a.name)
		a.leave()
		return
	case out.Ended:
		a.rejoin()
		return
	}
	a.setTimer(out.Wake)
	p.takeSnapshots()
}

func (a *agent) setTimer(wake time.Duration) {
	s, p := a.sim, a.p
	a.tick++
	tick, run := a.tick, p.run
	late := s.between(0, p.lateness())
	s.at(p.clock.real(wake)+late, func() {
		if a.tick == tick {
			p.deliver(run, func() {
				if a.tick == tick && !a.over {
					a.onTimer(wake)
				}
			})
		}
	})
}

// lateness is how late a timer of the process may fire.
func (p *process) lateness() time.Duration { return min(2*time.Millisecond, p.timeout/50) }

// onTimer ticks the member, or waits on where the clock stood still meanwhile.
func (a *agent) onTimer(wake time.Duration) {
	now := a.p.clock.at(a.sim.now, true)
	if now.Mono < wake {
		a.setTimer(wake)
		return
	}
	a.report(now)
	if !a.over {
		a.arm(a.m.Tick(now))
	}
}

// append hands one record to the producer.
func (a *agent) append(rec lease.Record) {
	s := a.sim
	if s.tracing() {
		s.tracef("%s writes %s", a.name, recordString(&rec))
	}
	a.noteWritten(&rec)
	if rec.Kind == lease.KindHeartbeat && !s.quiet && s.rejects > 0 && s.chance(s.rejects) {
		s.table.branch(rejectedBranch)
		run, m := a.p.run, a.m
		s.after(a.p.delay(), func() {
			a.p.deliver(run, func() {
				if a.m == m && !a.over {
					a.do(a.m.Rejected(rec.Seq, a.p.nowClocks()))
				}
			})
		})
		return
	}
	a.out.add(rec, nil, origin{by: a, readTo: a.p.log.World().Last(), strange: a.p.strange()})
}

// noteWritten counts what can be told from the records that a member writes.
func (a *agent) noteWritten(rec *lease.Record) {
	t := &a.sim.table
	switch rec.Kind {
	case lease.KindRelease:
		anew := false
		for i := range rec.Release.Keys {
			k := &rec.Release.Keys[i]
			if e, ok := a.wrote[k.Key]; ok && e == k.Epoch {
				anew = true
			}
			a.wrote[k.Key] = k.Epoch
		}
		if anew {
			t.branch(voidRewrittenBranch)
		}
		switch {
		case rec.Release.Successor.IsZero():
			t.branch(releaseToNobodyBranch)
		case a.leaving || len(a.plan.wanted.Interests) == 0:
			t.branch(drainingMoveBranch)
		default:
			a.noteMoves(rec)
		}
	case lease.KindEvict:
		if len(rec.Evict.Targets) > 1 {
			t.branch(evictManyBranch)
		}
		a.checkProof(rec)
	}
}

// noteSplit counts what was too large for one record: two of a kind at once, each with contents.
func (a *agent) noteSplit(appends []member.Append) {
	heartbeats, releases := 0, 0
	for i := range appends {
		switch rec := &appends[i].Record; rec.Kind {
		case lease.KindHeartbeat:
			if len(rec.Heartbeat.Topics) > 0 {
				heartbeats++
			}
		case lease.KindRelease:
			releases++
		case lease.KindLeave:
			releases++
		}
	}
	if heartbeats > 1 || a.leaving && releases > 1 {
		a.sim.table.branch(splitBranch)
	}
}

// noteMoves tells whether a hand-over is a matter of balance.
func (a *agent) noteMoves(rec *lease.Record) {
	t := &a.sim.table
	for _, mv := range a.p.planner.Plan(a.p.log.World()).MovesOf(a.id) {
		for i := range rec.Release.Keys {
			if rec.Release.Keys[i].Key != mv.Key {
				continue
			}
			if mv.Key.Partition == lease.WholeTopic {
				t.branch(wholeMoveBranch)
			}
			if mv.Forced {
				t.branch(forcedMoveBranch)
			} else {
				t.branch(balanceMoveBranch)
			}
		}
	}
}

func (a *agent) notice(n member.Notice) {
	t := &a.sim.table
	switch n.Kind {
	case member.ClientInUse:
		t.branch(clientInUseBranch)
	case member.UpgradeNeeded:
		t.branch(upgradeBranch)
		a.outdated = true
	}
	if a.sim.tracing() {
		a.sim.tracef("%s notices %d (%s)", a.name, n.Kind, a.sim.names[n.Other])
	}
}

// rejoin makes a new instance in the place of one that has ended.
func (a *agent) rejoin() {
	s := a.sim
	if a.firstAt >= 0 && a.firstAt < s.ref.baseAt {
		s.table.branch(rejoinByBaseBranch)
	} else {
		s.table.branch(rejoinBranch)
	}
	s.tracef("%s: its instance has ended, it joins anew", a.name)
	a.p.log.Disown(a.id)
	a.stopAll()
	a.closeAll()
	a.unlist()
	a.wrote = map[lease.Key]int64{}
	a.join()
}

// leave ends the agent after its Leave was read back. The process ends with its last one.
func (a *agent) leave() {
	p := a.p
	if p.log != nil {
		p.log.Disown(a.id)
	}
	a.end()
	p.agents = slices.DeleteFunc(p.agents, func(o *agent) bool { return o == a })
	if len(p.agents) == 0 {
		p.crash()
	}
}

// end takes it out of the simulation.
func (a *agent) end() {
	a.stopAll()
	a.over = true
	a.closeAll()
	a.unlist()
	s := a.sim
	s.agents = slices.DeleteFunc(s.agents, func(o *agent) bool { return o == a })
}

// recordString is a record as the trace prints it, without what is long.
func recordString(rec *lease.Record) string {
	return kindNames[rec.Kind] + recordDetail(rec)
}

// stopAll forgets every claim: whatever is in flight is lost.
func (a *agent) stopAll() { a.claims = nil }
