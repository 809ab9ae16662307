package marshal

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// one creates a topic of one partition with n messages.
func (b *bench) one(topic string, n int) {
	b.t.Helper()
	require.NoError(b.t, b.CreateTopic(topic, 1, nil))
	b.fill(topic, 1, 0, n)
}

// claimed waits for the next claim of a consumer.
func claimed(t testing.TB, c *Consumer) *Claim {
	t.Helper()
	for claim, err := range c.Claims(within(t, patience)) {
		require.NoError(t, err)
		return claim
	}
	require.Fail(t, "no claim came")
	return nil
}

// take reads the next n messages of a claim.
func take(t testing.TB, c *Claim, n int) (ms []*Message) {
	t.Helper()
	for m, err := range c.Messages(within(t, patience)) {
		require.NoError(t, err)
		if ms = append(ms, m); len(ms) == n {
			return ms
		}
	}
	require.Len(t, ms, n)
	return ms
}

// nothing checks that a claim hands out nothing for now.
func nothing(t testing.TB, c *Claim) {
	t.Helper()
	for m := range c.Messages(within(t, 50*time.Millisecond)) {
		require.Fail(t, "handed out", "%d", m.Offset)
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestClaimsYieldsEachClaimOnceWithItsOwnMessages(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 100)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	var mu sync.Mutex
	seen := map[int32][]int64{}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	for claim, err := range c.Claims(ctx) {
		require.NoError(t, err)
		assert.Equal(t, "t", claim.Topic)
		assert.Zero(t, claim.Start)
		mu.Lock()
		assert.NotContains(t, seen, claim.Partition)
		seen[claim.Partition] = nil
		n := len(seen)
		mu.Unlock()
		wg.Go(func() {
			for m, err := range claim.Messages(ctx) {
				assert.NoError(t, err)
				assert.Equal(t, claim.Partition, m.Partition)
				assert.Equal(t, claim.Token(), m.Token())
				assert.NoError(t, m.Commit())
				mu.Lock()
				seen[m.Partition] = append(seen[m.Partition], m.Offset)
				mu.Unlock()
			}
		})
		if n == 4 {
			break
		}
	}
	_, err := c.FetchMessage(within(t, 50*time.Millisecond))
	assert.ErrorIs(t, err, context.DeadlineExceeded, "all of it is the claims'")
	eventually(t, "all", func() bool {
		for id := range int32(4) {
			if at, _ := c.Position("t", id); at < 100 {
				return false
			}
		}
		return true
	})
	for claim := range c.Claims(within(t, 50*time.Millisecond)) {
		assert.Fail(t, "yielded twice", "%d", claim.Partition)
	}
	cancel()
	wg.Wait()
	for id := range int32(4) {
		assert.Equal(t, upTo(100), seen[id])
	}
}

func TestWhatWasNotYieldedIsReadAsEver(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	mine := claimed(t, c)
	k := collect(t, c)
	eventually(t, "the rest", func() bool { return k.count() == 30 })
	assert.Empty(t, k.offsets("t", mine.Partition))
	assert.EqualValues(t, 9, take(t, mine, 10)[9].Offset)
}

func TestAClaimGoesOnWhereOthersHaveReadSoFar(t *testing.T) {
	b := newBench(t)
	b.one("t", 300)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	first, err := c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	require.NoError(t, first.Commit())
	second, err := c.FetchMessage(within(t, patience)) // more of them are in hand now
	require.NoError(t, err)
	messages := c.ConsumeChannel()
	eventually(t, "an offer", func() bool { return c.offering() == 2 })
	claim := claimed(t, c)
	assert.EqualValues(t, 1, claim.Start, "that one is not finished")
	ms := take(t, claim, 298)
	for i, m := range ms {
		require.EqualValues(t, i+2, m.Offset)
		require.NoError(t, m.Commit())
	}
	select {
	case m := <-messages:
		assert.Fail(t, "handed out twice", "%d", m.Offset)
	default:
	}
	require.NoError(t, second.Commit())
	at, _ := c.Position("t", 0)
	assert.EqualValues(t, 300, at)
}

func TestAClaimHasWhatWasFetchedBeforeItWasYielded(t *testing.T) {
	b := newBench(t)
	b.one("t", 10)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	eventually(t, "all of it fetched", func() bool {
		parts := c.begun()
		if len(parts) == 0 {
			return false
		}
		parts[0].mu.Lock()
		defer parts[0].mu.Unlock()
		return parts[0].next == 10
	})
	claim := claimed(t, c)
	for i, m := range take(t, claim, 10) {
		assert.EqualValues(t, i, m.Offset)
		require.NoError(t, m.Commit())
	}
}

func TestDrainingAndContextFollowAHandOver(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m1 := b.marshaler("a")
	c1 := b.consumer(m1, ConsumerOptions{DrainTimeout: time.Minute}, "t")
	claims := map[int32]*Claim{}
	last := map[int32]*Message{}
	for range 4 {
		claim := claimed(t, c1)
		claims[claim.Partition] = claim
		ms := take(t, claim, 4)
		for _, m := range ms[:3] {
			require.NoError(t, m.Commit())
		}
		last[claim.Partition] = ms[3]
	}
	k2 := collect(t, b.consumer(b.marshaler("b"), ConsumerOptions{}, "t"))
	var moving []*Claim
	eventually(t, "two that are to move", func() bool {
		moving = nil
		for _, claim := range claims {
			if isClosed(claim.Draining()) {
				moving = append(moving, claim)
			}
		}
		return len(moving) == 2
	})
	assert.Zero(t, k2.count(), "what is in flight is waited for")
	for _, claim := range moving {
		require.NoError(t, claim.Context().Err())
		nothing(t, claim)
		require.NoError(t, last[claim.Partition].Commit())
		<-claim.Context().Done()
		assert.ErrorIs(t, context.Cause(claim.Context()), ErrClaimLost)
		for range claim.Messages(context.Background()) {
			assert.Fail(t, "it has ended")
		}
		eventually(t, "the rest at the other", func() bool { return len(k2.offsets("t", claim.Partition)) == 6 })
		assert.EqualValues(t, 4, k2.offsets("t", claim.Partition)[0])
		delete(claims, claim.Partition)
	}
	for _, claim := range claims {
		require.NoError(t, claim.Context().Err())
		require.NoError(t, last[claim.Partition].Commit())
		assert.EqualValues(t, 4, take(t, claim, 1)[0].Offset, "nobody else stops")
		require.NoError(t, claim.Release(within(t, patience), -1))
	}
}

func TestADrainThatComesToNothingGoesOnWithANewDraining(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	c1 := b.consumer(b.marshaler("a"), ConsumerOptions{DrainTimeout: time.Minute}, "t")
	var claims []*Claim
	for range 4 {
		claim := claimed(t, c1)
		take(t, claim, 1)
		claims = append(claims, claim)
	}
	m2 := b.marshaler("b")
	c2 := b.consumer(m2, ConsumerOptions{}, "t")
	var moving []*Claim
	var old []<-chan struct{}
	eventually(t, "two that are to move", func() bool {
		moving, old = nil, nil
		for _, claim := range claims {
			if d := claim.Draining(); isClosed(d) {
				moving, old = append(moving, claim), append(old, d)
			}
		}
		return len(moving) == 2
	})
	assert.True(t, c2.Terminate(true))
	for i, claim := range moving {
		eventually(t, "it goes on", func() bool { return !isClosed(claim.Draining()) })
		assert.True(t, isClosed(old[i]), "the old one says what it said")
		require.NoError(t, claim.Context().Err())
		assert.EqualValues(t, 1, take(t, claim, 1)[0].Offset)
	}
	for _, claim := range claims {
		require.NoError(t, claim.Release(within(t, patience), 2))
	}
}

func TestReleaseOfAConsumersClaimGoesToAnotherMember(t *testing.T) {
	b := newBench(t, "t")
	m1, m2 := b.marshaler("a"), b.marshaler("b")
	c1 := b.consumer(m1, ConsumerOptions{DrainTimeout: time.Minute}, "t")
	k2 := collect(t, b.consumer(m2, ConsumerOptions{}, "t"))
	eventually(t, "two each", func() bool { return holds(m1) == 2 && holds(m2) == 2 })
	b.fill("t", 4, 0, 10) // not before: the one who comes first holds all for a moment, and would read it
	claim := claimed(t, c1)
	ms := take(t, claim, 8) // all in flight
	require.NoError(t, claim.Release(within(t, patience), 5))
	eventually(t, "the rest at the other", func() bool { return len(k2.offsets("t", claim.Partition)) == 5 })
	assert.EqualValues(t, 5, k2.offsets("t", claim.Partition)[0])
	assert.ErrorIs(t, ms[6].Commit(), ErrClaimLost)
	assert.ErrorIs(t, claim.Release(within(t, patience), 6), ErrClaimLost, "it is over")
	assert.ErrorIs(t, claim.Progress(within(t, patience), 6), ErrClaimLost)
	assert.True(t, isClosed(claim.Draining()))
	assert.Equal(t, 1, holds(m1), "and does not come straight back")
}

func TestReleaseOfAClaimThatNobodyElseWantsComesBackLater(t *testing.T) {
	b := newBench(t)
	b.one("t", 10)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	claim := claimed(t, c)
	released := time.Now()
	require.NoError(t, claim.Release(within(t, patience), 3))
	again := claimed(t, c)
	assert.GreaterOrEqual(t, time.Since(released), 900*time.Millisecond)
	assert.EqualValues(t, 3, again.Start)
	assert.EqualValues(t, 3, take(t, again, 1)[0].Offset)
	assert.Greater(t, again.Token(), claim.Token())
	require.NoError(t, again.Release(within(t, patience), -1))
}

func TestReleaseWhileDrainingHandsOverAtOnce(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m1 := b.marshaler("a")
	c1 := b.consumer(m1, ConsumerOptions{DrainTimeout: time.Minute}, "t")
	claims := map[int32]*Claim{}
	for range 4 {
		claim := claimed(t, c1)
		claims[claim.Partition] = claim
		take(t, claim, 8)
	}
	m2 := b.marshaler("b")
	k2 := collect(t, b.consumer(m2, ConsumerOptions{}, "t"))
	released := 0
	for released < 2 {
		for id, claim := range claims {
			if isClosed(claim.Draining()) {
				require.NoError(t, claim.Release(within(t, patience), 6))
				eventually(t, "the rest at the other", func() bool { return len(k2.offsets("t", id)) == 4 })
				assert.EqualValues(t, 6, k2.offsets("t", id)[0])
				delete(claims, id)
				released++
			}
		}
	}
	m1.g.mu.Lock()
	for id := range int32(4) {
		assert.False(t, m1.g.log.World().HasMark(lease.Key{Topic: "t", Partition: id}), "nobody is unfit")
	}
	m1.g.mu.Unlock()
	for _, claim := range claims {
		require.NoError(t, claim.Release(within(t, patience), -1))
	}
}

func TestProgressMovesThePositionAndWaitsUntilItIsDurable(t *testing.T) {
	b := newBench(t)
	b.one("t", 100)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{CommitInterval: time.Minute}, "t")
	claim := claimed(t, c)
	ms := take(t, claim, 10)
	ctx := within(t, patience)
	require.NoError(t, claim.Progress(ctx, 7))
	assert.EqualValues(t, 7, m.GetPartitionClaim("t", 0).LastOffset, "it is in the log")
	require.NoError(t, ms[8].Commit())
	require.NoError(t, claim.Progress(ctx, 7))
	require.NoError(t, claim.Progress(ctx, 8))
	assert.EqualValues(t, 9, m.GetPartitionClaim("t", 0).LastOffset, "8 was finished before")
	assert.ErrorContains(t, claim.Progress(ctx, 6), "cannot go back")
	require.NoError(t, claim.Progress(ctx, 40))
	assert.EqualValues(t, 40, take(t, claim, 1)[0].Offset, "over what was fetched and in hand")
	require.NoError(t, claim.Progress(ctx, 99))
	assert.EqualValues(t, 99, take(t, claim, 1)[0].Offset)
	require.NoError(t, claim.Progress(ctx, 100))
	b.fill("t", 1, 100, 1)
	assert.EqualValues(t, 100, take(t, claim, 1)[0].Offset)
	held := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.Freeze}) // or it may be durable before ctx is looked at
	done, cancel := context.WithCancel(context.Background())
	cancel()
	assert.ErrorIs(t, claim.Progress(done, 101), context.Canceled)
	held.Remove()
	require.NoError(t, claim.Progress(ctx, 101))
}

func TestProgressDuringAHandOverIsDurable(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	c1 := b.consumer(b.marshaler("a"), ConsumerOptions{DrainTimeout: time.Minute}, "t")
	claims := map[int32]*Claim{}
	for range 4 {
		claim := claimed(t, c1)
		claims[claim.Partition] = claim
		take(t, claim, 4)
	}
	m2 := b.marshaler("b")
	k2 := collect(t, b.consumer(m2, ConsumerOptions{}, "t"))
	for moved := 0; moved < 2; {
		for id, claim := range claims {
			if isClosed(claim.Draining()) {
				require.NoError(t, claim.Progress(within(t, patience), 4), "the hand-over itself confirms it")
				eventually(t, "the rest at the other", func() bool { return len(k2.offsets("t", id)) == 6 })
				delete(claims, id)
				moved++
			}
		}
	}
	for _, claim := range claims {
		require.NoError(t, claim.Progress(within(t, patience), 4))
	}
}

func TestTerminateWithReleaseDrainsGivenClaims(t *testing.T) {
	b := newBench(t)
	b.one("t", 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	claim := claimed(t, c)
	ms := take(t, claim, 4)
	done := make(chan bool, 1)
	m.wg.Go(func() { done <- c.Terminate(true) })
	<-claim.Draining()
	require.NoError(t, claim.Context().Err())
	for _, msg := range ms {
		require.NoError(t, msg.Commit())
	}
	assert.True(t, <-done)
	assert.ErrorIs(t, context.Cause(claim.Context()), ErrClaimLost)
	for range c.Claims(context.Background()) {
		assert.Fail(t, "it has ended")
	}
	assert.EqualValues(t, 4, m.GetLastPartitionClaim("t", 0).LastOffset)
}

func TestTerminateWithoutReleaseEndsGivenClaims(t *testing.T) {
	b := newBench(t)
	b.one("t", 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	claim := claimed(t, c)
	ms := take(t, claim, 4)
	require.NoError(t, ms[0].Commit())
	require.True(t, c.Terminate(false))
	assert.True(t, isClosed(claim.Draining()))
	assert.ErrorIs(t, context.Cause(claim.Context()), ErrTerminated)
	assert.ErrorIs(t, claim.Progress(within(t, patience), 3), ErrTerminated)
	assert.ErrorIs(t, claim.Release(within(t, patience), 3), ErrTerminated)
	for range claim.Messages(context.Background()) {
		assert.Fail(t, "it has ended")
	}
	assert.EqualValues(t, 1, m.GetPartitionClaim("t", 0).LastOffset)
}

func TestAClaimThatBeginsAnewIsYieldedAgain(t *testing.T) {
	b := newBench(t)
	b.one("t", 10)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	first := claimed(t, c)
	for _, m := range take(t, first, 8) {
		require.NoError(t, m.Commit())
	}
	require.NoError(t, c.Seek(within(t, patience), "t", 0, 3))
	second := claimed(t, c)
	assert.ErrorIs(t, context.Cause(first.Context()), ErrClaimLost)
	assert.EqualValues(t, 3, second.Start)
	assert.Greater(t, second.Token(), first.Token())
	assert.EqualValues(t, 3, take(t, second, 1)[0].Offset)

	require.NoError(t, b.RecreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 2)
	third := claimed(t, c)
	assert.ErrorIs(t, context.Cause(second.Context()), ErrClaimLost)
	assert.Zero(t, third.Start)
	for i, m := range take(t, third, 2) {
		assert.EqualValues(t, i, m.Offset)
		require.NoError(t, m.Commit())
	}
	b.fill("t", 1, 2, 1)
	require.NoError(t, take(t, third, 1)[0].Commit())
}

func TestAClaimOfAWholeTopicHasTheMessagesOfAllItsPartitions(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{ClaimEntireTopic: true}, "t")
	claim := claimed(t, c)
	assert.EqualValues(t, -1, claim.Partition)
	assert.EqualValues(t, -1, claim.Start)
	for _, m := range take(t, claim, 40) {
		require.NoError(t, m.Commit())
	}
	b.grow("t", 6)
	b.fill("t", 6, 10, 1)
	for _, m := range take(t, claim, 6) {
		require.NoError(t, m.Commit())
	}
	assert.ErrorContains(t, claim.Progress(within(t, patience), 3), "commit its messages")
	require.NoError(t, claim.Release(within(t, patience), -1))
	assert.EqualValues(t, 11, m.GetLastPartitionClaim("t", 2).LastOffset)
	assert.EqualValues(t, 1, m.GetLastPartitionClaim("t", 5).LastOffset)
}

func TestAPauseHoldsForAClaimThatWasYielded(t *testing.T) {
	b := newBench(t)
	b.one("t", 10)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	claim := claimed(t, c)
	require.NoError(t, take(t, claim, 1)[0].Commit())
	c.Pause("t")
	nothing(t, claim)
	c.Resume("t")
	require.NoError(t, take(t, claim, 1)[0].Commit())
}

func TestASuspendedClaimGoesOnWhenItsLeaseIsConfirmed(t *testing.T) {
	b := newBench(t)
	b.one("t", 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	claim := claimed(t, c)
	require.NoError(t, take(t, claim, 1)[0].Commit())
	f := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.Drop})
	eventually(t, "trust that ends", func() bool { return !m.trusted() })
	got := make(chan *Message, 1)
	m.wg.Go(func() { got <- take(t, claim, 1)[0] })
	eventually(t, "somebody who waits", func() bool {
		claim.reading.mu.Lock()
		defer claim.reading.mu.Unlock()
		return claim.reading.waiters > 0
	})
	require.NoError(t, claim.Context().Err(), "a suspension is no loss")
	f.Remove()
	assert.EqualValues(t, 1, (<-got).Offset)
	require.NoError(t, claim.Progress(within(t, patience), 2))
}
