package marshal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// The benchmarks of this file give the figures of a group at work on the embedded broker: all members are in this process and
// share its processors with the broker. An op is a whole series; -short takes a few samples only.

// BenchmarkHandover measures planned hand-overs of one partition: from the last message at the old owner to the first at the
// new one. One of two partitions goes to a member that joins, and comes back when it leaves, again and again. The control is the
// time between two messages of one partition without any hand-over.
func BenchmarkHandover(b *testing.B) {
	const ttl = 3 * time.Second // the newcomer waits less for membership to be still; the rest is as with 10 s
	var joins, leaves, control []time.Duration
	for range b.N {
		k := newBench(b)
		require.NoError(b, k.CreateTopic("t", 2, nil))
		tr := newTrace(b)
		tr.ahead(k, 5_000)
		defer tr.read(k, k.process("a", testGroup, ttl))()
		waitFor(b, "both partitions at the first member", func() bool { return tr.owned("a", some) })
		for range (samples(500) + 1) / 2 {
			tr.ahead(k, 5_000)
			m := k.process("b", testGroup, ttl)
			stop := tr.read(k, m)
			waitFor(b, "one at the member that joins", func() bool { return tr.owned("b", some) })
			m.Terminate()
			stop()
			waitFor(b, "both at the first member again", func() bool { return tr.owned("a", some) })
		}
		took := tr.moves()
		joins, leaves = append(joins, took["b"]...), append(leaves, took["a"]...)
		control = append(control, tr.gaps...)
	}
	all := slices.Concat(joins, leaves)
	report(b, "", all, 0.5, 0.99, 1)
	report(b, "joining_", joins, 0.5, 0.99)
	report(b, "leaving_", leaves, 0.5, 0.99)
	report(b, "control_", control, 0.5, 0.99, 1)
	conclude(b, len(all))
}

// BenchmarkFailover measures how much later than a ttl after the crash of its owner the first message of a partition
// comes out at the survivor. Negative: a lease is counted from its last heartbeat, which is older than the crash.
func BenchmarkFailover(b *testing.B) {
	const ttl = time.Second
	var beyond []time.Duration
	for range b.N {
		k := newBench(b)
		require.NoError(b, k.CreateTopic("t", 2, nil))
		tr := newTrace(b)
		defer tr.read(k, k.process("survivor", testGroup, ttl))()
		for i := range samples(20) {
			tr.ahead(k, 20_000)
			waitFor(b, "both partitions at the survivor", func() bool { return tr.owned("survivor", some) })
			victim := fmt.Sprint("victim", i)
			messages := some * (1 + i) // so that it crashes anywhere between two heartbeats
			m := k.process(victim, testGroup, ttl)
			stop := tr.read(k, m)
			waitFor(b, "one at the victim", func() bool { return tr.owned(victim, messages) })
			at := time.Since(tr.origin)
			k.crash(m)
			stop()
			waitFor(b, "its partition at the survivor", func() bool { return tr.owner(moved).who == "survivor" })
			beyond = append(beyond, tr.owner(moved).first-at-ttl)
			abandon(m)
		}
	}
	report(b, "beyond_ttl_", beyond, 0.5, 1)
	conclude(b, len(beyond))
}

// abandon ends a member that is cut off, and does not wait for what cannot come.
func abandon(m *Marshaler) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = m.Close(ctx) // it cannot say goodbye
}

// BenchmarkJoin measures how long it takes a fifth member, from NewMarshaler on, to read its share of 12 partitions, with
// the default lease.
func BenchmarkJoin(b *testing.B) {
	var took []time.Duration
	for range b.N {
		k := newBench(b)
		require.NoError(b, k.CreateTopic("t", 12, nil))
		var consumers []*Consumer
		for i := range 4 {
			consumers = append(consumers, k.consumer(k.process(fmt.Sprint("m", i), testGroup, 0), ConsumerOptions{}, "t"))
		}
		for range samples(10) {
			waitFor(b, "three each", func() bool { return allRead(consumers, 3) })
			begun := time.Now()
			m := k.process("joining", testGroup, 0)
			c := k.consumer(m, ConsumerOptions{}, "t")
			waitFor(b, "its share", func() bool { return reads(c) == 2 })
			took = append(took, time.Since(begun))
			m.Terminate()
		}
	}
	report(b, "share_", took, 0.5, 1)
	conclude(b, len(took))
}

func allRead(consumers []*Consumer, partitions int) bool {
	for _, c := range consumers {
		if reads(c) != partitions {
			return false
		}
	}
	return true
}

// BenchmarkColdClaim measures how long it takes until all of 1,000 partitions are read that nobody had before: by one
// process from NewConsumer on, and by ten that are started together, from their NewMarshaler on, until each has its hundred.
func BenchmarkColdClaim(b *testing.B) {
	const partitions = 1000
	b.Run("One", func(b *testing.B) {
		var took []time.Duration
		for range b.N {
			k := newBench(b)
			require.NoError(b, k.CreateTopic("t", partitions, nil))
			for i := range samples(7) {
				m := k.process("m", fmt.Sprint("group", i), 0)
				begun := time.Now()
				c := k.consumer(m, ConsumerOptions{}, "t")
				waitFor(b, "everything", func() bool { return reads(c) == partitions })
				took = append(took, time.Since(begun))
				m.Terminate()
			}
		}
		report(b, "held_", took, 0.5, 1)
		conclude(b, len(took))
	})
	b.Run("Ten", func(b *testing.B) {
		const members = 10
		var took []time.Duration
		for range b.N {
			k := newBench(b)
			require.NoError(b, k.CreateTopic("t", partitions, nil))
			for i := range samples(7) {
				took = append(took, k.startTogether(members, partitions, fmt.Sprint("group", i)))
			}
		}
		report(b, "balanced_", took, 0.5, 1)
		conclude(b, len(took))
	})
}

// startTogether starts members at the same time and gives the time until each reads its share.
func (b *bench) startTogether(members, partitions int, group string) time.Duration {
	ms, consumers, errs := make([]*Marshaler, members), make([]*Consumer, members), make([]error, members)
	var starting, ending sync.WaitGroup
	begun := time.Now()
	for i := range members {
		starting.Go(func() {
			if ms[i], errs[i] = b.dial(fmt.Sprint("m", i), group, 0); errs[i] == nil {
				consumers[i], errs[i] = ms[i].NewConsumer([]string{"t"}, ConsumerOptions{})
			}
		})
	}
	starting.Wait()
	for i, m := range ms {
		if m != nil {
			b.t.Cleanup(m.Terminate)
		}
		require.NoError(b.t, errs[i])
	}
	waitFor(b.t, "balance", func() bool { return allRead(consumers, partitions/members) })
	took := time.Since(begun)
	for _, m := range ms {
		ending.Go(m.Terminate)
	}
	ending.Wait()
	return took
}

// BenchmarkIdleTraffic measures what a settled member with 100 partitions and nothing to read writes to the coordination
// topic, with the default lease: bytes as the broker stores them.
func BenchmarkIdleTraffic(b *testing.B) {
	var records, bytes float64
	var spent time.Duration
	for range b.N {
		k := newBench(b)
		require.NoError(b, k.CreateTopic("t", 100, nil))
		m := k.process("m", testGroup, 0)
		c := k.consumer(m, ConsumerOptions{}, "t")
		waitFor(b, "all partitions", func() bool { return reads(c) == 100 })
		require.NoError(b, c.Flush(within(b, patience)))
		size := func() (int64, int64) {
			p := k.Kfake().PartitionInfo(MarshalTopic, shardOf(testGroup))
			return p.HighWatermark, p.NumBytes
		}
		from, _ := size()
		next := func(n int64) (time.Time, int64, int64) { // measured from record to record
			waitFor(b, "a record", func() bool { at, _ := size(); return at >= n })
			at, total := size()
			return time.Now(), at, total
		}
		begun, from, fromBytes := next(from + 2) // the first may be due to what went before
		ended, to, toBytes := next(from + int64(samples(11)))
		records, bytes, spent = records+float64(to-from), bytes+float64(toBytes-fromBytes), spent+ended.Sub(begun)
	}
	b.ReportMetric(records/spent.Minutes(), "records/min")
	b.ReportMetric(bytes/spent.Minutes(), "bytes/min")
	b.ReportMetric(spent.Seconds(), "measured_s")
	conclude(b, int(records))
}
