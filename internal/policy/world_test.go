package policy

import (
	"crypto/sha256"
	"fmt"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// group is a world and the log that makes it.
type group struct {
	*lease.World
	at  int64
	seq map[string]uint64
}

func newGroup() *group {
	return &group{World: lease.NewWorld(lease.TopicID{}), seq: make(map[string]uint64)}
}

// id makes the id of a named instance.
func id(name string) (i lease.InstanceID) {
	sum := sha256.Sum256([]byte(name))
	copy(i[:], sum[:])
	return i
}

func (g *group) apply(name string, rec lease.Record) []lease.Event {
	g.seq[name]++
	rec.Offset, rec.Version, rec.Instance, rec.Seq = g.at, lease.WireVersion, id(name), g.seq[name]
	g.at++
	return g.Apply(&rec, nil)
}

// join makes an instance, or changes what it wants.
func (g *group) join(name, client string, interests ...lease.Interest) {
	g.joinPinned(name, client, nil, interests...)
}

func (g *group) joinPinned(name, client string, pinned []lease.Key, interests ...lease.Interest) {
	g.apply(name, lease.Record{Kind: lease.KindJoin, Join: lease.Join{
		Client: client, TTL: 10 * time.Second, MaxVersion: lease.WireVersion, Interests: interests, Pinned: pinned,
	}})
}

func (g *group) beat(name string) { g.apply(name, lease.Record{Kind: lease.KindHeartbeat}) }

func (g *group) claim(name string, keys ...lease.Key) {
	g.apply(name, lease.Record{Kind: lease.KindClaim, Claim: lease.Claim{Keys: keys}})
}

func (g *group) release(name string, to lease.InstanceID, unfit bool, k lease.Key) {
	l, _ := g.Lease(k)
	g.apply(name, lease.Record{Kind: lease.KindRelease, Release: lease.Release{
		Keys: []lease.ReleasedKey{{Key: k, Epoch: l.Epoch}}, Successor: to, Unfit: unfit,
	}})
}

func (g *group) leave(name string, keep bool) {
	g.apply(name, lease.Record{Kind: lease.KindLeave, Leave: lease.Leave{Keep: keep, Grace: time.Minute}})
}

// carryOut makes a move.
func (g *group) carryOut(m Move) {
	for name := range g.seq {
		if id(name) == m.From {
			g.release(name, m.To, false, m.Key)
			return
		}
	}
	panic("a move of an unknown instance")
}

// settle claims what is free and makes the moves until nothing is left to do. It gives the number of moves.
func (g *group) settle(names []string) (moves int) {
	for range 10_000 {
		p := Compute(g.World)
		if g.claimTurns(p, names) {
			continue
		}
		if len(p.Moves()) == 0 {
			return moves
		}
		g.carryOut(p.Moves()[0])
		moves++
	}
	panic("no end of moves")
}

// claimTurns lets everybody claim what it is the first for.
func (g *group) claimTurns(p *Plan, names []string) (any bool) {
	for _, n := range names {
		if keys := p.Planned(id(n)); len(keys) > 0 {
			g.claim(n, keys...)
			any = true
		}
	}
	return any
}

func (g *group) counts(names []string) []int {
	counts := make([]int, len(names))
	for i, n := range names {
		counts[i] = g.HeldCount(id(n))
	}
	return counts
}

func topics(partitions int32, names ...string) lease.Interest {
	var in lease.Interest
	for _, n := range names {
		in.Topics = append(in.Topics, lease.TopicInterest{Topic: n, Partitions: partitions})
	}
	return in
}

func names(n int) []string {
	names := make([]string, n)
	for i := range names {
		names[i] = fmt.Sprintf("m%d", i)
	}
	return names
}

func key(topic string, partition int32) lease.Key {
	return lease.Key{Topic: topic, Partition: partition}
}
