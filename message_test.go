package marshal

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/testutil"
)

// What an application is given: messages and batches of them.

func TestACloneSharesNoMemoryAndCommitsForTheOriginal(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	_, err := b.Produce("t", 0, testutil.Message{Key: []byte("key"), Value: []byte("value"), Headers: []kmsg.Header{{Key: "h", Value: []byte("x")}}})
	require.NoError(t, err)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	msg, err := c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	clone := msg.Clone()
	assert.Equal(t, msg, clone)
	msg.Key[0], msg.Value[0], msg.Headers[0].Key[0], msg.Headers[0].Value[0] = '-', '-', '-', '-'
	msg.Headers[0] = nil
	assert.Equal(t, "key", string(clone.Key))
	assert.Equal(t, "value", string(clone.Value))
	assert.Equal(t, "h", string(clone.Headers[0].Key))
	assert.Equal(t, "x", string(clone.Headers[0].Value))
	require.NoError(t, c.CommitMessages(within(t, patience), clone))
	at, _ := c.Position("t", 0)
	assert.EqualValues(t, 1, at)

	empty := (&Message{}).Clone()
	assert.Nil(t, empty.Key, "nil stays nil")
	assert.Nil(t, empty.Value)
	assert.Nil(t, empty.Headers)
}

func TestABatchSaysOfItselfWhatItsMessagesSay(t *testing.T) {
	b := newBench(t, "t", "u")
	b.fill("t", 4, 0, 10)
	b.fill("u", 4, 0, 10)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t", "u")
	seen := map[string]bool{}
	for batch, err := range c.Batches(within(t, patience)) {
		require.NoError(t, err)
		for i := range batch.Messages {
			m := &batch.Messages[i]
			assert.Equal(t, m.Topic, batch.Topic())
			assert.Equal(t, m.Partition, batch.Partition())
			assert.Equal(t, m.Token(), batch.Token())
			assert.Equal(t, m.Context(), batch.Context())
		}
		require.NoError(t, batch.Messages[3].Commit(), "one of them before")
		require.NoError(t, batch.Commit())
		at, _ := c.Position(batch.Topic(), batch.Partition())
		assert.EqualValues(t, 10, at)
		if seen[nameOf(&batch.Messages[0])] = true; len(seen) == 8 {
			break
		}
	}
	var mine Batch
	assert.ErrorIs(t, mine.Commit(), ErrNotHandedOut)
	mine.Messages = make([]Message, 2)
	assert.ErrorIs(t, mine.Commit(), ErrNotHandedOut)
	assert.Zero(t, mine.Token())
}

func nameOf(m *Message) string { return m.Topic + "/" + string(rune('0'+m.Partition)) }

func TestReadMessageIsDurableBeforeTheCallerHasIt(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.one("t", 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{CommitInterval: time.Minute}, "t")
	for want := range int64(3) {
		msg, err := c.ReadMessage(within(t, patience))
		require.NoError(t, err)
		require.Equal(t, want, msg.Offset)
		require.Equal(t, want+1, m.GetPartitionClaim("t", 0).LastOffset, "read back from the log")
	}
	b.crash(m)
	assert.Error(t, m.Close(within(t, 100*time.Millisecond)))
	msg, err := b.consumer(b.marshaler("b"), ConsumerOptions{}, "t").FetchMessage(within(t, patience))
	require.NoError(t, err)
	assert.EqualValues(t, 3, msg.Offset, "at most once")
}

func TestReadMessageThatIsNotConfirmedGivesTheMessageAlong(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.one("t", 10)
	c := b.consumer(b.marshaler("a", WithLease(10*time.Second, 0)), ConsumerOptions{CommitInterval: time.Minute}, "t")
	first, err := c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	second, err := c.ReadMessage(within(t, patience))
	require.ErrorIs(t, err, ErrCommitPending, "the first is not finished")
	assert.EqualValues(t, 1, second.Offset)
	require.NoError(t, first.Commit())
	require.NoError(t, c.Flush(within(t, patience)))
	f := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.Drop})
	third, err := c.ReadMessage(within(t, 100*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.EqualValues(t, 2, third.Offset)
	f.Remove()
	require.NoError(t, c.Flush(within(t, patience)), "it is remembered")
	at, _ := c.Position("t", 0)
	assert.EqualValues(t, 3, at)
}

func TestAMessageAfterTerminateWithoutReleaseSaysTerminated(t *testing.T) {
	b := newBench(t)
	b.one("t", 10)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	msg, err := c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	require.NoError(t, msg.Context().Err())
	require.True(t, c.Terminate(false))
	assert.ErrorIs(t, msg.Commit(), ErrTerminated)
	assert.ErrorIs(t, c.CommitMessages(within(t, patience), msg), ErrTerminated)
	<-msg.Context().Done()
}
