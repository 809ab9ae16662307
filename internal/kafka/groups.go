package kafka

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Committed is a group's offset of a partition.
type Committed struct {
	Topic     string
	Partition int32
	Offset    int64 // -1: none
	Metadata  string
	Err       error
}

// CommitOffsets writes all in one request, as a "simple" commit: without membership, which a broker takes only while
// nobody is a member of the group (ErrUnknownMember). Each entry's Err is set; error is that of the whole, and then no
// entry counts. It looks for the coordinator again, and waits for one that loads, for as long as ctx lasts.
func (c *Client) CommitOffsets(ctx context.Context, group string, cs []Committed) error {
	req := kmsg.NewPtrOffsetCommitRequest()
	req.Group = group
	for i := range cs {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = cs[i].Partition, cs[i].Offset, kmsg.StringPtr(cs[i].Metadata)
		at := slices.IndexFunc(req.Topics, func(t kmsg.OffsetCommitRequestTopic) bool { return t.Topic == cs[i].Topic })
		if at < 0 {
			at = len(req.Topics)
			req.Topics = append(req.Topics, kmsg.NewOffsetCommitRequestTopic())
			req.Topics[at].Topic = cs[i].Topic
		}
		req.Topics[at].Partitions = append(req.Topics[at].Partitions, p)
	}
	err := c.askCoordinator(ctx, group, req, 2, 8, func(resp kmsg.Response) error {
		heard := map[topicPartition]Committed{}
		for _, t := range resp.(*kmsg.OffsetCommitResponse).Topics {
			for _, p := range t.Partitions {
				heard[topicPartition{t.Topic, p.Partition}] = Committed{Err: brokerError(p.ErrorCode, nil)}
			}
		}
		return fillCommitted(group, cs, heard, func(*Committed, Committed) {})
	})
	return failAll(cs, "commit", group, err)
}

// FetchOffsets reads them (Topic, Partition given). Only an answer that can be trusted counts as "none" (Offset -1 and
// no Err): one that leaves a partition out, or comes from a coordinator that still loads, is asked for again for as
// long as ctx lasts.
func (c *Client) FetchOffsets(ctx context.Context, group string, cs []Committed) error {
	req := kmsg.NewPtrOffsetFetchRequest()
	req.Group = group
	g := kmsg.NewOffsetFetchRequestGroup()
	g.Group = group
	for i := range cs {
		at := slices.IndexFunc(req.Topics, func(t kmsg.OffsetFetchRequestTopic) bool { return t.Topic == cs[i].Topic })
		if at < 0 {
			at = len(req.Topics)
			req.Topics = append(req.Topics, kmsg.NewOffsetFetchRequestTopic())
			req.Topics[at].Topic = cs[i].Topic
		}
		req.Topics[at].Partitions = append(req.Topics[at].Partitions, cs[i].Partition)
	}
	for _, t := range req.Topics {
		gt := kmsg.NewOffsetFetchRequestGroupTopic()
		gt.Topic, gt.Partitions = t.Topic, t.Partitions
		g.Topics = append(g.Topics, gt)
	}
	req.Groups = append(req.Groups, g)
	err := c.askCoordinator(ctx, group, req, 2, 8, func(resp kmsg.Response) error {
		heard, err := readOffsetFetch(resp.(*kmsg.OffsetFetchResponse), group, cs)
		if err != nil {
			return err
		}
		return fillCommitted(group, cs, heard, func(c *Committed, h Committed) { c.Offset, c.Metadata = h.Offset, h.Metadata })
	})
	return failAll(cs, "fetch", group, err)
}

// failAll gives every entry the error of the whole, if there is one.
func failAll(cs []Committed, what, group string, err error) error {
	if err == nil {
		return nil
	}
	err = fmt.Errorf("%s offsets of %s: %w", what, group, err)
	for i := range cs {
		cs[i].Err = err
	}
	return err
}

// groupNotFound is how some brokers say that a group has never committed.
const groupNotFound = 69

func readOffsetFetch(r *kmsg.OffsetFetchResponse, group string, cs []Committed) (map[topicPartition]Committed, error) {
	heard := map[topicPartition]Committed{}
	note := func(topic string, partition int32, offset int64, metadata *string, code int16) {
		h := Committed{Offset: offset, Err: brokerError(code, nil)}
		if h.Offset < 0 || h.Err != nil {
			h.Offset = -1
		} else if metadata != nil {
			h.Metadata = *metadata
		}
		heard[topicPartition{topic, partition}] = h
	}
	code := r.ErrorCode
	for _, t := range r.Topics {
		for _, p := range t.Partitions {
			note(t.Topic, p.Partition, p.Offset, p.Metadata, p.ErrorCode)
		}
	}
	if r.Version >= 8 {
		at := slices.IndexFunc(r.Groups, func(g kmsg.OffsetFetchResponseGroup) bool { return g.Group == group })
		if at < 0 {
			return nil, ErrIncomplete
		}
		code = r.Groups[at].ErrorCode
		for _, t := range r.Groups[at].Topics {
			for _, p := range t.Partitions {
				note(t.Topic, p.Partition, p.Offset, p.Metadata, p.ErrorCode)
			}
		}
	}
	if code == groupNotFound {
		for _, c := range cs {
			note(c.Topic, c.Partition, -1, nil, 0)
		}
		return heard, nil
	}
	return heard, needs(brokerError(code, nil), "Read", "group", group)
}

// fillCommitted sets cs from what was heard. An answer that is left out, that may be better the next time, or that is
// about the group is an error of the whole.
func fillCommitted(group string, cs []Committed, heard map[topicPartition]Committed, set func(*Committed, Committed)) error {
	var whole error
	for i := range cs {
		h, ok := heard[topicPartition{cs[i].Topic, cs[i].Partition}]
		if !ok {
			h.Offset, h.Err = -1, ErrIncomplete
		}
		if cs[i].Err = nil; h.Err != nil {
			kind, name := "topic", cs[i].Topic
			if errors.Is(h.Err, ErrGroupAuthorization) {
				kind, name = "group", group
			}
			cs[i].Err = &OffsetError{Of: fmt.Sprintf("%s in %s/%d", group, cs[i].Topic, cs[i].Partition), Err: needs(h.Err, "Read", kind, name)}
		}
		set(&cs[i], h)
		if whole == nil && ofWhole(h.Err) {
			whole = cs[i].Err
		}
	}
	return whole
}

func ofWhole(err error) bool {
	for _, w := range []error{ErrIncomplete, ErrCoordinator, sarama.ErrUnstableOffsetCommit, ErrUnknownMember, ErrGroupAuthorization} {
		if errors.Is(err, w) {
			return true
		}
	}
	return false
}

// askCoordinator puts a question to the group's coordinator until read takes the answer or refuses it for good.
func (c *Client) askCoordinator(ctx context.Context, group string, req kmsg.Request, lo, hi int16, read func(kmsg.Response) error) error {
	ctx, done := c.bound(ctx)
	defer done()
	var before error // why the last try failed
	for {
		addr, err := c.coordinator(ctx, group)
		if err == nil {
			var resp kmsg.Response
			if resp, err = c.ask(ctx, addr, req, lo, hi, 0); err == nil {
				err = read(resp)
			}
		}
		if err == nil {
			return nil
		}
		c.forgetCoordinator(group)
		if ctx.Err() == nil && !Retriable(err) {
			return c.outcome(err)
		}
		if ctx.Err() == nil {
			before = err
		}
		if end := pause(ctx); end != nil {
			return c.outcome(fmt.Errorf("%w: %w", end, cmp.Or(before, err)))
		}
	}
}

// coordinator finds the address of the group's coordinator.
func (c *Client) coordinator(ctx context.Context, group string) (string, error) {
	c.mu.Lock()
	addr, ok := c.coordinators[group]
	c.mu.Unlock()
	if ok {
		return addr, nil
	}
	req := kmsg.NewPtrFindCoordinatorRequest()
	req.CoordinatorKey = group
	resp, err := c.askAny(ctx, req, 0, 3)
	if err != nil {
		return "", fmt.Errorf("find coordinator: %w", err)
	}
	r := resp.(*kmsg.FindCoordinatorResponse)
	if err := brokerError(r.ErrorCode, r.ErrorMessage); err != nil {
		return "", fmt.Errorf("find coordinator: %w", needs(err, "Read", "group", group))
	}
	addr = hostPort(r.Host, r.Port)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.coordinators[group] = addr
	return addr, nil
}

func (c *Client) forgetCoordinator(group string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.coordinators, group)
}
