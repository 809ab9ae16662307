package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestResultsAreKept(t *testing.T) {
	of := func(name string, cpu float64) readings {
		return readings{content: content{Name: name, N: 8, Modes: everyone}, Rounds: []map[string]result{round(map[string]float64{"a": cpu})}}
	}
	file := filepath.Join(t.TempDir(), "results.json")
	first := measured{Topics: []readings{of("x", 1), of("y", 2)}, Own: figures{"BenchmarkA": {"ns/op": {1}}}}
	got, err := first.keep(file)
	require.NoError(t, err)
	assert.Equal(t, first, got)
	got, err = measured{Topics: []readings{of("z", 4), of("x", 3)}, Own: figures{"BenchmarkB": {"ns/op": {2}}}}.keep(file)
	require.NoError(t, err)
	want := measured{Topics: []readings{of("x", 3), of("y", 2), of("z", 4)}, Own: figures{"BenchmarkA": {"ns/op": {1}}, "BenchmarkB": {"ns/op": {2}}}}
	assert.Equal(t, want, got)
	got, err = measured{}.keep(file)
	require.NoError(t, err)
	assert.Equal(t, want, got, "as it was written")
}
