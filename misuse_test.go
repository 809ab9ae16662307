package marshal

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// Calls that come at a bad moment, beside each other, or with what they should not be given.

func TestSeeksThatAreOvertakenBeforeTheyAreWrittenAreDone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.one("t", 100)
	m := b.marshaler("a", WithLease(10*time.Second, 0))
	c := b.consumer(m, ConsumerOptions{}, "t")
	eventually(t, "the partition", func() bool { return len(c.begun()) == 1 })
	fault := b.Faults().Add(testutil.Fault{Client: "a", Keys: []kmsg.Key{kmsg.Produce}, Do: testutil.Freeze})
	m.g.mu.Lock()
	m.end("a test wants it so")
	m.rejoin() // its Seeks wait until its Join is read back
	m.g.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var wg sync.WaitGroup
	errs := make([]error, 4)
	for i, to := range []int64{10, 20, 20, 30} {
		wg.Go(func() { errs[i] = c.Seek(ctx, "t", 0, to) })
		eventually(t, "it is waited for", func() bool {
			m.g.mu.Lock()
			defer m.g.mu.Unlock()
			return len(m.seeks) == i+1 && m.seeks[i].by == m.instance
		})
	}
	fault.Remove()
	wg.Wait()
	for _, err := range errs {
		assert.NoError(t, err)
	}
	assert.EqualValues(t, 30, m.State().Keys[0].Next, "the last one counts")
	k := collect(t, c)
	eventually(t, "from there", func() bool { return k.count() == 70 })
	assert.EqualValues(t, 30, k.offsets("t", 0)[0])
}

func TestASeekIsNotTakenForDoneByAnEarlierOneToTheSameOffset(t *testing.T) {
	b := newBench(t)
	b.one("t", 100)
	m := b.marshaler("a")
	b.consumer(m, ConsumerOptions{}, "t")
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	key := lease.Key{Topic: "t"}
	late := &seeking{key: key, next: 10, by: m.instance}
	m.seeks = []*seeking{late}
	m.seekWritten(&lease.Record{Kind: lease.KindDirective, Seq: 8, Directive: lease.Directive{Key: key, Next: 10, Epoch: 7}})
	assert.Zero(t, late.seq, "that is an offset from outside, under an epoch: it may come to nothing")
	m.seekWritten(&lease.Record{Kind: lease.KindDirective, Seq: 9, Directive: lease.Directive{Key: key, Next: 10, Epoch: lease.NoEpoch}})
	m.sought(&lease.Event{Kind: lease.Sought, Author: m.instance, Key: key, Next: 10, Seq: 5})
	assert.False(t, late.over, "nobody waits for that one any more")
	m.sought(&lease.Event{Kind: lease.Sought, Author: m.instance, Key: key, Next: 10, Seq: 9})
	assert.True(t, late.over)
}

func TestProgressPastWhatIsBufferedGivesItsRoomBack(t *testing.T) {
	b := newBench(t)
	b.one("t", 5000)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	claim := claimed(t, c)
	p := claim.claim.partitions()[0]
	eventually(t, "all buffered", func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.next == 5000
	})
	require.NoError(t, claim.Progress(within(t, patience), 4999))
	assert.EqualValues(t, 4999, take(t, claim, 1)[0].Offset)
	assert.Zero(t, c.fetcher.buffered.Load())
}

func TestMessagesAndBatchesOfNobody(t *testing.T) {
	require.ErrorIs(t, (&Batch{}).Commit(), ErrNotHandedOut)
	require.ErrorIs(t, (&Batch{Messages: make([]Message, 2)}).Commit(), ErrNotHandedOut)
	require.ErrorIs(t, (*Message)(nil).Commit(), ErrNotHandedOut)
	require.ErrorIs(t, (*Batch)(nil).Commit(), ErrNotHandedOut)
	require.ErrorIs(t, new(Consumer).Commit(nil), ErrNotHandedOut)
	require.ErrorIs(t, new(Message).Commit(), ErrNotHandedOut)
}

func TestAClaimThatEndsWhileItBeginsIsForgotten(t *testing.T) {
	b := newBench(t)
	b.one("t", 10)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	eventually(t, "it has begun", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.reading.begun) == 1
	})
	cl := c.running()[0]
	require.NoError(t, c.Seek(within(t, patience), "t", 0, 5))
	eventually(t, "it has ended", cl.isOver)
	c.list(cl) // as who began it does a moment later
	c.mu.Lock()
	defer c.mu.Unlock()
	assert.NotContains(t, c.reading.begun, cl)
}

func TestFinalOffsetsThatKafkaDoesNotTakeAreKeptOncePerPartition(t *testing.T) {
	b := newBench(t)
	b.one("t", 10)
	m := b.marshaler("a")
	fault := b.Faults().Add(testutil.Fault{Client: "a", Keys: []kmsg.Key{kmsg.OffsetCommit}, Do: testutil.Cut})
	ctx := within(t, patience)
	for next := range int64(5) {
		claim, err := m.Claim(ctx, "t", 0)
		require.NoError(t, err)
		require.NoError(t, claim.Release(ctx, next+1))
	}
	hand, err := m.hands()
	require.NoError(t, err)
	short, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	require.Error(t, hand.commitOffsets(short, false))
	hand.committing <- struct{}{} // nobody has them in hand
	hand.knownMu.Lock()
	require.Len(t, hand.finals, 1)
	assert.EqualValues(t, 5, hand.finals[0].Offset)
	hand.knownMu.Unlock()
	<-hand.committing
	fault.Remove()
	b.committedAt("t", 0, 5)
}

func TestTwoRangesOverOneSequenceOfEventsBothEnd(t *testing.T) {
	b := newBench(t)
	m := b.marshaler("a")
	events := m.Events(context.Background())
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range events {
			}
		})
	}
	m.Terminate()
	wg.Wait()
	for e := range events {
		assert.Fail(t, "after the end", "%v", e.Kind)
	}
}
