// Package batch reads Kafka record batches (format v2) into messages: one pass, no allocation per record, and nothing
// believed that the bytes do not hold.
//
// One Reader serves one partition of one fetch answer at a time:
//
//	r.Reset(raw, options)
//	for {
//		n, ok := r.NextBatch()
//		if !ok {
//			break // at the end, or r.Err says why
//		}
//		slab := make([]sarama.ConsumerMessage, n)
//		for i := 0; i < n && r.Record(&slab[i]); i++ {
//		}
//	}
//
// Batches are left out that hold control records, or nothing at or above Options.From, or (read committed) records of
// an aborted transaction. Next counts what was left out as read.
package batch

import (
	"errors"
	"fmt"
)

// Aborted names a transaction that was aborted, from a fetch answer.
type Aborted struct{ ProducerID, FirstOffset int64 }

// DefaultMaxBatchBytes is the limit where Options name none.
const DefaultMaxBatchBytes = 64 << 20

// Options of a Reader.
type Options struct {
	Topic         string
	Partition     int32
	From          int64 // records below it are left out
	ReadCommitted bool
	Aborted       []Aborted // not changed, and not kept after the next Reset
	MaxBatchBytes int       // largest size to decompress a batch to; 0: DefaultMaxBatchBytes
}

// What can be wrong with a batch: the reasons that an *Error wraps.
var (
	ErrMagic     = errors.New("message format older than v2")
	ErrChecksum  = errors.New("checksum does not match")
	ErrMalformed = errors.New("malformed")
	ErrCodec     = errors.New("unknown compression codec")
	ErrTooLarge  = errors.New("larger than the limit when decompressed")
)

// Error is a batch that cannot be read, at an offset that says where to go on.
type Error struct {
	Offset int64 // base offset of the batch
	Next   int64 // the offset after it, as far as it can be known; above every offset that was read before
	Err    error
}

func (e *Error) Error() string {
	return fmt.Sprintf("record batch at offset %d: %v", e.Offset, e.Err)
}

// Unwrap gives the reason, which wraps one of the errors above.
func (e *Error) Unwrap() error { return e.Err }
