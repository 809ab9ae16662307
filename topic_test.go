package marshal

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/kafka"
)

// The life of a topic: it appears, grows, vanishes, comes back as another, and its log is cut at both ends.

// asked counts the requests of a kind about a topic.
func (b *bench) asked(key kmsg.Key, topic string) func() int {
	return b.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{key}, Topic: topic, Observe: true, Count: -1}).Hits
}

// set commits an offset as a tool does.
func (b *bench) set(m *Marshaler, topic string, partition int32, offset int64) {
	b.t.Helper()
	set := []kafka.Committed{{Topic: topic, Partition: partition, Offset: offset}}
	require.NoError(b.t, m.c.client.CommitOffsets(within(b.t, patience), testGroup, set))
	require.NoError(b.t, set[0].Err)
}

func TestATopicThatAppearsLaterIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		m1, m2 := b.marshaler("a"), b.marshaler("b")
		o := ConsumerOptions{ClaimEntireTopic: whole, StartOffset: StartLatest}
		k1, _ := readAll(t, b.consumer(m1, o, "late", "later"))
		k2, _ := readAll(t, b.consumer(m2, o, "late", "later"))
		require.NoError(t, b.CreateTopic("late", 3, nil))
		b.fill("late", 3, 0, 10)
		eventually(t, "all of the first", func() bool { return k1.count()+k2.count() == 30 })
		require.NoError(t, b.CreateTopic("later", 3, nil))
		b.fill("later", 3, 0, 10)
		eventually(t, "all of the second", func() bool { return k1.count()+k2.count() == 60 })
		keys := 3
		if whole {
			keys = 1
		}
		eventually(t, "a share each", func() bool { return holds(m1) == keys && holds(m2) == keys })
	})
}

func TestATopicThatIsDeletedEndsQuietlyAndIsReadAgainWhenItComesBack(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t, "t", "u")
		b.fill("t", 4, 0, 10)
		b.fill("u", 4, 0, 10)
		log, seen := logged(t)
		m := b.marshaler("a", WithLogger(log))
		c := b.consumer(m, ConsumerOptions{ClaimEntireTopic: whole, CommitInterval: 50 * time.Millisecond, RetryBackoffMax: 500 * time.Millisecond}, "t", "u")
		k, p := readAll(t, c)
		eventually(t, "all", func() bool { return k.count() == 80 })
		asked := b.asked(kmsg.Metadata, "u")
		fetched := b.asked(kmsg.Fetch, "u")
		require.NoError(t, b.DeleteTopic("t"))
		eventually(t, "a warning", func() bool { return seen.has("warning", "topic t does not exist") })
		eventually(t, "the keys given back", func() bool { return holds(m) == 4 || whole && holds(m) == 1 })
		before, lines := asked(), seen.count()
		b.fill("u", 4, 10, 10)
		eventually(t, "the other topic", func() bool { return k.count() == 120 })
		begun := fetched()
		eventually(t, "some polls", func() bool { return fetched() >= begun+3 }) // of 500 ms each
		assert.LessOrEqual(t, asked()-before, 40, "WatchInterval is 100 ms")
		assert.LessOrEqual(t, seen.count()-lines, 10)
		require.NoError(t, b.CreateTopic("t", 5, nil))
		b.fill("t", 5, 0, 7)
		eventually(t, "all of its new life", func() bool { return k.count() == 155 })
		assert.Equal(t, append(upTo(10), upTo(7)...), k.offsets("t", 0))
		assert.Equal(t, upTo(7), k.offsets("t", 4))
		assert.Zero(t, p.count())
		eventually(t, "its offsets in Kafka", func() bool {
			at, _, err := b.Committed(testGroup, "t", 4)
			return err == nil && at == 7
		})
	})
}

func TestWhatIsInHandOfATopicThatIsDeletedIsLost(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 1, nil))
		b.fill("t", 1, 0, 10)
		m := b.marshaler("a")
		c := b.consumer(m, ConsumerOptions{ClaimEntireTopic: whole, DrainTimeout: 50 * time.Millisecond}, "t")
		msg, err := c.FetchMessage(within(t, patience))
		require.NoError(t, err)
		require.NoError(t, b.DeleteTopic("t"))
		eventually(t, "nothing held", func() bool { return holds(m) == 0 })
		require.NoError(t, b.CreateTopic("t", 1, nil))
		b.fill("t", 1, 100, 10)
		for { // what was fetched before the end may still come
			next, err := c.FetchMessage(within(t, patience))
			require.NoError(t, err)
			if next.Token() != msg.Token() {
				assert.Zero(t, next.Offset)
				assert.Equal(t, "100", string(next.Value))
				require.NoError(t, next.Commit())
				break
			}
		}
		assert.ErrorIs(t, msg.Commit(), ErrClaimLost)
	})
}

func TestATopicRecreatedWithFewerPartitionsIsSharedOutAnew(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 6, nil))
		b.fill("t", 6, 0, 10)
		m1, m2 := b.marshaler("a"), b.marshaler("b")
		o := ConsumerOptions{ClaimEntireTopic: whole, CommitInterval: 50 * time.Millisecond}
		k1, _ := readAll(t, b.consumer(m1, o, "t"))
		k2, _ := readAll(t, b.consumer(m2, o, "t"))
		eventually(t, "all", func() bool { return k1.count()+k2.count() == 60 })
		eventually(t, "a share each", func() bool { return holds(m1)+holds(m2) == 6 && holds(m1) == 3 || whole && holds(m1)+holds(m2) == 1 })
		require.NoError(t, b.RecreateTopic("t", 2, nil))
		b.fill("t", 2, 0, 25)
		eventually(t, "all of the new life", func() bool { return k1.count()+k2.count() >= 110 })
		for p := range int32(2) {
			got := append(k1.offsets("t", p), k2.offsets("t", p)...)
			for i := range int64(25) {
				assert.Contains(t, got, i)
			}
		}
		eventually(t, "nobody holds keys that are not there any more", func() bool {
			n := 0
			for _, k := range m1.State().Keys {
				switch {
				case k.Instance == "": // that it was there is told
				case k.Partition >= 2:
					return false
				default:
					n++
				}
			}
			return n == 2 || whole && n == 1
		})
	})
}

func TestATopicRecreatedWhileNobodyRunsBeginsANewLife(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 2, nil))
		b.fill("t", 2, 0, 20)
		m := b.marshaler("a")
		k, _ := readAll(t, b.consumer(m, ConsumerOptions{ClaimEntireTopic: whole}, "t"))
		eventually(t, "all", func() bool { return k.count() == 40 })
		m.Terminate()
		_, metadata, err := b.Committed(testGroup, "t", 0)
		require.NoError(t, err)
		require.NoError(t, b.RecreateTopic("t", 2, nil))
		b.fill("t", 2, 0, 30)

		m2 := b.marshaler("b")
		late := []kafka.Committed{{Topic: "t", Offset: 20, Metadata: metadata}} // that was under way when the topic was deleted
		require.NoError(t, m2.c.client.CommitOffsets(within(t, patience), testGroup, late))
		require.NoError(t, late[0].Err)
		k2, _ := readAll(t, b.consumer(m2, ConsumerOptions{ClaimEntireTopic: whole}, "t"))
		eventually(t, "all of the new life", func() bool { return k2.count() == 60 })
		assert.Equal(t, upTo(30), k2.offsets("t", 0))
		assert.Equal(t, upTo(30), k2.offsets("t", 1))
	})
}

func TestAnOffsetOfTheNewLifeThatSomebodyCommittedIsTaken(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 20)
	m := b.marshaler("a")
	k, _ := readAll(t, b.consumer(m, ConsumerOptions{}, "t"))
	eventually(t, "all", func() bool { return k.count() == 20 })
	m.Terminate()
	require.NoError(t, b.RecreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 30)
	m2 := b.marshaler("b")
	b.set(m2, "t", 0, 12)
	msg, err := b.consumer(m2, ConsumerOptions{}, "t").FetchMessage(within(t, patience))
	require.NoError(t, err)
	assert.EqualValues(t, 12, msg.Offset)
}

func TestALogThatIsCutWhileItIsReadGoesOnBehindTheCut(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 2, nil))
		for range 10 { // batches of ten
			_, err := b.Fill("t", 0, 10, 1000)
			require.NoError(t, err)
		}
		b.fill("t", 2, 100, 10)
		log, seen := logged(t)
		m := b.marshaler("a", WithLogger(log))
		c := b.consumer(m, ConsumerOptions{ClaimEntireTopic: whole, MaxInFlight: 10, MaxBufferedBytes: 1 << 10, MaxBytes: 1 << 10, CommitInterval: 50 * time.Millisecond}, "t")
		var held []*Message
		ctx := within(t, patience)
		for len(held) < 10 {
			msg, err := c.FetchMessage(ctx)
			require.NoError(t, err)
			if msg.Partition == 0 {
				held = append(held, msg)
			} else {
				require.NoError(t, msg.Commit())
			}
		}
		require.NoError(t, b.DeleteRecords("t", 0, 90))
		for _, msg := range held {
			require.NoError(t, msg.Commit())
		}
		k, p := readAll(t, c)
		eventually(t, "what is behind the cut", func() bool { n := len(k.offsets("t", 0)); return n > 0 && k.offsets("t", 0)[n-1] == 109 })
		got := k.offsets("t", 0)
		assert.Contains(t, got, int64(90))
		assert.NotContains(t, got, int64(89), "it was cut off before it was fetched")
		assert.Zero(t, p.count())
		eventually(t, "no lag", func() bool { return c.Lag() == 0 })
		assert.True(t, seen.has("warning", "of t/0 is no longer in the log"))
		eventually(t, "the position in Kafka", func() bool { at, _, _ := b.Committed(testGroup, "t", 0); return at == 110 })
	})
}

// outOfRange is a group that stands at an offset of partition 0 that the log, with 50 to 100, does not have.
func outOfRange(t *testing.T, at int64, whole bool, o ConsumerOptions) (*bench, *Marshaler, *Consumer, *lines) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 2, nil))
	b.fill("t", 2, 0, 100)
	require.NoError(t, b.DeleteRecords("t", 0, 50))
	log, seen := logged(t)
	m := b.marshaler("a", WithLogger(log))
	b.set(m, "t", 0, at)
	o.ClaimEntireTopic, o.RetryBackoffMax, o.CommitInterval = whole, 100*time.Millisecond, 50*time.Millisecond
	return b, m, b.consumer(m, o, "t"), seen
}

func TestAPositionOutOfRange(t *testing.T) {
	t.Parallel()
	for _, where := range []int64{10, 1000} {
		t.Run(fmt.Sprint(where), func(t *testing.T) {
			t.Parallel()
			inBothModes(t, func(t *testing.T, whole bool) {
				t.Run("earliest", func(t *testing.T) {
					t.Parallel()
					b, _, c, seen := outOfRange(t, where, whole, ConsumerOptions{})
					k, p := readAll(t, c)
					eventually(t, "all that is there", func() bool { return len(k.offsets("t", 0)) == 50 && len(k.offsets("t", 1)) >= 100 })
					assert.Equal(t, upTo(100)[50:], k.offsets("t", 0))
					assert.Zero(t, p.count())
					assert.True(t, seen.has("warning", fmt.Sprintf("the position %d of t/0 is", where)))
					eventually(t, "no lag", func() bool { return c.Lag() == 0 })
					eventually(t, "the position in Kafka", func() bool { at, _, _ := b.Committed(testGroup, "t", 0); return at == 100 })
				})
				t.Run("latest", func(t *testing.T) {
					t.Parallel()
					b, _, c, seen := outOfRange(t, where, whole, ConsumerOptions{OnOutOfRange: ResetToLatest})
					k, p := readAll(t, c)
					eventually(t, "a warning", func() bool { return seen.has("warning", fmt.Sprintf("the position %d of t/0 is", where)) })
					eventually(t, "the position in Kafka", func() bool { at, _, _ := b.Committed(testGroup, "t", 0); return at == 100 })
					b.fill("t", 1, 100, 5)
					eventually(t, "what is new", func() bool { return len(k.offsets("t", 0)) == 5 })
					assert.Equal(t, upTo(105)[100:], k.offsets("t", 0))
					assert.Zero(t, p.count())
				})
				t.Run("fail", func(t *testing.T) {
					t.Parallel()
					b, m, c, seen := outOfRange(t, where, whole, ConsumerOptions{OnOutOfRange: FailOutOfRange})
					k, p := readAll(t, c)
					eventually(t, "the other", func() bool { return k.count() == 100 })
					eventually(t, "the problem, more than once", func() bool { return p.count() >= 2 })
					assert.ErrorIs(t, p.first(), kafka.ErrOutOfRange)
					assert.Equal(t, PartitionError{Topic: "t", Offset: where, Err: p.first().Err}, *p.first())
					assert.Contains(t, p.first().Error(), "the log has 50 to 100")
					assert.GreaterOrEqual(t, p.closest(), 900*time.Millisecond)
					assert.Positive(t, c.Lag(), "what cannot be read is not read")
					eventually(t, "a line in the log", func() bool { return seen.has("warning", "t/0 cannot be read") })
					assert.Empty(t, k.offsets("t", 0))
					assert.Equal(t, where, m.State().Keys[0].at(0), "it stays where it is")
					m.Terminate()

					m2 := b.marshaler("b") // the way out: everybody ends, the offset is set, they start again
					b.set(m2, "t", 0, 60)
					k2, p2 := readAll(t, b.consumer(m2, ConsumerOptions{ClaimEntireTopic: whole, OnOutOfRange: FailOutOfRange}, "t"))
					eventually(t, "the rest", func() bool { return k2.count() == 40 })
					assert.Equal(t, upTo(100)[60:], k2.offsets("t", 0))
					assert.Zero(t, p2.count())
				})
			})
		})
	}
}

// at is the position of a partition, in both modes.
func (k KeyState) at(partition int) int64 {
	if k.Parts != nil {
		return k.Parts[partition]
	}
	return k.Next
}

func TestALogThatIsCutBelowThePositionGoesOnWhereItsNewEndIs(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{MaxWait: 50 * time.Millisecond}, "t")
	k, p := readAll(t, c)
	eventually(t, "all", func() bool { return k.count() == 10 })
	var told atomic.Bool
	b.OnFetch("t", 0, func(f *kmsg.FetchResponseTopicPartition) { // an election that lost 8 and 9, after which others got these offsets
		if !told.Swap(true) {
			f.DivergingEpoch.Epoch, f.DivergingEpoch.EndOffset = 0, 8
			f.RecordBatches = nil
		}
	})
	eventually(t, "those that came in their place", func() bool { return k.count() == 12 })
	assert.Equal(t, append(upTo(10), 8, 9), k.offsets("t", 0))
	b.fill("t", 1, 10, 5)
	eventually(t, "what is new", func() bool { return k.count() == 17 })
	assert.Zero(t, p.count())
}
