package marshal

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/testutil"
)

// Offsets: what was committed is durable when somebody was told so, and when a process ends in order.

// What is committed just before an end is written by it, in whatever way it ends, and whoever calls it: also the goroutine that reads.
func TestC29CommitsJustBeforeAnEndAreKept(t *testing.T) {
	t.Parallel()
	for how, end := range map[string]func(t *testing.T, c *Consumer){
		"Terminate(true)":      func(t *testing.T, c *Consumer) { assert.True(t, c.Terminate(true)) },
		"Terminate(false)":     func(t *testing.T, c *Consumer) { assert.True(t, c.Terminate(false)); c.m.Terminate() },
		"Marshaler.Terminate":  func(_ *testing.T, c *Consumer) { c.m.Terminate() },
		"Close":                func(t *testing.T, c *Consumer) { assert.NoError(t, c.Close(within(t, patience))) },
		"Marshaler.Close":      func(t *testing.T, c *Consumer) { assert.NoError(t, c.m.Close(within(t, patience))) },
		"KafkaCluster.Close":   func(t *testing.T, c *Consumer) { assert.NoError(t, c.m.c.Close(within(t, patience))) },
		"Claim.Release of all": nil,
	} {
		for _, by := range []string{"who reads the channel", "another"} {
			t.Run(how+" by "+by, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.one("t", 110)
				cluster, err := Dial("p", b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(t)))
				require.NoError(t, err)
				t.Cleanup(cluster.Terminate)
				m, err := cluster.NewMarshaler("p", testGroup)
				require.NoError(t, err)
				c := b.consumer(m, ConsumerOptions{CommitInterval: 10 * time.Second, MaxInFlight: 1}, "t")
				if end == nil {
					claim := claimed(t, c)
					for _, msg := range take(t, claim, 1) {
						require.NoError(t, msg.Commit())
					}
					for range 99 {
						require.NoError(t, take(t, claim, 1)[0].Commit())
					}
					require.NoError(t, claim.Release(within(t, patience), -1))
				} else {
					var ended sync.WaitGroup
					n := 0
					for msg := range c.ConsumeChannel() {
						if n++; n > 100 {
							continue // it was on its way out
						}
						require.NoError(t, msg.Commit())
						switch {
						case n < 100:
						case by == "another":
							ended.Go(func() { end(t, c) })
						default:
							end(t, c)
						}
					}
					ended.Wait()
				}
				m.Terminate()
				require.EqualValues(t, 100, b.committed("t", 1), "in Kafka")
				next := b.marshaler("p")
				require.EqualValues(t, 100, keyOf(next, "t", 0).Next, "in the log")
				msg, err := b.consumer(next, ConsumerOptions{}, "t").FetchMessage(within(t, patience))
				require.NoError(t, err)
				assert.EqualValues(t, 100, msg.Offset)
				require.NoError(t, msg.Commit())
			})
		}
	}
}

// Flush and CommitMessages wait for the positions as they were read back, so they do not give nil for what is only on its way. After a crash
// the next begins where the last nil said.
func TestC32FlushIsNotNilBeforeThePositionIsInTheLog(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]testutil.Fault{
		"the write vanishes":          {Keys: testutil.Writes, Do: testutil.Drop},
		"the write is refused":        {Keys: testutil.Writes, Do: testutil.Cut},
		"nothing is read":             {Keys: testutil.Reads, Do: testutil.Cut},
		"its answer is lost":          {Keys: []kmsg.Key{kmsg.Produce, kmsg.Fetch}, Do: testutil.LoseAnswers},
		"only Kafka's offset is late": {Keys: []kmsg.Key{kmsg.OffsetCommit}, Do: testutil.Drop},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.one("t", 20)
			m := b.marshaler("a", WithLease(10*time.Second, 0))
			c := b.consumer(m, ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t")
			var got []*Message
			for range 20 {
				msg, err := c.FetchMessage(within(t, patience))
				require.NoError(t, err)
				got = append(got, msg)
			}
			require.NoError(t, c.Flush(within(t, patience)))
			f.Client = "a"
			active := b.Faults().Add(f)
			for _, msg := range got[:10] {
				require.NoError(t, msg.Commit())
			}
			require.NoError(t, active.Wait(within(t, patience), 1), "an internal tick has tried")
			err := c.Flush(within(t, 300*time.Millisecond))
			require.ErrorIs(t, err, context.DeadlineExceeded)
			want := "positions are not confirmed in the coordination topic"
			if slices.Equal(f.Keys, []kmsg.Key{kmsg.OffsetCommit}) {
				want = "offsets are not committed to Kafka"
				assert.NoError(t, c.CommitMessages(within(t, patience), got[9]), "that does not wait for Kafka's offset")
			} else {
				assert.ErrorIs(t, c.CommitMessages(within(t, 100*time.Millisecond), got[9]), context.DeadlineExceeded)
			}
			require.ErrorContains(t, err, want)
			active.Remove()
			require.NoError(t, c.Flush(within(t, patience)), "it is asked for again")
			require.EqualValues(t, 10, keyOf(m, "t", 0).Next)
			require.EqualValues(t, 10, b.committed("t", 1))
			b.crash(m)
			reader := b.marshaler("b")
			assert.EqualValues(t, 10, keyOf(reader, "t", 0).Next, "as whoever comes next will find it")
			b.Faults().Clear()
		})
	}
}

// The same where the process is gone in the middle: what its Flush has not confirmed may be lost, and comes again.
func TestC32AfterAKillTheNextBeginsWhereTheLastNilSaid(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.one("t", 20)
	m := b.marshaler("a", WithLease(600*time.Millisecond, 0))
	c := b.consumer(m, ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t")
	for range 12 {
		msg, err := c.FetchMessage(within(t, patience))
		require.NoError(t, err)
		require.NoError(t, msg.Commit())
	}
	require.NoError(t, c.Flush(within(t, patience)))
	b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.Drop})
	late, err := c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	require.NoError(t, late.Commit())
	require.Error(t, c.Flush(within(t, 100*time.Millisecond)))
	b.crash(m)
	msg, err := b.consumer(b.marshaler("b"), ConsumerOptions{}, "t").FetchMessage(within(t, patience))
	require.NoError(t, err)
	assert.EqualValues(t, 12, msg.Offset)
	require.NoError(t, msg.Commit())
	b.Faults().Clear()
}
