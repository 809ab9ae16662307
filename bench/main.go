// Command bench holds Marshal's read paths against what a user would pick instead: franz-go's and sarama's consumer groups.
//
//	bench -brokers 127.0.0.1:9092 -n 4000000 -pairs 7
//
// It writes a topic once, then reads all of it in one process per run, the modes in turn, round after round, and prints CPU seconds
// (user and system, of the reading process) per million messages: the median of each mode, and the median of the ratios
// within a round. Every mode touches the value and the offset of each message; Marshal's modes commit each message.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"slices"
	"strings"
	"syscall"
	"time"
)

var (
	brokers = flag.String("brokers", "127.0.0.1:9092", "bootstrap addresses, with commas")
	topic   = flag.String("topic", "bench-100", "topic; it is written where it is missing")
	total   = flag.Int64("n", 4_000_000, "messages")
	size    = flag.Int("size", 100, "bytes of a value")
	pairs   = flag.Int("pairs", 7, "rounds")
	profile = flag.String("cpuprofile", "", "with -mode: write a CPU profile there")
	mode    = flag.String("mode", "", "read once in this mode and print the result as JSON: what each run does")
)

const partitions = 8

// mode reads until the sink has everything.
type reader func(ctx context.Context, s *sink) error

var modes = map[string]reader{
	"marshal-batches": marshalBatches, "marshal-fetch": marshalFetch, "marshal-messages": marshalMessages, "marshal-channel": marshalChannel,
	"franz-group": franzGroup, "franz-group-mark": franzGroupMark, "sarama-group": saramaGroup,
}

// ratios are what the bars are about.
var ratios = [][2]string{
	{"marshal-batches", "franz-group"}, {"marshal-fetch", "franz-group"}, {"marshal-messages", "franz-group"}, {"marshal-channel", "sarama-group"},
}

// sink counts what was read.
type sink struct {
	n, bytes, offsets int64
	done              func()
}

// add takes one message; it gives false when it was the last.
func (s *sink) add(value []byte, offset int64) bool {
	s.n++
	s.bytes += int64(len(value))
	s.offsets += offset
	if s.n == *total {
		s.done()
		return false
	}
	return s.n < *total
}

type result struct {
	Mode              string
	Seconds           float64
	CPUPerMillion     float64
	AllocsPerMessage  float64
	MaxRSSMiB         float64
	Messages, Offsets int64
}

func main() {
	flag.Parse()
	if *mode != "" {
		if err := readOnce(); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := compare(); err != nil {
		log.Fatal(err)
	}
}

func cpu() (seconds float64) {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u) // cannot fail on ourselves
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// peakRSS is the largest resident size since this program was started, in MiB; getrusage would count what started it, too.
func peakRSS() float64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	var kib float64
	_, _ = fmt.Sscan(rest, &kib) // 0 where the kernel does not say
	return kib / 1024
}

func readOnce() error {
	read, ok := modes[*mode]
	if !ok {
		return fmt.Errorf("there is no mode %q", *mode)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
	}
	finished := make(chan result, 1)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	begin := time.Now()
	c0 := cpu()
	s := &sink{}
	s.done = func() {
		c1 := cpu()
		runtime.ReadMemStats(&after)
		finished <- result{
			Mode: *mode, Seconds: time.Since(begin).Seconds(), CPUPerMillion: (c1 - c0) / float64(s.n) * 1e6,
			AllocsPerMessage: float64(after.Mallocs-before.Mallocs) / float64(s.n), MaxRSSMiB: peakRSS(), Messages: s.n, Offsets: s.offsets,
		}
	}
	if err := read(ctx, s); err != nil {
		return err
	}
	select {
	case r := <-finished:
		return json.NewEncoder(os.Stdout).Encode(r)
	default:
		return fmt.Errorf("%s read %d of %d", *mode, s.n, *total)
	}
}

func compare() error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
	defer cancel()
	if err := produce(ctx); err != nil {
		return err
	}
	order := []string{"marshal-batches", "franz-group", "marshal-fetch", "marshal-messages", "franz-group-mark", "marshal-channel", "sarama-group"}
	rounds := map[string][]result{}
	for i := range *pairs {
		for _, m := range order {
			r, err := runMode(ctx, m)
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", i+1, m, err)
			}
			if want := rounds["franz-group"]; len(want) > 0 && r.Offsets != want[0].Offsets {
				return fmt.Errorf("%s read other offsets than franz-group", m)
			}
			rounds[m] = append(rounds[m], r)
			fmt.Printf("round %d  %-18s %5.3f CPU s/M  %5.2f s  %6.3f allocs  %4.0f MiB\n", i+1, m, r.CPUPerMillion, r.Seconds, r.AllocsPerMessage, r.MaxRSSMiB)
		}
	}
	fmt.Println()
	for _, m := range order {
		fmt.Printf("%-18s median %5.3f CPU s/M over %d runs\n", m, median(rounds[m], func(r result) float64 { return r.CPUPerMillion }), *pairs)
	}
	for _, pair := range ratios {
		var q []float64
		for i := range *pairs {
			q = append(q, rounds[pair[0]][i].CPUPerMillion/rounds[pair[1]][i].CPUPerMillion)
		}
		slices.Sort(q)
		fmt.Printf("ratio %s / %s: median %.2f (%.2f to %.2f, %d pairs)\n", pair[0], pair[1], q[len(q)/2], q[0], q[len(q)-1], *pairs)
	}
	return nil
}

func runMode(ctx context.Context, m string) (result, error) {
	self, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	cmd := exec.CommandContext(ctx, self, "-brokers", *brokers, "-topic", *topic, "-n", fmt.Sprint(*total), "-mode", m)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return result{}, err
	}
	var r result
	return r, json.Unmarshal(out, &r)
}

func median(rs []result, f func(result) float64) float64 {
	var v []float64
	for _, r := range rs {
		v = append(v, f(r))
	}
	slices.Sort(v)
	return v[len(v)/2]
}

func addresses() []string { return strings.Split(*brokers, ",") }

func group() string { return fmt.Sprintf("bench-%s-%d", *mode, time.Now().UnixNano()) }
