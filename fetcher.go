package marshal

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-marshal/marshal/internal/kafka"
)

const (
	partBytes  = 1 << 20              // asked for of one partition at most, while less than twice that is buffered or coming of it
	firstBytes = 64 << 10             // asked for of a partition that begins
	leastBytes = 16 << 10             // and at least
	quickWait  = 5 * time.Millisecond // a poll of the second connection, see fetchBroker
	quietMost  = time.Minute          // that a broker may put our next request off, whatever it says
)

// fetcher reads the data of one Consumer's partitions: it decides what is asked of which broker on which connection, keeps
// what is buffered bounded, and hands batches to the partitions.
//
// What is buffered is shared out evenly: a partition asks for more while it has less than twice partBytes, and less than its part of half of
// MaxBufferedBytes, so a slow one can never take the room of another. What happens where batches are too large for that is in
// room.go.
type fetcher struct {
	c   *Consumer
	ctx context.Context

	mu      sync.Mutex
	parts   map[*partition]struct{}
	brokers map[int32]*fetchBroker

	buffered atomic.Int64  // bytes, of all partitions; see room.go
	passed   *partition    // let past while the buffer was full; nil: none
	passedAt time.Duration // when, Mono
	starved  bool          // somebody found no room
}

// fetchState is what the fetcher knows of a partition, guarded by its lock.
type fetchState struct {
	broker *fetchBroker  // nil: no leader known
	epoch  int32         // the leader's, as far as known
	asked  bool          // a request that has it is under way, or its answer is being queued
	left   int           // the long poll that was parked when the second connection gave it up: it is for the next one
	growth float64       // bytes, decompressed, per fetched byte of the last answer
	least  int           // bytes to ask for at least: with fewer the broker had a batch and gave none
	retry  time.Duration // not before, Mono
	pause  time.Duration // the newest pause between tries

	following following // the replica that it is fetched from in the leader's place
}

// fetchBroker fetches from one broker on two connections, because a broker answers one request per connection at a time: the
// first holds the long poll; the second serves partitions that begin, or have room again, while that poll is parked, by
// polls of a few ms, until the first takes them along.
type fetchBroker struct {
	f         *fetcher
	id        int32
	parts     []*partition
	turn      [2]int  // where the next request of each connection begins: the first partition gets a batch of any size
	polls     int     // counts the long polls
	polling   bool    // one is under way
	guests    int     // partitions that the second connection asks for
	guestPoll int     // and the long poll during which it began to
	worn      [2]bool // the connection is to be opened anew
	kicks     [2]chan struct{}
	quiet     time.Duration // a quota: nothing is asked before, Mono
	quietTold time.Duration // when the log was told last, Mono; 0: never
	troubled  atomic.Bool   // the last try on one of the two failed
}

const (
	longPoll = iota
	quickPoll
)

func newFetcher(ctx context.Context, c *Consumer) *fetcher {
	return &fetcher{c: c, ctx: ctx, parts: map[*partition]struct{}{}, brokers: map[int32]*fetchBroker{}}
}

// share is how many buffered bytes a partition may have before it asks for no more. Called with f.mu held.
func (f *fetcher) share() int {
	return max(f.c.options.MaxBufferedBytes/2/max(len(f.parts), 1), 1)
}

// add begins to fetch a partition.
func (f *fetcher) add(p *partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ctx.Err() != nil || p.ended() {
		return
	}
	f.parts[p] = struct{}{}
	f.assign(p)
}

// close ends it: none of its goroutines begins from now on.
func (f *fetcher) close(cancel context.CancelFunc) {
	f.mu.Lock()
	defer f.mu.Unlock()
	cancel()
}

// remove ends it.
func (f *fetcher) remove(p *partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.parts, p)
	f.detach(p)
	f.roomier()
}

// freed says that a partition has handed out a batch: it may have room again.
func (f *fetcher) freed(p *partition) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := p.fetch.broker; b != nil && !p.fetch.asked {
		b.kick()
	}
	f.roomier()
}

// reassign looks the leaders up again, after the topics were asked for anew.
func (f *fetcher) reassign() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for p := range f.parts {
		f.assign(p)
	}
}

// assign gives p to its leader, or to the replica that the leader has named. Called with f.mu held.
func (f *fetcher) assign(p *partition) {
	leader, ok := f.c.m.c.client.Leader(p.topic, p.id)
	if !ok || leader.Leader < 0 {
		f.detach(p)
		f.c.leaderless(p)
		f.c.look()
		return
	}
	p.fetch.epoch = leader.LeaderEpoch
	from := leader.Leader
	if p.fetch.following.until != 0 {
		from = p.fetch.following.replica
	}
	if b := p.fetch.broker; b != nil && b.id == from {
		b.kick()
		return
	}
	f.detach(p)
	b := f.broker(from)
	p.fetch.broker = b
	b.parts = append(b.parts, p)
	b.kick()
}

// broker finds a broker, or begins to fetch from it. Called with f.mu held.
func (f *fetcher) broker(id int32) *fetchBroker {
	b := f.brokers[id]
	if b == nil {
		b = &fetchBroker{f: f, id: id, kicks: [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}}
		f.brokers[id] = b
		f.c.wg.Go(func() { b.run(longPoll) })
		f.c.wg.Go(func() { b.run(quickPoll) })
	}
	return b
}

// prepare opens the connections to the leaders of topics, before the first claim needs them.
func (f *fetcher) prepare(topics map[string]kafka.Topic) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, t := range topics {
		for _, p := range t.Partitions {
			if p.Leader >= 0 {
				f.broker(p.Leader)
			}
		}
	}
}

func (f *fetcher) detach(p *partition) {
	b := p.fetch.broker
	if b == nil {
		return
	}
	p.fetch.broker = nil
	for i, q := range b.parts {
		if q == p {
			b.parts = append(b.parts[:i], b.parts[i+1:]...)
			break
		}
	}
}

// throttle keeps to a quota: the broker has told us not to ask again for d. Brokers of today do not read what we ask until then, and to wait for
// the answer would be taken for a broker that is silent; others rely on us. It is no failure, so it is told as news, once a minute.
func (b *fetchBroker) throttle(d time.Duration) {
	if d <= 0 {
		return
	}
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	c := b.f.c
	now := c.m.c.clock.now().Mono
	b.quiet = max(b.quiet, now+min(d, quietMost))
	if b.quietTold == 0 || now-b.quietTold >= remindEvery {
		b.quietTold = now
		c.m.c.report.info(c.m.fields(), fmt.Sprintf("marshal: broker %d throttles what is fetched, by a quota of the user or the client.id: it is asked again in %v", b.id, d))
	}
}

func (b *fetchBroker) kick() {
	wakeUp(b.kicks[longPoll])
	wakeUp(b.kicks[quickPoll])
}
