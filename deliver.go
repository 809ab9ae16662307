package marshal

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/kafka-marshal/marshal/internal/batch"
	"github.com/kafka-marshal/marshal/internal/kafka"
)

// deliver decodes one partition's part of an answer and queues it, or looks after what is wrong.
func (b *fetchBroker) deliver(decoder *batch.Reader, a *asked, part *kafka.FetchedPart) {
	c, p := b.f.c, a.p
	switch {
	case part.Diverging, errors.Is(part.Err, kafka.ErrOutOfRange):
		b.backOff(p)
		c.repair(p)
		return
	case part.Err != nil && kafka.LookAgain(part.Err):
		b.backOff(p)
		c.look()
		return
	case part.Err != nil:
		b.backOff(p)
		c.trouble(p, a.offset, part.Err)
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
	in := intake{p: p, fetches: a.fetches, from: a.offset, limit: 2 * b.shareOf()}
	for in.fits() {
		n, ok := decoder.NextBatch()
		if !ok {
			in.next = decoder.Next()
			break
		}
		size := decoder.Size()
		for n > 0 {
			messages := make([]Message, min(n, slabSize))
			i := 0
			for i < len(messages) && decoder.Record(&messages[i].ConsumerMessage) {
				messages[i].from = p
				i++
			}
			if i == 0 {
				break
			}
			in.add(messages[:i], size*i/n+i*nodeBytes)
			size -= size * i / n
			if i < len(messages) {
				break
			}
			n -= i
		}
		in.next = decoder.Next()
	}
	got := in.put(end, decoder.LastEpoch(), len(part.Records))
	b.fine(p, in.growth)
	if got {
		c.ready(p)
	}
	var bad *batch.Error
	if errors.As(decoder.Err(), &bad) {
		b.backOff(p)
		c.trouble(p, bad.Offset, bad)
	}
}

// intake collects what an answer brings for one partition.
type intake struct {
	p       *partition
	fetches int
	from    int64
	next    int64 // the offset behind what was taken
	limit   int   // bytes after which the rest of the answer is left: it is fetched again later
	slabs   []slab
	bytes   int
	growth  float64
}

// fits tells whether one more batch may be decoded: the first always, so that a large one passes alone.
func (in *intake) fits() bool { return in.bytes < in.limit }

func (in *intake) add(messages []Message, bytes int) {
	in.slabs = append(in.slabs, slab{messages: messages, bytes: bytes})
	in.bytes += bytes
}

// put queues what was collected, if it still is what comes next. It tells whether there is something to hand out.
func (in *intake) put(end int64, epoch int32, raw int) bool {
	p := in.p
	if raw > 0 {
		in.growth = float64(in.bytes) / float64(raw)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.over != nil || p.fetches != in.fetches || p.next != in.from {
		return false
	}
	p.logEnd = end
	p.queue = append(p.queue, in.slabs...)
	p.queued += in.bytes
	if in.next > p.next {
		p.next = in.next
	}
	if epoch >= 0 {
		p.lastEpoch = epoch
	}
	before := p.win.Position()
	p.settle()
	if p.win.Position() != before {
		p.moved.Store(true)
	}
	return len(p.queue) > 0
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

func (b *fetchBroker) fine(p *partition, growth float64) {
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	p.fetch.pause = 0
	if growth > 0 {
		p.fetch.growth = growth
	}
}

// lastBatch gives the offset behind the last complete batch of raw, and that batch's leader epoch; 0 where there is none.
func lastBatch(raw []byte) (next int64, epoch int32) {
	const header = 61 // base offset at 0, length at 8, leader epoch at 12, last offset delta at 23
	be := binary.BigEndian
	for len(raw) >= header {
		n := int(int32(be.Uint32(raw[8:]))) + 12
		if n < header || n > len(raw) {
			break
		}
		next, epoch = int64(be.Uint64(raw))+int64(int32(be.Uint32(raw[23:])))+1, int32(be.Uint32(raw[12:]))
		raw = raw[n:]
	}
	return next, epoch
}

// trouble reports a problem of a partition that may last: to the readers, and to the log.
func (c *Consumer) trouble(p *partition, offset int64, err error) {
	c.problem(p, offset, err)
	c.m.c.report.lasting(fmt.Sprintf("partition %s %s/%d", c.m.groupID, p.topic, p.id), p.claim.fields(),
		fmt.Sprintf("marshal: %s/%d cannot be read at offset %d: %v", p.topic, p.id, offset, err))
}
