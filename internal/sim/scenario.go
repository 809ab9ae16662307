package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
)

// scenario is what a seed chooses for the whole run.
type scenario struct {
	members        int // processes at the start
	crowd          int // and at the same time at most, newcomers too
	keys           int
	topicCount     int
	pace           time.Duration // how much slower than the quickest the applications are
	forkAt, forkTo int
	ttl            time.Duration // most agents' ttl; the others' are near it
	maxTTL         time.Duration
	period         time.Duration // of faults
	faults         int
	commitEvery    time.Duration
	drainTimeout   time.Duration
	inFlight       int
	foreignCommits float64 // share of claims that find a foreign commit
	rejects        float64 // share of heartbeats that are refused as too large
	slowAppend     time.Duration
	lateEvicts     float64
	whole, mixed   bool
	fastNetwork    bool
	weights        [faultKinds]float64
	scheme         int // what tools mostly do; -1: anything

	heldUntil  time.Duration // snapshots arrive no sooner
	forgedHash bool          // a foreign record carries a wrong hash
	lonely     map[string]time.Duration
	names      map[lease.InstanceID]string
	downs      []span
}

// span is a stretch of real time.
type span struct{ from, to time.Duration }

// setUp makes the world of the run: log, topics, processes, faults to come.
func (s *simulation) setUp() {
	s.data, s.byID = map[string]*topic{}, map[lease.InstanceID]*agent{}
	s.names, s.lonely = map[lease.InstanceID]string{}, map[string]time.Duration{}
	s.choose()
	if s.cfg.Limits != nil {
		s.cfg.Limits(&s.scenario)
	}
	s.setUpLog()
	s.setUpTopics()
	s.setUpProcesses()
	for i := range s.faults {
		s.at(s.period*time.Duration(i)/time.Duration(s.faults)+s.between(0, s.period/time.Duration(s.faults)), s.fault)
	}
	s.every(250*time.Millisecond, s.noteLonely)
	s.at(s.period, s.calm)
}

// every repeats fn until the end of the run.
func (s *simulation) every(d time.Duration, fn func()) {
	s.after(d, func() {
		fn()
		s.every(d, fn)
	})
}

func (s *simulation) setUpLog() {
	s.log = vlog{millis: 1_700_000_000_000 + s.rng.Int64N(1e9)}
	s.ref = reference{
		world: lease.NewWorld(topicID), baseAt: -1, lastEpoch: map[lease.Key]int64{}, firstJoin: map[lease.InstanceID]int64{},
		takenOver: map[lease.InstanceID]bool{}, endedAt: map[lease.InstanceID]int64{}, ghosts: map[lease.InstanceID]bool{}, uids: map[uint64]int64{},
	}
	if !s.chance(s.weights[lateStartFault]) {
		return
	}
	// The shard is older than its log start, and holds other groups' records only.
	s.table.fault(lateStartFault)
	s.log.first = 1 + s.rng.Int64N(1_000_000)
	s.log.start, s.log.next = s.log.first, s.log.first
	age := time.Duration(pick(s, []int{5, 55, 65, 300})) * time.Minute
	for n := s.rng.IntN(4); n > 0; n-- {
		s.uid++
		s.log.add(&entry{uid: s.uid, millis: s.log.millis - age.Milliseconds()})
		age = age * 9 / 10
	}
}

func (s *simulation) setUpTopics() {
	for i, count := range s.shares() {
		t := &topic{name: fmt.Sprintf("t%d", i), id: s.randomID(), count: count}
		for p := range t.count + 3 { // some are there for later
			t.parts = append(t.parts, &partition{
				key: lease.Key{Topic: t.name, Partition: p}, done: map[lease.TopicID]*finished{}, committed: -1, sought: -1,
			})
		}
		s.topics = append(s.topics, t)
		s.data[t.name] = t
	}
	s.still.topics = s.topics
}

func (s *simulation) setUpProcesses() {
	if s.members >= 8 {
		s.table.fault(crowdFault)
	}
	if s.members >= 20 {
		s.table.fault(multitudeFault)
	}
	if s.keys >= 100 {
		s.table.fault(manyKeysFault)
	}
	for range s.members {
		p := s.newProcess()
		s.at(s.between(0, s.ttl), func() {
			if p.phase == dead {
				p.start()
			}
		})
	}
}

// newProcess makes a machine with a process that is not started yet.
func (s *simulation) newProcess() *process {
	i := len(s.procs)
	p := &process{sim: s, name: fmt.Sprintf("p%d", i), client: fmt.Sprintf("c%d", i)}
	s.table.fault(skewFault)
	p.clock = clock{
		rate: 0.95 + 0.1*s.rng.Float64(), mono: s.between(0, time.Hour), boot: s.between(0, time.Hour),
		wall: time.Duration(s.log.millis)*time.Millisecond + s.between(-10*time.Minute, 10*time.Minute),
	}
	if s.chance(0.3) {
		p.clock.rate = pick(s, []float64{0.95, 1.05})
	}
	p.timeout = min(max(s.ttl/8, 30*time.Millisecond), time.Second)
	p.appEvery = s.pace*s.between(s.ttl/16, s.ttl/4) + 10*time.Millisecond
	p.batch = 100
	if s.ttl >= time.Second && s.chance(0.3) {
		p.batch = 5
	}
	p.window = 1
	if s.chance(0.3) {
		s.table.fault(pipelineFault)
		p.window = 2 + s.rng.IntN(3)
	}
	p.usualLink()
	p.plan = []agentPlan{s.newPlan(p.client)}
	if s.chance(0.15) {
		s.table.fault(twoMembersFault)
		p.plan = append(p.plan, s.newPlan(p.client+"b"))
	}
	s.procs = append(s.procs, p)
	return p
}

// usualLink is the network without faults.
func (p *process) usualLink() {
	s := p.sim
	p.link = link{low: 200 * time.Microsecond, high: min(s.between(1*time.Millisecond, 20*time.Millisecond), s.ttl/60)}
	if s.fastNetwork {
		p.link.high = 500 * time.Microsecond
	}
	p.slowRead = 0
}

func (s *simulation) newPlan(client string) agentPlan {
	pl := agentPlan{client: client, ttl: s.ttl, grace: s.between(s.ttl/2, 3*s.ttl), unable: map[lease.Key]bool{}}
	if s.chance(0.3) {
		s.table.fault(unequalFault)
		pl.ttl = min(max(s.ttl*time.Duration(5+s.rng.IntN(20))/10, lease.MinTTL), lease.MaxTTL)
	}
	s.maxTTL = max(s.maxTTL, pl.ttl)
	pl.heartbeat = pl.ttl / 5
	if s.chance(0.1) {
		pl.heartbeat = pl.ttl / 8
	}
	if s.chance(0.1) {
		pl.maxBytes = max(200, 10*s.keys)
	}
	pl.wanted = member.Wanted{Interests: s.newInterests(), FastReclaim: s.chance(s.weights[fastReclaimFault])}
	if pl.wanted.FastReclaim {
		s.table.fault(fastReclaimFault)
	}
	return pl
}

// newInterests is what the consumers of one Marshaler want: mostly one consumer of all topics.
func (s *simulation) newInterests() []lease.Interest {
	whole := s.whole
	if s.mixed {
		whole = s.chance(0.5)
	}
	in := lease.Interest{Whole: whole}
	for _, t := range s.topics {
		if s.chance(0.85) {
			in.Topics = append(in.Topics, lease.TopicInterest{Topic: t.name, Partitions: t.count})
		}
	}
	if len(in.Topics) == 0 {
		t := pick(s, s.topics)
		in.Topics = append(in.Topics, lease.TopicInterest{Topic: t.name, Partitions: t.count})
	}
	if s.chance(s.weights[maxFault] / 10) {
		s.table.fault(maxFault)
		in.Max = 1 + s.rng.Int32N(6)
	}
	if s.chance(s.weights[weightFault] / 10) {
		s.table.fault(weightFault)
		in.Weight = 1 + s.rng.Int32N(4)
	}
	if s.chance(s.weights[greedyFault] / 20) {
		s.table.fault(greedyFault)
		in.Greedy = true
	}
	if len(in.Topics) > 1 && s.chance(0.15) {
		second := in
		second.Topics = slices.Clone(in.Topics[1:])
		in.Topics = in.Topics[:1]
		return []lease.Interest{in, second}
	}
	return []lease.Interest{in}
}

// noteLonely keeps when a topic was last wanted by nobody who is there.
func (s *simulation) noteLonely() {
	for _, t := range s.topics {
		wanted := slices.ContainsFunc(s.agents, func(a *agent) bool { return !a.leaving && a.wants(t.name) })
		if !wanted {
			s.lonely[t.name] = s.now
		}
	}
}

func (a *agent) wants(topic string) bool {
	for _, in := range a.plan.wanted.Interests {
		for _, t := range in.Topics {
			if t.Topic == topic {
				return true
			}
		}
	}
	return false
}

// downSince is for how long the log was down since a moment.
func (s *simulation) downSince(from time.Duration) time.Duration {
	var d time.Duration
	for _, sp := range s.downs {
		d += max(0, min(sp.to, s.now)-max(sp.from, from))
	}
	return d
}
