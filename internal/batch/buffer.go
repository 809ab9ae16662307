package batch

import (
	"strings"
	"unsafe"
)

// Buffer makes n bytes to be written over: unlike those of make they hold anything. For the large pieces that answers are read and
// batches decompressed into, clearing them first costs as much as a tenth of all that reading does.
func Buffer(n int) []byte {
	if n == 0 {
		return []byte{}
	}
	var b strings.Builder // the one way to memory that is not cleared
	b.Grow(n)
	b.WriteByte(0)
	return unsafe.Slice(unsafe.StringData(b.String()), n)
}
