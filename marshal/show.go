package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/testutil"
)

// show prints who holds what, whenever it changes, and the lag.
type show struct {
	s        *stage
	cancel   context.CancelFunc
	wg       sync.WaitGroup
	mu       sync.Mutex
	last     string
	printed  time.Time
	produced map[testutil.Place][]testutil.Span
}

const (
	lookEvery  = 20 * time.Millisecond
	printEvery = 5 // looks; so often who holds what is printed at most
)

func startShow(s *stage) *show {
	ctx, cancel := context.WithCancel(context.Background())
	w := &show{s: s, cancel: cancel}
	w.wg.Go(func() {
		ticker := time.NewTicker(printEvery * lookEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				v := look(s.watcher.State())
				w.change(v.String(), v.lag)
			case <-ctx.Done():
				return
			}
		}
	})
	return w
}

func (w *show) stop() {
	w.cancel()
	w.wg.Wait()
}

// say prints a line with the time since the beginning.
func (w *show) say(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.print("* " + text)
}

func (w *show) print(text string) {
	fmt.Fprintf(w.s.out, "%6.2fs  %s\n", time.Since(w.s.began).Seconds(), text)
}

// change prints who holds what when it is news, and the lag beside it; the lag alone every other second.
func (w *show) change(text string, lag int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if text != w.last || time.Since(w.printed) > 2*time.Second {
		w.last, w.printed = text, time.Now()
		w.print(fmt.Sprintf("  %s  lag %d", text, lag))
	}
}

// view is a state in brief.
type view struct {
	holds   map[string][]int32 // by client
	runs    map[string]string  // the instance that holds a client's keys
	members int                // workers in the group
	free    int                // partitions that nobody holds
	next    map[int32]int64
	lag     int64 // messages, as the workers last said
}

func look(s marshal.State) view {
	v := view{holds: map[string][]int32{}, runs: map[string]string{}, next: map[int32]int64{}}
	for _, i := range s.Instances {
		if i.Client != "watcher" && !i.Parked {
			v.members++
			v.lag += i.Lag
			v.holds[i.Client] = v.holds[i.Client][:len(v.holds[i.Client]):len(v.holds[i.Client])]
		}
	}
	for _, k := range s.Keys {
		v.next[k.Partition] = k.Next
		if k.Instance == "" {
			v.free++
		} else {
			v.holds[k.Client] = append(v.holds[k.Client], k.Partition)
			v.runs[k.Client] = k.Instance
		}
	}
	return v
}

func (v view) even() bool {
	least, most := demoPartitions, 0
	for _, ps := range v.holds {
		least, most = min(least, len(ps)), max(most, len(ps))
	}
	return most-least <= 1
}

func (v view) String() string {
	var b strings.Builder
	for _, client := range slices.Sorted(maps.Keys(v.holds)) {
		fmt.Fprintf(&b, "%s %v  ", client, v.holds[client])
	}
	if v.free > 0 {
		fmt.Fprintf(&b, "free: %d", v.free)
	}
	return b.String()
}

// balanced waits until so many workers share everything evenly.
func (s *stage) balanced(ctx context.Context, members int) error {
	return s.until(ctx, fmt.Sprintf("%d workers share everything evenly", members), func(v view) bool {
		return v.members == members && v.free == 0 && len(v.next) == demoPartitions && v.even()
	})
}

// caughtUp tells whether every position is at the end of what was written.
func (s *stage) caughtUp(produced map[testutil.Place][]testutil.Span) func(view) bool {
	return func(v view) bool {
		for p, spans := range produced {
			if v.next[p.Partition] < spans[len(spans)-1].To {
				return false
			}
		}
		return true
	}
}

// until waits for something to be seen, half a minute at most.
func (s *stage) until(ctx context.Context, what string, ok func(view) bool) error {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		v := look(s.watcher.State())
		if ok(v) {
			return nil
		}
		if err := s.failures(); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("waited for: %s; still: %v: %w", what, v, ctx.Err())
		}
	}
}
