package batch

import (
	"encoding/binary"
	"errors"
	"io"
)

// inflater decodes deflate (RFC 1951) from one slice into another. A reader of streams has to stop anywhere and to keep a window;
// this one does not, and needs about half the time.
type inflater struct {
	src []byte
	pos int    // of src, what is in word; beyond the end there are zeros
	in  uint64 // bits that were taken from src, the next one lowest
	n   uint   // how many of them count. Those above are right too, where there are any

	dst []byte
	out int

	lit     [litSize]uint32
	dist    [distSize]uint32
	pre     [preSize]uint32
	lengths [litCodes + distCodes]uint8
}

var (
	errRoom    = errors.New("deflate: the result has no room") // and it is not longer than what was decoded
	errBlock   = errors.New("deflate: no such kind of block")
	errStored  = errors.New("deflate: the length of a stored block is not what its complement says")
	errLengths = errors.New("deflate: lengths of codes that cannot be")
	errSymbol  = errors.New("deflate: a code that has no meaning")
	errFar     = errors.New("deflate: it points to before the beginning")
)

// inflate decodes what src begins with into dst, and gives how many bytes it took and made.
func (f *inflater) inflate(dst, src []byte) (took, made int, err error) {
	f.src, f.pos, f.in, f.n = src, 0, 0, 0
	f.dst, f.out = dst, 0
	defer func() { f.src, f.dst = nil, nil }()
	for last := false; !last; {
		f.fill()
		last = f.take(1) == 1
		switch f.take(2) {
		case 0:
			err = f.stored()
		case 1:
			if err = f.fixed(); err == nil {
				err = f.block()
			}
		case 2:
			if err = f.dynamic(); err == nil {
				err = f.block()
			}
		default:
			err = errBlock
		}
		if f.begun() > len(src) { // whatever else is wrong comes from the zeros
			return 0, f.out, io.ErrUnexpectedEOF
		}
		if err != nil {
			return 0, f.out, err
		}
	}
	return f.begun(), f.out, nil
}

// begun is how many bytes of src are decoded, the last perhaps in part.
func (f *inflater) begun() int { return f.pos - int(f.n>>3) }

// fill takes bits from src, so that there are 56 or more.
func (f *inflater) fill() {
	if f.pos+8 <= len(f.src) {
		f.in |= binary.LittleEndian.Uint64(f.src[f.pos:]) << (f.n & 63)
		f.pos += int(63-f.n) >> 3
		f.n |= 56
		return
	}
	for ; f.n < 56; f.n += 8 {
		if f.pos < len(f.src) {
			f.in |= uint64(f.src[f.pos]) << (f.n & 63)
		}
		f.pos++
	}
}

// take gives the next n bits, at most 32; fill has been called.
func (f *inflater) take(n uint) uint32 {
	v := uint32(f.in & (1<<n - 1))
	f.in >>= n
	f.n -= n
	return v
}

// stored copies a block that is not compressed.
func (f *inflater) stored() error {
	f.take(f.n & 7)
	f.fill()
	n := int(f.take(16))
	if int(f.take(16)) != n^0xffff {
		return errStored
	}
	at := f.begun()
	f.in, f.n = 0, 0
	f.pos = at + n
	if f.pos > len(f.src) {
		return io.ErrUnexpectedEOF
	}
	if n > len(f.dst)-f.out {
		return errRoom
	}
	f.out += copy(f.dst[f.out:], f.src[at:f.pos])
	return nil
}

// fixed makes the tables of the codes that need not be sent.
func (f *inflater) fixed() error {
	for i := range litCodes {
		switch {
		case i < 144, i >= 280:
			f.lengths[i] = 8
		case i < 256:
			f.lengths[i] = 9
		default:
			f.lengths[i] = 7
		}
	}
	for i := range distCodes {
		f.lengths[litCodes+i] = 5
	}
	return f.tables(litCodes, distCodes)
}

func (f *inflater) tables(lits, dists int) error {
	if err := buildTable(f.lit[:], litBits, f.lengths[:lits], litMeanings[:]); err != nil {
		return err
	}
	return buildTable(f.dist[:], distBits, f.lengths[lits:lits+dists], distMeanings[:])
}

// lengthsOrder is the order in which a block gives the lengths of the codes that its lengths are written in.
var lengthsOrder = [preCodes]uint8{16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15}

// dynamic reads the codes that stand before a block, and makes its tables.
func (f *inflater) dynamic() error {
	f.fill()
	lits, dists, pres := int(f.take(5))+257, int(f.take(5))+1, int(f.take(4))+4
	if lits > 286 || dists > 30 {
		return errLengths
	}
	var lengths [preCodes]uint8
	for _, code := range lengthsOrder[:pres] {
		f.fill()
		lengths[code] = uint8(f.take(3))
	}
	if err := buildTable(f.pre[:], preBits, lengths[:], preMeanings[:]); err != nil {
		return err
	}
	for i := 0; i < lits+dists; {
		f.fill()
		e := f.pre[f.in&(preSize-1)]
		f.take(uint(e & 0xff))
		value, again := uint8(e>>entryValue), 1
		switch {
		case e&entryBad != 0:
			return errSymbol
		case value == 16 && i == 0:
			return errLengths
		case value == 16:
			value, again = f.lengths[i-1], 3+int(f.take(2))
		case value == 17:
			value, again = 0, 3+int(f.take(3))
		case value == 18:
			value, again = 0, 11+int(f.take(7))
		}
		if again > lits+dists-i {
			return errLengths
		}
		for ; again > 0; again-- {
			f.lengths[i] = value
			i++
		}
	}
	return f.tables(lits, dists)
}

// second is where the entry stands for a code that has only begun with what pointer was found by; rest are the bits behind that.
func second(pointer uint32, rest uint64) uint32 {
	return pointer>>entryValue + uint32(rest)&(1<<(pointer>>entryCode&15)-1)
}

// block decodes a block by its tables: the most of it by run, and one symbol at a time where src or dst come to their end.
func (f *inflater) block() error {
	for {
		if end, err := f.run(); end || err != nil {
			return err
		}
		if f.begun() > len(f.src) { // no more of the zeros than one symbol
			return io.ErrUnexpectedEOF
		}
		f.fill()
		e := f.lit[f.in&(1<<litBits-1)]
		if e&entryPointer != 0 {
			e = f.lit[second(e, f.in>>litBits)&(litSize-1)]
		}
		code := uint(e >> entryCode & 15)
		extra := uint(e&0xff) - code
		f.take(code)
		switch {
		case e&entryLiteral != 0:
			if f.out == len(f.dst) {
				return errRoom
			}
			f.dst[f.out] = byte(e >> entryValue)
			f.out++
			continue
		case e&entryEnd != 0:
			return nil
		case e&entryBad != 0:
			return errSymbol
		}
		length := int(e>>entryValue + f.take(extra))

		f.fill()
		e = f.dist[f.in&(1<<distBits-1)]
		if e&entryPointer != 0 {
			e = f.dist[second(e, f.in>>distBits)&(distSize-1)]
		}
		if e&entryBad != 0 {
			return errSymbol
		}
		code = uint(e >> entryCode & 15)
		extra = uint(e&0xff) - code
		f.take(code)
		distance := int(e>>entryValue + f.take(extra))
		switch {
		case distance > f.out:
			return errFar
		case length > len(f.dst)-f.out:
			return errRoom
		}
		for ; length > 0; length-- {
			f.dst[f.out] = f.dst[f.out-distance]
			f.out++
		}
	}
}

// run decodes while it need not look whether src and dst have enough for what is next: 16 bytes there, three literals and the
// longest match here. It gives true where the block has ended.
func (f *inflater) run() (end bool, err error) {
	const most = 3 + 258 + 8
	src, dst := f.src, f.dst
	pos, in, n, out := f.pos, f.in, f.n, f.out
	le := binary.LittleEndian
loop:
	for pos+16 <= len(src) && out+most <= len(dst) {
		in |= le.Uint64(src[pos:]) << (n & 63)
		pos += int(63-n) >> 3
		n |= 56
		e := f.lit[in&(1<<litBits-1)]
		if e&entryLiteral != 0 { // three take no more than 33 bits
			in >>= e & 63
			n -= uint(e & 63)
			dst[out] = byte(e >> entryValue)
			out++
			e = f.lit[in&(1<<litBits-1)]
			if e&entryLiteral != 0 {
				in >>= e & 63
				n -= uint(e & 63)
				dst[out] = byte(e >> entryValue)
				out++
				e = f.lit[in&(1<<litBits-1)]
				if e&entryLiteral != 0 {
					in >>= e & 63
					n -= uint(e & 63)
					dst[out] = byte(e >> entryValue)
					out++
					continue
				}
			}
			in |= le.Uint64(src[pos:]) << (n & 63)
			pos += int(63-n) >> 3
			n |= 56
		}
		if e&entrySpecial != 0 {
			if e&entryPointer != 0 {
				e = f.lit[second(e, in>>litBits)&(litSize-1)]
			}
			switch {
			case e&entryLiteral != 0:
				in >>= e & 63
				n -= uint(e & 63)
				dst[out] = byte(e >> entryValue)
				out++
				continue
			case e&entryEnd != 0:
				in >>= e & 63
				n -= uint(e & 63)
				end = true
				break loop
			case e&entryBad != 0:
				err = errSymbol
				break loop
			}
		}
		length := int(e>>entryValue + uint32(in&(1<<(e&63)-1)>>(e>>entryCode&15)))
		in >>= e & 63 // a length takes 20 bits at most, a distance 28
		n -= uint(e & 63)

		e = f.dist[in&(1<<distBits-1)]
		if e&entrySpecial != 0 {
			if e&entryPointer != 0 {
				e = f.dist[second(e, in>>distBits)&(distSize-1)]
			}
			if e&entryBad != 0 {
				err = errSymbol
				break loop
			}
		}
		distance := int(e>>entryValue + uint32(in&(1<<(e&63)-1)>>(e>>entryCode&15)))
		in >>= e & 63
		n -= uint(e & 63)
		if distance > out {
			err = errFar
			break loop
		}
		from, to := out-distance, out
		out += length
		if distance >= 8 { // words, up to 7 bytes too far, which are written again
			for {
				le.PutUint64(dst[to:], le.Uint64(dst[from:]))
				to, from = to+8, from+8
				if to >= out {
					break
				}
			}
			continue
		}
		for ; to < out; to++ {
			dst[to] = dst[from]
			from++
		}
	}
	f.pos, f.in, f.n, f.out = pos, in, n, out
	return end, err
}
