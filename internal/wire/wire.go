// Package wire lends the record format of the coordination topic to the commands of this module. The format lives in the root
// package, beside the only code that writes and reads it in earnest, and is no part of the public API; a command that
// measures what goes over the wire imports the root package, which fills this in, and needs no Kafka.
package wire

import "github.com/kafka-marshal/marshal/internal/lease"

// Append appends the value of a message that carries rec.
var Append func(b []byte, rec *lease.Record) []byte

// NewDecoder makes a decoder of values. It fills its record as the one of a process does: without allocating, nothing
// in it points into the value, and its slices are used again. It is not safe for concurrent use.
var NewDecoder func() func(value []byte, rec *lease.Record)
