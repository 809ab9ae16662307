package marshal

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
)

func TestC110UseWhileAndAfterEverythingTerminates(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	c, err := Dial("a", b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(t)))
	require.NoError(t, err)
	m, err := c.NewMarshaler("a", testGroup)
	require.NoError(t, err)
	k, err := m.NewConsumer([]string{"t"}, ConsumerOptions{DrainTimeout: 50 * time.Millisecond})
	require.NoError(t, err)
	ctx := within(t, patience)
	msg, err := k.FetchMessage(ctx)
	require.NoError(t, err)

	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() { k.Terminate(true) })
		wg.Go(func() { m.Terminate() })
		wg.Go(func() { c.Terminate() })
		wg.Go(func() { _ = k.Commit(msg) })
		wg.Go(func() { k.PrintState() })
		wg.Go(func() { k.Lag() })
	}
	wg.Wait()
	begin := time.Now()
	assert.True(t, k.Terminated())
	assert.True(t, m.Terminated())
	assert.True(t, c.Terminated())
	_, err = k.FetchMessage(ctx)
	assert.ErrorIs(t, err, ErrTerminated)
	_, err = k.ReadMessage(ctx)
	assert.ErrorIs(t, err, ErrTerminated)
	assert.ErrorIs(t, k.Flush(ctx), ErrTerminated)
	assert.Error(t, msg.Commit())
	assert.Error(t, k.CommitMessages(ctx, msg))
	assert.Zero(t, k.Lag())
	_, open := <-k.ConsumeChannel()
	assert.False(t, open)
	for range k.Messages(ctx) {
		assert.Fail(t, "a message after the end")
	}
	for range k.Batches(ctx) {
		assert.Fail(t, "a batch after the end")
	}
	_, err = m.NewConsumer([]string{"t"}, ConsumerOptions{})
	assert.ErrorIs(t, err, ErrTerminated)
	_, err = c.NewMarshaler("b", testGroup)
	assert.ErrorIs(t, err, ErrTerminated)
	m.PrintState()
	assert.NoError(t, m.Close(ctx))
	assert.NoError(t, c.Close(ctx))
	assert.Less(t, time.Since(begin), time.Second)
}

func TestAMessageThatIsNotOursCannotBeCommitted(t *testing.T) {
	var m Message
	assert.ErrorIs(t, m.Commit(), ErrNotHandedOut)
	assert.Zero(t, m.Token())
	assert.NoError(t, m.Context().Err())
}

func TestTerminateWithoutReleaseKeepsTheKeysForTheNextRun(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 100)
	m1 := b.marshaler("a")
	c1 := b.consumer(m1, ConsumerOptions{RestartGrace: time.Minute}, "t")
	k1 := collect(t, c1)
	eventually(t, "all messages", func() bool { return k1.count() == 400 })
	m2 := b.marshaler("b")
	b.consumer(m2, ConsumerOptions{MaximumClaims: 1}, "t")
	eventually(t, "one at the other", func() bool { return holds(m2) == 1 })
	require.True(t, c1.Terminate(false))
	m1.Terminate()
	eventually(t, "a parked member", func() bool {
		for _, i := range m2.State().Instances {
			if i.Parked && i.Client == "a" && i.Claims == 3 {
				return true
			}
		}
		return false
	})

	m3 := b.marshaler("a")
	k3 := collect(t, b.consumer(m3, ConsumerOptions{}, "t"))
	eventually(t, "its keys again", func() bool { return holds(m3) == 3 })
	b.fill("t", 4, 100, 1)
	eventually(t, "only what is new", func() bool { return k3.count() >= 3 })
	assert.Equal(t, 3, k3.count())
}

func TestWhatIsCommittedWhileTerminateFalseIsUnderWayIsDurableOrRefused(t *testing.T) {
	b := newBench(t)
	const n = 5000
	for round := range 10 {
		topic := fmt.Sprint("t", round)
		require.NoError(t, b.CreateTopic(topic, 1, nil))
		b.fill(topic, 1, 0, n)
		m := b.marshaler("a")
		c := b.consumer(m, ConsumerOptions{}, topic)
		ctx := within(t, patience)
		var ms []*Message
		for range n {
			msg, err := c.FetchMessage(ctx)
			require.NoError(t, err)
			ms = append(ms, msg)
		}
		begun := make(chan struct{})
		next := int64(0) // behind the last whose commit was accepted
		var wg sync.WaitGroup
		wg.Go(func() {
			for i, msg := range ms {
				if i == 100 {
					close(begun)
				}
				for wait := time.Now(); time.Since(wait) < 10*time.Microsecond; {
					continue
				}
				if err := msg.Commit(); err != nil {
					assert.ErrorIs(t, err, ErrTerminated)
					return
				}
				next = msg.Offset + 1
			}
		})
		<-begun
		require.True(t, c.Terminate(false))
		wg.Wait()
		at := slices.IndexFunc(m.State().Keys, func(k KeyState) bool { return k.Topic == topic })
		require.GreaterOrEqual(t, at, 0)
		assert.Equal(t, next, m.State().Keys[at].Next, "round %d", round)
		m.Terminate()
	}
}

func TestKeysThatNobodyComesBackForAreFreeAfterTheGrace(t *testing.T) {
	b := newBench(t, "t")
	m1 := b.marshaler("a")
	c1 := b.consumer(m1, ConsumerOptions{RestartGrace: 500 * time.Millisecond}, "t")
	eventually(t, "all", func() bool { return holds(m1) == 4 })
	require.True(t, c1.Terminate(false))
	m1.Terminate()
	m2 := b.marshaler("b")
	b.consumer(m2, ConsumerOptions{}, "t")
	eventually(t, "all at the other", func() bool { return holds(m2) == 4 })
}

func TestFastReclaimAfterACrash(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m1 := b.marshaler("a", WithLease(10*time.Second, 0))
	b.consumer(m1, ConsumerOptions{}, "t")
	eventually(t, "all", func() bool { return holds(m1) == 4 })
	f := b.Faults().Add(testutil.Fault{Client: "a", Do: testutil.Cut})
	m1.cancel() // as if the process were gone
	f.Remove()
	begin := time.Now()
	m2 := b.marshaler("a", WithLease(10*time.Second, 0))
	k2 := collect(t, b.consumer(m2, ConsumerOptions{FastReclaim: true}, "t"))
	eventually(t, "its messages", func() bool { return k2.count() >= 40 })
	assert.Less(t, time.Since(begin), 8*time.Second, "without waiting for the lease")
}

func TestTerminateIsBoundedWhenTheNetworkIsGone(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	ch := c.ConsumeChannel()
	<-ch
	f := b.Faults().Add(testutil.Fault{Client: "a", Do: testutil.Drop})
	defer f.Remove()
	begin := time.Now()
	assert.Error(t, m.Close(within(t, time.Second)))
	assert.Less(t, time.Since(begin), 5*time.Second)
	for range ch {
		continue
	}
}

func TestDialSaysWhatItTried(t *testing.T) {
	t.Parallel()
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	addr := dead.Addr().String()
	require.NoError(t, dead.Close())
	begin := time.Now()
	_, err = DialContext(within(t, time.Second), "x", []string{addr})
	require.ErrorContains(t, err, addr)
	assert.Less(t, time.Since(begin), 3*time.Second)

	log, seen := logged(t)
	_, err = DialContext(within(t, 4*time.Second), "x", []string{addr}, WithLogger(log))
	require.Error(t, err)
	assert.True(t, seen.has("warning", "no broker of ["+addr+"] reached yet"))

	b := newBench(t)
	m, err := NewMarshaler("a", "g", append([]string{addr}, b.Addrs()...), WithLogger(testutil.Logger(t)))
	require.NoError(t, err)
	m.Terminate()
}

type testWriter struct{ t testing.TB }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Log(strings.TrimSpace(string(p)))
	return len(p), nil
}

func TestStateTellsWhatNobodyHoldsAndWhy(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	b.consumer(m, ConsumerOptions{MaximumClaims: 1}, "t")
	eventually(t, "one claim", func() bool { return holds(m) == 1 })
	s := m.State()
	require.Len(t, s.Keys, 4)
	free := 0
	for _, k := range s.Keys {
		if k.Instance == "" {
			free++
			assert.Contains(t, k.Why, "maximum")
		}
	}
	assert.Equal(t, 3, free)
	assert.Contains(t, s.String(), "maximum")
}

func TestWaitingCallsEndWithTheirContext(t *testing.T) {
	b := newBench(t, "t")
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	_, err := c.FetchMessage(within(t, 20*time.Millisecond))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	var wg sync.WaitGroup
	wg.Go(func() {
		_, err := c.FetchMessage(context.Background())
		assert.True(t, errors.Is(err, ErrTerminated))
	})
	eventually(t, "a waiter", func() bool { c.mu.Lock(); defer c.mu.Unlock(); return c.waiters > 0 })
	c.Terminate(true)
	wg.Wait()
}

func TestTerminateWithoutReleaseTellsOfMessagesInHand(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 2, 0, 10)
	log, seen := logged(t)
	c := b.consumer(b.marshaler("a", WithLogger(log)), ConsumerOptions{}, "t")
	heard := listen(t, c)
	held := hold(t, c, 12)
	require.NoError(t, held[0].Commit())
	busy := map[int32]int{}
	for _, m := range held[1:] {
		busy[m.Partition]++
	}
	require.True(t, c.Terminate(false))
	<-heard.done
	cuts := heard.of(DrainCut)
	require.Len(t, cuts, len(busy))
	for _, e := range cuts {
		assert.Contains(t, e.Text, fmt.Sprintf("keeping t/%d with %d messages unfinished", e.Partition, busy[e.Partition]))
		assert.Contains(t, e.Text, "they come again at the next run")
		assert.Positive(t, e.Token)
	}
	eventually(t, "a line of each", func() bool { return seen.times("warning", "they come again at the next run") == len(busy) })
	require.ErrorIs(t, held[1].Commit(), ErrTerminated)
}
