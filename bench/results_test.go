package main

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestResultsAreKept(t *testing.T) {
	of := func(name string, n int64, cpu ...float64) readings {
		rs := readings{content: content{Name: name, N: n, Modes: everyone}}
		for _, v := range cpu {
			rs.Rounds = append(rs.Rounds, round(map[string]float64{"a": v}))
		}
		return rs
	}
	file := filepath.Join(t.TempDir(), "results.json")
	first := measured{Topics: []readings{of("x", 8, 1), of("y", 8, 2)}, Own: figures{"BenchmarkA": {"ns/op": {1}}}}
	got, err := first.keep(file)
	require.NoError(t, err)
	assert.Equal(t, first, got)
	second := measured{Topics: []readings{of("z", 8, 4), of("x", 8, 3), of("y", 16, 5)}, Own: figures{"BenchmarkA": {"ns/op": {2}}, "BenchmarkB": {"ns/op": {3}}}}
	got, err = second.keep(file)
	require.NoError(t, err)
	want := measured{
		Topics: []readings{of("x", 8, 1, 3), of("y", 8, 2), of("z", 8, 4), of("y", 16, 5)}, // with more messages it is another topic
		Own:    figures{"BenchmarkA": {"ns/op": {1, 2}}, "BenchmarkB": {"ns/op": {3}}},
	}
	assert.Equal(t, want, got)
	got, err = measured{}.keep(file)
	require.NoError(t, err)
	assert.Equal(t, want, got, "as it was written")
}
