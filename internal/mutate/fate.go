package main

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"sync"
	"time"

	"github.com/kafka-marshal/marshal/internal/mutate/point"
)

// fate is what became of a mutant.
type fate uint8

const (
	unreached fate = iota // no test passes its point in a state in which it makes a difference
	survived              // every test passes that does
	killed                // a test fails, or crashes
	endless               // a test ran into its limit of CPU, memory or time
)

var fates = [...]string{unreached: "not reached", survived: "unnoticed", killed: "killed", endless: "endless"}

func (f fate) String() string { return fates[f] }

// dead tells whether the tests noticed.
func (f fate) dead() bool { return f == killed || f == endless }

var failed = regexp.MustCompile(`(?m)^--- FAIL: (\w+)`)

// hunt runs the tests against each mutant, a few at a time, and notes what became of it. told is called after each.
func hunt(ctx context.Context, p *pkg, binary string, tests []*test, mutants []*mutant, workers int, told func(*mutant)) error {
	work := make(chan *mutant)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var wrong error
	for range workers {
		wg.Go(func() {
			for m := range work {
				err := chase(ctx, p, binary, tests, m)
				mu.Lock()
				if wrong == nil {
					wrong = err
				}
				told(m)
				mu.Unlock()
			}
		})
	}
	for _, m := range mutants {
		work <- m
	}
	close(work)
	wg.Wait()
	return wrong
}

// chase runs the tests against one mutant until one notices.
func chase(ctx context.Context, p *pkg, binary string, tests []*test, m *mutant) error {
	for _, b := range batches(tests, m.id) {
		m.fate = survived
		var err error
		if m.fate, m.killer, err = run(ctx, p, binary, b, m.id); err != nil || m.fate.dead() {
			return err
		}
	}
	return nil
}

// run runs a few tests against a mutant. What takes several times the CPU of a run without one has no end: the processor's time
// counts, not the clock's, so that a busy machine kills nobody. The clock's is for what waits for ever.
func run(ctx context.Context, p *pkg, binary string, b batch, id int) (fate, string, error) {
	most := 250*time.Millisecond + 5*b.cost
	l := limits{seconds: 2 + int(2*most.Seconds()), kib: 2 << 20}
	timed, cancel := context.WithTimeout(ctx, time.Minute+100*b.cost)
	defer cancel()
	cmd, out := command(timed, p, binary, l, "-test.failfast", "-test.run", b.pattern)
	cmd.Env = append(os.Environ(), "MUTANT="+strconv.Itoa(id), "MUTANT_CPU="+most.String(), "GOMAXPROCS=1")
	err := cmd.Run()
	switch {
	case ctx.Err() != nil:
		return 0, "", ctx.Err()
	case err == nil:
		return survived, "", nil
	case cmd.ProcessState == nil:
		return 0, "", fmt.Errorf("run %s: %w", binary, err)
	case timed.Err() != nil || cmd.ProcessState.ExitCode() < 0, cmd.ProcessState.ExitCode() == point.Spent:
		return endless, "itself", nil
	}
	if name := failed.FindSubmatch(out.Bytes()); name != nil {
		return killed, string(name[1]), nil
	}
	return killed, "a crash", nil
}
