package marshal

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
)

func TestTheLogTellsWhoComesAndGoesAndWhatIsHeld(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	log, seen := logged(t)
	m := b.marshaler("a", WithLogger(log))
	b.consumer(m, ConsumerOptions{}, "t")
	eventually(t, "holdings", func() bool { return seen.has("info", "holds t [0 1 2 3]") })
	assert.True(t, seen.has("info", "joined the group as a ("))
	m2 := b.marshaler("b")
	b.consumer(m2, ConsumerOptions{}, "t")
	eventually(t, "less", func() bool { return seen.has("info", "member b (") && seen.has("info", "holds t [") && holds(m) == 2 })
	b.crash(m2)
	eventually(t, "its end", func() bool { return seen.has("warning", "was declared dead by a (") })
	m.PrintState()
	eventually(t, "the state, a line per key", func() bool { return seen.has("info", "  t/3 next ") && seen.has("info", "  member a (") })
}

func TestSuspendedHandOutIsToldAndShown(t *testing.T) {
	b := newBench(t, "t")
	log, seen := logged(t)
	m := b.marshaler("a", WithLogger(log), WithLease(time.Second, 0))
	b.consumer(m, ConsumerOptions{}, "t")
	eventually(t, "claims", func() bool { return holds(m) == 4 })
	f := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.Freeze})
	eventually(t, "a line", func() bool { return seen.has("warning", "hand-out is suspended") })
	assert.True(t, m.State().Instances[0].Suspended)
	assert.Contains(t, m.State().String(), "hand-out suspended")
	f.Remove()
	eventually(t, "another", func() bool { return seen.has("info", "hand-out goes on") })
}

func TestAMissingTopicIsToldAndListed(t *testing.T) {
	b := newBench(t)
	log, seen := logged(t)
	m := b.marshaler("a", WithLogger(log))
	k := collect(t, b.consumer(m, ConsumerOptions{}, "late"))
	eventually(t, "a warning", func() bool { return seen.has("warning", "topic late does not exist") })
	eventually(t, "a reason", func() bool { s := m.State(); return len(s.Keys) == 1 && s.Keys[0].Why != "" })
	require.NoError(t, b.CreateTopic("late", 2, nil))
	b.fill("late", 2, 0, 5)
	eventually(t, "its messages", func() bool { return k.count() == 10 })
	assert.True(t, seen.has("info", "topic late is there, with 2 partitions"))
}

func TestAMixedGroupIsWarned(t *testing.T) {
	b := newBench(t, "t")
	log, seen := logged(t)
	m := b.marshaler("a", WithLogger(log))
	b.consumer(m, ConsumerOptions{ClaimEntireTopic: true}, "t")
	eventually(t, "the topic", func() bool { return holds(m) == 1 })
	require.Len(t, m.State().Keys[0].Parts, 4)
	b.consumer(b.marshaler("b"), ConsumerOptions{}, "t")
	eventually(t, "a warning", func() bool {
		return seen.has("warning", "claimed as a whole by some members and by partitions by others")
	})
}

func TestAForgottenCommitIsToldWhenItPausesThePartition(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	b.fill("t", 1, 0, 100)
	log, seen := logged(t)
	c := b.consumer(b.marshaler("a", WithLogger(log)), ConsumerOptions{MaxInFlight: 20, CommitInterval: 50 * time.Millisecond}, "t")
	collectBut(t, c, func(m *Message) bool { return m.Offset == 3 })
	eventually(t, "a warning", func() bool {
		return seen.has("warning", "t/0 is paused at MaxInFlight: 20 messages are handed out from offset 3 on")
	})
}

func TestADrainThatIsCutOffIsTold(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	b.fill("t", 1, 0, 10)
	log, seen := logged(t)
	m := b.marshaler("a", WithLogger(log))
	c := b.consumer(m, ConsumerOptions{DrainTimeout: time.Hour}, "t")
	msg, err := c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	begin := time.Now()
	require.NoError(t, m.Close(within(t, 3*time.Second)), "it drains as long as the caller's limit allows, and releases then")
	assert.Less(t, time.Since(begin), 3*time.Second)
	eventually(t, "a warning", func() bool { return seen.has("warning", "handing t/0 over with 1 messages unfinished") })
	assert.ErrorIs(t, msg.Commit(), ErrClaimLost)
	assert.ErrorContains(t, msg.Commit(), "DrainTimeout")
}

// TestACommitAfterACutDrainIsRefusedThoughTheReleaseIsNotWrittenYet: nil would mean that the message does not come again.
func TestACommitAfterACutDrainIsRefusedThoughTheReleaseIsNotWrittenYet(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 1, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{DrainTimeout: 50 * time.Millisecond}, "t")
	msg, err := c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	events := m.Events(within(t, patience))
	held := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.Freeze})
	var ended sync.WaitGroup
	ended.Go(func() { assert.NoError(t, c.Close(within(t, patience))) })
	for e := range events {
		if e.Kind == DrainCut {
			break
		}
	}
	eventually(t, "the cut", func() bool { return msg.Commit() != nil })
	assert.ErrorIs(t, msg.Commit(), ErrClaimLost)
	assert.ErrorIs(t, context.Cause(msg.Context()), ErrClaimLost)
	held.Remove()
	ended.Wait()
	next := b.consumer(m, ConsumerOptions{}, "t")
	again, err := next.FetchMessage(within(t, patience))
	require.NoError(t, err)
	assert.Equal(t, msg.Offset, again.Offset)
}

// TestWhatACutDrainHadInHandComesAgainWhenTheDrainComesToNothing: its commits were refused, so nothing else would finish it.
func TestWhatACutDrainHadInHandComesAgainWhenTheDrainComesToNothing(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 1, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	msg, err := c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	m.g.mu.Lock()
	cl := msg.from.claim
	cl.drain()
	done, _ := cl.drained(cl.deadline)
	cl.resume()
	m.g.mu.Unlock()
	require.True(t, done)
	require.ErrorIs(t, msg.Commit(), ErrClaimLost)
	for want := msg.Offset; want < 10; want++ {
		again, err := c.FetchMessage(within(t, patience))
		require.NoError(t, err)
		require.Equal(t, want, again.Offset)
		require.NoError(t, again.Commit())
	}
	require.NoError(t, c.Flush(within(t, patience)))
}

func TestATopicWithOtherRecordsIsNotGrown(t *testing.T) {
	b := newBench(t, "orders")
	old := testutil.Text("an order")
	old.Time = time.Now().Add(-3 * time.Hour)
	_, err := b.Produce("orders", 0, old)
	require.NoError(t, err)
	_, err = Dial("a", b.Addrs(), WithTopic("orders"), WithLogger(testutil.Logger(t)))
	require.ErrorContains(t, err, "records that are not marshal's")
	assert.Nil(t, b.Kfake().PartitionInfo("orders", 4), "it has the partitions that it had")
}
