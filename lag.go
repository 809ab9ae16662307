package marshal

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"

	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
)

// Lag is how many offsets lie between the positions of what is held here and the ends of their logs as last seen, 0 after
// Terminate. It does not touch the network. Offsets that no message will come for (markers, holes) are passed as soon as they are read.
// A partition whose position is not in its log counts at least with all that its log has, and never 0. It is the sum of what is known:
// one that has not begun yet does not count, nor does one whose end nobody could tell for three times LagInterval (or MaxWait, or 1 s, if
// that is longer), since a right is missing or its broker is gone: PartitionStats.Lag is -1 there, and ReadLag gives an error.
func (c *Consumer) Lag() int64 { return known(c.begun()) }

// known sums up the lags that are known.
func known(parts []*partition) int64 {
	var n int64
	for _, p := range parts {
		n += max(p.lag(), 0)
	}
	return n
}

// GetCurrentLag is Lag.
func (c *Consumer) GetCurrentLag() int64 { return c.Lag() }

// ReadLag is Lag with the ends of the logs as they are now: it asks the brokers, until ctx ends. An error names the partitions
// that are not in the sum: those that could not be asked for, and those that are held and have not begun yet. ErrTerminated:
// the consumer is over.
func (c *Consumer) ReadLag(ctx context.Context) (int64, error) {
	if c.Terminated() {
		return 0, ErrTerminated
	}
	var failed causes
	starts, _ := c.pendingStarts()
	for _, s := range starts {
		failed.add(s.claim.key.Topic, s.id, errNotBegun)
	}
	n := known(c.readEnds(ctx, c.begun(), &failed))
	return n, failed.errOf("marshal: lag of")
}

var errNotBegun = errors.New("it has not begun yet")

// GetCurrentLoad is how many partitions are held here, of topics that are claimed as a whole each of theirs; 0 after Terminate.
func (c *Consumer) GetCurrentLoad() int {
	n := 0
	for _, cl := range c.running() {
		if cl.key.Partition != lease.WholeTopic {
			n++
			continue
		}
		c.knownMu.Lock()
		n += len(c.known[cl.key.Topic].Partitions)
		c.knownMu.Unlock()
	}
	return n
}

// begun lists the partitions that are held and have begun.
func (c *Consumer) begun() []*partition {
	var parts []*partition
	for _, cl := range c.running() {
		parts = append(parts, cl.partitions()...)
	}
	return parts
}

// endWatcher asks, each LagInterval, for the ends of those logs that no fetch has brought news of, and looks whether it should have.
func (c *Consumer) endWatcher(ctx context.Context) {
	timer := time.NewTicker(c.options.LagInterval)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		var stale []*partition
		for _, p := range c.begun() {
			if p.unsure(c.options.LagInterval) {
				stale = append(stale, p)
			}
		}
		began := time.Now()
		soon, cancel := context.WithTimeout(ctx, callLimit)
		var failed causes
		for _, p := range c.readEnds(soon, stale, &failed) {
			c.compare(p)
		}
		cancel()
		if err := failed.err(); err != nil && ctx.Err() == nil {
			c.lasting("lag", callLimit+c.options.LagInterval, c.trouble(began, "cannot ask for the ends of logs", err))
		} else {
			c.ailments.over("lag")
		}
	}
}

// readEnds asks for the ranges of logs, and gives those that were told; the others have failed.
func (c *Consumer) readEnds(ctx context.Context, parts []*partition, failed *causes) (told []*partition) {
	if len(parts) == 0 {
		return nil
	}
	newest := sarama.OffsetNewest
	if c.readsCommitted() {
		newest = kafka.LastStable
	}
	queries := make([]kafka.OffsetQuery, 0, 2*len(parts))
	for _, p := range parts {
		queries = append(queries, kafka.OffsetQuery{Topic: p.topic, Partition: p.id, At: sarama.OffsetOldest},
			kafka.OffsetQuery{Topic: p.topic, Partition: p.id, At: newest})
	}
	answers := c.m.c.client.Offsets(ctx, queries)
	for i, p := range parts {
		first, end := answers[2*i], answers[2*i+1]
		failed.add(p.topic, p.id, first.Err)
		failed.add(p.topic, p.id, end.Err)
		if first.Err == nil && end.Err == nil {
			p.learnEnd(first.Offset, end.Offset)
			told = append(told, p)
		}
	}
	return told
}

// learnEnd takes what a broker says beside the fetches. An end before the position is an answer that is behind, unless it is known
// that the position is out of range: who fetches finds that out.
func (p *partition) learnEnd(first, end int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.outside && end < p.win.Position() {
		return
	}
	p.logStart, p.logEnd, p.endAt = first, end, time.Now()
}

// learnRange takes what a broker says after it found the offset out of range, and gives that offset.
func (p *partition) learnRange(first, end int64) (at int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.logStart, p.logEnd, p.endAt = first, end, time.Now()
	p.outside = p.next < first || p.next > end
	return p.next
}

// lag is how many offsets lie between the position and the log's end as last seen; -1: not known (any more).
func (p *partition) lag() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lagTo(p.knownEnd())
}

// lagTo is the lag to an end; -1 where that is not known. Called with p.mu held.
func (p *partition) lagTo(end int64) int64 {
	at := p.win.Position()
	switch {
	case end < 0:
		return -1
	case p.outside:
		return max(end-at, end-p.logStart, 1)
	}
	return max(end-at, 0)
}

// knownEnd is the log's end, -1 where nobody could tell it for long: what was seen last would look like news. Called with p.mu held.
func (p *partition) knownEnd() int64 {
	o := &p.claim.consumer.options
	if time.Since(p.endAt) > 3*max(o.LagInterval, o.MaxWait, time.Second) {
		return -1
	}
	return p.logEnd
}
