package kafka

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// OffsetQuery asks: at which offset (Latest, Earliest, or of the first record at or after a time).
type OffsetQuery struct {
	Topic     string
	Partition int32
	At        int64 // Unix ms, or sarama.OffsetNewest, sarama.OffsetOldest, LastStable
}

// LastStable asks for the end as those see it who read what is committed alone: no transaction is open before it.
const LastStable int64 = -100

// OffsetAnswer is one answer; Err belongs to this partition alone. Offset -1: no record at or after the time.
type OffsetAnswer struct {
	Offset int64
	Err    error
}

// Offsets asks the leaders for log offsets, all leaders at once, in the order of qs. A partition whose leader is not
// where it was thought to be is asked for once more after a look at the metadata; what is left has an Err that is
// Retriable, so that one partition without a leader does not hold up the others.
func (c *Client) Offsets(ctx context.Context, qs []OffsetQuery) []OffsetAnswer {
	ctx, done := c.bound(ctx)
	defer done()
	as := make([]OffsetAnswer, len(qs))
	todo := make([]int, len(qs))
	for i := range todo {
		todo[i] = i
	}
	for try := 0; len(todo) > 0; try++ {
		c.offsetsOnce(ctx, qs, as, todo)
		todo = slices.DeleteFunc(todo, func(i int) bool { return !LookAgain(as[i].Err) })
		if try == 1 || len(todo) == 0 {
			break
		}
		var topics []string
		for _, i := range todo {
			if !slices.Contains(topics, qs[i].Topic) {
				topics = append(topics, qs[i].Topic)
			}
		}
		heard, err := c.Topics(ctx, topics...)
		todo = slices.DeleteFunc(todo, func(i int) bool {
			if as[i].Err = err; err == nil {
				as[i].Err = heard[qs[i].Topic].Err
			}
			return as[i].Err != nil
		})
	}
	for i := range as {
		as[i].Err = c.outcome(as[i].Err)
	}
	return as
}

type topicPartition struct {
	topic     string
	partition int32
}

// leaderOffsets is what one broker is asked: a request may name a partition once, so there can be several.
type leaderOffsets struct {
	link *link
	reqs []*listOffsets
	err  error
	stop func() bool // ends the watch for the end of ctx
}

type listOffsets struct {
	*kmsg.ListOffsetsRequest
	of   map[topicPartition]int // index of the question
	corr int32
}

// offsetsOnce asks the questions in todo of the leaders that are known. All connections are taken, in the order of their
// addresses, opened together, written to, and then read: the slowest broker is waited for once.
func (c *Client) offsetsOnce(ctx context.Context, qs []OffsetQuery, as []OffsetAnswer, todo []int) {
	groups := c.byLeader(qs, as, todo)
	for _, g := range groups {
		if g.err = g.link.take(ctx); g.err == nil {
			defer g.link.give()
		}
	}
	c.openAll(ctx, groups)
	until := limit(ctx, ioLimit)
	for _, g := range groups {
		if g.err == nil {
			g.stop = g.link.conn.watch(ctx)
			g.send(until)
		}
	}
	for _, g := range groups {
		g.receive(until, as)
		if g.stop != nil {
			g.stop()
		}
		for _, r := range g.reqs {
			for _, i := range r.of {
				if g.err != nil {
					as[i] = OffsetAnswer{-1, g.err}
				}
				if err := as[i].Err; err != nil {
					as[i].Err = offsetError(qs[i].Topic, qs[i].Partition, needs(err, "Read", "topic", qs[i].Topic))
				}
			}
		}
	}
}

// openAll opens what is not open, all together.
func (c *Client) openAll(ctx context.Context, groups []*leaderOffsets) {
	ready := make(chan *opening, len(groups))
	of := map[*opening]*leaderOffsets{}
	for _, g := range groups {
		if g.err == nil && g.link.conn == nil {
			of[c.begin(ctx, g.link.addr, ready)] = g
		}
	}
	for range of {
		o := <-ready
		of[o].link.conn, of[o].err = c.finish(o)
	}
}

// byLeader makes the requests for the leader of each question in todo, ordered by address. A question that has no
// leader is answered with why.
func (c *Client) byLeader(qs []OffsetQuery, as []OffsetAnswer, todo []int) []*leaderOffsets {
	var groups []*leaderOffsets
	for _, i := range todo {
		q := qs[i]
		p, ok := c.Leader(q.Topic, q.Partition)
		addr, known := c.address(p.Leader)
		if !ok || !known {
			as[i] = OffsetAnswer{-1, offsetError(q.Topic, q.Partition, ErrNotLeader)}
			continue
		}
		at := slices.IndexFunc(groups, func(g *leaderOffsets) bool { return g.link.addr == addr })
		if at < 0 {
			at = len(groups)
			groups = append(groups, &leaderOffsets{link: c.link(addr)})
		}
		groups[at].add(q, p.LeaderEpoch, i)
	}
	slices.SortFunc(groups, func(a, b *leaderOffsets) int { return cmp.Compare(a.link.addr, b.link.addr) })
	return groups
}

// add puts question i into the first request that asks of the same records and does not name its partition yet.
func (g *leaderOffsets) add(q OffsetQuery, epoch int32, i int) {
	tp := topicPartition{q.Topic, q.Partition}
	level := int8(sarama.ReadUncommitted)
	if q.At == LastStable {
		q.At, level = sarama.OffsetNewest, int8(sarama.ReadCommitted)
	}
	at := slices.IndexFunc(g.reqs, func(r *listOffsets) bool { _, has := r.of[tp]; return !has && r.IsolationLevel == level })
	if at < 0 {
		at = len(g.reqs)
		g.reqs = append(g.reqs, &listOffsets{ListOffsetsRequest: kmsg.NewPtrListOffsetsRequest(), of: map[topicPartition]int{}})
		g.reqs[at].IsolationLevel = level
	}
	r := g.reqs[at]
	r.of[tp] = i
	p := kmsg.NewListOffsetsRequestTopicPartition()
	p.Partition, p.CurrentLeaderEpoch, p.Timestamp = q.Partition, epoch, q.At
	t := slices.IndexFunc(r.Topics, func(t kmsg.ListOffsetsRequestTopic) bool { return t.Topic == q.Topic })
	if t < 0 {
		t = len(r.Topics)
		r.Topics = append(r.Topics, kmsg.NewListOffsetsRequestTopic())
		r.Topics[t].Topic = q.Topic
	}
	r.Topics[t].Partitions = append(r.Topics[t].Partitions, p)
}

func (g *leaderOffsets) send(until time.Time) {
	g.err = g.link.conn.authenticate()
	for _, r := range g.reqs {
		if g.err == nil {
			g.err = g.link.conn.pick(r, 1, 8)
		}
		if g.err == nil {
			r.corr, g.err = g.link.conn.send(r, until)
		}
	}
}

func (g *leaderOffsets) receive(until time.Time, as []OffsetAnswer) {
	for _, r := range g.reqs {
		if g.err != nil {
			return
		}
		var resp kmsg.Response
		if resp, g.err = g.link.conn.answer(r, r.corr, until); g.err == nil {
			r.read(resp.(*kmsg.ListOffsetsResponse), as)
		}
	}
}

// read takes the answers; a partition that is left out is an error.
func (r *listOffsets) read(resp *kmsg.ListOffsetsResponse, as []OffsetAnswer) {
	for _, i := range r.of {
		as[i] = OffsetAnswer{-1, ErrIncomplete}
	}
	for _, t := range resp.Topics {
		for _, p := range t.Partitions {
			i, ok := r.of[topicPartition{t.Topic, p.Partition}]
			if !ok {
				continue
			}
			as[i] = OffsetAnswer{p.Offset, nil}
			if err := brokerError(p.ErrorCode, nil); err != nil {
				as[i] = OffsetAnswer{-1, err}
			}
		}
	}
}
