package marshal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
	"github.com/kafka-marshal/marshal/testutil"
)

func TestTakingTheOfferedMessageBackRacesWithTheApplicationAndTheEnd(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	eventually(t, "the partition", func() bool { return len(c.running()) == 1 && len(c.running()[0].partitions()) == 1 })
	key := c.running()[0].key
	m.g.mu.Lock()
	cl := newClaim(m, &member.Action{Key: key})
	m.g.mu.Unlock()
	for range 3000 {
		r := newReading(m, new(life))
		cl.reading.Store(r)
		p := newPartition(cl, 9, lease.TopicID{}, 0, 10)
		r.current, r.hand, r.pumping = p, []Message{{from: p}, {from: p}, {from: p}}, true
		var wg sync.WaitGroup
		wg.Go(r.pump)
		<-r.channel
		wg.Go(func() {
			for msg := range r.channel {
				assert.NotNil(t, msg)
			}
		})
		wg.Go(r.stop)
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
	t.Parallel()
	b := newBenchOn(t, testutil.WithBrokers(3))
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
	eventually(t, "only one", func() bool { return alive(m2) == 1 })
}

func TestKeysStayKeptWhateverElseIsWantedWhileTheirConsumerFlushes(t *testing.T) {
	b := newBench(t, "t", "u")
	m := b.marshaler("a", WithLease(10*time.Second, 0))
	c := b.consumer(m, ConsumerOptions{RestartGrace: time.Minute, CommitInterval: 20 * time.Millisecond}, "t")
	eventually(t, "all", func() bool { return holds(m) == 4 && len(c.running()) == 4 })
	before := m.State().Keys
	b.fill("t", 4, 0, 1)
	msg, err := c.FetchMessage(within(t, patience))
	require.NoError(t, err)
	f := b.Faults().Add(testutil.Fault{Client: "a", Keys: []kmsg.Key{kmsg.OffsetCommit}, Do: testutil.Freeze})
	require.NoError(t, msg.Commit())
	require.NoError(t, f.Wait(within(t, patience), 1))
	var wg sync.WaitGroup
	wg.Go(func() { c.Terminate(false) })
	eventually(t, "a consumer that flushes", c.Terminated)
	_, err = m.NewConsumer([]string{"t"}, ConsumerOptions{})
	assert.ErrorIs(t, err, ErrAlreadyConsuming)
	b.consumer(m, ConsumerOptions{}, "u")
	eventually(t, "the other topic too", func() bool {
		held := 0
		for _, k := range m.State().Keys {
			if k.Topic == "u" && k.Instance != "" {
				held++
			}
		}
		return held == 4
	})
	f.Remove()
	wg.Wait()
	eventually(t, "all", func() bool { return holds(m) == 8 })
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

// witness reads a consumer, commits what it reads, and writes both down for the judge.
type witness struct {
	log  *testutil.HandoutLog
	mu   sync.Mutex
	seen map[testutil.Place]map[int64]bool
}

// trial is a run that is judged.
type trial struct {
	*bench
	dir       string
	cancel    context.CancelFunc
	ctx       context.Context
	wg        sync.WaitGroup
	witnesses []*witness
	next      map[testutil.Place]int64
}

func newTrial(t *testing.T, b *bench) *trial {
	r := &trial{bench: b, dir: t.TempDir(), next: map[testutil.Place]int64{}}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	t.Cleanup(func() { r.cancel(); r.wg.Wait() })
	return r
}

// watch reads c, a message each pace.
func (r *trial) watch(process string, c *Consumer, pace time.Duration) *witness {
	log, err := testutil.OpenHandoutLog(r.dir, process, process)
	require.NoError(r.t, err)
	events := c.Events(r.ctx)
	r.wg.Go(func() {
		for e := range events {
			if h, ok := holdingOf(e); ok && h.Over {
				log.Over(h.Since, h.Topic, h.Partition, h.Token)
			} else if ok {
				log.Held(h.Since, h.Topic, h.Partition, h.Token)
			}
		}
	})
	w := &witness{log: log, seen: map[testutil.Place]map[int64]bool{}}
	r.witnesses = append(r.witnesses, w)
	r.wg.Go(func() {
		tick := time.NewTicker(pace)
		defer tick.Stop()
		for {
			<-tick.C
			before := testutil.Now()
			m, err := c.FetchMessage(r.ctx)
			after := testutil.Now()
			var one *PartitionError
			if errors.As(err, &one) {
				continue
			}
			if err != nil {
				return
			}
			w.log.Handout(before, after, m.Topic, m.Partition, m.Token(), m.Offset)
			w.log.Finished(m.Topic, m.Partition, m.Token(), m.Offset, m.Offset)
			if m.Commit() == nil {
				w.mu.Lock()
				place := testutil.Place{Topic: m.Topic, Partition: m.Partition}
				if w.seen[place] == nil {
					w.seen[place] = map[int64]bool{}
				}
				w.seen[place][m.Offset] = true
				w.mu.Unlock()
			}
		}
	})
	return w
}

// produce writes n messages to each of the first partitions.
func (r *trial) produce(topic string, partitions int32, n int) {
	for p := range partitions {
		place := testutil.Place{Topic: topic, Partition: p}
		eventually(r.t, "a broker that takes messages", func() bool { // its leader may be moving
			_, err := r.Fill(topic, p, n, 20)
			return err == nil
		})
		r.next[place] += int64(n)
	}
}

// read waits until everything that was written has been read and finished by somebody.
func (r *trial) read() {
	const often = 50 * time.Millisecond // counting takes long enough to hold up what is counted
	require.Eventually(r.t, func() bool {
		for place, n := range r.next {
			all := map[int64]bool{}
			for _, w := range r.witnesses {
				w.mu.Lock()
				for o := range w.seen[place] {
					all[o] = true
				}
				w.mu.Unlock()
			}
			if int64(len(all)) != n {
				return false
			}
		}
		return true
	}, patience, often, "all messages read")
}

func (r *trial) judge() {
	r.read()
	r.cancel()
	r.wg.Wait()
	for _, w := range r.witnesses {
		require.NoError(r.t, w.log.Close())
	}
	logs, err := testutil.ReadHandoutLogs(r.dir)
	require.NoError(r.t, err)
	e := testutil.Evidence{Logs: logs, Produced: map[testutil.Place][]testutil.Span{}}
	for place, n := range r.next {
		e.Produced[place] = []testutil.Span{{From: 0, To: n}}
	}
	assert.NoError(r.t, testutil.Judge(e).Err())
	l := testutil.Linearize(e)
	assert.NoError(r.t, l.Err())
	r.t.Logf("porcupine: %d operations, %s", l.Operations, l.Line())
}

// holdingOf is what an event says about a key that this process has; false: nothing.
func holdingOf(e Event) (testutil.Holding, bool) {
	now := testutil.Now()
	h := testutil.Holding{Place: testutil.Place{Topic: e.Topic, Partition: e.Partition}, Since: now - time.Since(e.Time).Nanoseconds(), Noted: now, Token: e.Token}
	h.Over = e.Kind == ClaimReleased || e.Kind == ClaimLost
	return h, h.Over || e.Kind == ClaimStarted
}

func TestNobodyIsHandedAnythingOnceItsTrustIsOver(t *testing.T) {
	for name, f := range map[string]testutil.Fault{
		"frozen":                  {Do: testutil.Freeze},
		"answers later than ttl":  {Do: testutil.DelayAnswers, Delay: 2 * testTTL},
		"requests later than ttl": {Do: testutil.DelayRequests, Delay: 2 * testTTL},
		"reads are cut":           {Do: testutil.Cut, Keys: testutil.Reads},
		"reads are dropped":       {Do: testutil.Drop, Keys: testutil.Reads},
		"writes are cut":          {Do: testutil.Cut, Keys: testutil.Writes},
		"writes get no answer":    {Do: testutil.LoseAnswers, Keys: testutil.Writes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTrial(t, newBench(t, "t"))
			m1, m2 := r.marshaler("a"), r.marshaler("b")
			o := ConsumerOptions{CommitInterval: 20 * time.Millisecond}
			w1 := r.watch("a", r.consumer(m1, o, "t"), 2*time.Millisecond) // there is always more to hand out
			r.watch("b", r.consumer(m2, o, "t"), 500*time.Microsecond)
			share(t, 4, m1, m2)
			r.produce("t", 4, 1000)
			eventually(t, "messages of both its partitions", func() bool {
				w1.mu.Lock()
				defer w1.mu.Unlock()
				return len(w1.seen) == 2
			})
			w1.log.Note(testutil.Frozen)
			f.Client = "a"
			active := r.Faults().Add(f)
			if name == "writes get no answer" { // its renewals arrive: it goes on
				require.NoError(t, active.Wait(within(t, patience), 1))
			} else {
				eventually(t, "all at the other", func() bool { return holds(m2) == 4 })
			}
			r.produce("t", 4, 200)
			r.read()
			active.Remove()
			w1.log.Note(testutil.Woken)
			eventually(t, "both again", func() bool { return alive(m1) == 2 && alive(m2) == 2 && m1.trusted() && m2.trusted() })
			r.produce("t", 4, 50)
			r.judge()
		})
	}
}

func TestAPartitionThatAnswersLeaveOutComesBackByItself(t *testing.T) {
	b := newBench(t, "t")
	k := collect(t, b.consumer(b.marshaler("a"), ConsumerOptions{MaxWait: 20 * time.Millisecond, RetryBackoffMin: time.Millisecond, RetryBackoffMax: 20 * time.Millisecond}, "t"))
	b.fill("t", 4, 0, 10)
	eventually(t, "all messages", func() bool { return k.count() == 40 })
	var left atomic.Int64
	left.Store(20)
	id := b.Kfake().TopicInfo("t").TopicID
	b.Kfake().ControlKey(int16(kmsg.Fetch), func(kr kmsg.Request) (kmsg.Response, error, bool) {
		r := kr.(*kmsg.FetchRequest)
		if left.Load() <= 0 {
			return nil, nil, false
		}
		b.Kfake().KeepControl()
		for i := range r.Topics {
			if r.Topics[i].TopicID == id {
				left.Add(-1)
				r.Topics[i].Partitions = slices.DeleteFunc(r.Topics[i].Partitions, func(p kmsg.FetchRequestTopicPartition) bool { return p.Partition == 3 })
			}
		}
		return nil, nil, false
	})
	b.fill("t", 4, 10, 10)
	eventually(t, "the others", func() bool { return k.count() >= 70 })
	eventually(t, "all", func() bool { return k.count() == 80 })
	assert.Equal(t, upTo(20), k.offsets("t", 3))
}

func TestASlowPartitionTakesNoRoomOfTheOthers(t *testing.T) {
	b := newBench(t, "t")
	for p := range int32(4) {
		_, err := b.Fill("t", p, 2000, 100)
		require.NoError(t, err)
	}
	k := collectBut(t, b.consumer(b.marshaler("a"), ConsumerOptions{MaxInFlight: 5, MaxBufferedBytes: 64 << 10, DrainTimeout: 50 * time.Millisecond}, "t"),
		func(m *Message) bool { return m.Partition == 0 })
	eventually(t, "the others", func() bool { return k.count() == 6005 })
	assert.Equal(t, upTo(5), k.offsets("t", 0))
}

// Commits by many, flushes by others, and an end by two, at a heartbeat of 50 ms: what is written in both places never goes down, and no
// Commit waits for any of it.
func TestC27PositionsNeverGoBackWhoeverCommitsAndFlushes(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 1000)
	stored := b.commits("t")
	m := b.marshaler("a", WithLease(testTTL, 50*time.Millisecond))
	c := b.consumer(m, ConsumerOptions{CommitInterval: 10 * time.Millisecond}, "t")
	ctx := within(t, 4*patience)
	work := make(chan *Message, 256)
	var slow atomic.Int64
	var wg, flushers sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for msg := range work {
				begun := time.Now()
				assert.NoError(t, msg.Commit())
				if took := time.Since(begun); took > 100*time.Millisecond {
					slow.Add(1)
				}
			}
		})
	}
	done, stop := context.WithCancel(ctx)
	for range 4 {
		flushers.Go(func() {
			for done.Err() == nil {
				_ = c.Flush(done) // the last one may be cut short
			}
		})
	}
	for range 4000 {
		msg, err := c.FetchMessage(ctx)
		require.NoError(t, err)
		work <- msg
	}
	close(work)
	wg.Wait()
	stop()
	flushers.Wait()
	var ends sync.WaitGroup
	for range 2 {
		ends.Go(func() { c.Terminate(true) })
	}
	ends.Wait()
	assert.Equal(t, int64(4000), b.committed("t", 4))
	assert.LessOrEqual(t, slow.Load(), int64(1), "a machine that is busy may stand still once")
	for where, all := range map[string]map[int32][]int64{"Kafka": stored(), "the log": b.positions(m)} {
		assert.Len(t, all, 4)
		for id, offsets := range all {
			assert.True(t, slices.IsSorted(offsets), "of %d in %s: %v", id, where, offsets)
		}
	}
}

func TestC55EndingInTheMiddleOfEverythingIsCleanHoweverOften(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 16, nil))
	rounds := 100
	if testing.Short() {
		rounds = 5
	}
	for round := range rounds {
		b.fill("t", 16, 0, 20)
		m := b.marshaler("a")
		for _, k := range m.State().Keys {
			at := slices.IndexFunc(m.State().Instances, func(i InstanceState) bool { return i.Instance == k.Instance })
			assert.True(t, at < 0 || m.State().Instances[at].Parked, "what was won during the end before is released, or kept for this run")
		}
		c := b.consumer(m, ConsumerOptions{CommitInterval: 10 * time.Millisecond, DrainTimeout: 20 * time.Millisecond}, "t")
		ctx := within(t, patience)
		var wg sync.WaitGroup
		var read atomic.Int64
		reader := func() {
			for msg := range c.ConsumeChannel() {
				assert.NotNil(t, msg)
				read.Add(1)
				_ = msg.Commit() // refused once the claim has ended
			}
		}
		wg.Go(reader)
		wg.Go(func() {
			for batch, err := range c.Batches(ctx) {
				if err == nil {
					read.Add(int64(len(batch.Messages)))
					_ = batch.Commit()
				}
			}
		})
		if round%2 == 0 { // the end comes while claims are won, or while everything flows, or while nobody reads
			eventually(t, "some messages", func() bool { return read.Load() > int64(round) })
		}
		begin := time.Now()
		for i := range 3 {
			wg.Go(func() {
				if i == 0 && round%3 == 0 {
					m.Terminate()
				} else {
					c.Terminate(round%5 != 0)
				}
			})
		}
		wg.Go(func() { _ = c.Flush(ctx) })
		wg.Go(func() { c.Lag(); m.State() })
		wg.Wait()
		assert.Less(t, time.Since(begin), 8*time.Second)
		_, open := <-c.ConsumeChannel()
		assert.False(t, open)
		m.Terminate()
	}
}

func TestC118WhatIsWrittenArrivesAsItIsAndControlRecordsDoNot(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	_, err := b.Produce("t", 0,
		testutil.Message{}, testutil.Message{Key: []byte("k")}, testutil.Message{Value: []byte{}},
		testutil.Message{Key: []byte{}, Value: []byte("v"), Headers: []kmsg.Header{{Key: "h", Value: []byte("x")}, {Key: "nil"}}})
	require.NoError(t, err)
	b.transact("t", 0, true, "committed")
	b.transact("t", 0, false, "aborted")
	_, err = b.Produce("t", 0, testutil.Text("last"))
	require.NoError(t, err)
	for _, isolation := range []sarama.IsolationLevel{sarama.ReadCommitted, sarama.ReadUncommitted} {
		m, err := NewMarshaler("a", fmt.Sprint("group", isolation), b.Addrs(), WithLogger(testutil.Logger(t)))
		require.NoError(t, err)
		c := b.consumer(m, ConsumerOptions{IsolationLevel: isolation}, "t")
		var got []*Message
		for msg := range c.ConsumeChannel() {
			require.NotNil(t, msg)
			got = append(got, msg)
			require.NoError(t, msg.Commit())
			if string(msg.Value) == "last" {
				break
			}
		}
		var values []string
		for _, msg := range got[4:] {
			values = append(values, string(msg.Value))
		}
		if isolation == sarama.ReadCommitted {
			assert.Equal(t, []string{"committed", "last"}, values)
		} else {
			assert.Equal(t, []string{"committed", "aborted", "last"}, values)
		}
		assert.Nil(t, got[0].Key)
		assert.Nil(t, got[0].Value)
		assert.Nil(t, got[1].Value, "a tombstone")
		assert.NotNil(t, got[2].Value)
		assert.Empty(t, got[2].Value)
		assert.NotNil(t, got[3].Key)
		assert.Equal(t, []*sarama.RecordHeader{{Key: []byte("h"), Value: []byte("x")}, {Key: []byte("nil")}}, got[3].Headers)
		eventually(t, "no lag behind the last", func() bool { return c.Lag() == 0 })
		m.Terminate()
	}
}

// sluggish takes its time for each line.
type sluggish struct{ ctx context.Context }

func (s sluggish) Write(p []byte) (int, error) {
	pause(s.ctx, 100*time.Millisecond)
	return len(p), nil
}

func TestWhatIsReservedOfATopicThatIsRecreatedIsNotHandedOutInItsNewLife(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 200)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	ctx := within(t, patience)
	first, err := c.FetchMessage(ctx)
	require.NoError(t, err)
	require.NoError(t, b.RecreateTopic("t", 1, nil))
	b.fill("t", 1, 1000, 10)
	eventually(t, "the end of the first life", func() bool { return first.Context().Err() != nil })
	require.ErrorIs(t, first.Commit(), ErrClaimLost)
	for want := 1000; want < 1010; want++ {
		msg, err := c.FetchMessage(ctx)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(want), string(msg.Value))
		require.NoError(t, msg.Commit())
	}
}

func TestAnOutageForEverybodyEvictsNobodyHoweverLong(t *testing.T) {
	for name, outage := range map[string]func(b *bench) (wait func(), end func()){
		"the network": func(b *bench) (func(), func()) {
			f := b.Faults().Add(testutil.Fault{Client: "*", Do: testutil.Cut})
			return func() { require.NoError(b.t, f.Wait(within(b.t, patience), 200)) }, f.Remove
		},
		"the shard's leader": func(b *bench) (func(), func()) {
			shard := []int32{shardOf(testGroup)}
			h := b.Kfake().Fault(
				kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: MarshalTopic, Partitions: shard, Err: kerr.LeaderNotAvailable, Count: -1},
				kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch, kmsg.Produce}, Topic: MarshalTopic, Partitions: shard, Err: kerr.NotLeaderForPartition, Count: -1},
			)
			return func() { require.NoError(b.t, h.Wait(within(b.t, patience), 200)) }, h.Remove
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTrial(t, newBench(t, "t"))
			m1, m2 := r.marshaler("a"), r.marshaler("b")
			r.watch("a", r.consumer(m1, ConsumerOptions{}, "t"), time.Microsecond)
			r.watch("b", r.consumer(m2, ConsumerOptions{}, "t"), time.Microsecond)
			share(t, 4, m1, m2)
			r.produce("t", 4, 100)
			r.read()
			before := m1.State().Keys
			wait, end := outage(r.bench)
			eventually(t, "trust that ends", func() bool { return !m1.trusted() && !m2.trusted() })
			wait()
			r.produce("t", 4, 100)
			end()
			r.read()
			for i, k := range m1.State().Keys {
				assert.Equal(t, before[i].Epoch, k.Epoch, "%s/%d", k.Topic, k.Partition)
			}
			r.judge()
		})
	}
}
