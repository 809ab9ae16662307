package marshal

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
)

// Lag is how many offsets lie between the positions of what is held here and the ends of their logs as last seen, 0 after
// Terminate. It does not touch the network. Offsets that no message will come for (markers, holes) are passed as soon as they are read.
// A partition whose position is not in its log counts at least with all that its log has, and never 0; one that has not
// begun yet does not count.
func (c *Consumer) Lag() int64 {
	var n int64
	for _, p := range c.begun() {
		n += p.lag()
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
	var errs []error
	starts, _ := c.pendingStarts()
	for _, s := range starts {
		errs = append(errs, fmt.Errorf("marshal: lag of %s/%d: it has not begun yet", s.claim.key.Topic, s.id))
	}
	parts := c.begun()
	for _, err := range c.readEnds(ctx, parts) {
		errs = append(errs, fmt.Errorf("marshal: lag: %w", err))
	}
	var n int64
	for _, p := range parts {
		n += p.lag()
	}
	return n, errors.Join(errs...)
}

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

// endWatcher asks, each LagInterval, for the ends of those logs that no fetch has brought news of.
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
			if p.endAge() >= c.options.LagInterval {
				stale = append(stale, p)
			}
		}
		began := time.Now()
		soon, cancel := context.WithTimeout(ctx, callLimit)
		err := errors.Join(c.readEnds(soon, stale)...)
		cancel()
		if err != nil && ctx.Err() == nil {
			c.lasting("lag", callLimit+c.options.LagInterval, c.trouble(began, "cannot ask for the ends of logs", err))
		} else {
			c.ailments.over("lag")
		}
	}
}

// readEnds asks for the ranges of logs; those that it has no answer for are named, and left out.
func (c *Consumer) readEnds(ctx context.Context, parts []*partition) []error {
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
	var errs []error
	for i, p := range parts {
		first, end := answers[2*i], answers[2*i+1]
		if err := errors.Join(first.Err, end.Err); err != nil {
			errs = append(errs, err)
			continue
		}
		p.learnEnd(first.Offset, end.Offset)
	}
	return errs
}

// endAge is how long ago the end of the log was last heard of.
func (p *partition) endAge() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.endAt)
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

// lag is how many offsets lie between the position and the log's end as last seen.
func (p *partition) lag() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.win.Position()
	if p.outside {
		return max(p.logEnd-at, p.logEnd-p.logStart, 1)
	}
	return max(p.logEnd-at, 0)
}
