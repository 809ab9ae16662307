package marshal

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// What must end, ends, whatever stands still: in time, once, and with nothing left behind.

// kindsIn lists what a Produce request writes to a coordination topic.
func kindsIn(kr kmsg.Request) (kinds []lease.Kind) {
	var reader recordReader
	for _, t := range kr.(*kmsg.ProduceRequest).Topics {
		for _, p := range t.Partitions {
			var b kmsg.RecordBatch
			if b.ReadFrom(p.Records) != nil {
				continue
			}
			for in := b.Records; len(in) > 0; {
				l, head := binary.Varint(in)
				var r kmsg.Record
				if head <= 0 || r.ReadFrom(in) != nil {
					break
				}
				reader.decode(&entry{value: r.Value})
				kinds = append(kinds, reader.record.Kind)
				in = in[head+int(l):]
			}
		}
	}
	return kinds
}

// In the original the pump of a claim was waited for that had never been started, since its first heartbeat had failed. Here a claim
// has no pump of its own; whatever of its beginning fails, its end waits for nothing of that.
func TestC50AClaimOfWhichNothingButTheClaimSucceedsEndsAtOnce(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	var claimed bool // touched by the broker alone
	afterTheClaim := func(kr kmsg.Request) bool {
		strike := claimed
		claimed = !claimed && slices.Contains(kindsIn(kr), lease.KindClaim)
		return strike
	}
	produce := kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: MarshalTopic, When: afterTheClaim}
	with := func(f kfake.Fault, err *kerr.Error) func() func() {
		f.Err = err
		return func() func() { return b.Kfake().Fault(f).Remove }
	}
	without := func(do testutil.Effect, keys ...kmsg.Key) func() func() {
		return func() func() { return b.Faults().Add(testutil.Fault{Client: "a", Keys: keys, Do: do}).Remove }
	}
	ways := []struct {
		name  string
		begin func() (end func())
	}{
		{"the record after the claim is refused", with(produce, kerr.NotLeaderForPartition)},
		{"the record after the claim fails for good", with(produce, kerr.InvalidRecord)},
		{"the record after the claim fails, and is there", with(produce, kerr.RequestTimedOut)},
		{"nobody says where its log begins", with(kfake.Fault{Keys: []kmsg.Key{kmsg.ListOffsets}, Topic: "t", Count: -1}, kerr.UnknownServerError)},
		{"nothing can be fetched", with(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Count: -1}, kerr.UnknownServerError)},
		{"its offset is never told", without(testutil.Drop, kmsg.OffsetFetch)},
		{"no connection asks for its offset", without(testutil.Cut, kmsg.OffsetFetch, kmsg.ListOffsets)},
	}
	base := 0
	for round := range 50 {
		way := ways[round%len(ways)]
		m := b.marshaler("a")
		claimed = false
		end := way.begin()
		c, err := m.NewConsumer([]string{"t"}, ConsumerOptions{})
		require.NoError(t, err)
		eventually(t, "the claim", func() bool { return holds(m) == 4 })
		began := time.Now()
		assert.True(t, c.Terminate(true), way.name)
		assert.Less(t, time.Since(began), 2*time.Second, way.name)
		next := b.marshaler("b")
		k, err := next.NewConsumer([]string{"t"}, ConsumerOptions{})
		require.NoError(t, err)
		eventually(t, "all at another", func() bool { return holds(next) == 4 })
		end()
		assert.True(t, k.Terminate(true), way.name)
		next.Terminate()
		m.Terminate()
		if round == len(ways) {
			base = runtime.NumGoroutine()
		}
	}
	eventually(t, "as many goroutines as before", func() bool { return runtime.NumGoroutine() <= base+2 })
}

// The network goes away under a process with the settings that everybody has, and each end returns within its documented 10 s.
func TestC52EveryEndReturnsInTimeAndSaysWhatWasNotConfirmedWhenTheNetworkIsGone(t *testing.T) {
	t.Parallel()
	type ends struct {
		c       *Consumer
		m       *Marshaler
		cluster *KafkaCluster
	}
	consumer := func(e *ends) (confirmed bool) { return e.c.Terminate(true) }
	keeping := func(e *ends) bool { return e.c.Terminate(false) }
	marshaler := func(e *ends) bool { e.m.Terminate(); return false }
	cluster := func(e *ends) bool { e.cluster.Terminate(); return false }
	var wg sync.WaitGroup                                                                    // all at once: they wait, and do nothing else
	for _, effect := range []testutil.Effect{testutil.Drop, testutil.Cut, testutil.Freeze} { // vanishes, refuses, stands still
		for name, order := range map[string][]func(*ends) bool{
			"one after the other":         {consumer, marshaler, cluster},
			"the marshaler at once":       {marshaler},
			"the cluster at once":         {cluster},
			"the consumer, to be resumed": {keeping},
		} {
			name = effect.String() + ", " + name
			b := newBench(t)
			require.NoError(t, b.CreateTopic("t", 8, nil))
			b.fill("t", 8, 0, 100)
			log, seen := logged(t)
			cl, err := Dial("a", b.Addrs(), WithLogger(log))
			require.NoError(t, err)
			t.Cleanup(func() { _ = cl.Close(within(t, time.Second)) })
			m, err := cl.NewMarshaler("a", testGroup)
			require.NoError(t, err)
			c, err := m.NewConsumer([]string{"t"}, ConsumerOptions{})
			require.NoError(t, err)
			ch := c.ConsumeChannel()
			for range 500 {
				require.NoError(t, (<-ch).Commit())
			}
			fault := b.Faults().Add(testutil.Fault{Client: "a", Do: effect})
			t.Cleanup(fault.Remove)
			wg.Go(func() {
				for range ch { // until it is closed, once
				}
			})
			wg.Go(func() {
				e := &ends{c, m, cl}
				for i, end := range order {
					began := time.Now()
					assert.False(t, end(e), "%s: nobody has confirmed it", name)
					assert.Less(t, time.Since(began), callLimit+bound, "%s, %d", name, i)
					t.Logf("%s: end %d took %v", name, i, time.Since(began).Round(10*time.Millisecond))
				}
				_, open := <-c.ConsumeChannel()
				assert.False(t, open, name)
				_, err := c.FetchMessage(context.Background())
				assert.ErrorIs(t, err, ErrTerminated, name)
				assert.True(t, seen.soon("warning", "terminated without confirmation"), name)
			})
		}
	}
	wg.Wait()
}

// A pump that cannot get rid of its message, and an application that goes on committing what it has, hold up nothing.
func TestC54NothingWaitsForAChannelThatNobodyReadsAndWhatWasCommittedIsDurable(t *testing.T) {
	for name, end := range map[string]func(c *Consumer) bool{
		"with release":       func(c *Consumer) bool { return c.Terminate(true) },
		"to be resumed":      func(c *Consumer) bool { return c.Terminate(false) },
		"with the marshaler": func(c *Consumer) bool { return c.m.Close(context.Background()) == nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "t")
			b.fill("t", 4, 0, 100)
			m := b.marshaler("a")
			c := b.consumer(m, ConsumerOptions{DrainTimeout: time.Minute}, "t")
			eventually(t, "all", func() bool { return len(c.begun()) == 4 })
			var held []*Message
			for msg := range c.ConsumeChannel() {
				if held = append(held, msg); len(held) == 250 { // of three partitions, and a few more
					break
				}
			}
			eventually(t, "the next one is offered", func() bool { m := offer(c.reading); return m != nil && m != held[len(held)-1] })
			var wg sync.WaitGroup
			call := func(what string, f func()) {
				wg.Go(func() {
					began := time.Now()
					f()
					assert.Less(t, time.Since(began), 2*time.Second, what)
				})
			}
			next := map[int32]int64{} // behind the last that was accepted
			ctx := within(t, patience)
			call("Commit", func() {
				for _, msg := range held {
					if err := msg.Commit(); err == nil {
						next[msg.Partition] = msg.Offset + 1
					} else {
						assert.True(t, errors.Is(err, ErrClaimLost) || errors.Is(err, ErrTerminated), "%v", err)
					}
				}
			})
			call("Terminate", func() { assert.True(t, end(c)) })
			call("Flush", func() { _ = c.Flush(ctx) }) // ErrTerminated if it comes late
			call("GetCurrentLag", func() { c.GetCurrentLag() })
			call("PrintState", func() { c.PrintState(); m.PrintState() })
			wg.Wait()
			_, open := <-c.ConsumeChannel()
			assert.False(t, open)
			m.Terminate()
			after := b.marshaler("b")
			for p, at := range next {
				assert.Equal(t, at, keyOf(after, "t", p).Next, "partition %d", p)
			}
		})
	}
}

// used is what a process has: goroutines, open files and connections (0 where the system does not tell), and live bytes.
func used() (goroutines, files int, heap uint64) {
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	all, _ := os.ReadDir("/proc/self/fd") // empty on other systems
	return runtime.NumGoroutine(), len(all), mem.HeapAlloc
}

func TestC57StartsAndStopsLeaveNothingHoweverOften(t *testing.T) {
	const base, cycles = 20, 200
	quiet := logrus.New() // or the lines that a test keeps are what grows
	quiet.SetOutput(io.Discard)
	settle := func(t *testing.T, goroutines, files int) {
		eventually(t, "as many goroutines and files as at the beginning", func() bool {
			g, f, _ := used()
			return g <= goroutines+2 && f <= files+2
		})
	}
	t.Run("with a broker", func(t *testing.T) {
		b := newBench(t, "t")
		b.fill("t", 4, 0, cycles*10/4)
		var goroutines, files int
		var heap uint64
		ctx := within(t, 10*patience)
		for cycle := range cycles {
			cluster, err := Dial("a", b.Addrs(), WithLease(testTTL, 0), WithLogger(quiet))
			require.NoError(t, err)
			m, err := cluster.NewMarshaler("a", testGroup)
			require.NoError(t, err)
			c, err := m.NewConsumer([]string{"t"}, ConsumerOptions{})
			require.NoError(t, err)
			for range 10 {
				msg, err := c.FetchMessage(ctx)
				require.NoError(t, err)
				require.NoError(t, msg.Commit())
			}
			c.Terminate(true)
			m.Terminate()
			cluster.Terminate()
			if cycle == base {
				goroutines, files, heap = used()
			}
		}
		settle(t, goroutines, files)
		g, f, h := used()
		t.Logf("cycle %d: %d goroutines, %d files, %d KiB; cycle %d: %d, %d, %d KiB", base, goroutines, files, heap>>10, cycles, g, f, h>>10)
		assert.Less(t, int(h)-int(heap), 4<<20, "what the broker keeps of the coordination topic is in it too")
		assert.Equal(t, int64(cycles*10), b.committed("t", 4), "each went on where the one before stopped")
	})
	t.Run("without", func(t *testing.T) {
		var goroutines, files int
		for cycle := range cycles {
			_, err := DialContext(within(t, 5*time.Millisecond), "x", []string{"127.0.0.1:1"}, WithLogger(quiet))
			require.Error(t, err)
			if cycle == base {
				goroutines, files, _ = used()
			}
		}
		settle(t, goroutines, files)
	})
}
