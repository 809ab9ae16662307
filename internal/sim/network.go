package sim

import (
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
)

// link is the way between one process and the log.
type link struct {
	writeCut, ackCut, readCut bool          // each direction by itself: requests out, acknowledgements back, fetches
	stuckFetch                bool          // the fetch connection hangs; opening it anew cures it
	low, high                 time.Duration // the usual delay of one way
	tail                      float64       // share of messages that take up to tailMax instead
	tailMax                   time.Duration
	loss                      float64 // share of messages that never arrive
}

// delay draws how long one message takes, and touches the process where that is long.
func (p *process) delay() time.Duration {
	s, l := p.sim, &p.link
	d := s.between(l.low, l.high)
	if l.tail > 0 && s.chance(l.tail) {
		d = s.between(l.high, l.tailMax)
		s.table.fault(delayFault)
		p.touchUntil(s.now + d)
	}
	return d
}

// lose tells whether a message of p is lost. An outage of the log is nobody's own fault: it touches nobody.
func (p *process) lose(cut bool) bool {
	s := p.sim
	if s.log.down {
		return true
	}
	if cut {
		p.touchUntil(s.now)
		return true
	}
	if p.link.loss > 0 && s.chance(p.link.loss) {
		s.table.fault(lossFault)
		p.touchUntil(s.now)
		return true
	}
	return false
}

// outgoing is one record on its way to the log.
type outgoing struct {
	rec    lease.Record
	value  []byte
	uid    uint64
	origin origin
	acked  bool
}

// producer appends records in order and repeats each until it is acknowledged: at least once. With a window above one,
// records overtake each other; with late requests, an old copy arrives after newer records.
type producer struct {
	p       *process
	a       *agent // whose Acked is called; nil: nobody's
	run     int    // of the process
	window  int
	timeout time.Duration
	waiting []*outgoing
	flying  int
}

// attempter is a member that hears of each attempt: where the rule is broken that a retry keeps the start of the first one.
type attempter interface {
	Attempted(seq uint64, now member.Now)
}

func (p *process) newProducer(a *agent, window int, timeout time.Duration) *producer {
	return &producer{p: p, a: a, run: p.run, window: window, timeout: timeout}
}

// add queues records, in order.
func (pr *producer) add(rec lease.Record, value []byte, o origin) {
	pr.p.sim.uid++
	uid := pr.p.sim.uid
	if value == nil {
		value = uidBytes(uid)
	}
	pr.waiting = append(pr.waiting, &outgoing{rec: rec, value: value, uid: uid, origin: o})
	pr.pump()
}

func (pr *producer) pump() {
	for pr.flying < pr.window && len(pr.waiting) > 0 {
		o := pr.waiting[0]
		pr.waiting = pr.waiting[1:]
		pr.flying++
		pr.attempt(o)
	}
}

// attempt sends one copy, and another when no acknowledgement comes in time.
func (pr *producer) attempt(o *outgoing) {
	p, s := pr.p, pr.p.sim
	if o.acked {
		return
	}
	if pr.a != nil {
		if m, ok := any(pr.a.m).(attempter); ok {
			m.Attempted(o.rec.Seq, p.nowClocks())
		}
	}
	again := pr.timeout
	if !p.lose(p.link.writeCut) {
		d := p.delay()
		if o.rec.Kind == lease.KindSnapshot || o.rec.Kind == lease.KindBase {
			d += s.between(0, s.slowAppend)
		}
		if o.rec.Kind == lease.KindSnapshot && s.now < s.heldUntil {
			d += s.heldUntil - s.now
			again += s.heldUntil - s.now
		}
		if o.rec.Kind == lease.KindEvict && !s.quiet && s.lateEvicts > 0 && s.chance(s.lateEvicts) {
			d += s.between(0, s.maxTTL)
			p.touchUntil(s.now + d) // what comes after it may have to wait
			s.table.fault(lateEvictFault)
		}
		s.after(d, func() { pr.arrive(o) })
	}
	s.after(again, func() { p.deliver(pr.run, func() { pr.attempt(o) }) })
}

// arrive is the request at the log.
func (pr *producer) arrive(o *outgoing) {
	p, s := pr.p, pr.p.sim
	if s.log.down {
		return
	}
	s.append(&o.rec, o.value, o.uid, true, o.origin)
	if s.violation != nil || p.lose(p.link.ackCut) {
		return
	}
	s.after(p.delay(), func() { p.deliver(pr.run, func() { pr.acked(o) }) })
}

func (pr *producer) acked(o *outgoing) {
	if o.acked {
		return
	}
	o.acked = true
	pr.flying--
	if pr.a != nil && o.rec.Seq > 0 {
		pr.a.acked(o.rec.Seq)
	}
	pr.pump()
}

func uidBytes(uid uint64) []byte {
	b := make([]byte, 8)
	for i := range b {
		b[i] = byte(uid >> (8 * i))
	}
	return b
}

// fetch follows the log from the process's cursor: a request, then an answer when there is something. Only one is under
// way: starting one ends the one before.
func (p *process) fetch() {
	s := p.sim
	p.fetchRun++
	run, fetchRun := p.run, p.fetchRun
	current := func(fn func()) func() {
		return func() {
			if p.fetchRun == fetchRun {
				fn()
			}
		}
	}
	again := current(func() { p.deliver(run, current(p.fetch)) })
	if p.lose(p.link.readCut) || p.link.stuckFetch {
		if !p.link.stuckFetch {
			s.after(p.timeout, again)
		}
		return
	}
	s.after(p.delay(), current(func() {
		if s.log.down {
			s.after(p.timeout, again)
			return
		}
		p.poll(current, again)
	}))
}

// poll is the fetch request at the log.
func (p *process) poll(current func(func()) func(), again func()) {
	s := p.sim
	run := p.run
	answer := func(fn func()) {
		if p.lose(p.link.readCut) || p.link.stuckFetch {
			if !p.link.stuckFetch {
				s.after(p.timeout, again)
			}
			return
		}
		s.after(p.delay()+p.readLag(), current(func() { p.deliver(run, current(fn)) }))
	}
	switch {
	case p.cursor < s.log.start:
		answer(func() { p.dropWorld(offStartBranch) })
		return
	case !s.log.blind && p.diverged():
		answer(func() { p.dropWorld(rewoundBranch) })
		return
	case p.cursor >= s.log.end():
		p.parked = func() { s.after(0, current(func() { p.poll(current, again) })) }
		return
	}
	batch := s.log.read(p.cursor, p.batch)
	answer(func() {
		p.take(batch)
		if p.phase == following || p.phase == beginning {
			p.fetch()
		}
	})
}

// readLag is how much longer a fetch takes at a process that reads slowly.
func (p *process) readLag() time.Duration {
	if p.slowRead == 0 {
		return 0
	}
	d := p.sim.between(0, p.slowRead)
	p.touchUntil(p.sim.now + d)
	return d
}

// diverged tells whether the log no longer holds what the process read last: the leader epoch's work in Kafka.
func (p *process) diverged() bool {
	l := &p.sim.log
	if p.lastRead == nil || p.lastRead.offset < l.start {
		return false
	}
	return p.lastRead.offset >= l.end() || l.at(p.lastRead.offset) != p.lastRead
}
