package marshal

import (
	"context"
	"errors"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/require"
)

// quantile of sorted times, q from 0 to 1: the smallest that so large a part of all is not above.
func quantile(sorted []time.Duration, q float64) time.Duration {
	i := int(math.Ceil(q*float64(len(sorted)))) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// report gives quantiles of times as figures, in ms: "<name>p50_ms" and so on.
func report(b *testing.B, name string, times []time.Duration, quantiles ...float64) {
	b.Helper()
	require.NotEmpty(b, times, name)
	sorted := slices.Sorted(slices.Values(times))
	for _, q := range quantiles {
		label := "p" + strconv.Itoa(int(math.Round(q*100)))
		if q == 1 {
			label = "max"
		}
		b.ReportMetric(float64(quantile(sorted, q))/float64(time.Millisecond), name+label+"_ms")
	}
}

// conclude reports how many samples there are and how busy the machine is, and drops what one op took: here an op is the
// whole series of samples.
func conclude(b *testing.B, n int) {
	b.ReportMetric(float64(n), "n")
	b.ReportMetric(0, "ns/op")
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		if load, err := strconv.ParseFloat(strings.Fields(string(text))[0], 64); err == nil {
			b.ReportMetric(load, "load1")
		}
	}
}

// samples is how many samples a figure is taken from; few with -short, to see that its benchmark works.
func samples(n int) int {
	if testing.Short() {
		return min(n, 4)
	}
	return n
}

// process makes a member that logs nothing, of a group of its own choice. What is measured is said by the caller; a
// lease of 0 is the default one.
func (b *bench) process(client, group string, ttl time.Duration) *Marshaler {
	b.t.Helper()
	m, err := b.dial(client, group, ttl)
	require.NoError(b.t, err)
	b.t.Cleanup(m.Terminate)
	return m
}

func (b *bench) dial(client, group string, ttl time.Duration) (*Marshaler, error) {
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	return NewMarshaler(client, group, b.Addrs(), WithLease(ttl, 0), WithLogger(quiet))
}

// waitFor looks again and again until a condition holds.
func waitFor(t testing.TB, what string, ok func() bool) {
	t.Helper()
	limit, again := time.NewTimer(time.Minute), time.NewTicker(time.Millisecond)
	defer limit.Stop()
	defer again.Stop()
	for !ok() {
		select {
		case <-again.C:
		case <-limit.C:
			require.FailNow(t, "waited in vain for "+what)
		}
	}
}

// reads counts the partitions that a consumer hands messages out of: claimed, begun, and not being handed over.
func reads(c *Consumer) int {
	n := 0
	for _, cl := range c.running() {
		if cl.open.Load() {
			n += len(cl.partitions())
		}
	}
	return n
}

// tenure is all that was handed out of a partition under one token. Times count from the beginning of the trace; a
// message is handed out when the call that gave it has returned, as testutil.Judge has it.
type tenure struct {
	who         string
	token       int64
	from, next  int64 // offsets
	first, last time.Duration
	count       int
}

// trace remembers who was handed what, and when.
type trace struct {
	t      testing.TB
	origin time.Time

	mu      sync.Mutex
	tenures map[int32][]tenure // by partition, in the order of time
	gaps    []time.Duration    // between messages of one partition that one owner got one after the other
}

func newTrace(t testing.TB) *trace {
	return &trace{t: t, origin: time.Now(), tenures: map[int32][]tenure{}}
}

// workers is how many goroutines read a consumer, and rest what each does after a message.
const (
	workers = 4
	rest    = time.Millisecond
)

// read has a new consumer's messages noted and committed by workers that rest after each, until the consumer ends or stop is
// called, which waits for them. One message of a partition is in flight at most, or they would be noted out of order.
func (tr *trace) read(b *bench, m *Marshaler) (stop func()) {
	c, who := b.consumer(m, ConsumerOptions{MaxInFlight: 1}, "t"), m.ClientID()
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	for range workers {
		working.Go(func() { tr.work(ctx, who, c) })
	}
	stop = func() { cancel(); working.Wait() }
	tr.t.Cleanup(stop)
	return stop
}

func (tr *trace) work(ctx context.Context, who string, c *Consumer) {
	resting := time.NewTimer(rest)
	defer resting.Stop()
	for ctx.Err() == nil {
		m, err := c.FetchMessage(ctx)
		switch {
		case errors.Is(err, ErrTerminated):
			return
		case err != nil:
			continue
		}
		tr.note(who, m, time.Since(tr.origin))
		_ = m.Commit() // refused where the claim was lost: who has it now begins there again
		resting.Reset(rest)
		select {
		case <-resting.C:
		case <-ctx.Done():
		}
	}
}

func (tr *trace) note(who string, m *Message, at time.Duration) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	all := tr.tenures[m.Partition]
	if n := len(all); n > 0 && all[n-1].token == m.Token() {
		tr.gaps = append(tr.gaps, at-all[n-1].last)
		all[n-1].last, all[n-1].next = at, m.Offset+1
		all[n-1].count++
		return
	}
	tr.tenures[m.Partition] = append(all, tenure{who: who, token: m.Token(), from: m.Offset, next: m.Offset + 1, first: at, last: at, count: 1})
}

// owner is who was handed the newest message of a partition.
func (tr *trace) owner(partition int32) tenure {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	if all := tr.tenures[partition]; len(all) > 0 {
		return all[len(all)-1]
	}
	return tenure{}
}

// moved is the partition that the members of these figures take from each other. They have two, of which a plan takes the newest
// lease, and among equals the one with the larger number; the other stays, and is empty, so that nothing keeps the workers busy
// when a message of this one comes.
const moved = 1

// some is how many messages an owner of the moved partition is handed at least: it is well in the middle of its work then.
const some = 50

// owned tells whether the newest owner of the moved partition is who, and was handed so many messages of it.
func (tr *trace) owned(who string, messages int) bool {
	t := tr.owner(moved)
	return t.who == who && t.count >= messages
}

// moves gives the times from the last message at one owner to the first at the next, by the name of the next, and fails where a
// message was skipped or came twice.
func (tr *trace) moves() map[string][]time.Duration {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	took := map[string][]time.Duration{}
	for p, all := range tr.tenures {
		for i := 1; i < len(all); i++ {
			x, y := all[i-1], all[i]
			require.Greater(tr.t, y.token, x.token, "partition %d", p)
			require.Equal(tr.t, x.next, y.from, "partition %d, from %s to %s", p, x.who, y.who)
			if x.who != y.who {
				took[y.who] = append(took[y.who], y.first-x.last)
			}
		}
	}
	return took
}

// ahead keeps some messages before the readers of the moved partition, in batches of a hundred as a producer that lingers a
// little writes them: its rhythm must not be what is measured.
func (tr *trace) ahead(b *bench, least int64) {
	_, end, err := b.Offsets("t", moved)
	require.NoError(tr.t, err)
	for ; end < tr.owner(moved).next+least; end += 100 {
		_, err := b.Fill("t", moved, 100, 100)
		require.NoError(tr.t, err)
	}
}
