package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"
)

// partitions of each topic.
const partitions = 8

// reader reads until the sink has everything.
type reader func(ctx context.Context, s *sink) error

var modes = map[string]reader{
	"marshal-batches": marshalBatches, "marshal-fetch": marshalFetch, "marshal-messages": marshalMessages, "marshal-channel": marshalChannel,
	"franz-group": franzGroup, "franz-group-mark": franzGroupMark, "sarama-group": saramaGroup, "kafkago-reader": kafkagoReader,
}

// sink counts what was read. The sum is of all offsets, each times its partition plus one: it does not depend on the order, and
// shows a message that was left out, came twice or as another's.
type sink struct {
	n, bytes, sum int64
	first         time.Time
	done          func()
}

// add takes one message; it gives false when it was the last.
func (s *sink) add(value []byte, partition int32, offset int64) bool {
	if s.n == 0 {
		s.first = time.Now()
	}
	s.n++
	s.bytes += int64(len(value))
	s.sum += weigh(partition, offset)
	if s.n == *total {
		s.done()
		return false
	}
	return s.n < *total
}

func weigh(partition int32, offset int64) int64 { return int64(partition+1) * offset }

// sumOf is what a sink comes to that has read all n messages of a topic.
func sumOf(n int64) (sum int64) {
	each := n / partitions
	for p := range int32(partitions) {
		sum += weigh(p, each*(each-1)/2)
	}
	return sum
}

// result is what one run came to, from before it connects to when it has the last message.
type result struct {
	Mode, Group          string
	Messages, Bytes, Sum int64
	Seconds              float64
	First                float64 // seconds until the first message: connecting, joining, the first fetch
	CPU                  float64 // seconds, user and system
	Allocs, AllocBytes   uint64
	RSS                  float64 // the largest resident size, MiB
}

// The fields of a result that are compared.
func cpuPerMillion(r result) float64 { return r.CPU / float64(r.Messages) * 1e6 }
func rate(r result) float64          { return float64(r.Messages) / r.Seconds }
func allocs(r result) float64        { return float64(r.Allocs) / float64(r.Messages) }
func allocBytes(r result) float64    { return float64(r.AllocBytes) / float64(r.Messages) }
func rss(r result) float64           { return r.RSS }
func first(r result) float64         { return r.First }

// group is the one that this process reads in.
var group = fmt.Sprintf("bench-%d", time.Now().UnixNano())

func readOnce(ctx context.Context) error {
	read, ok := modes[*mode]
	if !ok {
		return fmt.Errorf("there is no mode %q", *mode)
	}
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	if *cpuFile != "" {
		f, err := os.Create(*cpuFile)
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
	begin, used := time.Now(), cpu()
	s := &sink{}
	s.done = func() {
		end := time.Now()
		r := result{Mode: *mode, Group: group, Messages: s.n, Bytes: s.bytes, Sum: s.sum, CPU: cpu() - used, RSS: peakRSS()}
		runtime.ReadMemStats(&after)
		r.Seconds, r.First = end.Sub(begin).Seconds(), s.first.Sub(begin).Seconds()
		r.Allocs, r.AllocBytes = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
		finished <- r
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

// cpu is what this process has used, in seconds.
func cpu() float64 {
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
