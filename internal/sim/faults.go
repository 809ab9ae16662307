package sim

import (
	"math/rand/v2"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
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
	massRestartFault
	rollingRestartFault
	interestFault
	growTopicFault
	recreateTopicFault
	pinFault
	keepFault
	unableFault
	hangFault
	seekFault
	seekFreeFault
	seekTopicFault
	retentionFault
	brokerClockFault
	truncateFault
	truncateBlindFault
	skipFault
	holdSnapshotFault
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
	crowdFault
	multitudeFault
	manyKeysFault
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
	everybodyLeavesFault: "everybody leaves", everybodyDiesFault: "everybody dies", massRestartFault: "everybody restarts at once", rollingRestartFault: "rolling restart", sleepersFault: "everybody silent beyond the silence of rule b",
	darkBeginFault: "outage beyond that silence, a newcomer without a base", interestFault: "interests change", growTopicFault: "topic grows", recreateTopicFault: "topic recreated",
	pinFault: "keys claimed by hand", keepFault: "consumer terminated(false)", unableFault: "member cannot run a key", hangFault: "application hangs: drains without end", seekFault: "seek by the owner", seekFreeFault: "seek from outside", seekTopicFault: "seek of a topic",
	retentionFault: "retention cuts the log", brokerClockFault: "broker's clock jumps", truncateFault: "log loses its tail", truncateBlindFault: "log loses its tail, fetch is blind", skipFault: "65,537 offsets or more of other groups", holdSnapshotFault: "snapshots held up",
	probeFault: "tool asks for a snapshot", foreignFault: "foreign message", unknownAuthorFault: "record of an unknown", seqJumpFault: "absurd seq", absurdJoinFault: "absurd join",
	endedAuthorFault: "record of one that has ended", otherTopicFault: "join for another topic", newerUnknownFault: "newer version by an unknown", newerJoinedFault: "newer version by a member",
	forgedHashFault: "forged hash", junkSnapshotFault: "junk snapshot", staleBaseFault: "stale base", lateCopyFault: "late copy of a record", toolFault: "tool with decisions of its own",
	flushFault: "flush", abandonFault: "leave abandoned", fastReclaimFault: "consumer with fast reclaim", maxFault: "maximum", weightFault: "weight", greedyFault: "greedy", lateStartFault: "log starts late",
	skewFault: "clock rate and skew", pipelineFault: "producer pipelines", twoMembersFault: "two members on one world", unequalFault: "unequal ttl", delayFault: "message delayed", lossFault: "message lost",
	duplicateFault: "message duplicated", lateEvictFault: "evict delayed", crowdFault: "8 members or more", multitudeFault: "20 members or more", manyKeysFault: "100 keys or more",
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
	if s.period > lease.MaxTTL*3/2 { // few runs last as long as these take
		s.weights[sleepersFault] *= 6
		s.weights[darkBeginFault] *= 4
	}
	for _, k := range []faultKind{truncateFault, truncateBlindFault} {
		s.weights[k] = 0
		if s.chance(0.04) {
			s.weights[k] = 3
		}
	}
	for _, k := range []faultKind{newerJoinedFault, forgedHashFault} {
		s.weights[k] = 0
		if s.chance(0.03) {
			s.weights[k] = 4
		}
	}
}

// bias makes the faults frequent that a broken rule protects from.
func (s *simulation) bias(r rule.Rule) {
	often := map[rule.Rule][]faultKind{
		rule.Epoch:          {seekFault, seekFreeFault, seekTopicFault, slowLinkFault},
		rule.CAS:            {slowLinkFault, freezeFault, outageShortFault, cutReadsFault, toolFault},
		rule.Seq:            {lateCopyFault, lossyLinkFault},
		rule.LogLive:        {outageLongFault, outageShortFault},
		rule.Started:        {cutWritesFault, slowReadFault, cutFault},
		rule.FirstJoin:      {unknownAuthorFault, lateCopyFault, endedAuthorFault},
		rule.EndedMemory:    {leaveFault, crashFault, probeFault, newcomerFault, retentionFault},
		rule.BaseSeen:       {staleBaseFault, retentionFault, lateCopyFault},
		rule.Successor:      {leaveFault, toolFault, newcomerFault},
		rule.TakeoverOrder:  {toolFault, restartFastFault, namesakeFault},
		rule.ParkedClient:   {parkFault, parkLateFault, toolFault},
		rule.ReleaseGate:    {newcomerFault, leaveFault, slowReadFault, interestFault},
		rule.Gate:           {newcomerFault, leaveFault, slowReadFault, interestFault},
		rule.Margin:         {cutWritesFault, cutFault, freezeFault},
		rule.NoMargin:       {cutWritesFault, cutFault, freezeFault},
		rule.Attempt:        {cutAnswersFault, cutWritesFault, slowReadFault},
		rule.EvictEarly:     {cutWritesFault, slowLinkFault, freezeFault},
		rule.Timestamps:     {brokerClockFault, outageShortFault},
		rule.OpenGap:        {crashFault, restartOtherFault, newcomerFault},
		rule.OwnTTL:         {cutWritesFault, cutFault, freezeFault},
		rule.TTLOnce:        {interestFault, cutWritesFault, longFreezeFault},
		rule.BaseWait:       {retentionFault, newcomerFault, slowReadFault},
		rule.BaseForgets:    {sleepersFault, leaveFault, crashFault},
		rule.Holder:         {toolFault},
		rule.JoinAfterEnd:   {endedAuthorFault, lateCopyFault, leaveFault, crashFault},
		rule.LiveNamesake:   {namesakeFault, restartFastFault, slowLinkFault},
		rule.TakeoverClient: {fastReclaimFault, newcomerFault, cutWritesFault, crashFault},
		rule.TopicConflict:  {newcomerFault, slowLinkFault},
	}
	for _, k := range often[r] {
		s.weights[k] = 12
	}
	s.faults = max(s.faults, 10)
	switch r {
	case rule.CAS:
		s.lateEvicts = 0.8
	case rule.Margin, rule.NoMargin, rule.Started, rule.Attempt:
		s.fastNetwork = true
	case rule.TopicConflict:
		s.mixed = true
	case rule.Holder, rule.ParkedClient:
		s.scheme = 5
	case rule.TTLOnce:
		s.faults = 60
	case rule.TakeoverClient:
		s.ttl = max(s.ttl, 5*time.Second)
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
	if s.forkTo > 0 && s.faulted == s.forkAt {
		s.rng = rand.New(rand.NewPCG(s.cfg.Seed, uint64(s.forkTo)))
	}
	s.faulted++
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
	case k <= rollingRestartFault:
		done = s.causeRestart(k)
	case k <= seekTopicFault:
		done = s.causeWish(k)
	case k <= holdSnapshotFault:
		done = s.causeLog(k)
	case k < flushFault:
		done = s.causeRecord(k)
	default:
		done = s.causeCall(k)
	}
	if done {
		s.table.fault(k)
		s.noteFault(k)
		s.tracef("---- fault: %s ----", faultNames[k])
	}
}
