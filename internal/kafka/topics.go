package kafka

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Topic is what the cluster says of a topic.
type Topic struct {
	Name       string
	ID         [16]byte
	Partitions []Partition // by number; one without a leader has Leader -1
	Err        error       // of this topic alone: ErrUnknownTopic, authorization …
}

// Partition is what the cluster says of a partition.
type Partition struct {
	Leader      int32
	LeaderEpoch int32
	Replicas    int
}

// Topics asks the cluster anew, whichever broker answers, for as long as ctx lasts. It never creates a topic. Every name
// is in the result. What it learns of brokers and leaders is what the other calls use; without names it learns the
// brokers alone.
func (c *Client) Topics(ctx context.Context, names ...string) (map[string]Topic, error) {
	ctx, done := c.bound(ctx)
	defer done()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = []kmsg.MetadataRequestTopic{} // null would mean all
	for _, n := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(n)
		req.Topics = append(req.Topics, t)
	}
	resp, err := c.askAny(ctx, req, 4, 12)
	if err != nil {
		return nil, c.outcome(fmt.Errorf("metadata: %w", err))
	}
	heard := c.learn(resp.(*kmsg.MetadataResponse))
	got := make(map[string]Topic, len(names))
	for _, n := range names {
		t, ok := heard[n]
		if !ok {
			t = Topic{Name: n, Err: fmt.Errorf("metadata of %s: %w", n, ErrIncomplete)}
		}
		got[n] = t
	}
	return got, nil
}

// TopicNames asks for the names of all topics, but for Kafka's own, and gives them in order.
func (c *Client) TopicNames(ctx context.Context) ([]string, error) {
	ctx, done := c.bound(ctx)
	defer done()
	req := kmsg.NewPtrMetadataRequest()
	req.Topics = nil // all
	resp, err := c.askAny(ctx, req, 4, 12)
	if err != nil {
		return nil, c.outcome(fmt.Errorf("metadata: %w", err))
	}
	var names []string
	for _, t := range resp.(*kmsg.MetadataResponse).Topics {
		if t.Topic != nil && !t.IsInternal {
			names = append(names, *t.Topic)
		}
	}
	slices.Sort(names)
	return names, nil
}

// Leader gives what is known of a partition without asking, if anything is.
func (c *Client) Leader(topic string, partition int32) (Partition, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	ps := c.topics[topic].Partitions
	if partition < 0 || int(partition) >= len(ps) {
		return Partition{Leader: -1, LeaderEpoch: -1}, false
	}
	return ps[partition], ps[partition].Leader >= 0
}

// learn keeps what an answer says and gives its topics.
func (c *Client) learn(r *kmsg.MetadataResponse) map[string]Topic {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(r.Brokers) > 0 {
		clear(c.brokers)
	}
	for _, b := range r.Brokers {
		c.brokers[b.NodeID] = hostPort(b.Host, b.Port)
	}
	c.controller = r.ControllerID
	heard := make(map[string]Topic, len(r.Topics))
	for i := range r.Topics {
		if r.Topics[i].Topic == nil {
			continue
		}
		t := readTopic(&r.Topics[i])
		if t.Err == nil {
			keepNewest(t, c.topics[t.Name])
			own := t
			own.Partitions = slices.Clone(t.Partitions)
			c.topics[t.Name] = own
		} else if errors.Is(t.Err, ErrUnknownTopic) {
			delete(c.topics, t.Name)
		}
		heard[t.Name] = t
	}
	return heard
}

func readTopic(r *kmsg.MetadataResponseTopic) Topic {
	t := Topic{Name: *r.Topic, ID: r.TopicID}
	if err := brokerError(r.ErrorCode, nil); err != nil {
		t.Err = fmt.Errorf("topic %s: %w", t.Name, needs(err, "Read", "topic", t.Name))
		return t
	}
	t.Partitions = make([]Partition, len(r.Partitions))
	seen := make([]bool, len(r.Partitions))
	for i := range r.Partitions {
		p := &r.Partitions[i]
		if p.Partition < 0 || int(p.Partition) >= len(seen) || seen[p.Partition] {
			return Topic{Name: t.Name, ID: t.ID, Err: fmt.Errorf("topic %s: %w: partition %d of %d", t.Name, ErrIncomplete, p.Partition, len(seen))}
		}
		seen[p.Partition] = true
		t.Partitions[p.Partition] = Partition{Leader: p.Leader, LeaderEpoch: p.LeaderEpoch, Replicas: len(p.Replicas)}
	}
	return t
}

// keepNewest keeps the leaders of old that are newer than those of t: a broker may lag behind the one asked before.
func keepNewest(t, old Topic) {
	if t.ID != old.ID {
		return
	}
	for i := range min(len(t.Partitions), len(old.Partitions)) {
		if old.Partitions[i].LeaderEpoch > t.Partitions[i].LeaderEpoch {
			t.Partitions[i].Leader, t.Partitions[i].LeaderEpoch = old.Partitions[i].Leader, old.Partitions[i].LeaderEpoch
		}
	}
}

// hint takes over what a broker said of the new leader when it refused (KIP-951).
func (c *Client) hint(topic string, partition, leader, epoch int32) {
	if leader < 0 || epoch < 0 {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	ps := c.topics[topic].Partitions
	if partition >= 0 && int(partition) < len(ps) && ps[partition].LeaderEpoch < epoch {
		ps[partition].Leader, ps[partition].LeaderEpoch = leader, epoch
	}
}

// endpoint takes over the address of a new leader.
func (c *Client) endpoint(broker int32, host string, port int32) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.brokers[broker] = hostPort(host, port)
}

// Brokers tells which brokers are known, in order.
func (c *Client) Brokers() []int32 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.brokers))
}
