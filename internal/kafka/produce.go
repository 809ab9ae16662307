package kafka

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Message is what is appended.
type Message struct{ Key, Value []byte }

// Producer appends to one partition with acks=all on a connection of its own. One call at a time.
type Producer struct {
	c         *Client
	topic     string
	partition int32
	look      bool // ask for the leader before the next try

	mu     sync.Mutex
	conn   *conn
	closed bool
}

// appendLimit is how long one try of an append may take, looking for the leader and opening a connection included.
const appendLimit = 2 * time.Second

// NewProducer makes one; it connects when it is first used, and again after an error.
func (c *Client) NewProducer(topic string, partition int32) *Producer {
	return &Producer{c: c, topic: topic, partition: partition}
}

// Append writes the messages as one batch and gives the offset of the first. It tries once, within ctx and its own time
// limit (2 s); after an error it is unknown whether they were written, unless the error says so (Refused).
func (p *Producer) Append(ctx context.Context, ms []Message) (first int64, err error) {
	if len(ms) == 0 {
		return -1, refused{fmt.Errorf("append to %s/%d: no messages", p.topic, p.partition)}
	}
	ctx, done := p.c.bound(ctx)
	defer done()
	ctx, cancel := context.WithTimeout(ctx, appendLimit)
	defer cancel()
	first, err = p.append(ctx, ms)
	if err == nil {
		return first, nil
	}
	p.look = p.look || LookAgain(err)
	sent := !Refused(err)
	if p.isClosed() {
		err = ErrClosed
	}
	err = p.c.outcome(fmt.Errorf("append to %s/%d: %w", p.topic, p.partition, err))
	if !sent && !Refused(err) {
		err = refused{err}
	}
	return -1, err
}

// append gives errors that are Refused where nothing was sent.
func (p *Producer) append(ctx context.Context, ms []Message) (int64, error) {
	n, err := p.connect(ctx)
	if err != nil {
		return -1, refused{err}
	}
	req := kmsg.NewPtrProduceRequest()
	req.Acks = -1
	if until, ok := ctx.Deadline(); ok {
		req.TimeoutMillis = int32(max(time.Until(until)/time.Millisecond, 1))
	}
	rt, rp := kmsg.NewProduceRequestTopic(), kmsg.NewProduceRequestTopicPartition()
	rt.Topic, rp.Partition = p.topic, p.partition
	rp.Records = recordBatch(ms, time.Now())
	rt.Partitions = append(rt.Partitions, rp)
	req.Topics = append(req.Topics, rt)
	if err := n.pick(req, 3, 12); err != nil {
		return -1, refused{err}
	}
	resp, err := n.exchange(ctx, req, 0)
	if err != nil {
		return -1, err
	}
	return p.read(resp.(*kmsg.ProduceResponse))
}

func (p *Producer) read(r *kmsg.ProduceResponse) (int64, error) {
	for _, b := range r.Brokers {
		p.c.endpoint(b.NodeID, b.Host, b.Port)
	}
	for _, t := range r.Topics {
		for _, rp := range t.Partitions {
			if t.Topic != p.topic || rp.Partition != p.partition {
				continue
			}
			if err := brokerError(rp.ErrorCode, rp.ErrorMessage); err != nil {
				p.c.hint(p.topic, p.partition, rp.CurrentLeader.LeaderID, rp.CurrentLeader.LeaderEpoch)
				if classes[rp.ErrorCode].void {
					err = refused{err}
				}
				return -1, needs(err, "Write", "topic", p.topic)
			}
			return rp.BaseOffset, nil
		}
	}
	return -1, ErrIncomplete
}

// connect gives the connection to the leader.
func (p *Producer) connect(ctx context.Context) (*conn, error) {
	leader, ok := p.c.Leader(p.topic, p.partition)
	if !ok || p.look {
		ts, err := p.c.Topics(ctx, p.topic)
		if err != nil {
			return nil, err
		}
		if err := ts[p.topic].Err; err != nil {
			return nil, err
		}
		if leader, ok = p.c.Leader(p.topic, p.partition); !ok {
			return nil, ErrNotLeader
		}
	}
	addr, ok := p.c.address(leader.Leader)
	if !ok {
		p.look = true
		return nil, ErrUnknownBroker
	}
	p.look = false
	if p.isClosed() {
		return nil, ErrClosed
	}
	n := p.conn // which only connect sets
	if n != nil && n.addr == addr && !n.closed.Load() {
		return n, nil
	}
	if n != nil {
		n.close()
	}
	n, err := p.c.open(ctx, addr)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		n.close()
		return nil, ErrClosed
	}
	p.conn = n
	return n, nil
}

func (p *Producer) isClosed() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// Close drops its connection. An Append under way ends with an error.
func (p *Producer) Close() error {
	p.mu.Lock()
	n := p.conn
	p.closed = true
	p.mu.Unlock()
	if n != nil {
		n.close()
	}
	return nil
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// batchHead is the size in bytes of what stands before the records of a batch; its checksum covers what comes after
// byte batchCRC+4.
const (
	batchHead = 61
	batchSize = 8
	batchCRC  = 17
)

// recordBatch encodes ms as one record batch of format 2, not compressed, with one CreateTime.
func recordBatch(ms []Message, now time.Time) []byte {
	size := batchHead
	for _, m := range ms {
		size += len(m.Key) + len(m.Value) + 32
	}
	b := make([]byte, batchHead, size)
	be := binary.BigEndian
	b[16] = 2                                     // magic
	be.PutUint32(b[12:], ^uint32(0))              // partition leader epoch: the broker's to set
	be.PutUint32(b[23:], uint32(len(ms)-1))       // last offset delta
	be.PutUint64(b[27:], uint64(now.UnixMilli())) // first timestamp
	be.PutUint64(b[35:], uint64(now.UnixMilli())) // largest timestamp
	be.PutUint64(b[43:], ^uint64(0))              // no producer id,
	be.PutUint16(b[51:], ^uint16(0))              // epoch
	be.PutUint32(b[53:], ^uint32(0))              // or sequence
	be.PutUint32(b[57:], uint32(len(ms)))
	var rec []byte
	for i, m := range ms {
		rec = append(rec[:0], 0)                 // attributes
		rec = binary.AppendVarint(rec, 0)        // timestamp delta
		rec = binary.AppendVarint(rec, int64(i)) // offset delta
		rec = appendBytes(rec, m.Key)
		rec = appendBytes(rec, m.Value)
		rec = binary.AppendVarint(rec, 0) // headers
		b = binary.AppendVarint(b, int64(len(rec)))
		b = append(b, rec...)
	}
	be.PutUint32(b[batchSize:], uint32(len(b)-batchSize-4))
	be.PutUint32(b[batchCRC:], crc32.Checksum(b[batchCRC+4:], castagnoli))
	return b
}

// appendBytes appends a nullable field of a record.
func appendBytes(b, v []byte) []byte {
	if v == nil {
		return binary.AppendVarint(b, -1)
	}
	return append(binary.AppendVarint(b, int64(len(v))), v...)
}
