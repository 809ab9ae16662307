package marshal

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
)

// claim is the running effort to live by one lease: one partition, or the partitions of a topic.
// It lives from the member's Start to its Stop or Finish.
type claim struct {
	m        *Marshaler
	consumer *Consumer // nil: nobody reads it
	key      lease.Key
	epoch    int64
	token    int64
	unread   bool           // held for a restart, not read
	handed   bool           // handed over by its owner of before: the world's progress is the newest there is
	resought map[int32]bool // see soughtOf

	// open is the gate: the world says that the key is ours, and no Release of it is under way. It is moved under the group's lock.
	open     atomic.Bool
	draining atomic.Bool
	reading  atomic.Pointer[reading] // hands its messages out; moved under the lock of the old one
	deadline time.Duration           // of the drain, Mono; guarded by the group's lock
	sought   bool                    // a Seek ends it, to begin it anew; guarded by the group's lock
	cut      bool                    // the drain ended at its deadline; guarded by the group's lock
	hasty    bool                    // Release was called: nothing in flight is waited for; guarded by the group's lock

	mu      sync.Mutex
	over    error        // why it ended
	parts   []*partition // by number; those that have begun
	given   *Claim       // what the application has of it; nil: nothing
	fetched bool         // messages are fetched: not of a claim by hand before somebody wants them
}

// newClaim makes the claim that an action starts. Called with the group's lock held.
func newClaim(m *Marshaler, a *member.Action) *claim {
	c := &claim{
		m: m, key: a.Key, epoch: a.Epoch, token: m.g.log.World().TokenBase() + a.Epoch, unread: a.Unread, handed: m.handed[a.Key],
		resought: m.soughtOf(a.Key),
	}
	if !a.Unread {
		c.consumer = m.consumerOf(a.Key.Topic)
	}
	switch {
	case !a.Unread && m.pinned(a.Key):
		c.consumer = m.hand
		c.reading.Store(newReading(m, m.hand.life))
	case c.consumer != nil:
		c.fetched = true
		c.reading.Store(c.consumer.reading)
	}
	c.open.Store(c.consumer != nil)
	return c
}

// drain closes the gate and waits for what is in flight. Called with the group's lock held.
func (c *claim) drain() {
	c.open.Store(false)
	c.draining.Store(true)
	c.tellGiven(true)
	c.deadline = c.m.c.clock.now().Mono
	if c.consumer != nil && c.consumer.phase != over {
		c.deadline += c.consumer.options.DrainTimeout
		if by := c.consumer.drainBy; by > 0 {
			c.deadline = min(c.deadline, by)
		}
		c.consumer.wakeReaders() // who waits may take from another partition
	}
}

// resume opens the gate again: a drain came to nothing. Called with the group's lock held.
func (c *claim) resume() {
	c.draining.Store(false)
	c.deadline = 0
	if c.consumer != nil {
		c.open.Store(true)
		if c.consumer.phase == consuming {
			c.tellGiven(false)
		}
		if slices.ContainsFunc(c.partitions(), (*partition).ended) { // what was in hand is void: it comes again
			c.cut = false
			c.restart(errCut)
			wakeUp(c.consumer.starts)
		}
		c.consumer.reopen(c)
	}
	if c.hasty {
		c.m.tellChanged()
	}
}

// end stops everything. Commits from now on give err. Called with the group's lock held.
func (c *claim) end(err error) {
	c.open.Store(false)
	c.mu.Lock()
	c.over = err
	parts := c.parts
	c.mu.Unlock()
	for _, p := range parts {
		p.end(err)
	}
	c.endGiven(err)
	if c.consumer != nil {
		c.consumer.ended(c)
	}
}

// leave ends what is read of a claim: its consumer is terminated.
func (c *claim) leave() {
	c.open.Store(false)
	for _, p := range c.partitions() {
		p.end(ErrTerminated)
	}
	c.endGiven(ErrTerminated)
}

// abandon gives a claim back as it is: its consumer is over. Called with the group's lock held.
func (c *claim) abandon() {
	c.leave()
	c.deadline = 0
	wakeUp(c.m.kick)
}

// drained tells whether a drain is at its end: nothing is in flight, or it has waited long enough. Else it gives the
// deadline; 0: not draining. Called with the group's lock held.
func (c *claim) drained(now time.Duration) (done bool, deadline time.Duration) {
	if !c.draining.Load() {
		return false, 0
	}
	busy := c.inFlight()
	if busy > 0 && now < c.deadline && !c.hasty {
		return false, c.deadline
	}
	if busy > 0 && !c.hasty {
		c.cut = true
		c.tellCut(fmt.Sprintf(
			"handing %s over with %d messages unfinished, the time to drain is over: they come again at the next owner", nameOfKey(c.key), busy))
	}
	if busy > 0 { // they come again, so from here on nobody is told that one of them is finished
		for _, p := range c.partitions() {
			p.end(errCut)
		}
	}
	c.draining.Store(false)
	return true, 0
}

// inFlight counts the messages that are handed out and not finished.
func (c *claim) inFlight() (n int) {
	if c.consumer != nil {
		for _, p := range c.partitions() {
			n += p.inFlight()
		}
	}
	return n
}

// tellCut tells that messages in hand are not waited for (any longer).
func (c *claim) tellCut(text string) { c.m.emit(logrus.WarnLevel, c.event(DrainCut, text)) }

// partitions gives those that have begun.
func (c *claim) partitions() []*partition {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.parts)
}

// topicID is that of the topic as it was when the partitions began; zero: none has.
func (c *claim) topicID() lease.TopicID {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.parts) == 0 {
		return lease.TopicID{}
	}
	return c.parts[0].topicID
}

// finalPositions are the exact next offsets, for a Release.
func (c *claim) finalPositions() []member.Position {
	var ps []member.Position
	for _, p := range c.partitions() {
		ps = append(ps, p.report())
	}
	return ps
}

// begin adds a partition whose start is known; false: the claim has ended.
func (c *claim) begin(p *partition) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over != nil {
		return false
	}
	i, found := slices.BinarySearchFunc(c.parts, p.id, func(q *partition, id int32) int { return int(q.id) - int(id) })
	if found {
		return false
	}
	c.parts = slices.Insert(c.parts, i, p)
	return true
}

// has tells whether a partition has begun.
func (c *claim) has(id int32) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.ContainsFunc(c.parts, func(p *partition) bool { return p.id == id })
}

// restart ends the partitions of an earlier life of the topic, and what the application was given of them; new ones begin at once.
// It tells whether the application was given anything.
func (c *claim) restart(err error) bool {
	r := c.lockReading()
	c.mu.Lock()
	parts, given := c.parts, c.given
	c.parts, c.given = nil, nil
	c.mu.Unlock()
	if given != nil {
		c.moveTo(c.consumer.reading)
	}
	r.mu.Unlock()
	for _, p := range parts {
		p.end(err)
	}
	if given != nil {
		given.end(err)
	}
	return given != nil
}

// isFetched tells whether messages are fetched.
func (c *claim) isFetched() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fetched
}

// isOver tells whether it has ended.
func (c *claim) isOver() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.over != nil
}

// wasReleased tells whether it has ended as we wanted.
func (c *claim) wasReleased() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return errors.Is(c.over, errReleased)
}
