package kafka

import (
	"fmt"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/batch"
)

// FetchAnswer is one answer. Its Records live in one buffer, and so does what is decoded from batches that are not
// compressed.
type FetchAnswer struct {
	Parts    []FetchedPart // one for each partition asked for; fewer if the answer is full, or throttled and empty, or only news
	News     bool          // what is left out is as it was: no records, no error, and the end of the log where it was told to be
	Throttle time.Duration // the broker will not answer before; it is no error
	Bytes    int
	Asked    time.Time // when the request went out
	Began    time.Time // when the first bytes of the answer came

	buf  []byte
	conn *FetchConn
}

// FetchedPart is one partition of an answer.
type FetchedPart struct {
	At               int // in what Send was given
	Topic            string
	Partition        int32
	Err              error // see the errors of this package; nil: fine
	HighWatermark    int64
	LastStable       int64
	LogStart         int64
	Records          []byte
	Aborted          []batch.Aborted
	Diverging        bool  // the log was truncated below our offset
	DivergesAt       int64 // where it is another one from, if it was
	PreferredReplica int32 // -1: none
	Leader           int32 // where the broker that refused thinks the leader is; -1: it does not say
	LeaderEpoch      int32
}

// Recycle gives the answer's buffer back for the next one. Only for who has kept nothing that points into it: no
// Records, and no key or value of a batch that was not compressed. The answer must not be used any more.
func (a *FetchAnswer) Recycle() {
	if a.conn != nil {
		f := a.conn
		a.conn = nil
		f.spare.Store(a)
	}
}

// buffer gives an answer whose buffer has size bytes. A spare one is taken unless it is so large that a small answer
// would keep much memory alive.
func (f *FetchConn) buffer(size int) *FetchAnswer {
	if a := f.spare.Swap(nil); a != nil && cap(a.buf) >= size && cap(a.buf) <= 4*size+maxWaste {
		clear(a.Parts)
		*a = FetchAnswer{Parts: a.Parts[:0], buf: a.buf[:size], conn: f}
		return a
	}
	return &FetchAnswer{buf: batch.Buffer(size), conn: f}
}

const maxWaste = 4 << 10

// fillAnswer says in our words what the decoded answer says.
func (f *FetchConn) fillAnswer(a *FetchAnswer) {
	r := &f.resp
	a.Throttle, a.Bytes = time.Duration(r.ThrottleMillis)*time.Millisecond, len(a.buf)
	for _, b := range r.Brokers {
		f.c.endpoint(b.NodeID, b.Host, b.Port)
	}
	err := brokerError(r.ErrorCode, nil)
	if f.session.answered(r.SessionID, err) {
		return // the next request is one that names everything
	}
	if err != nil {
		for i := range f.asked {
			a.Parts = append(a.Parts, f.failed(i, err))
		}
		return
	}
	f.found = append(f.found[:0], make([]bool, len(f.asked))...)
	a.Parts = slices.Grow(a.Parts, len(f.asked))
	at, n := 0, 0
	for i := range r.Topics {
		t := &r.Topics[i]
		for j := range t.Partitions {
			p := &t.Partitions[j]
			if at = f.find(t, p.Partition, at); at < 0 {
				at = 0
				continue
			}
			if !f.found[at] {
				f.found[at] = true
				n++
				a.Parts = append(a.Parts, f.part(at, p))
			}
			at++
		}
	}
	if f.session.kept && !f.session.whole {
		a.News = a.Throttle == 0 || n > 0
		return
	}
	if n < len(f.found) && (n > 0 || a.Throttle == 0) {
		f.missing(a)
	}
}

// missing adds what the answer leaves out. Kafka names every partition; others (the embedded broker) stop when the
// answer is full, so what comes after the last one named may be missing for want of room if there are records at all.
func (f *FetchConn) missing(a *FetchAnswer) {
	records := slices.ContainsFunc(a.Parts, func(p FetchedPart) bool { return len(p.Records) > 0 })
	end := len(f.found)
	for records && !f.found[end-1] {
		end--
	}
	for i, ok := range f.found[:end] {
		if !ok {
			a.Parts = append(a.Parts, f.failed(i, ErrIncomplete))
		}
	}
}

// find tells which partition asked for this is, from is where to look first: answers come in the order of the questions.
func (f *FetchConn) find(t *kmsg.FetchResponseTopic, partition int32, from int) int {
	if f.session.kept {
		return f.session.find(t, partition)
	}
	for k := range f.asked {
		i := from + k
		if i >= len(f.asked) {
			i -= len(f.asked)
		}
		p := &f.asked[i]
		if p.Partition == partition && (f.sent.Version >= byID && p.TopicID == t.TopicID || f.sent.Version < byID && p.Topic == t.Topic) {
			return i
		}
	}
	return -1
}

func (f *FetchConn) failed(i int, err error) FetchedPart {
	p := &f.asked[i]
	return FetchedPart{
		At: f.places[i], Topic: p.Topic, Partition: p.Partition, HighWatermark: -1, LastStable: -1, LogStart: -1, DivergesAt: -1, PreferredReplica: -1, Leader: -1, LeaderEpoch: -1,
		Err: fmt.Errorf("fetch %s/%d at %d: %w", p.Topic, p.Partition, p.Offset, err),
	}
}

func (f *FetchConn) part(at int, p *kmsg.FetchResponseTopicPartition) FetchedPart {
	q := &f.asked[at]
	part := FetchedPart{
		At: f.places[at], Topic: q.Topic, Partition: q.Partition,
		HighWatermark: p.HighWatermark, LastStable: p.LastStableOffset, LogStart: p.LogStartOffset,
		Records: p.RecordBatches, Diverging: p.DivergingEpoch.Epoch >= 0, DivergesAt: p.DivergingEpoch.EndOffset, PreferredReplica: p.PreferredReadReplica,
		Leader: p.CurrentLeader.LeaderID, LeaderEpoch: p.CurrentLeader.LeaderEpoch,
	}
	if err := brokerError(p.ErrorCode, nil); err != nil {
		part.Err = fmt.Errorf("fetch %s/%d at %d: %w", q.Topic, q.Partition, q.Offset, needs(err, "Read", "topic", q.Topic))
		f.c.hint(q.Topic, q.Partition, part.Leader, part.LeaderEpoch)
	}
	if len(p.AbortedTransactions) > 0 {
		part.Aborted = make([]batch.Aborted, len(p.AbortedTransactions))
		for i, t := range p.AbortedTransactions {
			part.Aborted[i] = batch.Aborted{ProducerID: t.ProducerID, FirstOffset: t.FirstOffset}
		}
	}
	return part
}
