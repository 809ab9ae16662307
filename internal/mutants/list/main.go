// Command list breaks one rule after the other and runs each net that must catch it: `make mutants-list`, BREAK=rule for one,
// NET=fuzz,script for some of the nets.
//
// It prints a table "mutant net caught-by after seconds" and a last line "mutants: rules=… nets=… caught=… missed=…", and
// exits 1 if a net misses a mutant that it is named for. It is run from the module's root: it builds each net once, with the tag
// that lets a rule be broken, and runs it.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kafka-marshal/marshal/internal/mutants"
	"github.com/kafka-marshal/marshal/internal/rule"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout)) }

func run(args []string, out io.Writer) int {
	flags := flag.NewFlagSet("list", flag.ContinueOnError)
	flags.SetOutput(out)
	only := flags.String("break", "", "only this rule")
	nets := flags.String("net", "", "only these nets, with commas between: explorer, simulator, fuzz, script")
	seeds := flags.Int("seeds", 3000, "at how many seeds the simulator gives up")
	states := flags.Int("states", 300_000, "at how many states the explorer gives up")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	if _, ok := rule.Parse(*only); *only != "" && !ok {
		fmt.Fprintf(out, "mutants: no rule is called %q\n", *only)
		return 2
	}
	dir, err := os.MkdirTemp("", "mutants")
	if err != nil {
		fmt.Fprintln(out, "mutants:", err)
		return 2
	}
	defer os.RemoveAll(dir)
	l := lister{nets: builder{dir: dir, seeds: strconv.Itoa(*seeds), states: strconv.Itoa(*states)}, out: out}
	l.row("mutant", "net", "caught by", "after", "seconds")
	for _, m := range mutants.List() {
		if *only != "" && m.Rule.String() != *only {
			continue
		}
		if err := l.judge(m, *nets); err != nil {
			fmt.Fprintln(out, "mutants:", err)
			return 2
		}
	}
	for _, missed := range l.missed {
		fmt.Fprintln(out, missed)
	}
	fmt.Fprintf(out, "mutants: rules=%d nets=%d caught=%d missed=%d took=%s\n", l.rules, l.caught+len(l.missed), l.caught, len(l.missed),
		l.took.Round(time.Second))
	if len(l.missed) > 0 || l.caught == 0 {
		return 1
	}
	return 0
}

// lister runs nets and keeps what came of it.
type lister struct {
	nets   builder
	out    io.Writer
	rules  int
	caught int
	missed []string
	took   time.Duration
}

// judge runs the nets of one mutant.
func (l *lister) judge(m mutants.Mutant, only string) error {
	l.rules++
	for _, n := range m.Nets {
		if only != "" && !slices.Contains(strings.Split(only, ","), n.String()) {
			continue
		}
		command, err := l.nets.command(m, n)
		if err != nil {
			return err
		}
		began := time.Now()
		text, _ := command.CombinedOutput() // what it says counts, not how it exits
		took := time.Since(began)
		l.took += took
		found := verdict.FindSubmatch(text)
		by, after := "missed", ""
		if found != nil {
			l.caught++
			by, after = string(found[1]), string(found[2])
		} else {
			l.missed = append(l.missed, fmt.Sprintf("mutants: %s misses %s:\n%s", n, m.Rule, tail(text)))
		}
		l.row(m.Rule, n, by, after, fmt.Sprintf("%.1f", took.Seconds()))
	}
	return nil
}

// row prints one row of the table.
func (l *lister) row(mutant, net any, by, after, seconds string) {
	fmt.Fprintf(l.out, "%-15v %-10v %-22s %-24s %7s\n", mutant, net, by, after, seconds)
}

// verdict is how every net says by which check it caught a mutant, and after how much.
var verdict = regexp.MustCompile(`(?m)caught by (.+?) (?:after|at) (.+)$`)

// tail is the end of what a net said.
func tail(text []byte) string {
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	return strings.Join(lines[max(0, len(lines)-20):], "\n")
}

// builder builds what runs a net, once.
type builder struct {
	dir    string
	seeds  string
	states string
	built  []string
}

// command is what runs a net on a mutant.
func (b *builder) command(m mutants.Mutant, n mutants.Net) (*exec.Cmd, error) {
	name := m.Rule.String()
	switch n {
	case mutants.Explorer:
		return b.program("internal/sim/explore/run", "-break", name, "-config", m.Config, "-workers", "1", "-states", b.states)
	case mutants.Simulator:
		return b.program("internal/sim/run", "-break", name, "-lines", "1", "-seeds", b.seeds)
	case mutants.Fuzz:
		return b.test("internal/lease", "TestBrokenByFuzz", name)
	default:
		return b.test(m.Script, "TestBrokenRules", name)
	}
}

func (b *builder) program(folder string, args ...string) (*exec.Cmd, error) {
	path, err := b.build(folder, "build")
	return exec.Command(path, args...), err
}

func (b *builder) test(folder, name, sub string) (*exec.Cmd, error) {
	path, err := b.build(folder, "test", "-c")
	return exec.Command(path, "-test.v", "-test.run", "^"+name+"$/^"+sub+"$"), err
}

func (b *builder) build(folder string, how ...string) (string, error) {
	path := filepath.Join(b.dir, strings.ReplaceAll(folder, "/", "-")+"-"+how[0])
	if slices.Contains(b.built, path) {
		return path, nil
	}
	args := append(how, "-tags", "marshalbreak", "-o", path, "./"+folder)
	if text, err := exec.Command("go", args...).CombinedOutput(); err != nil {
		return "", fmt.Errorf("building %s: %w\n%s", folder, err, text)
	}
	b.built = append(b.built, path)
	return path, nil
}
