package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
)

// readings are the results on one topic: of each round, by mode.
type readings struct {
	content
	Rounds []map[string]result
}

// compare writes one topic after the other, has it read by its modes in turn, round after round, and removes it.
func compare(ctx context.Context) (all []readings, err error) {
	warm := content{Name: "warm", Size: 100, Codec: "none", N: 80_000, Modes: everyone}
	cs := contents()
	if _, err := readTopic(ctx, warm, 1); err != nil { // the broker makes its own topics when the first group comes
		return nil, err
	}
	for _, c := range cs {
		rs, err := readTopic(ctx, c, *rounds)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", c.Name, err)
		}
		all = append(all, rs)
	}
	return all, nil
}

func readTopic(ctx context.Context, c content, rounds int) (rs readings, err error) {
	fmt.Printf("writing %s\n", c)
	rs = readings{content: c}
	if err := fill(ctx, c); err != nil {
		return rs, err
	}
	defer func() { err = errors.Join(err, remove(c)) }()
	for i := range rounds {
		round := map[string]result{}
		for k := range c.Modes {
			m := c.Modes[(i+k)%len(c.Modes)] // each begins a round in turn
			r, err := runMode(ctx, m, c)
			if err != nil {
				return rs, fmt.Errorf("round %d, %s: %w", i+1, m, err)
			}
			if err := agrees(r, c.N); err != nil {
				return rs, fmt.Errorf("round %d, %s: %w", i+1, m, err)
			}
			if err := finished(ctx, r, c); err != nil {
				return rs, fmt.Errorf("round %d, %s: %w", i+1, m, err)
			}
			round[m] = r
			fmt.Printf("%s round %d  %-18s %6.2f M/s  %6.3f CPU s/M  %6.3f allocs  %5.0f B  %4.0f MiB  first after %.2f s\n",
				c.Name, i+1, m, rate(r)/1e6, cpuPerMillion(r), allocs(r), allocBytes(r), rss(r), first(r))
		}
		rs.Rounds = append(rs.Rounds, round)
	}
	return rs, nil
}

// agrees tells whether a run has read what is in the topic. All are held to the same, so they agree with each other, too.
func agrees(r result, n int64) error {
	if want := sumOf(n); r.Messages != n || r.Sum != want {
		return fmt.Errorf("read %d messages with offset checksum %d; the topic has %d with %d", r.Messages, r.Sum, n, want)
	}
	return nil
}

// finished tells whether everything was committed in Kafka when the process has ended, which ours promise. What a peer has read last may not
// be: franz-go's group commits what was polled before.
func finished(ctx context.Context, r result, c content) error {
	if !slices.Contains(ours, r.Mode) {
		return nil
	}
	committed, err := committedBy(ctx, r.Group, c.topic())
	if err == nil && committed != c.N {
		err = fmt.Errorf("%d of %d messages are committed", committed, c.N)
	}
	return err
}

// runMode reads a topic in a process of its own.
func runMode(ctx context.Context, mode string, c content, more ...string) (result, error) {
	self, err := os.Executable()
	if err != nil {
		return result{}, err
	}
	args := append([]string{"-brokers", *brokers, "-topic", c.topic(), "-n", fmt.Sprint(c.N), "-mode", mode}, more...)
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return result{}, err
	}
	var r result
	return r, json.Unmarshal(out, &r)
}
