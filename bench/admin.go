package main

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// remove deletes a topic, also after the run was told to end, so that there is never more than one to keep in memory.
func remove(c content) error {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	cl, err := kgo.NewClient(kgo.SeedBrokers(addresses()...))
	if err != nil {
		return err
	}
	defer cl.Close()
	request := kmsg.NewPtrDeleteTopicsRequest()
	request.TimeoutMillis = 10_000
	request.TopicNames = []string{c.topic()}
	t := kmsg.NewDeleteTopicsRequestTopic()
	t.Topic = kmsg.StringPtr(c.topic())
	request.Topics = append(request.Topics, t)
	answer, err := request.RequestWith(ctx, cl)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(answer.Topics[0].ErrorCode)
}

// committedBy is how many messages of a topic a group has committed in Kafka.
func committedBy(ctx context.Context, group, topic string) (n int64, err error) {
	cl, err := kgo.NewClient(kgo.SeedBrokers(addresses()...))
	if err != nil {
		return 0, err
	}
	defer cl.Close()
	request := kmsg.NewPtrOffsetFetchRequest()
	request.Group = group
	t := kmsg.NewOffsetFetchRequestTopic()
	t.Topic = topic
	for p := range int32(partitions) {
		t.Partitions = append(t.Partitions, p)
	}
	request.Topics = append(request.Topics, t)
	answer, err := request.RequestWith(ctx, cl)
	if err != nil {
		return 0, err
	}
	if err := kerr.ErrorForCode(answer.ErrorCode); err != nil {
		return 0, fmt.Errorf("offsets of %s: %w", group, err)
	}
	for _, t := range answer.Topics {
		for _, p := range t.Partitions {
			n += max(p.Offset, 0)
		}
	}
	return n, nil
}
