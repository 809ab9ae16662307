package kafka

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// read gives the records of t/0 from an offset on.
func read(t testing.TB, c *Client, topic string, from int64) []string {
	t.Helper()
	ts, err := c.Topics(within(t, 5*time.Second), topic)
	require.NoError(t, err)
	f, err := c.OpenFetch(within(t, 5*time.Second), ts[topic].Partitions[0].Leader, fetchSettings)
	require.NoError(t, err)
	defer f.Close()
	require.NoError(t, f.Send([]FetchPart{{Topic: topic, TopicID: ts[topic].ID, Offset: from, LeaderEpoch: -1, LastEpoch: -1, MaxBytes: 1 << 20}}, 0))
	a, err := f.Receive()
	require.NoError(t, err)
	require.NoError(t, a.Parts[0].Err)
	return records(t, a.Parts[0].Records)
}

func TestABatchIsAppendedAsItIs(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	p := c.NewProducer("t", 0)
	defer p.Close()
	var ms []Message
	var want []string
	for i := range 300 {
		ms = append(ms, Message{[]byte(fmt.Sprint("k", i)), make([]byte, i)})
		want = append(want, fmt.Sprintf("%d k%d=%s", i, i, ms[i].Value))
	}
	first, err := p.Append(within(t, 5*time.Second), ms)
	require.NoError(t, err)
	assert.Zero(t, first)
	first, err = p.Append(within(t, 5*time.Second), []Message{{nil, nil}, {[]byte{}, []byte{}}})
	require.NoError(t, err)
	assert.EqualValues(t, 300, first)
	assert.Equal(t, append(want, "300 =", "301 ="), read(t, c, "t", 0))
	now := time.UnixMilli(1700000000123)
	var b kmsg.RecordBatch
	require.NoError(t, b.ReadFrom(recordBatch(ms[:2], now)))
	assert.Equal(t, []int64{now.UnixMilli(), now.UnixMilli(), -1, -1, -1, -1},
		[]int64{b.FirstTimestamp, b.MaxTimestamp, b.ProducerID, int64(b.ProducerEpoch), int64(b.FirstSequence), int64(b.PartitionLeaderEpoch)})
	assert.EqualValues(t, 1, b.LastOffsetDelta)
	assert.EqualValues(t, 2, b.Magic)
	assert.Zero(t, b.Attributes)
}

func produceAnswer(req kmsg.Request, code int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.ProduceResponse)
	rt := kmsg.NewProduceResponseTopic()
	rt.Topic = req.(*kmsg.ProduceRequest).Topics[0].Topic
	rp := kmsg.NewProduceResponseTopicPartition()
	rp.ErrorCode, rp.ErrorMessage = code, kmsg.StringPtr("text of the broker")
	rt.Partitions = append(rt.Partitions, rp)
	resp.Topics = append(resp.Topics, rt)
	return resp
}

func TestARefusedAppendSaysSo(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	p := c.NewProducer("t", 0)
	defer p.Close()
	var code int16
	control(k, kmsg.Produce, func(req kmsg.Request) kmsg.Response { return produceAnswer(req, code) })
	for _, r := range []struct {
		code    int16
		refused bool
	}{{10, true}, {18, true}, {29, true}, {87, true}, {19, true}, {2, true}, {6, false}, {3, false}, {7, false}, {20, false}, {-1, false}, {56, false}} {
		code = r.code
		_, err := p.Append(within(t, 5*time.Second), []Message{{nil, []byte("v")}})
		require.Error(t, err)
		assert.Equal(t, r.refused, Refused(err), "%v", err)
		assert.ErrorContains(t, err, "append to t/0")
		assert.ErrorContains(t, err, "text of the broker")
	}
}

func TestAnAnswerThatLeavesTheAppendOutIsAnError(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	p := c.NewProducer("t", 0)
	defer p.Close()
	control(k, kmsg.Produce, func(req kmsg.Request) kmsg.Response { return req.ResponseKind() })
	_, err := p.Append(within(t, 5*time.Second), []Message{{nil, []byte("v")}})
	require.ErrorIs(t, err, ErrIncomplete)
	assert.False(t, Refused(err))
}

func TestTooLargeIsRefusedByTheBroker(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1))
	require.NoError(t, k.CreateTopic("t", 1, map[string]string{"max.message.bytes": "1000"}))
	c := dial(t, nil, k.ListenAddrs()...)
	p := c.NewProducer("t", 0)
	defer p.Close()
	_, err := p.Append(within(t, 5*time.Second), []Message{{nil, make([]byte, 2000)}})
	require.ErrorIs(t, err, ErrTooLarge)
	assert.True(t, Refused(err))
	assert.False(t, Retriable(err))
	first, err := p.Append(within(t, 5*time.Second), []Message{{nil, nil}})
	require.NoError(t, err, "the next, smaller one")
	assert.Zero(t, first)
}

func TestWhatWasNeverSentIsRefused(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(2), kfake.SeedTopics(1, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	for name, p := range map[string]*Producer{"no topic": c.NewProducer("none", 0), "no partition": c.NewProducer("t", 7)} {
		_, err := p.Append(within(t, 5*time.Second), []Message{{nil, []byte("v")}})
		assert.Error(t, err, name)
		assert.True(t, Refused(err), name)
		assert.True(t, Retriable(err), name)
	}
	p := c.NewProducer("t", 0)
	_, err := p.Append(within(t, 5*time.Second), nil)
	assert.True(t, Refused(err))
	_, err = c.Topics(t.Context(), "t")
	require.NoError(t, err)
	c.mu.Lock()
	for id := range c.brokers {
		c.brokers[id] = deadAddr(t)
	}
	c.mu.Unlock()
	_, err = p.Append(within(t, 5*time.Second), []Message{{nil, []byte("v")}})
	assert.Error(t, err)
	assert.True(t, Refused(err), "nothing was connected to")
	_, err = p.Append(within(t, 5*time.Second), []Message{{nil, []byte("v")}})
	require.NoError(t, err, "it looks at the metadata before the next try")
	require.NoError(t, p.Close())
	_, err = p.Append(within(t, 5*time.Second), []Message{{nil, []byte("v")}})
	assert.ErrorIs(t, err, ErrClosed)
	assert.True(t, Refused(err))
}

func TestAProducerFollowsItsLeaderAfterOneError(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	p := c.NewProducer("t", 0)
	defer p.Close()
	n := int64(0)
	for i := range int32(9) {
		to := i % 3
		moved := k.LeaderFor("t", 0) != to
		require.NoError(t, k.MoveTopicPartition("t", 0, to))
		first, err := p.Append(within(t, 5*time.Second), []Message{{nil, []byte("v")}})
		if moved && err != nil {
			assert.ErrorIs(t, err, ErrNotLeader)
			assert.False(t, Refused(err), "a deposed leader may have written it")
			first, err = p.Append(within(t, 5*time.Second), []Message{{nil, []byte("v")}})
		}
		require.NoError(t, err)
		assert.Equal(t, n, first)
		n++
	}
}

func TestClosingAProducerEndsItsAppend(t *testing.T) {
	w := &wire{}
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.ListenFn(w.Listen))
	c := dial(t, nil, k.ListenAddrs()...)
	p := c.NewProducer("t", 0)
	_, err := p.Append(within(t, 5*time.Second), []Message{{nil, []byte("v")}})
	require.NoError(t, err)
	sent := make(chan struct{}, 1)
	w.treat(func(net.Conn, int16, []byte) bool { sent <- struct{}{}; return true })
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := p.Append(t.Context(), []Message{{nil, []byte("v")}})
		assert.ErrorIs(t, err, ErrClosed)
		assert.False(t, Refused(err))
	})
	<-sent
	begin := time.Now()
	require.NoError(t, p.Close())
	wg.Wait()
	assert.Less(t, time.Since(begin), 1500*time.Millisecond)
}

func BenchmarkAppend(b *testing.B) {
	k := newCluster(b, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dial(b, nil, k.ListenAddrs()...)
	p := c.NewProducer("t", 0)
	defer p.Close()
	ms := []Message{{[]byte("group"), make([]byte, 100)}}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Append(b.Context(), ms); err != nil {
			b.Fatal(err)
		}
	}
}
