package batch

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
)

// The format of gzip (RFC 1952): members behind each other, each a header, deflate, and the checksum and size of the content.
const (
	gzipHeader  = 10
	gzipTrailer = 8

	gzipHasSum     = 1 << 1
	gzipHasExtra   = 1 << 2
	gzipHasName    = 1 << 3
	gzipHasComment = 1 << 4
)

var (
	errNoGzip  = errors.New("gzip: no header")
	errGzipSum = errors.New("gzip: the content is not what its checksum or size says")
)

// gunzip begins with a buffer of the size that stands at the end: that of the last member, and nearly always there is one. What
// turns out to be longer is decoded anew into twice as much, up to the limit.
func (d *decompressor) gunzip(src []byte, limit int) ([]byte, error) {
	if len(src) < gzipHeader+gzipTrailer {
		return nil, io.ErrUnexpectedEOF
	}
	if d.gzip == nil {
		d.gzip = new(inflater)
	}
	size := int(min(int64(binary.LittleEndian.Uint32(src[len(src)-4:])), int64(len(src))*gzipMost, int64(limit)))
	for {
		out := Buffer(size)
		n, err := d.members(out, src)
		if !errors.Is(err, errRoom) {
			return out[:n], err
		}
		if size == limit {
			return nil, ErrTooLarge
		}
		size = min(max(2*size, d.guess(gzipCodec, src, limit)), limit)
	}
}

// members decodes all of src into dst.
func (d *decompressor) members(dst, src []byte) (n int, err error) {
	for len(src) > 0 {
		if src, err = passGzipHeader(src); err != nil {
			return n, err
		}
		took, made, err := d.gzip.inflate(dst[n:], src)
		if err != nil {
			return n, err
		}
		src = src[took:]
		if len(src) < gzipTrailer {
			return n, io.ErrUnexpectedEOF
		}
		if binary.LittleEndian.Uint32(src) != crc32.ChecksumIEEE(dst[n:n+made]) || binary.LittleEndian.Uint32(src[4:]) != uint32(made) {
			return n, errGzipSum
		}
		src, n = src[gzipTrailer:], n+made
	}
	return n, nil
}

// passGzipHeader gives what is behind the header that src begins with.
func passGzipHeader(src []byte) ([]byte, error) {
	if len(src) < gzipHeader {
		return nil, io.ErrUnexpectedEOF
	}
	flags, rest := src[3], src[gzipHeader:]
	if src[0] != 0x1f || src[1] != 0x8b || src[2] != 8 {
		return nil, errNoGzip
	}
	if flags&gzipHasExtra != 0 {
		if len(rest) < 2 || len(rest) < 2+int(binary.LittleEndian.Uint16(rest)) {
			return nil, io.ErrUnexpectedEOF
		}
		rest = rest[2+int(binary.LittleEndian.Uint16(rest)):]
	}
	for _, text := range []byte{gzipHasName, gzipHasComment} {
		if flags&text == 0 {
			continue
		}
		end := bytes.IndexByte(rest, 0)
		if end < 0 {
			return nil, io.ErrUnexpectedEOF
		}
		rest = rest[end+1:]
	}
	if flags&gzipHasSum != 0 {
		size := len(src) - len(rest)
		if len(rest) < 2 {
			return nil, io.ErrUnexpectedEOF
		}
		if binary.LittleEndian.Uint16(rest) != uint16(crc32.ChecksumIEEE(src[:size])) {
			return nil, errGzipSum
		}
		rest = rest[2:]
	}
	return rest, nil
}
