package marshal

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/testutil"
)

// Partitions and messages that stand still, with neighbours that do not.

// leaveOut takes a partition out of all fetches, until end is called: its data stay, and nobody hears of them.
func (b *bench) leaveOut(topic string, partition int32) (end func()) {
	var over atomic.Bool
	id := b.Kfake().TopicInfo(topic).TopicID
	b.Kfake().ControlKey(int16(kmsg.Fetch), func(kr kmsg.Request) (kmsg.Response, error, bool) {
		b.Kfake().KeepControl()
		r := kr.(*kmsg.FetchRequest)
		for i := range r.Topics {
			if r.Topics[i].TopicID == id && !over.Load() {
				r.Topics[i].Partitions = slices.DeleteFunc(r.Topics[i].Partitions, func(p kmsg.FetchRequestTopicPartition) bool { return p.Partition == partition })
			}
		}
		return nil, nil, false
	})
	return func() { over.Store(true) }
}

// unsession has the broker forget, again and again, that a partition belongs to a fetch session: only the first request of one brings it.
func (b *bench) unsession(topic string, partition int32) *atomic.Bool {
	forgotten := new(atomic.Bool)
	id := b.Kfake().TopicInfo(topic).TopicID
	b.Kfake().ControlKey(int16(kmsg.Fetch), func(kr kmsg.Request) (kmsg.Response, error, bool) {
		b.Kfake().KeepControl()
		r := kr.(*kmsg.FetchRequest)
		if r.SessionEpoch > 0 && r.SessionID != 0 {
			forgotten.Store(true)
			r.ForgottenTopics = append(r.ForgottenTopics, kmsg.FetchRequestForgottenTopic{Topic: topic, TopicID: id, Partitions: []int32{partition}})
			for i := range r.Topics {
				r.Topics[i].Partitions = slices.DeleteFunc(r.Topics[i].Partitions, func(p kmsg.FetchRequestTopicPartition) bool { return p.Partition == partition })
			}
		}
		return nil, nil, false
	})
	return forgotten
}

// lagOf is how far a partition is behind, as its consumer knows.
func lagOf(c *Consumer, partition int32) int64 {
	for _, p := range c.Stats().Partitions {
		if p.Partition == partition {
			return p.Lag
		}
	}
	return -1
}

// The neighbours of a partition that falls silent run on, its name and the distance are told, and it recovers: by itself where a broker
// had forgotten that it is asked for, else when the fault ends. Its claim stays: what hinders this process here hinders no lease.
func TestC48APartitionThatFallsSilentIsToldAndRecovers(t *testing.T) {
	for name, c := range map[string]struct {
		partitions int32
		says       string
		fault      func(b *bench) (end func())
		itself     bool // it recovers though the fault lasts
	}{
		"answers leave it out": {4, "t/3 cannot be read at offset 10: fetch t/3 at 10: answer leaves out what was asked", func(b *bench) func() {
			return b.leaveOut("t", 3)
		}, false},
		"answers say that nothing is new": {4, "t/3: nothing is fetched from offset 10 on, though its log ends at", func(b *bench) func() {
			return b.OnFetch("t", 3, func(p *kmsg.FetchResponseTopicPartition) {
				p.RecordBatches, p.HighWatermark, p.LastStableOffset = nil, 10, 10
			})
		}, false},
		"a session has forgotten it": {20, "", func(b *bench) func() {
			forgotten := b.unsession("t", 3)
			return func() { assert.True(t, forgotten.Load(), "it was forgotten") }
		}, true},
		"fetches from its broker stand still": {4, "t/3: nothing is fetched from offset 10 on, though its log ends at", func(b *bench) func() {
			return b.Faults().Add(testutil.Fault{Client: "a", Nodes: []int32{2}, Keys: testutil.Reads, Do: testutil.Freeze}).Remove
		}, false},
		"its broker stands still": {4, "cannot fetch from broker 2: t/3: ", func(b *bench) func() {
			return b.Faults().Add(testutil.Fault{Client: "a", Nodes: []int32{2}, Do: testutil.Freeze}).Remove
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBenchOn(t, testutil.WithBrokers(3))
			require.NoError(t, b.CreateTopic("t", c.partitions, nil))
			log, seen := logged(t)
			m := b.marshaler("a", WithLogger(log))
			for p := range c.partitions {
				require.NoError(t, b.Kfake().MoveTopicPartition("t", p, p%2))
			}
			require.NoError(t, b.Kfake().MoveTopicPartition(MarshalTopic, shardOf(testGroup), 0))
			node := int32(2)
			if c.itself {
				node = 1
			}
			require.NoError(t, b.Kfake().MoveTopicPartition("t", 3, node))
			if c.itself {
				for p := range c.partitions {
					require.NoError(t, b.Kfake().MoveTopicPartition("t", p, node)) // enough for a session
				}
			}
			cons := b.consumer(m, ConsumerOptions{LagInterval: 100 * time.Millisecond, MaxWait: 50 * time.Millisecond}, "t")
			k := collect(t, cons)
			b.fill("t", c.partitions, 0, 10)
			n := int(c.partitions)
			eventually(t, "all messages", func() bool { return k.count() == 10*n })
			epoch := keyOf(m, "t", 3).Epoch
			end := c.fault(b)
			written := 10
			more := func() {
				b.fill("t", c.partitions, written, 10)
				written += 10
			}
			more()
			eventually(t, "the neighbours run on", func() bool { return k.count() >= 20*(n-1)+10 })
			if !c.itself {
				assert.Equal(t, upTo(10), k.offsets("t", 3))
				eventually(t, "a warning", func() bool { return seen.has("warning", c.says) })
				assert.ErrorContains(t, cons.Healthy(), "t/3")
				if c.says[0] == 't' { // else only its broker could tell
					was := lagOf(cons, 3)
					more()
					eventually(t, "the distance grows", func() bool { return lagOf(cons, 3) >= max(was, 10)+10 })
				}
				end()
			}
			eventually(t, "all", func() bool { return k.count() == written*n })
			if c.itself {
				end()
			}
			assert.Equal(t, upTo(int64(written)), k.offsets("t", 3), "once, and in order")
			assert.Equal(t, epoch, keyOf(m, "t", 3).Epoch, "its claim stays")
		})
	}
}

// The original released by velocities, which are wrong where there is one sample, or nothing to do. Here a partition is given up when one
// message in hand is not finished for StallTimeout: being behind, idle, slow or new is no reason.
func TestC64OnlyAMessageThatIsNotFinishedInTimeCostsAPartition(t *testing.T) {
	const timeout = time.Second
	for name, c := range map[string]struct {
		backlog int
		more    time.Duration // between two new messages; 0: none
		work    time.Duration // on each; -1: it is never finished
		read    bool
		givenUp bool
	}{
		"slower than what is produced":             {0, 10 * time.Millisecond, 100 * time.Millisecond, true, false},
		"a backlog and nothing new":                {10_000, 0, 2 * time.Millisecond, true, false},
		"a backlog, and the application is stuck":  {100, 0, -1, true, true},
		"the first message after a long idle time": {0, 3 * timeout / 2, time.Microsecond, true, false},
		"nothing ever":                             {0, 0, time.Microsecond, true, false},
		"nobody asks for messages":                 {100, 0, time.Microsecond, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			require.NoError(t, b.CreateTopic("t", 1, nil))
			if c.backlog > 0 {
				_, err := b.Fill("t", 0, c.backlog, 20)
				require.NoError(t, err)
			}
			log, seen := logged(t)
			m := b.marshaler("a", WithLogger(log))
			o := ConsumerOptions{StallTimeout: timeout, CommitInterval: 20 * time.Millisecond, DrainTimeout: 20 * time.Millisecond}
			cons := b.consumer(m, o, "t")
			eventually(t, "the claim", func() bool { return len(cons.begun()) == 1 })
			heard := listen(t, m)
			other := b.marshaler("b", WithLogger(log))
			collect(t, b.consumer(other, o, "t")) // it would take it
			epoch := keyOf(m, "t", 0).Epoch
			ctx := within(t, 2*timeout+timeout/2)
			var wg sync.WaitGroup
			var handed atomic.Int64 // when the message that is stuck came
			if c.read {
				wg.Go(func() {
					for msg, err := range cons.Messages(ctx) {
						if err != nil || c.work < 0 {
							handed.CompareAndSwap(0, time.Now().UnixNano())
							continue
						}
						pause(ctx, c.work)
						if ctx.Err() == nil {
							assert.NoError(t, msg.Commit())
						}
					}
				})
			}
			if c.more > 0 {
				wg.Go(func() {
					for pause(ctx, c.more); ctx.Err() == nil; pause(ctx, c.more) {
						b.fill("t", 1, 0, 1)
					}
				})
			}
			wg.Wait()
			<-ctx.Done()
			assert.False(t, seen.has("", "NaN") || seen.has("", "Inf"))
			if !c.givenUp {
				assert.Empty(t, heard.of(ClaimGivenUp, ClaimStalled, ClaimLost, ClaimReleased))
				assert.Equal(t, epoch, keyOf(m, "t", 0).Epoch)
				return
			}
			given := heard.wait(t, ClaimGivenUp)
			took := given.Time.Sub(time.Unix(0, handed.Load()))
			assert.InDelta(t, timeout.Seconds(), took.Seconds(), 0.9, "StallTimeout, and a CommitInterval: %v", took)
			assert.Greater(t, took, timeout-50*time.Millisecond)
			assert.Len(t, heard.of(ClaimGivenUp), 1)
			eventually(t, "it is at the other", func() bool { return holderOf(m, "t", 0) == "b" })
		})
	}
}

// The slowest partition of a broker costs the others nothing, one message of it at a time, or as many as its workers take.
func TestC66ASlowPartitionHoldsUpNoneOfItsNeighbours(t *testing.T) {
	b := newBench(t)
	const n, rounds = 20_000, 3
	ttl := 300 * time.Millisecond
	m := b.marshaler("a", WithLease(ttl, 0))
	ctx := within(t, 4*patience)
	// open has a consumer of a topic of its own begin, with n messages in each of three partitions; slow: and a message of a fourth in hand, which
	// is not finished.
	open := func(topic string, slow bool) (c *Consumer, stuck *Message) {
		require.NoError(t, b.CreateTopic(topic, 4, nil))
		c = b.consumer(m, ConsumerOptions{StrictOrdering: true}, topic)
		if slow {
			b.fill(topic, 1, 0, 100)
			var err error
			stuck, err = c.FetchMessage(ctx)
			require.NoError(t, err)
		}
		eventually(t, "all", func() bool { return len(c.begun()) == 4 })
		for p := int32(1); p < 4; p++ {
			_, err := b.Fill(topic, p, n, 20)
			require.NoError(t, err)
		}
		return c, stuck
	}
	read := func(c *Consumer) time.Duration {
		begin := time.Now()
		for range 3 * n {
			msg, err := c.FetchMessage(ctx)
			if !assert.NoError(t, err) || !assert.NotZero(t, msg.Partition, "one of it is outstanding") || !assert.NoError(t, msg.Commit()) {
				break
			}
		}
		return time.Since(begin)
	}
	best := math.Inf(1) // of a few rounds, in each of which both read at the same time: what the machine does besides is the same for both
	var stuck *Message
	for i := range rounds {
		alone, _ := open(fmt.Sprint("alone", i), false)
		beside, of := open(fmt.Sprint("beside", i), true)
		var one, other time.Duration
		var both sync.WaitGroup
		both.Go(func() { one = read(alone) })
		both.Go(func() { other = read(beside) })
		both.Wait()
		t.Logf("%d messages take %v alone, %v beside a slow partition", 3*n, one, other)
		best = min(best, other.Seconds()/one.Seconds())
		alone.Terminate(true)
		if stuck = of; i < rounds-1 {
			require.NoError(t, stuck.Commit())
			require.True(t, beside.Terminate(true))
		}
	}
	assert.Less(t, best, 1/0.8)
	beats := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.DelayAnswers, Delay: time.Nanosecond})
	require.NoError(t, beats.Wait(ctx, 50), "20 H, of five heartbeats in two of them")
	assert.Equal(t, "a", holderOf(m, stuck.Topic, 0))
	assert.NoError(t, stuck.Commit(), "its claim stays")
}

// Workers with queues of their own behind the channel: where a queue has room for MaxInFlight, whoever fills it waits for nobody.
func TestC66BoundedQueuesBehindTheChannelHoldUpNoOtherPartition(t *testing.T) {
	b := newBench(t, "t")
	for p := range int32(4) {
		_, err := b.Fill("t", p, 500, 20)
		require.NoError(t, err)
	}
	const inFlight = 5
	c := b.consumer(b.marshaler("a"), ConsumerOptions{MaxInFlight: inFlight, DrainTimeout: 20 * time.Millisecond}, "t")
	var queues [4]chan *Message
	var done [4]atomic.Int64
	var wg sync.WaitGroup
	free := make(chan struct{})
	for p := range queues {
		queues[p] = make(chan *Message, inFlight)
		wg.Go(func() {
			for msg := range queues[p] {
				if p == 0 {
					<-free
				}
				_ = msg.Commit() // the slow one's come late
				done[p].Add(1)
			}
		})
	}
	wg.Go(func() {
		for msg := range c.ConsumeChannel() {
			queues[msg.Partition] <- msg
		}
		for _, q := range queues {
			close(q)
		}
	})
	for p := 1; p < 4; p++ {
		eventually(t, "its neighbours", func() bool { return done[p].Load() == 500 })
	}
	assert.Zero(t, done[0].Load())
	close(free)
	eventually(t, "itself", func() bool { return done[0].Load() == 500 })
	c.Terminate(true)
	wg.Wait()
}

// Heartbeats are the process's own, whatever its application takes its time for, and go on until the last key is handed over.
func TestC68LongWorkOnAMessageCostsNoClaim(t *testing.T) {
	for _, strict := range []bool{true, false} {
		t.Run(fmt.Sprint("strict ", strict), func(t *testing.T) {
			t.Parallel()
			const ttl = 600 * time.Millisecond // 2 H, five heartbeats
			b := newBench(t)
			require.NoError(t, b.CreateTopic("t", 1, nil))
			b.fill("t", 1, 0, 10)
			m := b.marshaler("a", WithLease(ttl, 0))
			c := b.consumer(m, ConsumerOptions{StrictOrdering: strict, DrainTimeout: 5 * time.Second}, "t")
			msg, err := c.FetchMessage(within(t, patience))
			require.NoError(t, err)
			q := b.marshaler("b", WithLease(ttl, 0))
			k := collect(t, b.consumer(q, ConsumerOptions{}, "t"))
			epoch := keyOf(m, "t", 0).Epoch
			beats := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.DelayAnswers, Delay: time.Nanosecond})
			require.NoError(t, beats.Wait(within(t, 2*patience), 50), "20 H") // the work
			assert.Zero(t, k.count(), "the other receives nothing")
			assert.Equal(t, epoch, keyOf(q, "t", 0).Epoch, "the claim remains")
			require.NoError(t, msg.Context().Err())

			var wg sync.WaitGroup
			wg.Go(func() { assert.True(t, c.Terminate(true)) })
			eventually(t, "the end", c.Terminated)
			was := beats.Hits()
			require.NoError(t, beats.Wait(within(t, patience), was+8), "heartbeats while it works for 3 H more")
			assert.Equal(t, epoch, keyOf(q, "t", 0).Epoch)
			require.NoError(t, msg.Commit(), "accepted while it drains")
			wg.Wait()
			assert.ErrorIs(t, msg.Commit(), ErrClaimLost)
			eventually(t, "the rest at the other", func() bool { return k.count() == 9 })
			assert.Equal(t, upTo(10)[1:], k.offsets("t", 0), "what was finished does not come again")
		})
	}
}
