package testutil

import (
	"fmt"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Message is what Produce writes.
type Message struct {
	Key, Value []byte // nil arrives as nil
	Headers    []kmsg.Header
	Time       time.Time // Defaults to now
}

// Text is a message without a key.
func Text(value string) Message { return Message{Value: []byte(value)} }

// batchBytes is about how large a batch of Produce and Fill gets. A broker takes 1 MiB.
const batchBytes = 512 << 10

// Produce appends messages to a partition, as few batches as they fit in, and gives the offset of the first.
func (c *Cluster) Produce(topic string, partition int32, ms ...Message) (first int64, err error) {
	first = -1
	for len(ms) > 0 {
		n, size := 0, 0
		for n < len(ms) && (n == 0 || size+len(ms[n].Key)+len(ms[n].Value) < batchBytes) {
			size += len(ms[n].Key) + len(ms[n].Value) + 32
			n++
		}
		at, err := c.append(topic, partition, encode(ms[:n]))
		if err != nil {
			return first, err
		}
		if first < 0 {
			first = at
		}
		ms = ms[n:]
	}
	return first, nil
}

// Fill appends n messages of size bytes each, quickly. A value is the message's number among the n, then a blank, then
// filling; it is as long as that needs where size is less.
func (c *Cluster) Fill(topic string, partition int32, n, size int) (first int64, err error) {
	first = -1
	per := max(1, batchBytes/(size+32))
	ms := make([]Message, 0, min(n, per))
	for i := 0; i < n; {
		for ms = ms[:0]; len(ms) < per && i < n; i++ {
			v := append(strconv.AppendInt(make([]byte, 0, size), int64(i), 10), ' ')
			for len(v) < size {
				v = append(v, 'x')
			}
			ms = append(ms, Message{Value: v})
		}
		at, err := c.append(topic, partition, encode(ms))
		if err != nil {
			return first, err
		}
		if first < 0 {
			first = at
		}
	}
	return first, nil
}

// append writes one batch to the partition's leader.
func (c *Cluster) append(topic string, partition int32, batch []byte) (int64, error) {
	if c.closed.Load() {
		return -1, ErrClosed
	}
	node := c.k.LeaderFor(topic, partition)
	addrs := c.Addrs()
	if node < 0 || int(node) >= len(addrs) {
		return -1, fmt.Errorf("produce to %s/%d: no such partition", topic, partition)
	}
	r := kmsg.NewProduceRequest()
	r.Version, r.Acks, r.TimeoutMillis = 9, -1, int32(patience.Milliseconds())
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	r.Topics = append(r.Topics, t)
	resp, err := c.ask(addrs[node], &r)
	if err != nil {
		return -1, fmt.Errorf("produce to %s/%d: %w", topic, partition, err)
	}
	a := resp.(*kmsg.ProduceResponse).Topics[0].Partitions[0]
	if err := kerr.ErrorForCode(a.ErrorCode); err != nil {
		return -1, fmt.Errorf("produce to %s/%d: %w", topic, partition, err)
	}
	return a.BaseOffset, nil
}

// encode makes one batch of messages.
func encode(ms []Message) []byte {
	now := time.Now()
	at := func(m Message) int64 {
		if m.Time.IsZero() {
			return now.UnixMilli()
		}
		return m.Time.UnixMilli()
	}
	b := kmsg.RecordBatch{
		PartitionLeaderEpoch: -1, Magic: 2, ProducerID: -1, ProducerEpoch: -1, FirstSequence: -1,
		NumRecords: int32(len(ms)), LastOffsetDelta: int32(len(ms) - 1),
		FirstTimestamp: at(ms[0]), MaxTimestamp: at(ms[0]),
	}
	for i, m := range ms {
		b.MaxTimestamp = max(b.MaxTimestamp, at(m))
		b.Records = appendRecord(b.Records, kmsg.Record{
			OffsetDelta: int32(i), TimestampDelta64: at(m) - b.FirstTimestamp,
			Key: m.Key, Value: m.Value, Headers: m.Headers,
		})
	}
	return seal(b.AppendTo(nil))
}
