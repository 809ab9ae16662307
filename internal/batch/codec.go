package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// codec is how a batch is compressed, as its attributes number it.
type codec uint8

const (
	uncompressed codec = iota
	gzipCodec
	snappyCodec
	lz4Codec
	zstdCodec
	codecs
)

func (c codec) String() string {
	if c >= codecs {
		return fmt.Sprintf("codec %d", uint8(c))
	}
	return [codecs]string{"uncompressed", "gzip", "snappy", "lz4", "zstd"}[c]
}

// By how much the formats can make bytes more, at most. A claimed size that is beyond it is a lie, and nothing is
// allocated for it.
const (
	gzipMost   = 1032          // deflate: 258 bytes from two bits
	snappyMost = 22            // 64 bytes from three
	zstdMost   = zstdBlock / 4 // a block from four bytes
	zstdBlock  = 128 << 10     // the most that is in one
)

// decompressor keeps what decompressing needs from one batch to the next. Results are always new memory, since messages
// point into them.
type decompressor struct {
	gzip  *inflater
	zstd  *zstd.Decoder
	ratio [codecs]float64 // of the last batch: decompressed by compressed size
}

const (
	firstRatio = 4  // what a codec is taken for whose first batch this is
	mostRatio  = 64 // the most that is guessed, so that a bomb is no model for what comes after it
)

// all decompresses src; never to more than limit bytes.
func (d *decompressor) all(c codec, src []byte, limit int) ([]byte, error) {
	var out []byte
	var err error
	switch c {
	case gzipCodec:
		out, err = d.gunzip(src, limit)
	case snappyCodec:
		out, err = unsnappy(src, limit)
	case lz4Codec:
		out, err = d.unlz4(src, limit)
	case zstdCodec:
		out, err = d.unzstd(src, limit)
	default:
		return nil, ErrCodec
	}
	switch {
	case errors.Is(err, ErrTooLarge):
		return nil, fmt.Errorf("%w (%d bytes)", err, limit)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrMalformed, err)
	}
	d.ratio[c] = min(float64(len(out))/float64(max(len(src), 1)), mostRatio)
	if cap(out) > 2*len(out)+1024 { // a wrong guess should not live as long as the messages do
		out = bytes.Clone(out)
	}
	return out, nil
}

// guess is the size of the buffer for src when nothing tells it: what the last batch of the codec would have needed, and
// an eighth.
func (d *decompressor) guess(c codec, src []byte, limit int) int {
	ratio := d.ratio[c]
	if ratio == 0 {
		ratio = firstRatio
	}
	return int(min(float64(limit), ratio*1.125*float64(len(src))+64))
}

// unzstd leaves the growing of the buffer to us: the decoder never goes beyond its capacity, so a bomb costs no more than
// the limit. A frame that tells its size, as most encoders write it, is decoded at once into just that. Its checksum is passed over:
// that of the batch has covered every byte.
func (d *decompressor) unzstd(src []byte, limit int) (_ []byte, err error) {
	if d.zstd == nil {
		d.zstd, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecodeAllCapLimit(true), zstd.IgnoreChecksum(true))
		if err != nil {
			return nil, err
		}
	}
	size := d.guess(zstdCodec, src, limit)
	var h zstd.Header
	if err := h.Decode(src); err != nil {
		return nil, err
	}
	if h.HasFCS {
		if h.FrameContentSize > uint64(len(src))*zstdMost {
			return nil, fmt.Errorf("%d bytes claim to be %d", len(src), h.FrameContentSize)
		}
		if h.FrameContentSize > uint64(limit) {
			return nil, ErrTooLarge
		}
		const slack = 16 // with which the decoder can copy without looking
		size = min(int(h.FrameContentSize)+slack, limit)
	}
	for {
		out, err := d.zstd.DecodeAll(src, Buffer(size)[:0])
		if err == nil {
			return out, nil
		}
		// A block that finds too little room has no error of its own.
		full := out != nil && !h.HasFCS && cap(out)-len(out) < zstdBlock
		if !full && !errors.Is(err, zstd.ErrDecoderSizeExceeded) {
			return nil, err
		}
		if size == limit {
			return nil, ErrTooLarge
		}
		size = min(2*size, limit)
	}
}

var xerialMagic = []byte{0x82, 'S', 'N', 'A', 'P', 'P', 'Y', 0}

// xerialHeader is the magic and two versions.
const xerialHeader = 16

// unsnappy takes what Java writes (blocks, each behind its length, after a header) and what librdkafka and others write
// (one block).
func unsnappy(src []byte, limit int) ([]byte, error) {
	if !bytes.HasPrefix(src, xerialMagic) || len(src) < xerialHeader {
		n, err := snappyLen(src)
		if err != nil {
			return nil, err
		}
		if n > limit {
			return nil, ErrTooLarge
		}
		return s2.Decode(Buffer(n)[:0], src)
	}
	total := 0
	for rest := src[xerialHeader:]; len(rest) > 0; {
		block, after, err := xerialBlock(rest)
		if err != nil {
			return nil, err
		}
		n, err := snappyLen(block)
		if err != nil {
			return nil, err
		}
		if n > limit-total {
			return nil, ErrTooLarge
		}
		total, rest = total+n, after
	}
	out := Buffer(total)[:0]
	for rest := src[xerialHeader:]; len(rest) > 0; {
		block, after, _ := xerialBlock(rest)
		part, err := s2.Decode(out[len(out):], block)
		if err != nil {
			return nil, err
		}
		out, rest = out[:len(out)+len(part)], after
	}
	return out, nil
}

func xerialBlock(b []byte) (block, rest []byte, err error) {
	if len(b) < 4 || int64(binary.BigEndian.Uint32(b)) > int64(len(b)-4) {
		return nil, nil, io.ErrUnexpectedEOF
	}
	n := 4 + int(binary.BigEndian.Uint32(b))
	return b[4:n], b[n:], nil
}

// snappyLen is the size that a block claims for its content, if that can be.
func snappyLen(block []byte) (int, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return 0, err
	}
	if n > len(block)*snappyMost {
		return 0, fmt.Errorf("%d bytes claim to be %d", len(block), n)
	}
	return n, nil
}
