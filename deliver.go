package marshal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/kafka-marshal/marshal/internal/batch"
	"github.com/kafka-marshal/marshal/internal/kafka"
)

// deliver decodes one partition's part of an answer of so many bytes and queues it, or looks after what is wrong.
func (b *fetchBroker) deliver(decoder *batch.Reader, a *asked, part *kafka.FetchedPart, bytes int) {
	c, p := b.f.c, a.p
	switch {
	case a.void():
		return
	case (part.Diverging || part.Err != nil) && b.unfollow(p): // its leader knows better
		b.backOff(p)
		if kafka.LookAgain(part.Err) {
			c.look()
		}
		return
	case part.Diverging, errors.Is(part.Err, kafka.ErrOutOfRange):
		b.backOff(p)
		c.repair(p, part.DivergesAt)
		return
	case part.Err != nil && kafka.LookAgain(part.Err):
		b.backOff(p)
		c.look()
		return
	case part.Err != nil:
		b.backOff(p)
		c.failing(p, a.offset, part.Err)
		return
	}
	end := part.HighWatermark
	if c.readsCommitted() {
		end = part.LastStable
	}
	decoder.Reset(part.Records, batch.Options{
		Topic: p.topic, Partition: p.id, From: a.offset, ReadCommitted: c.readsCommitted(), Aborted: part.Aborted,
		MaxBatchBytes: c.options.MaxBatchBytes,
	})
	if len(part.Records) > 0 && !b.f.admit(p) {
		return
	}
	in := intake{p: p, fetches: a.fetches, next: a.offset, end: end, limit: 2 * b.shareOf()}
	suspect := p.suspects(a.offset)
	for in.bytes < in.limit && (in.bytes == 0 || !b.f.full()) { // the first batch always, so that a large one passes alone
		n, ok := decoder.NextBatch()
		if !ok || suspect && in.bytes == 0 && !decoder.Check() {
			break
		}
		bytes := decoder.Size()
		if !in.put(&stored{Cursor: decoder.Detach(), bytes: bytes}, decoder.Next(), decoder.LastEpoch()) {
			break
		}
		in.count += n
		c.counters.queued(n, bytes)
		p.ready()
	}
	if in.bytes < in.limit {
		in.put(nil, decoder.Next(), decoder.LastEpoch())
	}
	a.got = in.count
	var bad *batch.Error
	broken := errors.As(decoder.Err(), &bad)
	if !broken || in.next > a.offset {
		b.fine(p, in.bytes, len(part.Records))
	}
	if !broken && !b.sends(part) && decoder.Next() == a.offset && a.offset < end && bytes+a.most <= c.maxAnswer() {
		b.askMore(p, a.most)
	}
	if broken {
		b.backOff(p)
		c.failing(p, max(bad.Offset, in.next), bad)
	}
}

// intake puts what an answer brings for one partition into its queue.
type intake struct {
	p       *partition
	fetches int   // as when it was asked for: else the answer is void
	next    int64 // where the partition stands, if nothing else has moved it
	end     int64 // the log's
	limit   int   // bytes after which the rest of the answer is left: it is fetched again later
	bytes   int
	count   int // messages
}

// put queues a batch, if there is one, and moves on to next. It gives false where that is not what comes next.
func (in *intake) put(batch *stored, next int64, epoch int32) bool {
	p := in.p
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over != nil || p.fetches != in.fetches || p.next != in.next {
		return false
	}
	p.logEnd, p.toldEnd, p.endAt, p.outside = in.end, in.end, time.Now(), false
	if batch != nil {
		p.provenAt = p.endAt
		p.queue = append(p.queue, *batch)
		p.buffer(batch.bytes)
		in.bytes += batch.bytes
	}
	p.next = max(p.next, next)
	in.next = p.next
	if epoch >= 0 {
		p.lastEpoch = epoch
	}
	p.settle()
	return true
}

func (b *fetchBroker) shareOf() int {
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	return b.f.share()
}

// backOff leaves a partition out of requests for a while, longer each time.
func (b *fetchBroker) backOff(p *partition) {
	f := b.f
	f.mu.Lock()
	defer f.mu.Unlock()
	o := &f.c.options
	p.fetch.pause = min(max(2*p.fetch.pause, o.RetryBackoffMin), o.RetryBackoffMax)
	p.fetch.retry = f.c.m.c.clock.now().Mono + p.fetch.pause
}

// fine ends a partition's backing off, and notes how much its records grow when decompressed.
func (b *fetchBroker) fine(p *partition, grown, raw int) {
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	if p.fetch.pause != 0 {
		p.fetch.pause = 0
		b.f.c.ailments.over(p.failure())
	}
	if grown > 0 {
		p.fetch.growth = float64(grown) / float64(raw)
	}
}

// askMore is for a partition whose next batch is larger than what was asked for, while the answer had room: a broker gives such a
// batch only to the first partition of a request.
func (b *fetchBroker) askMore(p *partition, asked int) {
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	p.fetch.least = 4 * asked
}

// lastBatch gives the offset behind the last complete batch of raw, and that batch's leader epoch; 0 where there is none.
// plain tells whether a batch is not compressed: messages will point into raw.
func lastBatch(raw []byte) (next int64, epoch int32, plain bool) {
	const header = 61 // base offset at 0, length at 8, leader epoch at 12, attributes at 21, last offset delta at 23
	be := binary.BigEndian
	for len(raw) >= header {
		n := int(int32(be.Uint32(raw[8:]))) + 12
		if n < header || n > len(raw) {
			break
		}
		next, epoch = int64(be.Uint64(raw))+int64(int32(be.Uint32(raw[23:])))+1, int32(be.Uint32(raw[12:]))
		plain = plain || be.Uint16(raw[21:])&7 == 0
		raw = raw[n:]
	}
	return next, epoch, plain
}

// failing reports a problem of a partition that may last: to the readers, and, when it lasts, to the log and whoever listens.
func (c *Consumer) failing(p *partition, offset int64, err error) {
	failure := &PartitionError{Topic: p.topic, Partition: p.id, Offset: offset, Err: err}
	p.claim.problem(p.id, offset, err)
	e := p.event(PartitionFailed, fmt.Sprintf("%s/%d cannot be read at offset %d: %v", p.topic, p.id, offset, err))
	e.Offset, e.Err = offset, failure
	c.lasting(p.failure(), c.options.RetryBackoffMax, e)
}

// leaderless reports a partition that has no leader, as far as the cluster says; to nobody's reader: it may pass. Called with f.mu
// held.
func (c *Consumer) leaderless(p *partition) {
	p.mu.Lock()
	at := p.next
	p.mu.Unlock()
	e := p.event(PartitionFailed, fmt.Sprintf("%s/%d has no leader", p.topic, p.id))
	e.Offset, e.Err = at, &PartitionError{Topic: p.topic, Partition: p.id, Offset: at, Err: errNoLeader}
	c.lasting(p.failure(), c.options.RetryBackoffMax, e)
}

var errNoLeader = errors.New("it has no leader")

// failure is the key of the problem that a partition has.
func (p *partition) failure() string { return fmt.Sprintf("partition %s/%d", p.topic, p.id) }

// trouble is an event about this consumer: a try that began then has failed.
func (c *Consumer) trouble(began time.Time, what string, err error) Event {
	return Event{Time: began, Kind: Trouble, Client: c.m.clientID, Err: fmt.Errorf("marshal: %s: %w", what, err), Text: what + ": " + err.Error()}
}
