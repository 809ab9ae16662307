// Command control measures the control path of Marshal beside those of what a user would pick instead, on one real broker and in
// the same run: sarama's ConsumerGroup, kafka-go's Reader, franz-go's group (cooperative-sticky) and its next-generation group (KIP-848).
//
//	go run ./control -brokers 127.0.0.1:9092
//
// Every member is a process of its own: this program, started again. Under a steady load three of them share 100 or 900 partitions; a
// fourth joins, leaves gracefully, and one of the others is killed. Then come figures of ours alone: hand-overs, crashes, a cold start, and
// what an idle member costs. Each bar is printed as "bar NAME VALUE UNIT limit<=X met|missed", each other figure as
// "peer NAME CLIENT VALUE UNIT".
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"runtime/pprof"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var (
	brokers  = flag.String("brokers", "127.0.0.1:9092", "bootstrap addresses, with commas")
	quick    = flag.Bool("quick", false, "fewer samples, and no peers with 900 partitions: some five minutes")
	markdown = flag.String("markdown", "", "write the section of docs/benchmarks.md there")
	rounds   = flag.Int("rounds", 3, "how often each client goes through the changes")
	only     = flag.String("only", "", "measure only what matches: join, handover, kill9, cold, idle")
	choice   = flag.String("clients", "", "of these clients only, with commas; default all")
	sizes    = flag.String("partitions", "100,900", "with so many partitions")
	details  = flag.Bool("details", false, "say where the longest gaps were")
	logs     = flag.String("logs", "", "a folder for the log files of our members")

	role        = flag.String("role", "", "what a process started by this program is: member or load")
	argument    = flag.String("argument", "", "and what it does, as JSON")
	roleProfile = flag.String("cpuprofile", "", "write CPU profiles of the members, to files that begin so")
)

// order is the order of clients.
var order = []string{"ours", "sarama", "kafka-go", "franz-go", "kip-848"}

// program is one run of it.
type program struct {
	ctx    context.Context
	admin  *kgo.Client
	dir    string
	fields map[int]*field // by their partitions
	report report
}

func main() {
	flag.Parse()
	var err error
	switch *role {
	case "member":
		err = profiled(func() error { return serve(*argument) })
	case "load":
		err = produce(*argument)
	default:
		err = measureAll()
	}
	if err != nil {
		log.Fatal(err)
	}
}

func profiled(f func() error) error {
	if *roleProfile == "" {
		return f()
	}
	out, err := os.Create(*roleProfile)
	if err != nil {
		return err
	}
	defer out.Close()
	if err := pprof.StartCPUProfile(out); err != nil {
		return err
	}
	defer pprof.StopCPUProfile()
	return f()
}

func measureAll() (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := &program{ctx: ctx, fields: map[int]*field{}}
	if p.dir, err = os.MkdirTemp("", "control"); err != nil {
		return err
	}
	defer os.RemoveAll(p.dir)
	if p.admin, err = newProducer(splitAddresses(*brokers)); err != nil {
		return err
	}
	defer p.admin.Close()
	defer p.close()
	if err := p.everything(); err != nil {
		return err
	}
	if *markdown != "" {
		if err := p.report.write(*markdown); err != nil {
			return err
		}
	}
	if p.report.missed > 0 {
		fmt.Printf("%d bars missed\n", p.report.missed)
	}
	return nil
}

func (p *program) say(format string, args ...any) {
	fmt.Printf(time.Now().Format("15:04:05 ")+format+"\n", args...)
}

func (p *program) everything() error {
	wanted, err := regexp.Compile(*only)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		run  func() error
	}{{"join", p.changes}, {"handover", p.handoverBars}, {"kill9", p.crashBars}, {"cold", p.coldBar}, {"idle", p.idleBar}} {
		if !wanted.MatchString(part.name) {
			continue
		}
		if err := part.run(); err != nil {
			return fmt.Errorf("%s: %w", part.name, err)
		}
	}
	return nil
}

// changes has every client go through the changes, in turn, round after round.
func (p *program) changes() error {
	var runs []run
	n := *rounds
	if *quick {
		n = 1
	}
	for range n {
		for _, size := range strings.Split(*sizes, ",") {
			var partitions int
			if _, err := fmt.Sscan(size, &partitions); err != nil || periods[partitions] == 0 {
				return fmt.Errorf("%q partitions: 100 or 900", size)
			}
			for _, client := range order {
				if *choice != "" && !strings.Contains(","+*choice+",", ","+client+",") || *quick && client != "ours" && partitions > 100 {
					continue
				}
				r, err := p.measure(client, partitions)
				if err != nil {
					return err
				}
				p.say("%-9s %3d partitions: in quiet the longest gap was %.0f ms, the machine %.0f %% busy", client, partitions,
					float64(r.quiet.Microseconds())/1e3, 100*r.busy)
				runs = append(runs, r)
			}
		}
	}
	p.report.matrix(runs)
	return nil
}

func (p *program) handoverBars() error {
	joins, leaves, err := p.handovers(samples(500, 60))
	if err != nil {
		return err
	}
	all := append(joins, leaves...)
	p.say("%d hand-overs: joining p50 %.1f p99 %.1f ms, leaving p50 %.1f p99 %.1f ms, longest %.1f ms", len(all),
		quantile(joins, 0.5), quantile(joins, 0.99), quantile(leaves, 0.5), quantile(leaves, 0.99), quantile(all, 1))
	p.report.bar("handover_p50_ms", quantile(all, 0.5), "ms", 15)
	p.report.bar("handover_p99_ms", quantile(all, 0.99), "ms", 60)
	return nil
}

// crashBars use a lease of one second, so that many kills take minutes only.
func (p *program) crashBars() error {
	beyond, err := p.crashes(samples(24, 6), time.Second)
	if err != nil {
		return err
	}
	p.say("%d crashes, with a lease of 1 s", len(beyond))
	p.report.bar("kill9_median_ms", quantile(beyond, 0.5), "ms", 150)
	p.report.bar("kill9_max_ms", quantile(beyond, 1), "ms", 300)
	return nil
}

func (p *program) coldBar() error {
	for _, processes := range []int{1, 4} {
		var took []float64
		for range samples(5, 2) {
			t, err := p.cold(processes, 1000)
			if err != nil {
				return err
			}
			p.say("cold start of %d: %.2f s", processes, t)
			took = append(took, t)
		}
		name := "cold_1000_s"
		if processes > 1 {
			name = fmt.Sprintf("cold_1000_by_%d_s", processes)
		}
		p.report.bar(name, quantile(took, 0.5), "s", 2)
	}
	return nil
}

func (p *program) idleBar() error {
	percent, err := p.idle(100, 1000, time.Duration(samples(60, 30))*time.Second)
	if err != nil {
		return err
	}
	p.report.bar("idle_cpu_percent", percent, "%", 0.5)
	return nil
}

// samples is how many there are, and how many with -quick.
func samples(n, few int) int {
	if *quick {
		return few
	}
	return n
}

// versions names what is measured.
func versions() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "versions unknown"
	}
	var names []string
	for _, d := range info.Deps {
		switch d.Path {
		case "github.com/IBM/sarama", "github.com/segmentio/kafka-go", "github.com/twmb/franz-go":
			names = append(names, d.Path[strings.LastIndex(d.Path, "/")+1:]+" "+d.Version)
		}
	}
	return strings.Join(names, ", ")
}
