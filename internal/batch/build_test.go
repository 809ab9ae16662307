package batch

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"math/rand/v2"
	"testing"

	"github.com/IBM/sarama"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// packer compresses as one kind of client does.
type packer struct {
	codec codec
	pack  func([]byte) []byte
}

// packers are the ways in which a batch can come.
var packers = map[string]packer{
	"none":         {uncompressed, func(b []byte) []byte { return b }},
	"gzip":         {gzipCodec, packGzip},
	"snappy":       {snappyCodec, func(b []byte) []byte { return s2.EncodeSnappy(nil, b) }},
	"snappyXerial": {snappyCodec, packXerial},
	"lz4":          {lz4Codec, func(b []byte) []byte { return packLZ4(b, lz4.BlockSizeOption(lz4.Block64Kb)) }},
	"lz4Large":     {lz4Codec, func(b []byte) []byte { return packLZ4(b, lz4.BlockSizeOption(lz4.Block4Mb), lz4.ChecksumOption(true)) }},
	"zstd":         {zstdCodec, packZstd},
	"zstdStream":   {zstdCodec, packZstdStream},
}

func packGzip(b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	write(w, b)
	return out.Bytes()
}

func packLZ4(b []byte, o ...lz4.Option) []byte {
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	if err := w.Apply(o...); err != nil {
		panic(err)
	}
	write(w, b)
	return out.Bytes()
}

func packXerial(b []byte) []byte {
	out := append(append([]byte(nil), xerialMagic...), 0, 0, 0, 1, 0, 0, 0, 1)
	for len(b) > 0 {
		n := min(len(b), 32<<10) // as Java does
		block := s2.EncodeSnappy(nil, b[:n])
		out, b = append(binary.BigEndian.AppendUint32(out, uint32(len(block))), block...), b[n:]
	}
	return out
}

func packZstd(b []byte) []byte {
	w, err := zstd.NewWriter(nil, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	return w.EncodeAll(b, nil)
}

// packZstdStream writes a frame that does not tell its size, as Java does.
func packZstdStream(b []byte) []byte {
	var out bytes.Buffer
	w, err := zstd.NewWriter(&out, zstd.WithEncoderConcurrency(1))
	if err != nil {
		panic(err)
	}
	for len(b) > 0 {
		n := min(len(b), 40_000)
		if _, err := w.Write(b[:n]); err != nil {
			panic(err)
		}
		if err := w.Flush(); err != nil {
			panic(err)
		}
		b = b[n:]
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return out.Bytes()
}

func write(w interface {
	Write([]byte) (int, error)
	Close() error
}, b []byte) {
	if _, err := w.Write(b); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
}

// plan is a batch to be built. Zero values make an ordinary one.
type plan struct {
	kmsg.RecordBatch
	records []kmsg.Record
	packer  packer
	trail   []byte // behind the last record, before compression
}

// build encodes a batch by franz-go's protocol package. LastOffsetDelta is that of the last record unless it is set.
func (p plan) build() []byte {
	var recs []byte
	for _, r := range p.records {
		recs = append(recs, encodeRecord(r)...)
	}
	recs = append(recs, p.trail...)
	if p.packer.pack != nil {
		recs = p.packer.pack(recs)
	}
	b := p.RecordBatch
	b.Attributes |= int16(p.packer.codec)
	if b.Magic == 0 {
		b.Magic = 2
	}
	if n := len(p.records); n > 0 && b.LastOffsetDelta == 0 {
		b.LastOffsetDelta = p.records[n-1].OffsetDelta
	}
	if b.NumRecords == 0 {
		b.NumRecords = int32(len(p.records))
	}
	b.Records = recs
	b.Length = int32(headerSize - lengthEnd + len(recs))
	return seal(b.AppendTo(nil))
}

// seal puts the checksum in that belongs to the bytes.
func seal(b []byte) []byte {
	binary.BigEndian.PutUint32(b[atChecksum:], crc32.Checksum(b[atAttrs:], castagnoli))
	return b
}

func encodeRecord(r kmsg.Record) []byte {
	r.Length = int32(len(r.AppendTo(nil)) - 1) // a length of 0 takes one byte
	return r.AppendTo(nil)
}

// numbered makes n records with offset deltas from 0, each with a value of its own.
func numbered(n int) []kmsg.Record {
	out := make([]kmsg.Record, n)
	for i := range out {
		out[i] = kmsg.Record{OffsetDelta: int32(i), TimestampDelta64: int64(i), Key: []byte{byte(i)}, Value: []byte{byte(i >> 8), byte(i)}}
	}
	return out
}

// randomRecords have every shape: null and empty keys and values, headers, holes between offsets, times that go back.
func randomRecords(r *rand.Rand, n int) []kmsg.Record {
	blob := func(most int) []byte {
		switch r.IntN(5) {
		case 0:
			return nil
		case 1:
			return []byte{}
		}
		b := make([]byte, r.IntN(most))
		for i := range b {
			b[i] = byte(r.IntN(4))
		}
		return b
	}
	out := make([]kmsg.Record, n)
	delta := int32(0)
	for i := range out {
		if r.IntN(10) == 0 {
			delta += r.Int32N(50)
		}
		out[i] = kmsg.Record{OffsetDelta: delta, TimestampDelta64: int64(r.IntN(100_000)), Key: blob(40), Value: blob(300)}
		if r.IntN(3) == 0 {
			for range r.IntN(5) {
				out[i].Headers = append(out[i].Headers, kmsg.Header{Key: string(blob(10)), Value: blob(20)})
			}
		}
		delta++
	}
	return out
}

// readAllMessages reads everything, and checks what must hold on any bytes.
func readAllMessages(t testing.TB, r *Reader, raw []byte, o Options) []*sarama.ConsumerMessage {
	t.Helper()
	r.Reset(raw, o)
	var out []*sarama.ConsumerMessage
	next := r.Next()
	require.GreaterOrEqual(t, next, o.From)
	for {
		n, ok := r.NextBatch()
		require.GreaterOrEqual(t, r.Next(), next)
		next = r.Next()
		if !ok {
			require.Zero(t, n)
			require.Zero(t, r.Size())
			return out
		}
		require.Positive(t, n)
		for got := 0; ; got++ {
			m := new(sarama.ConsumerMessage)
			if !r.Record(m) {
				require.Equal(t, sarama.ConsumerMessage{}.Offset, m.Offset)
				break
			}
			require.Less(t, got, n, "more records than announced")
			require.GreaterOrEqual(t, m.Offset, next, "offsets rise")
			require.Greater(t, r.Next(), m.Offset)
			next = r.Next()
			out = append(out, m)
		}
		require.GreaterOrEqual(t, r.Next(), next)
	}
}
