package batch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/s2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// allocated runs f and gives how many bytes were allocated meanwhile.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

func sample(r *rand.Rand, n int) []byte {
	b := make([]byte, n)
	spread := 1 + r.IntN(255)
	for i := range b {
		b[i] = byte(r.IntN(spread))
	}
	return b
}

func TestEveryCodecGivesBackWhatWasPacked(t *testing.T) {
	for name, p := range packers {
		if p.codec == uncompressed {
			continue
		}
		var d decompressor
		r := rand.New(rand.NewPCG(1, 1))
		for _, n := range []int{0, 1, 100, 65_535, 65_536, 65_537, 300_000, 1_000_000, 10, 200_000} {
			want := sample(r, n)
			got, err := d.all(p.codec, p.pack(want), n+1)
			require.NoError(t, err, "%s: %d bytes", name, n)
			require.True(t, bytes.Equal(want, got), "%s: %d bytes", name, n)
			require.LessOrEqual(t, cap(got), 2*n+1024, "%s: %d bytes", name, n)

			got, err = d.all(p.codec, p.pack(want), n)
			require.NoError(t, err, "%s: exactly the limit of %d bytes", name, n)
			require.True(t, bytes.Equal(want, got))
			if n > 0 {
				_, err = d.all(p.codec, p.pack(want), n-1)
				require.ErrorIs(t, err, ErrTooLarge, "%s: one byte over the limit of %d", name, n-1)
			}
		}
	}
}

// A few KiB can hold a GiB. What is allocated is bounded by the limit, whatever they hold.
func TestABombCostsNoMoreThanTheLimit(t *testing.T) {
	const limit = 1 << 20
	const beside = 4 << 20    // the largest block of lz4, which is decoded to see whether it could be
	const scratch = 256 << 10 // tables of zstd, from pools that may have let them go
	content := make([]byte, 64<<20)
	for name, p := range packers {
		if p.codec == uncompressed {
			continue
		}
		bomb := p.pack(content)
		var d decompressor
		_, err := d.all(p.codec, p.pack(make([]byte, 1000)), limit) // what the codec keeps for itself is there
		require.NoError(t, err)
		n := allocated(func() { _, err = d.all(p.codec, bomb, limit) })
		require.ErrorIs(t, err, ErrTooLarge, name)
		assert.LessOrEqual(t, n, 4*limit+beside, name)

		innocent := p.pack(sample(rand.New(rand.NewPCG(1, 1)), 10_000))
		n = allocated(func() { _, err = d.all(p.codec, innocent, 64<<20) })
		require.NoError(t, err)
		assert.LessOrEqual(t, n, limit+scratch, "%s: after a bomb", name)
	}
}

func TestABombInABatchIsAnError(t *testing.T) {
	for name, p := range packers {
		if p.codec == uncompressed {
			continue
		}
		b := plan{records: numbered(1), packer: p}
		b.records[0].Value = make([]byte, 3<<20)
		o := opts
		o.MaxBatchBytes = 1 << 20
		var r Reader
		require.Empty(t, readAllMessages(t, &r, b.build(), o))
		require.ErrorIs(t, r.Err(), ErrTooLarge, name)
		require.ErrorContains(t, r.Err(), fmt.Sprintf("%v: larger than the limit when decompressed (1048576 bytes)", p.codec))
		o.MaxBatchBytes = 4 << 20
		require.Len(t, readAllMessages(t, &r, b.build(), o), 1)
	}
}

// A size that is claimed and not there must cost nothing.
func TestClaimedSizesAreNotAllocated(t *testing.T) {
	snappyClaim := binary.AppendUvarint(nil, 1<<30)
	xerial := append(append([]byte(nil), xerialMagic...), 0, 0, 0, 1, 0, 0, 0, 1)
	for name, c := range map[string]struct {
		codec codec
		src   []byte
	}{
		"snappy block":        {snappyCodec, append(snappyClaim, "no such thing"...)},
		"xerial block":        {snappyCodec, append(binary.BigEndian.AppendUint32(xerial, uint32(len(snappyClaim))), snappyClaim...)},
		"xerial block length": {snappyCodec, append(binary.BigEndian.AppendUint32(xerial, math.MaxUint32), snappyClaim...)},
		"gzip size":           {gzipCodec, append(packGzip([]byte("x"))[:19], 0xff, 0xff, 0xff, 0x3f)},
		"zstd frame":          {zstdCodec, []byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0, 0, 0, 0, 0x40, 0, 0, 0, 0, 1, 0, 0}},
	} {
		var d decompressor
		_, err := d.all(packers["zstd"].codec, packZstd([]byte("warm")), 1000)
		require.NoError(t, err)
		n := allocated(func() { _, err = d.all(c.codec, c.src, math.MaxInt32) })
		require.ErrorIs(t, err, ErrMalformed, name)
		assert.LessOrEqual(t, n, 200<<10, name)
	}

	b := plan{records: numbered(3)}
	b.NumRecords = math.MaxInt32
	raw := b.build()
	headers := plan{records: numbered(1)}
	rec := encodeRecord(headers.records[0])
	many := binary.AppendVarint(rec[1:len(rec)-1], math.MaxInt32) // headers
	headers.records, headers.NumRecords = nil, 1
	headers.trail = append(binary.AppendVarint(nil, int64(len(many))), many...)
	rawHeaders := headers.build()
	var r Reader
	n := allocated(func() {
		r.Reset(raw, opts)
		_, ok := r.NextBatch()
		assert.False(t, ok)
		assert.ErrorIs(t, r.Err(), ErrMalformed)
	})
	assert.LessOrEqual(t, n, 16<<10)
	assert.Empty(t, readAllMessages(t, &r, rawHeaders, opts))
	require.ErrorIs(t, r.Err(), ErrMalformed)
	require.ErrorContains(t, r.Err(), "headers of record")
}

func TestBrokenCompressionIsAnError(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for name, p := range packers {
		if p.codec == uncompressed {
			continue
		}
		var d decompressor
		want := sample(r, 5000)
		packed := p.pack(want)
		for range 200 {
			cut := packed[:r.IntN(len(packed))]
			got, err := d.all(p.codec, cut, 1<<20)
			require.False(t, err == nil && bytes.Equal(got, want), "%s: %d of %d bytes gave all", name, len(cut), len(packed))
			got, err = d.all(p.codec, packed, 1<<20)
			require.NoError(t, err, "%s: an error must leave nothing behind", name)
			require.Equal(t, want, got)
		}
	}
}

func TestXerialIsToldFromRawSnappy(t *testing.T) {
	want := bytes.Repeat([]byte("abc"), 40_000)
	for _, src := range [][]byte{s2.EncodeSnappy(nil, want), packXerial(want), s2.EncodeSnappyBest(nil, want)} {
		got, err := unsnappy(src, len(want))
		require.NoError(t, err)
		require.Equal(t, want, got)
		require.Equal(t, len(want), cap(got), "the size is known in advance")
	}
}

func TestAWrongGuessDoesNotOutliveTheBatch(t *testing.T) {
	for _, name := range []string{"lz4", "zstdStream"} {
		p := packers[name]
		var d decompressor
		_, err := d.all(p.codec, p.pack(make([]byte, 1<<20)), 1<<24)
		require.NoError(t, err)
		got, err := d.all(p.codec, p.pack(sample(rand.New(rand.NewPCG(1, 1)), 20_000)), 1<<24)
		require.NoError(t, err)
		assert.LessOrEqual(t, cap(got), 2*len(got)+1024, name)
	}
}

// The buffer that is given back is the first one that was made: none was too small.
func TestBuffersAreSizedFromTheLastBatch(t *testing.T) {
	for name, exact := range map[string]bool{"lz4": false, "lz4Large": false, "zstdStream": false, "gzip": true, "zstd": true, "snappy": true, "snappyXerial": true} {
		p := packers[name]
		var content []byte
		for _, r := range jsonRecords(2000, false) {
			content = append(content, r.Value...)
		}
		packed := p.pack(content)
		var d decompressor
		_, err := d.all(p.codec, packed, 1<<24)
		require.NoError(t, err)
		want := d.guess(p.codec, packed, 1<<24)
		require.GreaterOrEqual(t, want, len(content), name)
		require.LessOrEqual(t, want, len(content)*5/4, name)
		got, err := d.all(p.codec, packed, 1<<24)
		require.NoError(t, err)
		if exact {
			assert.LessOrEqual(t, cap(got), len(content)+16, "%s: the size is known", name)
		} else {
			assert.Equal(t, want, cap(got), name)
		}
	}
}
