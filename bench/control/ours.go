package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal"
)

const (
	workers   = 4
	rest      = time.Millisecond
	goodbye   = 10 * time.Second
	clientIDs = "%s-%d"
)

// ours reads as a program does that hands each message to its own code and commits it.
func ours(ctx context.Context, t *task, note func(int32, int64)) error {
	log := logrus.New()
	log.Out = io.Discard
	if t.LogTo != "" {
		f, err := os.OpenFile(t.LogTo, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		defer f.Close()
		log.Out, log.Level = f, logrus.DebugLevel
		log.Formatter = &logrus.TextFormatter{TimestampFormat: "15:04:05.000000", FullTimestamp: true}
	}
	c, err := marshal.Dial(t.Name, t.Brokers, marshal.WithLogger(log), marshal.WithLease(t.TTL, 0))
	if err != nil {
		return err
	}
	var failed error
	var members sync.WaitGroup
	var mu sync.Mutex
	for i := range max(t.Members, 1) {
		members.Go(func() {
			if err := ourMember(ctx, c, t, fmt.Sprintf(clientIDs, t.Name, i), note); err != nil {
				mu.Lock()
				defer mu.Unlock()
				failed = errors.Join(failed, err)
			}
		})
	}
	members.Wait()
	soon, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	return errors.Join(failed, c.Close(soon))
}

func ourMember(ctx context.Context, c *marshal.KafkaCluster, t *task, name string, note func(int32, int64)) error {
	m, err := c.NewMarshalerContext(ctx, name, t.Group)
	if err != nil {
		return err
	}
	options := marshal.ConsumerOptions{StartOffset: marshal.StartLatest}
	if t.Earliest {
		options.StartOffset = marshal.StartEarliest
	}
	if t.Slow {
		options.MaxInFlight = 1
	}
	consumer, err := m.NewConsumer([]string{t.Topic}, options)
	if err != nil {
		return errors.Join(err, ctx.Err())
	}
	toTheEnd, stop := context.WithCancel(context.Background()) // it is handed messages until it has left
	var reading sync.WaitGroup
	if t.Slow {
		for range workers {
			reading.Go(func() { readSlowly(toTheEnd, consumer, note) })
		}
	} else {
		reading.Go(func() { read(toTheEnd, consumer, note) })
	}
	<-ctx.Done()
	soon, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	err = m.Close(soon)
	stop()
	reading.Wait()
	return err
}

func read(ctx context.Context, c *marshal.Consumer, note func(int32, int64)) {
	for m, err := range c.Messages(ctx) {
		if err != nil {
			continue // what lasts is in the log; the partition goes on when it is over
		}
		note(m.Partition, m.Offset)
		_ = m.Commit() // refused where the claim was lost
	}
}

// readSlowly takes one message after another, and rests after each.
func readSlowly(ctx context.Context, c *marshal.Consumer, note func(int32, int64)) {
	resting := time.NewTimer(rest)
	defer resting.Stop()
	for ctx.Err() == nil {
		m, err := c.FetchMessage(ctx)
		switch {
		case errors.Is(err, marshal.ErrTerminated):
			return
		case err != nil:
			continue
		}
		note(m.Partition, m.Offset)
		_ = m.Commit() // refused where the claim was lost: who has it now begins there again
		resting.Reset(rest)
		select {
		case <-resting.C:
		case <-ctx.Done():
		}
	}
}
