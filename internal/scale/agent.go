package main

import (
	"math/rand/v2"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
)

const (
	step      = 10 * time.Millisecond // time moves by it: what is written in one step is read in the next
	ttl       = 10 * time.Second
	heartbeat = 2 * time.Second
	commit    = time.Second // how often positions go out that move
)

var (
	coordination = lease.TopicID{1}
	topicID      = lease.TopicID{7}
)

// agent is one process with one shipped member: what floor 3 does around it, without threads.
type agent struct {
	client string
	mind   *mind
	shard  *shard
	m      *member.Member
	want   member.Wanted

	wake   time.Duration
	claims map[lease.Key]*claim
	keys   []lease.Key // that it runs, in the order of their starts
	drains []member.Action
	acks   []uint64
	left   bool // as it wished
	ended  bool // against its will
	again  bool // it is to leave and to come back
	moved  int  // places in keys from which positions move
}

// claim is one key that an agent runs.
type claim struct {
	epoch int64
	next  int64
	at    int // in keys
}

func newID(r *rand.Rand) (id lease.InstanceID) {
	for i := range id {
		id[i] = byte(r.Uint32())
	}
	return id
}

func clocks(now time.Duration) member.Now {
	return member.Now{Mono: now, Wall: now + 480_000*time.Hour, Boot: now}
}

// start makes the agent's member, as a process does once it has read the log.
func (a *agent) start(r *rand.Rand, now time.Duration) {
	a.left, a.ended, a.drains, a.acks, a.keys = false, false, nil, nil, nil
	a.claims = map[lease.Key]*claim{}
	a.m = member.New(member.Config{Instance: newID(r), Client: a.client, Host: a.client, Group: "scale", TTL: ttl, Heartbeat: heartbeat, Seed: r.Uint64()},
		&member.Shared{Log: a.mind.log, Planner: a.mind.planner}, clocks(now))
	a.do(a.m.Want(a.want, clocks(now)))
}

// turn does what the time calls for: acknowledgements and ends of drains first. events are of the batch just applied.
func (a *agent) turn(events []lease.Event, now time.Duration) {
	acks, drains := a.acks, a.drains
	a.acks, a.drains = nil, nil
	for _, seq := range acks {
		a.do(a.m.Acked(seq, clocks(now)))
	}
	if len(events) > 0 {
		a.do(a.m.Step(events, clocks(now)))
	}
	for _, d := range drains {
		if c := a.claims[d.Key]; c != nil {
			var ps []member.Position
			if d.Key.Partition != lease.WholeTopic {
				ps = []member.Position{{Key: d.Key, TopicID: topicID, Epoch: d.Epoch, Next: c.next}}
			}
			a.do(a.m.Drained(d.Key, d.Epoch, topicID, ps, clocks(now)))
		}
	}
	if a.wake <= now {
		a.do(a.m.Tick(clocks(now)))
	}
}

// move reports that n of the positions have moved, and has them written, as every commit interval does.
func (a *agent) move(n int, now time.Duration) {
	var ps []member.Position
	for range min(n, len(a.keys)) {
		a.moved = (a.moved + 1) % len(a.keys)
		k := a.keys[a.moved]
		c := a.claims[k]
		c.next += 100
		ps = append(ps, member.Position{Key: k, TopicID: topicID, Epoch: c.epoch, Next: c.next})
	}
	a.do(a.m.Positions(ps, lease.Load{InFlight: int64(n)}, clocks(now)))
	a.do(a.m.Flush(clocks(now)))
}

func (a *agent) do(out member.Output) {
	a.wake = out.Wake
	for i := range out.Appends {
		rec := &out.Appends[i].Record
		a.shard.append(rec)
		a.acks = append(a.acks, rec.Seq)
	}
	for _, act := range out.Actions {
		switch act.Kind {
		case member.Start:
			a.claims[act.Key] = &claim{act.Epoch, a.begin(act.Key), len(a.keys)}
			a.keys = append(a.keys, act.Key)
		case member.Drain:
			a.drains = append(a.drains, act)
		case member.Stop, member.Finish:
			a.drop(act.Key)
		}
	}
	a.left = a.left || out.Left
	a.ended = a.ended || out.Ended && !out.Left
}

// begin is where a key is read from.
func (a *agent) begin(k lease.Key) int64 {
	p, _ := a.mind.log.World().Progress(k.Topic, k.Partition)
	return max(p.Next, 0)
}

func (a *agent) drop(k lease.Key) {
	c, last := a.claims[k], len(a.keys)-1
	a.keys[c.at] = a.keys[last]
	a.claims[a.keys[c.at]].at = c.at
	a.keys = a.keys[:last]
	delete(a.claims, k)
}
