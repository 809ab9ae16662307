package kafka

import (
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// control answers the requests of one kind by f, which may change what the broker would say by saying it itself; nil
// lets the broker answer.
func control(k *kfake.Cluster, key kmsg.Key, f func(req kmsg.Request) kmsg.Response) {
	k.ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		resp := f(req)
		return resp, nil, resp != nil
	})
}

func TestTopicsNeverMakesATopic(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.AllowAutoTopicCreation())
	c := dial(t, nil, k.ListenAddrs()...)
	for range 2 {
		ts, err := c.Topics(within(t, 5*time.Second), "none")
		require.NoError(t, err)
		require.ErrorIs(t, ts["none"].Err, ErrUnknownTopic)
	}
	assert.Nil(t, k.TopicInfo("none"))
}

func TestATopicThatIsMissingInAnAnswerHasAnError(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	control(k, kmsg.Metadata, func(req kmsg.Request) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		return resp
	})
	ts, err := c.Topics(within(t, 5*time.Second), "t")
	require.NoError(t, err)
	assert.ErrorIs(t, ts["t"].Err, ErrIncomplete)
	assert.Equal(t, []int32{0}, c.Brokers(), "an answer without brokers does not make them unknown")
}

func TestPartitionsAreListedByNumberAndHolesAreAnError(t *testing.T) {
	topic := func(ps ...int32) *kmsg.MetadataResponseTopic {
		r := kmsg.NewMetadataResponseTopic()
		r.Topic = kmsg.StringPtr("t")
		for _, p := range ps {
			rp := kmsg.NewMetadataResponseTopicPartition()
			rp.Partition, rp.Leader, rp.LeaderEpoch = p, 10+p, 20+p
			r.Partitions = append(r.Partitions, rp)
		}
		return &r
	}
	got := readTopic(topic(2, 0, 1))
	require.NoError(t, got.Err)
	assert.Equal(t, []Partition{{10, 20, 0}, {11, 21, 0}, {12, 22, 0}}, got.Partitions)
	for _, bad := range [][]int32{{0, 2}, {1}, {-1, 0}, {0, 0}, {0, 1 << 30}} {
		assert.ErrorIs(t, readTopic(topic(bad...)).Err, ErrIncomplete, "%v", bad)
	}
}

func TestALaggingBrokerDoesNotBringBackAnOldLeader(t *testing.T) {
	id := [16]byte{1}
	old := Topic{ID: id, Partitions: []Partition{{Leader: 1, LeaderEpoch: 5}, {Leader: 1, LeaderEpoch: 5}}}
	lagging := Topic{ID: id, Partitions: []Partition{{Leader: 2, LeaderEpoch: 4}, {Leader: 2, LeaderEpoch: 6}, {Leader: 3}}}
	keepNewest(lagging, old)
	assert.Equal(t, []Partition{{Leader: 1, LeaderEpoch: 5}, {Leader: 2, LeaderEpoch: 6}, {Leader: 3}}, lagging.Partitions)
	recreated := Topic{ID: [16]byte{2}, Partitions: []Partition{{Leader: 2}}}
	keepNewest(recreated, old)
	assert.Equal(t, []Partition{{Leader: 2}}, recreated.Partitions)
}

func TestLeaderTellsWhatIsKnownWithoutAsking(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(2, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	_, ok := c.Leader("t", 0)
	assert.False(t, ok)
	got, err := c.Topics(within(t, 5*time.Second), "t")
	require.NoError(t, err)
	got["t"].Partitions[1].Leader = 77 // the caller's own
	p, ok := c.Leader("t", 1)
	assert.True(t, ok)
	assert.EqualValues(t, 0, p.Leader)
	for _, n := range []int32{-1, 2} {
		_, ok = c.Leader("t", n)
		assert.False(t, ok)
	}
	c.hint("t", 1, 5, p.LeaderEpoch)
	c.hint("t", 9, 5, 99)
	q, _ := c.Leader("t", 1)
	assert.Equal(t, p, q, "a hint that is not newer")
	c.hint("t", 1, 5, p.LeaderEpoch+1)
	q, _ = c.Leader("t", 1)
	assert.EqualValues(t, 5, q.Leader)
	require.NoError(t, k.DeleteTopic("t"))
	_, err = c.Topics(within(t, 5*time.Second), "t")
	require.NoError(t, err)
	_, ok = c.Leader("t", 1)
	assert.False(t, ok)
}

func TestTopicNamesLeavesOutKafkasOwn(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "u", "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	names, err := c.TopicNames(within(t, 5*time.Second))
	require.NoError(t, err)
	assert.Equal(t, []string{"t", "u"}, names)
	k.ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		for name, internal := range map[string]bool{"b": false, "__consumer_offsets": true, "a": false} {
			topic := kmsg.NewMetadataResponseTopic()
			topic.Topic, topic.IsInternal = kmsg.StringPtr(name), internal
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	names, err = c.TopicNames(within(t, 5*time.Second))
	require.NoError(t, err)
	assert.Equal(t, []string{"a", "b"}, names)
}

func TestQuestionsGoToAnotherBrokerWhenOneDies(t *testing.T) {
	w := &wire{}
	k := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(6, "t"), kfake.ListenFn(w.Listen))
	c := dial(t, nil, k.ListenAddrs()[0]) // the others are learned
	for node := range int32(2) {
		require.NoError(t, k.RemoveNode(node))
		w.cut() // a removed node goes on answering where it is connected
		ts, err := c.Topics(within(t, 5*time.Second), "t")
		require.NoError(t, err)
		for _, p := range ts["t"].Partitions {
			assert.Greater(t, p.Leader, node)
		}
	}
}

func TestOffsetsGivesEachQuestionItsAnswer(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(8, "t", "u"))
	c := dial(t, nil, k.ListenAddrs()...)
	ctx := within(t, 5*time.Second)
	before := time.Now().UnixMilli()
	for i := range int32(8) {
		p := c.NewProducer("t", i)
		for range i {
			_, err := p.Append(ctx, []Message{{nil, []byte("v")}})
			require.NoError(t, err)
		}
		require.NoError(t, p.Close())
	}
	require.NoError(t, k.DeleteRecords("t", 7, 3))
	var qs []OffsetQuery
	for i := range int32(8) {
		qs = append(qs, OffsetQuery{"t", i, sarama.OffsetNewest}, OffsetQuery{"u", i, sarama.OffsetNewest},
			OffsetQuery{"t", i, sarama.OffsetOldest}, OffsetQuery{"t", i, before}, OffsetQuery{"t", i, before + 3600_000})
	}
	qs = append(qs, OffsetQuery{"none", 0, -1}, OffsetQuery{"t", 8, -1}, OffsetQuery{"t", 1, sarama.OffsetNewest})
	as := c.Offsets(ctx, qs)
	require.Len(t, as, len(qs))
	for i := range int64(8) {
		first := map[bool]int64{true: 3}[i == 7]
		at := map[bool]int64{true: -1, false: first}[i == 0]
		assert.Equal(t, []OffsetAnswer{{i, nil}, {0, nil}, {first, nil}, {at, nil}, {-1, nil}}, as[5*i:5*i+5], "%d", i)
	}
	assert.ErrorIs(t, as[40].Err, ErrUnknownTopic)
	assert.ErrorIs(t, as[41].Err, ErrNotLeader)
	assert.Equal(t, OffsetAnswer{1, nil}, as[42])
}

func TestOffsetsFollowLeadersThatMoved(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(9, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	_, err := c.Topics(t.Context(), "t")
	require.NoError(t, err)
	for range 5 {
		k.ShufflePartitionLeaders()
		var qs []OffsetQuery
		for i := range int32(9) {
			qs = append(qs, OffsetQuery{"t", i, -1})
		}
		for _, a := range c.Offsets(within(t, 5*time.Second), qs) {
			assert.NoError(t, a.Err)
		}
	}
}

func TestOffsetsOfADeadLeaderDoNotHoldUpTheOthersForLong(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(2), kfake.SeedTopics(2, "t"))
	require.NoError(t, k.MoveTopicPartition("t", 0, 0))
	require.NoError(t, k.MoveTopicPartition("t", 1, 1))
	dead := deadAddr(t)
	c := dial(t, nil, k.ListenAddrs()[0])
	_, err := c.Topics(t.Context(), "t")
	require.NoError(t, err)
	c.mu.Lock()
	c.brokers[1] = dead
	c.mu.Unlock()
	control(k, kmsg.Metadata, func(req kmsg.Request) kmsg.Response { // no news
		return req.ResponseKind()
	})
	begin := time.Now()
	as := c.Offsets(within(t, 5*time.Second), []OffsetQuery{{"t", 0, -1}, {"t", 1, -1}})
	require.NoError(t, as[0].Err)
	assert.Error(t, as[1].Err)
	assert.True(t, Retriable(as[1].Err))
	assert.Less(t, time.Since(begin), time.Second)
}

func TestEachErrorAndHoleInAnAnswerAboutOffsets(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(4, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	asked := 0
	control(k, kmsg.ListOffsets, func(req kmsg.Request) kmsg.Response {
		asked++
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		rt := kmsg.NewListOffsetsResponseTopic()
		rt.Topic = "t"
		for p, code := range []int16{0, 29, 6} { // partition 3 is left out
			rp := kmsg.NewListOffsetsResponseTopicPartition()
			rp.Partition, rp.Offset, rp.ErrorCode = int32(p), 7, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
		return resp
	})
	_, err := c.Topics(t.Context(), "t")
	require.NoError(t, err)
	as := c.Offsets(within(t, 5*time.Second), []OffsetQuery{{"t", 0, -1}, {"t", 1, -1}, {"t", 2, -1}, {"t", 3, -1}})
	assert.Equal(t, OffsetAnswer{7, nil}, as[0])
	assert.ErrorIs(t, as[1].Err, ErrTopicAuthorization)
	assert.ErrorContains(t, as[1].Err, "grant Read on topic t")
	assert.ErrorIs(t, as[2].Err, ErrNotLeader)
	assert.ErrorIs(t, as[3].Err, ErrIncomplete)
	for _, a := range as[1:] {
		assert.EqualValues(t, -1, a.Offset)
		assert.ErrorContains(t, a.Err, "offset of t/")
	}
	assert.Equal(t, 2, asked, "once more for the leader that moved")
}
