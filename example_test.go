package marshal_test

import (
	"context"
	"fmt"
	"log"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/testutil"
)

// orders starts an embedded broker with a topic of three messages.
func orders() (*testutil.Cluster, []string) {
	cluster, err := testutil.Start()
	if err != nil {
		log.Fatal(err)
	}
	if err := cluster.CreateTopic("orders", 1, nil); err != nil {
		log.Fatal(err)
	}
	if _, err := cluster.Produce("orders", 0, testutil.Text("one"), testutil.Text("two"), testutil.Text("three")); err != nil {
		log.Fatal(err)
	}
	return cluster, cluster.Addrs()
}

// quiet keeps the log out of the examples' output.
func quiet() marshal.Option {
	l := logrus.New()
	l.SetLevel(logrus.PanicLevel)
	return marshal.WithLogger(l)
}

// worker joins the group billing and consumes orders.
func worker(brokers []string, name string, options marshal.ConsumerOptions) (*marshal.Marshaler, *marshal.Consumer) {
	m, err := marshal.NewMarshaler(name, "billing", brokers, quiet())
	if err != nil {
		log.Fatal(err)
	}
	c, err := m.NewConsumer([]string{"orders"}, options)
	if err != nil {
		log.Fatal(err)
	}
	return m, c
}

// A worker reads the channel and commits each message.
func Example() {
	cluster, brokers := orders()
	defer cluster.Close()

	m, err := marshal.NewMarshaler("worker-7", "billing", brokers, quiet())
	if err != nil {
		log.Fatal(err)
	}
	defer m.Terminate()
	c, err := m.NewConsumer([]string{"orders"}, marshal.ConsumerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	n := 0
	for msg := range c.ConsumeChannel() {
		fmt.Printf("%s/%d@%d: %s\n", msg.Topic, msg.Partition, msg.Offset, msg.Value)
		if err := c.Commit(msg); err != nil {
			log.Print(err)
		}
		if n++; n == 3 {
			break
		}
	}
	// Output:
	// orders/0@0: one
	// orders/0@1: two
	// orders/0@2: three
}

// CommitMessages waits until the position is durable: no restart hands the message out again.
func ExampleConsumer_CommitMessages() {
	cluster, brokers := orders()
	defer cluster.Close()
	m, err := marshal.NewMarshaler("worker-7", "billing", brokers, quiet())
	if err != nil {
		log.Fatal(err)
	}
	defer m.Terminate()
	c, err := m.NewConsumer([]string{"orders"}, marshal.ConsumerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	msg, err := c.FetchMessage(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", msg.Value)
	if err := c.CommitMessages(ctx, msg); err != nil {
		log.Fatal(err)
	}
	// Output: one
}

// Batches is the fastest way to read.
func ExampleConsumer_Batches() {
	cluster, brokers := orders()
	defer cluster.Close()
	m, err := marshal.NewMarshaler("worker-7", "billing", brokers, quiet())
	if err != nil {
		log.Fatal(err)
	}
	defer m.Terminate()
	c, err := m.NewConsumer([]string{"orders"}, marshal.ConsumerOptions{})
	if err != nil {
		log.Fatal(err)
	}
	for b, err := range c.Batches(context.Background()) {
		if err != nil {
			log.Print(err)
			continue
		}
		for i := range b.Messages {
			fmt.Printf("%s\n", b.Messages[i].Value)
		}
		if err := b.Commit(); err != nil {
			log.Print(err)
		}
		break
	}
	// Output:
	// one
	// two
	// three
}
