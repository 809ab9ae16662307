// Command run runs the simulator over many seeds: `make sim SEEDS=n FIRST=m`, `make sim BREAK=rule`.
//
// Its last line is "sim: seeds=… steps=… violations=…". It exits 1 on a violation, after a rerun command and a trace.
// With -break it runs until the broken rule is noticed, which is exit 1 too; exit 0 means that nobody noticed. A rule can
// be broken only in a build with -tags marshalbreak.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-marshal/marshal/internal/rule"
	"github.com/kafka-marshal/marshal/internal/sim"
)

// enough is how many seeds must leave no zero in the table of occurrences.
const enough = 2000

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

type options struct {
	seeds, first uint64
	given        *sim.Schedule // this one alone
	broken       rule.Rule
	trace        bool
	workers      int
	lines        int
	all          bool
}

func run(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.SetOutput(out)
	debug.SetGCPercent(-1) // runs are short-lived garbage: it is enough to collect it now and then
	debug.SetMemoryLimit(256 << 20)
	var o options
	var name, schedule string
	flags.Uint64Var(&o.seeds, "seeds", 1000, "how many seeds to run")
	flags.Uint64Var(&o.first, "first", 1, "the first seed")
	flags.StringVar(&name, "break", "", "break this rule, which must be noticed; \"list\" names them")
	flags.StringVar(&schedule, "schedule", "", "run this one schedule, as a rerun line names it")
	flags.BoolVar(&o.trace, "trace", false, "print the trace of each seed")
	flags.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "seeds at a time")
	flags.BoolVar(&o.all, "all", false, "go on after a violation, and list all of them without their traces")
	flags.IntVar(&o.lines, "lines", 400, "lines of trace before a violation; 0: all")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if name == "list" {
		for _, r := range rule.All() {
			fmt.Fprintln(out, r)
		}
		return 0
	}
	if name != "" {
		r, ok := rule.Parse(name)
		if !ok {
			fmt.Fprintf(out, "sim: no rule is called %q (-break list)\n", name)
			return 2
		}
		if !rule.Breakable {
			fmt.Fprintln(out, "sim: this build cannot break rules: go run -tags marshalbreak ./internal/sim/run -break", r)
			return 2
		}
		rule.Break(r)
		o.broken = r
	}
	if schedule != "" {
		sc, err := sim.ParseSchedule(schedule)
		if err != nil {
			fmt.Fprintln(out, "sim:", err)
			return 2
		}
		o.given, o.trace = &sc, true
	}
	if o.trace {
		return traceAll(o, out)
	}
	return o.runAll(out)
}

// traceAll prints the trace of each seed, one after the other.
func traceAll(o options, out io.Writer) int {
	w := bufio.NewWriter(out)
	defer w.Flush()
	code := 0
	for seed := o.first; seed < o.first+o.seeds; seed++ {
		sc := sim.Schedule{Seed: seed}
		if o.given != nil {
			sc, o.seeds = *o.given, 0
		}
		res := sim.Run(sim.Config{Schedule: sc, Broken: o.broken, Trace: func(line string) { fmt.Fprintln(w, line) }})
		fmt.Fprintf(w, "schedule=%s steps=%d records=%d violation=%v\n", sc, res.Steps, res.Records, res.Violation)
		if res.Violation != nil {
			code = 1
		}
	}
	return code
}

// total gathers the results of all workers.
type total struct {
	mu         sync.Mutex
	seeds      int64
	steps      int64
	records    int64
	virtual    time.Duration
	table      sim.Table
	standstill sim.Standstill
	settled    sim.Standstill
	failed     []sim.Result
}

func (t *total) add(res *sim.Result) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.seeds++
	t.steps += res.Steps
	t.records += res.Records
	t.virtual += res.Virtual
	t.table.Add(&res.Table)
	t.standstill = append(t.standstill, res.Standstill...)
	t.settled = append(t.settled, res.Settled.Milliseconds())
	if res.Violation != nil {
		t.failed = append(t.failed, *res)
	}
}

// runAll runs the seeds on all cores, up to the first violation unless all are wanted.
func (o options) runAll(out io.Writer) int {
	began := time.Now()
	var t total
	var next atomic.Uint64
	var stop atomic.Bool
	next.Store(o.first)
	var workers sync.WaitGroup
	for range o.workers {
		workers.Go(func() {
			for !stop.Load() {
				seed := next.Add(1) - 1
				if seed >= o.first+o.seeds {
					return
				}
				res := sim.Run(sim.Config{Schedule: sim.Schedule{Seed: seed}, Broken: o.broken})
				if res.Violation != nil && !o.all {
					stop.Store(true)
				}
				t.add(&res)
			}
		})
	}
	workers.Wait()
	return o.report(out, &t, time.Since(began))
}

func (o options) report(out io.Writer, t *total, took time.Duration) int {
	slices.SortFunc(t.failed, func(a, b sim.Result) int { return int(a.Schedule.Seed) - int(b.Schedule.Seed) })
	if len(t.failed) > 0 && !o.all {
		o.printTrace(out, t.failed[0])
	} else if o.broken == rule.None {
		if err := t.table.Print(out); err != nil {
			fmt.Fprintln(out, err)
			return 2
		}
	}
	zeros := t.table.Zeros()
	for _, f := range t.failed {
		fmt.Fprintf(out, "sim: schedule %s: %s\n", f.Schedule, f.Violation)
		fmt.Fprintf(out, "rerun: %s\n", o.rerun(f.Schedule))
	}
	if o.broken != rule.None {
		if len(t.failed) > 0 {
			fmt.Fprintf(out, "sim: rule=%s caught by %s at seed %s\n", o.broken, t.failed[0].Violation.Invariant, t.failed[0].Schedule)
		} else {
			fmt.Fprintf(out, "sim: rule=%s is broken and nobody noticed\n", o.broken)
		}
	}
	fmt.Fprintf(out, "sim: seeds=%d steps=%d violations=%d zeros=%d records=%d virtual_h=%.1f standstill_max_ms=%d standstill_p50_ms=%d standstill_p99_ms=%d standstill_p999_ms=%d settled_p50_ms=%d settled_p99_ms=%d settled_max_ms=%d took=%s\n",
		t.seeds, t.steps, len(t.failed), len(zeros), t.records, t.virtual.Hours(), t.standstill.Quantile(1), t.standstill.Quantile(0.5),
		t.standstill.Quantile(0.99), t.standstill.Quantile(0.999),
		t.settled.Quantile(0.5), t.settled.Quantile(0.99), t.settled.Quantile(1), took.Round(time.Second/10))
	if len(t.failed) > 0 || o.broken == rule.None && t.seeds >= enough && len(zeros) > 0 {
		return 1
	}
	return 0
}

func (o options) rerun(sc sim.Schedule) string {
	if o.broken != rule.None {
		return fmt.Sprintf("go run -tags marshalbreak ./internal/sim/run -schedule %s -break %s", sc, o.broken)
	}
	return fmt.Sprintf("go run ./internal/sim/run -schedule %s", sc)
}

// printTrace runs a failed schedule again and prints what led to the violation.
func (o options) printTrace(out io.Writer, failed sim.Result) {
	var lines []string
	sim.Run(sim.Config{Schedule: failed.Schedule, Broken: o.broken, Trace: func(line string) { lines = append(lines, line) }})
	if o.lines > 0 && len(lines) > o.lines {
		fmt.Fprintf(out, "… %d lines before these\n", len(lines)-o.lines)
		lines = lines[len(lines)-o.lines:]
	}
	for _, line := range lines {
		fmt.Fprintln(out, line)
	}
}
