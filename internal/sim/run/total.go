package main

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-marshal/marshal/internal/rule"
	"github.com/kafka-marshal/marshal/internal/sim"
)

// total gathers the results of a run.
type total struct {
	schedules  int64
	mutated    int64
	steps      int64
	records    int64
	virtual    time.Duration
	took       time.Duration
	table      sim.Table
	standstill sim.Standstill
	live       lives
	failed     []sim.Result
	guide      *sim.Guide
}

func (t *total) add(res *sim.Result) {
	t.schedules++
	if len(res.Schedule.Set) > 0 {
		t.mutated++
	}
	t.steps += res.Steps
	t.records += res.Records
	t.virtual += res.Virtual
	t.table.Add(&res.Table)
	t.standstill = append(t.standstill, res.Standstill...)
	t.live.add(&res.Liveness)
	if res.Violation != nil {
		t.failed = append(t.failed, *res)
	}
	t.guide.Learn(res)
}

// runAll runs generation after generation, up to the first violation unless all are wanted.
func (o options) runAll(out io.Writer) int {
	began := time.Now()
	t := total{guide: sim.NewGuide(o.first, !o.guided)}
	for uint64(t.schedules) < o.seeds && (len(t.failed) == 0 || o.all) {
		o.generation(&t, min(1000, o.seeds-uint64(t.schedules)))
	}
	t.took = time.Since(began)
	return o.report(out, &t)
}

// generation runs n schedules on all cores. What it adds to the total does not depend on how many these are: after a
// violation the schedules that are after it are left out.
func (o options) generation(t *total, n uint64) {
	schedules := t.guide.Next(int(n))
	results := make([]sim.Result, n)
	var next atomic.Int64
	var stop atomic.Bool
	var workers sync.WaitGroup
	for range o.workers {
		workers.Go(func() {
			for !stop.Load() {
				i := int(next.Add(1)) - 1
				if i >= len(schedules) {
					return
				}
				results[i] = sim.Run(sim.Config{Schedule: schedules[i], Broken: o.broken})
				if results[i].Violation != nil && !o.all {
					stop.Store(true)
				}
			}
		})
	}
	workers.Wait()
	for i := range results {
		t.add(&results[i])
		if results[i].Violation != nil && !o.all {
			return
		}
	}
}

func (o options) report(out io.Writer, t *total) int {
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
	} else if o.results != "" {
		if err := o.record(t); err != nil {
			fmt.Fprintln(out, "sim:", err)
			return 2
		}
	}
	if o.broken == rule.None {
		t.live.print(out)
	}
	fmt.Fprintf(out, "sim: seeds=%d steps=%d violations=%d zeros=%d mutated=%d coverage=%d records=%d virtual_h=%.1f standstill_max_ms=%d standstill_p50_ms=%d standstill_p99_ms=%d standstill_p999_ms=%d settled_p50_ms=%d settled_p99_ms=%d settled_max_ms=%d took=%s\n",
		t.schedules, t.steps, len(t.failed), len(zeros), t.mutated, t.guide.Seen.Count, t.records, t.virtual.Hours(), t.standstill.Quantile(1), t.standstill.Quantile(0.5),
		t.standstill.Quantile(0.99), t.standstill.Quantile(0.999),
		t.live.balanced.took.Quantile(0.5), t.live.balanced.took.Quantile(0.99), t.live.balanced.took.Quantile(1), t.took.Round(time.Second/10))
	if len(t.failed) > 0 || o.broken == rule.None && t.schedules >= enough && len(zeros) > 0 {
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
