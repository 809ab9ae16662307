// Command bench holds Marshal's read paths against what a user would pick instead: the consumer groups of franz-go, sarama and
// kafka-go. `make bench` runs it; docs/benchmarks.md tells what is measured, how, and what came out.
//
//	bench -brokers 127.0.0.1:9092            write the topics, read them with every client, print the tables and the bars
//	bench -brokers … -profile DIR            a CPU profile of each path, and its ten largest costs
//	bench -brokers … -mode M -topic T -n N   read once and print the result as JSON: what each run does, in a process of its own
//	bench -markdown PAGE -insert NAME=FILE   put a text into a page, between its markers
//	bench -serve                             an embedded broker, until it is told to end
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

var (
	brokers  = flag.String("brokers", "127.0.0.1:9092", "bootstrap addresses, with commas")
	quick    = flag.Bool("quick", false, "only what has 100 B values, and half of the messages")
	embedded = flag.Bool("embedded", false, "the brokers are those of -serve: fewer messages")
	rounds   = flag.Int("rounds", 7, "how often each mode reads each of its topics")
	topics   = flag.String("topics", "", "only these, with commas")
	module   = flag.String("module", "", "the folder of the library, whose own benchmarks give the other bars; empty: without them")
	results  = flag.String("results", "", "add what is measured to this file, and show all that it has")
	strict   = flag.Bool("strict", false, "a missed bar is an error")
	markdown = flag.String("markdown", "", "put the tables into this file, between its markers")
	profiles = flag.String("profile", "", "write a CPU profile of each path into this folder, and print its costs")
	inserted = flag.String("insert", "", "with -markdown: only put this in, name=file")
	serving  = flag.Bool("serve", false, "be an embedded broker")

	mode    = flag.String("mode", "", "read once in this mode")
	topic   = flag.String("topic", "", "with -mode: the topic")
	total   = flag.Int64("n", 0, "with -mode: how many messages it has")
	cpuFile = flag.String("cpuprofile", "", "with -mode: write a CPU profile there")
)

func main() {
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeout(ctx, time.Hour)
	err := run(ctx)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	switch {
	case *serving:
		return serve(ctx)
	case *mode != "":
		return readOnce(ctx)
	case *profiles != "":
		return profileAll(ctx)
	case *inserted != "":
		name, file, _ := strings.Cut(*inserted, "=")
		text, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		return insert(*markdown, map[string]string{name: string(text)})
	}
	return measure(ctx)
}

// measure does all of it and prints the bars at the end.
func measure(ctx context.Context) (err error) {
	begun := time.Now()
	var m measured
	if m.Topics, err = compare(ctx); err != nil {
		return err
	}
	if *module != "" {
		if m.Own, err = ownFigures(ctx, *module); err != nil {
			return err
		}
	}
	if *results != "" {
		if m, err = m.keep(*results); err != nil {
			return err
		}
	}
	tables := tables(m.Topics)
	verdict, missed := verdicts(m)
	fmt.Printf("\n%s\n%s", tables, verdict)
	fmt.Printf("took %v\n", time.Since(begun).Round(time.Second))
	if *markdown != "" {
		if err := insert(*markdown, map[string]string{"machine": machine(), "tables": tables, "bars": "```\n" + verdict + "```\n"}); err != nil {
			return err
		}
	}
	if *strict && missed > 0 {
		return fmt.Errorf("%d bars are missed", missed)
	}
	return nil
}

func addresses() []string { return strings.Split(*brokers, ",") }
