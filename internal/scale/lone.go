package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// lone is one process, with a log, a planner and a member of its own, in a group whose other members are written by hand:
// each says what a settled member says. So a group can be larger than what a machine holds of members.
type lone struct {
	cell
	rng   *rand.Rand
	now   time.Duration
	shard shard
	all   [][]byte // the log
	crowd *mind    // what the others know
	ids   []lease.InstanceID
	seqs  []uint64
	beats []time.Duration // when each is next to heartbeat
	place []int           // of each, in its keys: from where positions move
	next  int64
	one   *agent
}

// parts is what each part of the work of one process takes for a record.
type parts struct{ decode, apply, step time.Duration }

// steady is a group in which nothing changes but positions.
type steady struct {
	records, bytes float64 // a second
	each           parts
	share          float64 // of one core, that one process uses
}

// reaction is what one process needs for one record that changes who should hold what.
type reaction struct{ apply, plan, step time.Duration }

func (r reaction) total() time.Duration { return r.apply + r.plan + r.step }

// alone is what was measured of a lone process.
type alone struct {
	cell
	newcomer             time.Duration // to decode and apply the group's whole history
	catching             parts         // a record with three positions, for who has many of them to read
	world, plan, member  int64         // bytes in use
	snapshot             int64         // bytes
	check                time.Duration // to hold a snapshot against the own world
	idle, moving         steady
	died, joined, handed reaction
	refused              bool // the group is larger than a world may be
}

func newLone(c cell, seed uint64) *lone {
	l := &lone{cell: c, rng: rand.New(rand.NewPCG(seed, uint64(c.members)<<32|uint64(c.partitions))), now: time.Hour, crowd: newMind(),
		ids: make([]lease.InstanceID, c.members), seqs: make([]uint64, c.members),
		beats: make([]time.Duration, c.members), place: make([]int, c.members)}
	l.one = &agent{client: "worker-00000", shard: &l.shard}
	l.one.want.Interests = c.interests()
	return l
}

// keys is how many one member has: they are dealt out in turn, so that everybody has its share of each topic.
func (l *lone) keys(i int) int { return (l.partitions - i + l.members - 1) / l.members }

// key is one of them.
func (l *lone) key(i, n int) lease.Key {
	per, at := l.partitions/l.topics, i+n*l.members
	return lease.Key{Topic: topicName(at / per), Partition: int32(at % per)}
}

// write has one of the others write a record.
func (l *lone) write(i int, rec lease.Record) {
	if rec.Kind != lease.KindSnapshot {
		l.seqs[i]++
		rec.Instance, rec.Seq, rec.Version = l.ids[i], l.seqs[i], lease.WireVersion
	}
	l.shard.append(&rec)
}

// deliver has everybody read what was written. Before the one has begun it is kept for it.
func (l *lone) deliver() {
	values, first := l.shard.take()
	l.crowd.read(values, first, nil)
	if l.one.m == nil {
		l.all = append(l.all, values...)
		return
	}
	l.one.mind.read(values, first, func(events []lease.Event) { l.one.turn(events, l.now) })
	for _, rec := range l.one.mind.log.TakeSnapshot() {
		l.shard.append(&rec)
	}
}

func (l *lone) join(i int) {
	l.ids[i], l.seqs[i] = newID(l.rng), 0
	client := fmt.Sprintf("worker-%05d", i)
	l.write(i, lease.Record{Kind: lease.KindJoin, Join: lease.Join{Client: client, Host: client, TTL: ttl, TopicID: coordination,
		MaxVersion: lease.WireVersion, TokenBase: 1 << 40, Interests: l.interests()}})
}

func (l *lone) claim(i int) {
	var c lease.Claim
	for n := range l.keys(i) {
		c.Keys = append(c.Keys, l.key(i, n))
	}
	for part := range slices.Chunk(c.Keys, 10_000) {
		l.write(i, lease.Record{Kind: lease.KindClaim, Claim: lease.Claim{Keys: part}})
	}
}

// beat has one heartbeat with the positions of n of its keys, the next ones in turn.
func (l *lone) beat(i, n int, announces bool) {
	h := lease.Heartbeat{Load: lease.Load{InFlight: int64(n)}, Announces: announces}
	h.P, h.Hash = l.crowd.log.Position()
	own := l.keys(i)
	var chosen []int
	for range min(n, own) {
		l.place[i] = (l.place[i] + 1) % own
		chosen = append(chosen, l.place[i])
	}
	slices.Sort(chosen)
	l.next += 100
	for _, c := range chosen {
		k := l.key(i, c)
		if n := len(h.Topics); n == 0 || h.Topics[n-1].Topic != k.Topic {
			h.Topics = append(h.Topics, lease.TopicProgress{Topic: k.Topic, TopicID: topicID})
		}
		t := &h.Topics[len(h.Topics)-1]
		held, _ := l.crowd.log.World().Lease(k)
		t.Partitions, t.Epochs, t.Next = append(t.Partitions, k.Partition), append(t.Epochs, held.Epoch), append(t.Next, l.next)
	}
	l.write(i, lease.Record{Kind: lease.KindHeartbeat, Heartbeat: h})
}

// build writes the history of the group up to the moment at which the one joins: everybody has joined, has claimed its
// share, and has positions.
func (l *lone) build() {
	for i := 1; i < l.members; i++ {
		l.join(i)
		l.claim(i)
		l.deliver()
		for left := l.keys(i); left > 0; left -= 10_000 {
			l.beat(i, min(10_000, left), false)
			l.deliver()
		}
		l.beat(i, 0, false)
		l.deliver()
		l.beats[i] = l.now + time.Duration(l.rng.Int64N(int64(heartbeat)))
	}
}

// step lets one step of time pass; every so often each heartbeats, with n positions.
func (l *lone) step(every time.Duration, n int) {
	l.now += step
	for i := 1; i < l.members; i++ {
		if l.beats[i] <= l.now {
			l.beats[i] = l.now + every*time.Duration(900+l.rng.IntN(201))/1000
			l.beat(i, n, false)
		}
	}
	if n > 0 && l.beats[0] <= l.now {
		l.beats[0] = l.now + every
		l.one.move(n, l.now)
	}
	l.deliver()
}

// steady lets time pass and tells what it cost.
func (l *lone) steady(d, every time.Duration, n int) steady {
	for range 2 * heartbeat / step { // until everybody has the new pace
		l.step(every, n)
	}
	m := l.one.mind
	work, shard := m.work, l.shard
	for range d / step {
		l.step(every, n)
	}
	w := m.work.minus(work)
	count := time.Duration(max(1, w.records))
	return steady{
		records: float64(l.shard.records-shard.records) / d.Seconds(),
		bytes:   float64(l.shard.bytes-shard.bytes) / d.Seconds(),
		each:    parts{w.decode / count, w.apply / count, w.step / count},
		share:   w.total().Seconds() / d.Seconds(),
	}
}

// react has everybody read what was written, and tells what that cost the one.
func (l *lone) react() reaction {
	l.now += step
	m := l.one.mind
	before := m.work
	l.deliver()
	w := m.work.minus(before)
	return reaction{w.decode + w.apply, w.plan, w.step}
}

// runLone measures one process.
func runLone(c cell, seed uint64, quick bool) alone {
	l := newLone(c, seed)
	a := alone{cell: c}
	l.build()

	zero := heap()
	m := newMind()
	l.one.mind = m
	for from := 0; from < len(l.all); from += 64 {
		m.read(l.all[from:min(from+64, len(l.all))], int64(from), nil)
	}
	a.newcomer = m.work.decode + m.work.apply
	m.recs, m.events = nil, nil // a real process reads into one record
	world := heap()
	m.planner.Plan(m.log.World())
	plan := heap()
	l.one.start(l.rng, l.now)
	for range 2 * heartbeat / step {
		l.step(heartbeat, 0)
	}
	a.refused = len(l.one.keys) != l.keys(0)
	a.world, a.plan, a.member = world-zero, plan-world, heap()-plan
	if a.refused {
		return a
	}
	d := min(max(time.Duration(8000/c.members)*time.Second, 4*time.Second), 100*time.Second)
	if quick {
		d /= 4
	}
	a.idle = l.steady(d, heartbeat, 0)
	a.moving = l.steady(d/2, commit, 3)
	a.catching = l.catchUp()
	l.snapshot(&a)
	l.changes(&a)
	return a
}

// catchUp lets the process read batches of many heartbeats with three positions, and tells what one costs. A machine that does
// other things makes some batches dearer, never cheaper: the first quartile counts.
func (l *lone) catchUp() parts {
	const batches, size = 41, 200
	m := l.one.mind
	var decode, apply []time.Duration
	for n := range batches {
		for i := range size {
			l.beat(1+(n*size+i)%(l.members-1), 3, false)
		}
		before := m.work
		l.now += step
		l.deliver()
		w := m.work.minus(before)
		decode = append(decode, w.decode/size)
		apply = append(apply, w.apply/size)
	}
	slices.Sort(decode)
	slices.Sort(apply)
	return parts{decode: decode[batches/4], apply: apply[batches/4]}
}

// snapshot has another member announce a snapshot and write it.
func (l *lone) snapshot(a *alone) {
	l.crowd.log.Own(l.ids[1])
	l.beat(1, 0, true)
	l.deliver()
	for _, rec := range l.crowd.log.TakeSnapshot() {
		a.snapshot += int64(len(l.shard.append(&rec)))
	}
	a.check = l.react().apply
}

// changes has a member die, come back, and hand a key to another, some times over, and tells what each costs one process
// in the middle.
func (l *lone) changes(a *alone) {
	const times = 7
	var died, joined, handed []reaction
	for n := range times {
		i, j := 1+n%(l.members-1), 1+(n+1)%(l.members-1)
		l.write(i, lease.Record{Kind: lease.KindLeave})
		died = append(died, l.react())
		l.join(i)
		joined = append(joined, l.react())
		l.claim(i)
		l.react()
		k := l.key(j, 0)
		if held, ok := l.crowd.log.World().Lease(k); ok && held.Instance == l.ids[j] {
			l.write(j, lease.Record{Kind: lease.KindRelease, Release: lease.Release{Successor: l.ids[i],
				Keys: []lease.ReleasedKey{{Key: k, Epoch: held.Epoch}}}})
			handed = append(handed, l.react())
		}
	}
	a.died, a.joined, a.handed = middle(died), middle(joined), middle(handed)
}

// middle is the one with the median of all work.
func middle(rs []reaction) reaction {
	if len(rs) == 0 {
		return reaction{}
	}
	slices.SortFunc(rs, func(a, b reaction) int { return int(a.total() - b.total()) })
	return rs[len(rs)/2]
}
