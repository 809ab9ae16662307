package marshal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/testutil"
)

func TestTakingTheOfferedMessageBackRacesWithTheApplicationAndTheEnd(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	eventually(t, "the partition", func() bool { return len(c.running()) == 1 && len(c.running()[0].partitions()) == 1 })
	p := c.running()[0].partitions()[0]
	for range 3000 {
		r := newReading(m)
		ms := []*Message{{from: p}, {from: p}, {from: p}}
		r.current, r.hand = p, ms
		go r.pump()
		got := 0
		<-r.channel
		var wg sync.WaitGroup
		wg.Go(func() {
			for msg := range r.channel {
				assert.NotNil(t, msg)
				got++
			}
		})
		wg.Go(func() { r.pumping = true; r.stop() })
		wg.Go(func() { r.recall() })
		wg.Wait()
	}
}

func TestATopicRecreatedWhileAPartitionBeginsIsReadInItsNewLife(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	begun := func() *partition {
		for _, cl := range c.running() {
			for _, p := range cl.partitions() {
				return p
			}
		}
		return nil
	}
	eventually(t, "the partition", func() bool { return begun() != nil })
	old := begun()
	require.NoError(t, b.RecreateTopic("t", 1, nil))
	b.fill("t", 1, 100, 10)
	eventually(t, "its new life", func() bool { return begun() != nil && begun().topicID != old.topicID })
	p := begun()
	p.claim.restart(ErrClaimLost)
	c.begin(&start{claim: p.claim, id: 0, topicID: old.topicID}) // as a starter does that has asked for the offset before
	wakeUp(c.starts)
	msg, err := c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	assert.Equal(t, "100", string(msg.Value))
	require.NoError(t, msg.Commit())
}

func TestAConsumerThatDidNotWaitForItsDrainGivesItsKeysBackAllTheSame(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m1 := b.marshaler("a")
	c := b.consumer(m1, ConsumerOptions{}, "t")
	_, err := c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	eventually(t, "all", func() bool { return holds(m1) == 4 })
	require.Error(t, c.Close(within(t, time.Millisecond)), "a message is in flight")
	m2 := b.marshaler("b")
	b.consumer(m2, ConsumerOptions{}, "t")
	eventually(t, "all at the other", func() bool { return holds(m2) == 4 })
}

func TestABrokerThatIsGoneForGoodIsNotAskedForEver(t *testing.T) {
	b := &bench{t: t, Cluster: testutil.NewCluster(t, testutil.WithBrokers(3))}
	require.NoError(t, b.CreateTopic("t", 6, nil))
	m := b.marshaler("a")
	k := collect(t, b.consumer(m, ConsumerOptions{WatchInterval: time.Minute}, "t"))
	eventually(t, "all", func() bool { return holds(m) == 6 })
	b.fill("t", 6, 0, 10)
	eventually(t, "messages of each", func() bool { return k.count() == 60 })
	require.NoError(t, b.StopBroker(2))
	b.fill("t", 6, 10, 10)
	eventually(t, "messages from the others", func() bool { return k.count() == 120 })
	asked := b.Faults().Add(testutil.Fault{Client: "a", Keys: []kmsg.Key{kmsg.Metadata}, Do: testutil.DelayAnswers, Delay: time.Nanosecond})
	beats := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.DelayAnswers, Delay: time.Nanosecond})
	require.NoError(t, beats.Wait(within(t, patience), 8))
	assert.LessOrEqual(t, asked.Hits(), 8, "nobody needs that broker")
}

func TestAPartitionThatMovesWhileItIsAskedForIsAskedForAtItsNewBroker(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	eventually(t, "the partition", func() bool { return len(c.running()) == 1 && len(c.running()[0].partitions()) == 1 })
	p := c.running()[0].partitions()[0]
	f := newFetcher(c.ctx, c)
	from := &fetchBroker{f: f, id: 1, kicks: [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}}
	to := &fetchBroker{f: f, id: 2, kicks: [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}}
	p = newPartition(p.claim, 0, p.topicID, 0, 10)
	p.fetch.broker, p.fetch.asked = to, true
	to.parts = []*partition{p}
	r, _ := to.pick(longPoll, nil)
	require.Nil(t, r, "its old broker still has the request")
	from.release(longPoll, &request{asked: []asked{{p: p}}}, nil)
	select {
	case <-to.kicks[longPoll]:
	default:
		assert.Fail(t, "nobody tells the new broker")
	}
}

func TestConsumersAndMarshalersMadeWhileTheirParentEnds(t *testing.T) {
	b := newBench(t, "t")
	for range 20 {
		cl, err := Dial("a", b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(t)))
		require.NoError(t, err)
		m, err := cl.NewMarshaler("a", testGroup)
		require.NoError(t, err)
		var wg sync.WaitGroup
		var c *Consumer
		var late *Marshaler
		wg.Go(func() {
			var err error
			if c, err = m.NewConsumer([]string{"t"}, ConsumerOptions{}); err != nil {
				assert.True(t, errors.Is(err, ErrTerminated) || errors.Is(err, context.Canceled), "%v", err)
			}
		})
		wg.Go(func() {
			var err error
			if late, err = cl.NewMarshaler("b", testGroup); err != nil {
				assert.ErrorIs(t, err, ErrTerminated)
			}
		})
		begin := time.Now()
		wg.Go(func() { m.Terminate() })
		wg.Go(func() { cl.Terminate() })
		wg.Wait()
		assert.Less(t, time.Since(begin), 8*time.Second)
		if c != nil {
			_, err := c.FetchMessage(within(t, patience))
			assert.ErrorIs(t, err, ErrTerminated)
		}
		if late != nil {
			assert.True(t, late.Terminated())
		}
	}
}

func TestWhoIsDeclaredDeadWhileItLeavesHasLeft(t *testing.T) {
	b := newBench(t, "t")
	m1, m2 := b.marshaler("a"), b.marshaler("b")
	b.consumer(m1, ConsumerOptions{}, "t")
	b.consumer(m2, ConsumerOptions{}, "t")
	share(t, 4, m1, m2)
	b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.Drop})
	begin := time.Now()
	_ = m1.Close(within(t, time.Minute)) // its consumer was not released, it was evicted
	assert.Less(t, time.Since(begin), patience)
	assert.Equal(t, 1, alive(m2))
}

func TestKeysStayKeptWhateverElseIsWantedWhileTheirConsumerFlushes(t *testing.T) {
	b := newBench(t, "t", "u")
	m := b.marshaler("a", WithLease(10*time.Second, 0))
	c := b.consumer(m, ConsumerOptions{RestartGrace: time.Minute}, "t")
	eventually(t, "all", func() bool { return holds(m) == 4 && len(c.running()) == 4 })
	before := m.State().Keys
	b.fill("t", 4, 0, 1)
	msg, err := c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	f := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.Freeze})
	require.NoError(t, msg.Commit())
	require.NoError(t, f.Wait(within(t, patience), 1))
	var wg sync.WaitGroup
	wg.Go(func() { c.Terminate(false) })
	eventually(t, "a consumer that flushes", c.Terminated)
	_, err = m.NewConsumer([]string{"t"}, ConsumerOptions{})
	assert.ErrorIs(t, err, ErrAlreadyConsuming)
	b.consumer(m, ConsumerOptions{}, "u")
	f.Remove()
	wg.Wait()
	eventually(t, "the other topic too", func() bool { return holds(m) == 8 })
	for i, k := range m.State().Keys[:4] {
		assert.Equal(t, before[i].Epoch, k.Epoch, "%s/%d", k.Topic, k.Partition)
	}
}

func TestTrustEndsByTheClockThatRunsWhileTheMachineSleeps(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a", WithLease(30*time.Second, 0))
	c := b.consumer(m, ConsumerOptions{}, "t")
	msg, err := c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	require.NoError(t, msg.Commit())
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	require.True(t, m.trusted())
	now := m.c.clock.tick()
	if now.Boot == 0 {
		t.Skip("this system has no such clock")
	}
	now.Boot += time.Hour
	m.tick(now)
	assert.False(t, m.trusted())
}

var _ = fmt.Sprint
