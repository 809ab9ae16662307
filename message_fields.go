package marshal

import (
	"math"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// fields goes through the fields of a message. Whatever is wrong with one makes it bad, and a bad one has no next.
type fields struct {
	rest []byte
	bad  bool

	tag  uint64
	v    uint64 // the content of a varint or fixed64
	data []byte // that of a length-delimited field
}

// next takes the next field. One of a wire type that record.proto does not use comes without content: no case of a
// switch over tags names it.
func (f *fields) next() bool {
	if len(f.rest) == 0 || f.bad {
		return false
	}
	b, n := f.rest, 1
	if f.tag = uint64(b[0]); f.tag >= 0x80 {
		f.tag, n = protowire.ConsumeVarint(b)
	}
	if n < 0 || f.tag>>3 == 0 || f.tag > math.MaxUint32 {
		return f.fail()
	}
	b = b[n:]
	switch f.tag & 7 {
	case asVarint:
		f.v, n = readVarint(b)
	case asBytes:
		var size uint64
		if size, n = readVarint(b); n < 0 || size > uint64(len(b)-n) {
			return f.fail()
		}
		f.data = b[n : n+int(size)]
		n += int(size)
	case asFixed64:
		f.v, n = protowire.ConsumeFixed64(b)
	default:
		n = protowire.ConsumeFieldValue(protowire.Number(f.tag>>3), protowire.Type(f.tag&7), b)
	}
	if n < 0 {
		return f.fail()
	}
	f.rest = b[n:]
	return true
}

func (f *fields) fail() bool {
	f.bad = true
	return false
}

// must makes the message bad if something does not hold.
func (f *fields) must(ok bool) {
	if !ok {
		f.bad = true
	}
}

// readVarint is protowire.ConsumeVarint with the common case in line.
func readVarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return protowire.ConsumeVarint(b)
}

// readNatural reads a number >= 0 that T can hold.
func readNatural[T int32 | int64](f *fields, to *T) {
	*to = T(f.v)
	f.must(*to >= 0 && uint64(*to) == f.v)
}

// readPacked appends the numbers of a packed array, each of which must be >= 0 and one that T can hold.
func readPacked[T int32 | int64](f *fields, to []T) []T {
	for b := f.data; len(b) > 0; {
		v, n := readVarint(b)
		x := T(v)
		if n < 0 || x < 0 || uint64(x) != v {
			f.bad = true
			return to
		}
		to, b = append(to, x), b[n:]
	}
	return to
}

// unpacked tells whether tag is the one that an array of numbers has when it is not packed. Protobuf would read both;
// nobody writes it, and an array that is half skipped would be worse than a record that is not taken.
func unpacked(tag uint64, packed ...uint64) bool {
	for _, p := range packed {
		if tag == p&^7|asVarint {
			return true
		}
	}
	return false
}

func readPartition(f *fields, to *int32) {
	p := protowire.DecodeZigZag(f.v)
	*to = int32(p)
	f.must(p >= int64(lease.WholeTopic) && p <= math.MaxInt32)
}

func readDuration(f *fields, to *time.Duration) {
	*to = time.Duration(f.v)
	f.must(*to >= 0)
}

func readTokenBase(f *fields, to *int64) {
	*to = int64(f.v)
	f.must(f.v < uint64(lease.MaxTokenBase))
}

func readString(f *fields) string {
	f.must(utf8.Valid(f.data))
	return string(f.data)
}

func readID[T lease.InstanceID | lease.TopicID](f *fields, to *T) {
	switch len(f.data) {
	case 0:
		*to = T{}
	case 16:
		*to = T(f.data)
	default:
		f.bad = true
	}
}
