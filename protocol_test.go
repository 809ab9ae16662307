package marshal

import (
	"encoding/binary"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// Sentences of PROTOCOL.md that belong to the runtime.

// §3: the shard is a constant of the group's name, so these never change.
func TestTheShardOfAGroupFollowsFromItsNameAlone(t *testing.T) {
	for group, shard := range map[string]int32{"": 20, "g": 5, "billing": 23, "grüße": 4} {
		assert.Equal(t, shard, shardOf(group), "%q", group)
	}
}

// §3: "Never grow a topic that holds text records of the original Marshal younger than an hour."
func TestATopicThatTheOriginalUsesIsNotGrown(t *testing.T) {
	text := testutil.Text("Heartbeat/1/1448572397/instance/client/group/topic/3/12345")
	dial := func(b *bench) error {
		c, err := DialContext(within(t, patience), "test", b.Addrs(), WithLogger(testutil.Logger(t)))
		if err == nil {
			c.Terminate()
		}
		return err
	}
	partitions := func(b *bench) int {
		infos := b.Kfake().PartitionInfos(MarshalTopic)
		return len(infos)
	}
	old := map[string]string{"message.timestamp.type": "CreateTime"}

	b := newBench(t)
	require.NoError(t, b.CreateTopic(MarshalTopic, 8, old))
	text.Time = time.Now().Add(-50 * time.Minute)
	_, err := b.Produce(MarshalTopic, 5, text)
	require.NoError(t, err)
	assert.ErrorContains(t, dial(b), "another topic (WithTopic)")
	assert.Equal(t, 8, partitions(b))

	b = newBench(t)
	require.NoError(t, b.CreateTopic(MarshalTopic, 8, old))
	b.strangers("the original's records are what this is about")
	text.Time = time.Now().Add(-70 * time.Minute)
	_, err = b.Produce(MarshalTopic, 5, text)
	require.NoError(t, err)
	require.NoError(t, dial(b))
	assert.Equal(t, 32, partitions(b))
}

// §3: "A process follows only the shards of its own groups", and reads them uncommitted.
func TestAProcessFollowsTheShardsOfItsGroupsAlone(t *testing.T) {
	b := newBench(t)
	var others, committed atomic.Int32
	c, err := Dial("test", b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(t)))
	require.NoError(t, err)
	t.Cleanup(c.Terminate)
	b.Kfake().ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Kfake().KeepControl()
		f := req.(*kmsg.FetchRequest)
		committed.Add(int32(f.IsolationLevel))
		for _, topic := range f.Topics {
			for _, p := range topic.Partitions {
				if p.Partition != shardOf("g") && p.Partition != shardOf("billing") {
					others.Add(1)
				}
			}
		}
		return nil, nil, false
	})
	for _, group := range []string{"g", "billing", "g"} {
		_, err := c.NewMarshaler("a", group)
		require.NoError(t, err)
	}
	c.mu.Lock()
	assert.Len(t, c.shards, 2)
	c.mu.Unlock()
	assert.Zero(t, others.Load())
	assert.Zero(t, committed.Load())
}

// §8: an offset that somebody else has committed in Kafka, and that differs from the progress, is taken by a Seek: the claim
// begins again under a new epoch, there, and Kafka's offset carries our metadata from then on.
func TestAnOffsetThatWasSetFromOutsideIsTakenByASeek(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	ctx := within(t, patience)
	m := b.marshaler("a")
	msg, err := b.consumer(m, ConsumerOptions{}, "t").FetchMessage(ctx)
	require.NoError(t, err)
	require.NoError(t, msg.Commit())
	m.Terminate()

	m = b.marshaler("b")
	set := []kafka.Committed{{Topic: "t", Offset: 7, Metadata: "by hand"}}
	require.NoError(t, m.c.client.CommitOffsets(ctx, testGroup, set))
	require.NoError(t, set[0].Err)
	msg, err = b.consumer(m, ConsumerOptions{}, "t").FetchMessage(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 7, msg.Offset)
	assert.EqualValues(t, 7, m.State().Keys[0].Next, "it is the progress")
	_, metadata, err := b.Committed(testGroup, "t", 0)
	require.NoError(t, err)
	assert.Contains(t, metadata, "client=b")
}

func TestAnOffsetThatWasSetFromOutsideIsTakenAfterACrashAndAFastReclaimToo(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 3, nil))
		b.fill("t", 3, 0, 10)
		o := ConsumerOptions{FastReclaim: true, ClaimEntireTopic: whole, CommitInterval: 20 * time.Millisecond}
		m := b.marshaler("a")
		c := b.consumer(m, o, "t")
		k := collect(t, c)
		eventually(t, "all messages", func() bool { return k.count() == 30 && c.Lag() == 0 })
		require.NoError(t, c.Flush(within(t, patience)))
		b.crash(m)
		m.cancel() // as if the process were gone
		b.Faults().Clear()

		next := b.marshaler("a")
		set := []kafka.Committed{{Topic: "t", Offset: 2}, {Topic: "t", Partition: 1, Offset: 3}, {Topic: "t", Partition: 2, Offset: 1}}
		require.NoError(t, next.c.client.CommitOffsets(within(t, patience), testGroup, set))
		again := collect(t, b.consumer(next, o, "t"))
		eventually(t, "what was set back", func() bool { return again.count() == 24 })
		for p, from := range []int64{2, 3, 1} {
			assert.Equal(t, upTo(10)[from:], again.offsets("t", int32(p)), "once each, whole %t", whole)
		}
		next.Terminate()
	}
}

// §7: the claims of a process whose coordination topic is another one end, and a process that starts then goes on at
// Kafka's offsets.
func TestARecreatedCoordinationTopicEndsEveryClaim(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	ctx := within(t, patience)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t")
	for range 3 {
		msg, err := c.FetchMessage(ctx)
		require.NoError(t, err)
		require.NoError(t, msg.Commit())
	}
	held, err := c.FetchMessage(ctx)
	require.NoError(t, err)
	eventually(t, "the offset in Kafka", func() bool {
		offset, _, err := b.Committed(testGroup, "t", 0)
		return err == nil && offset == 3
	})
	require.NoError(t, b.RecreateTopic(MarshalTopic, 32, nil))
	select {
	case <-held.Context().Done():
	case <-ctx.Done():
		require.Fail(t, "the claim goes on")
	}
	require.ErrorIs(t, held.Commit(), ErrClaimLost)
	again, err := b.consumer(b.marshaler("b"), ConsumerOptions{}, "t").FetchMessage(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 3, again.Offset, "at Kafka's offset, for there is no progress")
	assert.Greater(t, again.Token(), held.Token(), "tokens grow over topics")
}

// §7: who finds that the log is not the one that it has applied drops the world, ends its claims, waits the largest ttl of
// the joined instances of the old world, and starts as a newcomer.
func TestWhoDropsItsWorldWaitsTheLargestTTLAndStartsAsANewcomer(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	ctx := within(t, patience)
	const longest = testTTL + time.Second
	b.marshaler("other", WithLease(longest, 0))
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	held, err := c.FetchMessage(ctx)
	require.NoError(t, err)
	before := m.State().Offset
	m.g.mu.Lock()
	was, dropped := m.instance, time.Now()
	m.g.reset("a test wants it so")
	assert.Nil(t, m.member)
	m.g.mu.Unlock()
	require.ErrorIs(t, held.Commit(), ErrClaimLost)
	again, err := c.FetchMessage(ctx)
	require.NoError(t, err)
	assert.GreaterOrEqual(t, time.Since(dropped), longest)
	assert.Greater(t, again.Token(), held.Token())
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	assert.NotEqual(t, was, m.instance)
	assert.Greater(t, m.g.log.World().Instance(m.instance).FirstJoin, before)
}

// §7: a diverging epoch, another topic id, and a position before the log's start are another log; a position behind its end is
// none, since the broker that answers may lag.
func TestWhatMeansThatTheLogIsAnother(t *testing.T) {
	b := newBench(t)
	ctx := within(t, patience)
	m := b.marshaler("a")
	shard := shardOf(testGroup)
	take := func(at int64, p kafka.FetchedPart) error {
		tl := newTail(m.c, shard)
		tl.next, tl.epoch = at, 0
		return tl.take(ctx, &p, func(*entry) { assert.Fail(t, "nothing is there") })
	}
	assert.ErrorIs(t, take(5, kafka.FetchedPart{Diverging: true}), errOtherLog)

	outOfRange := kafka.FetchedPart{Err: kafka.ErrOutOfRange}
	_, end, err := b.Offsets(MarshalTopic, shard)
	require.NoError(t, err)
	err = take(end+1000, outOfRange)
	require.Error(t, err)
	assert.NotErrorIs(t, err, errOtherLog, "end offsets are never compared")
	assert.NotErrorIs(t, take(0, outOfRange), errOtherLog, "the log's start")
	require.NoError(t, b.DeleteRecords(MarshalTopic, shard, 1))
	assert.ErrorIs(t, take(0, outOfRange), errOtherLog, "fell off its start")
	assert.NotErrorIs(t, take(1, outOfRange), errOtherLog)

	require.NoError(t, take(5, kafka.FetchedPart{HighWatermark: 3}), "an answer that is behind")
	require.NoError(t, b.RecreateTopic(MarshalTopic, 32, nil))
	for _, why := range []error{kafka.ErrUnknownTopicID, kafka.ErrUnknownTopic, kafka.ErrOutOfRange} {
		assert.ErrorIs(t, take(1, kafka.FetchedPart{Err: why}), errOtherLog, "%v", why)
	}
}

// §3: to a newcomer a history in which a joined author wrote a newer version has no base: it is told to upgrade.
func TestANewcomerThatMeetsANewerVersionIsToldToUpgrade(t *testing.T) {
	joins := lease.Record{Kind: lease.KindJoin, Instance: lease.InstanceID{9}, Seq: 1, Version: 2, Join: lease.Join{Client: "new", TTL: time.Second, MaxVersion: 3}}
	newer := lease.Record{Kind: lease.KindHeartbeat, Instance: lease.InstanceID{9}, Seq: 2, Version: 3}
	for _, joined := range []bool{true, false} {
		b := newBench(t)
		require.NoError(t, b.CreateTopic(MarshalTopic, 32, nil))
		records := []lease.Record{joins, newer}
		if !joined {
			records = records[1:]
		}
		for i := range records {
			_, err := b.Produce(MarshalTopic, shardOf(testGroup), testutil.Message{Key: []byte(testGroup), Value: appendRecord(nil, &records[i])})
			require.NoError(t, err)
		}
		m, err := NewMarshaler("a", testGroup, b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(t)))
		if joined {
			require.ErrorIs(t, err, ErrUpgradeNeeded)
			continue
		}
		require.NoError(t, err, "of a stranger it is foreign")
		b.strangers("a stranger writes in a newer version")
		m.Terminate()
	}
}

// §7: what the batch that holds the position brings along is not another log; a first batch wholly below the position is.
func TestABatchWhollyBelowThePositionIsAnotherLog(t *testing.T) {
	raw := make([]byte, 61)
	binary.BigEndian.PutUint64(raw, 100)
	binary.BigEndian.PutUint32(raw[23:], 9) // offsets 100 to 109
	for position, other := range map[int64]bool{100: false, 105: false, 109: false, 110: true, 200: true} {
		assert.Equal(t, other, endsBelow(raw, position), "at %d", position)
	}
	assert.False(t, endsBelow(raw[:20], 200), "nothing there")
}

// §9: owners commit to Kafka not only every commit interval, but also when they leave.
func TestWhoLeavesCommitsToKafka(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{CommitInterval: time.Minute}, "t")
	for range 4 {
		msg, err := c.FetchMessage(within(t, patience))
		require.NoError(t, err)
		require.NoError(t, msg.Commit())
	}
	offset, _, err := b.Committed(testGroup, "t", 0)
	require.NoError(t, err)
	require.EqualValues(t, -1, offset)
	m.Terminate()
	offset, metadata, err := b.Committed(testGroup, "t", 0)
	require.NoError(t, err)
	assert.EqualValues(t, 4, offset)
	assert.Contains(t, metadata, "client=a")
}
