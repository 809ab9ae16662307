package marshal

import (
	"context"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// happening has something happen again and again, until what it gives is called.
func happening(s *stage) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		each := time.NewTicker(2 * time.Millisecond)
		defer each.Stop()
		for {
			select {
			case <-each.C:
				s.m.hear(Event{Time: time.Now(), Kind: PartitionPaused, Client: s.m.clientID, Topic: "read"})
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); wg.Wait() }
}

// Whoever is told of something, or is handed something, may call what he likes before he asks for the next.
func TestEveryMethodMayBeCalledFromWithinALoop(t *testing.T) {
	for where, loop := range map[string]func(s *stage, do func()){
		"Events of a Marshaler": func(s *stage, do func()) {
			defer happening(s)()
			for range s.m.Events(context.Background()) {
				do()
				return
			}
		},
		"Events of a Consumer": func(s *stage, do func()) {
			defer happening(s)()
			for range s.c.Events(context.Background()) {
				do()
				return
			}
		},
		"Messages": func(s *stage, do func()) {
			for range s.c.Messages(context.Background()) {
				do()
				return
			}
		},
		"Batches": func(s *stage, do func()) {
			for range s.c.Batches(context.Background()) {
				do()
				return
			}
		},
		"ConsumeChannel": func(s *stage, do func()) {
			for range s.c.ConsumeChannel() {
				do()
				return
			}
		},
		"Messages of a Claim": func(s *stage, do func()) {
			for range s.claim.Messages(context.Background()) {
				do()
				return
			}
		},
	} {
		t.Run(where, func(t *testing.T) {
			t.Parallel()
			b, _ := newStages(t)
			s := readingStage(t, b, "within")
			for name, m := range methods {
				if m.alone || name == "Consumer.Claims" { // which takes away what the loop reads
					continue
				}
				b.fill("read", 1, 0, 5)
				b.fill("held", 1, 0, 5)
				called := false
				answer(t, where, patience, func() any {
					loop(s, func() {
						ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
						defer cancel()
						called = true
						answer(t, name+" within "+where, m.limit, func() any { return m.call(s, ctx) })
					})
					return nil
				})
				require.True(t, called, "%s within %s", name, where)
			}
			b.fill("read", 1, 0, 5)
			b.fill("held", 1, 0, 5)
			answer(t, where, callLimit, func() any {
				loop(s, func() { s.m.Terminate() })
				return nil
			})
			assert.True(t, s.m.Terminated(), "even the end")
		})
	}
}

// There is no partition below 0, and none as high as can be; nobody panics, hangs or makes something of it.
func TestPartitionsThatCannotBe(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	eventually(t, "claims", func() bool { return len(c.begun()) == 4 })
	before := m.State()
	for _, p := range []int32{-1, -2, math.MinInt32, 4, math.MaxInt32} {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		_, err := m.Claim(ctx, "t", p)
		assert.Error(t, err, "Claim of %d", p)
		assert.False(t, m.ClaimPartition("t", int(p)), "ClaimPartition of %d", p)
		assert.Error(t, m.Heartbeat("t", int(p), 1), "Heartbeat of %d", p)
		assert.Error(t, m.ReleasePartition("t", int(p), 1), "ReleasePartition of %d", p)
		assert.Error(t, m.CommitOffsets("t", int(p), 1), "CommitOffsets of %d", p)
		assert.Error(t, c.Seek(ctx, "t", p, 1), "Seek of %d", p)
		assert.Error(t, m.Seek(ctx, "t", p, 1), "Seek of %d", p)
		assert.False(t, m.IsClaimed("t", int(p)))
		assert.Equal(t, PartitionClaim{}, m.GetPartitionClaim("t", int(p)))
		assert.Equal(t, PartitionClaim{}, m.GetLastPartitionClaim("t", int(p)))
		_, err = m.GetPartitionOffsets("t", int(p))
		assert.Error(t, err, "GetPartitionOffsets of %d", p)
		_, held := c.Position("t", p)
		assert.False(t, held)
		c.Pause("t", p)
		c.Resume("t", p)
		cancel()
	}
	after := m.State()
	require.Len(t, after.Keys, len(before.Keys))
	b.fill("t", 4, 0, 3)
	k := collect(t, c)
	eventually(t, "all is as before", func() bool { return k.count() == 12 })
}
