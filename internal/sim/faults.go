package sim

import (
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
	"github.com/kafka-marshal/marshal/internal/rule"
)

// faultKind is something that a scenario does to the processes, the network or the log.
type faultKind int

// The faults. Those up to lastEvent happen at a moment; the others belong to a whole run, or to single messages.
const (
	crashFault faultKind = iota
	restartSameFault
	restartOtherFault
	restartFastFault
	freezeFault
	longFreezeFault
	suspendFault
	wallForwardFault
	wallBackFault
	outageShortFault
	outageLongFault
	cutFault
	cutWritesFault
	cutReadsFault
	cutAnswersFault
	stuckFetchFault
	slowLinkFault
	slowReadFault
	lossyLinkFault
	newcomerFault
	namesakeFault
	muteNamesakeFault
	leaveFault
	parkFault
	parkLateFault
	everybodyLeavesFault
	sleepersFault
	darkBeginFault
	everybodyDiesFault
	interestFault
	growTopicFault
	recreateTopicFault
	pinFault
	keepFault
	unableFault
	seekFault
	seekFreeFault
	seekTopicFault
	retentionFault
	brokerClockFault
	truncateFault
	truncateBlindFault
	probeFault
	foreignFault
	unknownAuthorFault
	seqJumpFault
	absurdJoinFault
	endedAuthorFault
	otherTopicFault
	newerUnknownFault
	newerJoinedFault
	forgedHashFault
	junkSnapshotFault
	staleBaseFault
	lateCopyFault
	toolFault
	flushFault
	abandonFault
	lastEvent

	fastReclaimFault = iota - 1
	maxFault
	weightFault
	greedyFault
	lateStartFault
	skewFault
	pipelineFault
	twoMembersFault
	unequalFault
	delayFault
	lossFault
	duplicateFault
	lateEvictFault
	faultKinds
)

var faultNames = [faultKinds]string{
	crashFault: "crash", restartSameFault: "crash, restart with the same client id", restartOtherFault: "crash, restart with another client id",
	restartFastFault: "crash, quick restart with fast reclaim", freezeFault: "freeze", longFreezeFault: "freeze beyond the ttl", suspendFault: "machine suspended",
	wallForwardFault: "wall clock stepped on", wallBackFault: "wall clock stepped back", outageShortFault: "log outage shorter than ttl", outageLongFault: "log outage longer than ttl",
	cutFault: "process cut off", cutWritesFault: "one way cut: writes lost", cutReadsFault: "one way cut: reads lost, writes acknowledged",
	cutAnswersFault: "one way cut: all answers lost", stuckFetchFault: "fetch connection hangs", slowLinkFault: "delays up to ttl", slowReadFault: "slow reader", lossyLinkFault: "lossy link",
	newcomerFault: "newcomer", namesakeFault: "living namesake", muteNamesakeFault: "namesake that cannot append, fast reclaim",
	leaveFault: "terminate(true)", parkFault: "terminate(false), restart in time", parkLateFault: "terminate(false), restart too late",
	everybodyLeavesFault: "everybody leaves", everybodyDiesFault: "everybody dies", sleepersFault: "everybody silent beyond the silence of rule b",
	darkBeginFault: "outage beyond that silence, a newcomer without a base", interestFault: "interests change", growTopicFault: "topic grows", recreateTopicFault: "topic recreated",
	pinFault: "keys claimed by hand", keepFault: "consumer terminated(false)", unableFault: "member cannot run a key", seekFault: "seek by the owner", seekFreeFault: "seek from outside", seekTopicFault: "seek of a topic",
	retentionFault: "retention cuts the log", brokerClockFault: "broker's clock jumps", truncateFault: "log loses its tail", truncateBlindFault: "log loses its tail, fetch is blind",
	probeFault: "tool asks for a snapshot", foreignFault: "foreign message", unknownAuthorFault: "record of an unknown", seqJumpFault: "absurd seq", absurdJoinFault: "absurd join",
	endedAuthorFault: "record of one that has ended", otherTopicFault: "join for another topic", newerUnknownFault: "newer version by an unknown", newerJoinedFault: "newer version by a member",
	forgedHashFault: "forged hash", junkSnapshotFault: "junk snapshot", staleBaseFault: "stale base", lateCopyFault: "late copy of a record", toolFault: "tool with decisions of its own",
	flushFault: "flush", abandonFault: "leave abandoned", fastReclaimFault: "consumer with fast reclaim", maxFault: "maximum", weightFault: "weight", greedyFault: "greedy", lateStartFault: "log starts late",
	skewFault: "clock rate and skew", pipelineFault: "producer pipelines", twoMembersFault: "two members on one world", unequalFault: "unequal ttl", delayFault: "message delayed", lossFault: "message lost",
	duplicateFault: "message duplicated", lateEvictFault: "evict delayed",
}

// weigh chooses how often each fault comes in this run: some often, some never.
func (s *simulation) weigh() {
	for i := range s.weights {
		s.weights[i] = 1
		if s.chance(0.3) {
			s.weights[i] = 5 * s.rng.Float64()
		}
	}
	s.weights[fastReclaimFault] = pick(s, []float64{0, 0, 0.2, 1})
	s.weights[lateStartFault] = 0.2
	for _, k := range []faultKind{everybodyLeavesFault, everybodyDiesFault, sleepersFault, darkBeginFault, brokerClockFault, recreateTopicFault, growTopicFault} {
		s.weights[k] *= 0.3
	}
	for _, k := range []faultKind{truncateFault, truncateBlindFault} {
		s.weights[k] = 0
		if s.chance(0.04) {
			s.weights[k] = 3
		}
	}
	for _, k := range []faultKind{newerJoinedFault, forgedHashFault} {
		s.weights[k] = 0
		if s.chance(0.02) {
			s.weights[k] = 1
		}
	}
}

// bias makes the faults frequent that a broken rule protects from.
func (s *simulation) bias(r rule.Rule) {
	often := map[rule.Rule][]faultKind{
		rule.Epoch:         {seekFault, seekFreeFault, seekTopicFault, slowLinkFault},
		rule.CAS:           {slowLinkFault, freezeFault, outageShortFault, cutReadsFault, toolFault},
		rule.Seq:           {lateCopyFault, lossyLinkFault},
		rule.LogLive:       {outageLongFault, outageShortFault},
		rule.Started:       {cutWritesFault, slowReadFault, cutFault},
		rule.FirstJoin:     {unknownAuthorFault, lateCopyFault, endedAuthorFault},
		rule.EndedMemory:   {leaveFault, crashFault, probeFault, newcomerFault, retentionFault},
		rule.BaseSeen:      {staleBaseFault, retentionFault, lateCopyFault},
		rule.Successor:     {leaveFault, toolFault, newcomerFault},
		rule.TakeoverOrder: {toolFault, restartFastFault, namesakeFault},
		rule.ParkedClient:  {parkFault, parkLateFault, toolFault},
		rule.ReleaseGate:   {newcomerFault, leaveFault, slowReadFault, interestFault},
		rule.Gate:          {newcomerFault, leaveFault, slowReadFault, interestFault},
		rule.Margin:        {cutWritesFault, cutFault, freezeFault},
	}
	for _, k := range often[r] {
		s.weights[k] = 12
	}
	s.faults = max(s.faults, 10)
	switch r {
	case rule.CAS:
		s.lateEvicts = 0.8
	case rule.Margin, rule.Started:
		s.fastNetwork = true
	case rule.Successor:
		s.scheme = 4
	case rule.LogLive:
		s.ttl = max(s.ttl, time.Second)
	}
}

// fault lets one of them happen now.
func (s *simulation) fault() {
	if s.quiet {
		return
	}
	var sum float64
	for k := range lastEvent {
		sum += s.weights[k]
	}
	at := s.rng.Float64() * sum
	for k := range lastEvent {
		if at -= s.weights[k]; at < 0 {
			s.cause(k)
			s.noteLonely()
			return
		}
	}
}

// alive lists the processes that run and are not frozen.
func (s *simulation) alive() []*process {
	var ps []*process
	for _, p := range s.procs {
		if p.phase == following && !p.frozen {
			ps = append(ps, p)
		}
	}
	return ps
}

// victim chooses a running process; nil: there is none.
func (s *simulation) victim() *process {
	ps := s.alive()
	if len(ps) == 0 {
		return nil
	}
	return pick(s, ps)
}

// someAgent chooses an agent of a running process.
func (s *simulation) someAgent() *agent {
	p := s.victim()
	if p == nil || len(p.agents) == 0 {
		return nil
	}
	if a := pick(s, p.agents); !a.leaving {
		return a
	}
	return nil
}

// cause lets a fault happen, and counts it if there is whom it can happen to.
func (s *simulation) cause(k faultKind) {
	done := false
	switch {
	case k <= restartFastFault:
		done = s.causeCrash(k)
	case k <= wallBackFault:
		done = s.causeFreeze(k)
	case k <= lossyLinkFault:
		done = s.causeNetwork(k)
	case k <= everybodyDiesFault:
		done = s.causeMembership(k)
	case k <= seekTopicFault:
		done = s.causeWish(k)
	case k <= truncateBlindFault:
		done = s.causeLog(k)
	case k < flushFault:
		done = s.causeRecord(k)
	default:
		done = s.causeCall(k)
	}
	if done {
		s.table.fault(k)
		s.tracef("---- fault: %s ----", faultNames[k])
	}
}

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
		return s.outage(s.between(s.ttl, 4*s.ttl))
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
		if len(s.alive()) >= 8 || len(s.procs) >= 14 {
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
	if len(s.alive()) == 0 || s.log.end()-s.log.start < 2 || s.now+lease.MaxTTL > s.period || len(s.procs) >= 14 {
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
	l.entries = l.entries[:cut-l.first]
	s.tracef("the log loses @%d and what follows", cut)
	s.lossUntil = s.now + 3*s.maxTTL
	r := &s.ref
	for uid, first := range r.uids {
		if first >= cut {
			delete(r.uids, uid)
		}
	}
	for id, first := range r.firstJoin {
		if first >= cut {
			delete(r.firstJoin, id)
		}
	}
	for key, epoch := range r.lastEpoch {
		r.lastEpoch[key] = min(epoch, cut-1)
	}
	r.world, r.planner, r.baseAt = lease.NewWorld(topicID), policy.Planner{}, -1
	for _, e := range l.entries {
		if !e.group {
			continue
		}
		rec := e.rec
		r.events = r.world.Apply(&rec, r.events[:0])
		for i := range r.events {
			if r.events[i].Kind == lease.Rebased {
				r.baseAt = e.offset
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
