package batch

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// byLZ4 is what the stream decoder makes of it.
func byLZ4(src []byte) ([]byte, error) { return io.ReadAll(lz4.NewReader(bytes.NewReader(src))) }

func TestReadsEveryFrameThatLZ4Writes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var d decompressor
	for _, size := range []lz4.BlockSize{lz4.Block64Kb, lz4.Block256Kb, lz4.Block1Mb, lz4.Block4Mb} {
		for flags := range 8 {
			for _, n := range []int{0, 1, 300, 64 << 10, 64<<10 + 1, 700_000} {
				want := sample(r, n)
				o := []lz4.Option{lz4.BlockSizeOption(size), lz4.BlockChecksumOption(flags&1 != 0), lz4.ChecksumOption(flags&2 != 0)}
				if flags&4 != 0 && n > 0 {
					o = append(o, lz4.SizeOption(uint64(n)))
				}
				got, err := d.all(lz4Codec, packLZ4(want, o...), 1<<20)
				require.NoError(t, err, "%v, flags %b, %d bytes", size, flags, n)
				require.True(t, bytes.Equal(want, got), "%v, flags %b, %d bytes", size, flags, n)
				if flags&4 != 0 && n > 0 {
					require.Equal(t, n, cap(got), "the frame tells its size")
				}
			}
		}
	}
}

// frameOf puts blocks into a frame. Their sizes may be marked as stored.
func frameOf(flags byte, blocks ...[]byte) []byte {
	out := binary.LittleEndian.AppendUint32(nil, lz4Magic)
	out = append(out, 1<<6|flags, 4<<4, 0)
	for _, b := range blocks {
		size := uint32(len(b) - 1)
		if b[0] == 's' {
			size |= lz4Stored
		}
		out = append(binary.LittleEndian.AppendUint32(out, size), b[1:]...)
	}
	return append(out, 0, 0, 0, 0)
}

func TestABlockMayPointIntoTheOneBefore(t *testing.T) {
	stored := []byte("sabcdefgh")
	back := []byte{'c', 0x04, 8, 0, 0x10, 'x'} // eight bytes from eight back, and a literal
	frame := frameOf(0, stored, back, back)
	frame[6] = 0x2e // its checksum, which the other decoder wants
	want, err := byLZ4(frame)
	for sum := 0; err != nil && sum < 256; sum++ {
		frame[6] = byte(sum)
		want, err = byLZ4(frame)
	}
	require.NoError(t, err)
	require.Len(t, want, 8+9+9)
	var d decompressor
	got, err := d.all(lz4Codec, frame, 100)
	require.NoError(t, err)
	assert.Equal(t, string(want), string(got))

	_, err = d.all(lz4Codec, frameOf(lz4Independent, stored, back), 100)
	require.ErrorIs(t, err, ErrMalformed, "a block that says it is independent may not")
	_, err = d.all(lz4Codec, append(frameOf(0, stored), frameOf(0, back)...), 100)
	require.ErrorIs(t, err, ErrMalformed, "nor one of another frame")
}

func TestFramesFollowEachOther(t *testing.T) {
	skipped := []byte{0x5a, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3}
	one, two := packLZ4([]byte("one")), packLZ4(bytes.Repeat([]byte("two"), 100_000))
	var d decompressor
	for name, src := range map[string][]byte{
		"two": append(slices.Clone(one), two...), "skipped before": slices.Concat(skipped, one), "between": slices.Concat(one, skipped, two),
		"only": skipped,
	} {
		want, err := byLZ4(src)
		require.NoError(t, err)
		got, err := d.all(lz4Codec, src, 1<<20)
		require.NoError(t, err, name)
		require.Equal(t, string(want), string(got), name)
	}
}

func TestABrokenFrameIsAnError(t *testing.T) {
	long := bytes.Repeat([]byte("0123456789"), 1000)
	for name, c := range map[string]struct {
		src  []byte
		want error
	}{
		"nothing":                {nil, ErrMalformed},
		"skip beyond the end":    {[]byte{0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2}, ErrMalformed},
		"magic":                  {[]byte{1, 2, 3, 4, 0x60, 0x40, 0, 0, 0, 0, 0}, ErrMalformed},
		"version":                {append([]byte{4, 0x22, 0x4d, 0x18, 0x20}, packLZ4(long)[5:]...), ErrMalformed},
		"size of blocks":         {append([]byte{4, 0x22, 0x4d, 0x18, 0x60, 0x30}, packLZ4(long)[6:]...), ErrMalformed},
		"dictionary":             {append([]byte{4, 0x22, 0x4d, 0x18, 0x61, 0x40}, packLZ4(long)[6:]...), ErrMalformed},
		"a size that cannot be":  {append([]byte{4, 0x22, 0x4d, 0x18, 0x68, 0x40, 0, 0, 0, 0, 1, 0, 0, 0}, packLZ4(long)[6:]...), ErrMalformed},
		"a negative size":        {append([]byte{4, 0x22, 0x4d, 0x18, 0x68, 0x40, 0, 0, 0, 0, 0, 0, 0, 0x80}, packLZ4(long)[6:]...), ErrMalformed},
		"a size above the limit": {packLZ4(make([]byte, 11_000), lz4.SizeOption(11_000)), ErrTooLarge},
		"a block of nonsense":    {frameOf(lz4Independent, []byte{'c', 0xf0, 0xff, 0xff}), ErrMalformed},
		"nonsense at the limit":  {frameOf(lz4Independent, append([]byte("s"), long...), []byte{'c', 0xf0, 0xff, 0xff}), ErrMalformed},
		"a block that is more than the frame's blocks are": {frameOf(lz4Independent, append([]byte("s"), make([]byte, 64<<10+1)...)), ErrMalformed},
	} {
		var d decompressor
		var err error
		n := allocated(func() { _, err = d.all(lz4Codec, c.src, len(long)) })
		require.ErrorIs(t, err, c.want, name)
		assert.LessOrEqual(t, n, 200<<10, name)
	}
}
