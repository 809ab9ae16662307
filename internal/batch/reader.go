package batch

import (
	"encoding/binary"
	"fmt"
	"math"

	"github.com/IBM/sarama"
)

// Reader reads the records of one partition of a fetch answer. Zero value: Reset it first. It is meant to be kept and
// Reset for the next answer: decompression buffers are sized from the last batch. Not safe for concurrent use.
type Reader struct {
	o     Options
	raw   []byte // behind the current batch
	next  int64
	epoch int32
	err   *Error
	txns  transactions

	header
	current Cursor // of the current batch
	size    int

	unpack decompressor
}

// Reset begins with raw, the RecordBatches bytes of the answer. Keys and values point into raw, or into a buffer made for
// the batch.
func (r *Reader) Reset(raw []byte, o Options) {
	if o.MaxBatchBytes <= 0 {
		o.MaxBatchBytes = DefaultMaxBatchBytes
	}
	*r = Reader{o: o, raw: raw, next: max(o.From, 0), epoch: -1, header: header{last: -1}, txns: r.txns, unpack: r.unpack}
	r.txns.reset(o.Aborted)
}

// NextBatch moves to the next batch that has records to give, and tells how many are left in it at most. What was not
// read of the batch before is passed over. After an error there is none, until Skip.
func (r *Reader) NextBatch() (n int, ok bool) {
	if r.err != nil {
		return 0, false
	}
	r.leave()
	for {
		b, rest, err := cut(r.raw)
		if err != nil {
			base := int64(binary.BigEndian.Uint64(r.raw))
			r.header, r.raw = header{base: base, last: base, epoch: -1}, nil // where the next one begins is not known
			r.distrust()
			return 0, r.fail(err)
		}
		r.raw = rest
		if len(b) == 0 {
			return 0, false
		}
		if err := r.header.parse(b); err != nil {
			r.distrust()
			return 0, r.fail(err)
		}
		r.epoch = r.header.epoch
		if r.passes(b) {
			r.leave()
			continue
		}
		if err := r.open(b); err != nil {
			return 0, r.fail(err)
		}
		return r.current.Left(), true
	}
}

// passes tells whether a valid batch has no records for us.
func (r *Reader) passes(b []byte) bool {
	r.txns.reach(r.last)
	switch {
	case r.attrs&attrControl != 0:
		if r.isAbort(b) {
			r.txns.end(r.producer)
		}
		return true
	case r.count == 0, r.last < r.next:
		return true
	case r.attrs&attrTransactional != 0 && r.o.ReadCommitted:
		return r.txns.aborted(r.producer)
	}
	return false
}

// open makes b's records ready to be read.
func (r *Reader) open(b []byte) error {
	records := b[headerSize:]
	r.size = len(b)
	if codec := codec(r.attrs & attrCodec); codec != uncompressed {
		var err error
		if records, err = r.unpack.all(codec, records, r.o.MaxBatchBytes); err != nil {
			return fmt.Errorf("%v: %w", codec, err)
		}
		r.size = cap(records)
	}
	if r.count > len(records)/minRecord {
		return fmt.Errorf("%d records in %d bytes: %w", r.count, len(records), ErrMalformed)
	}
	r.current = Cursor{
		topic: r.o.Topic, partition: r.o.Partition, appendTime: r.LogAppendTime(), base: r.base, last: r.last, firstTime: r.firstTime,
		maxTime: r.maxTime, count: r.count, next: r.next, records: records, left: r.count, delta: -1,
	}
	return nil
}

// Record reads the next record of the batch into m (which must be zeroed); false: the batch is at its end or Err is set.
func (r *Reader) Record(m *sarama.ConsumerMessage) bool {
	if r.current.Record(m) {
		r.next = r.current.next
		return true
	}
	if r.current.err != nil {
		r.stop(r.current.err)
	} else if r.err == nil {
		r.leave()
	}
	return false
}

// Detach gives the rest of the current batch to be read later. For the Reader all of it is read.
func (r *Reader) Detach() Cursor {
	c := r.current
	r.leave()
	return c
}

// Check tells whether all that is left of the current batch can be read, without reading it; else Err is set.
func (r *Reader) Check() bool {
	c := r.current
	for m := (sarama.ConsumerMessage{}); c.Record(&m); m = (sarama.ConsumerMessage{}) {
	}
	if c.err != nil {
		r.stop(c.err)
	}
	return c.err == nil
}

// leave ends the current batch, if there is one: all of it counts as read.
func (r *Reader) leave() {
	r.next = max(r.next, r.last+1)
	r.current, r.size = Cursor{}, 0
}

// fail notes why reading stops. It gives false.
func (r *Reader) fail(err error) bool {
	r.stop(&Error{Offset: r.base, Next: max(r.next, r.last+1), Err: err})
	return false
}

// stop ends reading, until Skip.
func (r *Reader) stop(err *Error) { r.err, r.current, r.size = err, Cursor{}, 0 }

// distrust finds out where a batch ends whose header may be wrong: where the next one begins, if that is believable; else
// where it says itself, but at least one offset on, so that who goes on behind it gets on.
func (r *Reader) distrust() {
	if len(r.raw) >= lengthEnd {
		following := int64(binary.BigEndian.Uint64(r.raw))
		if n := following - r.base; r.base >= 0 && 0 < n && n <= math.MaxInt32 {
			r.last = following - 1
			return
		}
	}
	r.last = min(max(r.last, r.next), math.MaxInt64-1)
}

// Skip goes on behind the bad batch that Err tells of: Err becomes nil, Next its Next, and NextBatch works again.
func (r *Reader) Skip() {
	if r.err == nil {
		return
	}
	r.next, r.err = r.err.Next, nil
	r.epoch = max(r.epoch, r.header.epoch)
}

// Next is the offset after everything read so far, holes and control records included. It never moves back.
func (r *Reader) Next() int64 { return r.next }

// LastEpoch is the leader epoch of the newest batch read (-1: none).
func (r *Reader) LastEpoch() int32 { return r.epoch }

// Size is the size in bytes of what the current batch keeps alive (decompressed); 0 between batches. A batch that is not
// compressed keeps the whole answer alive, of which Size counts its own part.
func (r *Reader) Size() int { return r.size }

// LogAppendTime tells whether the current batch carries the broker's time.
func (r *Reader) LogAppendTime() bool { return r.attrs&attrLogAppendTime != 0 }

// Err is why reading stopped, an *Error; nil at the clean end.
func (r *Reader) Err() error {
	if r.err == nil {
		return nil
	}
	return r.err
}
