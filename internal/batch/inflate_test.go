package batch

import (
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"slices"
	"testing"

	fast "github.com/klauspost/compress/flate"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// byFlate is what the standard library makes of it, up to limit bytes, and how many bytes it took for that.
func byFlate(src []byte, limit int) (out []byte, took int, err error) {
	r := bytes.NewReader(src)
	out, err = io.ReadAll(io.LimitReader(flate.NewReader(r), int64(limit)))
	return out, len(src) - r.Len(), err
}

func deflated(content []byte, level int) []byte {
	var out bytes.Buffer
	w, err := flate.NewWriter(&out, level)
	if err != nil {
		panic(err)
	}
	write(w, content)
	return out.Bytes()
}

func deflatedFast(content []byte, level int) []byte {
	var out bytes.Buffer
	w, err := fast.NewWriter(&out, level)
	if err != nil {
		panic(err)
	}
	write(w, content)
	return out.Bytes()
}

// contents are of every kind: random, few letters, long runs at every short distance, text, and with long codes.
func contents(r *rand.Rand) [][]byte {
	out := [][]byte{{}, {7}, make([]byte, 70_000), bytes.Repeat([]byte("ab"), 300)}
	for _, n := range []int{1, 10, 258, 300, 5_000, 70_000, 300_000} {
		out = append(out, sample(r, n))
	}
	for distance := 1; distance < 20; distance++ {
		out = append(out, bytes.Repeat(sample(r, distance), 1000/distance))
	}
	var text []byte
	for _, r := range jsonRecords(3000, false) {
		text = append(text, r.Value...)
	}
	var skew []byte // the n-th letter half as often as the one before it: codes of every length
	for i := range 200_000 {
		letter := 0
		for n := i; n&1 == 1; n >>= 1 {
			letter++
		}
		skew = append(skew, byte(letter)*13)
		if i%100 == 0 {
			skew = append(skew, byte(r.IntN(256)))
		}
	}
	return append(out, text, skew)
}

func TestInflatesWhatEveryWriterWrites(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	var f inflater
	for i, want := range contents(r) {
		for _, level := range []int{flate.HuffmanOnly, flate.DefaultCompression, flate.NoCompression, 1, 5, 9} {
			for writer, packed := range map[string][]byte{"standard": deflated(want, level), "fast": deflatedFast(want, level)} {
				name := fmt.Sprintf("%s, level %d, content %d of %d bytes", writer, level, i, len(want))
				for _, behind := range []int{0, 1, 40} { // what follows is not its own
					dst := make([]byte, len(want))
					took, made, err := f.inflate(dst, append(slices.Clip(packed), bytes.Repeat([]byte{0xff}, behind)...))
					require.NoError(t, err, name)
					require.Equal(t, len(packed), took, name)
					require.Equal(t, len(want), made, name)
					require.True(t, bytes.Equal(want, dst), name)
				}
				if len(want) > 0 {
					_, _, err := f.inflate(make([]byte, len(want)-1), packed)
					require.ErrorIs(t, err, errRoom, name)
				}
				for range 5 {
					cut := packed[:r.IntN(len(packed))]
					_, _, err := f.inflate(make([]byte, len(want)), cut)
					require.ErrorIs(t, err, io.ErrUnexpectedEOF, "%s: cut at %d of %d", name, len(cut), len(packed))
				}
			}
		}
	}
}

// likeFlate decodes with both, and compares all that the two give.
func likeFlate(t *testing.T, f *inflater, src []byte) {
	t.Helper()
	const limit = 1 << 17
	want, wantTook, wantErr := byFlate(src, limit)
	dst := make([]byte, len(want))
	if len(want) == limit {
		dst = make([]byte, limit)
	}
	took, made, err := f.inflate(dst, src)
	if len(want) == limit { // there may be more, or an error behind it
		require.GreaterOrEqual(t, made, limit-258)
		require.True(t, bytes.Equal(want[:made], dst[:made]))
		return
	}
	if wantErr != nil {
		require.Error(t, err)
		return
	}
	require.NoError(t, err)
	require.Equal(t, wantTook, took)
	require.True(t, bytes.Equal(want, dst[:made]))
}

func TestTakesAndRefusesWhatTheStandardLibraryDoes(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	var f inflater
	for _, content := range contents(r) {
		content = content[:min(len(content), 20_000)]
		for level := flate.HuffmanOnly; level <= flate.BestCompression; level += 2 {
			packed := deflated(content, level)
			for range 30 {
				src := slices.Clone(packed)
				for range 1 + r.IntN(3) { // mostly near the front, where the codes are
					at := r.IntN(1 + r.IntN(len(src)))
					src[at] ^= 1 << r.IntN(8)
				}
				likeFlate(t, &f, src)
			}
		}
	}
}

func FuzzInflate(f *testing.F) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, content := range contents(r) {
		for _, level := range []int{flate.HuffmanOnly, flate.NoCompression, 1, 9} {
			f.Add(deflated(content[:min(len(content), 3000)], level))
		}
	}
	var in inflater
	f.Fuzz(func(t *testing.T, src []byte) { likeFlate(t, &in, src) })
}

// member is one of gzip, with a header of the flags that are asked for.
func member(content []byte, flags byte) []byte {
	out := []byte{0x1f, 0x8b, 8, flags, 1, 2, 3, 4, 0, 255}
	if flags&gzipHasExtra != 0 {
		out = append(out, 3, 0, 0, 0, 0)
	}
	if flags&gzipHasName != 0 {
		out = append(out, "name\x00"...)
	}
	if flags&gzipHasComment != 0 {
		out = append(out, "comment\x00"...)
	}
	if flags&gzipHasSum != 0 {
		out = binary.LittleEndian.AppendUint16(out, uint16(crc32.ChecksumIEEE(out)))
	}
	out = append(out, deflated(content, 6)...)
	out = binary.LittleEndian.AppendUint32(out, crc32.ChecksumIEEE(content))
	return binary.LittleEndian.AppendUint32(out, uint32(len(content)))
}

func TestReadsEveryMemberOfGzip(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 4))
	var d decompressor
	for flags := range byte(32) {
		want := sample(r, 1+r.IntN(5000))
		src := member(want, flags)
		std, err := gzip.NewReader(bytes.NewReader(src))
		require.NoError(t, err)
		got, err := io.ReadAll(std)
		require.NoError(t, err)
		require.Equal(t, want, got, "a test of the test")
		for range 100 {
			end := r.IntN(len(src))
			_, err := d.gunzip(src[:end], 1<<20)
			require.Error(t, err, "flags %b, %d of %d bytes", flags, end, len(src))
		}
		got, err = d.gunzip(src, 1<<20)
		require.NoError(t, err, "flags %b", flags)
		require.True(t, bytes.Equal(want, got))
		if flags&gzipHasSum != 0 {
			src[4]++
			_, err := d.gunzip(src, 1<<20)
			require.ErrorIs(t, err, errGzipSum)
		}
	}
}

// The size at the end is that of the last member alone, or a lie.
func TestGzipThatIsLongerThanItsEndSaysIsReadWhole(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	var d decompressor
	a, b, c := sample(r, 100_000), sample(r, 1), sample(r, 3)
	got, err := d.all(gzipCodec, slices.Concat(member(a, 0), member(nil, 0), member(b, 0), member(c, 0)), len(a)+4)
	require.NoError(t, err)
	require.True(t, bytes.Equal(slices.Concat(a, b, c), got))
	assert.LessOrEqual(t, cap(got), 2*len(got)+1024)
	_, err = d.all(gzipCodec, slices.Concat(member(a, 0), member(b, 0)), len(a))
	require.ErrorIs(t, err, ErrTooLarge)

	for name, change := range map[string]func([]byte){
		"size":     func(b []byte) { b[len(b)-4]++ },
		"size 0":   func(b []byte) { clear(b[len(b)-4:]) },
		"checksum": func(b []byte) { b[len(b)-8]++ },
		"magic":    func(b []byte) { b[0]++ },
		"method":   func(b []byte) { b[2]++ },
	} {
		src := member(a, 0)
		change(src)
		_, err := d.all(gzipCodec, src, 1<<20)
		require.ErrorIs(t, err, ErrMalformed, name)
	}
}
