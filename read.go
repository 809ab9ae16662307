package marshal

import (
	"context"
	"errors"
	"iter"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// reading is a reader's side: which partitions have something to hand out, and who waits for it. A Consumer has one, and so has
// each Claim that was given to the application. A message counts as handed out when it leaves here, and it leaves only while trust
// lasts, its claim's gate is open, and its partition is not paused.
type reading struct {
	m    *Marshaler
	life *life

	mu       sync.Mutex
	stopped  bool
	queue    []*partition // with something to hand out, in turn
	current  *partition   // whose messages are in hand: reserved in its window, to be handed out next
	back     []*Message   // of those, first what was in hand before
	hand     []Message    // and then, from at on, what was decoded now
	at       int
	begun    []*claim // of a Consumer: those that nobody was given yet
	problems []*PartitionError
	reported map[lease.Key]time.Time
	waiters  int
	wait     chan struct{} // closed when something may have changed for those who wait

	channel   chan *Message
	pumping   bool
	offered   *Message                // in the pump's hands, perhaps received already
	taking    bool                    // somebody takes the offered message back
	wanted    atomic.Pointer[Message] // the last one that somebody tried to take back
	offerDone chan struct{}           // tells that one that it was received
	takeMu    sync.Mutex
}

// handSize is how many messages are decoded and reserved at a time: it spares a lock per message, and what was decoded is still
// in the processor's cache when the application gets it. So many fit into the largest object that the heap keeps a size class for.
const handSize = (32<<10 - 8) / nodeBytes

// batchSize is how many messages a Batch has at most.
const batchSize = 1024

// nodeBytes is what a message costs beside its key and value.
const nodeBytes = int(unsafe.Sizeof(Message{}))

// maxProblems is how many errors wait for a reader at most.
const maxProblems = 64

func newReading(m *Marshaler, l *life) *reading {
	return &reading{
		m: m, life: l, wait: make(chan struct{}), channel: make(chan *Message), offerDone: make(chan struct{}, 1),
		reported: map[lease.Key]time.Time{},
	}
}

// lockReading locks the reading that hands out a claim's messages.
func (c *claim) lockReading() *reading {
	for {
		r := c.reading.Load()
		r.mu.Lock()
		if r == c.reading.Load() {
			return r
		}
		r.mu.Unlock() // it has moved
	}
}

// moveTo has another reading hand out the messages of a claim. Called with the lock of the present one held.
func (c *claim) moveTo(to *reading) {
	r := c.reading.Load()
	if r.current != nil && r.current.claim == c {
		r.putAside()
	}
	r.queue = slices.DeleteFunc(r.queue, func(p *partition) bool {
		if p.claim == c {
			p.waiting = false
		}
		return p.claim == c
	})
	c.reading.Store(to)
}

// ready puts a partition in the queue: it may have something to hand out.
func (p *partition) ready() {
	r := p.claim.lockReading()
	defer r.mu.Unlock()
	if !p.waiting && !r.stopped {
		p.waiting = true
		r.queue = append(r.queue, p)
	}
	r.wakeAll()
}

// wakeReaders makes those who wait look again.
func (r *reading) wakeReaders() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wakeAll()
}

func (r *reading) wakeAll() {
	if r.waiters > 0 {
		close(r.wait)
		r.wait, r.waiters = make(chan struct{}), 0
	}
}

// stop ends hand-out for good. The channel is closed once the pump has noticed.
func (r *reading) stop() {
	r.mu.Lock()
	r.stopped = true
	r.putAside()
	r.queue, r.begun = nil, nil
	r.wakeAll()
	pumping := r.pumping
	if !pumping {
		r.pumping = true // nobody will start it any more
	}
	r.mu.Unlock()
	if pumping {
		r.recall()
	} else {
		close(r.channel)
	}
}

// problem queues an error of a partition for its reader.
func (c *claim) problem(partition int32, offset int64, err error) {
	r := c.lockReading()
	defer r.mu.Unlock()
	r.problem(lease.Key{Topic: c.key.Topic, Partition: partition}, offset, err)
}

// problem queues an error of a partition, or of a topic as a whole, for a reader: at most one a second of each. Called with r.mu held.
func (r *reading) problem(k lease.Key, offset int64, err error) {
	now := time.Now()
	if now.Sub(r.reported[k]) < time.Second || len(r.problems) >= maxProblems {
		return
	}
	if len(r.reported) > 10_000 {
		clear(r.reported)
	}
	r.reported[k] = now
	r.problems = append(r.problems, &PartitionError{Topic: k.Topic, Partition: k.Partition, Offset: offset, Err: err})
	r.wakeAll()
}

// next takes what may be handed out now; nil: nothing. Called with r.mu held.
func (r *reading) next() *Message {
	for r.held() == 0 || !r.current.open() {
		r.putAside()
		if !r.refill() {
			return nil
		}
	}
	now := r.m.c.clock.now() // when all that takes time is done
	if !r.m.trustedAt(now.Mono, now.Wall) {
		return nil
	}
	var m *Message
	if r.at < len(r.hand) {
		m = &r.hand[r.at]
		r.at++
	} else {
		m, r.back = r.back[0], r.back[1:]
	}
	r.current.ages.Note(m.Offset, m.Offset, now.Mono)
	return m
}

// held is how many messages are in hand.
func (r *reading) held() int { return len(r.back) + len(r.hand) - r.at }

// refill reserves the next messages. Called with r.mu held and nothing in hand.
func (r *reading) refill() bool {
	for len(r.queue) > 0 {
		p := r.queue[0]
		r.queue = r.queue[1:]
		p.waiting = false
		if !p.open() || p.ended() { // whoever opens it queues it again; what was taken back of one that has ended is not for anybody
			continue
		}
		r.back, p.unsent = p.unsent, nil
		r.hand, r.at = nil, 0
		if len(r.back) == 0 {
			r.hand = p.cut(handSize)
		}
		if r.held() > 0 {
			r.current = p
			p.waiting = true
			r.queue = append(r.queue, p)
			return true
		}
	}
	return false
}

// putAside gives what is in hand back to its partition, in order. Called with r.mu held.
func (r *reading) putAside() {
	if p := r.current; p != nil {
		aside := slices.Clone(r.back)
		for ; r.at < len(r.hand); r.at++ {
			aside = append(aside, &r.hand[r.at])
		}
		p.unsent = append(aside, p.unsent...)
	}
	r.forget()
}

// forget leaves what is in hand to nobody. Called with r.mu held.
func (r *reading) forget() { r.current, r.back, r.hand, r.at = nil, nil, nil, 0 }

// inFlight counts the messages of p that are handed out and not finished.
func (p *partition) inFlight() int {
	n, _ := p.inHand()
	return n
}

// inHand counts the messages of p that are handed out and not finished, and tells since when (Mono, to 10 ms) the oldest of them
// is. What the channel offers counts too.
func (p *partition) inHand() (n int, since time.Duration) {
	r := p.claim.lockReading()
	defer r.mu.Unlock()
	kept := len(p.unsent)
	if r.current == p {
		kept += r.held()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	since, _ = p.ages.Since(p.win.Position()) // what is kept lies above all that is handed out
	return p.win.Pending() - kept, since
}

// cut decodes up to most messages from the front of the queue, as the window has room, and notes them in the window. Called with
// the lock of the reading held.
func (p *partition) cut(most int) []Message {
	ms, freed := p.cutLocked(most)
	if freed {
		p.claim.consumer.fetcher.freed(p)
	}
	return ms
}

func (p *partition) cutLocked(most int) (ms []Message, freed bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.over == nil && len(p.queue) > 0 && len(ms) == 0 {
		from := &p.queue[0]
		n := min(from.Left(), most, p.win.Room())
		if n == 0 && from.Left() > 0 {
			p.stalled = true
			return nil, freed
		}
		room, i := make([]Message, n), 0
		for i < n && from.Record(&room[i].ConsumerMessage) {
			room[i].from = p
			p.win.Add(room[i].Offset)
			i++
		}
		ms = room[:i:i]
		if from.Err() != nil {
			p.suspect = from.Next()
			p.refetch(p.suspect)
			freed = true
		} else if from.Left() == 0 {
			p.pop()
			freed = true
		}
	}
	if freed && len(ms) == 0 {
		p.settle()
	}
	return ms, freed
}

// pop drops the oldest batch of the queue. Called with p.mu held.
func (p *partition) pop() {
	p.buffer(-p.queue[0].bytes)
	p.queue[0] = stored{}
	p.queue = p.queue[1:]
}

// suspects tells whether a record could not be read at an offset.
func (p *partition) suspects(offset int64) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.suspect == offset
}

// nextBatch takes a run of messages of one partition. Called with r.mu held.
func (r *reading) nextBatch() []Message {
	if !r.m.trusted() {
		return nil
	}
	if r.held() > 0 {
		r.putBack()
	}
	for len(r.queue) > 0 {
		p := r.queue[0]
		r.queue = r.queue[1:]
		p.waiting = false
		if !p.open() || p.ended() { // what was taken back of one that has ended is not for anybody
			continue
		}
		var ms []Message
		if len(p.unsent) > 0 {
			for _, m := range p.unsent {
				ms = append(ms, *m)
			}
			p.unsent = nil
		} else {
			ms = p.cut(batchSize)
		}
		if len(ms) > 0 {
			p.waiting = true
			r.queue = append(r.queue, p)
			now := r.m.c.clock.now()
			if !r.m.trustedAt(now.Mono, now.Wall) { // decoding took its time
				r.current, r.hand, r.at = p, ms, 0
				r.putAside()
				return nil
			}
			p.ages.Note(ms[0].Offset, ms[len(ms)-1].Offset, now.Mono)
			return ms
		}
	}
	return nil
}

// drop forgets what is reserved of a partition that has ended.
func (p *partition) drop() {
	r := p.claim.lockReading()
	defer r.mu.Unlock()
	if r.current == p {
		r.forget()
	}
	p.unsent = nil
}

// putBack puts what is in hand back to the front of the queue. Called with r.mu held.
func (r *reading) putBack() {
	p := r.current
	r.putAside()
	if p != nil {
		r.first(p)
	}
}

// first puts a partition at the front of the queue. Called with r.mu held.
func (r *reading) first(p *partition) {
	if !p.waiting && !r.stopped {
		p.waiting = true
		r.queue = append([]*partition{p}, r.queue...)
	}
}

// ask is get for the application, which works if it asks for messages.
func (r *reading) ask(ctx context.Context, take func() bool) error {
	r.life.shown()
	return r.get(ctx, true, take)
}

// get calls take under the lock until it gives something, and waits in between, as the application (asks), or for it.
func (r *reading) get(ctx context.Context, asks bool, take func() bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.mu.Lock()
	if !r.stopped && len(r.problems) == 0 && take() { // the usual case
		r.mu.Unlock()
		return nil
	}
	if asks {
		r.life.asking.Add(1)
		defer r.life.asking.Add(-1)
	}
	return r.await(ctx, take)
}

// await is get where there is nothing yet. Called with r.mu held, which it gives back.
func (r *reading) await(ctx context.Context, take func() bool) error {
	for {
		if r.stopped {
			r.mu.Unlock()
			return ErrTerminated
		}
		if len(r.problems) > 0 { // before what there is to read: a busy reader is to hear of it too
			err := r.problems[0]
			r.problems = r.problems[1:]
			r.mu.Unlock()
			return err
		}
		if take() {
			r.mu.Unlock()
			return nil
		}
		r.waiters++
		wait := r.wait
		r.mu.Unlock()
		select {
		case <-wait:
		case <-ctx.Done():
			return ctx.Err()
		}
		r.mu.Lock()
	}
}

// FetchMessage gives the next message. It blocks until there is one, ctx ends (its error), the consumer is terminated
// (ErrTerminated), or a partition has a problem (*PartitionError; the next call goes on). The message is to be committed when it
// is finished; nothing commits by itself. Several goroutines may call it.
func (c *Consumer) FetchMessage(ctx context.Context) (*Message, error) { return c.fetch(ctx) }

func (r *reading) fetch(ctx context.Context) (m *Message, err error) {
	r.life.shown()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	default:
	}
	r.mu.Lock()
	if !r.stopped && len(r.problems) == 0 { // the usual case
		m = r.next()
	}
	r.mu.Unlock()
	if m != nil {
		return m, nil
	}
	return r.fetchSlowly(ctx)
}

// fetchSlowly is fetch where there is nothing yet.
func (r *reading) fetchSlowly(ctx context.Context) (*Message, error) {
	var m *Message
	err := r.get(ctx, true, func() bool { m = r.next(); return m != nil })
	return m, err
}

// ReadMessage is FetchMessage and CommitMessages in one: the message is durably finished before the caller has it, which is
// delivery at most once. Its errors are those of both; with one of CommitMessages the message comes along, which may come again.
func (c *Consumer) ReadMessage(ctx context.Context) (*Message, error) {
	m, err := c.FetchMessage(ctx)
	if err != nil {
		return nil, err
	}
	return m, c.CommitMessages(ctx, m)
}

// Messages yields messages until ctx ends or the consumer is terminated; then it ends without an error. A *PartitionError is
// yielded with a nil message, and it goes on.
func (c *Consumer) Messages(ctx context.Context) iter.Seq2[*Message, error] {
	return sequence(ctx, c.FetchMessage)
}

// Batches yields runs of messages of one partition each, as they were fetched: the fastest way to read. It ends as Messages does.
func (c *Consumer) Batches(ctx context.Context) iter.Seq2[*Batch, error] {
	return sequence(ctx, func(ctx context.Context) (*Batch, error) {
		var b *Batch
		err := c.ask(ctx, func() bool {
			ms := c.nextBatch()
			if len(ms) > 0 {
				b = &Batch{Messages: ms}
			}
			return b != nil
		})
		return b, err
	})
}

func sequence[T any](ctx context.Context, get func(context.Context) (*T, error)) iter.Seq2[*T, error] {
	return func(yield func(*T, error) bool) {
		for {
			v, err := get(ctx)
			if v == nil && (errors.Is(err, ErrTerminated) || ctx.Err() != nil) {
				return
			}
			if !yield(v, err) {
				return
			}
		}
	}
}
