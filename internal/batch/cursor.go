package batch

import (
	"fmt"
	"time"

	"github.com/IBM/sarama"
)

// Cursor reads the records of one batch that a Reader has checked and decompressed. It needs the Reader no more: what it reads is
// decoded when it is asked for, so that a batch which waits costs its bytes alone. Not safe for concurrent use.
type Cursor struct {
	topic      string
	partition  int32
	appendTime bool  // the records have the broker's time, maxTime
	base, last int64 // offsets: what deltas count from, and of the last record, which compaction may have removed
	firstTime  int64 // ms
	maxTime    int64
	count      int

	next    int64 // records below it are left out
	records []byte
	at      int   // where the next one begins
	left    int   // how many are to come
	delta   int64 // of the last record read; records rise
	slab    headerSlab
	err     *Error
}

// Record reads the next record into m, which must be zeroed. False: there is none, or Err is set.
func (c *Cursor) Record(m *sarama.ConsumerMessage) bool {
	for c.left > 0 {
		begin, end, ok := cutRecord(c.records, c.at)
		if !ok {
			return c.malformed("length")
		}
		rec := c.records[:end:end]
		timeDelta, delta, at, ok := recordHead(rec, begin)
		if !ok || delta <= c.delta || delta > c.last-c.base {
			return c.malformed("offset")
		}
		c.left--
		if c.left == 0 && end < len(c.records) {
			return c.malformed("end")
		}
		c.at, c.delta = end, delta
		offset := c.base + delta
		if offset < c.next {
			continue
		}
		if m.Key, at, ok = blob(rec, at); !ok {
			return c.malformed("key")
		}
		if m.Value, at, ok = blob(rec, at); !ok {
			return c.malformed("value")
		}
		if at != end-1 || rec[at] != 0 {
			if m.Headers, ok = c.slab.read(rec, at, c.left+1); !ok {
				return c.malformed("headers")
			}
		}
		m.Topic, m.Partition, m.Offset = c.topic, c.partition, offset
		m.Timestamp = c.time(timeDelta)
		c.next = offset + 1
		if c.left == 0 {
			c.next = c.last + 1
		}
		return true
	}
	if c.err == nil {
		c.Pass(c.last + 1)
	}
	return false
}

// time is a record's timestamp; the zero time where there is none, as sarama has it.
func (c *Cursor) time(delta int64) time.Time {
	ms := c.firstTime + delta
	if c.appendTime {
		ms = c.maxTime
	}
	if ms < 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}

// Pass leaves out the records below next.
func (c *Cursor) Pass(next int64) {
	if c.next = max(c.next, next); c.next > c.last {
		c.records, c.left, c.slab = nil, 0, headerSlab{}
	}
}

// Left is how many records there still are at most: offsets may have holes.
func (c *Cursor) Left() int {
	return int(max(min(int64(c.left), c.last-max(c.base, c.next)+1), 0))
}

// Next is the offset behind what was read or left out, holes included; at the end behind the whole batch.
func (c *Cursor) Next() int64 { return c.next }

// Err is why the records end early, an *Error; nil at the clean end.
func (c *Cursor) Err() error {
	if c.err == nil {
		return nil
	}
	return c.err
}

func (c *Cursor) malformed(what string) bool {
	return c.fail(fmt.Errorf("%s of record %d of %d: %w", what, c.count-c.left, c.count, ErrMalformed))
}

// fail notes why the records end. It gives false.
func (c *Cursor) fail(err error) bool {
	c.err = &Error{Offset: c.base, Next: max(c.next, c.last+1), Err: err}
	c.records, c.left, c.slab = nil, 0, headerSlab{}
	return false
}
