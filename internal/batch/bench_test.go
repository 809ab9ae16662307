package batch

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// jsonRecords are what applications write: values of about 100 bytes that are like each other.
func jsonRecords(n int, headers bool) []kmsg.Record {
	r := rand.New(rand.NewPCG(1, 1))
	out := make([]kmsg.Record, n)
	for i := range out {
		value := fmt.Sprintf(`{"id":%08d,"user":%06d,"action":"page.view","ms":%05d,"url":"https://example.com/p/%06d"}`,
			i, r.IntN(1e6), r.IntN(1e5), r.IntN(1e6))
		out[i] = kmsg.Record{OffsetDelta: int32(i), TimestampDelta64: int64(i / 10), Key: fmt.Appendf(nil, "%08d", r.IntN(1e8)), Value: []byte(value)}
		if headers {
			out[i].Headers = []kmsg.Header{{Key: "trace", Value: []byte("0123456789abcdef")}, {Key: "kind", Value: []byte("view")}}
		}
	}
	return out
}

// BenchmarkReader reads batches of 5,000 records with values of 100 bytes into a slab of messages, as a consumer does.
// The slab is reused: what it costs to make one is not in the figures. One op is one record.
func BenchmarkReader(b *testing.B) {
	for _, name := range []string{"none", "gzip", "snappy", "snappyXerial", "lz4", "zstd", "zstdStream"} {
		b.Run(name, func(b *testing.B) { benchmarkReader(b, plan{records: jsonRecords(5000, false), packer: packers[name]}) })
	}
	b.Run("headers", func(b *testing.B) { benchmarkReader(b, plan{records: jsonRecords(5000, true)}) })
	b.Run("small batches", func(b *testing.B) { benchmarkReader(b, plan{records: jsonRecords(10, false)}) })
}

func benchmarkReader(b *testing.B, p plan) {
	p.FirstTimestamp = 1_700_000_000_000
	raw := p.build()
	slab := make([]sarama.ConsumerMessage, len(p.records))
	var r Reader
	b.ReportAllocs()
	b.ResetTimer()
	for done := 0; done < b.N; done += len(slab) {
		r.Reset(raw, opts)
		for {
			if _, ok := r.NextBatch(); !ok {
				break
			}
			clear(slab)
			i := 0
			for i < len(slab) && r.Record(&slab[i]) {
				i++
			}
			if i != len(slab) {
				b.Fatal(i, r.Err())
			}
		}
	}
}
