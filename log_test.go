package marshal

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// looker dials a cluster that never writes.
func (b *bench) looker() *KafkaCluster {
	b.t.Helper()
	writes := b.Faults().Add(testutil.Fault{Client: "looker", Keys: testutil.Writes, Do: testutil.Cut})
	c, err := Dial("looker", b.Addrs(), WithLogger(testutil.Logger(b.t)))
	require.NoError(b.t, err)
	b.t.Cleanup(func() {
		c.Terminate()
		assert.Zero(b.t, writes.Hits(), "reading the log writes nothing")
	})
	return c
}

// log reads all records of a group.
func (b *bench) log(c *KafkaCluster, group string) (all []LogRecord) {
	b.t.Helper()
	for r, err := range c.Log(within(b.t, patience), group) {
		require.NoError(b.t, err)
		all = append(all, r)
	}
	return all
}

func TestLogTellsEachRecordAndWhatItDid(t *testing.T) {
	b := newBench(t, "t")
	m := b.member("a", testGroup, "t")
	other := b.member("b", "other", "t")
	eventually(t, "claims", func() bool { return holds(m) == 4 && holds(other) == 4 })
	m.Terminate()
	other.Terminate()
	b.strangers("a record that cannot be read, in another shard than its key's")
	_, err := b.Produce(MarshalTopic, shardOf(testGroup), testutil.Message{Key: []byte("other"), Value: []byte("x")})
	require.NoError(t, err)
	c := b.looker()
	all := b.log(c, "")
	shard := int32(-1)
	next := map[int32]int64{}
	for _, r := range all {
		require.GreaterOrEqual(t, r.Shard, shard, "shard after shard")
		shard = r.Shard
		require.Equal(t, next[r.Shard], r.Offset, "every record, in order")
		next[r.Shard]++
		require.WithinDuration(t, time.Now(), r.Time, patience)
	}
	one := b.log(c, testGroup)
	first, last := one[0], one[len(one)-1]
	assert.Equal(t, "join", first.Kind)
	assert.Equal(t, "a", first.Client)
	assert.Len(t, first.Instance, 8)
	assert.True(t, first.Replayed)
	assert.Equal(t, []string{"a (" + first.Instance + ") is a member"}, first.Effects)
	assert.Equal(t, "leave", last.Kind)
	claim := one[slices.IndexFunc(one, func(r LogRecord) bool { return r.Kind == "claim" })]
	assert.Equal(t, []string{"granted to a (" + first.Instance + "): t/0-3"}, claim.Effects)
	require.Len(t, claim.Changes, 4)
	for p, ch := range claim.Changes {
		assert.Equal(t, LogChange{Kind: "granted", Topic: "t", Partition: int32(p), Client: "a", Instance: first.Instance, Epoch: claim.Offset, Offset: -1}, ch)
	}
	for _, r := range all {
		switch {
		case r.Kind == "foreign":
			assert.Equal(t, []string{
				"foreign: a message of 1 bytes that cannot be read",
				fmt.Sprintf(`foreign: its key is "other", whose records belong to shard %d`, shardOf("other")),
			}, r.Findings)
		default:
			assert.Empty(t, r.Findings, r.Text)
		}
	}
	assert.Empty(t, b.log(c, "nobody"))
}

func TestLogEndsWhereTheTopicEndedWhenItBegan(t *testing.T) {
	b := newBench(t, "t")
	b.member("a", testGroup, "t")
	c := b.looker()
	seen := int64(-1)
	for r, err := range c.Log(within(t, patience), testGroup) {
		require.NoError(t, err)
		if seen < 0 {
			_, end, err := b.Offsets(MarshalTopic, shardOf(testGroup))
			require.NoError(t, err)
			b.strangers("records that cannot be read come later")
			b.scribble([]byte("later"), []byte("later"))
			require.Positive(t, end)
		}
		require.NotEqual(t, "foreign", r.Kind)
		seen = r.Offset
	}
	for range c.Log(within(t, patience), testGroup) {
		break // whoever stops listening is not called again
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	n := 0
	for _, err := range c.Log(ctx, testGroup) {
		require.ErrorIs(t, err, context.Canceled)
		n++
	}
	require.Equal(t, 1, n)
	c.Terminate()
	for _, err := range c.Log(context.Background(), testGroup) {
		require.ErrorIs(t, err, ErrTerminated)
		n++
	}
	require.Equal(t, 2, n)
}

func TestLogGivesUpInBoundedTimeWhereTheTopicCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	b.member("a", testGroup, "t")
	c := b.looker()
	defer b.Faults().Add(testutil.Fault{Client: "looker", Keys: testutil.Reads, Do: testutil.Cut}).Remove()
	begun := time.Now()
	var last error
	for _, err := range c.Log(context.Background(), testGroup) {
		last = err
	}
	require.ErrorContains(t, last, "reading "+MarshalTopic)
	assert.Less(t, time.Since(begun), callLimit+patience)
}

func TestLogOfATopicWhoseStartWasCut(t *testing.T) {
	b := newBench(t, "t")
	m := b.member("a", testGroup, "t")
	eventually(t, "claims", func() bool { return holds(m) == 4 })
	shard := shardOf(testGroup)
	_, next, err := b.Offsets(MarshalTopic, shard)
	require.NoError(t, err)
	require.NoError(t, b.DeleteRecords(MarshalTopic, shard, next-1))
	c := b.looker()
	for _, r := range b.log(c, testGroup) {
		require.False(t, r.Replayed, "no snapshot is left")
		require.Empty(t, r.Findings, r.Text)
	}
	ask := lease.Record{Kind: lease.KindProbe, Probe: lease.Probe{WantsBase: true}}
	b.scribble(appendRecord(nil, &ask))
	var all []LogRecord
	eventually(t, "a snapshot", func() bool {
		all = b.log(c, testGroup)
		return slices.ContainsFunc(all, func(r LogRecord) bool { return r.Kind == "snapshot" })
	})
	at := slices.IndexFunc(all, func(r LogRecord) bool { return r.Kind == "snapshot" })
	assert.True(t, all[at].Replayed)
	assert.False(t, all[0].Replayed)
	for _, r := range all {
		assert.Empty(t, r.Findings, r.Text)
	}
}

func TestLogOfATopicThatWasMadeAgain(t *testing.T) {
	b := newBench(t, "t")
	m := b.member("a", testGroup, "t")
	eventually(t, "claims", func() bool { return holds(m) == 4 })
	c := b.looker()
	before := b.log(c, testGroup)
	require.NoError(t, b.RecreateTopic(MarshalTopic, 32, nil))
	eventually(t, "the new log", func() bool {
		all := b.log(c, testGroup)
		joined := slices.ContainsFunc(all, func(r LogRecord) bool { return r.Kind == "join" && r.Instance != before[0].Instance })
		old := slices.ContainsFunc(all, func(r LogRecord) bool { return r.Kind == "join" && r.Instance == before[0].Instance })
		return holds(m) == 4 && joined && !old // a late heartbeat of before may stand in front
	})
}

func TestAMarshalerWithoutConsumersSeeksForItsGroup(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a")
	k := collect(t, b.consumer(m, ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t"))
	eventually(t, "all messages", func() bool { return k.count() == 40 })
	tool := b.marshaler("tool")
	require.NoError(t, tool.Seek(within(t, patience), "t", 2, 4))
	eventually(t, "those from 4 on again", func() bool { return len(k.offsets("t", 2)) == 16 })
	assert.Equal(t, append(upTo(10), 4, 5, 6, 7, 8, 9), k.offsets("t", 2))
	assert.Zero(t, holds(tool), "it takes no share")
	require.ErrorContains(t, tool.Seek(within(t, patience), "t", 9, 0), "the topic has 4 partitions")
	require.Error(t, tool.Seek(within(t, patience), "nothing", 0, 0))
	tool.Terminate()
	require.ErrorIs(t, tool.Seek(within(t, patience), "t", 2, 4), ErrTerminated)
}
