package marshal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// Offsets: Kafka's own, as far as they matter, and what a number can be.

// Kafka forgets the offsets of groups that look empty, so a living owner commits what has not moved again, each hour.
func TestC43AnOwnerCommitsAgainWhatHasNotMoved(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.one("t", 10)
	stored := b.commits("t")
	m := b.marshaler("a", func(s *settings) { s.recommit = 200 * time.Millisecond })
	require.Equal(t, time.Hour, recommit)
	c := b.consumer(m, ConsumerOptions{CommitInterval: 10 * time.Millisecond}, "t")
	k := collect(t, c)
	eventually(t, "all messages", func() bool { return k.count() == 10 })
	b.committedAt("t", 0, 10)
	p := c.running()[0].partitions()[0]
	eventually(t, "rest", func() bool {
		c.committing <- struct{}{}
		defer func() { <-c.committing }()
		return p.repeats == 0 && p.committed == 10
	})
	b.forget()
	before := len(stored()[0])
	eventually(t, "once more", func() bool { return len(stored()[0]) >= before+1 })
	b.committedAt("t", 0, 10)
	assert.Equal(t, []int64{10}, slices.Compact(stored()[0][before:]))
}

// forget deletes all that Kafka knows of the group.
func (b *bench) forget() {
	b.t.Helper()
	admin, err := sarama.NewClusterAdmin(b.Addrs(), b.Config("admin"))
	require.NoError(b.t, err)
	defer admin.Close()
	require.NoError(b.t, admin.DeleteConsumerGroup(testGroup))
	offset, _, err := b.Committed(testGroup, "t", 0)
	require.NoError(b.t, err)
	require.EqualValues(b.t, -1, offset)
}

// Where Kafka has forgotten them the group goes on by the coordination topic. Where that has nothing either, nobody can tell the group
// from a new one: StartOffset decides, and a line says so.
func TestC43AGroupWhoseOffsetsAreGoneGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	for name, gone := range map[string]bool{"Kafka's": false, "both": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.one("t", 1000)
			m := b.marshaler("a")
			k := collect(t, b.consumer(m, ConsumerOptions{}, "t"))
			eventually(t, "all messages", func() bool { return k.count() == 1000 })
			m.Terminate()
			b.forget()
			if gone {
				require.NoError(t, b.RecreateTopic(MarshalTopic, 32, nil))
			}
			b.fill("t", 1, 1000, 1)
			log, seen := logged(t)
			msg, err := b.consumer(b.marshaler("b", WithLogger(log)), ConsumerOptions{}, "t").FetchMessage(within(t, patience))
			require.NoError(t, err)
			const line = "no position of t [0] is known to the group: beginning where StartOffset says"
			if gone {
				assert.Zero(t, msg.Offset)
				eventually(t, "a line", func() bool { return seen.times("info", line) == 1 })
			} else {
				assert.EqualValues(t, 1000, msg.Offset)
				b.committedAt("t", 0, 1000)
				assert.False(t, seen.has("info", "no position"))
			}
			require.NoError(t, msg.Commit())
		})
	}
}

// lift makes t/0 a log of three records from an offset on that no log of a test can reach.
func (b *bench) lift(base int64) {
	b.t.Helper()
	b.one("t", 3)
	var batch atomic.Value
	b.OnFetch("t", 0, func(p *kmsg.FetchResponseTopicPartition) {
		if len(p.RecordBatches) > 0 { // somebody reads it from its real beginning
			lifted := bytes.Clone(p.RecordBatches)
			binary.BigEndian.PutUint64(lifted, uint64(base))
			batch.Store(lifted)
		}
		p.RecordBatches, p.ErrorCode, p.LogStartOffset, p.HighWatermark, p.LastStableOffset = nil, 0, base, base+3, base+3
		if lifted, there := batch.Load().([]byte); there {
			p.RecordBatches = lifted
		}
	})
	m, err := NewMarshaler("lifter", "lifter", b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(b.t)))
	require.NoError(b.t, err)
	b.consumer(m, ConsumerOptions{}, "t")
	eventually(b.t, "a batch", func() bool { return batch.Load() != nil })
	m.Terminate()
}

// Offsets beyond 32 and 53 bits, up to the last there can be, are handed out and committed as they are.
func TestC45OffsetsAtTheEdgesOfTheirRange(t *testing.T) {
	t.Parallel()
	for _, base := range []int64{1<<31 - 2, 1<<31 + 5, 1<<32 - 1, 1<<53 + 1, math.MaxInt64 - 3} {
		t.Run(fmt.Sprint(base), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.lift(base)
			m := b.marshaler("a")
			b.set(m, "t", 0, base)
			c := b.consumer(m, ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t")
			for i := range int64(3) {
				msg, err := c.FetchMessage(within(t, patience))
				require.NoError(t, err)
				require.Equal(t, base+i, msg.Offset)
				require.Equal(t, fmt.Sprint(i), string(msg.Value))
				require.NoError(t, c.CommitMessages(within(t, patience), msg))
				at, _ := c.Position("t", 0)
				require.Equal(t, base+i+1, at)
			}
			b.committedAt("t", 0, base+3)
			assert.Equal(t, base+3, keyOf(m, "t", 0).Next)
			assert.Zero(t, c.Lag())
			_, err := c.FetchMessage(within(t, 50*time.Millisecond))
			require.Error(t, err, "nothing twice")
			m.Terminate()
			next := b.marshaler("b")
			assert.Equal(t, base+3, keyOf(next, "t", 0).Next)
		})
	}
}

// What no position can be is skipped and told; the highest that can be is one like any other, and who stands there is out of range.
func TestC45PositionsThatNoneCanBeAreSkipped(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.one("t", 10)
	b.strangers("positions that no member writes")
	log, seen := logged(t)
	p := b.marshaler("p", WithLogger(log))
	k := lease.Key{Topic: "t"}
	a := b.forge(1)
	a.join("a")
	epoch := a.claim(k)
	read := func(at int64) { eventually(t, "it is read", func() bool { return p.State().Offset >= at }) }
	read(a.beatAt(k, epoch, 5))
	for _, next := range []int64{-1, -2, math.MinInt64, math.MinInt64 + 1} {
		read(a.beatAt(k, epoch, next))
		require.EqualValues(t, 5, keyOf(p, "t", 0).Next, "%d", next)
	}
	whole := appendRecord(nil, &lease.Record{Kind: lease.KindHeartbeat, Version: lease.WireVersion, Instance: a.id, Seq: a.seq + 1, Heartbeat: lease.Heartbeat{
		P: -1, Topics: []lease.TopicProgress{{Topic: "t", Partitions: []int32{0}, Epochs: []int64{epoch}, Next: []int64{math.MaxInt64}}},
	}})
	at := bytes.Index(whole, []byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f})
	require.Positive(t, at)
	long := slices.Insert(bytes.Clone(whole), at, 0xff, 0xff) // more digits than 64 bits have
	b.scribble(long)
	eventually(t, "told", func() bool { return seen.has("warning", "somebody else writes") })
	require.EqualValues(t, 5, keyOf(p, "t", 0).Next)

	read(a.beatAt(k, epoch, math.MaxInt64))
	require.EqualValues(t, int64(math.MaxInt64), keyOf(p, "t", 0).Next)
	a.write(lease.Record{Kind: lease.KindLeave})
	c := b.consumer(p, ConsumerOptions{}, "t")
	heard := listen(t, c)
	got := collect(t, c)
	eventually(t, "all that is there", func() bool { return got.count() == 10 })
	assert.EqualValues(t, 0, heard.wait(t, OffsetChanged).Offset)
	b.committedAt("t", 0, 10)
}

// Only an answer about the partition says that nothing is committed. Until there is one the claim is held, and nothing is handed out.
func TestC47AnAnswerThatSaysNothingOfAnOffsetIsNotTakenForNone(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]StartOffset{"earliest": StartEarliest, "latest": StartLatest} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.one("t", 800)
			m := b.marshaler("a", WithLease(600*time.Millisecond, 0))
			b.set(m, "t", 0, 700)
			steps := []func(r *kmsg.OffsetFetchResponse, g *kmsg.OffsetFetchResponseGroup){
				func(r *kmsg.OffsetFetchResponse, g *kmsg.OffsetFetchResponseGroup) {
					r.ErrorCode, g.ErrorCode = kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorLoadInProgress.Code
				},
				func(r *kmsg.OffsetFetchResponse, g *kmsg.OffsetFetchResponseGroup) {
					r.ErrorCode, g.ErrorCode = kerr.NotCoordinator.Code, kerr.NotCoordinator.Code
				},
				func(*kmsg.OffsetFetchResponse, *kmsg.OffsetFetchResponseGroup) {}, // with nothing in it
				func(r *kmsg.OffsetFetchResponse, g *kmsg.OffsetFetchResponseGroup) { // of another partition
					r.Topics = []kmsg.OffsetFetchResponseTopic{{Topic: "t", Partitions: []kmsg.OffsetFetchResponseTopicPartition{{Partition: 1, Offset: -1}}}}
					g.Topics = []kmsg.OffsetFetchResponseGroupTopic{{Topic: "t", Partitions: []kmsg.OffsetFetchResponseGroupTopicPartition{{Partition: 1, Offset: -1}}}}
				},
				func(r *kmsg.OffsetFetchResponse, g *kmsg.OffsetFetchResponseGroup) { // of another group
					g.Group, r.ErrorCode = "another", kerr.NotCoordinator.Code
				},
				func(r *kmsg.OffsetFetchResponse, g *kmsg.OffsetFetchResponseGroup) {
					code := kerr.UnstableOffsetCommit.Code
					r.Topics = []kmsg.OffsetFetchResponseTopic{{Topic: "t", Partitions: []kmsg.OffsetFetchResponseTopicPartition{{Offset: -1, ErrorCode: code}}}}
					g.Topics = []kmsg.OffsetFetchResponseGroupTopic{{Topic: "t", Partitions: []kmsg.OffsetFetchResponseGroupTopicPartition{{Offset: -1, ErrorCode: code}}}}
				},
			}
			var step atomic.Int64
			var last atomic.Bool // the one that lasts, until the test has looked
			b.Kfake().ControlKey(int16(kmsg.OffsetFetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
				b.Kfake().KeepControl()
				n := int(step.Add(1)) - 1
				if n >= len(steps) {
					if last.Load() {
						return nil, nil, false
					}
					n = len(steps) - 1
				}
				r := req.ResponseKind().(*kmsg.OffsetFetchResponse)
				g := kmsg.NewOffsetFetchResponseGroup()
				g.Group = testGroup
				steps[n](r, &g)
				if r.Version >= 8 {
					r.ErrorCode, r.Topics, r.Groups = 0, nil, []kmsg.OffsetFetchResponseGroup{g}
				}
				return r, nil, true
			})
			var wg sync.WaitGroup
			if start == StartLatest { // NewConsumer asks already, and waits for an answer: what it gives is the end of the trouble
				wg.Go(func() {
					assert.Eventually(t, func() bool { return int(step.Load()) > len(steps)+1 }, patience, time.Millisecond)
					last.Store(true)
				})
			}
			c := b.consumer(m, ConsumerOptions{StartOffset: start}, "t")
			wg.Wait()
			k := collect(t, c)
			if start == StartLatest {
				eventually(t, "the messages", func() bool { return k.count() == 100 })
				assert.Equal(t, upTo(800)[700:], k.offsets("t", 0))
				return
			}
			eventually(t, "each answer, and the last again", func() bool { return int(step.Load()) > len(steps)+1 })
			held := keyOf(m, "t", 0)
			eventually(t, "a lease and more", func() bool { return m.trusted() && m.State().Offset > held.Epoch+8 })
			assert.Equal(t, held.Epoch, keyOf(m, "t", 0).Epoch, "it is held meanwhile")
			assert.Equal(t, m.instance.String(), keyOf(m, "t", 0).Instance)
			assert.Zero(t, k.count(), "nothing is handed out meanwhile")
			last.Store(true)
			eventually(t, "the messages", func() bool { return k.count() == 100 })
			assert.Equal(t, upTo(800)[700:], k.offsets("t", 0))
		})
	}
}
