package marshal

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// BenchmarkCommit measures Message.Commit on a partition without a broker behind it: Commit does no I/O. ns/op is for one
// message, and has its part of the reservation that hand-out makes for every 64.
func BenchmarkCommit(b *testing.B) {
	for _, stuck := range []bool{false, true} {
		for _, goroutines := range []int{1, 8} {
			name := "InOrder"
			if stuck {
				name = "BehindAStuckMessage"
			}
			b.Run(fmt.Sprintf("%s/%d", name, goroutines), func(b *testing.B) { benchmarkCommit(b, stuck, goroutines) })
		}
	}
}

func benchmarkCommit(b *testing.B, stuck bool, goroutines int) {
	b.ReportAllocs()
	limit := NewConsumerOptions().MaxInFlight
	if goroutines > 1 {
		limit = 1_000_000 // the others are not to wait for one that the machine lets stand
	}
	o := &source{p: newPartition(&claim{key: lease.Key{Topic: "t"}, consumer: &Consumer{reading: newReading(nil, new(life))}}, 0, lease.TopicID{}, 0, limit), stuck: stuck, held: -1}
	run := func(more func() bool) {
		var hand [handSize]Message
		at := len(hand)
		for more() {
			if at == len(hand) {
				o.reserve(&hand)
				at = 0
			}
			if err := hand[at].Commit(); err != nil {
				b.Error(err)
			}
			at++
		}
		for ; at < len(hand); at++ {
			_ = hand[at].Commit() // or the position would wait for it
		}
	}
	used := cpuTime()
	if goroutines == 1 {
		run(b.Loop)
	} else {
		b.SetParallelism(max(goroutines/runtime.GOMAXPROCS(0), 1))
		b.RunParallel(func(pb *testing.PB) { run(pb.Next) })
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime()-used)/float64(b.N), "cpu-ns/op")
	o.finish()
	require.Equal(b, o.next, o.p.position())
}

// source hands messages of a partition out, as reading.refill does.
type source struct {
	p     *partition
	stuck bool  // there is always one that nobody finishes, until the window is full
	held  int64 // that one; -1: none
	next  int64
}

// reserve fills a hand.
func (o *source) reserve(hand *[handSize]Message) {
	p := o.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.win.Room() <= len(hand) {
		if o.held >= 0 {
			o.finishHeld()
			continue
		}
		p.mu.Unlock()
		runtime.Gosched() // somebody else is in the middle of his hand
		p.mu.Lock()
	}
	if o.stuck && o.held < 0 {
		o.held = o.add()
	}
	for i := range hand {
		hand[i].from, hand[i].Offset = p, o.add()
	}
}

func (o *source) add() int64 {
	o.p.win.Add(o.next)
	o.next++
	return o.next - 1
}

func (o *source) finishHeld() {
	o.p.win.Done(o.held)
	o.held = -1
}

func (o *source) finish() {
	o.p.mu.Lock()
	defer o.p.mu.Unlock()
	if o.held >= 0 {
		o.finishHeld()
	}
}

// What a consumer needs beside what MaxBufferedBytes and MaxInFlight count: answers in the works, requests, connections.
const otherHeap = 8 << 20

func TestMemoryIsBoundedBehindAStuckMessage(t *testing.T) {
	grown, bound := memoryBehindAStuckMessage(t, 200_000)
	t.Logf("heap grown by %d of %d bytes", grown, bound)
	assert.LessOrEqual(t, grown, bound)
}

// BenchmarkMemoryBehindAStuckMessage is the test of that name with ten million messages behind the stuck one.
func BenchmarkMemoryBehindAStuckMessage(b *testing.B) {
	n := 10_000_000
	if testing.Short() {
		n = 200_000
	}
	for range b.N {
		grown, bound := memoryBehindAStuckMessage(b, n)
		b.ReportMetric(float64(grown), "heap_bytes")
		b.ReportMetric(float64(bound), "bound_bytes")
	}
	conclude(b, n)
}

// memoryBehindAStuckMessage reads until a message that is never finished stops its partition, with n behind it, and gives by
// how much the heap has grown since before the member was made, and what the options allow.
func memoryBehindAStuckMessage(t testing.TB, n int) (grown, bound int64) {
	k := newBench(t)
	require.NoError(t, k.CreateTopic("t", 1, nil))
	_, err := k.Fill("t", 0, n, 8)
	require.NoError(t, err)
	options := ConsumerOptions{MaxInFlight: 50_000, MaxBufferedBytes: 4 << 20, DrainTimeout: time.Millisecond}
	bound = int64(options.MaxBufferedBytes) + 2*8*int64(options.MaxInFlight) + otherHeap
	before := heap()

	m := k.process("a", testGroup, 0)
	c := k.consumer(m, options, "t")
	ctx := within(t, patience)
	for i := range options.MaxInFlight {
		msg, err := c.FetchMessage(ctx)
		require.NoError(t, err)
		if i > 0 {
			require.NoError(t, msg.Commit())
		}
	}
	p := c.running()[0].partitions()[0]
	waitFor(t, "as much as may be buffered", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.win.Full() && p.queued >= min(options.MaxBufferedBytes/2, partBytes)
	})
	return heap() - before, bound
}

// heap is what is in use after everything unused is gone.
func heap() int64 {
	var s runtime.MemStats
	runtime.GC()
	runtime.GC() // what the first found in pools
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
