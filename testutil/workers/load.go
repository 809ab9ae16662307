package workers

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/testutil"
)

// outage is how long a load tries to append a message: an election may take a while.
const outage = time.Minute

// Load writes messages to every partition of a topic at a steady rate, and knows what it wrote.
type Load struct {
	topic    string
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	mu       sync.Mutex
	produced map[testutil.Place][]testutil.Span
	err      error
}

// StartLoad begins to write one message to each partition below to, beginning with from, every interval. Nobody else may write to them.
func StartLoad(ctx context.Context, client *kafka.Client, topic string, from, to int32, every time.Duration) *Load {
	ctx, cancel := context.WithCancel(ctx)
	l := &Load{topic: topic, cancel: cancel, produced: map[testutil.Place][]testutil.Span{}}
	for p := from; p < to; p++ {
		l.wg.Go(func() { l.write(ctx, client, p, every) })
	}
	return l
}

// write appends until ctx ends. A message whose append failed may have been written or not: where the next one lands tells,
// because nobody else writes.
func (l *Load) write(ctx context.Context, client *kafka.Client, partition int32, every time.Duration) {
	p := client.NewProducer(l.topic, partition)
	defer p.Close()
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var span testutil.Span
	for n := 0; ; n++ {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			l.mu.Lock()
			l.produced[testutil.Place{Topic: l.topic, Partition: partition}] = []testutil.Span{span}
			l.mu.Unlock()
			return
		}
		at, err := l.append(ctx, p, strconv.AppendInt([]byte("message "), int64(n), 10))
		if err != nil {
			l.fail(fmt.Errorf("writing to %s/%d: %w", l.topic, partition, err))
			return
		}
		span.To = at + 1
	}
}

// append tries for a while, also when ctx ends meanwhile: else a message might be in the log and not in the books.
func (l *Load) append(ctx context.Context, p *kafka.Producer, value []byte) (at int64, err error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), outage)
	defer cancel()
	for {
		if at, err = p.Append(ctx, []kafka.Message{{Value: value}}); err == nil || ctx.Err() != nil {
			return at, err
		}
		again := time.NewTimer(50 * time.Millisecond)
		select {
		case <-again.C:
		case <-ctx.Done():
			again.Stop()
		}
	}
}

func (l *Load) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = err
	}
}

// Stop ends the load and gives what it wrote.
func (l *Load) Stop() (map[testutil.Place][]testutil.Span, error) {
	l.cancel()
	l.wg.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.produced, l.err
}
