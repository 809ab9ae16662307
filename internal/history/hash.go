package history

import (
	"hash/crc32"
	"math/bits"
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// roll is the rolling hash after one more record: over the hash before it, its offset and its value. It is there to tell
// apart logs that differ by accident or by a broker's fault, and costs one pass of CRC-32C and two multiplications; it is
// no protection against somebody who looks for a collision. A nil value counts as an empty one.
func roll(hash uint64, offset int64, value []byte) uint64 {
	sum := uint64(crc32.Checksum(value, castagnoli)) | uint64(len(value))<<32
	return mix(mix(hash^0xa0761d6478bd642f, uint64(offset)^0xe7037ed1a0b428db), sum^0x8ebc6af09c88c6e3)
}

// mix folds the 128-bit product of two numbers (the step of wyhash).
func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}
