package marshal

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/testutil"
)

// What operators look at: lag, load, the printed state, the log, and the calls that give them. The numbers of the tests are those of docs/failures.md.

// ends are the ends of a topic's logs over time, to be told late.
type ends struct {
	mu  sync.Mutex
	at  []time.Time
	end []int64
}

func (e *ends) note(end int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.at, e.end = append(e.at, time.Now()), append(e.end, end)
}

// old is the end as it was a second ago.
func (e *ends) old() int64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	i, _ := slices.BinarySearchFunc(e.at, time.Now().Add(-time.Second), time.Time.Compare)
	if i == 0 {
		return 0
	}
	return e.end[i-1]
}

// Brokers tell the ends of the logs as they were a second ago, in answers to fetches (as a replica that is behind does) and to questions, while
// thousands of messages a second are read. Then the topic is made anew: what was the end of the old one is none of the new.
func TestC122LagIsNeverNegativeNorMoreThanWasWritten(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 2, nil))
	var late ends
	stale := func(p *kmsg.FetchResponseTopicPartition) { p.HighWatermark = min(p.HighWatermark, late.old()) }
	removes := []func(){b.OnFetch("t", 0, stale), b.OnFetch("t", 1, stale)}
	b.Kfake().ControlKey(int16(kmsg.ListOffsets), func(kr kmsg.Request) (kmsg.Response, error, bool) {
		b.Kfake().KeepControl()
		req := kr.(*kmsg.ListOffsetsRequest)
		resp := req.ResponseKind().(*kmsg.ListOffsetsResponse)
		for _, rt := range req.Topics {
			if rt.Topic != "t" || slices.ContainsFunc(rt.Partitions, func(p kmsg.ListOffsetsRequestTopicPartition) bool { return p.Timestamp != -1 }) {
				return nil, nil, false
			}
			topic := kmsg.NewListOffsetsResponseTopic()
			topic.Topic = rt.Topic
			for _, rp := range rt.Partitions {
				p := kmsg.NewListOffsetsResponseTopicPartition()
				p.Partition, p.Offset = rp.Partition, late.old()
				topic.Partitions = append(topic.Partitions, p)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
	c := b.consumer(b.marshaler("a"), ConsumerOptions{LagInterval: 100 * time.Millisecond, MaxWait: 20 * time.Millisecond}, "t")
	k := collect(t, c)
	positions := func() (sum int64) {
		for p := range int32(2) {
			at, _ := c.Position("t", p)
			sum += at
		}
		return sum
	}
	sane := func(written func() int64) {
		before := positions()
		lag := c.Lag()
		require.GreaterOrEqual(t, lag, int64(0))
		require.LessOrEqual(t, lag, written()-before)
		for _, p := range c.Stats().Partitions {
			require.GreaterOrEqual(t, p.Lag, int64(-1))
			require.Equal(t, p.End < 0, p.Lag < 0, "unknown is unknown, and nothing else is negative: %+v", p)
		}
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	n := 0
	for begin := time.Now(); time.Since(begin) < 2*time.Second; {
		<-tick.C
		b.fill("t", 2, n, 25)
		n += 25
		late.note(int64(n))
		sane(func() int64 { return int64(2 * n) })
		if n%500 == 0 {
			short, cancel := context.WithTimeout(context.Background(), time.Second)
			lag, err := c.ReadLag(short)
			cancel()
			require.NoError(t, err)
			require.GreaterOrEqual(t, lag, int64(0))
		}
	}
	eventually(t, "all read", func() bool { return k.count() == 2*n })
	assert.Zero(t, c.Lag())
	for _, remove := range removes {
		remove()
	}
	late = ends{} // of the new topic nobody knew anything a second ago
	require.NoError(t, b.RecreateTopic("t", 2, nil))
	b.fill("t", 2, 0, 10)
	eventually(t, "the new ones", func() bool { sane(func() int64 { return int64(2*n + 20) }); return k.count() == 2*n+20 })
	eventually(t, "no lag", func() bool { return c.Lag() == 0 && positions() == 20 })
}

// What is not held any more counts nowhere: handed over, taken since it was silent, terminated, or of a topic as it was before.
func TestC124LagAndLoadCountWhatIsHeldNowAndNothingElse(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	const n = 25
	b.fill("t", 4, 0, n)
	m1 := b.marshaler("p")
	o := ConsumerOptions{LagInterval: 100 * time.Millisecond, DrainTimeout: 50 * time.Millisecond}
	c1 := b.consumer(m1, o, "t")
	sums := func(load1, load2, lag int, c2 *Consumer) func() bool {
		return func() bool {
			return c1.GetCurrentLoad() == load1 && c2.GetCurrentLoad() == load2 && c1.GetCurrentLag()+c2.GetCurrentLag() == int64(lag) &&
				c1.GetCurrentLag() == int64(lag)/4*int64(load1)
		}
	}
	eventually(t, "all at one", func() bool { return c1.GetCurrentLoad() == 4 && c1.GetCurrentLag() == 4*n })
	m2 := b.marshaler("q")
	c2 := b.consumer(m2, o, "t")
	eventually(t, "two are handed over", sums(2, 2, 4*n, c2))
	f := b.Faults().Add(testutil.Fault{Client: "p", Keys: testutil.Writes, Do: testutil.Drop})
	eventually(t, "who is silent has none", sums(0, 4, 4*n, c2))
	b.fill("t", 4, n, n)
	eventually(t, "more comes", sums(0, 4, 8*n, c2))
	f.Remove()
	eventually(t, "two each again", sums(2, 2, 8*n, c2))
	held := c1.m.heldNow()
	at := held[0].Partition
	require.NoError(t, c1.Seek(within(t, patience), "t", at, 2*n))
	eventually(t, "what a Seek passed is no lag", func() bool { return c1.GetCurrentLag()+c2.GetCurrentLag() == 6*n && c1.GetCurrentLoad() == 2 })
	require.NoError(t, b.RecreateTopic("t", 4, nil))
	b.fill("t", 4, 0, 5)
	eventually(t, "of the new topic alone", sums(2, 2, 20, c2))
	m1.Terminate()
	eventually(t, "all at the other", sums(0, 4, 20, c2))
	m2.Terminate()
	assert.Zero(t, c2.GetCurrentLag())
	assert.Zero(t, c2.GetCurrentLoad())
}

// asking is a logger that takes its time, and asks while it writes.
type asking struct {
	sluggish
	ask func()
}

func (a asking) Levels() []logrus.Level { return logrus.AllLevels }

func (a asking) Fire(*logrus.Entry) error { a.ask(); return nil }

// Four goroutines print the states all the time, to a logger that needs 100 ms for a line and asks the library meanwhile. Claims come and go, topics
// are looked up all the time, and in the end everything terminates. The recipe allows a pause of a second; so much a loaded machine takes by itself.
func TestC126PrintingTheStateHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t", "u")
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var m1 *Marshaler
	var c1 *Consumer
	made := make(chan struct{})
	log := logrus.New()
	log.SetOutput(sluggish{ctx})
	log.AddHook(asking{ask: func() {
		select {
		case <-made:
			c1.Lag()
			m1.State()
			_ = m1.Healthy()
			_, _ = c1.Position("t", 0)
		default:
		}
	}})
	m1 = b.marshaler("a", WithLogger(log))
	m2 := b.marshaler("b")
	c1 = b.consumer(m1, ConsumerOptions{WatchInterval: 10 * time.Millisecond}, "t")
	close(made)
	k1 := collect(t, c1)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			tick := time.NewTicker(time.Millisecond)
			defer tick.Stop()
			for ctx.Err() == nil {
				<-tick.C
				m1.PrintState()
				c1.PrintState()
				_ = m1.State().String()
			}
		})
	}
	wg.Go(func() { // claims that come and go
		for ctx.Err() == nil {
			if claim, err := m1.Claim(ctx, "u", 1); err == nil {
				_ = claim.Release(ctx, -1)
			}
		}
	})
	k2 := collect(t, b.consumer(m2, ConsumerOptions{}, "t"))
	share(t, 4, m1, m2)
	before := epochs(m1)
	var longest time.Duration
	for i := range 20 {
		b.fill("t", 4, i*10, 10)
		begin := time.Now()
		eventually(t, "all messages", func() bool { return k1.count()+k2.count() >= 40*(i+1) })
		longest = max(longest, time.Since(begin))
		require.True(t, m1.trusted())
	}
	assert.Less(t, longest, 2*time.Second)
	t.Logf("the longest pause: %v", longest)
	assert.Equal(t, 800, k1.count()+k2.count(), "no lease was lost")
	for key, epoch := range epochs(m1) {
		if strings.HasPrefix(key, "t/") {
			assert.Equal(t, before[key], epoch)
		}
	}
	begin := time.Now()
	m1.Terminate()
	assert.Less(t, time.Since(begin), 5*time.Second)
	cancel()
	wg.Wait()
}

// Nothing of this is a failure: members that come and go, a claim that another won, a quota, a topic that grows, and one where nothing happens.
func TestC128WhatIsNormalIsNeitherErrorNorWarning(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t", "idle", "byhand")
	log, seen := logged(t)
	option := WithLogger(log)
	b.fill("t", 4, 0, 10)
	m1 := b.marshaler("a", option)
	k1 := collect(t, b.consumer(m1, ConsumerOptions{MaxWait: 20 * time.Millisecond}, "t", "idle"))
	eventually(t, "all", func() bool { return k1.count() == 40 })
	m2 := b.marshaler("b", option)
	k2 := collect(t, b.consumer(m2, ConsumerOptions{MaximumClaims: 2}, "t", "idle"))
	eventually(t, "a share", func() bool { return holds(m2) == 2 })

	claim, err := m1.Claim(within(t, patience), "byhand", 0)
	require.NoError(t, err)
	_, err = m2.Claim(within(t, patience), "byhand", 0)
	_, lost := errors.AsType[*ClaimedError](err)
	require.True(t, lost, "%v", err)
	require.NoError(t, claim.Release(within(t, patience), -1))
	var race sync.WaitGroup
	for _, m := range []*Marshaler{m1, m2} {
		race.Go(func() { _, _ = m.Claim(within(t, patience), "byhand", 1) })
	}
	race.Wait()

	left := b.throttled(kmsg.Fetch, 5, 100, b.fetchesOf("t"))
	b.fill("t", 4, 10, 10)
	eventually(t, "all", func() bool { return left.Load() == 0 && k1.count()+k2.count() >= 80 })
	b.grow("t", 6)
	b.fill("t", 6, 20, 1)
	eventually(t, "the new ones too", func() bool { return k1.count()+k2.count() >= 86 })
	m2.Terminate()
	eventually(t, "all at one", func() bool { return holds(m1) >= 10 })
	m1.Terminate()
	for _, text := range seen.all() {
		if seen.has("warning: "+text, "") && !strings.Contains(text, "replication factor 1") || seen.has("error: "+text, "") {
			assert.Fail(t, "not normal", text)
		}
	}
	assert.Zero(t, seen.times("error", ""))
}

// Each claim that is lost is one line, with what an operator asks next: which, why, how far it was, and who has it now.
func TestC128AClaimThatIsLostIsOneLineThatSaysWhatBecameOfIt(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	log, seen := logged(t)
	m1 := b.marshaler("p", WithLogger(log))
	heard := listen(t, m1)
	k := collect(t, b.consumer(m1, ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t"))
	eventually(t, "all", func() bool { return k.count() == 40 })
	f := b.Faults().Add(testutil.Fault{Client: "p", Do: testutil.Freeze})
	m2 := b.marshaler("q")
	c2 := b.consumer(m2, ConsumerOptions{}, "t")
	eventually(t, "all at the other", func() bool { return holds(m2) == 4 && len(c2.begun()) == 4 })
	f.Remove()
	eventually(t, "the end of its claims", func() bool { return len(heard.of(ClaimLost)) == 4 })
	for p := range int32(4) {
		name := fmt.Sprintf("claim of t/%d lost: ", p)
		eventually(t, "its line", func() bool { return seen.times("warning", name) == 1 })
		assert.True(t, seen.has("warning: marshal: "+name, "it stood at 10"), name)
	}
	for _, e := range heard.of(ClaimLost) {
		assert.EqualValues(t, 10, e.Offset)
		assert.Equal(t, "t", e.Topic)
		assert.ErrorIs(t, e.Err, ErrClaimLost)
		assert.Positive(t, e.Token)
	}
	assert.Zero(t, seen.times("error", ""))

	// One that is lost alone, to somebody: the world says who it is.
	m2.g.mu.Lock()
	defer m2.g.mu.Unlock()
	for key, c := range m2.claims {
		w := m2.g.log.World()
		l, _ := w.Lease(key)
		was := m2.instance
		m2.instance[0]++ // as if the lease were another's
		e := m2.loss(key, c, "taken over")
		m2.instance = was
		assert.Equal(t, l.Instance.String(), e.Instance)
		assert.Equal(t, "q", e.Client)
		assert.Contains(t, e.Text, "taken over; it stood at")
		assert.Contains(t, e.Text, "q ("+l.Instance.String()+") holds it now")
		break
	}
}

// Whatever has no context and no limit in its documentation answers from memory, while no broker answers anything.
func TestC130StatusDoesNotWaitForBrokers(t *testing.T) {
	t.Parallel()
	b, open := newStages(t)
	s := open()
	log := logrus.New()
	log.SetOutput(io.Discard)
	whole := b.consumer(b.marshaler("s-whole", WithLogger(log)), ConsumerOptions{ClaimEntireTopic: true}, "free")
	eventually(t, "held", func() bool { topics, _ := whole.GetCurrentTopicClaims(); return topics["free"] })
	f := b.Faults().Add(testutil.Fault{Client: "s*", Do: testutil.Freeze})
	defer f.Remove()
	require.NoError(t, f.Wait(within(t, patience), 2))
	calls := map[string]func(){
		"GetCurrentTopicClaims of a topic": func() { _, _ = whole.GetCurrentTopicClaims() },
		"GetCurrentLoad of a topic":        func() { whole.GetCurrentLoad() },
		"PrintState of a topic":            whole.PrintState,
	}
	takes := takesContext()
	for name, m := range methods {
		if !takes[name] && m.limit == 0 && !m.alone && !strings.HasSuffix(name, "PrintState") { // that is below: the log of a test is slow
			calls[name] = func() { m.call(s, nil) }
		}
	}
	for name, call := range calls {
		var took []time.Duration
		for range 1000 {
			begin := time.Now()
			call()
			took = append(took, time.Since(begin))
		}
		slices.Sort(took)
		assert.Less(t, took[500], 5*time.Millisecond, name)
		assert.Less(t, took[980], 50*time.Millisecond, "%s: a broker that does not answer takes longer, the scheduler seldom", name)
	}
	assert.GreaterOrEqual(t, len(calls), 30)
}
