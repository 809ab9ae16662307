package marshal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/IBM/sarama"
	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
)

func compareKeys(a, b lease.Key) int {
	return cmp.Or(strings.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// starter finds out where the partitions of new claims begin, and begins them. What cannot be told yet is tried again:
// nothing is handed out of a partition whose start is not certain.
func (c *Consumer) starter(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	backoff := c.options.RetryBackoffMin
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-c.starts:
		}
		began := time.Now()
		soon, cancel := context.WithTimeout(ctx, callLimit)
		err := errors.Join(c.startAll(soon), c.repairAll(soon))
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			c.lasting("start", callLimit+c.options.RetryBackoffMax, c.trouble(began, "cannot begin all partitions yet", err))
			timer.Reset(backoff)
			backoff = min(2*backoff, c.options.RetryBackoffMax)
		default:
			c.ailments.over("start")
			backoff = c.options.RetryBackoffMin
		}
	}
}

// start is a partition that is to begin.
type start struct {
	claim   *claim
	id      int32
	topicID lease.TopicID
	next    int64 // lease.NoProgress: not known yet
	certain bool
	sought  bool // it was set after whatever Kafka's own offset says
}

// startAll begins what is claimed and has not begun.
func (c *Consumer) startAll(ctx context.Context) error {
	starts, unknown := c.pendingStarts()
	var err error
	if unknown {
		err = errors.New("the topics have fewer partitions than the group has seen, as far as this process knows")
		c.look()
	}
	c.consultWorld(starts)
	var rest []*start
	for _, s := range starts {
		if s.certain {
			c.begin(s)
		} else {
			rest = append(rest, s)
		}
	}
	if len(rest) == 0 {
		return err
	}
	return errors.Join(err, c.startFromKafka(ctx, rest))
}

func (c *Consumer) pendingStarts() (starts []*start, unknown bool) {
	running := c.running()
	c.knownMu.Lock()
	defer c.knownMu.Unlock()
	for _, cl := range running {
		topic := c.known[cl.key.Topic]
		if topic.Err != nil || topic.ID == [16]byte{} {
			unknown = true
			continue
		}
		first, last := cl.key.Partition, cl.key.Partition
		if cl.key.Partition == lease.WholeTopic {
			first, last = 0, int32(len(topic.Partitions))-1
		} else if int(last) >= len(topic.Partitions) {
			unknown = true // granted by somebody who sees more of the topic
			continue
		}
		for id := first; id <= last; id++ {
			if !cl.has(id) {
				starts = append(starts, &start{
					claim: cl, id: id, topicID: topic.ID, next: lease.NoProgress, sought: cl.resought[id] || cl.resought[lease.WholeTopic],
				})
			}
		}
	}
	return starts, unknown
}

// consultWorld takes the progress that the group's log knows of, for this life of the topic.
func (c *Consumer) consultWorld(starts []*start) {
	g := c.m.g
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.live {
		return
	}
	w := g.log.World()
	for _, s := range starts {
		p, ok := w.Progress(s.claim.key.Topic, s.id)
		if ok && p.Next != lease.NoProgress && p.TopicID.Same(s.topicID) {
			s.next = p.Next
			s.certain = s.claim.handed // its owner of before was alive: nobody reset offsets meanwhile
		}
		if at, ok := c.m.unconfirmed(s); ok {
			s.next = max(s.next, at)
		}
	}
}

// unconfirmed is a position that was reported under the same claim by who had it before in this process, and is not read back yet.
// Called with the group's lock held.
func (m *Marshaler) unconfirmed(s *start) (next int64, ok bool) {
	if m.member == nil {
		return 0, false
	}
	p, ok := m.member.Unconfirmed(lease.Key{Topic: s.claim.key.Topic, Partition: s.id})
	return p.Next, ok && p.Epoch == s.claim.epoch && p.TopicID.Same(s.topicID)
}

// startFromKafka asks for the group's committed offsets, and where there are none for what the options say.
func (c *Consumer) startFromKafka(ctx context.Context, starts []*start) error {
	committed := make([]kafka.Committed, len(starts))
	for i, s := range starts {
		committed[i] = kafka.Committed{Topic: s.claim.key.Topic, Partition: s.id}
	}
	if err := c.m.c.client.FetchOffsets(ctx, c.m.groupID, committed); err != nil {
		c.withheld(starts, err)
		return fmt.Errorf("committed offsets: %w", err)
	}
	var failed, unmarked causes
	var fresh []*start
	moved := map[*claim]bool{} // somebody set an offset of theirs: they end and start again, nothing of them begins before
	for i, s := range starts {
		o := &committed[i]
		if ours, thisLife := isOurs(o.Metadata, s.topicID); ours && !thisLife && o.Err == nil {
			o.Offset = -1 // of a topic that had the same name
		} else if o.Err == nil && !s.sought && s.next != lease.NoProgress && o.Offset >= 0 && o.Offset != s.next && !ours {
			moved[s.claim] = true
			c.adopt(s, o.Offset)
		}
	}
	for i, s := range starts {
		o := &committed[i]
		ours, _ := isOurs(o.Metadata, s.topicID)
		switch {
		case moved[s.claim]:
		case o.Err != nil:
			c.withheld(starts[i:i+1], o.Err)
			failed.add(o.Topic, o.Partition, o.Err)
		case s.next != lease.NoProgress && o.Offset >= 0 && !ours:
			if err := c.mark(ctx, s); err != nil {
				c.withheld(starts[i:i+1], err)
				unmarked.add(o.Topic, o.Partition, err)
				continue
			}
			c.begin(s)
		case s.next != lease.NoProgress:
			c.begin(s)
		case o.Offset >= 0:
			s.next = o.Offset
			c.begin(s)
		default:
			fresh = append(fresh, s)
		}
	}
	return errors.Join(failed.errOf("committed offset of"), unmarked.errOf("marking the offset of"), c.startFresh(ctx, fresh))
}

// withheld tells the readers of partitions that cannot begin for want of a right. What else fails is over by itself.
func (c *Consumer) withheld(starts []*start, err error) {
	if !kafka.Unauthorized(err) {
		return
	}
	for _, s := range starts {
		s.claim.problem(s.id, s.next, err)
	}
}

// adopt takes an offset that somebody set from outside: it becomes the progress by a Seek, which ends this claim and starts it
// again under a new epoch.
func (c *Consumer) adopt(s *start, offset int64) {
	if c.seek(s.claim, s.id, s.topicID, offset) {
		c.offsetChanged(logrus.InfoLevel, s.claim, s.id, offset,
			fmt.Sprintf("the group's offset of %s/%d was set from outside to %d, it stood at %d; going on there", s.claim.key.Topic, s.id, offset, s.next))
	}
}

func (c *Consumer) offsetChanged(level logrus.Level, cl *claim, id int32, offset int64, text string) {
	c.m.emit(level, Event{Kind: OffsetChanged, Topic: cl.key.Topic, Partition: id, Offset: offset, Token: cl.token, Text: text})
}

// mark commits a position that somebody set from outside with our metadata, before it is handed out: it is not news again.
func (c *Consumer) mark(ctx context.Context, s *start) error {
	mark := []kafka.Committed{{Topic: s.claim.key.Topic, Partition: s.id, Offset: s.next, Metadata: c.m.metadata(s.topicID, s.claim.token)}}
	if err := c.m.c.client.CommitOffsets(ctx, c.m.groupID, mark); err != nil {
		return err
	}
	return mark[0].Err
}

// seek sets a partition's progress under the claim's epoch, once: the claim ends by it. It gives false where that is on its way.
func (c *Consumer) seek(cl *claim, id int32, topicID lease.TopicID, next int64) bool {
	m := c.m
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if m.member == nil || cl.sought {
		return false
	}
	cl.sought = true
	m.handle(m.member.Seek(lease.Key{Topic: cl.key.Topic, Partition: id}, topicID, next, cl.epoch, m.c.clock.now()))
	return true
}

// startFresh begins partitions that the group has no position for.
func (c *Consumer) startFresh(ctx context.Context, starts []*start) error {
	if len(starts) == 0 {
		return nil
	}
	queries := make([]kafka.OffsetQuery, len(starts))
	for i, s := range starts {
		queries[i] = kafka.OffsetQuery{Topic: s.claim.key.Topic, Partition: s.id, At: c.startTime(s)}
	}
	answers := c.m.c.client.Offsets(ctx, queries)
	var failed causes
	begun := map[string][]int32{}
	begin := func(s *start, at int64) {
		s.next = at
		c.begin(s)
		begun[s.claim.key.Topic] = append(begun[s.claim.key.Topic], s.id)
	}
	var late []*start // nothing at or after the time: behind the newest
	for i, s := range starts {
		switch a := answers[i]; {
		case a.Err != nil:
			c.withheld(starts[i:i+1], a.Err)
			failed.add(s.claim.key.Topic, s.id, a.Err)
		case a.Offset < 0:
			late = append(late, s)
		default:
			begin(s, a.Offset)
		}
	}
	for _, s := range late {
		a := c.m.c.client.Offsets(ctx, []kafka.OffsetQuery{{Topic: s.claim.key.Topic, Partition: s.id, At: sarama.OffsetNewest}})[0]
		if a.Err != nil {
			failed.add(s.claim.key.Topic, s.id, a.Err)
			continue
		}
		begin(s, a.Offset)
	}
	c.tellFresh(begun)
	return failed.errOf("offset of")
}

// startTime is what to ask ListOffsets for.
func (c *Consumer) startTime(s *start) int64 {
	switch o := c.options.StartOffset; o {
	case StartEarliest:
		return sarama.OffsetOldest
	case StartLatest:
		c.knownMu.Lock()
		defer c.knownMu.Unlock()
		if s.id < c.first[s.claim.key.Topic] {
			return sarama.OffsetNewest
		}
		return sarama.OffsetOldest // it appeared later: its first records are for this group too
	default:
		return int64(o)
	}
}

// firstCounts tells how many partitions each topic had when the group first ran, as far as the log and the committed
// offsets know; else how many it has. Only StartLatest wants to know.
func (c *Consumer) firstCounts(ctx context.Context) (map[string]int32, error) {
	counts := map[string]int32{}
	if c.options.StartOffset != StartLatest {
		return counts, nil
	}
	g := c.m.g
	g.mu.Lock()
	if g.live {
		w := g.log.World()
		for _, name := range c.names {
			counts[name] = w.Partitions(name)
		}
		for key := range w.AllProgress() {
			if _, asked := counts[key.Topic]; asked {
				counts[key.Topic] = max(counts[key.Topic], key.Partition+1)
			}
		}
	}
	g.mu.Unlock()
	for _, name := range c.names {
		if counts[name] > 0 {
			continue
		}
		n := int32(len(c.known[name].Partitions))
		committed := make([]kafka.Committed, n)
		for id := range n {
			committed[id] = kafka.Committed{Topic: name, Partition: id}
		}
		if n > 0 {
			if err := c.m.c.client.FetchOffsets(ctx, c.m.groupID, committed); err != nil {
				return nil, fmt.Errorf("marshal: committed offsets of %s: %w", name, err)
			}
		}
		counts[name] = n
		for id := n - 1; id >= 0; id-- {
			if committed[id].Offset >= 0 {
				counts[name] = id + 1
				break
			}
		}
	}
	return counts, nil
}

// begin starts a partition at its position, unless the topic was recreated since the position was asked for: who learns of
// that ends what has begun by then, and has the rest begun anew.
func (c *Consumer) begin(s *start) {
	p := newPartition(s.claim, s.id, s.topicID, s.next, c.options.MaxInFlight)
	c.knownMu.Lock()
	p.paused.Store(c.pauses[p.topic].has(p.id))
	begun := c.known[s.claim.key.Topic].ID == s.topicID && s.claim.begin(p)
	c.knownMu.Unlock()
	if !begun {
		p.cancel(ErrClaimLost)
		return
	}
	if s.claim.isFetched() {
		c.fetcher.add(p)
	}
	if c.pins == nil {
		c.reading.list(s.claim)
		return
	}
	c.m.g.mu.Lock()
	defer c.m.g.mu.Unlock()
	c.m.tellChanged() // who claims it by hand waits for this
}

// repair has a partition looked after whose offset its log does not have, or has otherwise from another offset on (-1: it has not).
func (c *Consumer) repair(p *partition, otherwise int64) {
	c.knownMu.Lock()
	c.broken[p] = otherwise
	c.knownMu.Unlock()
	wakeUp(c.starts)
}

func (c *Consumer) repairAll(ctx context.Context) error {
	c.knownMu.Lock()
	broken := c.broken
	c.broken = map[*partition]int64{}
	c.knownMu.Unlock()
	var failed causes
	for p, otherwise := range broken {
		if !p.ended() {
			failed.add(p.topic, p.id, c.repairOne(ctx, p, otherwise))
		}
	}
	return failed.errOf("range of")
}

// repairOne finds out what the log has, and does what OnOutOfRange says.
func (c *Consumer) repairOne(ctx context.Context, p *partition, otherwise int64) error {
	answers := c.m.c.client.Offsets(ctx, []kafka.OffsetQuery{
		{Topic: p.topic, Partition: p.id, At: sarama.OffsetOldest}, {Topic: p.topic, Partition: p.id, At: sarama.OffsetNewest},
	})
	if err := cmp.Or(answers[0].Err, answers[1].Err); err != nil {
		return err // the fetcher comes here again
	}
	first, end := answers[0].Offset, answers[1].Offset
	at := p.learnRange(first, end)
	truncated := otherwise >= 0 && otherwise < at
	if !truncated && first <= at && at <= end {
		p.jump(at) // it is in range now, or was cut and has grown again: without the old epoch
		return nil
	}
	to := first
	switch {
	case c.options.OnOutOfRange == FailOutOfRange:
		c.failing(p, at, fmt.Errorf("out of range, the log has %d to %d%s: %w", first, end, otherwiseFrom(truncated, otherwise), kafka.ErrOutOfRange))
		return nil
	case truncated: // what is there from then on is new, whatever was read at these offsets
		to = max(first, min(otherwise, p.position()))
	case c.options.OnOutOfRange == ResetToLatest:
		to = end
	}
	if to < at {
		if c.seek(p.claim, p.id, p.topicID, to) {
			c.offsetChanged(logrus.WarnLevel, p.claim, p.id, to, fmt.Sprintf(
				"the position %d of %s/%d is beyond the end of the log%s; going on before it at %d, messages come again",
				at, p.topic, p.id, otherwiseFrom(truncated, otherwise), to))
		}
		return nil
	}
	c.offsetChanged(logrus.WarnLevel, p.claim, p.id, to, fmt.Sprintf(
		"the position %d of %s/%d is no longer in the log; going on behind it at %d, what lies between is lost to this group", at, p.topic, p.id, to))
	p.jump(to)
	return nil
}

func otherwiseFrom(truncated bool, offset int64) string {
	if !truncated {
		return ""
	}
	return fmt.Sprintf(", which was truncated to %d (an election lost records)", offset)
}

// jump goes on fetching at an offset not below the present one.
func (p *partition) jump(to int64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.next, p.lastEpoch, p.outside = to, -1, false
	p.fetches++
	p.settle()
	p.moved.Store(true)
}
