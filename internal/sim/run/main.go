// Command run runs the simulator over many schedules: `make sim SEEDS=n FIRST=m`, `make sim BREAK=rule`.
//
// Its last line is "sim: seeds=… steps=… violations=…". It exits 1 on a violation, after a rerun command and a trace.
// With -break it runs until the broken rule is noticed, which is exit 1 too; exit 0 means that nobody noticed. A rule can
// be broken only in a build with -tags marshalbreak. With -results a run that has come to its end, or to a violation, adds
// a line to a file; -sum adds such a file up.
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"

	"github.com/kafka-marshal/marshal/internal/rule"
	"github.com/kafka-marshal/marshal/internal/sim"
)

const (
	enough  = 2000 // how many seeds must leave no zero in the table of occurrences
	guiding = 5000 // from how many on a run is guided by what it has come by
)

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

type options struct {
	seeds, first uint64
	broken       rule.Rule
	workers      int
	lines        int
	all          bool
	guided       bool
	results      string
	commit       string // when the run began
}

func run(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("sim", flag.ContinueOnError)
	flags.SetOutput(out)
	debug.SetGCPercent(-1) // runs are short-lived garbage: it is enough to collect it now and then
	debug.SetMemoryLimit(256 << 20)
	var o options
	var name, schedule, guided string
	var trace, sum bool
	flags.Uint64Var(&o.seeds, "seeds", 1000, "how many schedules to run")
	flags.Uint64Var(&o.first, "first", 0, "the first seed; 0: the first after those of the results file, or 1")
	flags.StringVar(&schedule, "schedule", "", "run this one schedule, as a rerun line names it, and print its trace")
	flags.StringVar(&name, "break", "", "break this rule, which must be noticed; \"list\" names them")
	flags.StringVar(&guided, "guided", "", "yes or no: let half of the schedules be near those that came by something new; yes in a long run")
	flags.StringVar(&o.results, "results", "", "add a line to this file")
	flags.BoolVar(&sum, "sum", false, "add up the results file, and run nothing")
	flags.BoolVar(&trace, "trace", false, "print the trace of each seed")
	flags.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "schedules at a time")
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
		return o.trace(out, []sim.Schedule{sc})
	}
	past, err := readResults(o.results)
	if err != nil {
		fmt.Fprintln(out, "sim:", err)
		return 2
	}
	if sum {
		fmt.Fprintln(out, past.sum())
		return 0
	}
	if o.first == 0 {
		o.first = past.next()
	}
	if trace {
		return o.trace(out, sim.NewGuide(o.first, true).Next(int(o.seeds)))
	}
	if o.results != "" && o.broken == rule.None {
		if o.commit, err = headCommit(o.results); err != nil {
			fmt.Fprintln(out, "sim:", err)
			return 2
		}
	}
	o.guided = guided == "yes" || guided == "" && o.seeds >= guiding && o.broken == rule.None
	return o.runAll(out)
}

// trace prints the traces of schedules, one after the other.
func (o options) trace(out io.Writer, schedules []sim.Schedule) int {
	w := bufio.NewWriter(out)
	defer w.Flush()
	code := 0
	for _, sc := range schedules {
		res := sim.Run(sim.Config{Schedule: sc, Broken: o.broken, Trace: func(line string) { fmt.Fprintln(w, line) }})
		fmt.Fprintf(w, "schedule=%s steps=%d records=%d violation=%v\n", sc, res.Steps, res.Records, res.Violation)
		if res.Violation != nil {
			code = 1
		}
	}
	return code
}
