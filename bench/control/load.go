package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	valueSize = 100
	loadTick  = 10 * time.Millisecond
)

// load is what a process writes that keeps every partition of a topic flowing: one message to each in every period, spread evenly.
type load struct {
	Brokers    []string
	Topic      string
	Partitions int
	Period     time.Duration
}

func newProducer(brokers []string) (*kgo.Client, error) {
	return kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.MaxBufferedRecords(1_000_000))
}

// produce writes until standard input ends.
func produce(text string) error {
	var l load
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		return err
	}
	cl, err := newProducer(l.Brokers)
	if err != nil {
		return err
	}
	defer cl.Close()
	ctx, cancel := context.WithCancel(context.Background())
	var waiting sync.WaitGroup
	waiting.Go(func() {
		for orders := bufio.NewScanner(os.Stdin); orders.Scan(); {
		}
		cancel()
	})
	defer waiting.Wait()
	value := make([]byte, valueSize)
	begin, written := time.Now(), 0
	tick := time.NewTicker(loadTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		for due := int(time.Since(begin) * time.Duration(l.Partitions) / l.Period); written < due; written++ {
			cl.Produce(ctx, &kgo.Record{Topic: l.Topic, Partition: int32(written % l.Partitions), Value: value}, nil)
		}
	}
}

// fill writes n messages to each of some partitions, and returns when they are there.
func fill(ctx context.Context, cl *kgo.Client, topic string, partitions []int32, n int) error {
	return fillWith(ctx, cl, topic, partitions, n, valueSize)
}

// warm writes so much to each partition that its leader knows that it is one, and has begun the indexes of its log. A broker begins them after 4
// KiB (index.interval.bytes); where all partitions come to it at the same time, it stands still for up to twenty seconds.
func warm(ctx context.Context, cl *kgo.Client, topic string, partitions []int32) error {
	for range 3 {
		if err := fillWith(ctx, cl, topic, partitions, 1, 5<<10); err != nil {
			return err
		}
	}
	return nil
}

func fillWith(ctx context.Context, cl *kgo.Client, topic string, partitions []int32, n, size int) error {
	value := make([]byte, size)
	var mu sync.Mutex
	var failed error
	for i := 0; i < n; i++ {
		for _, p := range partitions {
			cl.Produce(ctx, &kgo.Record{Topic: topic, Partition: p, Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					mu.Lock()
					failed = err
					mu.Unlock()
				}
			})
		}
	}
	if err := cl.Flush(ctx); err != nil {
		return err
	}
	mu.Lock()
	defer mu.Unlock()
	return failed
}

func createTopic(ctx context.Context, cl *kgo.Client, topic string, partitions int) error {
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis = 30_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = topic, int32(partitions), 1
	create.Topics = append(create.Topics, t)
	answer, err := create.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	if err := kerr.ErrorForCode(answer.Topics[0].ErrorCode); err != nil {
		return fmt.Errorf("creating topic %s: %w", topic, err)
	}
	return allLed(ctx, cl, topic, partitions)
}

// allLed waits until every partition has a leader: that is not what is measured.
func allLed(ctx context.Context, cl *kgo.Client, topic string, partitions int) error {
	again := time.NewTicker(50 * time.Millisecond)
	defer again.Stop()
	for {
		ask := kmsg.NewPtrMetadataRequest()
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = &topic
		ask.Topics = append(ask.Topics, t)
		answer, err := ask.RequestWith(ctx, cl)
		if err != nil {
			return err
		}
		led := 0
		for _, t := range answer.Topics {
			for _, p := range t.Partitions {
				if p.ErrorCode == 0 && p.Leader >= 0 {
					led++
				}
			}
		}
		if led == partitions {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-again.C:
		}
	}
}

func deleteTopic(cl *kgo.Client, topic string) {
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	remove := kmsg.NewPtrDeleteTopicsRequest()
	remove.TimeoutMillis = 30_000
	remove.TopicNames = []string{topic}
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = &topic
	remove.Topics = append(remove.Topics, t)
	_, _ = remove.RequestWith(ctx, cl) // what stays is in nobody's way: no run uses a name twice
}
