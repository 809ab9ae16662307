package marshal_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net/http"
	"net/http/httptest"
	"sync"
	"time"

	"github.com/kafka-marshal/marshal"
)

// One goroutine for each claim: it has the messages of one partition, in order, and hears when the partition is to move.
func ExampleConsumer_Claims() {
	cluster, brokers := orders()
	defer cluster.Close()
	m, c := worker(brokers, "worker-7", marshal.ConsumerOptions{})
	defer m.Terminate()

	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var wg sync.WaitGroup
	for claim, err := range c.Claims(ctx) {
		if err != nil {
			log.Print(err) // of one partition
			continue
		}
		wg.Go(func() {
			fmt.Printf("%s/%d from %d\n", claim.Topic, claim.Partition, claim.Start)
			for msg, err := range claim.Messages(ctx) {
				if err != nil {
					log.Print(err)
					continue
				}
				fmt.Printf("%s\n", msg.Value)
				if err := msg.Commit(); err != nil {
					log.Print(err)
				}
				if msg.Offset == 2 {
					cancel() // an example has to end
				}
			}
		})
	}
	wg.Wait()
	// Output:
	// orders/0 from 0
	// one
	// two
	// three
}

// Seek moves the position of a partition of the running group, whoever has it.
func ExampleConsumer_Seek() {
	cluster, brokers := orders()
	defer cluster.Close()
	m, c := worker(brokers, "worker-7", marshal.ConsumerOptions{})
	defer m.Terminate()

	ctx := context.Background()
	first, err := c.FetchMessage(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", first.Value)
	if err := c.Seek(ctx, "orders", 0, 2); err != nil {
		log.Fatal(err)
	}
	fmt.Println(errors.Is(first.Commit(), marshal.ErrClaimLost)) // what was in hand is void
	next, err := c.FetchMessage(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", next.Value)
	if err := next.Commit(); err != nil {
		log.Print(err)
	}
	// Output:
	// one
	// true
	// three
}

// Pause keeps the claim and hands out nothing.
func ExampleConsumer_Pause() {
	cluster, brokers := orders()
	defer cluster.Close()
	m, c := worker(brokers, "worker-7", marshal.ConsumerOptions{})
	defer m.Terminate()

	c.Pause("orders")
	short, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	_, err := c.FetchMessage(short)
	fmt.Println(err)
	c.Resume("orders")
	msg, err := c.FetchMessage(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", msg.Value)
	if err := msg.Commit(); err != nil {
		log.Print(err)
	}
	// Output:
	// context deadline exceeded
	// one
}

// Terminate(false) keeps the partitions for the next run of the client id: for a restart that takes less than RestartGrace.
func ExampleConsumer_Terminate() {
	cluster, brokers := orders()
	defer cluster.Close()

	m, c := worker(brokers, "worker-7", marshal.ConsumerOptions{RestartGrace: time.Minute})
	msg, err := c.FetchMessage(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", msg.Value)
	if err := msg.Commit(); err != nil {
		log.Print(err)
	}
	fmt.Println("confirmed:", c.Terminate(false))
	m.Terminate()

	m, c = worker(brokers, "worker-7", marshal.ConsumerOptions{}) // the next run
	defer m.Terminate()
	msg, err = c.FetchMessage(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Printf("%s\n", msg.Value)
	if err := msg.Commit(); err != nil {
		log.Print(err)
	}
	// Output:
	// one
	// confirmed: true
	// two
}

// One partition by hand: nobody balances it away, and the Marshaler keeps it alive.
func ExampleMarshaler_Claim() {
	cluster, brokers := orders()
	defer cluster.Close()
	m, err := marshal.NewMarshaler("reporter", "billing", brokers, quiet())
	if err != nil {
		log.Fatal(err)
	}
	defer m.Terminate()

	ctx := context.Background()
	claim, err := m.Claim(ctx, "orders", 0)
	if err != nil {
		log.Fatal(err)
	}
	for msg, err := range claim.Messages(ctx) {
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s\n", msg.Value)
		if msg.Offset == 1 {
			break
		}
	}
	if err := claim.Release(ctx, 2); err != nil { // 2 is the next to read
		log.Fatal(err)
	}
	fmt.Println(m.GetLastPartitionClaim("orders", 0).LastOffset)
	// Output:
	// one
	// two
	// 2
}

// Events are for programs what the log is for people.
func ExampleMarshaler_Events() {
	cluster, brokers := orders()
	defer cluster.Close()
	m, err := marshal.NewMarshaler("worker-7", "billing", brokers, quiet())
	if err != nil {
		log.Fatal(err)
	}
	events := m.Events(context.Background()) // from here on
	if _, err := m.NewConsumer([]string{"orders"}, marshal.ConsumerOptions{}); err != nil {
		log.Fatal(err)
	}
	for e := range events { // until the Marshaler is over
		switch e.Kind {
		case marshal.ClaimStarted:
			fmt.Println(e.Kind, e.Topic, e.Partition)
			m.Terminate() // what it brings about is heard next
		case marshal.ClaimReleased, marshal.ClaimLost:
			fmt.Println(e.Kind, e.Topic, e.Partition)
		}
	}
	// Output:
	// ClaimStarted orders 0
	// ClaimReleased orders 0
}

// Readiness may follow Healthy as it is. Liveness should not: a restart does not cure a broker.
func ExampleMarshaler_Healthy() {
	cluster, brokers := orders()
	defer cluster.Close()
	m, c := worker(brokers, "worker-7", marshal.ConsumerOptions{})

	probes := http.NewServeMux()
	probes.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
		if err := m.Healthy(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})
	probes.HandleFunc("/alive", func(w http.ResponseWriter, _ *http.Request) {
		if err := m.Healthy(); errors.Is(err, marshal.ErrTerminated) || errors.Is(err, marshal.ErrStalled) {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
		}
	})

	ask := func(path string) {
		answer := httptest.NewRecorder()
		probes.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, answer.Code)
	}
	if _, err := c.ReadMessage(context.Background()); err != nil {
		log.Fatal(err)
	}
	ask("/ready")
	m.Terminate()
	ask("/ready")
	ask("/alive")
	// Output:
	// /ready 200
	// /ready 503
	// /alive 503
}

// store is a database with one row for each partition: the largest token that it has seen, and the next offset. A real one has both in
// the transaction that does the work, which then is done exactly once.
type store struct {
	token, next int64
}

var errOlder = errors.New("refused: a newer owner was here")

func (s *store) apply(msg *marshal.Message) error {
	switch {
	case msg.Token() < s.token:
		return errOlder
	case msg.Offset < s.next:
		return nil // it was done before, and only its commit was lost
	}
	fmt.Printf("%s\n", msg.Value)
	s.token, s.next = msg.Token(), msg.Offset+1
	return nil
}

// Work in hand may outlive a claim. A store that remembers the largest token refuses what a former owner does too late.
func ExampleMessage_Token() {
	cluster, brokers := orders()
	defer cluster.Close()
	var db store

	slow, c := worker(brokers, "slow", marshal.ConsumerOptions{DrainTimeout: time.Millisecond})
	late, err := c.FetchMessage(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	slow.Terminate() // with the message in hand

	m, c := worker(brokers, "next", marshal.ConsumerOptions{})
	defer m.Terminate()
	msg, err := c.FetchMessage(context.Background())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("again:", msg.Offset == late.Offset)
	if err := db.apply(msg); err != nil {
		log.Fatal(err)
	}
	if err := msg.Commit(); err != nil {
		log.Print(err)
	}
	fmt.Println(db.apply(late))
	// Output:
	// again: true
	// one
	// refused: a newer owner was here
}
