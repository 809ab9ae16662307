package batch

import (
	"slices"
	"testing"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzReader reads any bytes, with the checksum mended where there is a header, so that what lies behind it is reached.
func FuzzReader(f *testing.F) {
	for _, p := range packers {
		raw := plan{records: numbered(5), packer: p}.build()
		f.Add(raw, int64(0), false, int64(7))
		f.Add(slices.Concat(raw, raw), int64(3), true, int64(7))
	}
	f.Add(slices.Concat(transactional(0, 7, 2), marker(2, 7, 0), transactional(3, 7, 2)), int64(0), true, int64(7))
	f.Add(plan{records: []kmsg.Record{{Headers: []kmsg.Header{{Key: "a", Value: []byte("b")}, {Key: ""}}}}}.build(), int64(0), false, int64(1))
	f.Fuzz(func(t *testing.T, raw []byte, from int64, committed bool, producer int64) {
		mended := slices.Clone(raw)
		for rest := mended; len(rest) >= headerSize; {
			b, after, err := cut(rest)
			if err != nil || len(b) < headerSize {
				break
			}
			seal(b)
			rest = after
		}
		const limit = 1 << 20
		o := Options{Topic: "topic", From: max(from, 0), ReadCommitted: committed, Aborted: []Aborted{{producer, 0}}, MaxBatchBytes: limit}
		for _, in := range [][]byte{raw, mended} {
			var r Reader
			readAllMessages(t, &r, in, o)
			for tries := 0; r.Err() != nil; tries++ {
				require.LessOrEqual(t, tries, len(in), "Skip gets on")
				before := r.Next()
				r.Skip()
				require.GreaterOrEqual(t, r.Next(), before)
				for {
					n, ok := r.NextBatch()
					if !ok {
						break
					}
					require.LessOrEqual(t, n, max(limit, len(in))/minRecord)
					require.LessOrEqual(t, r.Size(), max(limit, len(in)))
					for range n {
						if !r.Record(new(sarama.ConsumerMessage)) {
							break
						}
					}
				}
			}
		}
	})
}
