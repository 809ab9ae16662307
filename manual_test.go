package marshal

import (
	"context"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

func TestAPartitionClaimedByHandIsHeldUntilItIsReleased(t *testing.T) {
	b := newBench(t, "t")
	m1, m2 := b.marshaler("a"), b.marshaler("b")
	assert.False(t, m1.IsClaimed("t", 1))
	require.True(t, m1.ClaimPartition("t", 1))
	assert.True(t, m1.IsClaimed("t", 1))
	assert.True(t, m1.ClaimPartition("t", 1), "it is claimed already")
	require.NoError(t, m1.Heartbeat("t", 1, 40))
	assert.EqualValues(t, 40, m1.GetPartitionClaim("t", 1).LastOffset)
	eventually(t, "the other sees it", func() bool { return m2.GetPartitionClaim("t", 1).LastOffset == 40 })
	held := m2.GetPartitionClaim("t", 1)
	assert.Equal(t, "a", held.ClientID)

	assert.False(t, m2.ClaimPartition("t", 1))
	assert.ErrorIs(t, m2.Heartbeat("t", 1, 50), ErrNotClaimed)
	assert.ErrorIs(t, m2.ReleasePartition("t", 1, 50), ErrNotClaimed)

	require.NoError(t, m1.ReleasePartition("t", 1, 55))
	assert.False(t, m1.IsClaimed("t", 1))
	assert.ErrorIs(t, m1.Heartbeat("t", 1, 60), ErrNotClaimed)
	assert.ErrorIs(t, m1.ReleasePartition("t", 1, 60), ErrNotClaimed)
	eventually(t, "the other sees that too", func() bool { return !m2.IsClaimed("t", 1) })
	c, err := m2.Claim(within(t, patience), "t", 1)
	require.NoError(t, err)
	assert.EqualValues(t, 55, c.Start)
	assert.Greater(t, c.Token(), held.Epoch)
}

func TestAHeartbeatByHandIsDurableAndNeverGoesBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	m := b.marshaler("a")
	require.True(t, m.ClaimPartition("t", 0))
	require.NoError(t, m.Heartbeat("t", 0, 7))
	require.NoError(t, m.Heartbeat("t", 0, 7), "again")
	assert.ErrorContains(t, m.Heartbeat("t", 0, 6), "cannot go back")
	eventually(t, "Kafka's own offset", func() bool { at, _, _ := b.Committed(testGroup, "t", 0); return at == 7 })
	b.crash(m)
	assert.Error(t, m.Close(within(t, 100*time.Millisecond)))
	m2 := b.marshaler("b")
	eventually(t, "its lease is over", func() bool { return !m2.IsClaimed("t", 0) })
	assert.EqualValues(t, 7, m2.GetLastPartitionClaim("t", 0).LastOffset)
	c, err := m2.Claim(within(t, patience), "t", 0)
	require.NoError(t, err)
	assert.EqualValues(t, 7, c.Start)
}

func TestClaimByHandOfWhatAnotherHoldsTellsWhoAtOnce(t *testing.T) {
	b := newBench(t, "t")
	m1, m2 := b.marshaler("a"), b.marshaler("b")
	b.consumer(m1, ConsumerOptions{}, "t")
	eventually(t, "all at the first", func() bool { return m2.IsClaimed("t", 3) })
	held := m2.GetPartitionClaim("t", 3)
	var taken *ClaimedError
	for _, partition := range []int32{3, -1} {
		_, err := m2.Claim(within(t, patience), "t", partition)
		require.ErrorAs(t, err, &taken)
		assert.NotErrorIs(t, err, context.DeadlineExceeded)
	}
	assert.Equal(t, ClaimedError{
		Topic: "t", Partition: 0, HolderClient: "a", HolderInstance: held.InstanceID, HolderEpoch: m2.GetPartitionClaim("t", 0).Epoch,
	}, *taken)
	assert.ErrorContains(t, taken, "t/0 is claimed by a")

	whole, err := m2.Claim(within(t, patience), "u", -1)
	assert.Error(t, err, "no such topic")
	assert.Nil(t, whole)
	require.NoError(t, b.CreateTopic("u", 2, nil))
	whole, err = m2.Claim(within(t, patience), "u", -1)
	require.NoError(t, err)
	assert.EqualValues(t, -1, whole.Start)
	eventually(t, "the topic as a whole", func() bool { return m1.IsClaimed("u", 1) })
	_, err = m1.Claim(within(t, patience), "u", 1)
	require.ErrorAs(t, err, &taken)
	assert.EqualValues(t, -1, taken.Partition)
	assert.ErrorContains(t, taken, "u (whole) is claimed by b")
	_, err = m2.Claim(within(t, patience), "u", 1)
	require.ErrorAs(t, err, &taken, "by ourselves")
	assert.Equal(t, "b", taken.HolderClient)
}

func TestOfTwoWhoClaimByHandOneGetsIt(t *testing.T) {
	b := newBench(t, "t")
	ms := []*Marshaler{b.marshaler("a"), b.marshaler("b")}
	for partition := range int32(4) {
		errs := make(chan error, 2)
		for _, m := range ms {
			m.wg.Go(func() {
				_, err := m.Claim(within(t, patience), "t", partition)
				errs <- err
			})
		}
		first, second := <-errs, <-errs
		if first == nil {
			first, second = second, first
		}
		var taken *ClaimedError
		assert.ErrorAs(t, first, &taken)
		assert.NoError(t, second)
	}
}

func TestWhatAConsumerHoldsIsNotForTheHand(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	eventually(t, "a claim", func() bool { _, held := c.Position("t", 2); return held })
	_, err := m.Claim(within(t, patience), "t", 2)
	assert.ErrorIs(t, err, ErrOwnedByConsumer)
	_, err = m.Claim(within(t, patience), "t", -1)
	assert.ErrorIs(t, err, ErrOwnedByConsumer)
	assert.False(t, m.ClaimPartition("t", 2))
	assert.ErrorIs(t, m.Heartbeat("t", 2, 1), ErrOwnedByConsumer)
	assert.ErrorIs(t, m.ReleasePartition("t", 2, 1), ErrOwnedByConsumer)
	at, held := c.Position("t", 2)
	assert.True(t, held, "nothing came of it")
	assert.Zero(t, at)
}

func TestAKeyClaimedByHandIsNotBalancedAndInNobodysShare(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m1 := b.marshaler("a")
	for id := range 2 {
		require.True(t, m1.ClaimPartition("t", id))
	}
	require.NoError(t, m1.Heartbeat("t", 0, 4))
	k1 := collect(t, b.consumer(m1, ConsumerOptions{}, "t"))
	m2 := b.marshaler("b")
	k2 := collect(t, b.consumer(m2, ConsumerOptions{}, "t"))
	eventually(t, "a share of the rest for each", func() bool { return holds(m1) == 3 && holds(m2) == 1 && k1.count()+k2.count() == 20 })
	assert.Empty(t, k1.offsets("t", 0))
	assert.Empty(t, k1.offsets("t", 1))

	require.NoError(t, m1.ReleasePartition("t", 0, -1)) // a consumer of this very process may have it now
	eventually(t, "it is read where it was", func() bool { return len(k1.offsets("t", 0))+len(k2.offsets("t", 0)) == 6 })
	assert.EqualValues(t, 4, append(k1.offsets("t", 0), k2.offsets("t", 0)...)[0])
	assert.Error(t, m1.Heartbeat("t", 0, 5))
}

func TestAKeyClaimedByHandIsLostWithItsInstanceAndDoesNotComeBack(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	m1, m2 := b.marshaler("a"), b.marshaler("b")
	c, err := m1.Claim(within(t, patience), "t", 0)
	require.NoError(t, err)
	instance := m1.GetPartitionClaim("t", 0).InstanceID
	eventually(t, "the other sees it", func() bool { return m2.IsClaimed("t", 0) })
	f := b.Faults().Add(testutil.Fault{Client: "a", Keys: []kmsg.Key{kmsg.Produce}, Do: testutil.Drop})
	eventually(t, "it is declared dead", func() bool { return !m2.IsClaimed("t", 0) })
	f.Remove()
	eventually(t, "a new instance", func() bool {
		s := m2.State()
		return len(s.Instances) == 2 && s.Instances[0].Instance != instance && s.Instances[1].Instance != instance
	})
	<-c.Context().Done()
	assert.ErrorIs(t, context.Cause(c.Context()), ErrClaimLost)
	assert.ErrorIs(t, m1.Heartbeat("t", 0, 3), ErrNotClaimed)
	assert.ErrorIs(t, c.Progress(within(t, patience), 3), ErrClaimLost)
	assert.ErrorIs(t, c.Release(within(t, patience), 3), ErrClaimLost)
	require.True(t, m2.ClaimPartition("t", 0), "nobody has taken it again")
	require.NoError(t, m2.ReleasePartition("t", 0, -1))

	eventually(t, "it is free", func() bool { return !m1.IsClaimed("t", 0) })
	again, err := m1.Claim(within(t, patience), "t", 0)
	require.NoError(t, err)
	assert.NotSame(t, c, again)
	assert.Greater(t, again.Token(), c.Token())
}

func TestASeekEndsAClaimByHand(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m1, m2 := b.marshaler("a"), b.marshaler("b")
	c, err := m1.Claim(within(t, patience), "t", 0)
	require.NoError(t, err)
	require.NoError(t, c.Progress(within(t, patience), 8))
	other := b.consumer(m2, ConsumerOptions{MaximumClaims: 1}, "t")
	require.NoError(t, other.Seek(within(t, patience), "t", 0, 3))
	<-c.Context().Done()
	assert.ErrorIs(t, context.Cause(c.Context()), ErrClaimLost)
	assert.ErrorIs(t, m1.Heartbeat("t", 0, 9), ErrNotClaimed)
	eventually(t, "it is let go", func() bool { return m1.GetPartitionClaim("t", 0).ClientID != "a" })
	assert.EqualValues(t, 3, m1.GetLastPartitionClaim("t", 0).LastOffset)
}

func TestClaimByHandEndsWithItsContext(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	f := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.Drop})
	_, err := m.Claim(within(t, 300*time.Millisecond), "t", 0)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	f.Remove()
	m2 := b.marshaler("b")
	eventually(t, "what was given up is not kept", func() bool { return m2.ClaimPartition("t", 0) })
}

func TestClaimByHandTakesWhatIsKeptForTheNextRun(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{RestartGrace: time.Minute}, "t")
	k := collect(t, c)
	eventually(t, "all", func() bool { return k.count() == 40 })
	assert.True(t, c.Terminate(false))
	assert.ErrorIs(t, m.Heartbeat("t", 0, 11), ErrNotClaimed, "it is only kept")
	mine, err := m.Claim(within(t, patience), "t", 0)
	require.NoError(t, err)
	assert.EqualValues(t, 10, mine.Start)
	require.NoError(t, mine.Release(within(t, patience), -1))
	assert.False(t, m.IsClaimed("t", 0))
	m.Terminate()

	m = b.marshaler("a")
	assert.True(t, m.IsClaimed("t", 1), "parked for this client")
	mine, err = m.Claim(within(t, patience), "t", 1)
	require.NoError(t, err)
	assert.EqualValues(t, 10, mine.Start)
}

func TestCommitOffsetsWritesKafkasOffsetAndResetsNothing(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{CommitInterval: 10 * time.Millisecond}, "t")
	k := collect(t, c)
	eventually(t, "all", func() bool { return k.count() == 40 && b.committed("t", 4) == 40 })
	require.NoError(t, c.Flush(within(t, patience)))
	require.NoError(t, m.CommitOffsets("t", 0, 2), "whoever holds it")
	at, _, err := b.Committed(testGroup, "t", 0)
	require.NoError(t, err)
	assert.EqualValues(t, 2, at)
	offsets, err := m.GetPartitionOffsets("t", 0)
	require.NoError(t, err)
	assert.Equal(t, PartitionOffsets{Current: 10, Earliest: 0, Latest: 10, Committed: 2}, offsets)
	b.crash(m)
	assert.Error(t, m.Close(within(t, 100*time.Millisecond)))

	m2 := b.marshaler("b")
	c2 := b.consumer(m2, ConsumerOptions{CommitInterval: 10 * time.Millisecond}, "t")
	eventually(t, "the next owner goes on where the first was", func() bool { at, held := c2.Position("t", 0); return held && at == 10 })
	eventually(t, "and Kafka's offset follows", func() bool { at, _, _ := b.Committed(testGroup, "t", 0); return at == 10 })
	assert.Error(t, m2.CommitOffsets("t", 9, 2))
	assert.Error(t, m2.CommitOffsets("t", -1, 2))
	assert.Error(t, m2.CommitOffsets("t", 0, -1))
	assert.Error(t, m2.CommitOffsets("none", 0, 2))
}

func TestMessagesOfAClaimByHandAreFetchedOnceSomebodyWantsThem(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 20)
	m := b.marshaler("a")
	c, err := m.Claim(within(t, patience), "t", 1)
	require.NoError(t, err)
	require.NoError(t, c.Progress(within(t, patience), 5))
	p := c.claim.partitions()[0]
	p.mu.Lock()
	assert.EqualValues(t, -1, p.logEnd, "nothing was fetched")
	p.mu.Unlock()
	want := int64(5)
	for msg, err := range c.Messages(within(t, patience)) {
		require.NoError(t, err)
		require.Equal(t, want, msg.Offset)
		assert.Equal(t, c.Token(), msg.Token())
		require.NoError(t, msg.Commit())
		if want++; want == 20 {
			break
		}
	}
	require.NoError(t, c.Release(within(t, patience), -1))
	assert.EqualValues(t, 20, m.GetLastPartitionClaim("t", 1).LastOffset)
}

func TestAWholeTopicClaimedByHand(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a")
	c, err := m.Claim(within(t, patience), "t", lease.WholeTopic)
	require.NoError(t, err)
	assert.ErrorContains(t, c.Progress(within(t, patience), 3), "commit its messages")
	assert.ErrorContains(t, c.Release(within(t, patience), 3), "commit its messages")
	n := 0
	for msg, err := range c.Messages(within(t, patience)) {
		require.NoError(t, err)
		if msg.Partition != 2 {
			require.NoError(t, msg.Commit())
		}
		if n++; n == 40 {
			break
		}
	}
	require.NoError(t, m.Heartbeat("t", 2, 6), "a partition of it")
	assert.ErrorIs(t, m.ReleasePartition("t", 2, 6), ErrNotClaimed, "only with the topic")
	require.NoError(t, m.ReleasePartition("t", -1, -1))
	for partition, want := range []int64{10, 10, 6, 10} {
		assert.Equal(t, want, m.GetLastPartitionClaim("t", partition).LastOffset)
	}
}

func TestARecreatedTopicEndsAClaimByHand(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	c, err := m.Claim(within(t, patience), "t", 0)
	require.NoError(t, err)
	require.NoError(t, c.Progress(within(t, patience), 5))
	require.NoError(t, b.DeleteTopic("t"))
	require.NoError(t, b.CreateTopic("t", 4, nil))
	eventually(t, "a claim of its new life", func() bool {
		again, err := m.Claim(within(t, patience), "t", 0)
		return err == nil && again != c && again.Start == 0
	})
	assert.ErrorIs(t, context.Cause(c.Context()), ErrClaimLost)
}

func TestClaimsByHandEndWithTheMarshaler(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a")
	c, err := m.Claim(within(t, patience), "t", 0)
	require.NoError(t, err)
	require.NoError(t, m.Heartbeat("t", 0, 4))
	m.Terminate()
	<-c.Draining()
	<-c.Context().Done()
	assert.ErrorIs(t, m.Heartbeat("t", 0, 5), ErrTerminated)
	assert.ErrorIs(t, m.ReleasePartition("t", 0, 5), ErrTerminated)
	assert.ErrorIs(t, m.CommitOffsets("t", 0, 5), ErrTerminated)
	assert.False(t, m.ClaimPartition("t", 0))
	_, err = m.Claim(within(t, patience), "t", 0)
	assert.ErrorIs(t, err, ErrTerminated)
	m2 := b.marshaler("b")
	assert.False(t, m2.IsClaimed("t", 0))
	assert.EqualValues(t, 4, m2.GetLastPartitionClaim("t", 0).LastOffset)
}

func TestBadArgumentsOfClaimsByHand(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	for _, c := range []struct {
		topic     string
		partition int32
	}{{"t", 4}, {"t", -2}, {"none", 0}, {"", 0}, {"not a topic", 0}, {MarshalTopic, 0}} {
		_, err := m.Claim(within(t, patience), c.topic, c.partition)
		assert.Error(t, err, c)
		assert.NotErrorIs(t, err, context.DeadlineExceeded, c)
		assert.ErrorIs(t, m.Heartbeat(c.topic, int(c.partition), 1), ErrNotClaimed, c)
	}
	assert.False(t, m.ClaimPartition("t", math.MaxInt))
	require.True(t, m.ClaimPartition("t", 0))
	assert.Error(t, m.Heartbeat("t", 0, -1))
	assert.Error(t, m.ReleasePartition("t", 0, -2))
	assert.True(t, m.IsClaimed("t", 0))
}
