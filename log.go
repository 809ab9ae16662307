package marshal

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/IBM/sarama"

	"github.com/kafka-marshal/marshal/internal/audit"
	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
)

// LogRecord is one message of the coordination topic: what it is, what it did, and what is wrong with it.
type LogRecord struct {
	Shard    int32     `json:"shard"`
	Offset   int64     `json:"offset"`
	Time     time.Time `json:"time"` // the broker's
	Group    string    `json:"group"`
	Kind     string    `json:"kind"`               // join, heartbeat, claim, release, leave, evict, directive, snapshot, base, probe, newer, foreign
	Client   string    `json:"client,omitempty"`   // of its author, where it is known
	Instance string    `json:"instance,omitempty"` // its author
	Text     string    `json:"text"`               // what it is
	// Replayed: what it did is told. It is not where the log's start was cut and the record stands before the oldest snapshot that
	// is left, nor behind a record of a newer version of the protocol.
	Replayed bool        `json:"replayed"`
	Effects  []string    `json:"effects,omitempty"` // what it did, in words that are short: of many partitions they name the first
	Changes  []LogChange `json:"changes,omitempty"` // the same for programs, of every partition
	// Findings is what is wrong, each beginning with its kind: "two owners", "regression", "disagreement" or "foreign". A record
	// that is late or doubled is none: it just has no effect.
	Findings []string `json:"findings,omitempty"`
}

// LogChange is one thing that a record did: to a partition, to a topic that is claimed as a whole, or to a member.
type LogChange struct {
	// Kind is of a member: joined, wants, left, parked, evicted; of a key: granted, held (before already), refused, released,
	// handed_over, taken_over, kept (its holder is parked), progress, sought, unfit, fit; of the group: rebased, announced; or
	// ignored, newer.
	Kind      string `json:"kind"`
	Topic     string `json:"topic,omitempty"`    // "": it is of no key
	Partition int32  `json:"partition"`          // -1: of the whole topic, or of no key
	Client    string `json:"client,omitempty"`   // whom it happened to
	Instance  string `json:"instance,omitempty"` // the same
	By        string `json:"by,omitempty"`       // the instance at the other end: that holds what is refused, had what is handed or taken over, or evicts
	Epoch     int64  `json:"epoch,omitempty"`
	Offset    int64  `json:"offset"`           // of progress and sought: the next to read; else -1
	Reason    string `json:"reason,omitempty"` // of refused and ignored
}

// Log reads the records of a group (empty: of all groups, shard after shard) from the start of the coordination topic to the
// end that it has when the reading begins, replays them by the rules of the protocol, and says of each what it did and whether it
// is sound. It writes nothing. It reads twice where the topic's start was cut, first to find where a replay can begin; memory
// is bounded by what the groups of one shard know, not by the length of the log. An error is the last thing that is yielded: ctx
// has ended, the topic could not be read for 10 s, or it was cut or recreated meanwhile. After Terminate it is ErrTerminated.
//
// A coordination topic that was copied, offset by offset, into another is read like the first (WithTopic names the copy).
func (c *KafkaCluster) Log(ctx context.Context, group string) iter.Seq2[LogRecord, error] {
	return func(yield func(LogRecord, error) bool) {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel()
		defer context.AfterFunc(c.ctx, cancel)()
		r := &logReader{c: c, group: group}
		if err := r.read(ctx, yield); err != nil && !r.stopped {
			if c.Terminated() {
				err = ErrTerminated
			}
			yield(LogRecord{}, fmt.Errorf("marshal: reading %s: %w", c.set.topic, err))
		}
	}
}

// logReader is one reading of the log.
type logReader struct {
	c       *KafkaCluster
	group   string        // "": all
	topicID lease.TopicID // of the log that is there now
	stopped bool          // nobody listens any more
}

// stretch is what is read of a shard.
type stretch struct{ shard, start, end int64 }

func (r *logReader) read(ctx context.Context, yield func(LogRecord, error) bool) error {
	all, err := r.stretches(ctx)
	if err != nil {
		return err
	}
	for _, s := range all {
		if err := r.shard(ctx, s, yield); err != nil || r.stopped {
			return err
		}
	}
	return nil
}

// stretches asks where the shards begin and end.
func (r *logReader) stretches(ctx context.Context) ([]stretch, error) {
	var of []int32
	if r.group != "" {
		of = []int32{shardOf(r.group)}
	} else {
		for s := range int32(shards) {
			of = append(of, s)
		}
	}
	var qs []kafka.OffsetQuery
	for _, s := range of {
		qs = append(qs, kafka.OffsetQuery{Topic: r.c.set.topic, Partition: s, At: sarama.OffsetOldest},
			kafka.OffsetQuery{Topic: r.c.set.topic, Partition: s, At: sarama.OffsetNewest})
	}
	var all []stretch
	err := r.retry(ctx, func() error {
		all = all[:0]
		topics, err := r.c.client.Topics(ctx, r.c.set.topic)
		if err = errors.Join(err, topics[r.c.set.topic].Err); err != nil {
			return err
		}
		r.topicID = topics[r.c.set.topic].ID
		as := r.c.client.Offsets(ctx, qs)
		for i, s := range of {
			if err := errors.Join(as[2*i].Err, as[2*i+1].Err); err != nil {
				return err
			}
			all = append(all, stretch{int64(s), as[2*i].Offset, as[2*i+1].Offset})
		}
		return nil
	})
	return all, err
}

// retry tries until it succeeds, what is wrong will not pass, or it has failed for callLimit.
func (r *logReader) retry(ctx context.Context, try func() error) error {
	limit := time.Now().Add(callLimit)
	for {
		err := try()
		if err == nil || errors.Is(err, errOtherLog) || time.Now().After(limit) {
			return err
		}
		if ctx.Err() != nil {
			return errors.Join(ctx.Err(), err)
		}
		pause(ctx, retryPause())
	}
}

// each passes on the messages of a stretch in order, until f gives false.
func (r *logReader) each(ctx context.Context, s stretch, f func(*entry) bool) error {
	t := newTail(r.c, int32(s.shard))
	t.topicID = r.topicID
	defer t.close()
	t.seek(s.start)
	more := true
	for t.next < s.end && more {
		before := t.next
		err := r.retry(ctx, func() error {
			return t.poll(ctx, 0, func(e *entry) {
				if more && e.offset >= before && e.offset < s.end && (r.group == "" || string(e.key) == r.group) {
					more = f(e)
				}
			})
		})
		switch {
		case err != nil:
			return err
		case t.next > before:
		case t.end >= s.end: // nothing more is below the end: holes and markers
			return nil
		default:
			pause(ctx, retryPause())
		}
	}
	return nil
}

// shard reads one shard: first for where a replay can begin, then for good.
func (r *logReader) shard(ctx context.Context, s stretch, yield func(LogRecord, error) bool) error {
	if s.start >= s.end {
		return nil
	}
	first := &beginnings{own: r.topicID, start: s.start, scans: map[string]*history.Scan{}, bases: map[string]*history.Base{}}
	if err := r.each(ctx, s, first.look); err != nil {
		return err
	}
	audits := map[string]*audit.Audit{}
	var reading recordReader
	return r.each(ctx, s, func(e *entry) bool {
		group := string(e.key)
		reading.decode(e)
		a := audits[group]
		if a == nil {
			a = audit.New(first.base(group))
			audits[group] = a
		}
		got := a.Take(audit.Message{Record: &reading.record, Value: e.value, Original: writtenByOriginal(e.value)})
		rec := LogRecord{
			Shard: int32(s.shard), Offset: e.offset, Time: time.UnixMilli(e.timestamp), Group: group, Kind: got.Kind, Client: got.Client,
			Text: got.Text, Replayed: got.Judged, Effects: append([]string(nil), got.Effects...),
		}
		if !got.Author.IsZero() {
			rec.Instance = got.Author.String()
		}
		for _, ch := range got.Changes {
			rec.Changes = append(rec.Changes, LogChange(ch))
		}
		for _, f := range got.Findings {
			rec.Findings = append(rec.Findings, f.String())
		}
		if in := shardOf(group); int64(in) != s.shard {
			rec.Findings = append(rec.Findings, fmt.Sprintf("%v: its key is %.40q, whose records belong to shard %d", audit.Foreign, group, in))
		}
		r.stopped = !yield(rec, nil)
		return !r.stopped
	})
}

// beginnings finds where the replay of each group of a shard can begin, and for which log the records were written.
type beginnings struct {
	own     lease.TopicID // of the topic that is read
	start   int64
	reading recordReader
	scans   map[string]*history.Scan
	bases   map[string]*history.Base // the oldest of each group
	written lease.TopicID            // the first that a Join names
	sure    bool                     // one names the topic's own: it is no copy of another
}

// look takes the next message, and tells whether more are wanted.
func (b *beginnings) look(e *entry) bool {
	b.reading.decode(e)
	rec := &b.reading.record
	if rec.Kind == lease.KindJoin {
		if b.written.IsZero() {
			b.written = rec.Join.TopicID
		}
		b.sure = b.sure || rec.Join.TopicID.Same(b.own)
	}
	if b.start == 0 {
		return !b.sure
	}
	group := string(e.key)
	if b.bases[group] != nil {
		return true
	}
	s := b.scans[group]
	if s == nil {
		s = history.NewScan(lease.TopicID{}, b.start)
		b.scans[group] = s
	}
	s.Add(rec, e.value)
	if base, ok := s.Base(); ok {
		b.bases[group] = &base
		delete(b.scans, group)
	}
	return true
}

// base is where a group's replay begins; nil: nowhere. What was read of a snapshot is used once.
func (b *beginnings) base(group string) *history.Base {
	if b.start > 0 {
		return b.bases[group]
	}
	id := b.own
	if !b.sure && !b.written.IsZero() {
		id = b.written
	}
	return &history.Base{World: lease.NewWorld(id)}
}
