package marshal

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// buffered sums up what is decoded and not handed out, and tells of how many partitions there is something.
func buffered(c *Consumer) (bytes, of int) {
	for _, cl := range c.running() {
		for _, p := range cl.partitions() {
			p.mu.Lock()
			bytes += p.queued
			if p.queued > 0 {
				of++
			}
			p.mu.Unlock()
		}
	}
	return bytes, of
}

func TestMemoryIsBoundedWhenNobodyReadsHoweverManyPartitions(t *testing.T) {
	const partitions, limit = 32, 4 << 20
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", partitions, nil))
	for p := range int32(partitions) {
		_, err := b.Fill("t", p, 2000, 1000) // four batches of half a MiB
		require.NoError(t, err)
	}
	before := heap()
	c := b.consumer(b.marshaler("a"), ConsumerOptions{MaxBufferedBytes: limit, MaxWait: 50 * time.Millisecond, DrainTimeout: time.Millisecond}, "t")
	most := 0
	var quiet time.Time
	eventually(t, "a buffer that is full", func() bool {
		now, _ := buffered(c)
		if now > most || now == 0 {
			most, quiet = now, time.Now()
		}
		return time.Since(quiet) > time.Second
	})
	bytes, of := buffered(c)
	grown := heap() - before
	t.Logf("%d bytes buffered of %d partitions, heap grown by %d", bytes, of, grown)
	const batch = 530 * 1020
	assert.LessOrEqual(t, bytes, limit+3*batch, "one of each of the two connections, and one that was let past")
	assert.LessOrEqual(t, grown, int64(limit+3*batch+otherHeap))
	k, _ := readAll(t, c)
	eventually(t, "all, once somebody reads", func() bool { return k.count() == 2000*partitions })
}

func TestPartitionsThatStandStillWithAFullBufferDoNotStarveTheOthers(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 16, nil))
		for p := range int32(16) {
			_, err := b.Fill("t", p, 2000, 1000)
			require.NoError(t, err)
		}
		const limit = 2 << 20
		c := b.consumer(b.marshaler("a"), ConsumerOptions{ClaimEntireTopic: whole, MaxInFlight: 600, MaxBufferedBytes: limit, MaxWait: 50 * time.Millisecond, DrainTimeout: time.Millisecond}, "t")
		var held []*Message
		var mu sync.Mutex
		k := collectBut(t, c, func(m *Message) bool {
			mu.Lock()
			defer mu.Unlock()
			if m.Partition < 12 {
				held = append(held, m)
			}
			return m.Partition < 12
		})
		eventually(t, "the others", func() bool { return k.count() >= 12*600+4*2000 })
		bytes, _ := buffered(c)
		assert.LessOrEqual(t, bytes, limit+3*530*1020)
		mu.Lock()
		for _, m := range held {
			require.NoError(t, m.Commit())
		}
		mu.Unlock()
		eventually(t, "some of those that stood still", func() bool { return k.count() >= 12*1200+4*2000 })
		for p := range int32(16) {
			got := k.offsets("t", p)
			assert.Equal(t, upTo(int64(len(got))), got, "in order, without a gap")
		}
	})
}

func TestValidateNamesEachBadField(t *testing.T) {
	t.Parallel()
	huge := math.MaxInt
	if strconv.IntSize == 32 {
		huge = -1 // no int is too large there
	}
	for name, bad := range map[string][]ConsumerOptions{
		"MaximumClaims":    {{MaximumClaims: -1}, {MaximumClaims: huge}},
		"Weight":           {{Weight: -1}, {Weight: 1001}},
		"StartOffset":      {{StartOffset: -2}},
		"OnOutOfRange":     {{OnOutOfRange: -1}, {OnOutOfRange: 3}},
		"MaxInFlight":      {{MaxInFlight: -1}, {MaxInFlight: 1_000_001}},
		"MaxBufferedBytes": {{MaxBufferedBytes: 1023}, {MaxBufferedBytes: huge}},
		"MaxBatchBytes":    {{MaxBatchBytes: 1023}, {MaxBatchBytes: huge}},
		"MinBytes":         {{MinBytes: -1}},
		"MaxBytes":         {{MaxBytes: 1023}, {MaxBytes: huge}, {MinBytes: 5000, MaxBytes: 4999}},
		"MaxWait":          {{MaxWait: -1}, {MaxWait: time.Microsecond}, {MaxWait: 61 * time.Second}},
		"IsolationLevel":   {{IsolationLevel: -1}, {IsolationLevel: 2}},
		"CommitInterval":   {{CommitInterval: -1}, {CommitInterval: 9 * time.Millisecond}, {CommitInterval: 61 * time.Second}},
		"DrainTimeout":     {{DrainTimeout: -1}, {DrainTimeout: 61 * time.Minute}},
		"RestartGrace":     {{RestartGrace: -1}, {RestartGrace: 61 * time.Minute}},
		"WatchInterval":    {{WatchInterval: -1}, {WatchInterval: 9 * time.Millisecond}, {WatchInterval: 61 * time.Minute}},
		"LagInterval":      {{LagInterval: -1}, {LagInterval: 61 * time.Minute}},
		"RetryBackoffMin":  {{RetryBackoffMin: -1}, {RetryBackoffMin: 61 * time.Second}},
		"RetryBackoffMax":  {{RetryBackoffMax: -1}, {RetryBackoffMin: 2 * time.Second, RetryBackoffMax: time.Second}},
	} {
		for _, o := range bad {
			err := o.Validate()
			if assert.Error(t, err, "%s %+v", name, o) {
				assert.Contains(t, err.Error(), "marshal: "+name+" is ", "%+v", o)
				assert.NotContains(t, err.Error(), "\n", "nothing else is wrong: %+v", o)
			}
		}
	}
	err := ConsumerOptions{Weight: -1, MaxWait: -1, StartOffset: -9}.Validate()
	for _, name := range []string{"Weight", "MaxWait", "StartOffset"} {
		assert.ErrorContains(t, err, name, "all of them at once")
	}
	assert.NoError(t, ConsumerOptions{}.Validate())
}

func TestTheZeroOptionsAreTheDefaults(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	m := b.marshaler("a")
	c, err := m.NewConsumer([]string{"t"}, ConsumerOptions{})
	require.NoError(t, err)
	assert.Equal(t, NewConsumerOptions(), c.Options())
	v := reflect.ValueOf(NewConsumerOptions())
	for i := range v.NumField() { // a number that is 0 by default means something of its own
		name, f := v.Type().Field(i).Name, v.Field(i)
		if f.Kind() != reflect.Bool && !strings.Contains("MaximumClaims StartOffset OnOutOfRange IsolationLevel StallTimeout", name) {
			assert.NotZero(t, f.Interface(), name)
		}
	}
}

func TestWeightsAreTheProportionOfTheShares(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		topics, partitions := 1, int32(12)
		if whole {
			topics, partitions = 12, 1
		}
		var names []string
		for i := range topics {
			names = append(names, fmt.Sprint("t", i))
			require.NoError(t, b.CreateTopic(names[i], partitions, nil))
		}
		m1, m2, m3 := b.marshaler("a"), b.marshaler("b"), b.marshaler("c")
		b.consumer(m1, ConsumerOptions{ClaimEntireTopic: whole, Weight: 3}, names...)
		b.consumer(m2, ConsumerOptions{ClaimEntireTopic: whole, Weight: 2}, names...)
		b.consumer(m3, ConsumerOptions{ClaimEntireTopic: whole}, names...)
		eventually(t, "six, four, two", func() bool { return holds(m1) == 6 && holds(m2) == 4 && holds(m3) == 2 })
	})
}

func TestMaximumClaimsCountsTopicsThatAreClaimedAsAWhole(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t", "u", "v")
	m1, m2 := b.marshaler("a"), b.marshaler("b")
	o := ConsumerOptions{ClaimEntireTopic: true, MaximumClaims: 1}
	b.consumer(m1, o, "t", "u", "v")
	b.consumer(m2, o, "t", "u", "v")
	eventually(t, "one each", func() bool { return holds(m1) == 1 && holds(m2) == 1 })
	eventually(t, "one that nobody may have", func() bool {
		free := 0
		for _, k := range m1.State().Keys {
			if k.Instance == "" && strings.Contains(k.Why, "maximum") {
				free++
			}
		}
		return free > 0
	})
	m1.Terminate()
	eventually(t, "the other has its one", func() bool { return holds(m2) == 1 })
	assert.Equal(t, 1, holds(m2))
}

func TestGreedyClaimsTakeAllThatIsFreeAndKeepIt(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t, "t", "u")
		all := 8
		if whole {
			all = 2
		}
		m1, m2 := b.marshaler("a"), b.marshaler("b")
		b.consumer(m1, ConsumerOptions{ClaimEntireTopic: whole, GreedyClaims: true}, "t", "u")
		eventually(t, "all", func() bool { return holds(m1) == all })
		c2 := b.consumer(m2, ConsumerOptions{ClaimEntireTopic: whole}, "t", "u")
		eventually(t, "the other, with heartbeats", func() bool {
			s := m1.State()
			return len(s.Instances) == 2 && s.Instances[1].LastHeartbeat.After(time.Now().Add(-testTTL))
		})
		require.NoError(t, b.CreateTopic("v", 2, nil))
		m3 := b.marshaler("c")
		b.consumer(m3, ConsumerOptions{ClaimEntireTopic: whole}, "v")
		eventually(t, "the group has gone on", func() bool { return holds(m3) > 0 })
		assert.Equal(t, all, holds(m1), "nothing is balanced away")
		m1.Terminate()
		eventually(t, "all at the other", func() bool { return holds(m2) == all })
		assert.True(t, c2.Terminate(true))
	})
}

func TestLimitsInFlightArePerPartitionInWholeTopicsToo(t *testing.T) {
	t.Parallel()
	for _, strict := range []bool{false, true} {
		b := newBench(t, "t")
		b.fill("t", 4, 0, 50)
		o := ConsumerOptions{ClaimEntireTopic: true, MaxInFlight: 5, StrictOrdering: strict, DrainTimeout: time.Millisecond}
		c := b.consumer(b.marshaler("a"), o, "t")
		most := 5
		if strict {
			most = 1
		}
		assert.Equal(t, most, c.Options().MaxInFlight)
		inFlight := map[int32]int{}
		var got []*Message
		ctx := within(t, patience)
		for range 4 * most {
			m, err := c.FetchMessage(ctx)
			require.NoError(t, err)
			inFlight[m.Partition]++
			got = append(got, m)
		}
		assert.Equal(t, map[int32]int{0: most, 1: most, 2: most, 3: most}, inFlight)
		_, err := c.FetchMessage(within(t, 50*time.Millisecond))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, got[0].Commit())
		m, err := c.FetchMessage(ctx)
		require.NoError(t, err)
		assert.Equal(t, got[0].Partition, m.Partition)
		assert.EqualValues(t, most, m.Offset)
	}
}

func TestWhatAFetchAsksForIsWhatTheOptionsSay(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	asked := make(chan kmsg.FetchRequest, 1000)
	b.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Observe: true, Count: -1, When: func(r kmsg.Request) bool {
		select {
		case asked <- *r.(*kmsg.FetchRequest):
		default:
		}
		return true
	}})
	b.consumer(b.marshaler("a"), ConsumerOptions{MaxWait: 234 * time.Millisecond, MinBytes: 12, MaxBytes: 34567}, "t")
	for { // the first ones of a partition that begins do not wait
		select {
		case r := <-asked:
			assert.EqualValues(t, 12, r.MinBytes)
			assert.EqualValues(t, 34567, r.MaxBytes)
			assert.EqualValues(t, 0, r.IsolationLevel)
			if r.MaxWaitMillis == 234 {
				return
			}
			assert.Less(t, r.MaxWaitMillis, int32(234))
		case <-time.After(patience):
			require.Fail(t, "no long poll")
		}
	}
}

func TestMinBytesAreWaitedForUpToMaxWait(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	c := b.consumer(b.marshaler("a"), ConsumerOptions{MinBytes: 10_000, MaxWait: 700 * time.Millisecond}, "t")
	k, _ := readAll(t, c)
	asked := b.asked(kmsg.Fetch, "t")
	eventually(t, "a long poll", func() bool { return asked() > 2 })
	b.fill("t", 1, 0, 1)
	eventually(t, "one that is alone, when the time is over", func() bool { return k.count() == 1 })
	_, err := b.Fill("t", 0, 20, 1000)
	require.NoError(t, err)
	eventually(t, "enough", func() bool { return k.count() == 21 })
}

func TestCommitIntervalIsHowSoonAPositionIsInBothPlaces(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 1, nil))
		b.fill("t", 1, 0, 10)
		m := b.marshaler("a", WithLease(30*time.Second, 6*time.Second)) // heartbeats of their own are no help
		c := b.consumer(m, ConsumerOptions{ClaimEntireTopic: whole, CommitInterval: 50 * time.Millisecond}, "t")
		for want := range int64(3) {
			msg, err := c.FetchMessage(within(t, patience))
			require.NoError(t, err)
			require.NoError(t, msg.Commit())
			begin := time.Now()
			eventually(t, "both", func() bool {
				at, _, _ := b.Committed(testGroup, "t", 0)
				return at == want+1 && m.State().Keys[0].at(0) == want+1
			})
			assert.Less(t, time.Since(begin), 3*time.Second)
		}
	})
}

func TestALongCommitIntervalIsKept(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	m := b.marshaler("a")
	commits := b.asked(kmsg.OffsetCommit, "t")
	c := b.consumer(m, ConsumerOptions{CommitInterval: time.Minute}, "t")
	msg, err := c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	require.NoError(t, msg.Commit())
	since := m.State().Instances[0].LastHeartbeat
	eventually(t, "heartbeats", func() bool { return m.State().Instances[0].LastHeartbeat.Sub(since) > time.Second })
	assert.Zero(t, commits())
	require.NoError(t, c.Flush(within(t, patience)))
	assert.EqualValues(t, 1, commits())
}

func TestWatchIntervalIsHowOftenTopicsAreAskedFor(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t", "u")
	m := b.marshaler("a")
	often, never := b.asked(kmsg.Metadata, "t"), b.asked(kmsg.Metadata, "u")
	b.consumer(m, ConsumerOptions{WatchInterval: 20 * time.Millisecond}, "t")
	k, _ := readAll(t, b.consumer(m, ConsumerOptions{WatchInterval: time.Hour}, "u"))
	eventually(t, "claims", func() bool { return holds(m) == 8 })
	b.fill("u", 4, 0, 1)
	eventually(t, "messages", func() bool { return k.count() == 4 })
	at := often()
	before := never()
	eventually(t, "many looks", func() bool { return often() >= at+20 })
	assert.Equal(t, before, never(), "nothing is missing, so nobody looks")
}

func TestSeveralTopicsInOneConsumer(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		for i, topic := range []string{"one", "two", "three"} {
			require.NoError(t, b.CreateTopic(topic, int32(i+1), nil))
			b.fill(topic, int32(i+1), 0, 10)
		}
		m1, m2 := b.marshaler("a"), b.marshaler("b")
		o := ConsumerOptions{ClaimEntireTopic: whole, IsolationLevel: sarama.ReadCommitted}
		k1, _ := readAll(t, b.consumer(m1, o, "one", "two", "three"))
		k2, _ := readAll(t, b.consumer(m2, o, "three", "one", "two"))
		eventually(t, "all", func() bool { return k1.count()+k2.count() >= 60 })
		keys := 6
		if whole {
			keys = 3
		}
		eventually(t, "shared out", func() bool { return holds(m1)+holds(m2) == keys && holds(m1) >= keys/2 && holds(m2) >= keys/2 })
	})
}
