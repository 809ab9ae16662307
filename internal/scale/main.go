// Command scale measures the shipped claim protocol in large groups, in simulated time: `make scale`, `make scale QUICK=1`.
//
// Two things are run. A crowd (crowd.go) is a group all of whose members are the shipped ones, and goes through a cold
// start, deaths and deploys: how long that takes, in how many records. A lone process (lone.go) lives in a group, up to the
// largest that a world allows, whose other members are written by hand: what a record, a plan and a snapshot cost it. The
// bytes are those of the wire, the records are decoded, and all decisions are internal/member's; what is simulated is the time,
// and the log, which takes a record in one step of 10 ms and gives it to everybody in the next.
//
// What is simulated is the same for a seed in every run: times, records, bytes. Processor time and memory are measured.
// The last line is "scale: …" with the bars; exit code 1 if one is missed.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"time"

	_ "github.com/kafka-marshal/marshal" // lends the record format
)

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

// grid is what is measured.
type grid struct {
	crowds, lones []cell
	quick         bool
}

// full takes about ten minutes of one core, quick one.
func full() grid {
	var g grid
	for _, m := range []int{10, 100, 1000, 10_000} {
		for _, p := range []int{100, 1000, 10_000, 100_000, 500_000} {
			for _, t := range []int{1, 100, 1000} {
				c := cell{m, p, t}
				switch {
				case p < m, t > 1 && p != 10_000, t == 1000 && m == 10_000: // the last would be too much for a world
					continue
				}
				g.lones = append(g.lones, c)
				if m <= 1000 && m*t <= 10_000 && m*p <= 10_000_000 && p <= 100_000 && (m < 100 || p <= 10_000) {
					g.crowds = append(g.crowds, c)
				}
			}
		}
	}
	return g
}

func quick() grid {
	return grid{
		crowds: []cell{{10, 100, 1}, {100, 1000, 1}, {100, 1000, 10}},
		lones:  []cell{{10, 1000, 1}, {100, 1000, 1}, {10, 100_000, 1}, {1000, 10_000, 1}, {10_000, 10_000, 1}},
		quick:  true,
	}
}

// tiny is for the test of this command.
func tiny() grid {
	return grid{crowds: []cell{{10, 100, 1}}, lones: []cell{{10, 100, 1}, {20, 200, 10}}, quick: true}
}

// results are all figures of a run.
type results struct {
	crowds []flows
	lones  []alone
}

func run(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("scale", flag.ContinueOnError)
	flags.SetOutput(out)
	seed := flags.Uint64("seed", 1, "of everything that is random")
	size := flags.String("grid", "full", "full, quick, tiny, or MEMBERSxPARTITIONSxTOPICS for one group")
	svg := flags.String("svg", "", "write the plot to this file")
	profile := flags.String("cpuprofile", "", "write a profile to this file")
	if flags.Parse(args) != nil {
		return 2
	}
	g, err := parseGrid(*size)
	if err != nil {
		fmt.Fprintln(out, "scale:", err)
		return 2
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err == nil {
			defer f.Close()
			err = pprof.StartCPUProfile(f)
			defer pprof.StopCPUProfile()
		}
		if err != nil {
			fmt.Fprintln(out, "scale:", err)
			return 2
		}
	}
	debug.SetGCPercent(400) // memory is told after a collection of its own
	runtime.LockOSThread()  // processor time is told per thread
	defer runtime.UnlockOSThread()
	begun := time.Now()
	r := g.measure(*seed, out)
	r.print(out)
	if *svg != "" {
		if err := os.WriteFile(*svg, []byte(r.plot()), 0o644); err != nil {
			fmt.Fprintln(out, "scale:", err)
			return 2
		}
	}
	fmt.Fprintf(out, "\n%s, %d cores, GOMAXPROCS %d, seed %d, %v\n", runtime.Version(), runtime.NumCPU(), runtime.GOMAXPROCS(0), *seed,
		time.Since(begun).Round(time.Second))
	line, ok := r.verdict()
	fmt.Fprintln(out, line)
	if !ok {
		return 1
	}
	return 0
}

func parseGrid(s string) (grid, error) {
	switch s {
	case "full":
		return full(), nil
	case "quick":
		return quick(), nil
	case "tiny":
		return tiny(), nil
	}
	var c cell
	if n, err := fmt.Sscanf(s, "%dx%dx%d", &c.members, &c.partitions, &c.topics); n != 3 || err != nil {
		return grid{}, fmt.Errorf("no grid is called %q", s)
	}
	if c.members < 3 || c.partitions < c.members || c.topics < 1 || c.partitions%c.topics != 0 {
		return grid{}, fmt.Errorf("a group has at least 3 members, a partition for each, and as many partitions in each topic: not %q", s)
	}
	g := grid{lones: []cell{c}}
	if c.members <= 1000 {
		g.crowds = []cell{c}
	}
	return g, nil
}

// measure runs every cell. What it has done so far it tells on the way, since it takes a while.
func (g grid) measure(seed uint64, out io.Writer) results {
	var r results
	for _, c := range g.lones {
		begun := time.Now()
		r.lones = append(r.lones, runLone(c, seed, g.quick))
		debug.FreeOSMemory()
		fmt.Fprintf(out, "one process of %s: %v\n", c.name(), time.Since(begun).Round(10*time.Millisecond))
	}
	for _, c := range g.crowds {
		begun := time.Now()
		r.crowds = append(r.crowds, runFlows(c, seed))
		debug.FreeOSMemory()
		fmt.Fprintf(out, "crowd of %s: %v\n", c.name(), time.Since(begun).Round(10*time.Millisecond))
	}
	slices.SortStableFunc(r.lones, func(a, b alone) int { return a.members - b.members })
	return r
}
