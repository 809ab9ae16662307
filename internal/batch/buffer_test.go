package batch

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestABufferIsAsLargeAsAskedForAndOneAllocation(t *testing.T) {
	for _, n := range []int{0, 1, 7, 100, 4096, 1 << 20} {
		b := Buffer(n)
		assert.NotNil(t, b)
		assert.Len(t, b, n)
		assert.Equal(t, n, cap(b), "nothing behind it is given away")
		for i := range b {
			b[i] = byte(i)
		}
	}
	assert.LessOrEqual(t, testing.AllocsPerRun(10, func() { Buffer(1 << 20) }), 1.0)
}

func BenchmarkBuffer(b *testing.B) {
	for _, c := range []struct {
		name string
		make func(int) []byte
	}{{"cleared", func(n int) []byte { return make([]byte, n) }}, {"as it is", Buffer}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(1 << 20)
			for b.Loop() {
				c.make(1 << 20)[1<<19] = 1
			}
		})
	}
}
