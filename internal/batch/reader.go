package batch

import (
	"encoding/binary"
	"fmt"
	"math"
	"time"

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

	// The current batch.
	header
	records []byte
	at      int   // where the next one begins
	left    int   // how many are to come
	delta   int64 // of the last record read; records rise
	size    int
	slab    headerSlab

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
		return int(min(int64(r.left), r.last-max(r.base, r.next)+1)), true
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
	r.records, r.size = b[headerSize:], len(b)
	if codec := codec(r.attrs & attrCodec); codec != uncompressed {
		var err error
		if r.records, err = r.unpack.all(codec, r.records, r.o.MaxBatchBytes); err != nil {
			return fmt.Errorf("%v: %w", codec, err)
		}
		r.size = cap(r.records)
	}
	if r.count > len(r.records)/minRecord {
		return fmt.Errorf("%d records in %d bytes: %w", r.count, len(r.records), ErrMalformed)
	}
	r.at, r.left, r.delta = 0, r.count, -1
	return nil
}

// Record reads the next record of the batch into m (which must be zeroed); false: the batch is at its end or Err is set.
func (r *Reader) Record(m *sarama.ConsumerMessage) bool {
	for r.left > 0 {
		begin, end, ok := cutRecord(r.records, r.at)
		if !ok {
			return r.malformed("length")
		}
		rec := r.records[:end:end]
		timeDelta, delta, at, ok := recordHead(rec, begin)
		if !ok || delta <= r.delta || delta > r.last-r.base {
			return r.malformed("offset")
		}
		r.left--
		if r.left == 0 && end < len(r.records) {
			return r.malformed("end")
		}
		r.at, r.delta = end, delta
		offset := r.base + delta
		if offset < r.next {
			continue
		}
		if m.Key, at, ok = blob(rec, at); !ok {
			return r.malformed("key")
		}
		if m.Value, at, ok = blob(rec, at); !ok {
			return r.malformed("value")
		}
		if at != end-1 || rec[at] != 0 {
			if m.Headers, ok = r.slab.read(rec, at, r.left+1); !ok {
				return r.malformed("headers")
			}
		}
		m.Topic, m.Partition, m.Offset = r.o.Topic, r.o.Partition, offset
		m.Timestamp = r.time(timeDelta)
		r.next = offset + 1
		if r.left == 0 {
			r.next = r.last + 1
		}
		return true
	}
	if r.err == nil {
		r.leave()
	}
	return false
}

// time is a record's timestamp; the zero time where there is none, as sarama has it.
func (r *Reader) time(delta int64) time.Time {
	ms := r.firstTime + delta
	if r.attrs&attrLogAppendTime != 0 {
		ms = r.maxTime
	}
	if ms < 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// leave ends the current batch, if there is one: all of it counts as read.
func (r *Reader) leave() {
	r.next = max(r.next, r.last+1)
	r.records, r.left, r.size, r.slab = nil, 0, 0, headerSlab{}
}

func (r *Reader) malformed(what string) bool {
	return r.fail(fmt.Errorf("%s of record %d of %d: %w", what, r.count-r.left, r.count, ErrMalformed))
}

// fail notes why reading stops. It gives false.
func (r *Reader) fail(err error) bool {
	r.err = &Error{Offset: r.base, Next: max(r.next, r.last+1), Err: err}
	r.records, r.left, r.size, r.slab = nil, 0, 0, headerSlab{}
	return false
}

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
