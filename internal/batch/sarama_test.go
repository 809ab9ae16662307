package batch

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// pipe is a broker that gives one answer to one request, so that sarama's encoder and decoder can be asked.
type pipe struct{ conn net.Conn }

func (p pipe) Dial(string, string) (net.Conn, error) { return p.conn, nil }

// ask lets call talk to a broker that answers with answer (behind a correlation id), and gives the request's body.
func ask(t testing.TB, answer []byte, call func(*sarama.Broker) error) []byte {
	t.Helper()
	ours, theirs := net.Pipe()
	c := sarama.NewConfig()
	c.Version, c.ApiVersionsRequest = sarama.V1_1_0_0, false
	c.MetricRegistry.UnregisterAll()
	c.Net.Proxy.Enable, c.Net.Proxy.Dialer = true, pipe{ours}
	b := sarama.NewBroker("broker:9092")
	require.NoError(t, b.Open(c))

	var request []byte
	var wg sync.WaitGroup
	wg.Go(func() {
		var size [4]byte
		if _, err := io.ReadFull(theirs, size[:]); err != nil {
			t.Errorf("reading the request: %v", err)
			return
		}
		request = make([]byte, binary.BigEndian.Uint32(size[:]))
		if _, err := io.ReadFull(theirs, request); err != nil {
			t.Errorf("reading the request: %v", err)
			return
		}
		frame := binary.BigEndian.AppendUint32(nil, uint32(4+len(answer)))
		frame = append(frame, request[4:8]...)
		if _, err := theirs.Write(append(frame, answer...)); err != nil {
			t.Errorf("writing the answer: %v", err)
		}
	})
	err := call(b)
	wg.Wait()
	require.NoError(t, err)
	require.NoError(t, b.Close())
	clientID := int(binary.BigEndian.Uint16(request[8:]))
	return request[10+clientID:]
}

// bySarama has a batch encoded by sarama.
func bySarama(t testing.TB, batch *sarama.RecordBatch) []byte {
	request := &sarama.ProduceRequest{Version: 3, RequiredAcks: sarama.WaitForAll, Timeout: 1000}
	request.AddBatch("topic", 1, batch)
	answer := kmsg.NewPtrProduceResponse()
	answer.Version = 3
	body := ask(t, answer.AppendTo(nil), func(b *sarama.Broker) error {
		_, err := b.Produce(request)
		return err
	})
	sent := kmsg.NewPtrProduceRequest()
	sent.Version = 3
	require.NoError(t, sent.ReadFrom(body))
	return sent.Topics[0].Partitions[0].Records
}

// saramaReads decodes a partition's record batches by sarama, without control batches and what is below from.
func saramaReads(t testing.TB, raw []byte, from int64) []*sarama.ConsumerMessage {
	answer := kmsg.NewPtrFetchResponse()
	answer.Version = 4
	topic := kmsg.NewFetchResponseTopic()
	topic.Topic = "topic"
	part := kmsg.NewFetchResponseTopicPartition()
	part.Partition, part.RecordBatches = 1, raw
	topic.Partitions = append(topic.Partitions, part)
	answer.Topics = append(answer.Topics, topic)

	var got *sarama.FetchResponse
	ask(t, answer.AppendTo(nil), func(b *sarama.Broker) (err error) {
		request := &sarama.FetchRequest{Version: 4, MaxBytes: 1 << 20}
		request.AddBlock("topic", 1, from, 1<<20, -1)
		got, err = b.Fetch(request)
		return err
	})
	var out []*sarama.ConsumerMessage
	for _, set := range got.GetBlock("topic", 1).RecordsSet {
		batch := set.RecordBatch
		if batch.Control {
			continue
		}
		for _, r := range batch.Records {
			m := &sarama.ConsumerMessage{Topic: "topic", Partition: 1, Offset: batch.FirstOffset + r.OffsetDelta, Key: r.Key, Value: r.Value, Headers: r.Headers}
			m.Timestamp = batch.FirstTimestamp.Add(r.TimestampDelta)
			if batch.LogAppendTime {
				m.Timestamp = batch.MaxTimestamp
			}
			if m.Offset >= from {
				out = append(out, m)
			}
		}
	}
	return out
}

// sameMessages compares record by record; a header or time that is absent may be so in two ways.
func sameMessages(t testing.TB, want, got []*sarama.ConsumerMessage) {
	t.Helper()
	require.Len(t, got, len(want))
	for i := range want {
		w, g := *want[i], *got[i]
		require.True(t, w.Timestamp.Equal(g.Timestamp), "offset %d: %v is not %v", w.Offset, w.Timestamp, g.Timestamp)
		w.Timestamp, g.Timestamp = time.Time{}, time.Time{}
		if len(w.Headers) == 0 {
			w.Headers = nil
		}
		require.Equal(t, w, g)
	}
}
