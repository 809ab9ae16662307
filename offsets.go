package marshal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
)

// recommit is how often unchanged offsets are committed to Kafka again: those of groups that look empty expire.
const recommit = time.Hour

const metadataMark = "marshal "

// metadata names who committed an offset, so that one set from outside can be told, and the life of the topic that it
// belongs to: a commit may be late, and the topic another one by then.
func (m *Marshaler) metadata(topicID lease.TopicID, token int64) string {
	return fmt.Sprintf("%stopic=%v token=%d client=%.200s", metadataMark, topicID, token, m.clientID)
}

// isOurs tells whether we committed an offset, and whether for that life of the topic.
func isOurs(metadata string, topicID lease.TopicID) (ours, thisLife bool) {
	rest, ours := strings.CutPrefix(metadata, metadataMark)
	return ours, ours && strings.HasPrefix(rest, "topic="+topicID.String())
}

// offset is what is committed to Kafka of a partition.
func (p *partition) offset() kafka.Committed {
	return kafka.Committed{Topic: p.topic, Partition: p.id, Offset: p.position(), Metadata: p.claim.m.metadata(p.topicID, p.token)}
}

// finish notes the final positions of a claim that was released. Called with the group's lock held.
func (c *Consumer) finish(cl *claim) {
	c.knownMu.Lock()
	defer c.knownMu.Unlock()
	for _, p := range cl.parts { // the newest of each, however long Kafka takes none
		c.finals = slices.DeleteFunc(c.finals, func(o kafka.Committed) bool { return o.Topic == p.topic && o.Partition == p.id })
		c.finals = append(c.finals, p.offset())
	}
}

// noteCommitted notes what was committed to Kafka. Called by who holds the token: it alone may read it without the lock.
func (p *partition) noteCommitted(offset int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.committed = offset
}

// committer writes positions that moved to Kafka, one request an interval, for lag tools and for the day when the
// coordination topic has forgotten.
func (c *Consumer) committer(ctx context.Context) {
	timer := time.NewTicker(c.options.CommitInterval)
	defer timer.Stop()
	whole := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		all := time.Since(whole) >= c.m.c.set.recommit
		if all {
			whole = time.Now()
		}
		began := time.Now()
		soon, cancel := context.WithTimeout(ctx, callLimit)
		err := c.commitOffsets(soon, all)
		cancel()
		switch {
		case err == nil:
			c.ailments.over("commit")
		case ctx.Err() == nil:
			c.lasting("commit", callLimit+c.options.CommitInterval, c.trouble(began, "cannot commit offsets to Kafka (positions are safe in the coordination topic)", err))
			pause(ctx, retryAfter(err))
		}
	}
}

// unheld leaves out the final positions of partitions that somebody holds by now: who does commits from there on, and ours would come late.
func (c *Consumer) unheld(finals []kafka.Committed) []kafka.Committed {
	if len(finals) == 0 {
		return nil
	}
	g := c.m.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.live {
		return finals
	}
	return slices.DeleteFunc(finals, func(o kafka.Committed) bool {
		_, _, held := g.log.World().Owner(o.Topic, o.Partition)
		return held
	})
}

// commitOffsets commits what moved since the last time; all: what did not, too. One at a time, so that a partition's
// offsets never go back.
func (c *Consumer) commitOffsets(ctx context.Context, all bool) error {
	select {
	case c.committing <- struct{}{}:
		defer func() { <-c.committing }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var parts []*partition
	c.knownMu.Lock()
	finals := c.finals
	c.finals = nil
	c.knownMu.Unlock()
	finals = c.unheld(finals)
	commits := slices.Clone(finals)
	for _, cl := range c.running() {
		for _, p := range cl.partitions() {
			if all || p.position() != p.committed || p.repeats > 0 {
				parts = append(parts, p)
				commits = append(commits, p.offset())
			}
		}
	}
	if len(commits) == 0 {
		return nil
	}
	if err := c.m.c.client.CommitOffsets(ctx, c.m.groupID, commits); err != nil {
		c.knownMu.Lock()
		for _, o := range finals {
			if !slices.ContainsFunc(c.finals, func(newer kafka.Committed) bool { return o.Topic == newer.Topic && o.Partition == newer.Partition }) {
				c.finals = append(c.finals, o)
			}
		}
		c.knownMu.Unlock()
		return err
	}
	var failed causes
	for i := range commits {
		if commits[i].Err != nil {
			failed.add(commits[i].Topic, commits[i].Partition, commits[i].Err)
		} else if i >= len(finals) {
			p := parts[i-len(finals)]
			if commits[i].Offset == p.committed {
				p.repeats = max(p.repeats-1, 0)
			}
			p.noteCommitted(commits[i].Offset)
		}
	}
	return failed.err()
}

// Commit says that a message is finished: once per message, in any order, from any goroutine; again does no harm. It does
// not block and does no I/O: the position of the partition moves over the messages that are finished without a gap, and is in the
// coordination topic within CommitInterval. It gives ErrClaimLost when the claim of the message is over, ErrTerminated after
// Terminate(false), and ErrNotHandedOut for a message that did not come from this library.
func (c *Consumer) Commit(m *Message) error { return m.Commit() }

// CommitMessages commits messages, and waits until the resulting positions are in the coordination topic and have been read
// back: then no restart will hand them out again. It never waits for other messages: where one behind an unfinished message is
// among them it gives ErrCommitPending (that one is remembered, not yet durable). Its other errors are those of Commit, and that of ctx,
// which it blocks for at the latest: then the messages are committed all the same, as by Commit. Concurrent calls share a heartbeat;
// one after another they cost a record and a round trip each, which Commit does not.
func (c *Consumer) CommitMessages(ctx context.Context, ms ...*Message) error {
	var errs []error
	want := map[*partition]int64{}
	for _, m := range ms {
		if err := m.Commit(); err != nil {
			errs = append(errs, err)
			continue
		}
		want[m.from] = max(want[m.from], m.Offset+1)
	}
	for p, next := range want {
		at := p.position()
		if at < next {
			errs = append(errs, fmt.Errorf("%w: %s/%d stands at %d", ErrCommitPending, p.topic, p.id, at))
		}
		want[p] = at
	}
	return errors.Join(errors.Join(errs...), c.durable(ctx, want))
}

// Flush makes all positions durable: it waits until they are read back from the coordination topic and committed to Kafka.
// An error says which of the two failed. It blocks until ctx ends at the latest. ErrTerminated after Terminate.
func (c *Consumer) Flush(ctx context.Context) error {
	if c.Terminated() {
		return ErrTerminated
	}
	return c.flush(ctx)
}

func (c *Consumer) flush(ctx context.Context) error {
	want := map[*partition]int64{}
	for _, cl := range c.running() {
		for _, p := range cl.partitions() {
			want[p] = p.position()
		}
	}
	var errs []error
	if err := c.durable(ctx, want); err != nil {
		errs = append(errs, fmt.Errorf("marshal: positions are not confirmed in the coordination topic: %w", err))
	}
	if err := c.commitOffsets(ctx, false); err != nil {
		errs = append(errs, fmt.Errorf("marshal: offsets are not committed to Kafka: %w", err))
	}
	return errors.Join(errs...)
}

// durable waits until the world, as read back, has the positions.
func (c *Consumer) durable(ctx context.Context, want map[*partition]int64) error {
	m := c.m
	for {
		m.g.mu.Lock()
		err := m.missing(want)
		changed := m.changed
		if err == nil && len(want) > 0 {
			m.flush = true
			m.g.r.hurried.Store(true)
		}
		m.g.mu.Unlock()
		if err != nil || len(want) == 0 {
			return err
		}
		wakeUp(m.kick)
		if ctx.Err() != nil { // it may be durable a moment later: the answer must not hang on that
			return errors.Join(ctx.Err(), m.troubled())
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return errors.Join(ctx.Err(), m.troubled())
		case <-m.ctx.Done():
			return ErrTerminated
		}
	}
}

// missing takes those out of want that are durable. An error: one of them will never be. Called with the group's lock held.
func (m *Marshaler) missing(want map[*partition]int64) error {
	for p, next := range want {
		lost := m.claims[p.claim.key] != p.claim
		if !m.g.live || lost && !p.claim.wasReleased() {
			return ErrClaimLost
		}
		w, ok := m.g.log.World().Progress(p.topic, p.id)
		switch {
		case ok && w.Next >= next && w.TopicID.Same(p.topicID) && w.Next != lease.NoProgress:
			delete(want, p)
		case lost:
			return ErrClaimLost
		}
	}
	return nil
}
