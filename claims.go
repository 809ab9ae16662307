package marshal

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
	"github.com/kafka-marshal/marshal/internal/window"
)

// claim is the running effort to live by one lease: one partition, or the partitions of a topic.
// It lives from the member's Start to its Stop or Finish.
type claim struct {
	m        *Marshaler
	consumer *Consumer // nil: nobody reads it
	key      lease.Key
	epoch    int64
	token    int64
	unread   bool // held for a restart, not read
	handed   bool // handed over by its owner of before: the world's progress is the newest there is

	// open is the gate: the world says that the key is ours, and no Release of it is under way. It is moved under the group's lock.
	open     atomic.Bool
	draining atomic.Bool
	deadline time.Duration // of the drain, Mono; guarded by the group's lock
	sought   bool          // a Seek of ours ends it, to begin it anew; guarded by the group's lock
	cut      bool          // the drain ended at its deadline; guarded by the group's lock

	mu    sync.Mutex
	over  error        // why it ended
	parts []*partition // by number; those that have begun
}

// newClaim makes the claim that an action starts. Called with the group's lock held.
func newClaim(m *Marshaler, a *member.Action) *claim {
	c := &claim{
		m: m, key: a.Key, epoch: a.Epoch, token: m.g.log.World().TokenBase() + a.Epoch, unread: a.Unread, handed: m.handed[a.Key],
	}
	if !a.Unread {
		c.consumer = m.consumerOf(a.Key.Topic)
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
			busy += c.consumer.inFlight(p)
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

// partition is one partition of a claim: what was fetched, what is in flight, what is finished.
type partition struct {
	claim   *claim
	topic   string
	id      int32
	topicID lease.TopicID
	token   int64
	ctx     context.Context // of its messages; cancelled when the claim is lost
	cancel  context.CancelCauseFunc
	moved   atomic.Bool // the position changed since it was last reported

	mu        sync.Mutex
	over      error
	win       *window.Window
	queue     []slab // decoded, not handed out, oldest first
	queued    int    // bytes of them
	next      int64  // what to fetch next: behind the queue
	lastEpoch int32  // leader epoch of the newest batch fetched
	logEnd    int64  // high watermark as last seen; -1: not yet
	fetches   int    // counts the times that next was set from outside: answers to earlier requests are void
	stalled   bool   // messages are there, but the window is full
	committed int64  // the position last committed to Kafka; -1: none

	// guarded by the consumer's reading lock
	unsent  []*Message // reserved in the window and not handed out: the gate closed before, or a reader gave them back
	waiting bool       // it is in the queue of partitions that have something to hand out

	fetch fetchState // guarded by the fetcher's lock
}

// slab is a run of decoded messages of one batch.
type slab struct {
	messages []Message
	bytes    int
}

func newPartition(c *claim, id int32, topicID lease.TopicID, start int64, limit int) *partition {
	p := &partition{
		claim: c, topic: c.key.Topic, id: id, topicID: topicID, token: c.token, win: window.New(start, limit),
		next: start, lastEpoch: -1, logEnd: -1, committed: -1,
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.moved.Store(true) // the start is worth reporting: an owner that dies at once must not lose it
	return p
}

// commit marks one message as finished.
func (p *partition) commit(offset int64) error {
	p.mu.Lock()
	if p.over != nil {
		defer p.mu.Unlock()
		return p.over
	}
	p.win.Done(offset)
	p.finished()
	return nil
}

// commitAll marks a batch.
func (p *partition) commitAll(ms []Message) error {
	p.mu.Lock()
	if p.over != nil {
		defer p.mu.Unlock()
		return p.over
	}
	for i := range ms {
		p.win.Done(ms[i].Offset)
	}
	p.finished()
	return nil
}

// finished looks after what a commit changes, and unlocks p.mu.
func (p *partition) finished() {
	p.settle()
	ready := p.stalled && !p.win.Full()
	if ready {
		p.stalled = false
	}
	p.mu.Unlock()
	if !p.moved.Load() {
		p.moved.Store(true)
	}
	if ready {
		p.claim.consumer.ready(p)
	}
	if p.claim.draining.Load() {
		wakeUp(p.claim.m.kick)
	}
}

// settle moves the position over what nobody will see (holes, control records), where nothing else is in its way.
// Called with p.mu held.
func (p *partition) settle() {
	if len(p.queue) == 0 {
		p.win.Skip(p.next)
	}
}

// end stops it: nothing more is handed out, commits give err.
func (p *partition) end(err error) {
	p.mu.Lock()
	if p.over == nil {
		p.over = err
	}
	p.queue, p.queued = nil, 0
	p.mu.Unlock()
	p.claim.consumer.drop(p)
	p.claim.consumer.fetcher.remove(p)
	p.cancel(err)
}

func (p *partition) ended() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.over != nil
}

// position is the next offset to read, as far as everything below it is finished.
func (p *partition) position() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.win.Position()
}

// report is the position as the member takes it.
func (p *partition) report() member.Position {
	return member.Position{Key: lease.Key{Topic: p.topic, Partition: p.id}, TopicID: p.topicID, Epoch: p.claim.epoch, Next: p.position()}
}

// lag is how many offsets lie between the position and the log's end as last seen.
func (p *partition) lag() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return max(p.logEnd-p.win.Position(), 0)
}
