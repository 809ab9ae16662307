package marshal

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// committedAt waits until Kafka's own offset of a partition is at, with our metadata.
func (b *bench) committedAt(topic string, partition int32, at int64) {
	b.t.Helper()
	var offset int64
	var metadata string
	eventually(b.t, fmt.Sprintf("Kafka's offset of %s/%d at %d", topic, partition, at), func() bool {
		var err error
		offset, metadata, err = b.Committed(testGroup, topic, partition)
		ours, _ := isOurs(metadata, lease.TopicID{})
		return err == nil && offset == at && ours
	})
}

// holderOf finds who holds a partition.
func holderOf(m *Marshaler, topic string, partition int32) (client string) {
	for _, k := range m.State().Keys {
		if k.Topic == topic && k.Partition == partition {
			return k.Client
		}
	}
	return ""
}

func TestSeekOfAPartitionThatThisProcessHolds(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 2, nil))
		b.fill("t", 2, 0, 10)
		ctx := within(t, patience)
		m := b.marshaler("a")
		c := b.consumer(m, ConsumerOptions{ClaimEntireTopic: whole, CommitInterval: 20 * time.Millisecond}, "t")
		held := map[int32]*Message{}
		for len(held) < 2 || held[0].Offset < 5 || held[1].Offset < 5 { // in flight all
			msg, err := c.FetchMessage(ctx)
			require.NoError(t, err)
			held[msg.Partition] = msg
		}
		require.NoError(t, c.Seek(ctx, "t", 0, 3))
		require.ErrorIs(t, held[0].Commit(), ErrClaimLost, "what was in flight is void")
		require.Error(t, held[0].Context().Err())
		k := collect(t, c)
		eventually(t, "from there on", func() bool { return len(k.offsets("t", 0)) == 7 })
		assert.Equal(t, upTo(10)[3:], k.offsets("t", 0))
		assert.Greater(t, k.tokens["t/0"][0], held[0].Token(), "under a larger token")
		if whole {
			require.ErrorIs(t, held[1].Commit(), ErrClaimLost, "one lease of all")
			eventually(t, "the other where it was", func() bool { return len(k.offsets("t", 1)) == 10 })
		} else {
			require.NoError(t, held[1].Commit(), "the others are left alone")
		}
		require.NoError(t, c.Seek(ctx, "t", 0, 10), "the end is in range")
		b.committedAt("t", 0, 10)
		m.Terminate()
	}
}

func TestSeekOfAPartitionThatAnotherProcessHolds(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 100)
	ctx := within(t, patience)
	log, seen := logged(t)
	m1, m2 := b.marshaler("a"), b.marshaler("b", WithLogger(log))
	o := ConsumerOptions{CommitInterval: 20 * time.Millisecond}
	c1, c2 := b.consumer(m1, o, "t"), b.consumer(m2, o, "t")
	eventually(t, "balance", func() bool { return holds(m1) == 2 && holds(m2) == 2 })
	collect(t, c1)
	k2 := collect(t, c2)
	eventually(t, "all read", func() bool { return c1.Lag() == 0 && c2.Lag() == 0 && k2.count() >= 200 })
	var p int32
	for holderOf(m1, "t", p) != "b" {
		p++
	}
	n := len(k2.offsets("t", p))
	require.NoError(t, c1.Seek(ctx, "t", p, 60))
	eventually(t, "the other goes on there", func() bool { return len(k2.offsets("t", p)) == n+40 })
	assert.Equal(t, upTo(100)[60:], k2.offsets("t", p)[n:])
	assert.Equal(t, "b", holderOf(m1, "t", p), "it keeps it")
	assert.False(t, seen.has("warning", "claim lost"), "a Seek is no loss")
	eventually(t, "told", func() bool { return seen.has("info", "was set to 60 by a") })
	b.committedAt("t", p, 100)
}

func TestSeekOfAFreePartition(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 2, nil))
	b.fill("t", 2, 0, 10)
	ctx := within(t, patience)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{MaximumClaims: 1}, "t")
	eventually(t, "one", func() bool { return holds(m) == 1 })
	free := int32(0)
	if holderOf(m, "t", 0) == "a" {
		free = 1
	}
	require.NoError(t, c.Seek(ctx, "t", free, 4))
	offset, metadata, err := b.Committed(testGroup, "t", free)
	require.NoError(t, err)
	assert.EqualValues(t, 4, offset, "lag tools see it")
	assert.Contains(t, metadata, "client=a")
	k := collect(t, b.consumer(b.marshaler("b"), ConsumerOptions{}, "t"))
	eventually(t, "its next holder begins there", func() bool { return len(k.offsets("t", free)) == 6 })
	assert.Equal(t, upTo(10)[4:], k.offsets("t", free))
}

func TestSeekToTheOldestAndTheNewest(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 20)
	require.NoError(t, b.DeleteRecords("t", 0, 5))
	ctx := within(t, patience)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	position := func() int64 { return m.State().Keys[0].Next }
	eventually(t, "held", func() bool { return holds(m) == 1 })
	require.NoError(t, c.Seek(ctx, "t", 0, sarama.OffsetNewest))
	assert.EqualValues(t, 20, position())
	require.NoError(t, c.Seek(ctx, "t", 0, sarama.OffsetOldest))
	assert.EqualValues(t, 5, position())
}

func TestSeekRefusesWhatIsOutOfRange(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 20)
	require.NoError(t, b.DeleteRecords("t", 0, 5))
	ctx := within(t, patience)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	eventually(t, "held", func() bool { return holds(m) == 1 })
	before := m.State().Keys[0].Epoch
	for _, offset := range []int64{4, 21, -3} {
		err := c.Seek(ctx, "t", 0, offset)
		require.ErrorIs(t, err, kafka.ErrOutOfRange)
		require.ErrorContains(t, err, "5 to 20")
	}
	require.ErrorContains(t, c.Seek(ctx, "t", 1, 0), "1 partitions")
	require.ErrorContains(t, c.Seek(ctx, "t", -1, 0), "1 partitions")
	require.ErrorContains(t, c.Seek(ctx, "other", 0, 0), "not a topic of this consumer")
	require.ErrorContains(t, c.SeekTime(ctx, "other", time.Now()), "not a topic of this consumer")
	assert.Equal(t, before, m.State().Keys[0].Epoch, "nothing was written")
	m.Terminate()
	require.ErrorIs(t, c.Seek(ctx, "t", 0, 7), ErrTerminated)
	require.ErrorIs(t, c.SeekTime(ctx, "t", time.Now()), ErrTerminated)
}

func TestSeekIsNotUndoneByAnOffsetThatWasSetFromOutsideBefore(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	ctx := within(t, patience)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t")
	k := collect(t, c)
	eventually(t, "all", func() bool { return k.count() == 10 && c.Lag() == 0 })
	require.NoError(t, c.Flush(ctx))
	set := []kafka.Committed{{Topic: "t", Offset: 2, Metadata: "by hand, while the group runs"}}
	require.NoError(t, m.c.client.CommitOffsets(ctx, testGroup, set))
	require.NoError(t, c.Seek(ctx, "t", 0, 8))
	eventually(t, "two again", func() bool { return k.count() >= 12 })
	assert.Equal(t, append(upTo(10), 8, 9), k.offsets("t", 0))
	b.committedAt("t", 0, 10)
}

func TestSeekWaitsForItsContextAndComesToPassWhenTheLogIsBack(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	k := collect(t, c)
	eventually(t, "all", func() bool { return k.count() == 10 && c.Lag() == 0 })
	require.NoError(t, c.Flush(within(t, patience)))
	was := m.State().Keys[0].Epoch
	fault := b.Faults().Add(testutil.Fault{Client: "a", Keys: []kmsg.Key{kmsg.Produce}, Do: testutil.Freeze})
	short, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	err := c.Seek(short, "t", 0, 7)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "t/0")
	assert.Less(t, time.Since(begin), 5*time.Second)
	fault.Remove()
	eventually(t, "it comes to pass", func() bool { return m.State().Keys[0].Epoch > was && k.count() == 13 })
}

func TestSeekSurvivesTheEndOfItsInstance(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	k := collect(t, c)
	eventually(t, "all", func() bool { return k.count() == 10 && c.Lag() == 0 })
	m.g.mu.Lock()
	m.end("a test wants it so")
	m.g.mu.Unlock()
	done := make(chan error, 1)
	ctx, wait := context.WithTimeout(context.Background(), patience)
	defer wait()
	c.wg.Go(func() { done <- c.Seek(ctx, "t", 0, 6) })
	eventually(t, "it is waited for", func() bool {
		m.g.mu.Lock()
		defer m.g.mu.Unlock()
		return len(m.seeks) == 1
	})
	m.g.mu.Lock()
	m.rejoin()
	m.g.mu.Unlock()
	require.NoError(t, <-done)
	eventually(t, "again from there", func() bool { return k.count() >= 14 })
}

func TestSeekTime(t *testing.T) {
	for _, whole := range []bool{false, true} {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 3, nil))
		at := time.Now().Add(-time.Hour).Truncate(time.Millisecond)
		for p, n := range []int{10, 5, 0} { // a minute apart
			for i := range n {
				msg := testutil.Text("x")
				msg.Time = at.Add(time.Duration(i) * time.Minute)
				_, err := b.Produce("t", int32(p), msg)
				require.NoError(t, err)
			}
		}
		ctx := within(t, patience)
		m := b.marshaler("a")
		c := b.consumer(m, ConsumerOptions{ClaimEntireTopic: whole}, "t")
		k := collect(t, c)
		eventually(t, "all", func() bool { return k.count() == 15 })
		require.NoError(t, c.SeekTime(ctx, "t", at.Add(6*time.Minute+time.Second)))
		eventually(t, "those not before", func() bool { return k.count() == 18 })
		assert.Equal(t, []int64{7, 8, 9}, k.offsets("t", 0)[10:])
		assert.Len(t, k.offsets("t", 1), 5, "none is later: its end")
		require.NoError(t, c.SeekTime(ctx, "t", time.Unix(-5, 0)))
		eventually(t, "all again", func() bool { return k.count() == 33 })
		m.Terminate()
	}
}

func TestSeekTimeSetsNothingWhereOnePartitionCannotBeAsked(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 2, nil))
	b.fill("t", 2, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	k := collect(t, c)
	eventually(t, "all", func() bool { return k.count() == 20 })
	before := m.State()
	b.refuseListOffsets("t", 1)
	err := c.SeekTime(within(t, patience), "t", time.Unix(0, 0))
	require.ErrorContains(t, err, "t/1")
	require.NotContains(t, err.Error(), "t/0")
	for i, key := range m.State().Keys {
		assert.Equal(t, before.Keys[i].Epoch, key.Epoch, "nothing was set")
	}
}

// refuseListOffsets lets the broker answer for a partition that the client may not read it.
func (b *bench) refuseListOffsets(topic string, partition int32) {
	b.Kfake().ControlKey(int16(kmsg.ListOffsets), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Kfake().KeepControl()
		r := req.(*kmsg.ListOffsetsRequest)
		resp := r.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, t := range r.Topics {
			rt := kmsg.NewListOffsetsResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewListOffsetsResponseTopicPartition()
				rp.Partition, rp.Offset = p.Partition, 0
				if t.Topic == topic && p.Partition == partition {
					rp.ErrorCode = 29 // not authorized
				}
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
		return resp, nil, true
	})
}

// The last commit of who handed a partition over may come to Kafka after the first one of who has it now.
func TestKafkasOffsetDoesNotStayBehindAfterAHandOver(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	ctx := within(t, patience)
	m1 := b.marshaler("a")
	c1 := b.consumer(m1, ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t")
	msg, err := c1.FetchMessage(ctx)
	require.NoError(t, err)
	require.NoError(t, msg.Commit())
	m2 := b.marshaler("b")
	k := collect(t, b.consumer(m2, ConsumerOptions{CommitInterval: 500 * time.Millisecond}, "t"))
	m1.Terminate()
	eventually(t, "handed over", func() bool { return k.count() == 9 })
	b.committedAt("t", 0, 10)
	late := []kafka.Committed{{Topic: "t", Offset: 1, Metadata: m1.metadata(lifeOf(m2), msg.Token())}}
	require.NoError(t, m2.c.client.CommitOffsets(ctx, testGroup, late))
	require.NoError(t, late[0].Err)
	b.committedAt("t", 0, 10)
}

// lifeOf is the topic id of t.
func lifeOf(m *Marshaler) lease.TopicID {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	p, _ := m.g.log.World().Progress("t", 0)
	return p.TopicID
}
