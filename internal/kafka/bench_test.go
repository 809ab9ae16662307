package kafka

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
)

// fill gives a topic of 8 partitions n batches each of 1,000 records of size bytes.
func fill(b *testing.B, c *Client, topic string, n, size int) {
	value := make([]byte, size)
	_, _ = rand.Read(value)
	ms := make([]Message, 1000)
	for i := range ms {
		ms[i].Value = value
	}
	for part := range int32(8) {
		p := c.NewProducer(topic, part)
		for range n {
			_, err := p.Append(b.Context(), ms)
			require.NoError(b, err)
		}
		require.NoError(b, p.Close())
	}
}

// cpu is what this process has used so far.
func cpu() time.Duration {
	var r syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &r)
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// readAll fetches the records of all partitions, n batches each, the next fetch on the wire while this answer is looked
// at, and decodes nothing but the heads of the batches. It gives the bytes of the answers.
func readAll(b *testing.B, c *Client, topic Topic, n int, recycle bool) (bytes int64) {
	f, err := c.OpenFetch(b.Context(), topic.Partitions[0].Leader, FetchSettings{MaxWait: 500 * time.Millisecond, MinBytes: 1, MaxBytes: 8 << 20})
	require.NoError(b, err)
	defer f.Close()
	parts := make([]FetchPart, len(topic.Partitions))
	for i := range parts {
		parts[i] = FetchPart{Topic: topic.Name, TopicID: topic.ID, Partition: int32(i), LeaderEpoch: -1, LastEpoch: -1, MaxBytes: 1 << 20}
	}
	require.NoError(b, f.Send(parts, -1))
	for left := n * 1000 * len(parts); left > 0; {
		a, err := f.Receive()
		require.NoError(b, err)
		for i := range a.Parts {
			p := &a.Parts[i]
			require.NoError(b, p.Err)
			for raw := p.Records; len(raw) >= batchHead; {
				size := batchSize + 4 + int(binary.BigEndian.Uint32(raw[batchSize:]))
				if size > len(raw) {
					break
				}
				records := int64(binary.BigEndian.Uint32(raw[23:])) + 1
				parts[p.Partition].Offset = int64(binary.BigEndian.Uint64(raw)) + records
				left -= int(records)
				raw = raw[size:]
			}
		}
		bytes += int64(a.Bytes)
		if left > 0 {
			require.NoError(b, f.Send(parts, -1))
		}
		if recycle {
			a.Recycle()
		}
	}
	return bytes
}

// BenchmarkFetch measures the raw fetch path: what a million records cost before anything is decoded. On a real broker
// (MARSHAL_BROKERS) cpu-s/Mrec is that of the client alone; the embedded broker is in this process and counted too.
func BenchmarkFetch(b *testing.B) {
	brokers := []string{os.Getenv("MARSHAL_BROKERS")}
	if brokers[0] == "" {
		k := newCluster(b, kfake.NumBrokers(1))
		brokers = k.ListenAddrs()
	}
	c := dial(b, nil, brokers...)
	for _, size := range []int{100, 1024} {
		topic, _, err := c.EnsureTopic(b.Context(), TopicSpec{Name: "scratch-" + rand.Text(), Partitions: 8, Retention: time.Hour, MayCreate: true}, nil)
		require.NoError(b, err)
		n := 125 * 100 / size
		fill(b, c, topic.Name, n, size)
		for _, recycle := range []bool{false, true} {
			b.Run(fmt.Sprintf("size=%d/recycle=%v", size, recycle), func(b *testing.B) {
				readAll(b, c, topic, n, recycle)
				b.ReportAllocs()
				begin, total := cpu(), int64(0)
				for b.Loop() {
					total += readAll(b, c, topic, n, recycle)
				}
				million := float64(n*8) * 1000 * float64(b.N) / 1e6
				b.ReportMetric((cpu()-begin).Seconds()/million, "cpu-s/Mrec")
				b.ReportMetric(million/b.Elapsed().Seconds(), "Mrec/s")
				b.ReportMetric(float64(total)/1e6/b.Elapsed().Seconds(), "MB/s")
			})
		}
		deleteTopic(b, c, topic.Name)
	}
}

// BenchmarkPoll asks for 1,000 partitions, idle and with a record each in ten of them, when the broker remembers what it was asked
// for, and when it does not. One op is one poll; cpu-µs are of the client alone on a real broker (MARSHAL_BROKERS).
func BenchmarkPoll(b *testing.B) {
	const n, busy = 1000, 10
	brokers := []string{os.Getenv("MARSHAL_BROKERS")}
	if brokers[0] == "" {
		k := newCluster(b, kfake.NumBrokers(1))
		brokers = k.ListenAddrs()
	}
	c := dial(b, nil, brokers...)
	topic, _, err := c.EnsureTopic(b.Context(), TopicSpec{Name: "scratch-" + rand.Text(), Partitions: n, Retention: time.Hour, MayCreate: true}, nil)
	require.NoError(b, err)
	defer deleteTopic(b, c, topic.Name)
	for i := range int32(n) {
		p := c.NewProducer(topic.Name, i)
		require.Eventually(b, func() bool { // its leader may have to begin first
			_, err := p.Append(b.Context(), []Message{{nil, make([]byte, 100)}})
			return err == nil
		}, 20*time.Second, 10*time.Millisecond)
		require.NoError(b, p.Close())
	}
	for _, load := range []int{0, busy} {
		for _, remembers := range []bool{false, true} {
			b.Run(fmt.Sprintf("busy=%d/session=%v", load, remembers), func(b *testing.B) {
				f, err := c.OpenFetch(b.Context(), topic.Partitions[0].Leader, FetchSettings{MinBytes: 1, MaxBytes: 8 << 20})
				require.NoError(b, err)
				defer f.Close()
				parts := make([]FetchPart, n)
				for i := range parts {
					parts[i] = FetchPart{Topic: topic.Name, TopicID: topic.ID, Partition: int32(i), Offset: 1, LeaderEpoch: -1, LastEpoch: -1, MaxBytes: 1 << 20}
				}
				sent, got, turn := 0, 0, 0
				poll := func() {
					for i := range load {
						parts[(turn+i)%n].Offset = 0
					}
					if !remembers {
						f.session.byID = !f.session.byID // so that it is begun anew
					}
					require.NoError(b, f.Send(parts, 0))
					a, err := f.Receive()
					require.NoError(b, err)
					sent, got = sent+len(f.conn.out), got+a.Bytes
					for i := range load {
						parts[(turn+i)%n].Offset = 1
					}
					turn += load
					a.Recycle()
				}
				poll()
				sent, got = 0, 0
				begin := cpu()
				for b.Loop() {
					poll()
				}
				b.ReportMetric(float64((cpu()-begin).Microseconds())/float64(b.N), "cpu-µs/op")
				b.ReportMetric(float64(sent)/float64(b.N), "B-sent/op")
				b.ReportMetric(float64(got)/float64(b.N), "B-got/op")
			})
		}
	}
}
