package member

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

const ms = time.Millisecond

// stage of a script: a slice as the log, and processes that follow it. Writing and reading take a while of their own; in
// between time jumps from one thing that is due to the next.
type script struct {
	t       *testing.T
	now     time.Duration
	log     []lease.Record
	landed  []time.Duration // when each came into the log
	flights []flight
	procs   []*proc
	outage  bool // nothing is appended, nothing is read; what is written waits
}

// flight is a record on its way to the log.
type flight struct {
	at   time.Duration
	from *proc
	rec  lease.Record
}

const (
	writing = 2 * ms // from a member's output to the log
	reading = 1 * ms // from the log to the members
)

// proc is one process with one member.
type proc struct {
	s    *script
	name string
	id   lease.InstanceID
	m    *Member
	log  *history.Log
	next int // offset to read
	wake time.Duration
	wall time.Duration // how much the wall clock is ahead of the monotonic one
	boot time.Duration // and the boot clock

	crashed bool
	blind   bool                     // reads nothing
	silent  bool                     // what it writes is held back
	acks    bool                     // acknowledgements come
	lose    func(*lease.Record) bool // what it writes is lost
	slow    bool                     // does not answer Drain by itself
	held    []lease.Record           // back

	written []lease.Record // all that it wrote
	at      []time.Duration
	actions []Action
	notices []Notice
	reopens int
	ended   bool
	left    bool
	keys    map[lease.Key]Action // started and neither stopped nor finished
	done    map[lease.Key]int64  // next offset of each partition, as the application has it
}

func newScript(t *testing.T) *script { return &script{t: t, now: time.Hour} }

// id makes an instance id from a name.
func instance(name string) (id lease.InstanceID) {
	copy(id[:], name)
	return id
}

// part is a key of topic t.
func part(n int32) lease.Key { return lease.Key{Topic: "t", Partition: n} }

// some gives an interest in partitions 0..n-1 of topic t.
func some(n int32) lease.Interest {
	return lease.Interest{Topics: []lease.TopicInterest{{Topic: "t", Partitions: n}}}
}

func want(i ...lease.Interest) Wanted { return Wanted{Interests: i} }

// process starts a process whose log is the world so far.
func (s *script) process(name string, cfg Config, w Wanted) *proc {
	p := &proc{s: s, name: name, id: instance(name), keys: map[lease.Key]Action{}, done: map[lease.Key]int64{}, acks: true}
	cfg.Instance = p.id
	cfg.Client = cmp.Or(cfg.Client, name)
	cfg.TTL = cmp.Or(cfg.TTL, 10*time.Second)
	cfg.Seed = uint64(len(s.procs))
	p.log = history.NewLog(history.Base{World: lease.NewWorld(lease.TopicID{})})
	for p.next < len(s.log) {
		rec := s.log[p.next]
		p.log.Take(&rec, nil, nil)
		p.next++
	}
	p.m = New(cfg, &Shared{Log: p.log, Planner: &policy.Planner{}}, p.clock(true))
	s.procs = append(s.procs, p)
	p.do(p.m.Want(w, p.clock(false)))
	return p
}

func (p *proc) clock(boot bool) Now {
	n := Now{Mono: p.s.now, Wall: p.s.now + p.wall + 1000*time.Hour}
	if boot {
		n.Boot = p.s.now + p.boot
	}
	return n
}

func (p *proc) do(out Output) {
	s := p.s
	p.m.keptUp(s.t)
	for _, a := range out.Appends {
		p.written = append(p.written, a.Record)
		p.at = append(p.at, s.now)
		switch {
		case p.lose != nil && p.lose(&a.Record):
		case p.silent:
			p.held = append(p.held, a.Record)
		default:
			p.fly(a.Record)
		}
	}
	p.notices = append(p.notices, out.Notices...)
	if out.Reopen {
		p.reopens++
	}
	p.wake = out.Wake
	p.ended = p.ended || out.Ended
	p.left = p.left || out.Left
	for _, a := range out.Actions {
		p.act(a)
	}
}

func (p *proc) fly(rec lease.Record) {
	p.s.flights = append(p.s.flights, flight{p.s.now + writing, p, rec})
}

func (p *proc) act(a Action) {
	p.actions = append(p.actions, a)
	_, runs := p.keys[a.Key]
	require.Equal(p.s.t, a.Kind != Start, runs, "%s: %v of %v", p.name, a.Kind, a.Key)
	switch a.Kind {
	case Start:
		p.keys[a.Key] = a
		if w, ok := p.log.World().Progress(a.Key.Topic, a.Key.Partition); ok && !a.Unread {
			p.done[a.Key] = max(w.Next, 0)
		}
	case Stop, Finish:
		require.Equal(p.s.t, p.keys[a.Key].Epoch, a.Epoch)
		delete(p.keys, a.Key)
	case Drain:
		if !p.slow {
			p.drained(a.Key)
		}
	}
}

// drained answers a Drain.
func (p *proc) drained(k lease.Key) {
	var ps []Position
	if next, ok := p.done[k]; ok {
		ps = []Position{{Key: k, Epoch: p.keys[k].Epoch, Next: next}}
	}
	p.do(p.m.Drained(k, p.keys[k].Epoch, lease.TopicID{}, ps, p.clock(false)))
}

// commit says that the application has finished all below next.
func (p *proc) commit(k lease.Key, next int64) {
	p.done[k] = next
	p.do(p.m.Positions([]Position{{Key: k, Epoch: p.keys[k].Epoch, Next: next}}, lease.Load{}, p.clock(false)))
}

func (p *proc) want(w Wanted)                         { p.do(p.m.Want(w, p.clock(false))) }
func (p *proc) leave(keep bool, grace time.Duration)  { p.do(p.m.Leave(keep, grace, p.clock(false))) }
func (p *proc) hands(k lease.Key) bool                { _, ok := p.m.HandsOut(k, p.clock(false)); return ok }
func (p *proc) lease(k lease.Key) (lease.Lease, bool) { return p.log.World().Lease(k) }
func (p *proc) holds(k lease.Key) bool                { l, ok := p.lease(k); return ok && l.Instance == p.id }
func (p *proc) runs() int                             { return len(p.keys) }
func (p *proc) has(kind NoticeKind) bool {
	return slices.ContainsFunc(p.notices, func(n Notice) bool { return n.Kind == kind })
}
func (p *proc) did(kind ActionKind, k lease.Key) bool {
	return slices.ContainsFunc(p.actions, func(a Action) bool { return a.Kind == kind && a.Key == k })
}

// kinds lists the kinds of the records written since from.
func (p *proc) kinds(from int) (kinds []lease.Kind) {
	for _, r := range p.written[from:] {
		kinds = append(kinds, r.Kind)
	}
	return kinds
}

// of lists the records of a kind that it wrote.
func (p *proc) of(kind lease.Kind) (recs []lease.Record) {
	for _, r := range p.written {
		if r.Kind == kind {
			recs = append(recs, r)
		}
	}
	return recs
}

// when gives the times of the records of a kind that it wrote.
func (p *proc) when(kind lease.Kind) (at []time.Duration) {
	for i, r := range p.written {
		if r.Kind == kind {
			at = append(at, p.at[i])
		}
	}
	return at
}

// read lets it read all that has arrived, as one batch.
func (p *proc) read() {
	if p.crashed || p.blind || p.s.outage || p.next >= len(p.s.log) || p.ended || p.left {
		return
	}
	var events []lease.Event
	for p.next < len(p.s.log) && p.s.landed[p.next]+reading <= p.s.now {
		rec := p.s.log[p.next]
		events, _ = p.log.Take(&rec, nil, events)
		p.next++
	}
	if events != nil {
		p.do(p.m.Step(events, p.clock(false)))
	}
}

// release lets go what was held back.
func (p *proc) release() {
	p.silent = false
	for _, r := range p.held {
		p.fly(r)
	}
	p.held = nil
}

// append puts a record of somebody into the log.
func (s *script) append(rec lease.Record) {
	rec.Offset = int64(len(s.log))
	s.log = append(s.log, rec)
	s.landed = append(s.landed, s.now)
}

// pass lets time go by, and everything happen that is due meanwhile.
func (s *script) pass(d time.Duration) {
	end := s.now + d
	for steps := 0; ; steps++ {
		require.Less(s.t, steps, 1_000_000, "time stands still at %v", s.now)
		next := end
		if !s.outage {
			for _, f := range s.flights {
				next = min(next, f.at)
			}
		}
		for _, p := range s.procs {
			if !p.crashed && !p.ended && !p.left {
				next = min(next, p.wake)
				if !s.outage && !p.blind && p.next < len(s.log) {
					next = min(next, s.landed[p.next]+reading)
				}
			}
		}
		s.now = max(s.now, next)
		s.land()
		for _, p := range s.procs {
			p.read()
			if !p.crashed && !p.ended && !p.left && p.wake <= s.now {
				p.do(p.m.Tick(p.clock(true)))
				require.True(s.t, p.wake > s.now || p.ended || p.left, "%s wants a tick at once after a tick", p.name)
			}
		}
		if s.now >= end {
			return
		}
	}
}

// land appends what has arrived.
func (s *script) land() {
	if s.outage {
		return
	}
	for len(s.flights) > 0 && s.flights[0].at <= s.now {
		f := s.flights[0]
		s.flights = s.flights[1:]
		s.append(f.rec)
		if f.from.acks && !f.from.crashed && !f.from.ended && !f.from.left {
			f.from.do(f.from.m.Acked(f.rec.Seq, f.from.clock(false)))
		}
	}
}

// until lets time go by until something is so, at most for d.
func (s *script) until(d time.Duration, what string, so func() bool) {
	s.t.Helper()
	for end := s.now + d; !so(); s.pass(ms) {
		require.Less(s.t, s.now, end, "not within %v: %s", d, what)
	}
}

func (k ActionKind) String() string {
	return [...]string{"-", "start", "drain", "stop", "finish", "resume"}[k]
}

func (p *proc) String() string { return fmt.Sprintf("%s %v", p.name, p.keys) }
