package marshal

import (
	"context"
	"encoding/binary"
	"math"
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/batch"
	"github.com/kafka-marshal/marshal/internal/lease"
)

// BenchmarkHandOut measures what a message costs from its batch on: to be checked, decoded, handed out and committed, one
// partition and one goroutine of the application. No broker is behind it.
func BenchmarkHandOut(b *testing.B) {
	ctx, cancel := context.WithCancel(b.Context()) // as applications have it
	defer cancel()
	for name, read := range map[string]func(c *Consumer, n int) error{
		"Batches": func(c *Consumer, n int) error {
			for batch, err := range c.Batches(ctx) {
				if err != nil {
					return err
				}
				if err := batch.Commit(); err != nil {
					return err
				}
				if n -= len(batch.Messages); n == 0 {
					break
				}
			}
			return nil
		},
		"FetchMessage": func(c *Consumer, n int) error {
			for ; n > 0; n-- {
				msg, err := c.FetchMessage(ctx)
				if err != nil {
					return err
				}
				if err := c.Commit(msg); err != nil {
					return err
				}
			}
			return nil
		},
		"Messages": func(c *Consumer, n int) error {
			for msg, err := range c.Messages(ctx) {
				if err != nil {
					return err
				}
				if err := msg.Commit(); err != nil {
					return err
				}
				if n--; n == 0 {
					break
				}
			}
			return nil
		},
		"ConsumeChannel": func(c *Consumer, n int) error {
			for msg := range c.ConsumeChannel() {
				if err := msg.Commit(); err != nil {
					return err
				}
				if n--; n == 0 {
					break
				}
			}
			return nil
		},
	} {
		b.Run(name, func(b *testing.B) { benchmarkHandOut(b, read) })
	}
}

func benchmarkHandOut(b *testing.B, read func(*Consumer, int) error) {
	b.ReportAllocs()
	m := &Marshaler{c: &KafkaCluster{clock: newClock()}, kick: make(chan struct{}, 1)}
	m.trustMono.Store(math.MaxInt64)
	m.trustWall.Store(math.MaxInt64)
	c := &Consumer{m: m, reading: newReading(m, new(life)), options: NewConsumerOptions()}
	c.fetcher = newFetcher(b.Context(), c)
	cl := &claim{m: m, consumer: c, key: lease.Key{Topic: "t"}}
	cl.reading.Store(c.reading)
	cl.open.Store(true)
	p := newPartition(cl, 0, lease.TopicID{}, 0, c.options.MaxInFlight)
	const each = 5000
	raw := oneBatch(each)
	var decoder batch.Reader
	used := cpuTime()
	for done := 0; done < b.N; done += each {
		next := int64(done)
		binary.BigEndian.PutUint64(raw, uint64(next)) // the base offset is not in the checksum
		decoder.Reset(raw, batch.Options{Topic: "t", From: next})
		_, ok := decoder.NextBatch()
		require.True(b, ok)
		in := intake{p: p, next: next}
		size := decoder.Size()
		require.True(b, in.put(&stored{Cursor: decoder.Detach(), bytes: size}, next+each, 0))
		p.ready()
		require.NoError(b, read(c, each))
	}
	b.ReportMetric(float64(cpuTime()-used)/float64(max(b.N, each)), "cpu-ns/op")
	b.StopTimer()
	require.Zero(b, p.position()%each)
	c.stop()
	c.wg.Wait()
}

// oneBatch is a record batch with values of 100 bytes.
func oneBatch(n int) []byte {
	value := make([]byte, 100)
	b := kmsg.RecordBatch{Magic: 2, LastOffsetDelta: int32(n - 1), NumRecords: int32(n), FirstTimestamp: 1_700_000_000_000, MaxTimestamp: 1_700_000_000_000}
	for i := range n {
		r := kmsg.Record{OffsetDelta: int32(i), Key: []byte("12345678"), Value: value}
		r.Length = int32(len(r.AppendTo(nil)) - 1)
		b.Records = r.AppendTo(b.Records)
	}
	b.Length = int32(49 + len(b.Records))
	return reseal(b.AppendTo(nil))
}
