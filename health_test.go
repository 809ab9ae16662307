package marshal

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/testutil"
)

func TestAProblemIsToldWhenItLasts(t *testing.T) {
	var ps ailments
	at, told := time.Now(), 0
	for range 300 { // a minute of a problem that comes five times a second
		if ps.again("x", errors.New("bad"), 0, at, at) {
			told++
		}
		at = at.Add(200 * time.Millisecond)
	}
	assert.Equal(t, 6, told)
	assert.Len(t, ps.lasting(at), 1)
	assert.Empty(t, ps.lasting(at.Add(isNewAfter+time.Second)), "it did not come again")
	assert.False(t, ps.again("y", errors.New("bad"), 0, at, at), "one that comes once is over sooner than it is told")
	assert.Len(t, ps.lasting(at), 1)
	ps.over("x")
	assert.Empty(t, ps.lasting(at))
}

func TestAProblemThatIsTriedForSeldomLastsToo(t *testing.T) {
	var ps ailments
	at := time.Now()
	assert.False(t, ps.again("x", errors.New("bad"), time.Minute, at, at))
	at = at.Add(time.Minute)
	assert.True(t, ps.again("x", errors.New("bad"), time.Minute, at, at))
	assert.Len(t, ps.lasting(at.Add(time.Minute)), 1)
	assert.Empty(t, ps.lasting(at.Add(time.Minute+isNewAfter+time.Second)))
	at = at.Add(time.Hour)
	assert.False(t, ps.again("x", errors.New("bad"), time.Minute, at, at), "it begins anew")
	assert.True(t, ps.again("y", errors.New("bad"), time.Minute, at.Add(-lastsAfter), at), "a try that took long has lasted")
}

func TestAReminderComesAtOnceAndEachMinute(t *testing.T) {
	var ps ailments
	at, told := time.Now(), 0
	for range 300 { // five minutes
		if ps.remind("x", errors.New("bad"), at) {
			told++
		}
		assert.Len(t, ps.lasting(at.Add(time.Hour)), 1)
		at = at.Add(time.Second)
	}
	assert.Equal(t, 5, told)
	ps.over("x")
	assert.Empty(t, ps.lasting(at))
}

func TestProblemsThatAreOverTakeNoRoom(t *testing.T) {
	var ps ailments
	at := time.Now()
	for i := range 10_000 {
		ps.again(strings.Repeat("x", i%100)+time.Duration(i).String(), errors.New("bad"), 0, at, at)
		at = at.Add(time.Second)
	}
	assert.LessOrEqual(t, len(ps.all), 10)
}

func healthy(t *testing.T, h interface{ Healthy() error }) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool { err = h.Healthy(); return err == nil }, patience, 5*time.Millisecond, "health: %v", err)
}

func TestHealthyIsNilWhileAllIsWellAndErrTerminatedAfterwards(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	k := collect(t, c)
	eventually(t, "messages", func() bool { return k.count() == 40 })
	healthy(t, m)
	healthy(t, c)
	require.True(t, c.Terminate(true))
	assert.Equal(t, ErrTerminated, c.Healthy())
	assert.NoError(t, m.Healthy(), "a consumer that ended as wanted is no fault")
	m.Terminate()
	assert.Equal(t, ErrTerminated, m.Healthy())
}

func TestHealthySaysThatHandOutIsSuspendedWithTheCauseAndWhenItGoesOn(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a", WithLease(time.Second, 0))
	c := b.consumer(m, ConsumerOptions{}, "t")
	healthy(t, c)
	f := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.Cut})
	eventually(t, "the cause", func() bool {
		err := m.Healthy()
		return errors.Is(err, ErrSuspended) && strings.Contains(err.Error(), "the lease was not confirmed in time: ")
	})
	assert.ErrorIs(t, c.Healthy(), ErrSuspended)
	f.Remove()
	healthy(t, m)
	healthy(t, c)
}

func TestHealthySaysWhatIsWrongWithAConsumerAndNotWithTheOther(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t", "u")
	b.fill("u", 1, 0, 100)
	m := b.marshaler("a")
	missing := b.consumer(m, ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t", "late")
	stuck := b.consumer(m, ConsumerOptions{MaxInFlight: 20, CommitInterval: 20 * time.Millisecond}, "u")
	assert.ErrorContains(t, missing.Healthy(), "topic late does not exist", "at once")
	held := hold(t, stuck, 20)
	wait := within(t, 50*time.Millisecond)
	_, err := stuck.FetchMessage(wait)
	require.ErrorIs(t, err, wait.Err(), "there is no room for another")
	eventually(t, "a full window", func() bool { return errors.Is(stuck.Healthy(), ErrStalled) })
	assert.ErrorContains(t, stuck.Healthy(), "u/0 is paused at MaxInFlight: 20 messages are handed out from offset 0 on")
	assert.NotErrorIs(t, missing.Healthy(), ErrStalled)
	assert.NotContains(t, stuck.Healthy().Error(), "late")
	assert.ErrorIs(t, m.Healthy(), ErrStalled, "the marshaler's has both")
	assert.ErrorContains(t, m.Healthy(), "topic late does not exist")
	require.NoError(t, b.CreateTopic("late", 1, nil))
	healthy(t, missing)
	for _, msg := range held {
		require.NoError(t, msg.Commit())
	}
	healthy(t, stuck)
}

// hold fetches messages and does not commit them.
func hold(t *testing.T, c *Consumer, n int) []*Message {
	t.Helper()
	held := make([]*Message, n)
	for i := range held {
		var err error
		held[i], err = c.FetchMessage(within(t, patience))
		require.NoError(t, err)
	}
	return held
}

func TestHealthyGivesThePartitionThatCannotBeRead(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	remove := b.OnBatch("t", 1, brokenAt(0, func(b []byte) []byte { b[len(b)-1] ^= 1; return b }))
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	k := collect(t, c)
	var failure *PartitionError
	eventually(t, "the failure", func() bool { return errors.As(c.Healthy(), &failure) })
	assert.Equal(t, PartitionError{Topic: "t", Partition: 1, Offset: 0, Err: failure.Err}, *failure)
	assert.ErrorAs(t, m.Healthy(), &failure)
	remove()
	healthy(t, c)
	eventually(t, "the rest", func() bool { return k.count() == 40 })
}

func TestASecondProcessWithOurClientIDIsShownWhileItLives(t *testing.T) {
	b := newBench(t, "t")
	log, seen := logged(t)
	m := b.marshaler("a", WithLogger(log))
	c := b.consumer(m, ConsumerOptions{}, "t")
	healthy(t, c)
	heard := listen(t, m)
	m2 := b.marshaler("a")
	eventually(t, "the fault", func() bool { return m.Healthy() != nil })
	assert.ErrorContains(t, m.Healthy(), "another living process uses this client id, a (")
	assert.ErrorContains(t, c.Healthy(), "another living process uses this client id")
	heard.wait(t, ClientIDInUse)
	eventually(t, "a line", func() bool { return seen.has("warning", "another living process uses this client id, a (") })
	m2.Terminate()
	healthy(t, m)
	seen.mu.Lock()
	defer seen.mu.Unlock()
	assert.Len(t, slices.DeleteFunc(slices.Clone(seen.texts), func(s string) bool { return !strings.Contains(s, "uses this client id") }), 1)
}

func TestHealthyTellsOfBrokersThatRefuseAndOfClaimsThatCannotBegin(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	b.fill("t", 4, 0, 1)
	m := b.marshaler("a")
	f := b.Faults().Add(testutil.Fault{Client: "a", Keys: []kmsg.Key{kmsg.OffsetFetch}, Do: testutil.Cut})
	c := b.consumer(m, ConsumerOptions{}, "t")
	eventually(t, "what is wrong", func() bool {
		err := c.Healthy()
		return err != nil && strings.Contains(err.Error(), "cannot begin all partitions yet")
	})
	f.Remove()
	healthy(t, c)
	assert.NoError(t, m.Healthy())
}

func TestHealthySaysThatAPartitionIsStalledUntilItIsFinished(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 1, 0, 10)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{StallTimeout: 100 * time.Millisecond, CommitInterval: 20 * time.Millisecond}, "t")
	own := listen(t, c)
	msg := hold(t, c, 1)[0]
	eventually(t, "a stall", func() bool { return errors.Is(c.Healthy(), ErrStalled) })
	assert.ErrorContains(t, c.Healthy(), "t/0 stands at 0 for ")
	assert.ErrorIs(t, own.wait(t, ClaimStalled).Err, ErrStalled)
	require.NoError(t, msg.Commit())
	healthy(t, c)
}
