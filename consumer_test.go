package marshal

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/testutil"
)

func TestOneConsumerReadsEverythingOnceAndInOrder(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 500)
	m := b.marshaler("a")
	k := collect(t, b.consumer(m, ConsumerOptions{}, "t"))
	eventually(t, "all messages", func() bool { return k.count() == 2000 })
	for p := range int32(4) {
		assert.Equal(t, upTo(500), k.offsets("t", p))
	}
	b.fill("t", 4, 500, 10)
	eventually(t, "messages that came later", func() bool { return k.count() == 2040 })
}

func TestTerminateWithReleaseMakesTheNextRunGoOnExactlyThere(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 100)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	k := collect(t, c)
	eventually(t, "all messages", func() bool { return k.count() == 400 })
	assert.True(t, c.Terminate(true))
	m.Terminate()

	b.fill("t", 4, 100, 5)
	m2 := b.marshaler("b")
	k2 := collect(t, b.consumer(m2, ConsumerOptions{}, "t"))
	eventually(t, "the new messages", func() bool { return k2.count() >= 20 })
	for p := range int32(4) {
		assert.Equal(t, []int64{100, 101, 102, 103, 104}, k2.offsets("t", p))
	}
}

func TestASecondMemberGetsItsShareAndNothingIsReadTwice(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 100)
	m1 := b.marshaler("a")
	k1 := collect(t, b.consumer(m1, ConsumerOptions{}, "t"))
	eventually(t, "all messages at the first", func() bool { return k1.count() == 400 })
	m2 := b.marshaler("b")
	k2 := collect(t, b.consumer(m2, ConsumerOptions{}, "t"))
	eventually(t, "two each", func() bool { return holds(m1) == 2 && holds(m2) == 2 })
	b.fill("t", 4, 100, 50)
	eventually(t, "the rest", func() bool { return k1.count()+k2.count() == 600 })
	assert.Equal(t, 500, k1.count())
	assert.Equal(t, 100, k2.count())
}

func TestCommitMessagesIsDurableForACrash(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{CommitInterval: time.Minute}, "t")
	ctx := within(t, patience)
	for range 4 {
		msg, err := c.FetchMessage(ctx)
		require.NoError(t, err)
		require.NoError(t, c.CommitMessages(ctx, msg))
	}
	b.crash(m)
	m2 := b.marshaler("b")
	msg, err := b.consumer(m2, ConsumerOptions{}, "t").FetchMessage(ctx)
	require.NoError(t, err)
	assert.Equal(t, int64(4), msg.Offset)
}

// crash cuts a process off for good, as kill -9 does.
func (b *bench) crash(m *Marshaler) {
	b.Faults().Add(testutil.Fault{Client: m.ClientID(), Do: testutil.Cut})
}

func TestAProcessThatIsCutOffStopsAndItsKeysMoveOnAfterTheLease(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m1 := b.marshaler("a")
	c1 := b.consumer(m1, ConsumerOptions{}, "t")
	first, err := c1.FetchMessage(within(t, patience))
	require.NoError(t, err)
	m2 := b.marshaler("b")
	k2 := collect(t, b.consumer(m2, ConsumerOptions{GreedyClaims: true}, "t"))
	eventually(t, "a member that waits", func() bool { return len(m1.State().Instances) == 2 })

	f := b.Faults().Add(testutil.Fault{Client: "a", Keys: []kmsg.Key{kmsg.Produce}, Do: testutil.Drop})
	eventually(t, "everything at the other", func() bool { return holds(m2) == 4 })
	eventually(t, "its messages again", func() bool { return k2.count() >= 40 })
	eventually(t, "the commit of before refused", func() bool { return errors.Is(first.Commit(), ErrClaimLost) })
	assert.ErrorIs(t, context.Cause(first.Context()), ErrClaimLost)
	f.Remove()
	eventually(t, "a new life", func() bool { return len(m2.State().Instances) == 2 })
}

func TestStrictOrderingHasOneMessageInFlight(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{StrictOrdering: true}, "t")
	for want := range int64(10) {
		msg, err := c.FetchMessage(within(t, patience))
		require.NoError(t, err)
		assert.Equal(t, want, msg.Offset)
		_, err = c.FetchMessage(within(t, 20*time.Millisecond))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.NoError(t, msg.Commit())
		require.NoError(t, msg.Commit(), "a second time does no harm, and opens no second permit")
	}
}

func TestMaxInFlightPausesThePartitionAlone(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 100)
	k := collectBut(t, b.consumer(b.marshaler("a"), ConsumerOptions{MaxInFlight: 10}, "t"), func(m *Message) bool { return m.Partition == 0 })
	eventually(t, "the others", func() bool { return k.count() == 310 })
	assert.Equal(t, upTo(10), k.offsets("t", 0))
}

func TestConsumeChannelIsClosedOnceAndPendingSendsDoNotBlockTerminate(t *testing.T) {
	for _, release := range []bool{true, false} {
		b := newBench(t, "t")
		b.fill("t", 4, 0, 100)
		c := b.consumer(b.marshaler("a"), ConsumerOptions{DrainTimeout: 200 * time.Millisecond}, "t")
		ch := c.ConsumeChannel()
		first := <-ch
		require.NotNil(t, first) // in flight; and the pump offers the next, which nobody takes
		begin := time.Now()
		assert.True(t, c.Terminate(release))
		assert.Less(t, time.Since(begin), 5*time.Second)
		for m := range ch {
			assert.NotNil(t, m)
		}
		_, open := <-c.ConsumeChannel()
		assert.False(t, open)
		assert.Error(t, first.Commit())
	}
}

func TestMaximumClaimsIsKept(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	b.consumer(m, ConsumerOptions{MaximumClaims: 3}, "t")
	eventually(t, "three", func() bool { return holds(m) == 3 })
	m2 := b.marshaler("b")
	b.consumer(m2, ConsumerOptions{MaximumClaims: 3}, "t")
	eventually(t, "the rest", func() bool { return holds(m)+holds(m2) == 4 })
	assert.LessOrEqual(t, holds(m), 3)
}

func TestWholeTopicsGoToOneProcessEach(t *testing.T) {
	b := newBench(t, "t", "u")
	b.fill("t", 4, 0, 50)
	b.fill("u", 4, 0, 50)
	m1, m2 := b.marshaler("a"), b.marshaler("b")
	k1 := collect(t, b.consumer(m1, ConsumerOptions{ClaimEntireTopic: true}, "t", "u"))
	k2 := collect(t, b.consumer(m2, ConsumerOptions{ClaimEntireTopic: true}, "t", "u"))
	eventually(t, "one topic each", func() bool { return holds(m1) == 1 && holds(m2) == 1 })
	eventually(t, "everything", func() bool { return k1.count()+k2.count() >= 400 })
}

func TestStartOffsets(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a")
	k := collect(t, b.consumer(m, ConsumerOptions{StartOffset: StartLatest}, "t"))
	eventually(t, "claims", func() bool { return len(m.State().Keys) == 4 && m.State().Keys[3].Next == 10 })
	b.fill("t", 4, 10, 1)
	eventually(t, "only what is new", func() bool { return k.count() == 4 })
	assert.Equal(t, []int64{10}, k.offsets("t", 0))
}

func TestBatchesGiveWholeRuns(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 3000)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	next := map[int32]int64{}
	total := 0
	for batch, err := range c.Batches(within(t, patience)) {
		require.NoError(t, err)
		for i := range batch.Messages {
			require.Equal(t, next[batch.Partition()], batch.Messages[i].Offset)
			next[batch.Partition()]++
		}
		require.NoError(t, batch.Commit())
		if total += len(batch.Messages); total == 12000 {
			break
		}
	}
	assert.Equal(t, 12000, total)
	require.NoError(t, c.Flush(within(t, patience)))
}
