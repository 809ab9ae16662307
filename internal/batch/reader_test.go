package batch

import (
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func offsets(ms []*sarama.ConsumerMessage) (out []int64) {
	for _, m := range ms {
		out = append(out, m.Offset)
	}
	return out
}

func span(from, to int64) (out []int64) {
	for o := from; o < to; o++ {
		out = append(out, o)
	}
	return out
}

var opts = Options{Topic: "topic", Partition: 1}

// Whatever a batch holds and however it is compressed, this package and sarama read the same.
func TestReadsWhatSaramaReads(t *testing.T) {
	for name, p := range packers {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(1, uint64(len(name))))
			var reader Reader
			for range 15 {
				var raw []byte
				base := r.Int64N(1 << 40)
				end := base
				for range 1 + r.IntN(4) {
					b := plan{records: randomRecords(r, 1+r.IntN(300)), packer: p}
					b.FirstOffset, b.FirstTimestamp, b.MaxTimestamp = end, 1_700_000_000_000+r.Int64N(1000), 1_700_000_200_000
					b.LastOffsetDelta = b.records[len(b.records)-1].OffsetDelta + r.Int32N(3)
					if r.IntN(3) == 0 {
						b.Attributes |= attrLogAppendTime
					}
					raw = append(raw, b.build()...)
					end += int64(b.LastOffsetDelta) + 1
				}
				o := opts
				o.From = base + r.Int64N(400) - 100
				o.From = max(o.From, 0)
				sameMessages(t, saramaReads(t, raw, o.From), readAllMessages(t, &reader, raw, o))
				require.NoError(t, reader.Err())
				require.Equal(t, max(end, o.From), reader.Next())
			}
		})
	}
}

func TestReadsWhatSaramaWrites(t *testing.T) {
	for c, name := range map[sarama.CompressionCodec]string{sarama.CompressionNone: "none", sarama.CompressionGZIP: "gzip",
		sarama.CompressionSnappy: "snappy", sarama.CompressionLZ4: "lz4", sarama.CompressionZSTD: "zstd"} {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(2, uint64(c)))
			first := time.UnixMilli(1_700_000_000_000)
			b := &sarama.RecordBatch{Version: 2, Codec: c, CompressionLevel: sarama.CompressionLevelDefault, FirstOffset: 5, ProducerID: -1,
				FirstTimestamp: first, MaxTimestamp: first}
			var want []*sarama.ConsumerMessage
			for _, rec := range randomRecords(r, 1000) {
				sr := &sarama.Record{Key: rec.Key, Value: rec.Value, OffsetDelta: int64(rec.OffsetDelta), TimestampDelta: time.Duration(rec.TimestampDelta64) * time.Millisecond}
				for _, h := range rec.Headers {
					sr.Headers = append(sr.Headers, &sarama.RecordHeader{Key: []byte(h.Key), Value: h.Value})
				}
				b.Records = append(b.Records, sr)
				b.LastOffsetDelta = rec.OffsetDelta
				want = append(want, &sarama.ConsumerMessage{Topic: "topic", Partition: 1, Offset: 5 + sr.OffsetDelta, Key: sr.Key, Value: sr.Value,
					Headers: sr.Headers, Timestamp: first.Add(sr.TimestampDelta)})
			}
			var reader Reader
			sameMessages(t, want, readAllMessages(t, &reader, bySarama(t, b), opts))
			require.NoError(t, reader.Err())
		})
	}
}

func TestNullAndEmptyAreToldApart(t *testing.T) {
	raw := plan{records: []kmsg.Record{
		{OffsetDelta: 0},
		{OffsetDelta: 1, Key: []byte{}, Value: []byte{}},
		{OffsetDelta: 2, Key: []byte("k"), Headers: []kmsg.Header{{Key: "a"}, {Key: "", Value: []byte{}}}},
	}}.build()
	var r Reader
	ms := readAllMessages(t, &r, raw, opts)
	require.Len(t, ms, 3)
	assert.Nil(t, ms[0].Key)
	assert.Nil(t, ms[0].Value)
	assert.Nil(t, ms[0].Headers, "allocated only when present")
	assert.Equal(t, []byte{}, ms[1].Key)
	assert.Equal(t, []byte{}, ms[1].Value)
	assert.Equal(t, []byte("k"), ms[2].Key)
	assert.Nil(t, ms[2].Value)
	assert.Equal(t, []*sarama.RecordHeader{{Key: []byte("a")}, {Key: []byte{}, Value: []byte{}}}, ms[2].Headers)
}

func TestLogAppendTimeIsTheTimeOfEachRecord(t *testing.T) {
	b := plan{records: numbered(3)}
	b.FirstTimestamp, b.MaxTimestamp = 1000, 5000
	var r Reader
	for i, m := range readAllMessages(t, &r, b.build(), opts) {
		assert.Equal(t, time.UnixMilli(1000+int64(i)), m.Timestamp)
	}
	assert.False(t, r.LogAppendTime())
	b.Attributes = attrLogAppendTime
	for _, m := range readAllMessages(t, &r, b.build(), opts) {
		assert.Equal(t, time.UnixMilli(5000), m.Timestamp)
	}
	assert.True(t, r.LogAppendTime())
	b.Attributes, b.FirstTimestamp = 0, -10
	for _, m := range readAllMessages(t, &r, b.build(), opts) {
		assert.Zero(t, m.Timestamp, "no time")
	}
}

func TestRecordsBelowFromAreLeftOut(t *testing.T) {
	first, second := plan{records: numbered(10)}, plan{records: numbered(10)}
	first.FirstOffset, second.FirstOffset = 100, 110
	raw := append(first.build(), second.build()...)
	var r Reader
	for _, from := range []int64{0, 100, 101, 109, 110, 115, 119, 120, 500} {
		o := opts
		o.From = from
		require.Equal(t, span(max(from, 100), 120), offsets(readAllMessages(t, &r, raw, o)), "from %d", from)
		require.NoError(t, r.Err())
		require.Equal(t, max(from, 120), r.Next())
	}
	o := opts
	o.From = 107
	r.Reset(raw, o)
	n, ok := r.NextBatch()
	require.True(t, ok)
	assert.Equal(t, 3, n, "what is below From is not announced")
}

// Compaction leaves batches whose last offset is beyond their last record, and empty ones.
func TestHolesCountAsRead(t *testing.T) {
	b := plan{records: numbered(3)}
	b.FirstOffset, b.LastOffsetDelta, b.PartitionLeaderEpoch = 10, 9, 4
	empty := plan{}
	empty.FirstOffset, empty.LastOffsetDelta, empty.PartitionLeaderEpoch = 20, 4, 5
	var r Reader
	assert.Equal(t, span(10, 13), offsets(readAllMessages(t, &r, append(b.build(), empty.build()...), opts)))
	assert.Equal(t, int64(25), r.Next())
	assert.Equal(t, int32(5), r.LastEpoch())
	require.NoError(t, r.Err())

	r.Reset(b.build(), opts)
	n, ok := r.NextBatch()
	require.True(t, ok)
	assert.Equal(t, 3, n)
	var m sarama.ConsumerMessage
	for want := range int64(2) {
		require.True(t, r.Record(&m))
		assert.Equal(t, 11+want, r.Next())
	}
	require.True(t, r.Record(&m))
	assert.Equal(t, int64(20), r.Next(), "after the last record nothing more is to come of the batch")
}

func TestNextBatchPassesOverTheRestOfABatch(t *testing.T) {
	first, second := plan{records: numbered(10)}, plan{records: numbered(10)}
	second.FirstOffset = 10
	var r Reader
	r.Reset(append(first.build(), second.build()...), opts)
	_, ok := r.NextBatch()
	require.True(t, ok)
	require.Positive(t, r.Size())
	var m sarama.ConsumerMessage
	require.True(t, r.Record(&m))
	_, ok = r.NextBatch()
	require.True(t, ok)
	assert.Equal(t, int64(10), r.Next())
	require.True(t, r.Record(&m))
	assert.Equal(t, int64(10), m.Offset)
}

func TestATrailingPartialBatchIsIgnored(t *testing.T) {
	whole := plan{records: numbered(5)}.build()
	second := plan{records: numbered(5)}
	second.FirstOffset = 5
	cut := second.build()
	var r Reader
	for n := range cut {
		require.Equal(t, span(0, 5), offsets(readAllMessages(t, &r, append(slices.Clone(whole), cut[:n]...), opts)))
		require.NoError(t, r.Err())
		require.Equal(t, int64(5), r.Next())
	}
	assert.Empty(t, readAllMessages(t, &r, nil, opts))
	require.NoError(t, r.Err())
	assert.Equal(t, int32(-1), r.LastEpoch())
}

// marker is the control batch that ends a transaction.
func marker(offset, producer int64, kind byte) []byte {
	b := plan{records: []kmsg.Record{{Key: []byte{0, 0, 0, kind}, Value: []byte{0, 0, 0, 0, 0, 0}}}}
	b.FirstOffset, b.ProducerID, b.Attributes = offset, producer, attrTransactional|attrControl
	return b.build()
}

func transactional(offset, producer int64, n int) []byte {
	b := plan{records: numbered(n), packer: packers["lz4"]}
	b.FirstOffset, b.ProducerID, b.Attributes = offset, producer, attrTransactional
	return b.build()
}

func TestControlBatchesAreNeverHandedOut(t *testing.T) {
	raw := slices.Concat(transactional(0, 7, 2), marker(2, 7, 1), transactional(3, 7, 2), marker(5, 7, 0))
	var r Reader
	assert.Equal(t, []int64{0, 1, 3, 4}, offsets(readAllMessages(t, &r, raw, opts)))
	assert.Equal(t, int64(6), r.Next())
}

func TestReadCommittedLeavesOutAbortedTransactions(t *testing.T) {
	raw := slices.Concat(
		transactional(0, 7, 2),  // aborted
		transactional(2, 8, 2),  // committed
		transactional(4, 7, 2),  // aborted, same transaction
		marker(6, 7, 0),         //
		transactional(7, 7, 2),  // the producer's next one, committed
		marker(9, 7, 1),         //
		marker(10, 8, 1),        //
		transactional(11, 9, 1), // aborted
		transactional(12, 7, 1), // aborted
		marker(13, 7, 0),        //
		transactional(14, 9, 1), // aborted
		plan{RecordBatch: kmsg.RecordBatch{FirstOffset: 15, ProducerID: 9}, records: numbered(1)}.build(), // not transactional
		marker(16, 9, 0), //
	)
	o := opts
	o.ReadCommitted = true
	o.Aborted = []Aborted{{7, 12}, {7, 0}, {9, 11}} // unsorted
	given := slices.Clone(o.Aborted)
	var r Reader
	want := []int64{2, 3, 7, 8, 15}
	assert.Equal(t, want, offsets(readAllMessages(t, &r, raw, o)))
	require.NoError(t, r.Err())
	assert.Equal(t, int64(17), r.Next())
	assert.Equal(t, given, o.Aborted, "the list is the caller's")
	assert.Equal(t, want, offsets(readAllMessages(t, &r, raw, o)), "nothing is left of the first reading")

	o.Aborted = nil
	assert.Len(t, readAllMessages(t, &r, raw, o), 12, "nothing is aborted that the answer does not name")
	o.Aborted, o.ReadCommitted = given, false
	assert.Len(t, readAllMessages(t, &r, raw, o), 12)
}

func TestABadBatchIsAnErrorAndCanBeSkipped(t *testing.T) {
	good := plan{records: numbered(3)}.build()
	after := plan{records: numbered(3)}
	after.FirstOffset = 20
	bad := func(change func(*plan)) []byte {
		p := plan{records: numbered(3)}
		p.FirstOffset, p.LastOffsetDelta, p.PartitionLeaderEpoch = 10, 4, 3
		change(&p)
		return p.build()
	}
	edit := func(change func([]byte)) []byte {
		b := bad(func(*plan) {})
		change(b)
		return b
	}
	sealed := func(change func([]byte)) []byte { return seal(edit(change)) }
	lastByte := func(b []byte) { b[len(b)-1] ^= 1 }
	for name, c := range map[string]struct {
		raw    []byte
		reason error
		read   []int64 // of the bad batch
		next   int64
	}{
		"checksum":              {edit(lastByte), ErrChecksum, nil, 20},
		"checksum of attrs":     {edit(func(b []byte) { b[atLastDelta+3] = 200 }), ErrChecksum, nil, 20},
		"magic 0":               {edit(func(b []byte) { b[atMagic] = 0 }), ErrMagic, nil, 20},
		"magic 1":               {edit(func(b []byte) { b[atMagic] = 1 }), ErrMagic, nil, 20},
		"magic 3":               {edit(func(b []byte) { b[atMagic] = 3 }), ErrMagic, nil, 20},
		"codec 5":               {sealed(func(b []byte) { b[atAttrs+1] |= 5 }), ErrCodec, nil, 15},
		"codec 7":               {sealed(func(b []byte) { b[atAttrs+1] |= 7 }), ErrCodec, nil, 15},
		"not gzip":              {sealed(func(b []byte) { b[atAttrs+1] |= 1 }), ErrMalformed, nil, 15},
		"not snappy":            {sealed(func(b []byte) { b[atAttrs+1] |= 2 }), ErrMalformed, nil, 15},
		"not lz4":               {sealed(func(b []byte) { b[atAttrs+1] |= 3 }), ErrMalformed, nil, 15},
		"not zstd":              {sealed(func(b []byte) { b[atAttrs+1] |= 4 }), ErrMalformed, nil, 15},
		"negative count":        {sealed(func(b []byte) { b[atCount] = 0xff }), ErrMalformed, nil, 20},
		"absurd count":          {sealed(func(b []byte) { b[atCount] = 0x7f }), ErrMalformed, nil, 15},
		"negative last delta":   {sealed(func(b []byte) { b[atLastDelta] = 0xff }), ErrMalformed, nil, 20},
		"count too low":         {bad(func(p *plan) { p.NumRecords = 2 }), ErrMalformed, []int64{10}, 15},
		"count too high":        {bad(func(p *plan) { p.NumRecords = 4; p.trail = []byte{0, 0, 0, 0, 0, 0, 0} }), ErrMalformed, []int64{10, 11, 12}, 15},
		"offsets that repeat":   {bad(func(p *plan) { p.records[1].OffsetDelta = 0 }), ErrMalformed, []int64{10}, 15},
		"offset beyond last":    {bad(func(p *plan) { p.records[2].OffsetDelta = 5 }), ErrMalformed, []int64{10, 11}, 15},
		"negative offset delta": {bad(func(p *plan) { p.records[0].OffsetDelta = -1 }), ErrMalformed, nil, 15},
		"trailing bytes":        {bad(func(p *plan) { p.trail = []byte{0} }), ErrMalformed, []int64{10, 11}, 15},
	} {
		t.Run(name, func(t *testing.T) {
			var r Reader
			raw := slices.Concat(good, c.raw, after.build())
			require.Equal(t, append(span(0, 3), c.read...), offsets(readAllMessages(t, &r, raw, opts)))
			var e *Error
			require.ErrorAs(t, r.Err(), &e)
			require.ErrorIs(t, r.Err(), c.reason)
			require.ErrorContains(t, r.Err(), "record batch at offset 10: ")
			assert.Equal(t, int64(10), e.Offset)
			assert.Equal(t, c.next, e.Next)
			assert.LessOrEqual(t, r.Next(), e.Next)

			_, ok := r.NextBatch()
			require.False(t, ok, "it stands until Skip")
			require.False(t, r.Record(new(sarama.ConsumerMessage)))
			r.Skip()
			require.NoError(t, r.Err())
			assert.Equal(t, c.next, r.Next())
			if c.reason != ErrMagic {
				assert.Equal(t, int32(3), r.LastEpoch(), "a position behind a batch goes with its epoch")
			}
			n, ok := r.NextBatch()
			require.True(t, ok)
			require.Equal(t, 3, n)
			var m sarama.ConsumerMessage
			require.True(t, r.Record(&m))
			assert.Equal(t, int64(20), m.Offset)

			o := opts
			o.From = e.Next
			assert.Equal(t, span(20, 23), offsets(readAllMessages(t, &r, after.build(), o)), "an answer from Next on")
			require.NoError(t, r.Err())
		})
	}
}

// Who asks again from an Error's Next must get on, even where nothing of the batch's header is true.
func TestABadBatchAtTheEndIsPassedByAtLeastOneOffset(t *testing.T) {
	for name, change := range map[string]func([]byte){
		"length too small": func(b []byte) { b[atLength+3] = 2 },
		"negative length":  func(b []byte) { b[atLength] = 0xff },
		"short header":     func(b []byte) { b[atLength+3] = 20 },
		"checksum":         func(b []byte) { b[atLastDelta+3] = 0; b[len(b)-1] ^= 1 },
		"negative base":    func(b []byte) { b[0] = 0xff },
		"largest base":     func(b []byte) { copy(b, []byte{0x7f, 255, 255, 255, 255, 255, 255, 255}) },
	} {
		p := plan{records: numbered(10)}
		p.FirstOffset = 100
		raw := p.build()
		change(raw)
		if name == "short header" {
			raw = raw[:lengthEnd+20]
		}
		o := opts
		o.From = 105
		var r Reader
		require.Empty(t, readAllMessages(t, &r, raw, o), name)
		var e *Error
		require.ErrorAs(t, r.Err(), &e, name)
		assert.Greater(t, e.Next, int64(105), name)
		assert.Equal(t, int64(105), r.Next(), name)
		r.Skip()
		_, ok := r.NextBatch()
		assert.False(t, ok)
		assert.NoError(t, r.Err())
	}
}

func TestTheLastOffsets(t *testing.T) {
	p := plan{records: numbered(2)}
	p.FirstOffset = math.MaxInt64 - 2
	var r Reader
	assert.Equal(t, []int64{math.MaxInt64 - 2, math.MaxInt64 - 1}, offsets(readAllMessages(t, &r, p.build(), opts)))
	assert.Equal(t, int64(math.MaxInt64), r.Next())
	require.NoError(t, r.Err())

	p.FirstOffset = math.MaxInt64 - 1
	assert.Empty(t, readAllMessages(t, &r, p.build(), opts))
	require.ErrorIs(t, r.Err(), ErrMalformed, "no offset lies behind it")
}

func TestMessagesOfACompressedBatchDoNotShareMemoryWithTheNext(t *testing.T) {
	for name, p := range packers {
		if p.codec == uncompressed {
			continue
		}
		var r Reader
		first := readAllMessages(t, &r, plan{records: numbered(100), packer: p}.build(), opts)
		other := numbered(100)
		for i := range other {
			other[i].Value = []byte{0xee, 0xee}
		}
		readAllMessages(t, &r, plan{records: other, packer: p}.build(), opts)
		for i, m := range first {
			require.Equal(t, []byte{byte(i >> 8), byte(i)}, m.Value, name)
		}
	}
}

func TestErrorsAreNilWhenThereAreNone(t *testing.T) {
	var r Reader
	r.Reset(nil, opts)
	assert.True(t, r.Err() == nil)
	var e *Error
	assert.False(t, errors.As(r.Err(), &e))
}
