package marshal

import (
	"context"
	"fmt"
	"io"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/testutil"
)

// Who has what: nothing is orphaned, everybody has a share, and getting there is cheap.

func TestC59WhatADeadMemberHeldIsTakenByThoseWhoHaveTheirShare(t *testing.T) {
	for name, c := range map[string]struct {
		maximum int
		left    int // to how many keys nobody may come
	}{"no maximum": {0, 0}, "a maximum that suffices": {3, 0}, "a maximum that does not": {2, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			require.NoError(t, b.CreateTopic("t", 6, nil))
			var ms []*Marshaler
			var ks []*collector
			for _, client := range []string{"a", "b", "c"} {
				m := b.marshaler(client)
				ms = append(ms, m)
				ks = append(ks, collect(t, b.consumer(m, ConsumerOptions{MaximumClaims: c.maximum}, "t")))
			}
			share(t, 6, ms...)
			begin := time.Now()
			b.crash(ms[2])
			t.Cleanup(func() { _ = ms[2].Close(within(t, 10*time.Millisecond)) }) // who is cut off would wait for its end to be confirmed
			b.fill("t", 6, 0, 10)
			eventually(t, "all that they may hold", func() bool { return alive(ms[0]) == 2 && alive(ms[1]) == 2 && holds(ms[0])+holds(ms[1]) == 6-c.left })
			assert.Less(t, time.Since(begin), testTTL+bound)
			eventually(t, "its messages", func() bool { return ks[0].count()+ks[1].count() >= 10*(6-c.left) })
			if c.left > 0 {
				n := 0
				for _, k := range ms[0].State().Keys {
					if k.Instance == "" {
						assert.Contains(t, k.Why, "maximum")
						n++
					}
				}
				assert.Equal(t, c.left, n, "and it is said why")
			}
		})
	}

	// All of them lose the network for 3 H. Nobody could renew, so nobody is declared dead, and all goes on when it is back.
	t.Run("an outage for everybody", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 6, nil))
		var ms []*Marshaler
		var ks []*collector
		for _, client := range []string{"a", "b", "c"} {
			m := b.marshaler(client)
			ms = append(ms, m)
			ks = append(ks, collect(t, b.consumer(m, ConsumerOptions{}, "t")))
		}
		share(t, 6, ms...)
		out := b.Faults().Add(testutil.Fault{Client: "*", Do: testutil.Cut})
		for _, m := range ms {
			eventually(t, "trust that ends", func() bool { return !m.trusted() })
		}
		letPass(t, 1, 3*testTTL/2)
		b.fill("t", 6, 0, 10)
		begin := time.Now()
		out.Remove()
		eventually(t, "all messages", func() bool { return ks[0].count()+ks[1].count()+ks[2].count() >= 60 })
		assert.Less(t, time.Since(begin), 3*testTTL/2+bound)
		share(t, 6, ms...)
	})
}

// From the same world everybody computes the same plan: not within three of each other, but even, each time. Late ones get their share.
func TestC61EverybodyHasAnEvenShareHoweverTheyStart(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 20, nil))
	const rounds, atOnce = 20, 4
	var wg sync.WaitGroup
	for worker := range atOnce {
		wg.Go(func() {
			for round := worker; round < rounds; round += atOnce {
				b.even(t, fmt.Sprint("group", round))
			}
		})
	}
	wg.Wait()

	var ms []*Marshaler
	for i := range 4 { // greedy ones keep what they have: who comes later gets what is free, and it is said why
		m := b.process(fmt.Sprint("greedy", i), "greedy", testTTL)
		ms = append(ms, m)
		b.consumer(m, ConsumerOptions{GreedyClaims: true}, "t")
	}
	eventually(t, "all", func() bool { return holdsAll(ms) == 20 })
	before := ms[0].State().Keys
	late := b.process("late", "greedy", testTTL)
	b.consumer(late, ConsumerOptions{GreedyClaims: true}, "t")
	eventually(t, "it is known", func() bool { return alive(ms[0]) == 5 && late.trusted() })
	letPass(t, 1, testTTL/5*2)
	assert.Zero(t, holds(late))
	for i, k := range late.State().Keys {
		assert.Equal(t, before[i].Epoch, k.Epoch)
	}
	ms[1].Terminate()
	eventually(t, "all again", func() bool { return holdsAll(ms[:1])+holdsAll(ms[2:])+holds(late) == 20 })
}

func holdsAll(ms []*Marshaler) (n int) {
	for _, m := range ms {
		n += holds(m)
	}
	return n
}

// even starts four members at once, and a fifth later.
func (b *bench) even(t *testing.T, group string) {
	ms := make([]*Marshaler, 5)
	start := func(i int) {
		var err error
		if ms[i], err = b.dial(fmt.Sprint("m", i), group, testTTL); assert.NoError(t, err) {
			_, err = ms[i].NewConsumer([]string{"t"}, ConsumerOptions{})
			assert.NoError(t, err)
		}
	}
	evenly := func(ms []*Marshaler) bool {
		for _, m := range ms {
			if holds(m) != 20/len(ms) {
				return false
			}
		}
		return true
	}
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	wait := func(of []*Marshaler) {
		for begin := time.Now(); !evenly(of); <-again.C {
			if time.Since(begin) > patience {
				assert.Fail(t, "no even share", "%s: %d members", group, len(of))
				return
			}
		}
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { start(i) })
	}
	wg.Wait()
	wait(ms[:4])
	start(4)
	wait(ms)
	for _, m := range ms {
		wg.Go(m.Terminate)
	}
	wg.Wait()
}

// Thirty who begin at once: each key is claimed once or moved a few times until all have their share, and then there is peace.
func TestC63ManyWhoStartTogetherAgreeAtOnceAndAreQuietThen(t *testing.T) {
	const members, partitions = 30, 16
	rounds := 20
	if testing.Short() {
		rounds = 2
	}
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", partitions, nil))
	var clusters []*KafkaCluster // three processes
	for i := range 3 {
		quiet := logrus.New()
		quiet.SetOutput(io.Discard)
		c, err := Dial(fmt.Sprint("p", i), b.Addrs(), WithLease(testTTL, 0), WithLogger(quiet))
		require.NoError(t, err)
		t.Cleanup(c.Terminate)
		clusters = append(clusters, c)
	}
	looker := b.looker()
	var slowest time.Duration
	most := 0
	for round := range rounds {
		group := fmt.Sprint("storm", round)
		ms := make([]*Marshaler, members)
		var wg sync.WaitGroup
		begin := make(chan struct{})
		for i := range ms {
			wg.Go(func() {
				<-begin
				var err error
				if ms[i], err = clusters[i%3].NewMarshaler(fmt.Sprint("m", i), group); assert.NoError(t, err) {
					_, err = ms[i].NewConsumer([]string{"t"}, ConsumerOptions{})
					assert.NoError(t, err)
				}
			})
		}
		began := time.Now()
		close(begin)
		wg.Wait()
		shared := func() bool { // two have none of it only where there is none left
			n, top := 0, 0
			for _, m := range ms {
				h := holds(m)
				n, top = n+h, max(top, h)
			}
			return n == partitions && top == 1
		}
		eventually(t, "a share for each", shared)
		slowest = max(slowest, time.Since(began))
		lives := map[string]bool{}
		for _, i := range ms[0].State().Instances {
			lives[i.Instance] = true
		}
		assert.Len(t, lives, members, "nobody has begun anew")
		claims := map[int32]int{} // of each key
		for _, r := range b.log(looker, group) {
			for _, c := range r.Changes {
				if c.Kind == "granted" || c.Kind == "handed_over" {
					claims[c.Partition]++
				}
			}
		}
		for _, n := range claims {
			most = max(most, n)
		}
		before := ms[0].State().Keys
		if round == 0 {
			letPass(t, 1, testTTL/5*4)
			for i, k := range ms[0].State().Keys {
				assert.Equal(t, before[i].Epoch, k.Epoch, "it is quiet")
			}
		}
		for _, m := range ms {
			wg.Go(m.Terminate)
		}
		wg.Wait()
	}
	t.Logf("%d rounds: the slowest took %v, at most %d claims and hand-overs of one key", rounds, slowest, most)
	assert.LessOrEqual(t, most, 10)
	assert.Less(t, slowest, 3*testTTL/2+bound)
}

// A process that loses its keys and has them again holds no permit of before: what was in hand comes again, one at a time.
func TestC73StrictOrderingGoesOnAfterALossHoweverOften(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	const ttl, rounds = 300 * time.Millisecond, 20
	require.NoError(t, b.CreateTopic("t", 3, nil))
	require.NoError(t, b.CreateTopic("u", 1, nil))
	b.fill("t", 3, 0, rounds+2)
	m := b.marshaler("a", WithLease(ttl, 0))
	c := b.consumer(m, ConsumerOptions{StrictOrdering: true, CommitInterval: 10 * time.Millisecond}, "t")
	q := b.marshaler("b", WithLease(ttl, 0)) // who declares it dead, and wants nothing of what it has
	b.consumer(q, ConsumerOptions{}, "u")
	ctx := within(t, 4*patience)
	take := func() map[int32]*Message { // the one of each partition
		got := map[int32]*Message{}
		for len(got) < 3 {
			msg, err := c.FetchMessage(ctx)
			require.NoError(t, err)
			if old := got[msg.Partition]; old != nil { // a claim that was lost on a busy machine: then it comes again
				require.ErrorIs(t, old.Commit(), ErrClaimLost, "never two of one partition")
			}
			got[msg.Partition] = msg
		}
		return got
	}
	for round := range int64(rounds) {
		held := take()
		lost := listen(t, c)
		out := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.Cut})
		eventually(t, "the loss of all", func() bool { return alive(q) == 1 })
		out.Remove()
		eventually(t, "it hears of it", func() bool { return len(lost.of(ClaimLost)) >= 3 })
		again := take()
		for p, msg := range held {
			assert.ErrorIs(t, msg.Commit(), ErrClaimLost, "round %d", round)
			assert.Equal(t, msg.Offset, again[p].Offset, "round %d: it comes again", round)
			assert.Greater(t, again[p].Token(), msg.Token())
		}
		soon, cancel := context.WithTimeout(ctx, 5*time.Millisecond)
		_, err := c.FetchMessage(soon)
		cancel()
		assert.Error(t, err, "round %d: one of each", round)
		for _, msg := range again {
			if err := msg.Commit(); err != nil {
				require.ErrorIs(t, err, ErrClaimLost) // on a busy machine; the next round goes on there
			}
		}
		require.NoError(t, c.Flush(ctx), "or what was finished comes again after the next loss")
	}
	for p, msg := range take() { // behind what the log has of the last round
		assert.Positive(t, msg.Offset, "partition %d goes on", p)
	}
}

// There is no coordinator to ask for who has what: a member joins and claims without. Only Kafka's own offsets are at one: a group that
// has a position in the log goes on without it, and one that has none waits, rather than begin where it should not, and says so; where
// the offsets decide even what is to be counted as new (StartLatest), NewConsumer gives an error in time.
func TestC71ACoordinatorThatIsNotThereStopsNobodyWhoHasAPosition(t *testing.T) {
	for name, fault := range map[string]*kerr.Error{
		"not available": kerr.CoordinatorNotAvailable, "unknown": kerr.UnknownServerError,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "t")
			const ttl = 600 * time.Millisecond
			b.fill("t", 4, 0, 10)
			log, seen := logged(t)
			m := b.marshaler("a", WithLease(ttl, 0), WithLogger(log))
			c := b.consumer(m, ConsumerOptions{CommitInterval: 10 * time.Millisecond}, "t")
			k := collect(t, c)
			eventually(t, "all messages, and offsets in Kafka", func() bool { return k.count() == 40 && b.committed("t", 4) == 40 })
			keys := []kmsg.Key{kmsg.FindCoordinator, kmsg.OffsetCommit, kmsg.OffsetFetch} // whoever was known is asked in vain too
			h := b.Kfake().Fault(
				kfake.Fault{Keys: keys[:1], Err: fault, Count: -1}, kfake.Fault{Keys: keys[1:], Group: testGroup, Err: kerr.NotCoordinator, Count: -1})
			defer h.Remove()

			began := time.Now()
			late := b.marshaler("b", WithLease(ttl, 0))
			assert.Less(t, time.Since(began), bound, "joining needs no coordinator")
			collect(t, b.consumer(late, ConsumerOptions{}, "t"))
			share(t, 4, m, late)
			fresh, err := NewMarshaler("c", "fresh", b.Addrs(), WithLease(ttl, 0), WithLogger(log))
			require.NoError(t, err)
			t.Cleanup(fresh.Terminate)
			first := b.consumer(fresh, ConsumerOptions{}, "t")
			f := collect(t, first)
			newest, err := NewMarshaler("d", "newest", b.Addrs(), WithLease(ttl, 0), WithLogger(log))
			require.NoError(t, err)
			t.Cleanup(newest.Terminate)
			var wg sync.WaitGroup
			wg.Go(func() {
				began := time.Now()
				_, err := newest.NewConsumer([]string{"t"}, ConsumerOptions{StartOffset: StartLatest})
				assert.ErrorContains(t, err, "find coordinator")
				assert.Less(t, time.Since(began), callLimit+bound)
			})
			eventually(t, "claims without it", func() bool { return holds(fresh) == 4 })

			before := seen.times("warning", "")
			beats := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.DelayAnswers, Delay: time.Nanosecond})
			require.NoError(t, beats.Wait(within(t, 2*patience), 50), "20 H")
			b.fill("t", 4, 10, 5)
			eventually(t, "it reads on", func() bool { return keyOf(m, "t", 0).Next == 15 && keyOf(m, "t", 3).Next == 15 }) // durable in the log
			eventually(t, "it is told", func() bool { return seen.has("warning", "offsets") })
			most := 2 * int(time.Since(began)/(10*time.Second)+1) // of each of two things in two groups, one each 10 s
			assert.LessOrEqual(t, seen.times("warning", "")-before, most, "and seldom")
			wg.Wait()
			eventually(t, "who has no position waits, and says for what", func() bool { return seen.has("warning", "cannot begin all partitions yet: committed offsets") })
			assert.NotEmpty(t, keyOf(fresh, "t", 0).Pending)
			assert.Zero(t, f.count())
			h.Remove()
			eventually(t, "committed again", func() bool { return b.committed("t", 4) == 60 })
			eventually(t, "the fresh group begins", func() bool { return len(first.begun()) == 4 })
			b.fill("t", 4, 15, 1)
			eventually(t, "its messages", func() bool { return f.count() == 16*4 })
		})
	}
}
