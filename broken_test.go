package marshal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/batch"
	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/testutil"
)

// What a log can have that a reader would rather not see: holes, batches that cannot be read, records of any size, and missing rights.

// problems reads a consumer in the background, commits what it reads, and remembers the problems of partitions too.
type problems struct {
	mu   sync.Mutex
	errs []*PartitionError
	at   []time.Time
}

func (s *problems) add(t testing.TB, err error) {
	var e *PartitionError
	if !assert.ErrorAs(t, err, &e) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.errs = append(s.errs, e)
	s.at = append(s.at, time.Now())
}

func (s *problems) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.errs)
}

func (s *problems) first() *PartitionError {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.errs) == 0 {
		return nil
	}
	return s.errs[0]
}

// closest is the shortest time between two; they are of one partition.
func (s *problems) closest() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	least := time.Hour
	for i := 1; i < len(s.at); i++ {
		least = min(least, s.at[i].Sub(s.at[i-1]))
	}
	return least
}

// readAll reads and commits until the test ends, and gives what it read and what went wrong.
func readAll(t testing.TB, c *Consumer) (*collector, *problems) {
	k, s := &collector{seen: map[string][]int64{}, tokens: map[string][]int64{}}, &problems{}
	ctx := within(t, time.Hour)
	k.cancel = func() {}
	k.wg.Go(func() {
		for m, err := range c.Messages(ctx) {
			if err != nil {
				s.add(t, err)
				continue
			}
			k.mu.Lock()
			name := fmt.Sprintf("%s/%d", m.Topic, m.Partition)
			k.seen[name] = append(k.seen[name], m.Offset)
			k.total++
			k.mu.Unlock()
			_ = m.Commit() // a claim that is lost is another test's matter
		}
	})
	return k, s
}

// inBothModes runs a test with claims of partitions and with claims of whole topics.
func inBothModes(t *testing.T, test func(t *testing.T, whole bool)) {
	for _, whole := range []bool{false, true} {
		t.Run(map[bool]string{false: "partitions", true: "whole"}[whole], func(t *testing.T) {
			t.Parallel()
			test(t, whole)
		})
	}
}

func TestHolesOfACompactedLogArePassedAndLagReachesZero(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 2, nil))
		for i := range 6 { // batches of four
			b.fill("t", 2, 4*i, 4)
		}
		left := map[int64]bool{
			2: true, 3: true, // the first lacks its beginning
			4: true, 7: true, // the second its middle
			8: true, 9: true, // the third its end
			16: true, 17: true, 18: true, 19: true, // the fourth is hollow, the fifth as it was
		} // and the last is hollow too
		for p := range int32(2) {
			b.OnBatch("t", p, func(batch []byte) []byte {
				return testutil.Compact(batch, func(offset int64) bool { return left[offset] })
			})
		}
		c := b.consumer(b.marshaler("a"), ConsumerOptions{ClaimEntireTopic: whole, CommitInterval: 20 * time.Millisecond}, "t")
		k, _ := readAll(t, c)
		eventually(t, "what is left", func() bool { return k.count() == 20 })
		for p := range int32(2) {
			assert.Equal(t, []int64{2, 3, 4, 7, 8, 9, 16, 17, 18, 19}, k.offsets("t", p))
		}
		eventually(t, "no lag", func() bool { return c.Lag() == 0 })
		eventually(t, "the position behind the hollow end, in Kafka", func() bool {
			at0, _, _ := b.Committed(testGroup, "t", 0)
			at1, _, _ := b.Committed(testGroup, "t", 1)
			return at0 == 24 && at1 == 24
		})
	})
}

func TestAHoleIsNotPassedBeforeWhatLiesInFrontIsFinished(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 4)
	b.fill("t", 1, 4, 4)
	b.OnBatch("t", 0, func(batch []byte) []byte {
		return testutil.Compact(batch, func(offset int64) bool { return offset == 1 })
	})
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	msg, err := c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	require.EqualValues(t, 1, msg.Offset)
	require.NoError(t, c.Flush(within(t, patience)))
	assert.LessOrEqual(t, m.State().Keys[0].Next, int64(1))
	require.NoError(t, msg.Commit())
	require.NoError(t, c.Flush(within(t, patience)))
	eventually(t, "the end", func() bool { return m.State().Keys[0].Next == 8 })
}

// reseal puts the checksum in that belongs to the bytes of a batch.
func reseal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[17:], crc32.Checksum(b[21:], crc32.MakeTable(crc32.Castagnoli)))
	return b
}

// brokenAt changes the batch at an offset.
func brokenAt(offset uint64, change func([]byte) []byte) func([]byte) []byte {
	return func(b []byte) []byte {
		if binary.BigEndian.Uint64(b) == offset {
			return change(b)
		}
		return b
	}
}

func TestABatchThatCannotBeReadStopsItsPartitionAloneUntilTheCauseIsGone(t *testing.T) {
	t.Parallel()
	for name, what := range map[string]struct {
		change func([]byte) []byte
		is     error
	}{
		"checksum":        {func(b []byte) []byte { b[len(b)-1] ^= 1; return b }, batch.ErrChecksum},
		"unknown codec":   {func(b []byte) []byte { b[22] |= 7; return reseal(b) }, batch.ErrCodec},
		"older format":    {func(b []byte) []byte { b[16] = 1; return b }, batch.ErrMagic},
		"makes no sense":  {func(b []byte) []byte { b[57] = 0xff; return reseal(b) }, batch.ErrMalformed},
		"broken snappy":   {func(b []byte) []byte { b[22] |= 2; return reseal(b) }, batch.ErrMalformed},
		"negative length": {func(b []byte) []byte { copy(b[8:], []byte{0xff, 0xff, 0xff, 0xf0}); return b }, batch.ErrMalformed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "t")
			b.fill("t", 4, 0, 10)
			b.fill("t", 4, 10, 10)
			b.fill("t", 4, 20, 10)
			remove := b.OnBatch("t", 1, brokenAt(10, what.change))
			log, seen := logged(t)
			c := b.consumer(b.marshaler("a", WithLogger(log)), ConsumerOptions{RetryBackoffMax: 200 * time.Millisecond}, "t")
			k, p := readAll(t, c)
			eventually(t, "the others, and what is before it", func() bool { return k.count() == 100 })
			eventually(t, "the problem, more than once", func() bool { return p.count() >= 2 })
			e := p.first()
			assert.Equal(t, PartitionError{Topic: "t", Partition: 1, Offset: 10, Err: e.Err}, *e)
			assert.ErrorIs(t, e, what.is)
			assert.Contains(t, e.Error(), "t/1 at offset 10")
			assert.GreaterOrEqual(t, p.closest(), 900*time.Millisecond, "at most one a second")
			assert.EqualValues(t, 20, c.Lag())
			eventually(t, "a line in the log", func() bool { return seen.has("warning", "t/1 cannot be read at offset 10") })
			remove()
			eventually(t, "the rest", func() bool { return k.count() == 120 })
			assert.Equal(t, upTo(30), k.offsets("t", 1))
		})
	}
}

// A batch whose checksum is right may hold a record that makes no sense. It shows only when it is to be handed out.
func TestARecordThatCannotBeReadStopsItsPartitionThereUntilTheCauseIsGone(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t, "t")
		b.fill("t", 4, 0, 10)
		b.fill("t", 4, 10, 10)
		b.fill("t", 4, 20, 10)
		remove := b.OnBatch("t", 1, brokenAt(10, func(b []byte) []byte {
			third := 61
			for range 2 {
				third += 1 + int(b[third]>>1)
			}
			b[third+3] = 0 // its offset is that of the first
			return reseal(b)
		}))
		c := b.consumer(b.marshaler("a"), ConsumerOptions{ClaimEntireTopic: whole, RetryBackoffMax: 200 * time.Millisecond}, "t")
		k, p := readAll(t, c)
		eventually(t, "the others, and what is before it", func() bool { return k.count() == 102 })
		eventually(t, "the problem, more than once", func() bool { return p.count() >= 2 })
		e := p.first()
		assert.Equal(t, PartitionError{Topic: "t", Partition: 1, Offset: 12, Err: e.Err}, *e)
		assert.ErrorIs(t, e, batch.ErrMalformed)
		assert.GreaterOrEqual(t, p.closest(), 900*time.Millisecond, "at most one a second")
		assert.EqualValues(t, 18, c.Lag())
		remove()
		eventually(t, "the rest", func() bool { return k.count() == 120 })
		assert.Equal(t, upTo(30), k.offsets("t", 1))
	})
}

func TestABatchThatCannotBeReadIsAskedForLessAndLess(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	b.OnBatch("t", 0, brokenAt(0, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }))
	var asked atomic.Int64
	b.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Observe: true, Count: -1, When: func(kmsg.Request) bool { asked.Add(1); return true }})
	c := b.consumer(b.marshaler("a"), ConsumerOptions{RetryBackoffMin: 10 * time.Millisecond, RetryBackoffMax: time.Second}, "t")
	_, p := readAll(t, c)
	eventually(t, "the problem, three times", func() bool { return p.count() >= 3 })
	assert.Less(t, asked.Load(), int64(30), "10, 20, 40 … 1,000 ms")
}

func TestABatchThatIsTooLargeDecompressedIsLeftBehindOnceTheLogStartsBehindIt(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 2, nil))
		b.fill("t", 2, 0, 5)
		b.compressed("t", 0, sarama.CompressionGZIP, bytes.Repeat([]byte("a"), 500_000))
		b.fill("t", 2, 5, 5)
		c := b.consumer(b.marshaler("a"), ConsumerOptions{ClaimEntireTopic: whole, MaxBatchBytes: 100_000, RetryBackoffMax: 100 * time.Millisecond}, "t")
		k, p := readAll(t, c)
		eventually(t, "the problem", func() bool { return p.count() >= 1 })
		assert.ErrorIs(t, p.first(), batch.ErrTooLarge)
		assert.EqualValues(t, 5, p.first().Offset)
		eventually(t, "the other, and what is before it", func() bool { return k.count() == 15 })
		require.NoError(t, b.DeleteRecords("t", 0, 6))
		eventually(t, "what is behind it", func() bool { return k.count() == 20 })
		assert.Equal(t, []int64{0, 1, 2, 3, 4, 6, 7, 8, 9, 10}, k.offsets("t", 0))
		eventually(t, "no lag", func() bool { return c.Lag() == 0 })
	})
}

func TestAProblemReachesAReaderThatAlwaysHasSomethingToRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 2, nil))
	b.fill("t", 2, 0, 1000)
	b.OnBatch("t", 1, brokenAt(0, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }))
	c := b.consumer(b.marshaler("a"), ConsumerOptions{DrainTimeout: time.Millisecond}, "t")
	msg, err := c.FetchMessage(within(t, patience))
	for err != nil { // the broken one began first
		msg, err = c.FetchMessage(within(t, patience))
	}
	require.Zero(t, msg.Partition)
	eventually(t, "a problem", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return len(c.problems) > 0 })
	_, err = c.FetchMessage(within(t, patience))
	var problem *PartitionError
	require.ErrorAs(t, err, &problem, "though 999 messages are there")
	assert.EqualValues(t, 1, problem.Partition)
	msg, err = c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	assert.EqualValues(t, 1, msg.Offset)
}

func TestBatchesAndTheChannelGoOnBesideABrokenPartition(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	remove := b.OnBatch("t", 1, brokenAt(0, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }))
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{RetryBackoffMax: 100 * time.Millisecond}, "t")
	got, failed := 0, 0
	for batch, err := range c.Batches(within(t, patience)) {
		if err != nil {
			var e *PartitionError
			require.ErrorAs(t, err, &e)
			failed++
		} else {
			got += len(batch.Messages)
			require.NoError(t, batch.Commit())
		}
		if got == 30 && failed > 0 {
			break
		}
	}
	b.fill("t", 4, 10, 5)
	ch := c.ConsumeChannel()
	for range 15 {
		require.NoError(t, (<-ch).Commit())
	}
	remove()
	for want := range int64(15) {
		msg := <-ch
		require.Equal(t, want, msg.Offset)
		require.NoError(t, msg.Commit())
	}
}

// compressed writes values as one batch each.
func (b *bench) compressed(topic string, partition int32, codec sarama.CompressionCodec, values ...[]byte) {
	b.t.Helper()
	cfg := b.Config("compressor")
	cfg.Version = sarama.V2_8_0_0
	cfg.Producer.Compression, cfg.Producer.Return.Successes, cfg.Producer.Partitioner = codec, true, sarama.NewManualPartitioner
	p, err := sarama.NewSyncProducer(b.Addrs(), cfg)
	require.NoError(b.t, err)
	defer p.Close()
	for _, v := range values {
		_, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: topic, Partition: partition, Value: sarama.ByteEncoder(v)})
		require.NoError(b.t, err)
	}
}

func TestEveryCodecIsRead(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	var want []string
	for _, codec := range []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP, sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD} {
		v := codec.String() + string(bytes.Repeat([]byte(" again"), 1000))
		b.compressed("t", 0, codec, []byte(v), []byte("short"))
		want = append(want, v, "short")
	}
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	for i := range want {
		msg, err := c.FetchMessage(within(t, patience))
		require.NoError(t, err)
		require.Equal(t, want[i], string(msg.Value))
	}
}

func TestARecordLargerThanEveryLimitButOnePassesAlone(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 4, map[string]string{"max.message.bytes": "8388608"}))
		large := bytes.Repeat([]byte("x"), 3<<20) // more than MaxBytes, MaxBufferedBytes, and what is asked for of one partition
		b.fill("t", 4, 0, 5)
		for p := range int32(2) {
			_, err := b.Produce("t", p, testutil.Message{Value: large})
			require.NoError(t, err)
		}
		b.fill("t", 4, 5, 5)
		k, p := readAll(t, b.consumer(b.marshaler("a"), ConsumerOptions{ClaimEntireTopic: whole, MaxBytes: 1 << 10, MaxBufferedBytes: 1 << 10, MaxWait: 50 * time.Millisecond}, "t"))
		eventually(t, "all", func() bool { return k.count() == 42 })
		for p := range int32(4) {
			n := int64(10)
			if p < 2 {
				n++
			}
			assert.Equal(t, upTo(n), k.offsets("t", p))
		}
		assert.Zero(t, p.count())
	})
}

func TestAMissingRightToReadAPartitionIsTypedAndNotTheEnd(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t, "t")
		b.fill("t", 4, 0, 10)
		h := b.Kfake().Fault(kfake.Fault{Topic: "t", Partitions: []int32{2}, Keys: []kmsg.Key{kmsg.Fetch}, Err: kerr.TopicAuthorizationFailed, Count: -1})
		c := b.consumer(b.marshaler("a"), ConsumerOptions{ClaimEntireTopic: whole, RetryBackoffMax: 100 * time.Millisecond}, "t")
		k, p := readAll(t, c)
		eventually(t, "the others", func() bool { return k.count() == 30 })
		eventually(t, "the problem", func() bool { return p.count() >= 2 })
		assert.ErrorIs(t, p.first(), sarama.ErrTopicAuthorizationFailed)
		assert.EqualValues(t, 2, p.first().Partition)
		assert.Contains(t, p.first().Error(), "not authorized for the topic")
		assert.GreaterOrEqual(t, p.closest(), 900*time.Millisecond)
		h.Remove()
		eventually(t, "all", func() bool { return k.count() == 40 })
	})
}

func TestAMissingRightForATopicFromTheBeginningOnIsToldAndNotTheEnd(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t", "u")
	b.fill("t", 4, 0, 10)
	b.fill("u", 4, 0, 10)
	h := b.Kfake().Fault(kfake.Fault{
		Topic: "t", Keys: []kmsg.Key{kmsg.Metadata, kmsg.Fetch, kmsg.ListOffsets}, Err: kerr.TopicAuthorizationFailed, Count: -1,
	})
	log, seen := logged(t)
	m := b.marshaler("a", WithLogger(log))
	k, _ := readAll(t, b.consumer(m, ConsumerOptions{}, "t", "u"))
	eventually(t, "the other topic", func() bool { return k.count() == 40 })
	eventually(t, "a reason", func() bool { return seen.has("warning", "not authorized for the topic") })
	assert.False(t, seen.has("warning", "topic t does not exist"))
	h.Remove()
	eventually(t, "all", func() bool { return k.count() == 80 })
}

func TestAMissingRightToAskWhereAPartitionBeginsIsTypedAndNotTheEnd(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]kfake.Fault{
		"log":   {Topic: "t", Partitions: []int32{1}, Keys: []kmsg.Key{kmsg.ListOffsets}, Err: kerr.TopicAuthorizationFailed, Count: -1},
		"group": {Group: testGroup, Topic: "t", Partitions: []int32{1}, Keys: []kmsg.Key{kmsg.OffsetFetch}, Err: kerr.TopicAuthorizationFailed, Count: -1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "t")
			b.fill("t", 4, 0, 10)
			set := []kafka.Committed{{Topic: "t", Offset: 0, Metadata: "by hand"}} // no fault is seen by who asks for a group that is not there
			require.NoError(t, b.marshaler("x").c.client.CommitOffsets(within(t, patience), testGroup, set))
			h := b.Kfake().Fault(f)
			k, p := readAll(t, b.consumer(b.marshaler("a"), ConsumerOptions{}, "t"))
			eventually(t, "the others", func() bool { return k.count() == 30 })
			eventually(t, "the problem", func() bool { return p.count() >= 2 })
			assert.ErrorIs(t, p.first(), sarama.ErrTopicAuthorizationFailed)
			assert.EqualValues(t, 1, p.first().Partition)
			assert.GreaterOrEqual(t, p.closest(), 900*time.Millisecond)
			h.Remove()
			eventually(t, "all", func() bool { return k.count() == 40 })
		})
	}
}
