package marshal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/IBM/sarama"
	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
)

// Seek sets the position of a partition of one of the consumer's topics, whoever holds it, while the group runs: its holder,
// in this process or another, goes on at offset within milliseconds. offset is the next one to read, or sarama.OffsetOldest, or
// sarama.OffsetNewest; it must be in the partition's log or its end, else the error names the range.
//
// Everything in flight of the partition is void from then on: its Commit gives ErrClaimLost, its Context is cancelled, and
// the token of what comes next is larger. Of a topic that is claimed as a whole, that is so for each of its partitions; the others go on
// where they were. Kafka's own offset follows.
//
// Seek blocks until it is read back from the coordination topic, or ctx ends: then it may still come to pass. When it has
// returned nil, neither this process nor any other that has read so far hands out anything of the old position. One that another
// Seek of the same partition in this process overtakes before it could be written is done when that one is: as if the two had come
// right after each other.
// ErrTerminated: the consumer is over.
func (c *Consumer) Seek(ctx context.Context, topic string, partition int32, offset int64) error {
	if err := c.maySeek(topic); err != nil {
		return err
	}
	return c.m.Seek(ctx, topic, partition, offset)
}

// Seek is Consumer.Seek for a process that does not read itself: of any topic, whether the group is running or not. A
// Marshaler without consumers takes no part in the sharing, so a tool joins, seeks and closes. Kafka's own offset follows:
// set by the partition's holder, or by this call where nobody holds it. ErrTerminated after Terminate.
func (m *Marshaler) Seek(ctx context.Context, topic string, partition int32, offset int64) error {
	known, err := m.seekable(ctx, topic)
	if err != nil {
		return err
	}
	if partition < 0 || int(partition) >= len(known.Partitions) {
		return fmt.Errorf("marshal: seek %s/%d: the topic has %d partitions", topic, partition, len(known.Partitions))
	}
	answers := m.c.client.Offsets(ctx, []kafka.OffsetQuery{
		{Topic: topic, Partition: partition, At: sarama.OffsetOldest}, {Topic: topic, Partition: partition, At: sarama.OffsetNewest},
	})
	if err := errors.Join(answers[0].Err, answers[1].Err); err != nil {
		return fmt.Errorf("marshal: seek %s/%d: %w", topic, partition, err)
	}
	next, first, end := offset, answers[0].Offset, answers[1].Offset
	switch {
	case offset == sarama.OffsetOldest:
		next = first
	case offset == sarama.OffsetNewest:
		next = end
	case offset < first || offset > end:
		return fmt.Errorf("marshal: seek %s/%d to %d: the log has %d to %d: %w", topic, partition, offset, first, end, kafka.ErrOutOfRange)
	}
	return m.seekAll(ctx, []*seeking{newSeeking(known, partition, next)})
}

// SeekTime sets the position of each partition of one of the consumer's topics to its first record whose timestamp is not
// before t, to the end where there is none. Nothing is set unless all partitions could be asked; the error names those that could
// not, or whose Seek was not confirmed. For the rest it is as Seek.
func (c *Consumer) SeekTime(ctx context.Context, topic string, t time.Time) error {
	if err := c.maySeek(topic); err != nil {
		return err
	}
	known, err := c.m.seekable(ctx, topic)
	if err != nil {
		return err
	}
	var queries []kafka.OffsetQuery
	for id := range known.Partitions {
		for _, at := range []int64{max(t.UnixMilli(), 0), sarama.OffsetNewest} {
			queries = append(queries, kafka.OffsetQuery{Topic: topic, Partition: int32(id), At: at})
		}
	}
	answers := c.m.c.client.Offsets(ctx, queries)
	var failed causes
	var seeks []*seeking
	for id := range known.Partitions {
		at, end := answers[2*id], answers[2*id+1]
		failed.add(topic, int32(id), at.Err)
		failed.add(topic, int32(id), end.Err)
		if at.Offset < 0 {
			at = end
		}
		seeks = append(seeks, newSeeking(known, int32(id), at.Offset))
	}
	if err := failed.err(); err != nil {
		return fmt.Errorf("marshal: seek %w", err)
	}
	return c.m.seekAll(ctx, seeks)
}

// maySeek tells whether a topic is one that may be sought here.
func (c *Consumer) maySeek(name string) error {
	if c.Terminated() {
		return ErrTerminated
	}
	if !slices.Contains(c.names, name) {
		return fmt.Errorf("marshal: seek %s: it is not a topic of this consumer (%v)", name, c.names)
	}
	return nil
}

// seekable asks for a topic that is to be sought.
func (m *Marshaler) seekable(ctx context.Context, name string) (kafka.Topic, error) {
	if m.Terminated() {
		return kafka.Topic{}, ErrTerminated
	}
	topics, err := m.c.client.Topics(ctx, name)
	if err = errors.Join(err, topics[name].Err); err != nil {
		return kafka.Topic{}, fmt.Errorf("marshal: seek %s: %w", name, err)
	}
	return topics[name], nil
}

// seeking is a Seek that somebody waits for. Its fields are guarded by the group's lock.
type seeking struct {
	key     lease.Key
	topicID lease.TopicID
	next    int64
	by      lease.InstanceID // the instance that was asked for it: the next one is asked anew
	seq     uint64           // of its first record, or of the one that overtook it; 0: it is not written
	token   int64            // that of its record
	free    bool             // nobody held the partition
	over    bool
	err     error // why it came to nothing
}

func newSeeking(t kafka.Topic, partition int32, next int64) *seeking {
	return &seeking{key: lease.Key{Topic: t.Name, Partition: partition}, topicID: t.ID, next: next}
}

// seekAll has positions set and waits until that is read back.
func (m *Marshaler) seekAll(ctx context.Context, seeks []*seeking) error {
	m.g.mu.Lock()
	m.seeks = append(m.seeks, seeks...)
	m.g.mu.Unlock()
	defer func() {
		m.g.mu.Lock()
		m.seeks = slices.DeleteFunc(m.seeks, func(s *seeking) bool { return slices.Contains(seeks, s) })
		m.g.mu.Unlock()
	}()
	for {
		m.g.mu.Lock()
		open := m.askForSeeks(seeks)
		changed := m.changed
		m.g.mu.Unlock()
		if len(open) == 0 {
			break
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("marshal: seek %v: not confirmed, it may still come to pass: %w", open, errors.Join(ctx.Err(), m.troubled()))
		case <-m.ctx.Done():
			return ErrTerminated
		}
	}
	m.g.mu.Lock()
	consumers := slices.Clone(m.consumers)
	m.g.mu.Unlock()
	for _, c := range consumers {
		c.recall() // what the channel still offers of the old position
	}
	return errors.Join(seekErrors(seeks), m.tellKafka(ctx, seeks))
}

// askForSeeks has the member write what it was not asked for yet, and names those that are not read back. Called with the
// group's lock held.
func (m *Marshaler) askForSeeks(seeks []*seeking) (open []string) {
	for _, s := range seeks {
		if s.over {
			continue
		}
		open = append(open, fmt.Sprintf("%s/%d", s.key.Topic, s.key.Partition))
		if m.member != nil && s.by != m.instance {
			s.by, s.seq = m.instance, 0
			m.handle(m.member.Seek(s.key, s.topicID, s.next, lease.NoEpoch, m.c.clock.now()))
		}
	}
	return open
}

func seekErrors(seeks []*seeking) error {
	var failed causes
	for _, s := range seeks {
		failed.add(s.key.Topic, s.key.Partition, s.err)
	}
	if err := failed.err(); err != nil {
		return fmt.Errorf("marshal: seek %w", err)
	}
	return nil
}

// sought takes what a Seek did that was read: to a lease of ours, or since somebody here waits for it. Called with g.mu held.
func (m *Marshaler) sought(e *lease.Event) {
	w := m.g.log.World()
	ours := e.Author == m.instance
	if ours {
		for _, s := range m.decided(e) {
			s.over, s.token = true, w.TokenBase()+e.Offset
			s.free = e.Instance.IsZero() && s.next == e.Next // else who overtook it tells Kafka
		}
	}
	key := e.Key
	told := false // as an offset that was set from outside, or one that is out of range
	if e.Instance == m.instance {
		if whole := (lease.Key{Topic: key.Topic, Partition: lease.WholeTopic}); m.claims[whole] != nil {
			key = whole
		}
		m.resought[e.Key] = true
		if c := m.claims[key]; c != nil {
			told, c.sought = c.sought, true
			for _, p := range c.partitions() { // it goes on where it was
				m.resought[lease.Key{Topic: p.topic, Partition: p.id}] = true
			}
		}
	}
	if (ours || e.Instance == m.instance) && !told {
		event := Event{
			Kind: OffsetChanged, Topic: e.Key.Topic, Partition: e.Key.Partition, Offset: e.Next, Instance: e.Author.String(),
			Text: fmt.Sprintf("the position of %s/%d was set to %d by %s", e.Key.Topic, e.Key.Partition, e.Next, m.nameOf(e.Author)),
		}
		if by := w.Instance(e.Author); by != nil {
			event.Client = by.Client
		}
		m.emit(logrus.InfoLevel, event)
	}
}

// seekRefused takes that a Seek of ours did nothing. Called with g.mu held.
func (m *Marshaler) seekRefused(e *lease.Event) {
	for _, s := range m.decided(e) {
		s.over, s.err = true, errSeekRefused
		if e.Reason == lease.OldTopic {
			s.err = errSeekOldTopic
		}
	}
}

// seekWritten notes under which record the Seeks come back that wait to be written: only the newest of a key is, for all of them.
// Called with g.mu held.
func (m *Marshaler) seekWritten(r *lease.Record) {
	if r.Kind != lease.KindDirective || r.Directive.Epoch != lease.NoEpoch {
		return
	}
	for _, s := range m.seeks {
		if s.key == r.Directive.Key && s.by == m.instance && s.seq == 0 {
			s.seq = r.Seq
		}
	}
}

// decided are the Seeks that a record of ours decides which was read: a void one is written anew, or overtaken, under a later number.
// Called with g.mu held.
func (m *Marshaler) decided(e *lease.Event) (seeks []*seeking) {
	for _, s := range m.seeks {
		if s.key == e.Key && s.by == m.instance && s.seq != 0 && s.seq <= e.Seq && !s.over {
			seeks = append(seeks, s)
		}
	}
	return seeks
}

// soughtOf lists the partitions of a key whose position we know from a Seek that was just read: nobody has set one in Kafka
// since. WholeTopic: all. Called with g.mu held.
func (m *Marshaler) soughtOf(k lease.Key) map[int32]bool {
	if k.Partition != lease.WholeTopic {
		return map[int32]bool{k.Partition: m.resought[k]}
	}
	of := map[int32]bool{}
	for s := range m.resought {
		if s.Topic == k.Topic {
			of[s.Partition] = true
		}
	}
	return of
}

var (
	errSeekRefused  = errors.New("the group's world does not take it: it is full")
	errSeekOldTopic = errors.New("the topic was recreated meanwhile")
)

// tellKafka commits the new positions of what nobody holds to Kafka; a holder does that itself.
func (m *Marshaler) tellKafka(ctx context.Context, seeks []*seeking) error {
	var commits []kafka.Committed
	for _, s := range seeks {
		if s.err == nil && s.free {
			commits = append(commits, kafka.Committed{
				Topic: s.key.Topic, Partition: s.key.Partition, Offset: s.next, Metadata: m.metadata(s.topicID, s.token),
			})
		}
	}
	if len(commits) == 0 {
		return nil
	}
	err := m.c.client.CommitOffsets(ctx, m.groupID, commits)
	if err == nil {
		var failed causes
		for i := range commits {
			failed.add(commits[i].Topic, commits[i].Partition, commits[i].Err)
		}
		err = failed.err()
	}
	if err != nil {
		return fmt.Errorf("marshal: the seek is done, but Kafka's own offsets do not show it yet: %w", err)
	}
	return nil
}
