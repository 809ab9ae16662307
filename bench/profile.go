package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// costs is how many of the largest costs of a path are shown.
const costs = 10

// profileAll has each mode read each of its topics once more, with a profile, and prints the largest costs.
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
		out.WriteString(text)
	}
	if *markdown != "" {
		return insert(*markdown, map[string]string{"profiles": out.String()})
	}
	return nil
}

func profileTopic(ctx context.Context, c content) (string, error) {
	var out strings.Builder
	for _, mode := range c.modes {
		file := filepath.Join(*profiles, c.name+"-"+mode+".prof")
		r, err := runMode(ctx, mode, c, "-cpuprofile", file)
		if err != nil {
			return "", fmt.Errorf("%s, %s: %w", c.name, mode, err)
		}
		top, err := topCosts(ctx, file)
		if err != nil {
			return "", err
		}
		text := fmt.Sprintf("%s, %s: %.3f CPU s per million\n\n```\n%s```\n", mode, c.name, cpuPerMillion(r), top)
		fmt.Println(text)
		fmt.Fprintln(&out, text)
	}
	return out.String(), nil
}

// topCosts are the functions with the most time of their own, as pprof lists them.
func topCosts(ctx context.Context, file string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "tool", "pprof", "-top", fmt.Sprintf("-nodecount=%d", costs), file)
	out, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("pprof of %s: %w", file, err)
	}
	_, list, _ := strings.Cut(string(out), "Duration:")
	return "Duration:" + list, nil
}
