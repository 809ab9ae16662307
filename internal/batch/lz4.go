package batch

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/pierrec/lz4/v4"
)

// The frame format of LZ4: magic, two bytes of flags, perhaps the size of the content, a checksum; blocks behind their sizes;
// a size of 0, perhaps a checksum.
const (
	lz4Magic     = 0x184d2204
	lz4Skippable = 0x184d2a50 // and the 15 above it: a frame that is not for us
	lz4Header    = 7          // without the size of the content
	lz4Stored    = 1 << 31    // in a block's size: it is not compressed
	lz4History   = 64 << 10   // how far back a block that is not independent may point
	lz4Most      = 255        // by how much a block can become more
	lz4Least     = 512        // bytes of a buffer that was guessed too small

	lz4HasDict     = 1 << 0
	lz4HasSum      = 1 << 2
	lz4HasSize     = 1 << 3
	lz4BlockSums   = 1 << 4
	lz4Independent = 1 << 5
)

// lz4Blocks are the most bytes that a block has when decompressed, as the flags number them.
var lz4Blocks = [8]int{4: 64 << 10, 5: 256 << 10, 6: 1 << 20, 7: 4 << 20}

// lz4Frame is a frame, read up to rest.
type lz4Frame struct {
	flags byte
	block int   // most bytes of a block when decompressed; 0: the frame is skipped
	size  int64 // of the content, where flags say that it is known
	rest  []byte
}

// unlz4 decodes each block to where it belongs in the result, without the buffers that a stream needs between. The checksums of
// frames are passed over: the batch's own has covered every byte.
func (d *decompressor) unlz4(src []byte, limit int) (out []byte, err error) {
	for first := true; first || len(src) > 0; first = false {
		f, err := openLZ4(src)
		if err != nil {
			return nil, err
		}
		if f.block > 0 {
			if out == nil {
				out, err = f.room(d.guess(lz4Codec, src, limit), limit)
			}
			if err == nil {
				out, err = f.decode(out, limit)
			}
			if err != nil {
				return nil, err
			}
		}
		src = f.rest
	}
	return out, nil
}

// openLZ4 reads the header of a frame.
func openLZ4(src []byte) (f lz4Frame, err error) {
	le := binary.LittleEndian
	if len(src) < lz4Header {
		return f, io.ErrUnexpectedEOF
	}
	magic := le.Uint32(src)
	if magic&^15 == lz4Skippable {
		const header = 8
		if len(src) < header || int64(le.Uint32(src[4:])) > int64(len(src)-header) {
			return f, io.ErrUnexpectedEOF
		}
		f.rest = src[header+int(le.Uint32(src[4:])):]
		return f, nil
	}
	f = lz4Frame{flags: src[4], block: lz4Blocks[src[5]>>4&7]}
	switch {
	case magic != lz4Magic:
		return f, fmt.Errorf("magic %#x of a frame", magic)
	case f.flags>>6 != 1 || f.block == 0:
		return f, fmt.Errorf("flags %#x of a frame", src[4:6])
	case f.flags&lz4HasDict != 0:
		return f, errors.New("a frame with a dictionary")
	case f.flags&lz4HasSize == 0:
		f.rest = src[lz4Header:]
		return f, nil
	case len(src) < lz4Header+8:
		return f, io.ErrUnexpectedEOF
	}
	f.size = int64(le.Uint64(src[6:]))
	f.rest = src[lz4Header+8:]
	return f, nil
}

// room makes the buffer for a frame: of the size that it tells, if that can be, or else as guessed.
func (f *lz4Frame) room(guess, limit int) ([]byte, error) {
	if f.flags&lz4HasSize != 0 {
		if f.size < 0 || f.size > int64(len(f.rest))*lz4Most {
			return nil, fmt.Errorf("%d bytes claim to be %d", len(f.rest), uint64(f.size))
		}
		if f.size > int64(limit) {
			return nil, ErrTooLarge
		}
		guess = int(f.size)
	}
	return Buffer(guess)[:0], nil
}

// decode appends the content of the frame to out, which never gets more than limit bytes.
func (f *lz4Frame) decode(out []byte, limit int) ([]byte, error) {
	begin := len(out)
	for {
		b, more, err := f.next()
		if err != nil || !more {
			return out, err
		}
		for {
			n, err := b.decode(out[len(out):min(cap(out), len(out)+f.block)], f.history(out[begin:]))
			if err == nil {
				out = out[:len(out)+n]
				break
			}
			// Too little room and nonsense look the same.
			most := min(f.block, min(len(b.data), f.block)*lz4Most)
			if cap(out)-len(out) >= most {
				return nil, err
			}
			if cap(out) == limit {
				if _, err = b.decode(make([]byte, most), f.history(out[begin:])); err == nil {
					err = ErrTooLarge
				}
				return nil, err
			}
			out = append(make([]byte, 0, min(limit, max(2*cap(out), lz4Least))), out...)
		}
	}
}

// next cuts the next block off; more is false at the end of the frame.
func (f *lz4Frame) next() (b lz4Block, more bool, err error) {
	size, err := f.word()
	if err != nil {
		return b, false, err
	}
	if size == 0 {
		if f.flags&lz4HasSum != 0 {
			_, err = f.word()
		}
		return b, false, err
	}
	b.stored = size&lz4Stored != 0
	size &^= lz4Stored
	if int64(size) > int64(len(f.rest)) {
		return b, false, io.ErrUnexpectedEOF
	}
	b.data, f.rest = f.rest[:size], f.rest[size:]
	if f.flags&lz4BlockSums != 0 {
		_, err = f.word()
	}
	return b, true, err
}

func (f *lz4Frame) word() (uint32, error) {
	if len(f.rest) < 4 {
		return 0, io.ErrUnexpectedEOF
	}
	w := binary.LittleEndian.Uint32(f.rest)
	f.rest = f.rest[4:]
	return w, nil
}

// history is what the next block may point to, behind done.
func (f *lz4Frame) history(done []byte) []byte {
	if f.flags&lz4Independent != 0 {
		return nil
	}
	return done[max(0, len(done)-lz4History):]
}

type lz4Block struct {
	data   []byte
	stored bool
}

// decode writes what the block holds to dst, and gives how much that is.
func (b lz4Block) decode(dst, history []byte) (int, error) {
	if !b.stored {
		return lz4.UncompressBlockWithDict(b.data, dst, history)
	}
	if len(b.data) > len(dst) {
		return 0, lz4.ErrInvalidSourceShortBuffer
	}
	return copy(dst, b.data), nil
}
