package kafka

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// realBrokers are those of a real cluster, or the test is skipped.
func realBrokers(t testing.TB) []string {
	b := os.Getenv("MARSHAL_BROKERS")
	if b == "" {
		t.Skip("MARSHAL_BROKERS names no real Kafka")
	}
	return strings.Split(b, ",")
}

// scratchTopic makes a topic that goes away at the end.
func scratchTopic(t testing.TB, c *Client, partitions int32) Topic {
	t.Helper()
	name := "scratch-" + rand.Text()
	topic, _, err := c.EnsureTopic(within(t, 20*time.Second), TopicSpec{Name: name, Partitions: partitions, Retention: time.Hour, MayCreate: true}, nil)
	require.NoError(t, err)
	t.Cleanup(func() { deleteTopic(t, c, name) })
	return topic
}

func deleteTopic(t testing.TB, c *Client, name string) {
	req := kmsg.NewPtrDeleteTopicsRequest()
	req.TimeoutMillis, req.TopicNames = 3000, []string{name}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	_, err := c.askController(ctx, req, 1, 5)
	assert.NoError(t, err)
}

func TestRealKafka(t *testing.T) {
	c := dial(t, nil, realBrokers(t)...)
	ctx := within(t, time.Minute)

	t.Run("a topic is made once by many, and grows", func(t *testing.T) {
		s := TopicSpec{Name: "scratch-" + rand.Text(), Partitions: 8, Retention: time.Hour, MayCreate: true}
		defer deleteTopic(t, c, s.Name)
		var wg sync.WaitGroup
		for range 4 {
			other := dial(t, nil, realBrokers(t)...)
			wg.Go(func() {
				topic, _, err := other.EnsureTopic(ctx, s, nil)
				assert.NoError(t, err)
				assert.Len(t, topic.Partitions, 8)
			})
		}
		wg.Wait()
		s.Partitions = 32
		for range 2 {
			wg.Go(func() {
				topic, warnings, err := c.EnsureTopic(ctx, s, func(Topic) error { return nil })
				assert.NoError(t, err)
				assert.Len(t, topic.Partitions, 32)
				t.Log(warnings)
			})
		}
		wg.Wait()
	})

	t.Run("settings are checked", func(t *testing.T) {
		name := "scratch-" + rand.Text()
		req := kmsg.NewPtrCreateTopicsRequest()
		rt := kmsg.NewCreateTopicsRequestTopic()
		rt.Topic, rt.NumPartitions, rt.ReplicationFactor = name, 1, 1
		rt.Configs = []kmsg.CreateTopicsRequestTopicConfig{{Name: "cleanup.policy", Value: kmsg.StringPtr("compact")}}
		req.Topics, req.TimeoutMillis = append(req.Topics, rt), 3000
		_, err := c.askController(ctx, req, 2, 7)
		require.NoError(t, err)
		defer deleteTopic(t, c, name)
		assert.Eventually(t, func() bool {
			_, _, err = c.EnsureTopic(ctx, TopicSpec{Name: name, Partitions: 1}, nil)
			return err != nil && strings.Contains(err.Error(), "cleanup.policy is compact")
		}, 5*time.Second, 50*time.Millisecond)
	})

	t.Run("append, offsets, fetch", func(t *testing.T) {
		topic := scratchTopic(t, c, 3)
		p := c.NewProducer(topic.Name, 1)
		defer p.Close()
		before := time.Now().Add(-time.Second).UnixMilli()
		for i := range int64(10) {
			first, err := p.Append(ctx, []Message{{[]byte("k"), fmt.Append(nil, "v", i)}, {nil, nil}})
			require.NoError(t, err)
			assert.Equal(t, 2*i, first)
		}
		as := c.Offsets(ctx, []OffsetQuery{{topic.Name, 1, sarama.OffsetNewest}, {topic.Name, 1, sarama.OffsetOldest},
			{topic.Name, 0, sarama.OffsetNewest}, {topic.Name, 1, before}, {topic.Name, 1, before + 3600_000}, {topic.Name, 3, -1}})
		assert.Equal(t, []OffsetAnswer{{20, nil}, {0, nil}, {0, nil}, {0, nil}, {-1, nil}}, as[:5])
		assert.Error(t, as[5].Err)

		l, ok := c.Leader(topic.Name, 1)
		require.True(t, ok)
		f, err := c.OpenFetch(ctx, l.Leader, fetchSettings)
		require.NoError(t, err)
		defer f.Close()
		ask := func(q FetchPart) FetchedPart {
			q.Topic, q.Partition, q.MaxBytes = topic.Name, 1, 1<<20
			require.NoError(t, f.Send([]FetchPart{q}, 100*time.Millisecond))
			a, err := f.Receive()
			require.NoError(t, err)
			require.Len(t, a.Parts, 1)
			return a.Parts[0]
		}
		for _, id := range [][16]byte{topic.ID, {}} {
			got := ask(FetchPart{TopicID: id, Offset: 18, LeaderEpoch: l.LeaderEpoch, LastEpoch: l.LeaderEpoch})
			require.NoError(t, got.Err)
			assert.Equal(t, []string{"18 k=v9", "19 ="}, records(t, got.Records))
			assert.EqualValues(t, 20, got.HighWatermark)
			assert.EqualValues(t, 0, got.LogStart)
			assert.ErrorIs(t, ask(FetchPart{TopicID: id, Offset: 50, LeaderEpoch: l.LeaderEpoch, LastEpoch: -1}).Err, ErrOutOfRange)
			assert.ErrorIs(t, ask(FetchPart{TopicID: id, LeaderEpoch: l.LeaderEpoch + 1, LastEpoch: -1}).Err, ErrUnknownEpoch)
		}
		got := ask(FetchPart{TopicID: topic.ID, Offset: 20, LeaderEpoch: l.LeaderEpoch, LastEpoch: l.LeaderEpoch + 5})
		t.Logf("last epoch from the future: err %v, diverging %v", got.Err, got.Diverging)
		other := topic.ID
		other[0] ^= 1
		assert.ErrorIs(t, ask(FetchPart{TopicID: other, LeaderEpoch: -1, LastEpoch: -1}).Err, ErrUnknownTopicID)
	})

	t.Run("committed offsets", func(t *testing.T) {
		topic := scratchTopic(t, c, 3)
		group := "scratch-" + rand.Text()
		cs := []Committed{{Topic: topic.Name}, {Topic: topic.Name, Partition: 2}, {Topic: topic.Name, Partition: 1}}
		require.NoError(t, c.FetchOffsets(ctx, group, cs))
		for _, e := range cs {
			assert.NoError(t, e.Err)
			assert.EqualValues(t, -1, e.Offset, "never committed")
		}
		cs[0].Offset, cs[0].Metadata, cs[1].Offset, cs[1].Metadata = 5, "m", 6, strings.Repeat("x", 5000)
		require.NoError(t, c.CommitOffsets(ctx, group, cs[:2]))
		assert.NoError(t, cs[0].Err)
		assert.ErrorIs(t, cs[1].Err, ErrTooLarge)
		require.NoError(t, c.FetchOffsets(ctx, group, cs))
		assert.Equal(t, []int64{5, -1, -1}, []int64{cs[0].Offset, cs[1].Offset, cs[2].Offset})
		assert.Equal(t, "m", cs[0].Metadata)

		cfg := sarama.NewConfig()
		cfg.Version = sarama.V2_8_0_0
		g, err := sarama.NewConsumerGroup(realBrokers(t), group, cfg)
		require.NoError(t, err)
		h := &joiner{joined: make(chan struct{})}
		gctx, leave := context.WithCancel(ctx)
		var wg sync.WaitGroup
		wg.Go(func() { _ = g.Consume(gctx, []string{topic.Name}, h) })
		<-h.joined
		err = c.CommitOffsets(ctx, group, cs[:1])
		assert.ErrorIs(t, err, ErrUnknownMember)
		assert.ErrorContains(t, err, "another kind of consumer is using this group name")
		leave()
		wg.Wait()
		require.NoError(t, g.Close())
		cs[0].Offset = 7
		assert.Eventually(t, func() bool { return c.CommitOffsets(ctx, group, cs[:1]) == nil }, 10*time.Second, 100*time.Millisecond, "once it has left")
	})

	t.Run("too large", func(t *testing.T) {
		topic := scratchTopic(t, c, 1)
		p := c.NewProducer(topic.Name, 0)
		defer p.Close()
		_, err := p.Append(ctx, []Message{{nil, make([]byte, 2<<20)}})
		require.ErrorIs(t, err, ErrTooLarge)
		assert.True(t, Refused(err))
		_, err = p.Append(ctx, []Message{{nil, []byte("v")}})
		require.NoError(t, err)
		l, _ := c.Leader(topic.Name, 0)
		f, err := c.OpenFetch(ctx, l.Leader, FetchSettings{MinBytes: 1, MaxBytes: 1000})
		require.NoError(t, err)
		defer f.Close()
		_, err = p.Append(ctx, []Message{{nil, make([]byte, 500_000)}})
		require.NoError(t, err)
		require.NoError(t, f.Send([]FetchPart{{Topic: topic.Name, TopicID: topic.ID, Offset: 1, LeaderEpoch: -1, LastEpoch: -1, MaxBytes: 1000}}, 0))
		a, err := f.Receive()
		require.NoError(t, err)
		require.NoError(t, a.Parts[0].Err)
		assert.Len(t, records(t, a.Parts[0].Records), 1)
	})
}

// joiner is a member of a group and does nothing.
type joiner struct{ joined chan struct{} }

func (j *joiner) Setup(sarama.ConsumerGroupSession) error   { close(j.joined); return nil }
func (j *joiner) Cleanup(sarama.ConsumerGroupSession) error { return nil }
func (j *joiner) ConsumeClaim(s sarama.ConsumerGroupSession, _ sarama.ConsumerGroupClaim) error {
	<-s.Context().Done()
	return nil
}
