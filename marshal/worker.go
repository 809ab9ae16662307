package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/testutil"
)

// work is one worker process of the demo: what a user's worker does, and a line in a log for each message, for the judge.
func work(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := newFlags("demo-worker", "One worker process of the demo.", stdout)
	brokers := fs.String("brokers", "", "bootstrap addresses, with commas")
	process := fs.String("process", "", "the name of this run")
	client := fs.String("client", "", "the client id")
	group := fs.String("group", "", "the group")
	topic := fs.String("topic", "", "the topic")
	dir := fs.String("dir", "", "where the hand-out logs go")
	ttl := fs.Duration("ttl", 2*time.Second, "the lease")
	if err := parse(fs, args); err != nil {
		return err
	}
	record, err := testutil.OpenHandoutLog(*dir, *process, *client)
	if err != nil {
		return err
	}
	defer record.Close()
	record.Note(testutil.Started)
	log := logrus.New()
	log.Out = io.Discard
	if path := os.Getenv("MARSHAL_DEMO_LOG"); path != "" {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer f.Close()
		log.Out = f
	}

	m, err := marshal.NewMarshaler(*client, *group, strings.Split(*brokers, ","), marshal.WithLease(*ttl, 0),
		marshal.WithLogger(log.WithField("process", *process)))
	if err != nil {
		return err
	}
	c, err := m.NewConsumer([]string{*topic}, marshal.ConsumerOptions{FastReclaim: true, DrainTimeout: 2 * time.Second})
	if err != nil {
		return err
	}
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { // SIGTERM
		defer close(ended)
		record.Note(testutil.Ending)
		m.Terminate()
		record.Note(testutil.Ended)
	})
	err = consume(c, record)
	if !stop() {
		<-ended
	}
	return errors.Join(err, record.Close())
}

func consume(c *marshal.Consumer, record *testutil.HandoutLog) error {
	for {
		before := testutil.Now()
		m, err := c.FetchMessage(context.Background())
		after := testutil.Now()
		switch {
		case errors.Is(err, marshal.ErrTerminated):
			return nil
		case err != nil:
			return fmt.Errorf("fetching: %w", err)
		}
		record.Handout(before, after, m.Topic, m.Partition, m.Token(), m.Offset)
		record.Finished(m.Topic, m.Partition, m.Token(), m.Offset, m.Offset)
		if err := m.Commit(); err != nil && !errors.Is(err, marshal.ErrClaimLost) {
			return fmt.Errorf("committing: %w", err)
		}
	}
}
