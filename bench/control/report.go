package main

import (
	"fmt"
	"math"
	"os"
	"runtime"
	"strings"
)

// report collects the lines of a run.
type report struct {
	lines  []string
	table  []string // of the page
	missed int
}

// never is the value of what did not come.
var never = math.Inf(1)

// bar prints a figure that has a limit.
func (r *report) bar(name string, value float64, unit string, limit float64) {
	verdict := "met"
	if value > limit {
		verdict = "missed"
		r.missed++
	}
	r.print(fmt.Sprintf("bar %s %s %s limit<=%g %s", name, figure(value), unit, limit, verdict))
	r.table = append(r.table, fmt.Sprintf("| %s | ours | %s %s | ≤ %g | %s |", name, figure(value), unit, limit, verdict))
}

// peer prints a peer's figure beside a bar, or one of ours that has none.
func (r *report) peer(name, client string, value float64, unit string) {
	r.print(fmt.Sprintf("peer %s %s %s %s", name, client, figure(value), unit))
	r.table = append(r.table, fmt.Sprintf("| %s | %s | %s %s | | |", name, client, figure(value), unit))
}

func (r *report) print(line string) {
	fmt.Println(line)
	r.lines = append(r.lines, line)
}

func figure(v float64) string {
	if v == never {
		return "never"
	}
	return fmt.Sprintf("%.3g", v)
}

// matrix prints what the changes of all clients did: the median of their runs.
func (r *report) matrix(runs []run) {
	for _, partitions := range []int{100, 900} {
		for _, change := range []string{"join", "leave", "kill"} {
			for _, client := range order {
				took := pick(runs, client, partitions, func(x run) float64 {
					if s := x.shifts[change]; s.took >= 0 && (s.balanced || change != "join") {
						return s.took.Seconds()
					}
					return never
				})
				gap := pick(runs, client, partitions, func(x run) float64 { return x.shifts[change].bystanders })
				if len(took) == 0 {
					continue
				}
				name := fmt.Sprintf("%s_%d_s", change, partitions)
				bystanders := fmt.Sprintf("bystander_gap_%s_%d", change, partitions)
				if client == "ours" && name == "join_900_s" {
					r.bar(name, quantile(took, 0.5), "s", 2.5)
				} else {
					r.peer(name, client, quantile(took, 0.5), "s")
				}
				r.peer(bystanders, client, quantile(gap, 0.5), "x")
			}
		}
	}
	for _, client := range order {
		all := pick(runs, client, 0, worstBystanders)
		switch {
		case len(all) == 0:
		case client == "ours":
			r.bar("bystander_gap", quantile(all, 0.5), "x", 1.5)
		default:
			r.peer("bystander_gap", client, quantile(all, 0.5), "x")
		}
	}
}

// worstBystanders is the worst of all changes.
func worstBystanders(x run) (worst float64) {
	for _, s := range x.shifts {
		worst = max(worst, s.bystanders)
	}
	return worst
}

// pick gives a figure of all runs of a client; partitions 0: of any number.
func pick(runs []run, client string, partitions int, f func(run) float64) (values []float64) {
	for _, x := range runs {
		if x.client == client && (partitions == 0 || x.partitions == partitions) {
			values = append(values, f(x))
		}
	}
	return values
}

// write makes the section of the page.
func (r *report) write(path string) error {
	var b strings.Builder
	fmt.Fprintf(&b, "## Control path\n\nMade by `go run ./control` in bench/, on %s/%s with %d processors, %s; %s.\n\n",
		runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version(), versions())
	b.WriteString(explanation)
	b.WriteString("\n| figure | client | value | limit | |\n|---|---|---|---|---|\n")
	for _, line := range r.table {
		b.WriteString(line + "\n")
	}
	return os.WriteFile(path, []byte(b.String()), 0o644)
}

const explanation = `Three processes share the partitions under a steady load (each partition gets a message every 50 ms with 100 partitions, every
250 ms with 900); after 10 s without a change a fourth joins, leaves gracefully, and one of the first three is killed (kill -9). Every
client keeps its defaults, but for a commit each second: the lease of ours is 10 s, the session timeout of sarama 10 s, of kafka-go 30 s, of
franz-go and KIP-848 45 s, and the brokers wait for nobody when a group is empty (group.initial.rebalance.delay.ms=0).

` + "`join`, `leave`, `kill`" + ` are the times from the moment when the newcomer begins to make its client, the leaver to close it, or the signal,
until every partition flows at its last owner, with even shares, and no gap is longer than 1.5 times the longest of the quiet time (or half a second). bystander_gap is
the longest gap of the partitions that did not move, divided by the longest gap of the quiet time of the same run; the bar takes the worst of a run's
changes. All are medians of the runs. Figures without a limit are for comparison.

Hand-over and kill9 are of ours: one of two partitions, messages ready for its reader, which rests 1 ms after each; kill9 with a lease of 1 s,
counted from the signal, less the lease. cold_1000_s counts from the first client's beginning until all of 1,000 partitions flow. idle_cpu_percent
is the CPU time of one process of a group of 100 members with 1,000 partitions and no data; the others share a process.
`
