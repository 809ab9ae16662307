package batch

import (
	"encoding/binary"

	"github.com/IBM/sarama"
)

// minRecord is the least that a record takes: length, attributes, two deltas, key, value and number of headers.
const minRecord = 7

// cutRecord gives the first record of recs, behind its length, and what follows.
func cutRecord(recs []byte) (rec, rest []byte, ok bool) {
	n, w := varint(recs)
	if w <= 0 || n < minRecord-1 || n > int64(len(recs)-w) {
		return nil, nil, false
	}
	end := w + int(n)
	return recs[w:end:end], recs[end:], true
}

// recordHead reads what comes before a record's key. The first byte holds attributes, of which there are none.
func recordHead(rec []byte) (timeDelta, offsetDelta int64, rest []byte, ok bool) {
	rec = rec[1:]
	timeDelta, w := varint(rec)
	if w <= 0 {
		return 0, 0, nil, false
	}
	rec = rec[w:]
	offsetDelta, w = varint(rec)
	if w <= 0 {
		return 0, 0, nil, false
	}
	return timeDelta, offsetDelta, rec[w:], true
}

// blob reads a key or a value: nil where it is null, empty but not nil where it is empty.
func blob(b []byte) (v, rest []byte, ok bool) {
	n, w := varint(b)
	if w <= 0 || n < -1 || n > int64(len(b)-w) {
		return nil, nil, false
	}
	if n == -1 {
		return nil, b[w:], true
	}
	end := w + int(n)
	return b[w:end:end], b[end:], true
}

// headerSlab gives out the headers of records from larger pieces, so that a batch whose records all have some costs few
// allocations.
type headerSlab struct {
	headers  []sarama.RecordHeader
	pointers []*sarama.RecordHeader
}

// slabHeaders is how many headers one piece has, unless a single record has more.
const slabHeaders = 256

// read reads a record's headers, with which it must end. left is how many records there are that may want some.
func (s *headerSlab) read(b []byte, left int) ([]*sarama.RecordHeader, bool) {
	count, w := varint(b)
	if b = b[max(w, 0):]; w <= 0 || count < 0 || count > int64(len(b)/2) {
		return nil, false
	}
	if count == 0 {
		return nil, len(b) == 0
	}
	n := int(count)
	if n > len(s.headers) {
		piece := n * min(left, max(1, slabHeaders/n))
		s.headers, s.pointers = make([]sarama.RecordHeader, piece), make([]*sarama.RecordHeader, piece)
	}
	hs, ps := s.headers[:n], s.pointers[:n:n]
	s.headers, s.pointers = s.headers[n:], s.pointers[n:]
	for i := range hs {
		var ok bool
		if hs[i].Key, b, ok = blob(b); !ok {
			return nil, false
		}
		if hs[i].Value, b, ok = blob(b); !ok {
			return nil, false
		}
		ps[i] = &hs[i]
	}
	return ps, len(b) == 0
}

// varint is binary.Varint with the common case in line.
func varint(b []byte) (int64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return int64(b[0]>>1) ^ -int64(b[0]&1), 1
	}
	return longVarint(b)
}

// longVarint has the next common case first: lengths from 64 to 8,191.
func longVarint(b []byte) (int64, int) {
	if len(b) > 1 && b[1] < 0x80 {
		u := uint64(b[0]&0x7f) | uint64(b[1])<<7
		return int64(u>>1) ^ -int64(u&1), 2
	}
	return binary.Varint(b)
}
