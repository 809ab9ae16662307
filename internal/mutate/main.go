// Command mutate changes floor 1 in small ways, one at a time, and looks whether its tests notice: `make mutants`, or
// `make mutants PACKAGE=window` for one package.
//
// Each change is a mutant. find.go names the kinds, skip.go what is left alone because it is no behaviour. All mutants of a
// package are compiled into one test binary, and an environment variable chooses the one that lives, so what a mutant costs is
// a run of those tests that pass its point in a state in which it makes a difference, the cheapest first, until one fails.
// Which these are is known from a run of each test without a mutant. Running out of CPU, memory or time counts as noticed.
//
// A mutant that no test notices survives. survivors.txt lists those of which it is known why that does not matter; any other
// is printed in the form of that file. A survivor that the file explains and that is noticed now is printed too: its line can go.
//
// The last line is "mutation: mutants=… killed=… survived=… explained=… percent=…". It exits 1 where less than 90 % of the
// mutants of a package are noticed. -every 20 takes every twentieth mutant, for a look in passing. -keep DIR leaves the rewritten
// files and the binaries there: MUTANT=n DIR/window.test runs the tests of window against its n-th mutant.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// enough is how many percent of a package's mutants its tests must notice.
const enough = 90

// floor1 are the packages that decide.
var floor1 = []string{"window", "history", "lease", "policy", "member"}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	os.Exit(mutate(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

type options struct {
	workers, every int
	survivors      string
	keep           string
	in             *regexp.Regexp
	only           map[string]bool // keys; nil: all
	dearest        time.Duration
	all            bool
}

func mutate(ctx context.Context, args []string, out, progress io.Writer) int {
	flags := flag.NewFlagSet("mutate", flag.ContinueOnError)
	flags.SetOutput(progress)
	var o options
	var in, only string
	flags.IntVar(&o.workers, "workers", 1, "tests and mutants at a time")
	flags.IntVar(&o.every, "every", 1, "take only every n-th mutant")
	flags.StringVar(&o.survivors, "survivors", filepath.Join("internal", "mutate", "survivors.txt"), "the survivors that are explained")
	flags.StringVar(&o.keep, "keep", "", "leave the rewritten files and the test binaries in this folder")
	flags.StringVar(&in, "in", "", "take only mutants whose line in the survivors' file matches this")
	flags.StringVar(&only, "only", "", "take only mutants that this file lists, as a run before printed them")
	flags.DurationVar(&o.dearest, "dearest", time.Hour, "leave out tests that take more CPU than this, which lets some survive that would not")
	flags.BoolVar(&o.all, "all", false, "print every mutant and what noticed it")
	if err := flags.Parse(args); err != nil {
		return 2
	}
	fail := func(err error) int {
		fmt.Fprintln(progress, "mutate:", err)
		return 2
	}
	var err error
	if o.in, err = regexp.Compile(in); err != nil {
		return fail(err)
	}
	if only != "" {
		if o.only, err = readKeys(only); err != nil {
			return fail(err)
		}
	}
	reasons, err := readSurvivors(o.survivors)
	if err != nil {
		return fail(err)
	}
	dir := o.keep
	if dir == "" {
		if dir, err = os.MkdirTemp("", "mutants"); err != nil {
			return fail(err)
		}
		defer os.RemoveAll(dir)
	} else if dir, err = filepath.Abs(dir); err != nil {
		return fail(err)
	}
	pkgs, err := load(patterns(flags.Args()))
	if err != nil {
		return fail(err)
	}
	var sum tally
	good := true
	for _, p := range pkgs {
		t, err := o.one(ctx, p, dir, reasons, out, progress)
		if err != nil {
			return fail(err)
		}
		good = good && t.percent() >= enough
		sum.add(t)
	}
	fmt.Fprintln(out, "mutation:", sum)
	if !good {
		return 1
	}
	return 0
}

// patterns are the packages for go list: a bare name is one of floor 1.
func patterns(names []string) []string {
	if len(names) == 0 {
		names = floor1
	}
	var list []string
	for _, n := range names {
		if !strings.Contains(n, "/") {
			n = "./internal/" + n
		}
		list = append(list, n)
	}
	return list
}

// one mutates a package.
func (o *options) one(ctx context.Context, p *pkg, dir string, reasons map[string]string, out, progress io.Writer) (tally, error) {
	began := time.Now()
	mutants, texts := find(p)
	binary, err := build(ctx, p, texts, dir)
	if err != nil {
		return tally{}, err
	}
	tests, failing, err := measure(ctx, p, binary, dir, len(mutants), o.workers)
	if err != nil {
		return tally{}, err
	}
	if len(failing) > 0 {
		fmt.Fprintf(out, "%s: these tests fail in the rewritten package and kill nothing: %s\n", p.name, strings.Join(failing, " "))
	}
	mutants = o.chosen(mutants)
	tests = slices.DeleteFunc(tests, func(t *test) bool { return t.cost > o.dearest })
	fmt.Fprintf(progress, "%s: %d mutants, %d tests, after %s\n", p.name, len(mutants), len(tests), time.Since(began).Round(time.Second))
	done := 0
	err = hunt(ctx, p, binary, tests, mutants, o.workers, func(m *mutant) {
		if _, known := reasons[m.key()]; !known && !m.fate.dead() {
			fmt.Fprintf(progress, "%s\n\t%s\n", m.fate, m.key())
		}
		if done++; done%200 == 0 {
			fmt.Fprintf(progress, "%s: %d of %d after %s\n", p.name, done, len(mutants), time.Since(began).Round(time.Second))
		}
	})
	if err != nil {
		return tally{}, err
	}
	t := o.report(out, mutants, reasons)
	fmt.Fprintf(out, "%s: %s seconds=%.0f\n", p.name, t, time.Since(began).Seconds())
	return t, nil
}

func (o *options) chosen(mutants []*mutant) []*mutant {
	var some []*mutant
	for i, m := range mutants {
		if k := m.key(); i%o.every == 0 && o.in.MatchString(k) && (o.only == nil || o.only[k]) {
			some = append(some, m)
		}
	}
	return some
}
