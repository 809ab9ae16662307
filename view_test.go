package marshal

import (
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
)

func TestPartitionsAndTopicsAreTheClustersOwn(t *testing.T) {
	b := newBench(t, "t", "a")
	m := b.marshaler("m")
	assert.Equal(t, 4, m.Partitions("t"))
	assert.Zero(t, m.Partitions("none"))
	assert.Equal(t, []string{"a", "t"}, m.Topics())
	b.grow("t", 6)
	assert.Equal(t, 6, m.Partitions("t"), "as they are now")
	require.NoError(t, b.CreateTopic("new", 2, nil))
	assert.Contains(t, m.Topics(), "new")
	m.Terminate()
	assert.Zero(t, m.Partitions("t"))
	assert.Nil(t, m.Topics())
}

func TestPartitionsOfAClusterThatDoesNotAnswerIsBounded(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	m := b.marshaler("m")
	b.Faults().Add(testutil.Fault{Client: "m", Do: testutil.Cut})
	start := time.Now()
	done := make(chan int, 1)
	m.wg.Go(func() { done <- m.Partitions("t") })
	assert.Zero(t, <-done)
	assert.Less(t, time.Since(start), callLimit+patience)
	start = time.Now()
	_ = m.Close(within(t, 100*time.Millisecond)) // an error, unless it is between two lives: then there is nothing to leave
	assert.Less(t, time.Since(start), patience)
}

func TestWhoHoldsAPartitionAndWhoHeldItLast(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m1, m2 := b.marshaler("a"), b.marshaler("b")
	assert.False(t, m2.IsClaimed("t", 0))
	assert.Zero(t, m2.GetPartitionClaim("t", 0))
	assert.Zero(t, m2.GetLastPartitionClaim("t", 0), "nobody ever had it")

	before := time.Now().Unix()
	c := b.consumer(m1, ConsumerOptions{CommitInterval: 10 * time.Millisecond}, "t")
	k := collect(t, c)
	eventually(t, "all", func() bool { return k.count() == 40 })
	require.NoError(t, c.Flush(within(t, patience)))
	eventually(t, "the other knows", func() bool { return m2.GetPartitionClaim("t", 0).LastOffset == 10 })
	got := m2.GetPartitionClaim("t", 0)
	var state KeyState
	for _, k := range m2.State().Keys {
		if k.Topic == "t" && k.Partition == 0 {
			state = k
		}
	}
	assert.Equal(t, "a", got.ClientID)
	assert.Equal(t, testGroup, got.GroupID)
	assert.Equal(t, state.Instance, got.InstanceID)
	assert.Equal(t, state.Epoch, got.Epoch)
	assert.InDelta(t, before, got.LastHeartbeat, 60, "seconds, by the broker's clock")
	assert.True(t, m2.IsClaimed("t", 0))
	assert.False(t, m2.IsClaimed("t", 4))
	assert.False(t, m2.IsClaimed("t", -2))
	assert.Equal(t, got.Epoch, m2.GetLastPartitionClaim("t", 0).Epoch)

	m1.Terminate()
	eventually(t, "nobody holds it", func() bool { return !m2.IsClaimed("t", 0) })
	assert.Zero(t, m2.GetPartitionClaim("t", 0))
	assert.Equal(t, PartitionClaim{LastOffset: 10, ClientID: "a", GroupID: testGroup, Epoch: got.Epoch}, m2.GetLastPartitionClaim("t", 0))

	m2.Terminate()
	assert.Zero(t, m2.GetLastPartitionClaim("t", 0), "who is terminated reads nothing any more")
	assert.Zero(t, m2.GetPartitionClaim("t", 0))
	assert.False(t, m2.IsClaimed("t", 0))
}

func TestAPartitionIsClaimedWithItsWholeTopic(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{ClaimEntireTopic: true}, "t")
	k := collect(t, c)
	eventually(t, "all", func() bool { return k.count() == 40 })
	require.NoError(t, c.Flush(within(t, patience)))
	for id := range 4 {
		assert.True(t, m.IsClaimed("t", id))
		assert.EqualValues(t, 10, m.GetPartitionClaim("t", id).LastOffset)
		assert.Equal(t, m.GetPartitionClaim("t", 0).Epoch, m.GetPartitionClaim("t", id).Epoch)
	}
	assert.True(t, m.IsClaimed("t", -1))
	assert.False(t, m.IsClaimed("u", 0))
}

func TestTheOffsetsOfAPartition(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a")
	got, err := m.GetPartitionOffsets("t", 1)
	require.NoError(t, err)
	assert.Equal(t, PartitionOffsets{Current: -1, Earliest: 0, Latest: 10, Committed: -1}, got)

	c := b.consumer(m, ConsumerOptions{}, "t")
	k := collectBut(t, c, func(msg *Message) bool { return msg.Partition == 1 && msg.Offset >= 6 })
	eventually(t, "all", func() bool { return k.count() == 40 })
	require.NoError(t, c.Flush(within(t, patience)))
	require.NoError(t, b.DeleteRecords("t", 1, 3))
	got, err = m.GetPartitionOffsets("t", 1)
	require.NoError(t, err)
	assert.Equal(t, PartitionOffsets{Current: 6, Earliest: 3, Latest: 10, Committed: 6}, got)

	for _, bad := range []int{4, -1, -2, math.MaxInt} {
		_, err = m.GetPartitionOffsets("t", bad)
		assert.Error(t, err, bad)
	}
	_, err = m.GetPartitionOffsets("none", 0)
	assert.ErrorContains(t, err, "none/0")
	m.Terminate()
	_, err = m.GetPartitionOffsets("t", 1)
	assert.ErrorIs(t, err, ErrTerminated)
}

func TestTheProgressOfARecreatedTopicIsNotThatOfItsNamesake(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	c, err := m.Claim(within(t, patience), "t", 0)
	require.NoError(t, err)
	require.NoError(t, c.Release(within(t, patience), 7))
	require.NoError(t, b.DeleteTopic("t"))
	require.NoError(t, b.CreateTopic("t", 1, nil))
	got, err := m.GetPartitionOffsets("t", 0)
	require.NoError(t, err)
	assert.EqualValues(t, -1, got.Current)
}
