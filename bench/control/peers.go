package main

import (
	"context"
	"errors"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

// The peers read with their defaults, from the end of the topic on, and commit by the second in the background.
const commitEvery = time.Second

func saramaGroup(ctx context.Context, t *task, note func(int32, int64)) error {
	c := sarama.NewConfig()
	c.ClientID = t.Name
	c.Consumer.Offsets.Initial = sarama.OffsetNewest
	g, err := sarama.NewConsumerGroup(t.Brokers, t.Group, c)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		if err := g.Consume(ctx, []string{t.Topic}, saramaHandler(note)); err != nil && ctx.Err() == nil {
			return errors.Join(err, g.Close())
		}
	}
	return g.Close()
}

type saramaHandler func(int32, int64)

func (h saramaHandler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (h saramaHandler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

func (h saramaHandler) ConsumeClaim(s sarama.ConsumerGroupSession, c sarama.ConsumerGroupClaim) error {
	for {
		select {
		case m, ok := <-c.Messages():
			if !ok {
				return nil
			}
			h(m.Partition, m.Offset)
			s.MarkMessage(m, "")
		case <-s.Context().Done(): // as its example does, so that a rebalance is not held up
			return nil
		}
	}
}

func kafkaGo(ctx context.Context, t *task, note func(int32, int64)) error {
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: t.Brokers, GroupID: t.Group, Topic: t.Topic, StartOffset: kafka.LastOffset, CommitInterval: commitEvery,
		Dialer: &kafka.Dialer{ClientID: t.Name, Timeout: 10 * time.Second, DualStack: true},
	})
	for ctx.Err() == nil {
		m, err := r.ReadMessage(ctx)
		switch {
		case err == nil:
			note(int32(m.Partition), m.Offset)
		case ctx.Err() == nil:
			return errors.Join(err, r.Close())
		}
	}
	return r.Close()
}

// franzGroup is the classic group with the default balancer, cooperative-sticky.
func franzGroup(ctx context.Context, t *task, note func(int32, int64)) error {
	return franz(ctx, t, note)
}

// franzNextGen is KIP-848: the broker assigns.
func franzNextGen(ctx context.Context, t *task, note func(int32, int64)) error {
	return franz(ctx, t, note, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
}

func franz(ctx context.Context, t *task, note func(int32, int64), more ...kgo.Opt) error {
	cl, err := kgo.NewClient(append([]kgo.Opt{
		kgo.SeedBrokers(t.Brokers...), kgo.ClientID(t.Name), kgo.ConsumeTopics(t.Topic), kgo.ConsumerGroup(t.Group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()), kgo.AutoCommitInterval(commitEvery),
	}, more...)...)
	if err != nil {
		return err
	}
	for ctx.Err() == nil {
		cl.PollFetches(ctx).EachRecord(func(r *kgo.Record) { note(r.Partition, r.Offset) })
	}
	cl.Close()
	return nil
}
