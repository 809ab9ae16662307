package marshal

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
)

func TestMain(m *testing.M) {
	servePuppet()
	testutil.VerifyNoLeaks(m)
}

// The tests of this package run on the embedded broker in real time, with a short lease.
const (
	testTTL   = 1500 * time.Millisecond
	patience  = 15 * time.Second // for what takes milliseconds on a quiet machine
	testGroup = "g"
)

// bench is an embedded broker and what a test does with it.
type bench struct {
	t testing.TB
	*testutil.Cluster
	remains *remains
}

// newBenchOn starts the broker. When the test and all that it began have ended, the logs are verified.
func newBenchOn(t testing.TB, options ...testutil.Option) *bench {
	t.Helper()
	b := &bench{t: t, Cluster: testutil.NewCluster(t, options...), remains: &remains{topics: map[string]bool{MarshalTopic: true}}}
	t.Cleanup(func() {
		if wrong := b.problems(); len(wrong) > 0 {
			t.Errorf("verify: %d findings: %s", len(wrong), strings.Join(wrong[:min(5, len(wrong))], "\n"))
		}
	})
	return b
}

func newBench(t testing.TB, topics ...string) *bench {
	t.Helper()
	b := newBenchOn(t)
	for _, topic := range topics {
		require.NoError(t, b.CreateTopic(topic, 4, nil))
	}
	return b
}

// marshaler joins the group under a client id, which is the client.id of its connections too.
func (b *bench) marshaler(client string, options ...Option) *Marshaler {
	b.t.Helper()
	options = append([]Option{WithLease(testTTL, 0), WithLogger(testutil.Logger(b.t))}, options...)
	m, err := NewMarshaler(client, testGroup, b.Addrs(), options...)
	require.NoError(b.t, err)
	b.t.Cleanup(m.Terminate)
	b.remains.uses(m.c.set.topic)
	return m
}

func (b *bench) consumer(m *Marshaler, o ConsumerOptions, topics ...string) *Consumer {
	b.t.Helper()
	if o.WatchInterval == 0 {
		o.WatchInterval = 100 * time.Millisecond
	}
	if o.DrainTimeout == 0 {
		o.DrainTimeout = 2 * time.Second // what a test leaves in hand must not hold up its end for long
	}
	c, err := m.NewConsumer(topics, o)
	require.NoError(b.t, err)
	return c
}

// fill writes n messages to each of the first partitions of a topic: "0", "1", …
func (b *bench) fill(topic string, partitions int32, from, n int) {
	b.t.Helper()
	for p := range partitions {
		ms := make([]testutil.Message, n)
		for i := range ms {
			ms[i] = testutil.Text(strconv.Itoa(from + i))
		}
		_, err := b.Produce(topic, p, ms...)
		require.NoError(b.t, err)
	}
}

// eventually waits for a condition; the text says what for.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, 2*time.Millisecond, what)
}

// holds is how many keys the consumers' process has, as its world says.
func holds(m *Marshaler) int {
	n := 0
	for _, k := range m.State().Keys {
		if k.Instance != "" && k.Client == m.ClientID() {
			n++
		}
	}
	return n
}

// collector reads a consumer in the background, commits what it reads, and remembers it.
type collector struct {
	mu     sync.Mutex
	seen   map[string][]int64 // offsets by topic/partition, in the order of arrival
	tokens map[string][]int64
	total  int
	hold   func(*Message) bool // not to be committed
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

func collect(t testing.TB, c *Consumer) *collector {
	return collectBut(t, c, func(*Message) bool { return false })
}

func collectBut(t testing.TB, c *Consumer, hold func(*Message) bool) *collector {
	ctx, cancel := context.WithCancel(context.Background())
	k := &collector{seen: map[string][]int64{}, tokens: map[string][]int64{}, hold: hold, cancel: cancel}
	k.wg.Go(func() {
		for m, err := range c.Messages(ctx) {
			if err != nil {
				t.Logf("reading: %v", err)
				continue
			}
			k.mu.Lock()
			name := fmt.Sprintf("%s/%d", m.Topic, m.Partition)
			k.seen[name] = append(k.seen[name], m.Offset)
			k.tokens[name] = append(k.tokens[name], m.Token())
			k.total++
			k.mu.Unlock()
			if !k.hold(m) {
				_ = m.Commit() // a claim that was lost is another test's matter
			}
		}
	})
	t.Cleanup(k.stop)
	return k
}

func (k *collector) stop() { k.cancel(); k.wg.Wait() }

func (k *collector) count() int {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.total
}

func (k *collector) offsets(topic string, partition int32) []int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return append([]int64(nil), k.seen[fmt.Sprintf("%s/%d", topic, partition)]...)
}

func upTo(n int64) []int64 {
	all := make([]int64, n)
	for i := range all {
		all[i] = int64(i)
	}
	return all
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	t.Cleanup(cancel)
	return ctx
}

// grow adds partitions to a topic.
func (b *bench) grow(topic string, partitions int32) {
	b.t.Helper()
	admin, err := sarama.NewClusterAdmin(b.Addrs(), b.Config("admin"))
	require.NoError(b.t, err)
	defer admin.Close()
	require.NoError(b.t, admin.CreatePartitions(topic, partitions, nil, false))
}

// lockedBuffer takes a process's output.
type lockedBuffer struct {
	mu sync.Mutex
	b  []byte
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.b = append(l.b, p...)
	return len(p), nil
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.b)
}

// lines remembers what was logged, by level.
type lines struct {
	mu    sync.Mutex
	texts []string
}

func (l *lines) Levels() []logrus.Level { return logrus.AllLevels }

func (l *lines) Fire(e *logrus.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.texts = append(l.texts, e.Level.String()+": "+e.Message)
	return nil
}

func (l *lines) has(level, part string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.texts, func(s string) bool { return strings.HasPrefix(s, level) && strings.Contains(s, part) })
}

// times counts the lines.
func (l *lines) times(level, part string) (n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.texts {
		if strings.HasPrefix(s, level) && strings.Contains(s, part) {
			n++
		}
	}
	return n
}

// logged is a logger that writes into the test's log, and remembers.
func logged(t testing.TB) (*logrus.Logger, *lines) {
	log, seen := testutil.Logger(t), &lines{}
	log.AddHook(seen)
	return log, seen
}

func (l *lines) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.texts)
}
