package marshal

import (
	"context"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
	"github.com/kafka-marshal/marshal/testutil"
)

func TestLagCountsWhatIsHeldAndNotFinished(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{MaximumClaims: 3}, "t")
	eventually(t, "of three partitions", func() bool { return c.Lag() == 30 })
	assert.EqualValues(t, 30, c.GetCurrentLag())
	msg, err := c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	assert.EqualValues(t, 30, c.Lag(), "handed out is not finished")
	require.NoError(t, msg.Commit())
	assert.EqualValues(t, 29, c.Lag())
	c.Terminate(true)
	assert.Zero(t, c.Lag())
	_, err = c.ReadLag(within(t, patience))
	assert.ErrorIs(t, err, ErrTerminated)
}

// noFetches lets all fetches of data bring nothing, and nothing else: what the coordination topic brings is fetched by another connection.
func (b *bench) noFetches(topic string) {
	id := b.Kfake().TopicInfo(topic).TopicID
	b.Kfake().ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Kfake().KeepControl()
		for _, t := range req.(*kmsg.FetchRequest).Topics {
			if t.Topic == topic || t.TopicID == id {
				return req.ResponseKind(), nil, true
			}
		}
		return nil, nil, false
	})
}

func TestReadLagAsksTheBrokersNow(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	ctx := within(t, patience)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{LagInterval: time.Hour}, "t")
	eventually(t, "lag", func() bool { return c.Lag() == 40 })
	b.noFetches("t")
	b.fill("t", 4, 10, 5)
	assert.EqualValues(t, 40, c.Lag(), "as last seen")
	lag, err := c.ReadLag(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 60, lag)
	assert.EqualValues(t, 60, c.Lag(), "that is what was last seen now")

	b.refuseListOffsets("t", 2)
	_, err = c.ReadLag(ctx)
	require.ErrorContains(t, err, "t/2")
	require.NotContains(t, err.Error(), "t/1")
}

func TestTheEndsOfLogsAreAskedForEachLagInterval(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{LagInterval: 100 * time.Millisecond}, "t")
	eventually(t, "lag", func() bool { return c.Lag() == 40 })
	b.noFetches("t")
	b.fill("t", 4, 10, 5)
	eventually(t, "news without a fetch", func() bool { return c.Lag() == 60 })
}

func TestLagOfReadersOfWhatIsCommittedEndsBeforeAnOpenTransaction(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	config := b.Config("tx")
	config.Producer.Transaction.ID = "tx"
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Net.MaxOpenRequests = 1
	p, err := sarama.NewSyncProducer(b.Addrs(), config)
	require.NoError(t, err)
	defer p.Close()
	require.NoError(t, p.BeginTxn())
	_, _, err = p.SendMessage(&sarama.ProducerMessage{Topic: "t", Value: sarama.StringEncoder("open")})
	require.NoError(t, err)
	ctx := within(t, patience)
	for level, want := range map[sarama.IsolationLevel]int64{sarama.ReadCommitted: 10, sarama.ReadUncommitted: 11} {
		m := b.marshaler("a")
		c := b.consumer(m, ConsumerOptions{IsolationLevel: level, CommitInterval: time.Minute}, "t")
		eventually(t, "lag", func() bool { return c.Lag() == want })
		lag, err := c.ReadLag(ctx)
		require.NoError(t, err)
		assert.Equal(t, want, lag)
		m.Terminate()
	}
	require.NoError(t, p.AbortTxn())
}

func TestLagOfAPartitionThatIsOutOfRangeIsNotZero(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	ctx := within(t, patience)
	m := b.marshaler("a")
	o := ConsumerOptions{OnOutOfRange: FailOutOfRange, LagInterval: 100 * time.Millisecond}
	c := b.consumer(m, o, "t")
	eventually(t, "lag", func() bool { return c.Lag() == 10 })
	m.withMember(func(now member.Now) member.Output { // which nobody would do by Seek
		return m.member.Seek(lease.Key{Topic: "t"}, lease.TopicID{}, 500, lease.NoEpoch, now)
	})
	eventually(t, "out of range", func() bool { return m.State().Keys[0].Next == 500 && c.Lag() == 10 })
	b.fill("t", 1, 10, 5)
	eventually(t, "all that the log has", func() bool { return c.Lag() == 15 })
	lag, err := c.ReadLag(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 15, lag)
	require.NoError(t, c.Seek(ctx, "t", 0, 12))
	eventually(t, "in range again", func() bool { return c.Lag() == 3 })
}

func TestLoadCountsPartitions(t *testing.T) {
	b := newBench(t, "t", "u")
	m1 := b.marshaler("a")
	c1 := b.consumer(m1, ConsumerOptions{}, "t", "u")
	eventually(t, "all", func() bool { return c1.GetCurrentLoad() == 8 })
	m2 := b.marshaler("b")
	c2 := b.consumer(m2, ConsumerOptions{}, "t", "u")
	eventually(t, "a half each", func() bool { return c1.GetCurrentLoad() == 4 && c2.GetCurrentLoad() == 4 })
	m1.Terminate()
	m2.Terminate()
	assert.Zero(t, c1.GetCurrentLoad())
	m := b.marshaler("c")
	c := b.consumer(m, ConsumerOptions{ClaimEntireTopic: true, MaximumClaims: 1}, "t", "u")
	eventually(t, "those of one topic", func() bool { return c.GetCurrentLoad() == 4 })
}

func TestLagNeverBlocksOnTheNetwork(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{ClaimEntireTopic: true}, "t")
	eventually(t, "held", func() bool { return holds(m) == 1 })
	f := b.Faults().Add(testutil.Fault{Client: "a", Do: testutil.Freeze})
	begin := time.Now()
	for range 1000 {
		c.Lag()
		c.GetCurrentLag()
		c.GetCurrentLoad()
		c.Terminated()
		_, _ = c.GetCurrentTopicClaims()
	}
	assert.Less(t, time.Since(begin), 2*time.Second)
	short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	_, err := c.ReadLag(short)
	require.Error(t, err)
	f.Remove()
}

func TestLagIsUnknownWhereNobodyTellsTheEndForLong(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{LagInterval: 100 * time.Millisecond, MaxWait: 100 * time.Millisecond}, "t")
	eventually(t, "lag", func() bool { return c.Lag() == 40 })
	b.refuseListOffsets("t", 2) // the others are told to end at 0, which is not believed
	b.noFetches("t")
	lag := func(id int) [2]int64 { p := c.Stats().Partitions[id]; return [2]int64{p.End, p.Lag} }
	eventually(t, "not known any more", func() bool { return lag(2) == [2]int64{-1, -1} })
	assert.EqualValues(t, 0, lag(1)[0])
	assert.Zero(t, c.Lag(), "of the others, as they are told")
	n, err := c.ReadLag(within(t, patience))
	require.EqualError(t, err, "marshal: lag of t/2: not authorized for the topic: broker error 29 (The client is not authorized to access this topic): grant Read on topic t")
	require.ErrorIs(t, err, ErrAuthorization)
	assert.Zero(t, n)
}

// What cannot be asked for now is not in the sum, although it was known a moment ago.
func TestReadLagLeavesOutWhatItCouldNotAsk(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	eventually(t, "lag", func() bool { return c.Lag() == 10 })
	b.refuseListOffsets("t", 0)
	n, err := c.ReadLag(within(t, patience))
	require.ErrorIs(t, err, ErrAuthorization)
	assert.Zero(t, n)
	assert.EqualValues(t, 10, c.Lag())
}
