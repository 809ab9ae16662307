package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const (
	costs    = 10 // how many of the largest of a path are shown
	profiled = 3  // runs of a mode, whose samples count together
	nearest  = "franz-group"
)

// profileAll has our modes and the nearest peer read each of their topics some more times, with a profile, and prints the largest costs.
func profileAll(ctx context.Context) error {
	if err := os.MkdirAll(*profiles, 0o755); err != nil {
		return err
	}
	var out strings.Builder
	for _, c := range contents() {
		fmt.Printf("writing %s\n", c)
		if err := fill(ctx, c); err != nil {
			return err
		}
		text, err := profileTopic(ctx, c)
		if err := errors.Join(err, remove(c)); err != nil {
			return err
		}
		fmt.Printf("\n%s\n", text)
		fmt.Fprintln(&out, text)
	}
	if *markdown != "" {
		return insert(*markdown, map[string]string{"profiles": out.String()})
	}
	return nil
}

// profileTopic makes a table of the costs, a column for each mode.
func profileTopic(ctx context.Context, c content) (string, error) {
	head, line, rows := "|", "|", make([]string, costs)
	for _, mode := range c.Modes {
		if !slices.Contains(ours, mode) && mode != nearest {
			continue
		}
		pprof := []string{"tool", "pprof", "-top", fmt.Sprintf("-nodecount=%d", costs)}
		var used []float64
		for i := range profiled {
			file := filepath.Join(*profiles, fmt.Sprintf("%s-%s-%d.prof", c.Name, mode, i+1))
			r, err := runMode(ctx, mode, c, "-cpuprofile", file)
			if err != nil {
				return "", fmt.Errorf("%s, %s: %w", c.Name, mode, err)
			}
			used, pprof = append(used, cpuPerMillion(r)), append(pprof, file)
		}
		list, err := exec.CommandContext(ctx, "go", pprof...).Output()
		if err != nil {
			return "", fmt.Errorf("%s, %s: pprof: %w", c.Name, mode, err)
		}
		top := topCosts(string(list))
		head += fmt.Sprintf(" %s, %.3f s |", mode, median(used))
		line += "---|"
		for i := range rows {
			cell := ""
			if i < len(top) {
				cell = top[i]
			}
			rows[i] += " " + cell + " |"
		}
	}
	return fmt.Sprintf("%s; CPU per million and where it goes:\n\n%s\n%s\n|%s\n", c, head, line, strings.Join(rows, "\n|")), nil
}

// cost is a line of pprof's list: time of its own, its part of all, the parts so far, time with what it calls, its part, the name.
var cost = regexp.MustCompile(`^\s*\S+\s+([\d.]+%)\s+[\d.]+%\s+\S+\s+[\d.]+%\s+(.*)$`)

// topCosts are the functions with the most time of their own, with their part of all.
func topCosts(list string) (top []string) {
	lines := bufio.NewScanner(strings.NewReader(list))
	for lines.Scan() {
		if m := cost.FindStringSubmatch(lines.Text()); m != nil {
			name := strings.TrimSuffix(m[2], " (inline)")
			top = append(top, m[1]+" "+path.Base(name))
		}
	}
	return top
}
