package main

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/segmentio/kafka-go"
	"github.com/twmb/franz-go/pkg/kgo"
)

func franzGroup(ctx context.Context, s *sink) error     { return franz(ctx, s, false) }
func franzGroupMark(ctx context.Context, s *sink) error { return franz(ctx, s, true) }

// franz reads in a group with autocommit; mark: each record is marked, as a program with its own workers does.
func franz(ctx context.Context, s *sink, mark bool) error {
	o := []kgo.Opt{
		kgo.SeedBrokers(addresses()...), kgo.ConsumeTopics(*topic), kgo.ConsumerGroup(group), kgo.AutoCommitInterval(time.Second),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if mark {
		o = append(o, kgo.AutoCommitMarks())
	}
	cl, err := kgo.NewClient(o...)
	if err != nil {
		return err
	}
	defer cl.Close()
	for s.n < *total {
		fs := cl.PollFetches(ctx)
		if err := fs.Err(); err != nil {
			return err
		}
		fs.EachRecord(func(r *kgo.Record) {
			s.add(r.Value, r.Partition, r.Offset)
			if mark {
				cl.MarkCommitRecords(r)
			}
		})
	}
	return nil
}

// saramaGroup reads in a group with autocommit, each message marked, by one goroutine per partition as sarama does it.
func saramaGroup(ctx context.Context, s *sink) error {
	c := sarama.NewConfig()
	c.Version = sarama.MaxVersion
	c.Consumer.Offsets.Initial = sarama.OffsetOldest
	g, err := sarama.NewConsumerGroup(addresses(), group, c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &handler{sink: s, cancel: cancel}
	err = errors.Join(g.Consume(ctx, []string{*topic}, h), g.Close())
	if h.n.Load() < *total {
		return errors.Join(err, errors.New("ended early"))
	}
	return err
}

type handler struct {
	sink   *sink
	cancel func()
	begin  sync.Once
	n      atomic.Int64
	bytes  atomic.Int64
	sum    atomic.Int64
}

func (h *handler) Setup(sarama.ConsumerGroupSession) error   { return nil }
func (h *handler) Cleanup(sarama.ConsumerGroupSession) error { return nil }

// ConsumeClaim counts in runs of 64, so that counting across goroutines costs nothing.
func (h *handler) ConsumeClaim(session sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	var n, bytes, sum int64
	for m := range claim.Messages() {
		n, bytes, sum = n+1, bytes+int64(len(m.Value)), sum+weigh(m.Partition, m.Offset)
		session.MarkMessage(m, "")
		if n < 64 && m.Offset+1 < *total/partitions {
			continue
		}
		h.begin.Do(func() { h.sink.first = time.Now() })
		h.bytes.Add(bytes)
		h.sum.Add(sum)
		if h.n.Add(n) == *total {
			h.sink.n, h.sink.bytes, h.sink.sum = h.n.Load(), h.bytes.Load(), h.sum.Load()
			h.sink.done()
			h.cancel()
		}
		n, bytes, sum = 0, 0, 0
	}
	return nil
}

// kafkagoReader reads in a group; ReadMessage commits each message, which goes out once a second.
func kafkagoReader(ctx context.Context, s *sink) error {
	r := kafka.NewReader(kafka.ReaderConfig{
		Brokers: addresses(), GroupID: group, Topic: *topic, StartOffset: kafka.FirstOffset, CommitInterval: time.Second,
		MaxBytes: 10e6, MaxWait: 500 * time.Millisecond, // Close waits for it
	})
	for s.n < *total {
		m, err := r.ReadMessage(ctx)
		if err != nil {
			return errors.Join(err, r.Close())
		}
		s.add(m.Value, int32(m.Partition), m.Offset)
	}
	return r.Close()
}
