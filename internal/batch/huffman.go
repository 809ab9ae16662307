package batch

import (
	"errors"
	"math/bits"
)

// The tables that inflate decodes by (RFC 1951). A code of up to litBits or distBits bits is found in one step; a longer one in a
// second step, in a part of the table behind the first. An entry is, from its low end:
//
//	8 bits  how many bits it takes: the code and the extra bits behind it
//	4 bits  how many of those are the code's; of a pointer: how many bits choose within its part
//	3 bits  what it is, if not a length or distance
//	        (a gap)
//	15 bits the literal, the least length or distance, or where the pointer's part begins
//	1 bit   whether it is a literal
const (
	litBits  = 11
	distBits = 8
	preBits  = 7

	// The first step's part, and room for the second's: zlib's enough.c gives 2,342 for 288 codes, and 402 for 32.
	litSize  = 1 << 12
	distSize = 1 << 9
	preSize  = 1 << preBits

	entryCode    = 8 // where the bits of the code stand
	entryValue   = 16
	entryPointer = 1 << 12
	entryEnd     = 1 << 13 // of the block
	entryBad     = 1 << 14
	entrySpecial = entryPointer | entryEnd | entryBad
	entryLiteral = 1 << 31

	longestCode = 15
	litCodes    = 288
	distCodes   = 32
	preCodes    = 19
)

var errCode = errors.New("deflate: a set of codes that cannot be")

// What each code means: entries that lack the bits of the code.
var litMeanings, distMeanings, preMeanings = func() (lit [litCodes]uint32, dist [distCodes]uint32, pre [preCodes]uint32) {
	for i := range lit {
		lit[i] = entryBad
	}
	for i := range 256 {
		lit[i] = entryLiteral | uint32(i)<<entryValue
	}
	lit[256] = entryEnd
	length := uint32(3)
	for i := range 28 {
		extra := uint32(max(i/4-1, 0))
		lit[257+i] = length<<entryValue | extra
		length += 1 << extra
	}
	lit[285] = 258 << entryValue
	distance := uint32(1)
	for i := range 30 {
		extra := uint32(max(i/2-1, 0))
		dist[i] = distance<<entryValue | extra
		distance += 1 << extra
	}
	dist[30], dist[31] = entryBad, entryBad
	for i := range pre {
		pre[i] = uint32(i) << entryValue
	}
	return lit, dist, pre
}()

// buildTable makes the table of the canonical code whose lengths are given: at most longestCode each, 0 for a code that does not
// occur. A code must be complete, but for a single one of one bit, and for none at all: there every entry is bad.
func buildTable(table []uint32, first uint, lengths []uint8, meanings []uint32) error {
	var count [longestCode + 1]int
	for _, n := range lengths {
		count[n]++
	}
	used := len(lengths) - count[0]
	count[0] = 0
	left := 1
	for _, n := range count[1:] {
		left = left<<1 - n
		if left < 0 {
			return errCode
		}
	}
	if left > 0 {
		if used > 1 || used == 1 && count[1] == 0 {
			return errCode
		}
		for i := range table[:1<<first] {
			table[i] = entryBad | 1
		}
	}

	var sorted [litCodes]uint16 // by length, and within it by code
	var at [longestCode + 2]int
	for n, c := range count {
		at[n+1] = at[n] + c
	}
	for code, n := range lengths {
		if n > 0 {
			sorted[at[n]] = uint16(code)
			at[n]++
		}
	}

	word, length := uint32(0), uint(0) // the next code, its first bit highest
	free := 1 << first                 // where the next part begins
	prefix, part, width := -1, 0, uint(0)
	for _, code := range sorted[:used] {
		for count[length] == 0 {
			length++
			word <<= 1
		}
		reversed := int(bits.Reverse32(word) >> (32 - length))
		entry := meanings[code] + uint32(length)<<entryCode + uint32(length)
		if length <= first {
			for i := reversed; i < 1<<first; i += 1 << length {
				table[i] = entry
			}
		} else {
			if low := reversed & (1<<first - 1); low != prefix {
				prefix, part, width = low, free, length-first
				for space := count[length]; space < 1<<width; {
					width++
					space = space<<1 + count[first+width]
				}
				free += 1 << width
				table[low] = entryPointer | uint32(part)<<entryValue | uint32(width)<<entryCode
			}
			for i := reversed >> first; i < 1<<width; i += 1 << (length - first) {
				table[part+i] = entry
			}
		}
		count[length]--
		word++
	}
	return nil
}
