package marshal

import (
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/wire"
)

func init() {
	wire.Append = appendRecord
	wire.NewDecoder = func() func([]byte, *lease.Record) { return new(decoder).decode }
}
