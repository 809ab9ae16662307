package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// cell is one group's size.
type cell struct{ members, partitions, topics int }

func (c cell) name() string {
	return fmt.Sprintf("%d members, %d partitions in %d topics", c.members, c.partitions, c.topics)
}

// interests is what each member wants: every partition of every topic.
func (c cell) interests() []lease.Interest {
	in := lease.Interest{}
	for t := range c.topics {
		in.Topics = append(in.Topics, lease.TopicInterest{Topic: topicName(t), Partitions: int32(c.partitions / c.topics)})
	}
	return []lease.Interest{in}
}

func topicName(t int) string { return fmt.Sprintf("orders-%04d", t) }

// crowd is a group all of whose members are the shipped ones. All but the first read with one mind: from the same records
// everybody has the same world and the same plan (rule S1), so it is kept once, and the memory goes to the members. The
// first is a process of its own, and is measured.
type crowd struct {
	cell
	rng    *rand.Rand
	now    time.Duration
	shard  shard
	common *mind
	agents []*agent
	due    []time.Duration // of each agent that is to be started: when; negative: not
	wrong  int             // members that were evicted though they lived
}

// figure is what one change of the group took.
type figure struct {
	took    time.Duration // simulated; negative: not within the limit
	records int64         // without heartbeats
	beats   int64
	bytes   int64
	moves   int64 // keys that were handed over
	work    work  // of the first member's process
}

func newCrowd(c cell, seed uint64) *crowd {
	w := &crowd{cell: c, rng: rand.New(rand.NewPCG(seed, uint64(c.members)<<32|uint64(c.partitions))), now: time.Hour, common: newMind()}
	for i := range c.members {
		a := &agent{client: fmt.Sprintf("worker-%05d", i), mind: w.common, shard: &w.shard}
		a.want.Interests = c.interests()
		if i == 0 {
			a.mind = newMind()
		}
		w.agents = append(w.agents, a)
		w.due = append(w.due, -1)
	}
	return w
}

// step lets one step of time pass.
func (w *crowd) step() {
	w.now += step
	values, first := w.shard.take()
	w.agents[0].mind.read(values, first, func(events []lease.Event) { w.turn(0, events) })
	w.common.read(values, first, nil)
	for i := 1; i < len(w.agents); i++ {
		w.turn(i, w.common.events)
	}
	for _, own := range []*mind{w.agents[0].mind, w.common} {
		for _, rec := range own.log.TakeSnapshot() {
			w.shard.append(&rec)
		}
	}
}

func (w *crowd) turn(i int, events []lease.Event) {
	a := w.agents[i]
	if w.due[i] >= 0 && w.due[i] <= w.now {
		w.due[i], a.again = -1, false
		a.start(w.rng, w.now)
		return
	}
	if a.m == nil {
		return
	}
	a.turn(events, w.now)
	switch {
	case a.left:
		a.m, a.claims, a.keys, a.left = nil, nil, nil, false
		w.due[i] = w.now + time.Second
	case a.ended:
		w.wrong++
		a.start(w.rng, w.now)
	}
}

// kill ends a process without a word.
func (w *crowd) kill(i int) {
	a := w.agents[i]
	w.common.log.Disown(a.m.Instance())
	a.m, a.claims, a.keys = nil, nil, nil
}

// balanced tells whether everybody who is to be there is, all keys are run, and nothing is to move.
func (w *crowd) balanced() bool {
	running, alive := 0, 0
	for i, a := range w.agents {
		running += len(a.keys)
		if a.m != nil {
			alive++
		}
		if w.due[i] >= 0 {
			return false
		}
	}
	if running != w.partitions || len(w.shard.written) > 0 && w.changing() {
		return false
	}
	world := w.common.log.World()
	n := 0
	for in := range world.Instances() {
		if in.Status == lease.Alive {
			n++
		}
	}
	return n == alive && len(w.common.planner.Plan(world).Moves()) == 0
}

// changing tells whether something is on its way that is more than a heartbeat.
func (w *crowd) changing() bool {
	decode, rec := w.common.decode, lease.Record{}
	for _, v := range w.shard.written {
		if decode(v, &rec); rec.Kind != lease.KindHeartbeat && rec.Kind != lease.KindSnapshot {
			return true
		}
	}
	return false
}

// measure runs until done, and tells what it took.
func (w *crowd) measure(limit time.Duration, done func() bool) figure {
	begun, before, kinds := w.now, w.shard, w.shard.kinds
	m := w.agents[0].mind
	was := m.work
	m.work.longest = 0
	var f figure
	for {
		w.step()
		for i := range w.common.events {
			if w.common.events[i].Kind == lease.HandedOver {
				f.moves++
			}
		}
		if done() {
			break
		}
		if w.now-begun >= limit {
			f.took = -1
			break
		}
	}
	if f.took == 0 {
		f.took = w.now - begun
	}
	f.beats = w.shard.kinds[lease.KindHeartbeat] - kinds[lease.KindHeartbeat]
	f.records = w.shard.records - before.records - f.beats
	f.bytes = w.shard.bytes - before.bytes
	f.work = m.work.minus(was)
	return f
}

// pass lets time pass.
func (w *crowd) pass(d time.Duration) figure {
	until := w.now + d
	return w.measure(d+step, func() bool { return w.now >= until })
}

// flows is what a crowd went through.
type flows struct {
	cell
	cold, idle, died, back, parked, rolled figure
	wrong                                  int
	took                                   time.Duration // real CPU time of the whole crowd
}

const patience = 2 * time.Minute

// runFlows takes a group through its life: all start within a second; nothing happens; a tenth is killed, and started again;
// everybody is restarted in four waves, with a grace and without.
func runFlows(c cell, seed uint64) flows {
	begun := cpu()
	w := newCrowd(c, seed)
	f := flows{cell: c}
	for i := range w.due {
		w.due[i] = w.now + time.Duration(w.rng.Int64N(int64(time.Second)))
	}
	f.cold = w.measure(patience, w.balanced)
	w.pass(heartbeat)
	f.idle = w.pass(time.Duration(max(3, 1000/c.members)) * heartbeat)

	tenth := max(1, c.members/10)
	dead := w.rng.Perm(c.members - 1)[:tenth]
	for _, i := range dead {
		w.kill(i + 1)
	}
	f.died = w.measure(patience, w.balanced)
	for _, i := range dead {
		w.due[i+1] = w.now + time.Duration(w.rng.Int64N(int64(time.Second)))
	}
	f.back = w.measure(patience, w.balanced)
	f.parked = w.roll((c.members+3)/4, true)
	w.pass(heartbeat)
	f.rolled = w.roll((c.members+3)/4, false)
	f.wrong = w.wrong
	f.took = cpu() - begun
	return f
}

// roll restarts everybody but the first, so many at a time: the next wave goes when the one before has balance. A process is
// back a second after it has left. The time is that of the slowest wave.
func (w *crowd) roll(wave int, keep bool) figure {
	var sum figure
	for from := 1; from < w.members; from += wave {
		to := min(from+wave, w.members)
		for _, a := range w.agents[from:to] {
			a.again = true
			a.do(a.m.Leave(keep, 30*time.Second, clocks(w.now)))
		}
		sum.add(w.measure(patience, func() bool {
			for _, a := range w.agents[from:to] {
				if a.again {
					return false
				}
			}
			return w.balanced()
		}))
	}
	return sum
}

// add joins the figures of a later change of the same kind.
func (f *figure) add(o figure) {
	if f.took < 0 || o.took < 0 {
		f.took = -1
	} else {
		f.took = max(f.took, o.took)
	}
	f.records += o.records
	f.beats += o.beats
	f.bytes += o.bytes
	f.moves += o.moves
	f.work = f.work.plus(o.work)
}
