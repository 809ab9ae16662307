package batch

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math"
)

// Where things lie in a batch, in bytes from its beginning.
const (
	atLength    = 8  // int32: bytes that follow it
	atEpoch     = 12 // int32: leader epoch, written by the broker, not in the checksum
	atMagic     = 16
	atChecksum  = 17 // CRC-32C of all that follows it
	atAttrs     = 21
	atLastDelta = 23
	atFirstTime = 27
	atMaxTime   = 35
	atProducer  = 43
	atCount     = 57
	headerSize  = 61

	lengthEnd = atLength + 4
	magicEnd  = atMagic + 1 // what must be there to know whose format it is
)

// Bits of the attributes.
const (
	attrCodec         = 0x07
	attrLogAppendTime = 0x08
	attrTransactional = 0x10
	attrControl       = 0x20
)

// header is what a batch says of itself.
type header struct {
	base      int64 // offset of the first record, and what deltas count from
	last      int64 // offset of the last, which compaction may have removed
	epoch     int32
	attrs     uint16
	firstTime int64 // ms
	maxTime   int64
	producer  int64
	count     int
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// cut gives the first batch of raw, whatever its format, and what follows. It gives an empty batch when raw ends before
// it does: an answer may break off anywhere.
func cut(raw []byte) (b, rest []byte, err error) {
	if len(raw) < magicEnd {
		return nil, nil, nil
	}
	n := int64(int32(binary.BigEndian.Uint32(raw[atLength:]))) + lengthEnd
	if n < magicEnd {
		return nil, nil, fmt.Errorf("length %d: %w", n-lengthEnd, ErrMalformed)
	}
	if n > int64(len(raw)) {
		return nil, nil, nil
	}
	return raw[:n:n], raw[n:], nil
}

// parse checks a batch and reads its header. The header is filled as far as it was readable even where err is set.
func (h *header) parse(b []byte) error {
	be := binary.BigEndian
	*h = header{base: int64(be.Uint64(b)), epoch: -1}
	h.last = h.base
	if b[atMagic] != 2 {
		return fmt.Errorf("magic %d: %w", b[atMagic], ErrMagic)
	}
	if len(b) < headerSize {
		return fmt.Errorf("%d bytes are no header: %w", len(b), ErrMalformed)
	}
	h.epoch = int32(be.Uint32(b[atEpoch:]))
	h.attrs = be.Uint16(b[atAttrs:])
	h.firstTime = int64(be.Uint64(b[atFirstTime:]))
	h.maxTime = int64(be.Uint64(b[atMaxTime:]))
	h.producer = int64(be.Uint64(b[atProducer:]))
	h.count = int(int32(be.Uint32(b[atCount:])))
	delta := int64(int32(be.Uint32(b[atLastDelta:])))
	valid := h.base >= 0 && delta >= 0 && h.base < math.MaxInt64-delta
	if valid {
		h.last = h.base + delta
	}
	if crc32.Checksum(b[atAttrs:], castagnoli) != be.Uint32(b[atChecksum:]) {
		return ErrChecksum
	}
	if !valid {
		return fmt.Errorf("last offset %d after base offset: %w", delta, ErrMalformed)
	}
	if h.count < 0 {
		return fmt.Errorf("%d records: %w", h.count, ErrMalformed)
	}
	return nil
}

// isAbort tells whether the control batch b ends its producer's transaction by abortion.
func (h *header) isAbort(b []byte) bool {
	at, end, ok := cutRecord(b, headerSize)
	if !ok || h.count == 0 || h.attrs&attrCodec != 0 {
		return false
	}
	rec := b[:end]
	_, _, at, ok = recordHead(rec, at)
	if !ok {
		return false
	}
	key, _, ok := blob(rec, at)
	const atType = 2 // after a version
	return ok && len(key) >= atType+2 && binary.BigEndian.Uint16(key[atType:]) == 0
}
