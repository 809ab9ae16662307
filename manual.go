package marshal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
)

// Claims by hand. They live in a Consumer of their own that wants nothing but the keys pinned in it: what it does for its claims
// (positions, drains, Kafka's offsets, the start) is what every other does.

// Claim claims one partition by hand, or a whole topic (partition -1), for as long as this process lives or until Release. It is kept
// alive by the Marshaler's own heartbeats. Such a claim is not balanced, and has no part in anybody's share; a Consumer may use it beside
// others of its topic. Where the group has no position it starts at the oldest record. Its messages can be had by Claim.Messages, read as
// with NewConsumerOptions, or the caller reads by means of its own and tells Claim.Progress.
//
// It blocks until the coordination topic has granted it and its start is known, or ctx ends. It gives a *ClaimedError, without waiting,
// when somebody else holds it or what conflicts with it; ErrOwnedByConsumer when a Consumer of this very Marshaler does; and
// ErrTerminated after Terminate. One that was claimed by hand here before is given again, the same *Claim.
//
// When this process was declared dead, or the position is set by a Seek, or the topic is recreated, the claim is lost, and does not come
// back: its Context ends with ErrClaimLost, and it is for the caller to claim again.
func (m *Marshaler) Claim(ctx context.Context, topic string, partition int32) (*Claim, error) {
	key := lease.Key{Topic: topic, Partition: partition}
	if m.Terminated() {
		return nil, ErrTerminated
	}
	if err := m.checkTopics([]string{topic}); err != nil {
		return nil, err
	}
	known, err := m.topicWith(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("marshal: claiming %s: %w", nameOfKey(key), err)
	}
	hand, err := m.hands()
	if err != nil {
		return nil, err
	}
	hand.learn(map[string]kafka.Topic{topic: known})
	for {
		claim, changed, err := hand.pin(key)
		if claim != nil || err != nil {
			return claim, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			hand.unpin(key)
			return nil, fmt.Errorf("marshal: claiming %s: %w", nameOfKey(key), errors.Join(ctx.Err(), m.troubled()))
		case <-m.ctx.Done():
			return nil, ErrTerminated
		}
	}
}

// ClaimPartition is Claim with a limit of 10 s. It gives true when the partition is claimed by hand, now or before; why it is not goes
// to the log.
func (m *Marshaler) ClaimPartition(topic string, partID int) bool {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	_, err := m.Claim(ctx, topic, toPartition(partID))
	if err != nil {
		m.emit(logrus.InfoLevel, Event{Kind: Trouble, Topic: topic, Partition: toPartition(partID), Err: err, Text: strings.TrimPrefix(err.Error(), "marshal: ")})
	}
	return err == nil
}

// Heartbeat sets the position of a partition that is claimed by hand: lastOffset is the NEXT offset to read, everything below is
// finished. It blocks until that is in the coordination topic and was read back, 10 s at most. The lease itself needs no
// call: the Marshaler renews it.
//
// It gives ErrNotClaimed when the partition is not claimed by hand here (any more), ErrOwnedByConsumer when a Consumer of this
// Marshaler has it, ErrTerminated after Terminate, and an error when lastOffset is below the position.
func (m *Marshaler) Heartbeat(topic string, partID int, lastOffset int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	key := lease.Key{Topic: topic, Partition: toPartition(partID)}
	g, err := m.claimedByHand(key)
	if err != nil {
		return err
	}
	for _, p := range g.claim.partitions() {
		if p.id == key.Partition {
			return asNotClaimed(key, g.claim.progress(ctx, p, lastOffset))
		}
	}
	return notClaimed(key)
}

// ReleasePartition gives back what is claimed by hand, at the offset lastOffset, which is the NEXT to read, or where it stands if that is
// -1 (the only way for a whole topic, partID -1). It blocks until the coordination topic has confirmed it, 10 s at most; its errors
// are those of Heartbeat.
func (m *Marshaler) ReleasePartition(topic string, partID int, lastOffset int64) error {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	key := lease.Key{Topic: topic, Partition: toPartition(partID)}
	g, err := m.claimedByHand(key)
	switch {
	case err != nil:
		return err
	case g.Partition != key.Partition:
		return fmt.Errorf("%w: %s by itself, but with its topic as a whole (partition -1)", ErrNotClaimed, nameOfKey(key))
	}
	return asNotClaimed(key, g.Release(ctx, lastOffset))
}

// CommitOffsets writes a partition's offset to Kafka, as the group's, and nothing else: lastOffset is the NEXT offset to read. Nobody
// checks who holds the partition, and the next position that its holder commits overwrites it. It is not taken for an offset set from
// outside: it resets nothing. It blocks for 10 s at most; ErrTerminated after Terminate.
func (m *Marshaler) CommitOffsets(topic string, partID int, lastOffset int64) error {
	ctx, cancel := context.WithTimeout(m.ctx, callLimit)
	defer cancel()
	key := lease.Key{Topic: topic, Partition: toPartition(partID)}
	if lastOffset < 0 {
		return fmt.Errorf("marshal: committing %s: offset %d is negative", nameOfKey(key), lastOffset)
	}
	known, err := m.topicWith(ctx, key)
	if err == nil && key.Partition == lease.WholeTopic {
		err = errors.New("a partition is needed")
	}
	if err == nil {
		commit := []kafka.Committed{{Topic: topic, Partition: key.Partition, Offset: lastOffset, Metadata: m.metadata(known.ID, m.tokenOf(key))}}
		err = errors.Join(m.c.client.CommitOffsets(ctx, m.groupID, commit), commit[0].Err)
	}
	switch {
	case m.Terminated():
		return ErrTerminated
	case err != nil:
		return fmt.Errorf("marshal: committing %s: %w", nameOfKey(key), err)
	}
	return nil
}

// toPartition takes the int that the original had; what is none is the number of none.
func toPartition(id int) int32 {
	if id < int(lease.WholeTopic) || id >= math.MaxInt32 {
		return math.MaxInt32
	}
	return int32(id)
}

// topicWith asks for the topic of a key.
func (m *Marshaler) topicWith(ctx context.Context, k lease.Key) (kafka.Topic, error) {
	if m.Terminated() {
		return kafka.Topic{}, ErrTerminated
	}
	topics, err := m.c.client.Topics(ctx, k.Topic)
	if m.ctx.Err() != nil {
		return kafka.Topic{}, ErrTerminated
	}
	if err := errors.Join(err, topics[k.Topic].Err); err != nil {
		return kafka.Topic{}, err
	}
	t := topics[k.Topic]
	if n := len(t.Partitions); k.Partition < lease.WholeTopic || int(k.Partition) >= n {
		return kafka.Topic{}, fmt.Errorf("%w: topic %s has %d partitions", kafka.ErrUnknownTopic, k.Topic, n)
	}
	return t, nil
}

// tokenOf is the token under which a key is held here; 0: it is not.
func (m *Marshaler) tokenOf(k lease.Key) int64 {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if c := m.covering(k); c != nil {
		return c.token
	}
	return 0
}

// covering is the claim here that a key belongs to: its own or its topic's. Called with g.mu held.
func (m *Marshaler) covering(k lease.Key) *claim {
	if c := m.claims[k]; c != nil {
		return c
	}
	return m.claims[lease.Key{Topic: k.Topic, Partition: lease.WholeTopic}]
}

// claimedByHand finds what was claimed by hand and covers a key.
func (m *Marshaler) claimedByHand(k lease.Key) (*Claim, error) {
	if m.Terminated() {
		return nil, ErrTerminated
	}
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	c := m.covering(k)
	switch {
	case c == nil || c.consumer == nil:
		return nil, notClaimed(k)
	case c.consumer != m.hand:
		return nil, fmt.Errorf("%w: %s", ErrOwnedByConsumer, nameOfKey(k))
	}
	if g := c.gave(); g != nil {
		return g, nil
	}
	return nil, notClaimed(k)
}

func notClaimed(k lease.Key) error { return fmt.Errorf("%w: %s", ErrNotClaimed, nameOfKey(k)) }

// asNotClaimed says of a claim that was lost that the key is not claimed any more.
func asNotClaimed(k lease.Key, err error) error {
	if errors.Is(err, ErrClaimLost) {
		return fmt.Errorf("%w: %s: %w", ErrNotClaimed, nameOfKey(k), err)
	}
	return err
}

// pinned tells whether a key is claimed by hand, or to be. Called with g.mu held.
func (m *Marshaler) pinned(k lease.Key) bool { return m.hand != nil && m.hand.pins[k] }

// hands is the Consumer in which claims by hand live.
func (m *Marshaler) hands() (*Consumer, error) {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if m.Terminated() { // asked under the lock: Close takes the consumers that are there, and no other may come
		return nil, ErrTerminated
	}
	if m.hand == nil {
		c := newConsumer(m, nil, ConsumerOptions{})
		c.known, c.first, c.pins = map[string]kafka.Topic{}, map[string]int32{}, map[lease.Key]bool{}
		c.ctx, c.cancel = context.WithCancel(m.ctx)
		c.fetcher = newFetcher(c.ctx, c)
		c.run()
		m.hand = c
		m.consumers = append(m.consumers, c)
	}
	return m.hand, nil
}

// watched are the topics that it asks for again and again.
func (c *Consumer) watched() []string {
	if c.pins == nil {
		return c.names
	}
	c.m.g.mu.Lock()
	defer c.m.g.mu.Unlock()
	topics := map[string]bool{}
	for k := range c.pins {
		topics[k.Topic] = true
	}
	return slices.Collect(maps.Keys(topics))
}

// pin has the member claim a key, and gives the claim once it is there; else what is closed when something has changed.
func (c *Consumer) pin(k lease.Key) (*Claim, <-chan struct{}, error) {
	m := c.m
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if c.phase != consuming {
		return nil, nil, ErrTerminated
	}
	cl := m.claims[k]
	if cl != nil && cl.consumer == c {
		switch g := cl.gave(); {
		case !c.pins[k]: // it is being given back
			return nil, m.changed, nil
		case g != nil:
			return g, nil, nil
		}
		if g := cl.give(cl.reading.Load()); g != nil {
			return g, nil, nil
		}
		return nil, m.changed, nil
	}
	if err := m.inTheWay(k); err != nil {
		c.drop(k)
		return nil, nil, err
	}
	if !c.pins[k] {
		c.pins[k] = true
		for _, o := range m.consumers { // it is not kept for the next run any more
			o.kept = slices.DeleteFunc(o.kept, func(kept lease.Key) bool { return kept == k })
		}
		m.want()
	}
	return nil, m.changed, nil
}

// inTheWay tells who holds a key, or one that conflicts with it, if it is not to be had. Called with g.mu held.
func (m *Marshaler) inTheWay(k lease.Key) error {
	if !m.g.live {
		return nil // we shall see
	}
	w := m.g.log.World()
	for other, l := range w.Conflicts(k) {
		holder := w.Instance(l.Instance)
		switch c := m.claims[other]; {
		case holder == nil, holder.Status == lease.IsParked && holder.Client == m.clientID: // it is for us
		case l.Instance == m.instance && c != nil && c.consumer != nil && c.consumer != m.hand:
			return fmt.Errorf("%w: %s", ErrOwnedByConsumer, nameOfKey(other))
		case l.Instance == m.instance && other == k:
		default:
			return &ClaimedError{
				Topic: other.Topic, Partition: other.Partition, HolderClient: holder.Client, HolderInstance: l.Instance.String(), HolderEpoch: l.Epoch,
			}
		}
	}
	return nil
}

// unpin gives up what the application was not given, or has lost.
func (c *Consumer) unpin(k lease.Key) {
	c.m.g.mu.Lock()
	defer c.m.g.mu.Unlock()
	if cl := c.m.claims[k]; cl == nil || !cl.isGiven() {
		c.drop(k)
	}
}

// drop forgets a pin. Called with the group's lock held.
func (c *Consumer) drop(k lease.Key) {
	if c.pins[k] {
		delete(c.pins, k)
		c.m.want()
		c.m.tellChanged() // another may be waiting for it
	}
}
