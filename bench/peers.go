package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// produce writes the topic, unless it is there.
func produce(ctx context.Context) error {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addresses()...), kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.ProducerLinger(10*time.Millisecond),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.MaxBufferedRecords(200_000))
	if err != nil {
		return err
	}
	defer cl.Close()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 10_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = *topic, partitions, 1
	create.Topics = append(create.Topics, t)
	answer, err := create.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	switch err := kerr.ErrorForCode(answer.Topics[0].ErrorCode); {
	case errors.Is(err, kerr.TopicAlreadyExists):
		return nil
	case err != nil:
		return err
	}
	fmt.Printf("writing %d messages of %d bytes to %s\n", *total, *size, *topic)
	words := []string{"alpha", "bravo", "charlie", "delta", "echo", "foxtrot", "golf", "hotel", "india", "juliet"}
	var failed atomic.Int64
	for i := range *total {
		v := strconv.AppendInt([]byte(`{"id":`), i, 10)
		for len(v) < *size {
			v = strconv.AppendInt(append(append(append(v, `,"`...), words[rand.IntN(len(words))]...), `":`...), rand.Int64N(1e9), 10)
		}
		v = v[:*size]
		cl.Produce(ctx, &kgo.Record{Topic: *topic, Partition: int32(i % partitions), Key: v[6:14], Value: v}, func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Add(1)
			}
		})
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	if n := failed.Load(); n > 0 {
		return fmt.Errorf("%d messages could not be written", n)
	}
	return nil
}

func franzGroup(ctx context.Context, s *sink) error     { return franz(ctx, s, false) }
func franzGroupMark(ctx context.Context, s *sink) error { return franz(ctx, s, true) }

// franz reads in a group with autocommit; mark: each record is marked, as a program with its own workers does.
func franz(ctx context.Context, s *sink, mark bool) error {
	o := []kgo.Opt{
		kgo.SeedBrokers(addresses()...), kgo.ConsumeTopics(*topic), kgo.ConsumerGroup(group()), kgo.AutoCommitInterval(time.Second),
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
		if err := ctx.Err(); err != nil {
			return err
		}
		fs.EachRecord(func(r *kgo.Record) {
			s.add(r.Value, r.Offset)
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
	g, err := sarama.NewConsumerGroup(addresses(), group(), c)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	h := &handler{s: s, cancel: cancel}
	err = g.Consume(ctx, []string{*topic}, h)
	if h.n.Load() < *total {
		return errors.Join(err, errors.New("ended early"))
	}
	return nil
}

type handler struct {
	s      *sink
	cancel func()
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
		n, bytes, sum = n+1, bytes+int64(len(m.Value)), sum+m.Offset
		session.MarkMessage(m, "")
		if n < 64 && m.Offset+1 < claim.HighWaterMarkOffset() {
			continue
		}
		h.bytes.Add(bytes)
		h.sum.Add(sum)
		if h.n.Add(n) == *total {
			h.s.n, h.s.bytes, h.s.offsets = h.n.Load(), h.bytes.Load(), h.sum.Load()
			h.s.done()
			h.cancel()
		}
		n, bytes, sum = 0, 0, 0
	}
	return nil
}
