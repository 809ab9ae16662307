package lease

import (
	"fmt"
	"runtime"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shape is a settled group: every key held, with progress and the id of its topic.
type shape struct{ keys, topics, owners int }

func (s shape) String() string {
	return fmt.Sprintf("keys=%d/topics=%d/owners=%d", s.keys, s.topics, s.owners)
}

// build plays the records that make such a group: everybody joins with an interest in every topic, and claims its share
// of consecutive keys; then everybody's heartbeat tells the positions.
func (s shape) build() *World {
	w := s.members([]Interest{s.interest()})
	for i := range s.owners {
		from, to := s.keys*i/s.owners, s.keys*(i+1)/s.owners
		epoch := w.Last() + 1
		claim := Record{Kind: KindClaim, Instance: numbered(i), Seq: 2, Offset: epoch}
		beat := Record{Kind: KindHeartbeat, Instance: numbered(i), Seq: 3, Offset: epoch + 1}
		for k := from; k < to; k++ {
			name, p := s.topic(k/s.each()), int32(k%s.each())
			claim.Claim.Keys = append(claim.Claim.Keys, Key{name, p})
			topics := &beat.Heartbeat.Topics
			if n := len(*topics); n == 0 || (*topics)[n-1].Topic != name {
				*topics = append(*topics, TopicProgress{Topic: name, TopicID: TopicID{7, byte(k / s.each()), byte(k / s.each() >> 8)}})
			}
			t := &(*topics)[len(*topics)-1]
			t.Partitions, t.Epochs, t.Next = append(t.Partitions, p), append(t.Epochs, epoch), append(t.Next, int64(k)*1000)
		}
		w.Apply(&claim, nil)
		w.Apply(&beat, nil)
	}
	return w
}

// members makes a world in which everybody is there and holds nothing.
func (s shape) members(interests []Interest) *World {
	w := NewWorld(TopicID{})
	for i := range s.owners {
		w.Apply(&Record{Kind: KindJoin, Instance: numbered(i), Seq: 1, Offset: w.Last() + 1, Join: Join{
			Client: fmt.Sprintf("worker-%05d", i), Host: "host", TTL: MaxTTL, MaxVersion: WireVersion, Interests: interests,
		}}, nil)
	}
	return w
}

func (s shape) each() int { return s.keys / s.topics }

// topic gives a name of the length that names have.
func (s shape) topic(i int) string { return fmt.Sprintf("orders.eu-west.%05d", i) }

func (s shape) interest() (in Interest) {
	for i := range s.topics {
		in.Topics = append(in.Topics, TopicInterest{s.topic(i), int32(s.each())})
	}
	return in
}

// heap is how much more of the heap is in use after make has made something.
func heap(make func() *World) (*World, int) {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&before)
	w := make()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	return w, int(after.HeapAlloc) - int(before.HeapAlloc)
}

// sizes measures what a member of a group of this shape takes of the heap, and what a key takes: all of the rest, with
// what everybody wants and what a walk over the leases keeps.
func (s shape) sizes(t testing.TB) (member, key float64) {
	members, base := heap(func() *World { return s.members(nil) })
	held := 0
	w, size := heap(func() *World {
		w := s.build()
		for range w.Leases() {
			held++
		}
		return w
	})
	require.Equal(t, s.keys, held)
	runtime.KeepAlive(members)
	runtime.KeepAlive(w)
	return float64(base) / float64(s.owners), float64(size-base) / float64(s.keys)
}

// A key takes less than 250 bytes of the heap, be the topics large or of one partition, and the owners few or many. What a
// member takes is told apart: there may be as many of them as there are keys.
func TestAKeyTakesLessThan250Bytes(t *testing.T) {
	for _, s := range []shape{
		{10_000, 1, 10}, {10_000, 100, 10}, {10_000, 10_000, 10},
		{10_000, 100, 10_000},
		{100_000, 1, 10}, {100_000, 100, 10}, {100_000, 10_000, 10},
		{100_000, 1, 1_000}, {100_000, 100, 1_000},
	} {
		member, key := s.sizes(t)
		t.Logf("%v: %.1f bytes/key, %.0f bytes/member", s, key, member)
		assert.Less(t, key, 250.0, "%v", s)
		if s.owners >= 1_000 { // of a few the runtime's own allocations are a part
			assert.Less(t, member, 1_000.0, "%v", s)
		}
	}
}
