package marshal

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/IBM/sarama"

	"github.com/kafka-marshal/marshal/internal/batch"
	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
)

const (
	shardWait  = 500 * time.Millisecond // a poll of a shard parks so long at the broker; it delays nothing
	shardBytes = 4 << 20
	shardBatch = 16 << 20 // largest batch of a shard, decompressed; ours are below 1 MiB

	// tailQuiet is how long a quota may keep us from asking for the shard again: leases depend on it. Brokers of today do not read what we
	// ask before the quota allows it; those that leave it to us are not asked in a circle.
	tailQuiet = 100 * time.Millisecond
)

// errOtherLog says that what is read is not the log that was read before: truncated, recreated, or cut off below us.
var errOtherLog = errors.New("the log changed")

// tail reads a shard from an offset on, message by message. Not safe for concurrent use.
type tail struct {
	c         *KafkaCluster
	shard     int32
	topicID   lease.TopicID // of the log that is read: one recreated under the name is another
	conn      *kafka.FetchConn
	detach    func() bool
	batches   batch.Reader
	message   sarama.ConsumerMessage
	next      int64 // the next offset to read
	end       int64 // the high watermark of the newest answer
	start     int64 // the log's start, as the newest answer has it
	epoch     int32 // leader epoch of the newest batch read
	following bool  // something was read before: a log that changed is to be noticed
	least     int32 // bytes that the broker waits for, as long as a poll waits at most
}

// entry is one message of a shard. Its slices are valid during the call that it is passed to.
type entry struct {
	offset, timestamp int64
	key, value        []byte
	brokerTime        bool // timestamp is the broker's append time
}

func newTail(c *KafkaCluster, shard int32) *tail {
	return &tail{c: c, shard: shard, topicID: c.topicID, epoch: -1, least: 1}
}

// seek continues at offset, forgetting what was read.
func (t *tail) seek(offset int64) {
	t.next, t.epoch, t.following = offset, -1, false
	t.close()
}

func (t *tail) close() {
	if t.conn != nil {
		t.detach()
		_ = t.conn.Close() // nothing was promised on a connection that only fetches
		t.conn = nil
	}
}

// bounds asks for the log's start and end.
func (t *tail) bounds(ctx context.Context) (start, end int64, err error) {
	answers := t.c.client.Offsets(ctx, []kafka.OffsetQuery{
		{Topic: t.c.set.topic, Partition: t.shard, At: sarama.OffsetOldest},
		{Topic: t.c.set.topic, Partition: t.shard, At: sarama.OffsetNewest},
	})
	return answers[0].Offset, answers[1].Offset, errors.Join(answers[0].Err, answers[1].Err)
}

// at asks for the first offset at or after a broker timestamp; the log's end where there is none.
func (t *tail) at(ctx context.Context, ms, end int64) (int64, error) {
	a := t.c.client.Offsets(ctx, []kafka.OffsetQuery{{Topic: t.c.set.topic, Partition: t.shard, At: ms}})[0]
	if a.Err == nil && a.Offset < 0 {
		return end, nil
	}
	return a.Offset, a.Err
}

// topics asks for the topic, for a while: who reads tells that nobody answers.
func (t *tail) topics(ctx context.Context) (map[string]kafka.Topic, error) {
	soon, cancel := context.WithTimeout(ctx, callLimit/2)
	defer cancel()
	return t.c.client.Topics(soon, t.c.set.topic)
}

func (t *tail) open(ctx context.Context) error {
	p, ok := t.c.client.Leader(t.c.set.topic, t.shard)
	if !ok || p.Leader < 0 {
		topics, err := t.topics(ctx)
		if err != nil {
			return err
		}
		topic := topics[t.c.set.topic]
		switch {
		case topic.Err != nil:
			return topic.Err
		case topic.ID != t.topicID:
			return fmt.Errorf("%w: topic %s was recreated", errOtherLog, t.c.set.topic)
		case int(t.shard) >= len(topic.Partitions) || topic.Partitions[t.shard].Leader < 0:
			return fmt.Errorf("%s/%d has no leader", t.c.set.topic, t.shard)
		}
		p = topic.Partitions[t.shard]
	}
	conn, err := t.c.client.OpenFetch(ctx, p.Leader, kafka.FetchSettings{MaxWait: shardWait, MinBytes: 1, MaxBytes: shardBytes})
	if err != nil { // the leader may be another by now
		_, again := t.topics(ctx)
		return errors.Join(err, again)
	}
	t.conn = conn
	t.detach = context.AfterFunc(ctx, func() { _ = conn.Close() })
	return nil
}

// poll asks once, waiting up to wait at the broker, and passes on what came. An error leaves the tail closed at the offset
// where it was, to be polled again; errOtherLog means that there is no going on.
func (t *tail) poll(ctx context.Context, wait time.Duration, each func(*entry)) error {
	err := t.pollOnce(ctx, wait, each)
	if err != nil {
		t.close()
	}
	return err
}

func (t *tail) pollOnce(ctx context.Context, wait time.Duration, each func(*entry)) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if t.conn == nil {
		if err := t.open(ctx); err != nil {
			return err
		}
	}
	leader, _ := t.c.client.Leader(t.c.set.topic, t.shard)
	part := kafka.FetchPart{
		Topic: t.c.set.topic, TopicID: t.topicID, Partition: t.shard, Offset: t.next,
		LeaderEpoch: leader.LeaderEpoch, LastEpoch: t.epoch, MaxBytes: shardBytes,
	}
	t.conn.WaitFor(t.least)
	if err := t.conn.Send([]kafka.FetchPart{part}, wait); err != nil {
		return err
	}
	answer, err := t.conn.Receive()
	if err != nil {
		return err
	}
	t.end = -1
	if len(answer.Parts) == 0 {
		pause(ctx, min(answer.Throttle, tailQuiet)) // it says nothing
		return nil
	}
	return t.take(ctx, &answer.Parts[0], each)
}

func (t *tail) take(ctx context.Context, p *kafka.FetchedPart, each func(*entry)) error {
	switch {
	case p.Diverging:
		return fmt.Errorf("%w: truncated below offset %d", errOtherLog, t.next)
	case errors.Is(p.Err, kafka.ErrOutOfRange), errors.Is(p.Err, kafka.ErrUnknownTopicID), errors.Is(p.Err, kafka.ErrUnknownTopic):
		return t.lost(ctx, p.Err)
	case p.Err != nil:
		if kafka.LookAgain(p.Err) {
			if _, err := t.topics(ctx); err != nil {
				return errors.Join(p.Err, err)
			}
		}
		return p.Err
	}
	if t.following && endsBelow(p.Records, t.next) {
		return fmt.Errorf("%w: handed a batch that ends below offset %d", errOtherLog, t.next)
	}
	t.end, t.start = p.HighWatermark, p.LogStart
	t.batches.Reset(p.Records, batch.Options{Topic: t.c.set.topic, Partition: t.shard, From: t.next, MaxBatchBytes: shardBatch})
	for {
		_, ok := t.batches.NextBatch()
		if !ok {
			break
		}
		for {
			t.message = sarama.ConsumerMessage{}
			if !t.batches.Record(&t.message) {
				break
			}
			each(&entry{
				offset: t.message.Offset, timestamp: t.message.Timestamp.UnixMilli(), key: t.message.Key, value: t.message.Value,
				brokerTime: t.batches.LogAppendTime(),
			})
			t.following = true
		}
	}
	if e := t.batches.LastEpoch(); e >= 0 {
		t.epoch = e
	}
	t.next = max(t.next, t.batches.Next())
	var bad *batch.Error
	if errors.As(t.batches.Err(), &bad) { // nothing of ours: our batches are small and uncompressed. It must not stop the replay
		t.c.report.lasting(fmt.Sprint("batch", t.shard), nil, fmt.Sprintf("marshal: %s/%d: skipping a batch that cannot be read: %v", t.c.set.topic, t.shard, bad))
		t.next = max(t.next, bad.Next)
	}
	return nil
}

// lost decides what an offset that the broker does not have means.
func (t *tail) lost(ctx context.Context, cause error) error {
	topics, err := t.topics(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	topic := topics[t.c.set.topic]
	if topic.Err == nil && topic.ID != t.topicID || errors.Is(topic.Err, kafka.ErrUnknownTopic) {
		return fmt.Errorf("%w: topic %s was deleted or recreated", errOtherLog, t.c.set.topic)
	}
	if topic.Err != nil { // who may not know of a topic hears that its id is unknown
		return topic.Err
	}
	if !errors.Is(cause, kafka.ErrOutOfRange) {
		return cause
	}
	start, end, err := t.bounds(ctx)
	if err != nil {
		return errors.Join(cause, err)
	}
	if t.next < start {
		return fmt.Errorf("%w: it starts at %d now, offset %d is gone", errOtherLog, start, t.next)
	}
	if t.next > end && t.epoch < 0 { // nothing was read that could be gone: we are where the log ended when it was asked for
		return fmt.Errorf("%w: it ends at %d now, before offset %d", errOtherLog, end, t.next)
	}
	if t.next > end { // a follower may lag behind what we read; the epochs tell a log that was cut
		return fmt.Errorf("%s/%d: waiting for offset %d, the log ends at %d: %w", t.c.set.topic, t.shard, t.next, end, cause)
	}
	return cause
}

// behindFor is how long a log may end before what it had when its end was asked for: a broker that leads it since a moment ago may not
// have heard of all of it. Afterwards it was cut.
const behindFor = 2 * time.Second

// through reads everything below to, as far as there still is anything: holes and markers may make the end invisible.
func (t *tail) through(ctx context.Context, to int64, each func(*entry)) error {
	last := time.Now() // when something came
	for t.next < to {
		before := t.next
		if err := t.poll(ctx, 0, each); err != nil {
			return err
		}
		switch {
		case t.next > before:
			last = time.Now()
		case t.end >= to: // the broker has nothing more below its end
			t.next = to
		case t.end >= 0 && time.Since(last) > behindFor:
			return fmt.Errorf("%s/%d: it ends at %d, and ended behind %d before", t.c.set.topic, t.shard, t.end, to)
		default: // it does not have all of the log yet, or is throttling us
			pause(ctx, retryPause())
		}
	}
	return nil
}

// use is what a shard is used for.
type use struct {
	original bool // by the original Marshal, not long ago
	foreign  bool // by somebody else
}

// useSince looks at the shard's first records, and at all that are not older than since.
func (t *tail) useSince(ctx context.Context, since time.Time) (u use, err error) {
	start, end, err := t.bounds(ctx)
	if err != nil || start == end {
		return u, err
	}
	look := func(e *entry) {
		switch original := writtenByOriginal(e.value); {
		case original && e.timestamp >= since.UnixMilli():
			u.original = true
		case !original && (len(e.value) < 2 || e.value[0] != 0):
			u.foreign = true
		}
	}
	t.seek(start)
	if err := t.poll(ctx, 0, look); err != nil {
		return u, err
	}
	from, err := t.at(ctx, since.UnixMilli(), end)
	if err != nil {
		return u, err
	}
	t.seek(from)
	return u, t.through(ctx, end, look)
}

// writtenByOriginal tells whether a record has the form of the original Marshal's: a type, and fields joined by slashes.
func writtenByOriginal(value []byte) bool {
	kind, _, ok := bytes.Cut(value, []byte("/"))
	switch string(kind) {
	case "Heartbeat", "ClaimingPartition", "ReleasingPartition", "ClaimingMessages":
		return ok
	}
	return false
}

// endsBelow tells whether the first batch of raw lies wholly below offset.
func endsBelow(raw []byte, offset int64) bool {
	const header = 27 // base offset at 0, last offset delta at 23
	if len(raw) < header {
		return false
	}
	base, delta := int64(binary.BigEndian.Uint64(raw)), int32(binary.BigEndian.Uint32(raw[23:]))
	return base+int64(delta) < offset
}
