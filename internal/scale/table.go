package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// print writes the tables.
func (r *results) print(out io.Writer) {
	fmt.Fprintln(out, "\nOne process of a settled group, and the shard it follows; moving: three partitions of each member, each second")
	fmt.Fprintln(out)
	row(out, "members", "partitions", "topics", "idle: records/s", "kB/s", "B a record", "decode + apply + step, ns", "% of a core",
		"moving: records/s", "kB/s", "B a record", "decode + apply + step, ns", "% of a core")
	rule(out, 13)
	for _, a := range r.lones {
		if a.refused {
			row(out, num(a.members), num(a.partitions), num(a.topics), "it did not get its share")
			continue
		}
		row(out, append([]string{num(a.members), num(a.partitions), num(a.topics)}, append(a.idle.cells(), a.moving.cells()...)...)...)
	}

	fmt.Fprintln(out, "\nThe same process: one change, a snapshot, its memory")
	fmt.Fprintln(out)
	row(out, "members", "partitions", "topics", "plan, ms: one died", "one joined", "a key moved", "all else, ms: died", "joined", "moved",
		"snapshot, MB", "to compare it, ms", "the whole history, ms", "catching up, ns a record", "MB: world and log", "plan", "member")
	rule(out, 16)
	for _, a := range r.lones {
		if !a.refused {
			row(out, num(a.members), num(a.partitions), num(a.topics), ms(a.died.plan), ms(a.joined.plan), ms(a.handed.plan),
				ms(a.died.apply+a.died.step), ms(a.joined.apply+a.joined.step), ms(a.handed.apply+a.handed.step),
				mb(a.snapshot), ms(a.check), ms(a.newcomer), fmt.Sprintf("%d + %d", a.catching.decode.Nanoseconds(), a.catching.apply.Nanoseconds()),
				mb(a.world), mb(a.plan), mb(a.member))
		}
	}

	fmt.Fprintln(out, "\nA group changes: simulated time until every partition is run and nothing is to move; records other than heartbeats; what it cost one process")
	fmt.Fprintln(out)
	row(out, "members", "partitions", "topics", "change", "takes", "records", "kB in all", "keys moved", "plans", "CPU, ms", "longest batch, ms")
	rule(out, 11)
	for _, f := range r.crowds {
		for _, c := range []struct {
			name string
			f    figure
		}{{"cold start", f.cold}, {"a tenth dies", f.died}, {"it is back", f.back}, {"deploy with grace", f.parked}, {"deploy without", f.rolled}} {
			took := "never"
			if c.f.took >= 0 {
				took = c.f.took.String()
			}
			row(out, num(f.members), num(f.partitions), num(f.topics), c.name, took, num(int(c.f.records)), fmt.Sprint(c.f.bytes/1000),
				num(int(c.f.moves)), num(int(c.f.work.plans)), ms(c.f.work.total()), ms(c.f.work.longest))
		}
	}
}

func (s steady) cells() []string {
	return []string{fmt.Sprintf("%.0f", s.records), fmt.Sprintf("%.1f", s.bytes/1000), fmt.Sprintf("%.0f", s.bytes/max(1, s.records)),
		fmt.Sprintf("%d + %d + %d", s.each.decode.Nanoseconds(), s.each.apply.Nanoseconds(), s.each.step.Nanoseconds()), fmt.Sprintf("%.3f", s.share*100)}
}

func row(out io.Writer, cells ...string) { fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | ")) }

func rule(out io.Writer, n int) { row(out, strings.Split(strings.Repeat("---,", n-1)+"---", ",")...) }

func ms(d time.Duration) string { return fmt.Sprintf("%.2f", d.Seconds()*1e3) }

func mb(n int64) string { return fmt.Sprintf("%.2f", float64(n)/1e6) }

// num writes a whole number with commas.
func num(n int) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
