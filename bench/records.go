package main

import (
	"encoding/binary"
	"math/rand/v2"
	"strconv"
)

const (
	batchBytes = 1_000_000         // of the records of a batch, before they are compressed
	writtenAt  = 1_700_000_000_000 // the time of each record, in ms
	keyBytes   = 8
)

// writer makes the records of a partition: values are JSON of random words and numbers, which compress as such do. The same
// content and partition give the same records.
type writer struct {
	content
	random *rand.Rand
	left   int64 // records
	next   int64 // number of the next
	value  []byte
}

func newWriter(c content, partition int32) *writer {
	return &writer{content: c, random: rand.New(rand.NewPCG(1, uint64(partition))), left: c.N / partitions}
}

var words = []string{"alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet"}

// batch appends the records of the next batch and tells how many they are.
func (w *writer) batch(dst []byte) ([]byte, int32) {
	var n int32
	for w.left > 0 && (w.content.Records == 0 || int(n) < w.content.Records) && len(dst)+w.Size+keyBytes+32 <= batchBytes {
		dst = w.record(dst, n)
		n++
		w.left--
		w.next++
	}
	return dst, n
}

func (w *writer) record(dst []byte, delta int32) []byte {
	v := strconv.AppendInt(append(w.value[:0], `{"id":`...), 1e9+w.next, 10)
	key := v[len(v)-keyBytes:]
	for len(v) < w.Size {
		v = strconv.AppendInt(append(append(append(v, `,"`...), words[w.random.IntN(len(words))]...), `":`...), w.random.Int64N(1e9), 10)
	}
	w.value, v = v, v[:w.Size]

	var head [2 * binary.MaxVarintLen64]byte
	h := append(head[:0], 0, 0) // no attributes, written when the first was
	h = binary.AppendVarint(h, int64(delta))
	h = binary.AppendVarint(h, keyBytes)
	var valueLength [binary.MaxVarintLen64]byte
	l := binary.AppendVarint(valueLength[:0], int64(w.Size))
	dst = binary.AppendVarint(dst, int64(len(h)+keyBytes+len(l)+w.Size+1))
	dst = append(append(append(append(dst, h...), key...), l...), v...)
	return append(dst, 0) // no headers
}
