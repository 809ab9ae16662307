package marshal

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/IBM/sarama"
	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
)

// PartitionClaim says who holds a partition, or held it last. Its zero value: nobody.
type PartitionClaim struct {
	LastHeartbeat int64 // of the holder, Unix seconds, by the broker's clock: for display. 0: not known
	LastOffset    int64 // the NEXT offset to read, as the group's log has it; -1: not known
	ClientID      string
	GroupID       string
	InstanceID    string // one run of the client; empty where nobody holds the partition any more
	Epoch         int64  // of the lease, or the last one
}

// PartitionOffsets are those of one partition. Current is the group's progress in the coordination topic (the NEXT offset to read), -1:
// not known; Earliest and Latest are the log's first offset and its end; Committed is what the group has committed to Kafka, -1: nothing.
type PartitionOffsets struct {
	Current, Earliest, Latest, Committed int64
}

// Partitions is how many partitions a topic has, as the cluster says now. 0: there is no such topic, or nobody answered within 10 s, which
// is logged; or the Marshaler is terminated.
func (m *Marshaler) Partitions(topicName string) int {
	ctx, cancel := context.WithTimeout(m.ctx, callLimit)
	defer cancel()
	if m.Terminated() {
		return 0
	}
	topics, err := m.c.client.Topics(ctx, topicName)
	if t := topics[topicName]; err == nil && !errors.Is(t.Err, kafka.ErrUnknownTopic) {
		err = t.Err
	}
	if err != nil && m.ctx.Err() == nil {
		m.emit(logrus.WarnLevel, Event{Kind: Trouble, Topic: topicName, Partition: lease.WholeTopic, Err: err, Text: fmt.Sprintf("cannot ask for topic %s: %v", topicName, err)})
	}
	return len(topics[topicName].Partitions)
}

// Topics are the cluster's topics in order, without Kafka's own and the coordination topic. It blocks for 10 s at most; nil: nobody
// answered, which is logged, or the Marshaler is terminated.
func (m *Marshaler) Topics() []string {
	ctx, cancel := context.WithTimeout(m.ctx, callLimit)
	defer cancel()
	if m.Terminated() {
		return nil
	}
	names, err := m.c.client.TopicNames(ctx)
	if err != nil && m.ctx.Err() == nil {
		m.emit(logrus.WarnLevel, Event{Kind: Trouble, Err: err, Text: fmt.Sprintf("cannot ask for the topics: %v", err)})
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == m.c.set.topic })
}

// IsClaimed tells whether somebody of the group holds a partition, by itself or with its whole topic; one that is kept for the next run
// of its client counts. It asks nobody: it is what this process has read of the coordination topic. False after Terminate, and while
// that is being read anew.
func (m *Marshaler) IsClaimed(topicName string, partID int) bool {
	return m.GetPartitionClaim(topicName, partID) != PartitionClaim{}
}

// GetPartitionClaim says who holds a partition, by itself or with its whole topic; the zero value where nobody does. It asks nobody, see
// IsClaimed; the zero value after Terminate, too.
func (m *Marshaler) GetPartitionClaim(topicName string, partID int) PartitionClaim {
	return m.view(func(w *lease.World) PartitionClaim { return m.holderOf(w, topicName, toPartition(partID)) })
}

// GetLastPartitionClaim says who holds a partition, or, where nobody does, who held it last and how far the group is: progress outlives
// leases. The zero value where nobody ever held it and nothing is known of it, and after Terminate. It asks nobody, see IsClaimed.
func (m *Marshaler) GetLastPartitionClaim(topicName string, partID int) PartitionClaim {
	return m.view(func(w *lease.World) PartitionClaim {
		id := toPartition(partID)
		if c := m.holderOf(w, topicName, id); c != (PartitionClaim{}) {
			return c
		}
		p, known := w.Progress(topicName, id)
		if !known {
			return PartitionClaim{}
		}
		return PartitionClaim{LastOffset: p.Next, ClientID: p.Client, GroupID: m.groupID, Epoch: p.Epoch}
	})
}

// view asks the world, if there is one.
func (m *Marshaler) view(ask func(*lease.World) PartitionClaim) PartitionClaim {
	if m.Terminated() {
		return PartitionClaim{}
	}
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if !m.g.live {
		return PartitionClaim{}
	}
	return ask(m.g.log.World())
}

func (m *Marshaler) holderOf(w *lease.World, topic string, partition int32) PartitionClaim {
	_, l, held := w.Owner(topic, partition)
	if !held {
		return PartitionClaim{}
	}
	c := PartitionClaim{LastOffset: next(w, topic, partition), GroupID: m.groupID, InstanceID: l.Instance.String(), Epoch: l.Epoch}
	if i := w.Instance(l.Instance); i != nil {
		c.ClientID, c.LastHeartbeat = i.Client, max(i.RenewedTime/1000, 0)
	}
	return c
}

// GetPartitionOffsets asks for a partition's offsets, of the cluster and of the group. It blocks for 10 s at most, and gives an error that
// wraps what the broker said where one of them cannot be had; ErrTerminated after Terminate.
func (m *Marshaler) GetPartitionOffsets(topicName string, partID int) (PartitionOffsets, error) {
	ctx, cancel := context.WithTimeout(m.ctx, callLimit)
	defer cancel()
	none := PartitionOffsets{-1, -1, -1, -1}
	k := lease.Key{Topic: topicName, Partition: toPartition(partID)}
	o, err := m.offsetsOf(ctx, k)
	switch {
	case m.Terminated():
		return none, ErrTerminated
	case err != nil:
		return none, fmt.Errorf("marshal: offsets of %s: %w", nameOfKey(k), err)
	}
	return o, nil
}

func (m *Marshaler) offsetsOf(ctx context.Context, k lease.Key) (o PartitionOffsets, err error) {
	topic, err := m.topicWith(ctx, k)
	if err != nil {
		return o, err
	}
	if k.Partition == lease.WholeTopic {
		return o, errors.New("a partition is needed")
	}
	ends := m.c.client.Offsets(ctx, []kafka.OffsetQuery{
		{Topic: k.Topic, Partition: k.Partition, At: sarama.OffsetOldest}, {Topic: k.Topic, Partition: k.Partition, At: sarama.OffsetNewest},
	})
	committed := []kafka.Committed{{Topic: k.Topic, Partition: k.Partition}}
	err = errors.Join(ends[0].Err, ends[1].Err, m.c.client.FetchOffsets(ctx, m.groupID, committed), committed[0].Err)
	if err != nil {
		return o, err
	}
	o = PartitionOffsets{Current: lease.NoProgress, Earliest: ends[0].Offset, Latest: ends[1].Offset, Committed: committed[0].Offset}
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if m.g.live {
		if p, ok := m.g.log.World().Progress(k.Topic, k.Partition); ok && p.TopicID.Same(topic.ID) {
			o.Current = p.Next
		}
	}
	return o, nil
}
