package sim

import (
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
	"github.com/kafka-marshal/marshal/internal/window"
)

// topic is a data topic: the messages of each partition are the offsets from 0 on, without end.
type topic struct {
	name  string
	id    lease.TopicID // of now; changes when the topic is recreated
	count int32         // partitions that are there
	parts []*partition

	handing []listed // who hands out the topic as a whole
}

// partition is what the judge knows of one partition.
type partition struct {
	key       lease.Key
	done      map[lease.TopicID]*finished
	committed int64 // Kafka's committed offset, of topic id committedOf; -1: none
	of        lease.TopicID
	starts    []started
	token     int64 // largest token under which a message was handed out
	holder    lease.InstanceID
	handing   []listed // who hands it out by itself
	sought    int64    // offset of the newest Seek of it, or of the Base that came after
	openUntil time.Duration
	gap       time.Duration // longest standstill
}

// finished holds under which epoch each offset was finished last.
type finished struct {
	epochs []int64
}

func (f *finished) mark(offset, epoch int64) {
	for int64(len(f.epochs)) <= offset {
		f.epochs = append(f.epochs, -1)
	}
	f.epochs[offset] = max(f.epochs[offset], epoch)
}

func (f *finished) by(offset int64) int64 {
	if offset < 0 || offset >= int64(len(f.epochs)) {
		return -1
	}
	return f.epochs[offset]
}

// started is an offset from which a claim read although the world knew of no progress.
type started struct {
	id   lease.TopicID
	next int64
}

// start gives where the reading that came to next began.
func (p *partition) start(id lease.TopicID, next int64) int64 {
	var from int64
	for _, st := range p.starts {
		if st.id == id && st.next <= next {
			from = max(from, st.next)
		}
	}
	return from
}

func (p *partition) finished(id lease.TopicID) *finished {
	f := p.done[id]
	if f == nil {
		f = &finished{}
		p.done[id] = f
	}
	return f
}

// claim is the life of one held key in a process.
type claim struct {
	key      lease.Key
	epoch    int64
	unread   bool
	parts    []*read
	started  bool // its start offsets are known
	draining bool
	deadline time.Duration // of the drain, real time
	answered bool          // Drained was called
	stuck    bool          // the process cannot run it: it never finishes a message
	stuckAt  time.Duration // when it gives up
}

// read is one partition under a claim.
type read struct {
	part     *partition
	topicID  lease.TopicID
	next     int64 // to hand out
	win      *window.Window
	flying   []int64
	reported int64
}

// act does what the member says of a claim.
func (a *agent) act(act member.Action) {
	s := a.sim
	if s.tracing() {
		s.tracef("%s %s %s e%d %s", a.name, actionNames[act.Kind], keyString(act.Key), act.Epoch, act.Reason)
	}
	i, running := a.claimOf(act.Key)
	switch act.Kind {
	case member.Start:
		if running {
			s.fail("S4", "%s starts %s, which it runs already", a.name, keyString(act.Key))
			return
		}
		a.startClaim(act)
		return
	case member.Resume:
		s.table.branch(resumeBranch)
	case member.Stop:
		s.table.branch(lostClaimBranch)
	}
	if !running {
		return
	}
	c := a.claims[i]
	switch act.Kind {
	case member.Drain:
		c.draining, c.answered = true, false
		c.deadline = s.now + s.between(s.drainTimeout/10, s.drainTimeout)
		a.soon(func() { a.drained(c) })
	case member.Resume:
		c.draining, c.answered = false, false
	case member.Stop, member.Finish:
		a.claims = slices.Delete(a.claims, i, i+1)
	}
}

var actionNames = [...]string{
	member.Start: "starts", member.Drain: "drains", member.Stop: "stops", member.Finish: "finishes", member.Resume: "resumes",
}

// soon runs fn after what is going on.
func (a *agent) soon(fn func()) {
	run := a.p.run
	a.sim.after(0, func() {
		a.p.deliver(run, func() {
			if !a.over {
				fn()
			}
		})
	})
}

// startClaim begins a claim; where it starts to read is known a little later.
func (a *agent) startClaim(act member.Action) {
	s := a.sim
	c := &claim{key: act.Key, epoch: act.Epoch, unread: act.Unread}
	if a.plan.unable[act.Key] && !s.quiet {
		c.stuck = true
		c.stuckAt = s.now + s.between(s.commitEvery/2, 2*s.commitEvery)
	}
	at, _ := a.claimOf(act.Key)
	a.claims = slices.Insert(a.claims, at, c)
	if c.unread {
		s.table.branch(keptBranch)
		return
	}
	run := a.p.run
	s.after(s.between(0, 4*time.Millisecond), func() {
		a.p.deliver(run, func() {
			if slices.Contains(a.claims, c) {
				a.open(c)
			}
		})
	})
}

// open finds the start offsets: the world's progress, else Kafka's committed offset, else the beginning.
func (a *agent) open(c *claim) {
	s := a.sim
	t := s.data[c.key.Topic]
	first, end := int32(0), t.count
	if c.key.Partition != lease.WholeTopic {
		first, end = c.key.Partition, min(t.count, c.key.Partition+1)
	}
	for n := first; n < end; n++ {
		part := t.parts[n]
		r := &read{part: part, topicID: t.id}
		progress, ok := a.p.log.World().Progress(c.key.Topic, n)
		switch {
		case ok && progress.Next != lease.NoProgress && progress.TopicID.Same(t.id):
			r.next = progress.Next
		case part.committed >= 0 && part.of == t.id:
			r.next = part.committed
			part.starts = append(part.starts, started{t.id, r.next})
		}
		r.win = window.New(r.next, s.inFlight)
		r.reported = -1
		c.parts = append(c.parts, r)
	}
	c.started = true
	if s.chance(s.foreignCommits) {
		s.table.branch(foreignCommitBranch)
		r := pick(s, c.parts)
		a.do(a.m.Seek(r.part.key, r.topicID, r.next+s.rng.Int64N(5), c.epoch, a.p.nowClocks()))
	}
}

func compareKeys(x, y lease.Key) int {
	if x.Topic != y.Topic {
		if x.Topic < y.Topic {
			return -1
		}
		return 1
	}
	return int(x.Partition - y.Partition)
}

// work is the application's turn: it finishes some messages, takes some, and the positions are reported.
func (p *process) work() {
	p.workNow(false)
	if p.phase == following {
		run := p.run
		p.sim.after(p.sim.between(p.appEvery/2, p.appEvery*3/2), func() { p.deliver(run, p.work) })
	}
}

func (p *process) workNow(waking bool) {
	for _, a := range slices.Clone(p.agents) {
		for _, c := range slices.Clone(a.claims) {
			if a.over {
				break
			}
			a.turn(c, waking)
		}
		if !a.over && !waking {
			a.report(p.nowClocks())
		}
	}
}

// turn is one claim's share of the application's turn.
func (a *agent) turn(c *claim, waking bool) {
	s := a.sim
	if !c.started || c.unread {
		if c.draining {
			a.drained(c)
		}
		return
	}
	if c.stuck && s.now >= c.stuckAt && !waking && !c.draining {
		c.stuckAt = s.now + s.between(4*s.commitEvery, 8*s.commitEvery)
		if heir := s.byID[a.m.Fitter(c.key)]; heir != nil && heir.p != a.p && heir.p.phase != dead && !s.quiet && s.chance(0.3) {
			s.after(s.between(s.commitEvery, s.ttl/2), heir.p.dieForAWhile) // so that the key comes back to who gave it up
		}
		a.do(a.m.GiveUp(c.key, c.epoch, a.p.nowClocks()))
		return
	}
	r := pick(s, c.parts)
	if !waking && !(c.stuck && !s.quiet) && !a.plan.hangs {
		for len(r.flying) > 0 && s.chance(0.7) {
			a.finish(c, r, s.rng.IntN(len(r.flying)))
		}
	}
	if c.draining {
		a.drained(c)
		return
	}
	a.takeMessages(c, r)
}

// takeMessages asks the gate before each message, as the caller of Fetch does.
func (a *agent) takeMessages(c *claim, r *read) {
	s := a.sim
	if id := s.data[c.key.Topic].id; r.topicID != id {
		a.recreated(c, id)
	}
	for n := 1 + s.rng.IntN(2); n > 0; n-- {
		epoch, ok := a.m.HandsOut(c.key, a.p.nowClocks())
		if !ok || epoch != c.epoch || !r.win.Add(r.next) {
			return
		}
		s.judge(a, c, r)
		r.flying = append(r.flying, r.next)
		r.next++
	}
}

// recreated goes over to the topic's new incarnation, from its beginning, with all that a claim reads of it.
func (a *agent) recreated(c *claim, id lease.TopicID) {
	for _, r := range c.parts {
		r.topicID, r.next, r.flying, r.reported = id, 0, nil, -1
		r.win = window.New(0, a.sim.inFlight)
	}
}

func (a *agent) finish(c *claim, r *read, i int) {
	offset := r.flying[i]
	r.flying = slices.Delete(r.flying, i, i+1)
	r.win.Done(offset)
	r.part.finished(r.topicID).mark(offset, c.epoch)
}

// drained answers a drain when nothing is in flight any more, or when time is up.
func (a *agent) drained(c *claim) {
	s := a.sim
	if !c.draining || c.answered || !slices.Contains(a.claims, c) {
		return
	}
	var positions []member.Position
	var id lease.TopicID
	if c.started {
		for _, r := range c.parts {
			for !c.stuck && !a.plan.hangs && len(r.flying) > 0 && s.chance(0.8) {
				a.finish(c, r, s.rng.IntN(len(r.flying)))
			}
			if len(r.flying) > 0 && s.now < c.deadline {
				a.p.laterDrain(a, c)
				return
			}
		}
		for _, r := range c.parts {
			if len(r.flying) > 0 {
				s.table.branch(drainTimeoutBranch)
				if a.plan.hangs {
					s.table.branch(drainEndlessBranch)
				}
			}
			id = r.topicID
			positions = append(positions, member.Position{Key: r.part.key, TopicID: r.topicID, Epoch: c.epoch, Next: r.win.Position()})
			a.commit(r)
		}
	}
	c.answered = true
	a.do(a.m.Drained(c.key, c.epoch, id, positions, a.p.nowClocks()))
}

func (p *process) laterDrain(a *agent, c *claim) {
	run := p.run
	p.sim.after(p.appEvery/4, func() {
		p.deliver(run, func() {
			if !a.over {
				a.drained(c)
			}
		})
	})
}

// commit is Kafka's own offset: written beside the log, not fenced.
func (a *agent) commit(r *read) {
	if r.win.Position() > 0 {
		r.part.committed, r.part.of = r.win.Position(), r.topicID
	}
}

// report gives the member the positions that moved.
func (a *agent) report(now member.Now) {
	s := a.sim
	var moved []member.Position
	var load lease.Load
	for _, c := range a.claims {
		if !c.started || c.unread || c.answered {
			continue
		}
		for _, r := range c.parts {
			load.InFlight += int64(len(r.flying))
			if next := r.win.Position(); next != r.reported && next > 0 {
				r.reported = next
				moved = append(moved, member.Position{Key: r.part.key, TopicID: r.topicID, Epoch: c.epoch, Next: next})
				if s.chance(0.5) {
					a.commit(r)
				}
			}
		}
	}
	if len(moved) > 0 && !a.over {
		now.Boot = 0
		a.do(a.m.Positions(moved, load, now))
	}
}
