// Command run explores what a few processes can come to: `make explore`.
//
// Its last line is "explore: configs=… states=… violations=…". It exits 1 on a violation, after the script that leads to it,
// or where a configuration was not exhausted. With -break (built with -tags marshalbreak) it searches until the broken rule
// is noticed, which is exit 1 too; exit 0 means that nobody noticed. -replay FILE runs a printed script again.
package main

import (
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/kafka-marshal/marshal/internal/rule"
	"github.com/kafka-marshal/marshal/internal/sim/explore"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

type options struct {
	configs []*explore.Config
	states  int
	workers int
	broken  rule.Rule
	replay  string
	setup   bool
}

func run(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("explore", flag.ContinueOnError)
	flags.SetOutput(out)
	debug.SetGCPercent(200)
	o := options{}
	var only, broken string
	flags.StringVar(&only, "config", "", "explore these only, by name with commas between; \"list\" tells them")
	flags.IntVar(&o.states, "states", 0, "stop each after so many states, exhausted or not; 0: no bound")
	flags.IntVar(&o.workers, "workers", runtime.GOMAXPROCS(0), "configurations at a time")
	flags.StringVar(&broken, "break", "", "break this rule, which must be noticed")
	flags.StringVar(&o.replay, "replay", "", "run the script in this file again, in the one -config, and print what each step does")
	flags.BoolVar(&o.setup, "setup", false, "print what the set-up does, and do not search")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if only == "list" {
		for i := range explore.Configs {
			fmt.Fprintf(out, "%-12s %s\n", explore.Configs[i].Name, explore.Configs[i].About)
		}
		return 0
	}
	for _, name := range strings.FieldsFunc(only, func(r rune) bool { return r == ',' }) {
		c := explore.Named(name)
		if c == nil {
			fmt.Fprintf(out, "explore: there is no configuration %q (-config list)\n", name)
			return 2
		}
		o.configs = append(o.configs, c)
	}
	if only == "" {
		for i := range explore.Configs {
			o.configs = append(o.configs, &explore.Configs[i])
		}
	}
	if broken != "" {
		r, ok := rule.Parse(broken)
		if !ok || !rule.Breakable {
			fmt.Fprintf(out, "explore: %q is no rule, or this build cannot break it: go run -tags marshalbreak ./internal/sim/explore/run -break …\n", broken)
			return 2
		}
		rule.Break(r)
		o.broken = r
	}
	if o.replay != "" || o.setup {
		return o.trace(out)
	}
	if o.broken != rule.None && o.states == 0 {
		for _, o.states = range []int{20_000, 200_000, 2_000_000} { // most that is broken shows soon, in one of them
			if code := o.search(out); code != 0 || o.states == 2_000_000 {
				return code
			}
		}
	}
	return o.search(out)
}

// trace prints each step of a script, or of a set-up.
func (o options) trace(out io.Writer) int {
	if len(o.configs) != 1 {
		fmt.Fprintln(out, "explore: which -config?")
		return 2
	}
	var script []byte
	if o.replay != "" {
		var err error
		if script, err = os.ReadFile(o.replay); err != nil {
			fmt.Fprintln(out, "explore:", err)
			return 2
		}
	}
	violation, err := explore.Replay(o.configs[0], string(script), func(line string) { fmt.Fprintln(out, line) })
	switch {
	case err != nil:
		fmt.Fprintln(out, "explore:", err)
		return 2
	case violation != "":
		fmt.Fprintln(out, "explore: violation", violation)
		return 1
	}
	fmt.Fprintln(out, "explore: no violation")
	return 0
}

// search explores all configurations, as many at a time as there are workers, and prints them in their order.
func (o options) search(out io.Writer) int {
	began := time.Now()
	results := make([]explore.Result, len(o.configs))
	errs := make([]error, len(o.configs))
	done := make([]chan struct{}, len(o.configs))
	for i := range done {
		done[i] = make(chan struct{})
	}
	var next atomic.Int64
	var found atomic.Bool
	var workers sync.WaitGroup
	for range o.workers {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(o.configs); i = int(next.Add(1)) - 1 {
				if !found.Load() {
					results[i], errs[i] = explore.Search(o.configs[i], explore.Options{States: o.states})
					if o.broken != rule.None && results[i].Violation != "" {
						found.Store(true)
					}
					debug.FreeOSMemory() // each leaves gigabytes behind
				}
				close(done[i])
			}
		})
	}
	var all total
	for i := range o.configs {
		<-done[i]
		o.add(&all, out, o.configs[i], &results[i], errs[i])
	}
	workers.Wait()
	return o.report(out, &all, time.Since(began))
}

// total sums the configurations up.
type total struct {
	states, transitions, violations, incomplete, failed int
	caught                                              *explore.Result
}

func (o options) add(t *total, out io.Writer, c *explore.Config, r *explore.Result, err error) {
	if err != nil {
		fmt.Fprintln(out, "explore:", err)
		t.failed++
		return
	}
	if r.States == 0 && r.Violation == "" {
		return // not searched any more
	}
	t.states += r.States
	t.transitions += r.Transitions
	how := "exhausted"
	if !r.Complete {
		how = "not exhausted"
		t.incomplete++
	}
	if o.broken != rule.None && r.Violation == "" {
		return
	}
	fmt.Fprintf(out, "%-12s %s: states=%d transitions=%d depth=%d logs=%d locals=%d per_s=%.0f\n", c.Name, how, r.States, r.Transitions,
		r.Depth, r.Nodes, r.Locals, float64(r.States)/r.Took.Seconds())
	fmt.Fprintf(out, "%-12s handing out: %s; records:", "", r.HandingOut(c))
	for _, name := range slices.Sorted(maps.Keys(r.Events)) {
		fmt.Fprintf(out, " %s %d,", name, r.Events[name])
	}
	fmt.Fprintln(out)
	if r.Violation != "" {
		t.violations++
		t.caught = r
		fmt.Fprintf(out, "explore: %s: %s\n%s", c.Name, r.Violation, r.Script)
		fmt.Fprintf(out, "rerun: go run ./internal/sim/explore/run -config %s -replay FILE, with these lines in FILE\n", c.Name)
	}
}

func (o options) report(out io.Writer, t *total, took time.Duration) int {
	if o.broken != rule.None {
		if t.caught != nil {
			invariant, _, _ := strings.Cut(t.caught.Violation, ":")
			fmt.Fprintf(out, "explore: rule=%s caught by %s in config %s after %d states\n", o.broken, invariant, t.caught.Config, t.caught.States)
		} else {
			fmt.Fprintf(out, "explore: rule=%s is broken and nobody noticed in %d states of each\n", o.broken, o.states)
		}
	}
	fmt.Fprintf(out, "explore: configs=%d states=%d violations=%d exhausted=%d transitions=%d states_per_s=%.0f took=%s\n", len(o.configs), t.states,
		t.violations, len(o.configs)-t.incomplete-t.failed, t.transitions, float64(t.states)/took.Seconds(), took.Round(time.Second/10))
	if t.failed > 0 {
		return 2
	}
	if t.violations > 0 || o.broken == rule.None && o.states == 0 && t.incomplete > 0 {
		return 1
	}
	return 0
}
