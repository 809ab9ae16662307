package marshal

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-marshal/marshal/internal/batch"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
	"github.com/kafka-marshal/marshal/internal/window"
)

// partition is one partition of a claim: what was fetched, what is in flight, what is finished.
type partition struct {
	claim   *claim
	topic   string
	id      int32
	topicID lease.TopicID
	token   int64
	ctx     context.Context // of its messages; cancelled when the claim is lost
	cancel  context.CancelCauseFunc
	life    *life       // of who reads it
	moved   atomic.Bool // the position changed since it was last reported
	paused  atomic.Bool // by the application: nothing is handed out or fetched

	mu        sync.Mutex
	over      error
	win       *window.Window
	queue     []stored  // not handed out, oldest first
	queued    int       // bytes of them
	next      int64     // what to fetch next: behind the queue
	lastEpoch int32     // leader epoch of the newest batch fetched
	logEnd    int64     // high watermark as last seen; -1: not yet
	logStart  int64     // the oldest offset, where outside is set
	endAt     time.Time // when logEnd was seen
	toldEnd   int64     // the end as a fetch told it last
	provenAt  time.Time // when a message came, or it was asked beside the fetches whether one should have
	outside   bool      // the position is not in the log, as logStart and logEnd say
	fetches   int       // counts the times that next was set from outside: answers to earlier requests are void
	suspect   int64     // here a record could not be read: what is fetched from here is looked at before it is queued; -1: nowhere
	stalled   bool      // messages are there, but the window is full
	committed int64     // the position last committed to Kafka; -1: none
	repeats   int       // how often it is committed again, moved or not: the last commit of its owner of before may come late

	// guarded by the lock of the claim's reading
	unsent  []*Message // reserved in the window and not handed out: the gate closed before, or a reader gave them back
	waiting bool       // it is in the queue of partitions that have something to hand out
	ages    window.Ages

	look         look
	stall        stall
	stalledSince atomic.Int64 // Mono since when the oldest message in hand is unfinished for too long; 0: it is not

	fetch fetchState // guarded by the fetcher's lock
}

// stored is a batch that was fetched. Its messages are decoded when they are handed out: until then it costs its bytes alone.
type stored struct {
	batch.Cursor
	bytes int
}

func newPartition(c *claim, id int32, topicID lease.TopicID, start int64, limit int) *partition {
	p := &partition{
		claim: c, topic: c.key.Topic, id: id, topicID: topicID, token: c.token, life: c.consumer.life, win: window.New(start, limit),
		next: start, lastEpoch: -1, logEnd: -1, committed: -1, suspect: -1, repeats: 2,
	}
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.moved.Store(true) // the start is worth reporting: an owner that dies at once must not lose it
	return p
}

// commit marks one message as finished.
func (p *partition) commit(offset int64) error {
	p.life.shown()
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
	p.life.shown()
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
		p.ready()
		p.claim.consumer.fetcher.freed(p) // what was buffered of it may have been discarded
	}
	if p.claim.draining.Load() {
		wakeUp(p.claim.m.kick)
	}
}

// settle moves the position over what nobody will see (holes, control records), where nothing else is in its way.
// Called with p.mu held.
func (p *partition) settle() {
	if len(p.queue) > 0 {
		return
	}
	before := p.win.Position()
	p.win.Skip(p.next)
	if p.win.Position() != before {
		p.moved.Store(true)
	}
}

// end stops it: nothing more is handed out, commits give err.
func (p *partition) end(err error) {
	hang := p.hangs()
	p.mu.Lock()
	if p.over == nil {
		p.over = err
		if hang != nil {
			p.life.hung.Store(hang)
		}
	}
	p.empty()
	p.cancel(err) // with the lock held: who is refused a commit finds the context cancelled
	p.mu.Unlock()
	p.drop()
	p.claim.consumer.fetcher.remove(p)
}

// open tells whether its messages may be handed out, as far as its claim and the application are concerned.
func (p *partition) open() bool { return p.claim.open.Load() && !p.paused.Load() }

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

// key names it alone, in a claim of a whole topic too.
func (p *partition) key() lease.Key { return lease.Key{Topic: p.topic, Partition: p.id} }

// report is the position as the member takes it.
func (p *partition) report() member.Position {
	return member.Position{Key: p.key(), TopicID: p.topicID, Epoch: p.claim.epoch, Next: p.position()}
}
