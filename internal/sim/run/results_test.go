package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAResultIsReadAsItIsWritten(t *testing.T) {
	for _, failed := range []string{"", "77,members=3"} {
		r := result{"2026-01-02T03:04:05Z", "0123456789ab-dirty", 5, 104, 200, 100, 12345, 0, 1, 999, 90 * time.Second, failed}
		read, err := parseResult(r.String())
		require.NoError(t, err)
		assert.Equal(t, r, read)
	}
	_, err := parseResult("2026-01-02 that is no line")
	assert.Error(t, err)
}

func TestTheSumCountsEachSeedOnce(t *testing.T) {
	rs := results{
		{commit: "a", first: 1, last: 100, schedules: 200, mutated: 100, steps: 10},
		{commit: "a-dirty", first: 51, last: 150, schedules: 200, mutated: 100, steps: 10},
		{commit: "b", first: 1, last: 150, schedules: 150, steps: 10, violations: 1},
	}
	assert.Equal(t, "sim: accumulated 300 schedules (and 250 of seeds run again) in 3 runs over 2 commits, 30 steps, 1 violations", rs.sum())
	assert.Equal(t, uint64(151), rs.next())
	assert.Equal(t, uint64(1), results(nil).next())
}

// TestARunAddsALineAndGoesOnAfterIt runs a few schedules twice, and once more on one worker.
func TestARunAddsALineAndGoesOnAfterIt(t *testing.T) {
	file := filepath.Join(t.TempDir(), "results.txt")
	require.NoError(t, os.WriteFile(file, []byte("# what this is\n\n"), 0o644))
	line := func(args ...string) string {
		var out bytes.Buffer
		require.Zero(t, run(append(args, "-seeds", "24", "-guided", "yes"), &out), out.String())
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		before, _, _ := strings.Cut(lines[len(lines)-1], " took=")
		return before
	}
	first := line("-results", file)
	line("-results", file)
	rs, err := readResults(file)
	require.NoError(t, err)
	require.Len(t, rs, 2)
	assert.Equal(t, uint64(1), rs[0].first)
	assert.Equal(t, rs[0].last+1, rs[1].first)
	assert.Equal(t, first, line("-workers", "1"), "the number of workers changes nothing, and nothing is written unless asked for")
	again, err := readResults(file)
	require.NoError(t, err)
	assert.Equal(t, rs, again)
}
