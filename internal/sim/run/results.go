package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// result is a line of the results file: one run.
type result struct {
	date, commit       string
	first, last        uint64 // seeds; mutated schedules have seeds of others, or of nobody
	schedules, mutated int64
	steps              int64
	violations, zeros  int
	coverage           int
	took               time.Duration
	failed             string // the first schedule that violated something; "": none
}

const resultFormat = "%s commit=%s seeds=%d..%d schedules=%d mutated=%d steps=%d violations=%d zeros=%d coverage=%d took=%s"

func (r *result) String() string {
	line := fmt.Sprintf(resultFormat, r.date, r.commit, r.first, r.last, r.schedules, r.mutated, r.steps, r.violations, r.zeros,
		r.coverage, r.took.Round(time.Second/10))
	if r.failed != "" {
		line += " schedule=" + r.failed
	}
	return line
}

func parseResult(line string) (r result, err error) {
	line, r.failed, _ = strings.Cut(line, " schedule=")
	var took string
	// Scanf has no use for text that ends within a word, so the range is two words to it.
	_, err = fmt.Sscanf(strings.NewReplacer("commit=", "", "..", " ").Replace(line), strings.NewReplacer("commit=", "", "..", " ").Replace(resultFormat), &r.date, &r.commit, &r.first, &r.last, &r.schedules,
		&r.mutated, &r.steps, &r.violations, &r.zeros, &r.coverage, &took)
	if err != nil {
		return r, fmt.Errorf("%q: %w", line, err)
	}
	r.took, err = time.ParseDuration(took)
	return r, err
}

// results are the runs of a results file.
type results []result

// readResults reads a results file: lines that begin with a # are comments. One that is not there has no lines.
func readResults(name string) (results, error) {
	if name == "" {
		return nil, nil
	}
	f, err := os.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var rs results
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if line := strings.TrimSpace(lines.Text()); line != "" && line[0] != '#' {
			r, err := parseResult(line)
			if err != nil {
				return nil, err
			}
			rs = append(rs, r)
		}
	}
	return rs, lines.Err()
}

// next is the first seed after all that were run.
func (rs results) next() uint64 {
	next := uint64(1)
	for i := range rs {
		next = max(next, rs[i].last+1)
	}
	return next
}

// sum adds the runs up. Seeds that were run again count once, and of the mutated schedules of such a run as small a share.
func (rs results) sum() string {
	commits := map[string]bool{}
	var schedules, again, steps int64
	var violations int
	for i := range rs {
		r := &rs[i]
		commits[strings.TrimSuffix(r.commit, "-dirty")] = true
		violations += r.violations
		steps += r.steps
		fresh := int64(float64(r.schedules) * float64(rs[:i].without(r.first, r.last)) / float64(r.last+1-r.first))
		schedules += fresh
		again += r.schedules - fresh
	}
	return fmt.Sprintf("sim: accumulated %d schedules (and %d of seeds run again) in %d runs over %d commits, %d steps, %d violations",
		schedules, again, len(rs), len(commits), steps, violations)
}

// without counts the seeds from first to last that none of the runs has drawn.
func (rs results) without(first, last uint64) uint64 {
	for i := range rs {
		r := &rs[i]
		if r.last < first || r.first > last {
			continue
		}
		var n uint64
		if r.first > first {
			n += rs[i+1:].without(first, r.first-1)
		}
		if r.last < last {
			n += rs[i+1:].without(r.last+1, last)
		}
		return n
	}
	return last + 1 - first
}

// record adds a line for a run that has come to its end.
func (o options) record(t *total) error {
	r := result{
		date: time.Now().UTC().Format(time.RFC3339), commit: o.commit, first: o.first, last: t.guide.NextSeed() - 1,
		schedules: t.schedules, mutated: t.mutated, steps: t.steps, violations: len(t.failed), zeros: len(t.table.Zeros()),
		coverage: t.guide.Seen.Count, took: t.took,
	}
	if len(t.failed) > 0 {
		r.failed = t.failed[0].Schedule.String()
	}
	f, err := os.OpenFile(o.results, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintln(f, r.String()); err != nil {
		f.Close()
		return err
	}
	return f.Close()
}

// headCommit names the commit that is checked out, with a mark where files differ from it, the results file apart.
func headCommit(results string) (string, error) {
	head, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "", fmt.Errorf("which commit this is: %w", err)
	}
	status, err := exec.Command("git", "status", "--porcelain").Output()
	if err != nil {
		return "", fmt.Errorf("whether files differ from the commit: %w", err)
	}
	commit := strings.TrimSpace(string(head))
	for line := range strings.Lines(string(status)) {
		if len(line) > 3 && strings.TrimSpace(line[3:]) != filepath.ToSlash(filepath.Clean(results)) {
			return commit + "-dirty", nil
		}
	}
	return commit, nil
}
