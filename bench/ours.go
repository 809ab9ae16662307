package main

import (
	"context"
	"io"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal"
)

func open() (*marshal.Marshaler, *marshal.Consumer, error) {
	log := logrus.New()
	log.Out = io.Discard
	m, err := marshal.NewMarshaler("bench", group, addresses(), marshal.WithLogger(log))
	if err != nil {
		return nil, nil, err
	}
	c, err := m.NewConsumer([]string{*topic}, marshal.ConsumerOptions{})
	if err != nil {
		m.Terminate()
	}
	return m, c, err
}

func marshalBatches(ctx context.Context, s *sink) error {
	m, c, err := open()
	if err != nil {
		return err
	}
	defer m.Terminate()
	for b, err := range c.Batches(ctx) {
		if err != nil {
			return err
		}
		more := true
		for i := range b.Messages {
			more = s.add(b.Messages[i].Value, b.Messages[i].Partition, b.Messages[i].Offset)
		}
		if err := b.Commit(); err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
	return ctx.Err()
}

func marshalFetch(ctx context.Context, s *sink) error {
	m, c, err := open()
	if err != nil {
		return err
	}
	defer m.Terminate()
	for {
		msg, err := c.FetchMessage(ctx)
		if err != nil {
			return err
		}
		more := s.add(msg.Value, msg.Partition, msg.Offset)
		if err := c.Commit(msg); err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
}

func marshalMessages(ctx context.Context, s *sink) error {
	m, c, err := open()
	if err != nil {
		return err
	}
	defer m.Terminate()
	for msg, err := range c.Messages(ctx) {
		if err != nil {
			return err
		}
		more := s.add(msg.Value, msg.Partition, msg.Offset)
		if err := msg.Commit(); err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
	return ctx.Err()
}

func marshalChannel(ctx context.Context, s *sink) error {
	m, c, err := open()
	if err != nil {
		return err
	}
	defer m.Terminate()
	for msg := range c.ConsumeChannel() {
		more := s.add(msg.Value, msg.Partition, msg.Offset)
		if err := c.Commit(msg); err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
	return ctx.Err()
}
