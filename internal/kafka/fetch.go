package kafka

import (
	"context"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// FetchSettings are what a fetch connection asks for.
type FetchSettings struct {
	MaxWait       time.Duration
	MinBytes      int32
	MaxBytes      int32 // of an answer
	ReadCommitted bool
	Rack          string // "": the RackID of the user's configuration
}

// FetchPart is one partition of a fetch.
type FetchPart struct {
	Topic       string
	TopicID     [16]byte // zero: unknown, then the whole request goes by names
	Partition   int32
	Offset      int64
	LeaderEpoch int32 // that we believe in; -1: unknown
	LastEpoch   int32 // of the last batch read; -1: unknown
	MaxBytes    int32
}

// FetchConn is one connection to one broker that does nothing but fetch. Send and Receive alternate freely: the next
// Send may go out before the last answer is decoded. One goroutine at a time; Close from anywhere. After any error of
// Send or Receive it is of no use any more: close it and open another.
type FetchConn struct {
	c      *Client
	conn   *conn
	set    FetchSettings
	broker int32

	session session
	asked   []FetchPart // what the answer that is due answers, in the order of the request
	places  []int       // and where each is in what Send was given
	topics  []int       // of which of the request's topics each is
	found   []bool      // which of them were in it
	sent    kmsg.FetchRequest
	corr    int32
	waiting bool // an answer is due
	until   time.Time
	at      time.Time // when the newest request went out
	resp    kmsg.FetchResponse
	spare   atomic.Pointer[FetchAnswer] // a buffer that nothing points into
	closed  atomic.Bool
}

// OpenFetch opens one, with one try. When it fails, ask Topics who leads the partitions now.
func (c *Client) OpenFetch(ctx context.Context, broker int32, s FetchSettings) (*FetchConn, error) {
	ctx, done := c.bound(ctx)
	defer done()
	addr, ok := c.address(broker)
	if !ok {
		return nil, c.outcome(fmt.Errorf("open fetch connection to broker %d: %w", broker, ErrUnknownBroker))
	}
	n, err := c.open(ctx, addr)
	if err != nil {
		return nil, c.outcome(fmt.Errorf("open fetch connection to broker %d: %w", broker, err))
	}
	if s.Rack == "" {
		s.Rack = c.set.rack
	}
	return &FetchConn{c: c, conn: n, set: s, broker: broker}, nil
}

// Broker is the broker at the other end.
func (f *FetchConn) Broker() int32 { return f.broker }

// WaitFor sets how many bytes the broker waits for, from the next Send on.
func (f *FetchConn) WaitFor(bytes int32) { f.set.MinBytes = bytes }

// byID is the first version of Fetch that names topics by their ids, byName the last that does by name.
const (
	byID   = 13
	byName = 12
)

// Send writes a fetch request; wait is how long the broker may hold the answer back for want of data (0: answer at
// once, negative: MaxWait of the settings). parts is not kept. The broker fills its answer in the order of parts; where they are
// many, it remembers them from one request to the next (see FetchAnswer.News), and sees to it that each has its turn.
func (f *FetchConn) Send(parts []FetchPart, wait time.Duration) error {
	if f.waiting {
		return fmt.Errorf("fetch at %s: an answer is due", f.conn.addr)
	}
	if wait < 0 {
		wait = f.set.MaxWait
	}
	req := &f.sent
	top := int16(18)
	for i := range parts {
		if parts[i].TopicID == [16]byte{} {
			top = byName
		}
	}
	err := f.conn.pick(req, 4, top)
	if err == nil {
		f.request(req, parts, wait)
		err = f.conn.authenticate()
	}
	if err == nil {
		f.at = time.Now()
		f.corr, err = f.conn.send(req, f.at.Add(ioLimit))
	}
	if err != nil {
		return f.outcome(err)
	}
	f.waiting, f.until = true, time.Now().Add(wait+ioLimit)
	return nil
}

// request makes the request for parts, of the version that it has, and notes what is asked.
func (f *FetchConn) request(req *kmsg.FetchRequest, parts []FetchPart, wait time.Duration) {
	topics := req.Topics[:0]
	req.Default()
	req.ReplicaID, req.ForgottenTopics = -1, nil
	req.MaxWaitMillis, req.MinBytes, req.MaxBytes = int32(wait/time.Millisecond), f.set.MinBytes, f.set.MaxBytes
	req.IsolationLevel = 0
	if f.set.ReadCommitted {
		req.IsolationLevel = 1
	}
	req.Rack = f.set.Rack
	named := f.session.next(req, parts)
	f.topics = f.topics[:0]
	for i := range named {
		p := &named[i]
		at := topicAt(topics, p)
		if at < 0 {
			at = len(topics)
			if at < cap(topics) {
				topics = topics[:at+1] // its partitions are used again
			} else {
				topics = append(topics, kmsg.FetchRequestTopic{})
			}
			topics[at] = kmsg.FetchRequestTopic{Topic: p.Topic, TopicID: p.TopicID, Partitions: topics[at].Partitions[:0]}
		}
		fp := kmsg.NewFetchRequestTopicPartition()
		fp.Partition, fp.FetchOffset, fp.PartitionMaxBytes = p.Partition, p.Offset, p.MaxBytes
		fp.CurrentLeaderEpoch, fp.LastFetchedEpoch = p.LeaderEpoch, p.LastEpoch
		topics[at].Partitions = append(topics[at].Partitions, fp)
		f.topics = append(f.topics, at)
	}
	req.Topics = topics
	f.note(parts)
}

// note keeps what is asked: all of it, in the order in which the answer is to be expected.
func (f *FetchConn) note(parts []FetchPart) {
	f.asked = append(f.asked[:0], parts...)
	f.places = slices.Grow(f.places[:0], len(parts))[:len(parts)]
	if !f.session.whole {
		for i := range parts {
			f.places[i] = i
		}
		return
	}
	next := make([]int, len(f.sent.Topics)+1) // place of each topic: the request has its partitions together
	for i, t := range f.sent.Topics {
		next[i+1] = next[i] + len(t.Partitions)
	}
	for i := range parts {
		at := next[f.topics[i]]
		next[f.topics[i]]++
		f.asked[at], f.places[at] = parts[i], i
	}
	if f.session.kept {
		f.session.place(f.asked)
	}
}

// topicAt finds the topic of p among topics, the newest first: mostly that is where it is.
func topicAt(topics []kmsg.FetchRequestTopic, p *FetchPart) int {
	for i := len(topics) - 1; i >= 0; i-- {
		if topics[i].TopicID == p.TopicID && topics[i].Topic == p.Topic {
			return i
		}
	}
	return -1
}

// Receive reads the next answer. Its first byte must come within the wait of its request and 2 s, or 2 s of this call if
// that is later, and then it must flow. It blocks; Close ends it, with ErrClosed. An error is one of the connection;
// what the broker refused is in the parts.
func (f *FetchConn) Receive() (*FetchAnswer, error) {
	if !f.waiting {
		return nil, fmt.Errorf("fetch at %s: no answer is due", f.conn.addr)
	}
	f.waiting = false
	a, err := f.receive()
	if err != nil {
		return nil, f.outcome(f.conn.broke("Fetch", err))
	}
	return a, nil
}

// outcome is ErrClosed once it was closed by us.
func (f *FetchConn) outcome(err error) error {
	if f.closed.Load() {
		return ErrClosed
	}
	return f.c.outcome(err)
}

func (f *FetchConn) receive() (*FetchAnswer, error) {
	until := time.Now().Add(ioLimit) // an answer may have been there for long
	if until.Before(f.until) {
		until = f.until
	}
	size, err := f.conn.size(until)
	if err != nil {
		return nil, err
	}
	if size > 2*int64(f.set.MaxBytes)+maxBatch {
		return nil, fmt.Errorf("%w: an answer of %d bytes to a fetch of %d", ErrCorrupt, size, f.set.MaxBytes)
	}
	a := f.buffer(int(size))
	a.Asked, a.Began = f.at, time.Now()
	if err := f.conn.flow(a.buf); err != nil {
		return nil, err
	}
	f.resp = kmsg.FetchResponse{Version: f.sent.Version, Topics: f.resp.Topics[:0]}
	defer func() { clear(f.resp.Topics) }() // or it would keep the answer alive until the next
	if err := f.conn.decode(a.buf, f.corr, &f.resp); err != nil {
		return nil, err
	}
	f.fillAnswer(a)
	return a, nil
}

// maxBatch is how much an answer may be larger than asked for: one batch is given whole, whatever its size.
const maxBatch = 64 << 20

// Close closes the connection.
func (f *FetchConn) Close() error {
	f.closed.Store(true)
	f.conn.close()
	return nil
}
