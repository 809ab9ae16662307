package marshal

import (
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

	mu    sync.Mutex
	over  error        // why it ended
	parts []*partition // by number; those that have begun
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
	if c.consumer != nil {
		c.reading.Store(c.consumer.reading)
	}
	c.open.Store(c.consumer != nil)
	return c
}

func (c *claim) fields() logrus.Fields {
	f := c.m.fields()
	f["topic"], f["epoch"], f["token"] = c.key.Topic, c.epoch, c.token
	if c.key.Partition != lease.WholeTopic {
		f["partition"] = c.key.Partition
	}
	return f
}

// drain closes the gate and waits for what is in flight. Called with the group's lock held.
func (c *claim) drain() {
	c.open.Store(false)
	c.draining.Store(true)
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
		c.consumer.reopen(c)
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
	if c.consumer != nil {
		c.consumer.ended(c)
	}
}

// abandon gives a claim back as it is: its consumer is over. Called with the group's lock held.
func (c *claim) abandon() {
	c.open.Store(false)
	for _, p := range c.partitions() {
		p.end(ErrTerminated)
	}
	c.deadline = 0
	wakeUp(c.m.kick)
}

// drained tells whether a drain is at its end: nothing is in flight, or it has waited long enough. Else it gives the
// deadline; 0: not draining. Called with the group's lock held.
func (c *claim) drained(now time.Duration) (done bool, deadline time.Duration) {
	if !c.draining.Load() {
		return false, 0
	}
	busy := 0
	if c.consumer != nil {
		for _, p := range c.partitions() {
			busy += p.inFlight()
		}
	}
	if busy > 0 && now < c.deadline {
		return false, c.deadline
	}
	if busy > 0 {
		c.cut = true
		c.m.c.report.warn(c.fields(), fmt.Sprintf("marshal: handing over with %d messages unfinished, the time to drain is over: they come again at the next owner", busy))
	}
	c.draining.Store(false)
	return true, 0
}

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

// restart ends the partitions of an earlier life of the topic; new ones begin at once.
func (c *claim) restart(err error) {
	c.mu.Lock()
	parts := c.parts
	c.parts = nil
	c.mu.Unlock()
	for _, p := range parts {
		p.end(err)
	}
}
