package marshal

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/testutil"
)

// Partitions and messages that stand still, with neighbours that do not.

// leaveOut takes a partition out of the next so many fetches that name it, -1: of all, and tells how many there were. What comes of it is
// for the broker to know: its data stay.
func (b *bench) leaveOut(topic string, partition int32, times int64) (left *atomic.Int64, struck *atomic.Int64) {
	left, struck = new(atomic.Int64), new(atomic.Int64)
	left.Store(times)
	id := b.Kfake().TopicInfo(topic).TopicID
	b.Kfake().ControlKey(int16(kmsg.Fetch), func(kr kmsg.Request) (kmsg.Response, error, bool) {
		b.Kfake().KeepControl()
		r := kr.(*kmsg.FetchRequest)
		for i := range r.Topics {
			if r.Topics[i].TopicID != id || left.Load() == 0 {
				continue
			}
			was := len(r.Topics[i].Partitions)
			r.Topics[i].Partitions = slices.DeleteFunc(r.Topics[i].Partitions, func(p kmsg.FetchRequestTopicPartition) bool { return p.Partition == partition })
			if len(r.Topics[i].Partitions) < was {
				left.Add(-1)
				struck.Add(1)
			}
		}
		return nil, nil, false
	})
	return left, struck
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
			left, _ := b.leaveOut("t", 3, -1)
			return func() { left.Store(0) }
		}, false},
		"answers say that nothing is new": {4, "t/3: nothing is fetched from offset 10 on, though its log ends at", func(b *bench) func() {
			return b.OnFetch("t", 3, func(p *kmsg.FetchResponseTopicPartition) { p.RecordBatches, p.HighWatermark, p.LastStableOffset = nil, 10, 10 })
		}, false},
		"a session has forgotten it": {20, "", func(b *bench) func() {
			_, struck := b.leaveOut("t", 3, 1)
			b.Faults().Kill("a") // a session begins
			return func() { assert.EqualValues(t, 1, struck.Load(), "it was left out") }
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
