package sim

import (
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// causeCrash kills a process; it may come back.
func (s *simulation) causeCrash(k faultKind) bool {
	p := s.victim()
	if p == nil {
		return false
	}
	if k == restartFastFault {
		for i := range p.plan {
			p.plan[i].wanted.FastReclaim = true
		}
	}
	p.crash()
	back := s.between(0, 2*s.ttl)
	switch k {
	case crashFault:
		return true
	case restartOtherFault:
		p.client += "x"
		for i := range p.plan {
			p.plan[i].client += "x"
		}
	case restartFastFault:
		back = s.between(0, s.ttl/4)
	}
	s.after(back, p.startAgain)
	return true
}

// dieForAWhile kills a process that may have died meanwhile, and starts it again later.
func (p *process) dieForAWhile() {
	if s := p.sim; p.phase != dead && !s.quiet {
		p.crash()
		s.after(s.between(2*s.ttl, 4*s.ttl), p.startAgain)
	}
}

// startAgain starts a dead process.
func (p *process) startAgain() {
	if p.phase == dead && !p.sim.quiet {
		p.start()
	}
}

func (s *simulation) causeFreeze(k faultKind) bool {
	p := s.victim()
	if p == nil {
		return false
	}
	switch k {
	case freezeFault:
		p.freeze(s.between(0, s.ttl), false)
	case longFreezeFault:
		p.freeze(s.between(s.ttl/2, 3*s.ttl), false)
	case suspendFault:
		if s.now-p.stepBack < 2*s.maxTTL && p.stepBack > 0 {
			return false // a wall clock set back hides a suspension until the next tick: exception 3 of S3
		}
		p.freeze(s.between(s.ttl/10, 3*s.ttl), true)
	case wallForwardFault:
		p.clock.wall += s.between(0, 2*s.ttl)
		p.touchUntil(s.now + s.ttl)
	case wallBackFault:
		p.clock.wall -= s.between(0, 10*time.Minute)
		p.stepBack = s.now
	}
	return true
}

// causeNetwork troubles the log, or one process's way to it, for a while.
func (s *simulation) causeNetwork(k faultKind) bool {
	d := s.between(s.ttl/4, 2*s.ttl)
	switch k {
	case outageShortFault:
		return s.outage(s.between(s.ttl/20, s.ttl))
	case outageLongFault:
		return s.outage(s.between(s.ttl, 5*s.ttl))
	}
	p := s.victim()
	if p == nil {
		return false
	}
	l := &p.link
	switch k {
	case cutFault:
		l.writeCut, l.ackCut, l.readCut = true, true, true
	case cutWritesFault:
		l.writeCut = true
	case cutReadsFault:
		l.readCut = true
	case cutAnswersFault:
		l.ackCut, l.readCut = true, true
	case stuckFetchFault:
		l.stuckFetch = true
		p.fetchRun++
		p.touchUntil(s.now + 2*s.maxTTL)
		return true
	case slowLinkFault:
		l.tail, l.tailMax = 0.05+0.4*s.rng.Float64(), s.between(s.ttl/10, s.ttl*5/4)
		d = s.between(s.ttl, 5*s.ttl)
	case slowReadFault:
		p.slowRead = s.between(s.ttl/20, s.ttl)
		d = s.between(s.ttl, 5*s.ttl)
	case lossyLinkFault:
		l.loss = 0.05 + 0.4*s.rng.Float64()
		d = s.between(s.ttl, 5*s.ttl)
	}
	p.touchUntil(s.now + d)
	s.after(d, func() {
		stuck := p.link.stuckFetch
		p.usualLink()
		p.link.stuckFetch = stuck
		p.touchUntil(s.now + p.timeout)
	})
	return true
}

// outage takes the log away from everybody.
func (s *simulation) outage(d time.Duration) bool {
	if s.log.down {
		return false
	}
	s.log.down = true
	s.downs = append(s.downs, span{s.now, s.now + d})
	s.after(d, s.up)
	return true
}

// up ends an outage.
func (s *simulation) up() {
	if !s.log.down {
		return
	}
	s.log.down = false
	s.downs[len(s.downs)-1].to = s.now
	s.tracef("the log is back")
}

func (s *simulation) causeMembership(k faultKind) bool {
	switch k {
	case newcomerFault, namesakeFault, muteNamesakeFault:
		var same *process
		if k != newcomerFault {
			if same = s.victim(); same == nil {
				return false
			}
		}
		if s.crowded() {
			return false
		}
		p := s.newProcess()
		if same != nil {
			p.client = same.client
			p.plan[0].client = same.plan[0].client
			if k == muteNamesakeFault {
				p.plan[0].wanted.FastReclaim = true
				s.mute(same, s.between(s.ttl, 2*s.ttl))
			}
		}
		p.start()
		return true
	case sleepersFault:
		return s.sleepers()
	case darkBeginFault:
		return s.darkBegin()
	case everybodyLeavesFault, everybodyDiesFault:
		for _, p := range s.alive() {
			if k == everybodyDiesFault {
				p.crash()
			} else {
				p.leaveAll(false, 0)
			}
			if s.chance(0.8) {
				s.after(s.between(0, 3*s.ttl), p.startAgain)
			}
		}
		s.after(3*s.ttl, pick(s, s.procs).startAgain)
		return true
	}
	p := s.victim()
	if p == nil || !p.ready {
		return false
	}
	grace := s.between(s.ttl, 4*s.ttl)
	switch k {
	case leaveFault:
		p.leaveAll(false, 0)
		s.after(s.between(s.ttl, 6*s.ttl), p.startAgain)
	case parkFault:
		p.leaveAll(true, grace)
		s.restartWhenGone(p, s.between(0, grace/2))
	case parkLateFault:
		p.leaveAll(true, grace)
		s.restartWhenGone(p, grace+s.between(0, 3*s.ttl))
	}
	return true
}

// mute loses what a process writes, for a while.
func (s *simulation) mute(p *process, d time.Duration) {
	p.link.writeCut = true
	p.touchUntil(s.now + d)
	s.after(d, func() {
		p.usualLink()
		p.touchUntil(s.now + p.timeout)
	})
}

// sleepers silences everybody for longer than a newcomer without a base waits: it begins a new history beside them.
func (s *simulation) sleepers() bool {
	ps := s.alive()
	if len(ps) == 0 || s.log.end()-s.log.start < 2 || s.now+lease.MaxTTL > s.period {
		return false
	}
	for _, p := range ps {
		d := lease.MaxTTL + s.between(5*time.Second, 20*time.Second)
		if s.chance(0.5) {
			p.freeze(d, false)
			continue
		}
		s.mute(p, d)
	}
	s.log.start = s.log.end()
	s.newProcess().start()
	return true
}

// darkBegin takes the log away for longer than a newcomer without a base waits, once it has read its first Probe back: silence of a log
// that nobody reaches proves nothing.
func (s *simulation) darkBegin() bool {
	if len(s.alive()) == 0 || s.log.end()-s.log.start < 2 || s.now+lease.MaxTTL > s.period || s.crowded() {
		return false
	}
	s.log.start = s.log.end()
	p := s.newProcess()
	p.dark = lease.MaxTTL + s.between(5*time.Second, 15*time.Second)
	p.start()
	return true
}

// restartWhenGone starts a process again some time after it has ended by itself.
func (s *simulation) restartWhenGone(p *process, d time.Duration) {
	run := p.run
	if p.phase != dead && p.run == run {
		s.after(s.ttl/10, func() {
			if !s.quiet {
				s.restartWhenGone(p, d)
			}
		})
		return
	}
	s.after(d, p.startAgain)
}

// leaveAll ends all Marshalers of a process: the drain first where keys are not kept.
func (p *process) leaveAll(keep bool, grace time.Duration) {
	for _, a := range slices.Clone(p.agents) {
		if a.over || a.leaving {
			continue
		}
		a.leaving = true
		a.do(a.m.Leave(keep, grace, p.nowClocks()))
	}
}

// up to here faults of machines and network; the calls of an application are in wishes.go, records in foreign.go.

// causeCall is a call of the application.
func (s *simulation) causeCall(k faultKind) bool {
	switch k {
	case flushFault:
		a := s.someAgent()
		if a == nil {
			return false
		}
		s.table.branch(flushBranch)
		a.report(a.p.nowClocks())
		a.do(a.m.Flush(a.p.nowClocks()))
		return true
	default:
		p := s.victim()
		if p == nil {
			return false
		}
		p.leaveAll(s.chance(0.3), s.between(s.ttl, 3*s.ttl))
		run := p.run
		s.after(s.between(0, s.ttl/2), func() {
			p.deliver(run, func() {
				for _, a := range slices.Clone(p.agents) {
					s.table.branch(abandonBranch)
					a.do(a.m.Abandon(p.nowClocks()))
				}
			})
		})
		s.restartWhenGone(p, s.between(0, 3*s.ttl))
		return true
	}
}

// causeLog is what happens to the log itself.
func (s *simulation) causeLog(k faultKind) bool {
	l := &s.log
	switch k {
	case retentionFault:
		if l.end()-l.start < 5 {
			return false
		}
		keep := s.rng.Int64N(min(40, l.end()-l.start))
		l.start = l.end() - keep
	case brokerClockFault:
		l.millis += s.between(0, 30*time.Hour).Milliseconds()
	case skipFault:
		return s.skipOffsets()
	case holdSnapshotFault:
		return s.holdSnapshots()
	case truncateFault, truncateBlindFault:
		return s.truncate(k == truncateBlindFault)
	}
	return true
}

// truncate loses the newest records, acknowledged or not, as an unclean leader election does: exception 2 of S3.
func (s *simulation) truncate(blind bool) bool {
	l := &s.log
	n := 1 + s.rng.Int64N(8)
	if l.end()-n <= l.start {
		return false
	}
	s.lost, l.blind = true, blind
	cut := l.end() - n
	l.cut(cut)
	s.tracef("the log loses @%d and what follows", cut)
	s.lossUntil = s.now + 3*s.maxTTL
	r := &s.ref
	for uid, first := range r.uids {
		if first >= cut {
			delete(r.uids, uid)
		}
	}
	for key, epoch := range r.lastEpoch {
		r.lastEpoch[key] = min(epoch, cut-1)
	}
	clear(r.firstJoin)
	clear(r.endedAt)
	clear(r.ghosts)
	r.world, r.planner, r.baseAt, r.unchecked = lease.NewWorld(topicID), policy.Planner{}, -1, true
	for _, e := range l.entries {
		if !e.group {
			continue
		}
		rec := e.rec
		r.events = r.world.Apply(&rec, r.events[:0])
		for i := range r.events {
			switch r.events[i].Kind {
			case lease.Joined:
				r.noteJoined(e)
			case lease.Evicted, lease.Left:
				r.endedAt[r.events[i].Instance] = e.offset
			case lease.Rebased:
				r.baseAt = e.offset
				for id := range r.firstJoin {
					if _, ok := r.endedAt[id]; !ok {
						r.endedAt[id] = e.offset
					}
				}
			}
		}
		r.chain = e.chain
	}
	for _, t := range s.topics {
		for _, p := range t.parts {
			p.token = 0
			if p.sought >= cut {
				p.sought = -1
			}
		}
	}
	return true
}
