package policy

import (
	"fmt"
	"testing"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// shape is a group of some size: so many members that want the same topics, of so many partitions each.
type shape struct {
	members    int
	topics     int32
	partitions int32
	whole      bool
	most       int32 // of every member
}

func (s shape) String() string {
	if s.most > 0 {
		return fmt.Sprintf("%dby%dx%dmax%d", s.members, s.topics, s.partitions, s.most)
	}
	if s.whole {
		return fmt.Sprintf("%dby%dwhole", s.members, s.topics)
	}
	return fmt.Sprintf("%dby%dx%d", s.members, s.topics, s.partitions)
}

func (s shape) interest() lease.Interest {
	in := lease.Interest{Whole: s.whole, Max: s.most}
	for i := range s.topics {
		in.Topics = append(in.Topics, lease.TopicInterest{Topic: fmt.Sprintf("topic-%05d", i), Partitions: s.partitions})
	}
	return in
}

// cold makes the group before anybody has claimed anything.
func (s shape) cold() *group {
	g, in := newGroup(), s.interest()
	for _, n := range names(s.members) {
		g.join(n, n, in)
	}
	return g
}

// claimAll lets everybody claim what the plan names it for.
func (g *group) claimAll(members int) {
	name := map[lease.InstanceID]string{}
	for _, n := range names(members) {
		name[id(n)] = n
	}
	p := Compute(g.World)
	keys := map[int32][]lease.Key{}
	for _, f := range p.free {
		if f.to >= 0 {
			keys[f.to] = append(keys[f.to], f.key)
		}
	}
	for m := range p.members {
		if len(keys[int32(m)]) > 0 {
			g.claim(name[p.members[m].id], keys[int32(m)]...)
		}
	}
}

// BenchmarkPlan plans groups of many sizes and shapes after one change: settled, one has joined, one has died, one key was
// handed to another, one of ten is parked or about to have its keys again, and nobody has anything yet.
func BenchmarkPlan(b *testing.B) {
	for _, s := range []shape{
		{members: 10, topics: 10, partitions: 100}, {members: 50, topics: 100, partitions: 100},
		{members: 1000, topics: 1, partitions: 10_000}, {members: 1000, topics: 100, partitions: 100},
		{members: 1000, topics: 1000, partitions: 10}, {members: 1000, topics: 10_000, partitions: 1},
		{members: 1000, topics: 10_000, partitions: 1, whole: true},
		{members: 10_000, topics: 1, partitions: 100_000}, {members: 10_000, topics: 100, partitions: 1000},
		{members: 10_000, topics: 1, partitions: 1_000_000},
		{members: 100, topics: 100, partitions: 100, most: 99}, {members: 1000, topics: 100, partitions: 100, most: 9},
	} {
		b.Run(s.String(), func(b *testing.B) {
			g := s.cold()
			measure := func(b *testing.B, what string) {
				b.Run(what, func(b *testing.B) {
					var p Planner
					p.Plan(g.World)
					b.ReportAllocs()
					best := time.Hour
					for b.Loop() {
						p.version++ // as if it were another world
						start := time.Now()
						p.Plan(g.World)
						best = min(best, time.Since(start))
					}
					b.ReportMetric(float64(best), "best-ns/op") // of a machine that has other things to do
					b.ReportMetric(float64(len(p.plan.Moves())), "moves")
				})
			}
			measure(b, "cold")
			for range 3 {
				g.claimAll(s.members)
			}
			measure(b, "settled")
			b.Run("newcomer", func(b *testing.B) {
				best := time.Hour
				b.ReportAllocs()
				for b.Loop() {
					start := time.Now()
					Compute(g.World)
					best = min(best, time.Since(start))
				}
				b.ReportMetric(float64(best), "best-ns/op")
			})
			b.Run("reading", func(b *testing.B) {
				n, best := 0, time.Hour
				for b.Loop() {
					start := time.Now()
					for range g.Leases() {
						n++
					}
					best = min(best, time.Since(start))
				}
				b.ReportMetric(float64(best), "best-ns/op")
			})
			for k := range g.HeldBy(id("m1")) {
				g.release("m1", id("m2"), false, k)
				break
			}
			measure(b, "moved")
			g.claimAll(s.members)
			g.leave("m3", false)
			measure(b, "died")
			g.claimAll(s.members)
			g.join("new", "new", s.interest())
			measure(b, "joined")
			for i := 0; i < s.members; i += 10 {
				n := fmt.Sprintf("m%d", i)
				g.leave(n, true)
				if i%20 == 0 {
					g.join(n+"b", n, s.interest())
				}
			}
			measure(b, "rolling")
		})
	}
}
