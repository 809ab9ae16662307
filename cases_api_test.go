package marshal

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"unicode"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// What an application may do wrong, or in another way than most. The numbers of the tests are those of docs/failures.md.

// Each message is committed three times and more, each time in another way, some of them at once, some after a Flush.
func TestC108CommittingAMessageAgainDoesNothing(t *testing.T) {
	t.Parallel()
	for name, strict := range map[string]bool{"in any order": false, "strict ordering": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			const n = 60
			b.one("t", n)
			m := b.marshaler("a")
			c := b.consumer(m, ConsumerOptions{StrictOrdering: strict, CommitInterval: 20 * time.Millisecond}, "t")
			ctx := within(t, patience)
			inFlight := func() int { return c.Stats().Partitions[0].InFlight }
			for i := range n {
				msg, err := c.FetchMessage(ctx)
				require.NoError(t, err)
				require.EqualValues(t, i, msg.Offset)
				if strict {
					require.Equal(t, 1, inFlight(), "however often the one before was committed")
					if i%20 == 0 {
						_, err = c.FetchMessage(within(t, 20*time.Millisecond))
						require.ErrorIs(t, err, context.DeadlineExceeded, "two commits open no two permits")
					}
				}
				var wg sync.WaitGroup
				for _, commit := range []func() error{
					msg.Commit, msg.Clone().Commit, func() error { return c.Commit(msg) },
					func() error { return (&Batch{Messages: []Message{*msg, *msg}}).Commit() },
				} {
					wg.Go(func() { assert.NoError(t, commit()) })
				}
				wg.Wait()
				require.GreaterOrEqual(t, inFlight(), 0)
				require.NoError(t, msg.Commit())
				if i%20 == 0 {
					require.NoError(t, c.CommitMessages(ctx, msg, msg))
					require.NoError(t, c.Flush(ctx))
					require.NoError(t, msg.Commit(), "after a Flush")
				}
			}
			assert.Zero(t, inFlight())
			at, _ := c.Position("t", 0)
			assert.EqualValues(t, n, at)
			require.NoError(t, c.Flush(ctx))
			b.committedAt("t", 0, n)
		})
	}
}

// Everything is called by ten goroutines while everything ends. The calls are those of the table in api_test.go.
func TestC110EveryCallWhileTheEndIsUnderWayReturns(t *testing.T) {
	t.Parallel()
	_, open := newStages(t)
	s := open()
	var wg sync.WaitGroup
	ctx := within(t, patience)
	var begun sync.WaitGroup
	for range 10 {
		begun.Add(1)
		wg.Go(func() {
			begun.Done()
			for name, m := range methods { // in an order of chance
				begin := time.Now()
				m.call(s, ctx)
				assert.Less(t, time.Since(begin), callLimit, name)
			}
		})
	}
	begun.Wait()
	wg.Go(func() { s.c.Terminate(true) })
	wg.Go(s.m.Terminate)
	wg.Go(s.cluster.Terminate)
	wg.Wait()
	require.True(t, s.cluster.Terminated())
}

// A second consumer of a topic is refused within a Marshaler, whatever way of claiming it has; beside it, in another Marshaler, it shares. Neither
// who is refused nor who ends disturbs who is there.
func TestC112TwoConsumersOfOneTopic(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]ConsumerOptions{"partitions": {}, "topics": {ClaimEntireTopic: true}} {
		t.Run("one Marshaler, "+name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "t", "u", "v")
			m := b.marshaler("a")
			c := b.consumer(m, first, "t", "u")
			k := collect(t, c)
			b.fill("t", 4, 0, 10)
			eventually(t, "messages", func() bool { return k.count() == 40 })
			before := epochs(m)
			var wg sync.WaitGroup
			for _, o := range []ConsumerOptions{{}, {ClaimEntireTopic: true}} {
				for _, topics := range [][]string{{"t"}, {"u", "v"}, {"v", "t"}} {
					wg.Go(func() {
						_, err := m.NewConsumer(topics, o)
						assert.ErrorIs(t, err, ErrAlreadyConsuming, "%v", topics)
					})
				}
			}
			wg.Wait()
			b.fill("t", 4, 10, 10)
			eventually(t, "messages", func() bool { return k.count() == 80 })
			assert.Equal(t, before, epochs(m))

			var made atomic.Int64
			for range 8 {
				wg.Go(func() {
					if _, err := m.NewConsumer([]string{"v"}, first); err == nil {
						made.Add(1)
					} else {
						assert.ErrorIs(t, err, ErrAlreadyConsuming)
					}
				})
			}
			wg.Wait()
			assert.EqualValues(t, 1, made.Load(), "of several at once one is first")
			require.True(t, c.Terminate(true))
			again := collect(t, b.consumer(m, first, "t", "u"))
			b.fill("u", 4, 0, 10)
			eventually(t, "the next one has them", func() bool { return again.count() == 40 })
		})
	}
	t.Run("two Marshalers of one client id", func(t *testing.T) {
		t.Parallel()
		r := newTrial(t, newBench(t, "t"))
		m1, m2 := r.marshaler("a"), r.marshaler("a")
		c2 := r.consumer(m2, ConsumerOptions{}, "t")
		r.watch("one", r.consumer(m1, ConsumerOptions{}, "t"), time.Microsecond)
		r.watch("two", c2, time.Microsecond)
		eventually(t, "each its half", func() bool { return len(m1.heldNow()) == 2 && len(m2.heldNow()) == 2 })
		r.produce("t", 4, 50)
		r.read()
		first := m1.heldNow()
		require.True(t, c2.Terminate(true))
		r.produce("t", 4, 50)
		r.read()
		assert.Subset(t, m1.heldNow(), first, "what the first had it has")
		r.judge()
	})
	t.Run("two Marshalers of one cluster, and lists that overlap in topic mode", func(t *testing.T) {
		t.Parallel()
		b := newBench(t, "t", "u", "v")
		for _, topic := range []string{"t", "u", "v"} {
			b.fill(topic, 4, 0, 10)
		}
		cluster, err := Dial("one", b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(t)))
		require.NoError(t, err)
		t.Cleanup(cluster.Terminate)
		var ms []*Marshaler
		var ks []*collector
		for i, topics := range [][]string{{"t", "u"}, {"u", "v"}} {
			m, err := cluster.NewMarshaler(fmt.Sprint("m", i), testGroup)
			require.NoError(t, err)
			ms = append(ms, m)
			ks = append(ks, collect(t, b.consumer(m, ConsumerOptions{ClaimEntireTopic: true}, topics...)))
		}
		eventually(t, "all messages", func() bool { return ks[0].count()+ks[1].count() >= 120 })
		for i, topic := range []string{"t", "v"} {
			assert.Empty(t, ks[1-i].offsets(topic, 0), "who does not want %s does not get it", topic)
		}
		ms[0].Terminate()
		b.fill("u", 4, 10, 10)
		eventually(t, "the other has what both want", func() bool { return len(ks[1].offsets("u", 0)) >= 10 })
	})
}

// heldNow are the keys of this very instance: its client id may be another's too.
func (m *Marshaler) heldNow() (keys []lease.Key) {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	for k, c := range m.claims {
		if !c.isOver() {
			keys = append(keys, k)
		}
	}
	return keys
}

// Names are kept as they are, in records, in the state, and in Kafka's offsets, or refused by NewMarshaler. A newcomer that replays them
// understands them; in the log and the printed state they cannot pass for lines of their own.
func TestC114NamesRoundTrip(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.one("t", 5)
	for _, name := range []string{
		"host/1", "team/app", "a:b", "a|b", "with\nnewline", "nul\x00", "emoji 🚀", strings.Repeat("é", 150), strings.Repeat("x", 300), "/", "/lead", "trail/", "a//b",
		"%2F", "%s%d%!", "..", " ", "tab\t", "esc\x1b[2J", "\u202egnp", `quote"`, `back\slash`, strings.Repeat("m", lease.MaxLabel-6),
	} {
		group := "group " + name
		log, seen := logged(t)
		m, err := NewMarshaler(name, group, b.Addrs(), WithLease(testTTL, 0), WithLogger(log))
		require.NoError(t, err, "%q", name)
		c := b.consumer(m, ConsumerOptions{}, "t")
		ctx := within(t, patience)
		for range 5 {
			msg, err := c.FetchMessage(ctx)
			require.NoError(t, err, "%q", name)
			require.NoError(t, c.CommitMessages(ctx, msg))
		}
		require.NoError(t, c.Flush(ctx))
		next, err := NewMarshaler(name, group, b.Addrs(), WithLease(testTTL, 0), WithLogger(log)) // which replays what the first has written
		require.NoError(t, err, "%q", name)
		for _, member := range []*Marshaler{m, next} {
			eventually(t, "both", func() bool { return len(member.State().Instances) == 2 })
			s := member.State()
			for _, i := range s.Instances {
				assert.Equal(t, name, i.Client)
			}
			assert.Equal(t, group, s.Group)
			assert.EqualValues(t, 5, s.Keys[0].Next)
			assert.Len(t, strings.Split(s.String(), "\n"), 4, "%q makes no lines of its own: %s", name, s)
			member.PrintState()
		}
		at, _, err := b.Committed(group, "t", 0)
		require.NoError(t, err)
		assert.EqualValues(t, 5, at)
		claim := m.GetPartitionClaim("t", 0)
		assert.Equal(t, [2]string{name, group}, [2]string{claim.ClientID, claim.GroupID})
		m.Terminate()
		next.Terminate()
		for _, text := range seen.all() {
			assert.False(t, strings.ContainsFunc(text, unicode.IsControl), "%q", text)
		}
	}
	for _, name := range []string{"", "bad \xff", string([]byte{0xff, 0xfe}), strings.Repeat("x", lease.MaxLabel+1)} {
		_, err := NewMarshaler(name, "g", b.Addrs(), WithLogger(testutil.Logger(t)))
		require.ErrorContains(t, err, "client id", "%.20q", name)
		_, err = NewMarshaler("c", name, b.Addrs(), WithLogger(testutil.Logger(t)))
		require.ErrorContains(t, err, "group", "%.20q", name)
	}
}

// all gives the lines without their levels.
func (l *lines) all() (texts []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.texts {
		_, text, _ := strings.Cut(s, ": ")
		texts = append(texts, text)
	}
	return texts
}

// Each is refused where it is given, nothing is written, and nothing is left running (TestMain looks). Several topics without topic mode are
// fine, other than in the original.
func TestC116BadArgumentsAreRefusedAndLeaveNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t", "u")
	m := b.marshaler("a")
	eventually(t, "a member", func() bool { return alive(m) == 1 })
	written := func() (n int) { // but for heartbeats
		for _, v := range b.written(m) {
			var r recordReader
			r.decode(&entry{value: v})
			if r.record.Kind != lease.KindHeartbeat {
				n++
			}
		}
		return n
	}
	before := written()
	quiet := WithLogger(testutil.Logger(t))
	for name, options := range map[string][]Option{
		"a lease of nothing": {WithLease(time.Nanosecond, 0)}, "a negative lease": {WithLease(-time.Second, 0)}, "a lease too long": {WithLease(time.Hour, 0)},
		"heartbeats as long as the lease": {WithLease(time.Second, time.Second)}, "negative heartbeats": {WithLease(time.Second, -1)},
		"a topic that cannot be": {WithTopic("no/slash")}, "no topic": {WithTopic("")}, "dots": {WithTopic("..")},
		"no logger": {WithLogger(nil)}, "a logger that is nil": {WithLogger((*logrus.Logger)(nil))}, "no option": {nil},
	} {
		_, err := Dial("x", b.Addrs(), append([]Option{quiet}, options...)...)
		assert.Error(t, err, name)
		_, err = NewMarshaler("x", "y", b.Addrs(), append([]Option{quiet}, options...)...)
		assert.Error(t, err, name)
	}
	for _, brokers := range [][]string{nil, {}, {""}, {" "}, {"noport"}} {
		_, err := Dial("x", brokers, quiet)
		assert.Error(t, err, "%q", brokers)
		_, err = NewMarshaler("x", "y", brokers, quiet)
		assert.Error(t, err, "%q", brokers)
	}
	for _, names := range [][2]string{{"", "g"}, {"c", ""}, {strings.Repeat("x", 2000), "g"}, {"c", string([]byte{0xff, 0xfe})}} {
		_, err := NewMarshaler(names[0], names[1], b.Addrs(), quiet)
		assert.Error(t, err, "%.20q", names)
		_, err = m.c.NewMarshaler(names[0], names[1])
		assert.Error(t, err, "%.20q", names)
	}
	for _, topics := range [][]string{nil, {}, {""}, {"t", "t"}, {"t", "u", "t"}, {MarshalTopic}, {"t", MarshalTopic}, {"a/b"}, {"."}, {strings.Repeat("x", 250)}} {
		for _, whole := range []bool{false, true} {
			_, err := m.NewConsumer(topics, ConsumerOptions{ClaimEntireTopic: whole})
			assert.Error(t, err, "%.40v", topics)
		}
	}
	for _, o := range []ConsumerOptions{
		{MaximumClaims: -1}, {Weight: -1}, {MaxInFlight: -1}, {MaxWait: -1}, {CommitInterval: time.Hour}, {RestartGrace: 2 * time.Hour}, {StallTimeout: 1},
		{StartOffset: -5}, {OnOutOfRange: 9}, {IsolationLevel: 7}, {MinBytes: 100, MaxBytes: 10}, {RetryBackoffMin: time.Second, RetryBackoffMax: time.Millisecond},
	} {
		_, err := m.NewConsumer([]string{"t"}, o)
		assert.Error(t, err, "%+v", o)
		assert.Error(t, o.Validate())
	}
	require.NoError(t, NewConsumerOptions().Validate())
	require.NoError(t, (ConsumerOptions{}).Validate())
	assert.Empty(t, m.State().Keys)
	assert.Equal(t, before, written(), "nothing was written")
	assert.Equal(t, 1, alive(m))
	b.consumer(m, ConsumerOptions{}, "t", "u")
	eventually(t, "two topics", func() bool { return holds(m) == 8 })
}

// However it is read, and although everything ends in the middle: no nil message, each with its own place, and the end of a channel is its close.
func TestC118WhoRangesOverAChannelGetsMessagesAndThenItsClose(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]bool{"handed over": true, "kept": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			require.NoError(t, b.CreateTopic("t", 2, nil))
			remove := b.OnBatch("t", 0, func(raw []byte) []byte { // the cleaner was there
				return testutil.Compact(raw, func(offset int64) bool { return offset%7 != 3 })
			})
			defer remove()
			for range 20 {
				for p := range int32(2) {
					_, err := b.Produce("t", p, testutil.Message{}, testutil.Message{Key: []byte("k")}, testutil.Message{Key: []byte{}, Value: []byte{}},
						testutil.Message{Value: []byte("v"), Headers: []kmsg.Header{{Key: "h"}}})
					require.NoError(t, err)
					b.transact("t", p, p == 0, "in a transaction")
				}
			}
			c := b.consumer(b.marshaler("a"), ConsumerOptions{DrainTimeout: 50 * time.Millisecond}, "t")
			var n [2]int
			next := [2]int64{}
			var wg sync.WaitGroup
			got := make(chan struct{}, 1)
			wg.Go(func() {
				for msg := range c.ConsumeChannel() {
					if !assert.NotNil(t, msg) {
						return
					}
					assert.Equal(t, "t", msg.Topic)
					assert.GreaterOrEqual(t, msg.Offset, next[msg.Partition], "in order, and none twice")
					if msg.Partition == 0 {
						assert.NotEqualValues(t, 3, msg.Offset%7, "the cleaner has removed it")
					}
					next[msg.Partition] = msg.Offset + 1
					n[msg.Partition]++
					_ = msg.Commit() // refused at the end
					if n[0]+n[1] == 60 {
						got <- struct{}{}
					}
				}
			})
			<-got
			c.Terminate(release)
			wg.Wait()
			assert.GreaterOrEqual(t, n[0]+n[1], 60)
			for range 3 {
				msg, open := <-c.ConsumeChannel()
				assert.Nil(t, msg)
				assert.False(t, open)
			}
		})
	}
}

// Nobody ever reads the map of topics, while a second member comes and goes, so that most of the five topics change hands each time.
func TestC119AnUnreadChannelOfTopicClaimsHoldsNobodyUpAndHasTheNewestMap(t *testing.T) {
	t.Parallel()
	topics := []string{"t", "u", "v", "w", "x"}
	b := newBench(t, topics...)
	whole := ConsumerOptions{ClaimEntireTopic: true}
	m1 := b.marshaler("a")
	c1 := b.consumer(m1, whole, topics...)
	k := collect(t, c1)
	heard := listen(t, c1)
	eventually(t, "all", func() bool { return holds(m1) == 5 })
	for round := 0; len(heard.of(ClaimStarted, ClaimReleased)) < 50; round++ {
		m2, err := NewMarshaler("b", testGroup, b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(t)))
		require.NoError(t, err)
		b.consumer(m2, whole, topics...)
		eventually(t, "some at the other", func() bool { return holds(m2) >= 2 })
		m2.Terminate()
		eventually(t, "all", func() bool { return holds(m1) == 5 })
		b.fill("t", 4, round, 1)
		eventually(t, "what is new", func() bool { return len(k.offsets("t", 0)) == round+1 })
	}
	m2 := b.marshaler("b")
	b.consumer(m2, whole, topics...)
	var held map[string]bool
	eventually(t, "it has given some up", func() bool {
		held, _ = c1.GetCurrentTopicClaims()
		return len(held) == 3 && holds(m2) == 2 || len(held) == 2 && holds(m2) == 3
	})
	assert.Equal(t, held, <-c1.TopicClaims(), "who reads late gets the newest map, whole")
	select {
	case again := <-c1.TopicClaims():
		assert.Fail(t, "nothing has changed since", "%v", again)
	default:
	}
	begin := time.Now()
	require.True(t, c1.Terminate(true))
	assert.Less(t, time.Since(begin), 5*time.Second)
	assert.Empty(t, <-c1.TopicClaims())
	_, open := <-c1.TopicClaims()
	assert.False(t, open)

	unread := m2.consumers[0] // of which nobody ever reads anything
	require.True(t, unread.Terminate(true))
	assert.Empty(t, <-unread.TopicClaims(), "the last map, and then the end")
	_, open = <-unread.TopicClaims()
	assert.False(t, open)
	_, err := unread.GetCurrentTopicClaims()
	assert.True(t, err == nil || errors.Is(err, ErrTerminated))
}
