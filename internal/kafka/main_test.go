package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m,
		// sarama measures each connection; its metrics library ticks on one goroutine for the whole process, for ever.
		goleak.IgnoreTopFunction("github.com/rcrowley/go-metrics.(*meterArbiter).tick"))
}

// newCluster starts an embedded broker.
func newCluster(t testing.TB, opts ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(opts...)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// dial gives a client that is closed at the end, before the cluster.
func dial(t testing.TB, user *sarama.Config, brokers ...string) *Client {
	t.Helper()
	c, err := Dial(within(t, 5*time.Second), "test", brokers, user)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, c.Close()) })
	return c
}

func within(t testing.TB, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// records reads what is in uncompressed batches, each as "offset key=value".
func records(t testing.TB, raw []byte) []string {
	t.Helper()
	var all []string
	for len(raw) > 0 {
		size := 12 + int(binary.BigEndian.Uint32(raw[8:]))
		var b kmsg.RecordBatch
		require.NoError(t, b.ReadFrom(raw[:size]))
		require.EqualValues(t, crc32.Checksum(raw[21:size], crc32.MakeTable(crc32.Castagnoli)), uint32(b.CRC))
		recs := b.Records
		for range b.NumRecords {
			n, w := binary.Varint(recs)
			var r kmsg.Record
			require.NoError(t, r.ReadFrom(recs[:w+int(n)]))
			recs = recs[w+int(n):]
			all = append(all, fmt.Sprintf("%d %s=%s", b.FirstOffset+int64(r.OffsetDelta), r.Key, r.Value))
		}
		require.Empty(t, recs)
		raw = raw[size:]
	}
	return all
}
