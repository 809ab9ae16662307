package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"
)

// A member is a process of its own: this program, started again. It takes its orders from its standard input, a line each, and
// answers each with a line when it has begun to carry it out; it ends with that input.
const (
	orderJoin  = "join"  // make a client, and read
	orderLeave = "leave" // leave gracefully; answered when that is done
	orderCPU   = "cpu"   // say how many CPU seconds were used
)

// task says what a member does.
type task struct {
	Client  string // ours, sarama, kafka-go, franz-go, kip-848
	Name    string
	Brokers []string
	Group   string
	Topic   string
	Journal string

	// Of ours alone; zero: the defaults.
	TTL      time.Duration
	Earliest bool
	Slow     bool // at most one message of a partition in flight, and four workers that rest a millisecond after each
	Members  int  // so many in this process
	LogTo    string
}

// consume reads until ctx ends, and then leaves.
type consume func(ctx context.Context, t *task, note func(partition int32, offset int64)) error

var clients = map[string]consume{"ours": ours, "sarama": saramaGroup, "kafka-go": kafkaGo, "franz-go": franzGroup, "kip-848": franzNextGen}

// serve carries out orders until there are no more.
func serve(text string) error {
	var t task
	if err := json.Unmarshal([]byte(text), &t); err != nil {
		return err
	}
	j, err := openJournal(t.Journal)
	if err != nil {
		return err
	}
	client := clients[t.Client]
	if client == nil {
		return fmt.Errorf("there is no client %q", t.Client)
	}
	var working sync.WaitGroup
	leave := func() {}
	orders := bufio.NewScanner(os.Stdin)
	for orders.Scan() {
		switch order := orders.Text(); order {
		case orderJoin:
			ctx, cancel := context.WithCancel(context.Background())
			leave = func() { cancel(); working.Wait() }
			j.note(begun, 0)
			working.Go(func() {
				if err := client(ctx, &t, j.note); err != nil && ctx.Err() == nil {
					fmt.Fprintf(os.Stderr, "%s %s: %v\n", t.Client, t.Name, err)
					os.Exit(1) // the program that started us sees it
				}
			})
			fmt.Println("joining")
		case orderLeave:
			j.note(leaving, 0)
			leave()
			j.note(left, 0)
			fmt.Println("left")
		case orderCPU:
			fmt.Println(cpuSeconds())
		default:
			return fmt.Errorf("there is no order %q", order)
		}
	}
	return orders.Err()
}

func cpuSeconds() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail on ourselves
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func splitAddresses(s string) []string { return strings.Split(s, ",") }
