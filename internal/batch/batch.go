// Package batch reads Kafka record batches (format v2) into messages, one pass, without an allocation per record.
package batch

import (
	"github.com/IBM/sarama"
)

// Aborted names a transaction that was aborted, from a fetch answer.
type Aborted struct{ ProducerID, FirstOffset int64 }

// Options of a Reader.
type Options struct {
	Topic         string
	Partition     int32
	From          int64 // records below it are left out
	ReadCommitted bool
	Aborted       []Aborted
	MaxBatchBytes int // largest decompressed batch
}

// Error is a batch that cannot be read, at an offset that says where to go on.
type Error struct {
	Offset int64 // base offset of the batch
	Next   int64 // the offset after it
	Err    error
}

func (e *Error) Error() string { panic("todo") }
func (e *Error) Unwrap() error { return e.Err }

// Reader reads the records of one partition of a fetch answer. Zero value: Reset it first. It is meant to be kept and
// Reset for the next answer: decompression buffers are sized from the last batch.
type Reader struct{}

// Reset begins with raw, the RecordBatches bytes of the answer. Keys and values point into raw, or into a buffer made for
// the batch.
func (r *Reader) Reset(raw []byte, o Options) { panic("todo") }

// NextBatch moves to the next batch that has records to give, and tells how many are left in it at most.
func (r *Reader) NextBatch() (n int, ok bool) { panic("todo") }

// Record reads the next record of the batch into m (which must be zeroed); false: the batch is at its end or Err is set.
func (r *Reader) Record(m *sarama.ConsumerMessage) bool { panic("todo") }

// Next is the offset after everything read so far, holes and control records included.
func (r *Reader) Next() int64 { panic("todo") }

// LastEpoch is the leader epoch of the newest batch read (-1: none).
func (r *Reader) LastEpoch() int32 { panic("todo") }

// Size is the size in bytes of what the current batch keeps alive (decompressed).
func (r *Reader) Size() int { panic("todo") }

// LogAppendTime tells whether the current batch carries the broker's time.
func (r *Reader) LogAppendTime() bool { panic("todo") }

// Err is why reading stopped, an *Error; nil at the clean end.
func (r *Reader) Err() error { panic("todo") }
