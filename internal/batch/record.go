package batch

import (
	"encoding/binary"

	"github.com/IBM/sarama"
)

// minRecord is the least that a record takes: length, attributes, two deltas, key, value and number of headers.
const minRecord = 7

// cutRecord finds the record whose length stands at b[at:]: it is b[begin:end].
func cutRecord(b []byte, at int) (begin, end int, ok bool) {
	n, at := varint(b, at)
	if at == 0 || n < minRecord-1 || n > int64(len(b)-at) {
		return 0, 0, false
	}
	return at, at + int(n), true
}

// recordHead reads what comes before a record's key, from at on. The first byte holds attributes, of which there are none.
func recordHead(rec []byte, at int) (timeDelta, offsetDelta int64, end int, ok bool) {
	if timeDelta, at = varint(rec, at+1); at == 0 {
		return 0, 0, 0, false
	}
	offsetDelta, at = varint(rec, at)
	return timeDelta, offsetDelta, at, at > 0
}

// blob reads the key or value at b[at:], and gives where it ends: nil where it is null, empty but not nil where it is empty.
func blob(b []byte, at int) (v []byte, end int, ok bool) {
	n, at := varint(b, at)
	if at == 0 || n < -1 || n > int64(len(b)-at) {
		return nil, 0, false
	}
	if n == -1 {
		return nil, at, true
	}
	end = at + int(n)
	return b[at:end:end], end, true
}

// headerSlab gives out the headers of records from larger pieces, so that a batch whose records all have some costs few
// allocations.
type headerSlab struct {
	headers  []sarama.RecordHeader
	pointers []*sarama.RecordHeader
}

// slabHeaders is how many headers one piece has, unless a single record has more.
const slabHeaders = 256

// read reads a record's headers, which are at b[at:], and with which it must end. left is how many records there are that
// may want some.
func (s *headerSlab) read(b []byte, at, left int) ([]*sarama.RecordHeader, bool) {
	count, at := varint(b, at)
	if at == 0 || count < 0 || count > int64((len(b)-at)/2) {
		return nil, false
	}
	if count == 0 {
		return nil, at == len(b)
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
		if hs[i].Key, at, ok = blob(b, at); !ok {
			return nil, false
		}
		if hs[i].Value, at, ok = blob(b, at); !ok {
			return nil, false
		}
		ps[i] = &hs[i]
	}
	return ps, at == len(b)
}

// varint reads the number at b[at:], as binary.Varint does, and gives where it ends; 0: there is none. Numbers of one and two
// bytes come first: they are all lengths up to 8,191.
func varint(b []byte, at int) (v int64, end int) {
	if at < len(b)-1 {
		u := uint64(b[at])
		if u < 0x80 {
			return int64(u>>1) ^ -int64(u&1), at + 1
		}
		if next := uint64(b[at+1]); next < 0x80 {
			u = u&0x7f | next<<7
			return int64(u>>1) ^ -int64(u&1), at + 2
		}
	}
	v, w := binary.Varint(b[min(at, len(b)):])
	if w <= 0 {
		return 0, 0
	}
	return v, at + w
}
