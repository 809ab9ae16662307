package main

import (
	"math"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// round makes one of CPU seconds by mode, for a million messages.
func round(cpu map[string]float64) map[string]result {
	all := map[string]result{}
	for mode, v := range cpu {
		all[mode] = result{Mode: mode, Messages: 1e6, CPU: v, Seconds: 2 * v, RSS: 100 * v, Allocs: 1e4}
	}
	return all
}

func TestRatiosAreTakenWithinARound(t *testing.T) {
	rs := readings{Rounds: []map[string]result{
		round(map[string]float64{"a": 1, "b": 2, "c": 4}),
		round(map[string]float64{"a": 10, "b": 20, "c": 5}), // the machine was slow, but not for c
		round(map[string]float64{"a": 1, "b": 4}),
		round(map[string]float64{"b": 1}),
	}}
	assert.Equal(t, []float64{0.5, 0.5, 0.25}, rs.ratios(cpuPerMillion, "a", "b"))
	assert.Equal(t, []float64{0.5, 2, 0.25}, rs.ratios(cpuPerMillion, "a", "b", "c"), "the best peer of each round")
	assert.Equal(t, []float64{0.5, 2, 0.25}, rs.ratios(cpuPerMillion, "a", "c", "b"))
	assert.Equal(t, []float64{2, 2, 4}, rs.ratios(rate, "a", "b"))
	assert.Equal(t, []float64{1, 10, 1}, rs.values(cpuPerMillion, "a"))
	assert.Empty(t, rs.ratios(cpuPerMillion, "a", "nobody"))
}

func TestMedian(t *testing.T) {
	assert.Equal(t, 3.0, median([]float64{9, 1, 3}))
	assert.Equal(t, 2.5, median([]float64{2, 9, 3, 1}))
	assert.True(t, math.IsNaN(median(nil)))
	assert.Equal(t, 4.0, largest([]float64{1, 4, 2}))
	assert.True(t, math.IsNaN(largest(nil)))
}

func TestOffsetChecksum(t *testing.T) {
	const n = 80
	type message struct {
		partition int32
		offset    int64
	}
	read := func(change func([]message) []message) result {
		var all []message
		for p := range int32(partitions) {
			for o := range int64(n / partitions) {
				all = append(all, message{p, o})
			}
		}
		*total = n + 2 // never done
		var s sink
		for _, m := range change(all) {
			s.add([]byte("value"), m.partition, m.offset)
		}
		return result{Messages: s.n, Sum: s.sum}
	}
	for name, change := range map[string]func([]message) []message{
		"one left out":      func(ms []message) []message { return ms[:len(ms)-1] },
		"one for another":   func(ms []message) []message { ms[4] = ms[5]; return ms },
		"one of another":    func(ms []message) []message { ms[4].partition = 1; return ms },
		"one more":          func(ms []message) []message { return append(ms, ms[0]) },
		"an offset skipped": func(ms []message) []message { ms[9].offset++; return ms },
	} {
		assert.Error(t, agrees(read(change), n), name)
	}
	assert.NoError(t, agrees(read(func(ms []message) []message { return ms }), n))
	assert.NoError(t, agrees(read(func(ms []message) []message {
		ms[3], ms[70] = ms[70], ms[3]
		return ms
	}), n), "in another order")
}

func TestABarIsMetAtItsLimit(t *testing.T) {
	most := bar{name: "x", unit: "ratio", limit: 0.85}
	assert.Equal(t, "bar x 0.850 ratio limit<=0.850 met", most.line(0.85))
	assert.Equal(t, "bar x 0.930 ratio limit<=0.850 missed", most.line(0.93))
	assert.True(t, strings.HasSuffix(most.line(0.8501), " missed"))
	least := bar{name: "y", unit: "per_s", limit: 1_000_000, least: true}
	assert.Equal(t, "bar y 1000000 per_s limit>=1000000 met", least.line(1_000_000))
	assert.Equal(t, "bar y 999999 per_s limit>=1000000 missed", least.line(999_999.4))
}

func TestVerdicts(t *testing.T) {
	all := round(map[string]float64{
		"marshal-batches": 0.7, "marshal-fetch": 0.9, "marshal-messages": 0.8, "marshal-channel": 0.8,
		"franz-group": 1, "sarama-group": 1, "kafkago-reader": 4,
	})
	m := measured{
		Topics: []readings{{content: content{Name: "100b"}, Rounds: []map[string]result{all, all, all}}},
		Own:    figures{"BenchmarkCommit/InOrder/1": {"ns/op": {50, 70, 40}, "allocs/op": {0, 0, 1}}},
	}
	text, missed := verdicts(m)
	assert.Equal(t, strings.Join([]string{
		"bar cpu_batches_100b 0.700 ratio limit<=0.700 met",
		"bar cpu_fetch_100b 0.900 ratio limit<=0.850 missed",
		"bar cpu_messages_100b 0.800 ratio limit<=0.850 met",
		"bar cpu_channel_100b 0.800 ratio limit<=0.800 met",
		"bar rate_batches_100b_franz 1.429 ratio limit>=1.400 met",
		"bar rate_batches_100b_sarama 1.429 ratio limit>=3 missed",
		"bar rate_batches_100b_kafkago 5.714 ratio limit>=5 met",
		"bar allocs_batches 0.0100 per_record limit<=0.0200 met",
		"bar allocs_messages 0.0100 per_record limit<=0.0200 met",
		"bar allocs_channel 0.0100 per_record limit<=0.0500 met",
		"bar rss_100b 0.900 ratio limit<=1.300 met",
		"bar rss_above_max 26 MiB limit<=48 met",
		"bar commit_ns_1 50 ns limit<=60 met",
		"bar commit_allocs 1 per_commit limit<=0 missed",
	}, "\n")+"\nbars: 11 met, 3 missed, 14 not measured\n", text)
	assert.Equal(t, 3, missed)
}

func TestFiguresOfGoTest(t *testing.T) {
	f := figures{}
	require.Equal(t, 3, f.read(`goos: linux
BenchmarkCommit/InOrder/1-2         	 2003440	       164.0 ns/op	        38.49 cpu-ns/op	       0 B/op	       0 allocs/op
BenchmarkCommit/InOrder/1-2         	 6646471	        57.69 ns/op	        36.15 cpu-ns/op	       0 B/op	       0 allocs/op
BenchmarkHandover-2   	       1	       350.8 control_max_ms	         1.388 p50_ms
--- BENCH: BenchmarkHandover-2
PASS
`))
	assert.Equal(t, []float64{164, 57.69}, f["BenchmarkCommit/InOrder/1"]["ns/op"])
	assert.Equal(t, []float64{1.388}, f["BenchmarkHandover"]["p50_ms"])
	assert.Equal(t, 1, f.read("BenchmarkReplay   \t  10\t 679000 records/s"), "with one processor a name has no suffix")
	assert.Equal(t, []float64{679000}, f["BenchmarkReplay"]["records/s"])
}
