package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// test is a test of a package, and what it can notice.
type test struct {
	name    string
	cost    time.Duration // of CPU, without a mutant
	reached []byte        // per mutant: 1 where its point was passed in a state in which it makes a difference
}

// plenty are the limits of what runs without a mutant.
var plenty = limits{seconds: 120, kib: 8 << 20}

// measure runs each test by itself without a mutant, a few at a time, and gives them from the cheapest on. A test that fails in
// the rewritten package, as one may that counts allocations, can kill nothing and is named.
func measure(ctx context.Context, p *pkg, binary, dir string, mutants, workers int) (tests []*test, failing []string, err error) {
	cmd, out := command(ctx, p, binary, plenty, "-test.list", ".")
	if err := cmd.Run(); err != nil {
		return nil, nil, fmt.Errorf("list the tests of %s: %w\n%s", p.path, err, out)
	}
	var all []*test
	for _, name := range regexp.MustCompile(`(?m)^(Test|Fuzz|Example)\w*$`).FindAllString(out.String(), -1) {
		all = append(all, &test{name: name})
	}
	work := make(chan *test)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range workers {
		wg.Go(func() {
			for t := range work {
				passed, wrong := t.measure(ctx, p, binary, dir, mutants)
				mu.Lock()
				switch {
				case wrong != nil:
					err = wrong
				case passed:
					tests = append(tests, t)
				default:
					failing = append(failing, t.name)
				}
				mu.Unlock()
			}
		})
	}
	for _, t := range all {
		work <- t
	}
	close(work)
	wg.Wait()
	slices.SortFunc(tests, func(a, b *test) int { return cmp.Or(cmp.Compare(a.cost, b.cost), cmp.Compare(a.name, b.name)) })
	slices.Sort(failing)
	return tests, failing, err
}

// measure runs one test, and tells whether it passed.
func (t *test) measure(ctx context.Context, p *pkg, binary, dir string, mutants int) (passed bool, err error) {
	file := filepath.Join(dir, p.name+"."+t.name+".reached")
	if err := os.WriteFile(file, make([]byte, max(mutants, 1)), 0o600); err != nil {
		return false, err
	}
	cmd, _ := command(ctx, p, binary, plenty, "-test.run", "^"+t.name+"$")
	cmd.Env = append(os.Environ(), "MUTANT_REACHED="+file, "GOMAXPROCS=1")
	if err := cmd.Run(); err != nil {
		return false, ctx.Err()
	}
	t.cost = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	t.reached, err = os.ReadFile(file)
	return err == nil, err
}

// batch are tests that one process runs.
type batch struct {
	pattern string
	cost    time.Duration
}

// batches are the tests that a mutant can be noticed by, the cheapest first: most die of one of these, and what is dear
// need not run.
func batches(tests []*test, id int) []batch {
	var all []batch
	var names []string
	var cost time.Duration
	enough := 50 * time.Millisecond
	end := func() {
		if len(names) > 0 {
			all = append(all, batch{"^(" + strings.Join(names, "|") + ")$", cost})
			names, cost, enough = nil, 0, 6*enough
		}
	}
	for _, t := range tests {
		if t.reached[id] == 0 {
			continue
		}
		if cost+t.cost > enough {
			end()
		}
		names, cost = append(names, t.name), cost+t.cost
	}
	end()
	return all
}
