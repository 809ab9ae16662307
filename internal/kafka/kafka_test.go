package kafka

import (
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
)

func TestEveryCallOnce(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(4, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	ctx := within(t, 5*time.Second)
	ts, err := c.Topics(ctx, "t", "none")
	require.NoError(t, err)
	require.ErrorIs(t, ts["none"].Err, ErrUnknownTopic)
	require.Len(t, ts["t"].Partitions, 4)
	p := c.NewProducer("t", 2)
	for i := range 3 {
		off, err := p.Append(ctx, []Message{{[]byte("k"), []byte("v")}, {nil, []byte("w")}})
		require.NoError(t, err)
		require.EqualValues(t, 2*i, off)
	}
	as := c.Offsets(ctx, []OffsetQuery{{"t", 2, sarama.OffsetNewest}, {"t", 2, sarama.OffsetOldest}, {"t", 0, sarama.OffsetNewest}, {"t", 9, -1}, {"x", 0, -1}})
	require.NoError(t, as[0].Err)
	require.EqualValues(t, 6, as[0].Offset)
	require.EqualValues(t, 0, as[1].Offset)
	require.EqualValues(t, 0, as[2].Offset)
	require.Error(t, as[3].Err)
	require.ErrorIs(t, as[4].Err, ErrUnknownTopic)
	cs := []Committed{{Topic: "t", Partition: 2}, {Topic: "t", Partition: 3}}
	require.NoError(t, c.FetchOffsets(ctx, "g", cs))
	require.EqualValues(t, -1, cs[0].Offset)
	require.NoError(t, c.CommitOffsets(ctx, "g", []Committed{{Topic: "t", Partition: 2, Offset: 4, Metadata: "m"}}))
	require.NoError(t, c.FetchOffsets(ctx, "g", cs))
	require.EqualValues(t, 4, cs[0].Offset)
	require.Equal(t, "m", cs[0].Metadata)
	require.EqualValues(t, -1, cs[1].Offset)

	l, ok := c.Leader("t", 2)
	require.True(t, ok)
	f, err := c.OpenFetch(ctx, l.Leader, FetchSettings{MaxWait: 500 * time.Millisecond, MinBytes: 1, MaxBytes: 1 << 20})
	require.NoError(t, err)
	require.NoError(t, f.Send([]FetchPart{{Topic: "t", TopicID: ts["t"].ID, Partition: 2, Offset: 2, LeaderEpoch: l.LeaderEpoch, LastEpoch: -1, MaxBytes: 1 << 20}}, -1))
	a, err := f.Receive()
	require.NoError(t, err)
	require.Len(t, a.Parts, 1)
	require.NoError(t, a.Parts[0].Err)
	require.Equal(t, []string{"2 k=v", "3 =w", "4 k=v", "5 =w"}, records(t, a.Parts[0].Records))
	require.NoError(t, f.Close())
	tp, w, err := c.EnsureTopic(ctx, TopicSpec{"__marshal", 32, time.Hour, true}, nil)
	require.NoError(t, err)
	require.Len(t, tp.Partitions, 32)
	t.Log(w)
	require.NoError(t, p.Close())
}
