package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// bar is a figure with what it must be.
type bar struct {
	name, unit string
	limit      float64
	least      bool // the limit is the smallest that is good; otherwise the largest
	value      func(m measured) float64
}

func (b bar) met(v float64) bool {
	if b.least {
		return v >= b.limit
	}
	return v <= b.limit
}

func (b bar) line(v float64) string {
	sign, verdict := "<=", "missed"
	if b.least {
		sign = ">="
	}
	if b.met(v) {
		verdict = "met"
	}
	return fmt.Sprintf("bar %s %s %s limit%s%s %s", b.name, digits(v), b.unit, sign, digits(b.limit), verdict)
}

// digits writes a figure so that one just beyond its limit does not look like it.
func digits(v float64) string {
	switch {
	case v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) >= 1000:
		return fmt.Sprintf("%.0f", v)
	case math.Abs(v) < 0.1:
		return fmt.Sprintf("%.4f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// verdicts gives a line for each bar that was measured, then how many are met, and how many are not.
func verdicts(m measured) (text string, missed int) {
	var out strings.Builder
	var met, unmeasured int
	for _, b := range bars() {
		v := b.value(m)
		switch {
		case math.IsNaN(v):
			unmeasured++
			continue
		case b.met(v):
			met++
		default:
			missed++
		}
		fmt.Fprintln(&out, b.line(v))
	}
	fmt.Fprintf(&out, "bars: %d met, %d missed, %d not measured\n", met, missed, unmeasured)
	return out.String(), missed
}

var (
	peers = []string{"franz-group", "sarama-group", "kafkago-reader"}
	ours  = []string{"marshal-batches", "marshal-fetch", "marshal-messages", "marshal-channel"}
)

// maxBuffered is MaxBufferedBytes of the consumers here, in MiB: the default.
const maxBuffered = 64

func bars() []bar {
	cpu := func(name string, limit float64, topic, mode string, peers ...string) bar {
		return bar{name: "cpu_" + name, unit: "ratio", limit: limit, value: func(m measured) float64 { return median(m.topic(topic).ratios(cpuPerMillion, mode, peers...)) }}
	}
	faster := func(name string, limit float64, peer string) bar {
		return bar{name: "rate_batches_100b_" + name, unit: "ratio", limit: limit, least: true, value: func(m measured) float64 { return median(m.topic("100b").ratios(rate, "marshal-batches", peer)) }}
	}
	per := func(name string, limit float64) bar {
		return bar{name: "allocs_" + name, unit: "per_record", limit: limit, value: func(m measured) float64 { return median(m.topic("100b").values(allocs, "marshal-"+name)) }}
	}
	own := func(name, unit string, limit float64, of func([]float64) float64, benchmark, figure string) bar {
		return bar{name: name, unit: unit, limit: limit, value: func(m measured) float64 { return of(m.Own[benchmark][figure]) }}
	}
	bs := []bar{
		cpu("batches_100b", 0.70, "100b", "marshal-batches", "franz-group"),
		cpu("fetch_100b", 0.85, "100b", "marshal-fetch", "franz-group"),
		cpu("messages_100b", 0.85, "100b", "marshal-messages", "franz-group"),
		cpu("channel_100b", 0.80, "100b", "marshal-channel", "sarama-group"),
	}
	for _, codec := range []string{"lz4", "zstd", "snappy", "gzip"} {
		bs = append(bs, cpu("batches_100b_"+codec, 0.85, "100b_"+codec, "marshal-batches", "franz-group"))
	}
	for _, topic := range []string{"1k", "1k_lz4", "1k_zstd", "1k_snappy", "1k_gzip"} {
		bs = append(bs, cpu("batches_"+topic, 1.05, topic, "marshal-batches", peers...))
	}
	replay := own("replay_per_s", "per_s", 1_000_000, median, "BenchmarkReplay", "records/s")
	replay.least = true
	return append(bs,
		faster("franz", 1.4, "franz-group"), faster("sarama", 3, "sarama-group"), faster("kafkago", 5, "kafkago-reader"),
		per("batches", 0.02), per("messages", 0.02), per("channel", 0.05),
		bar{name: "rss_100b", unit: "ratio", limit: 1.3, value: func(m measured) float64 {
			return worst(m.topic("100b"), func(rs readings, mode string) float64 { return median(rs.ratios(rss, mode, "franz-group")) })
		}},
		bar{name: "rss_above_max", unit: "MiB", limit: 48, value: func(m measured) float64 {
			above := math.NaN()
			for _, rs := range m.Topics {
				above = larger(above, worst(rs, func(rs readings, mode string) float64 { return median(rs.values(rss, mode)) - maxBuffered }))
			}
			return above
		}},
		own("commit_ns_1", "ns", 60, median, "BenchmarkCommit/InOrder/1", "ns/op"),
		own("commit_ns_8", "ns", 150, median, "BenchmarkCommit/InOrder/8", "ns/op"),
		bar{name: "commit_allocs", unit: "per_commit", value: func(m measured) float64 {
			return larger(largest(m.Own["BenchmarkCommit/InOrder/1"]["allocs/op"]), largest(m.Own["BenchmarkCommit/InOrder/8"]["allocs/op"]))
		}},
		own("handover_p50_ms_embedded", "ms", 2, median, "BenchmarkHandover", "p50_ms"),
		own("handover_p99_ms_embedded", "ms", 20, median, "BenchmarkHandover", "p99_ms"),
		replay,
		own("replay_allocs", "per_record", 0, largest, "BenchmarkReplay", "allocs/op"),
	)
}

// worst is the largest of our modes.
func worst(rs readings, of func(rs readings, mode string) float64) float64 {
	w := math.NaN()
	for _, mode := range ours {
		w = larger(w, of(rs, mode))
	}
	return w
}

// topic gives what was read of one; nothing where it was not measured.
func (m measured) topic(name string) readings {
	i := slices.IndexFunc(m.Topics, func(rs readings) bool { return rs.Name == name })
	if i < 0 {
		return readings{}
	}
	return m.Topics[i]
}
