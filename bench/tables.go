package main

import (
	"fmt"
	"math"
	"os"
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
)

// tables shows the medians of each topic, and how far the ratios of the rounds lie apart.
func tables(all []readings) string {
	var out strings.Builder
	for i, rs := range all {
		if i > 0 {
			fmt.Fprintln(&out)
		}
		fmt.Fprintf(&out, "%s; %d rounds\n\n", rs.content, len(rs.Rounds))
		fmt.Fprintln(&out, "| mode | million/s | CPU s per million | CPU ÷ franz-group (least to most) | allocations per record | bytes per record | peak RSS, MiB | first message, s |")
		fmt.Fprintln(&out, "|---|---:|---:|---:|---:|---:|---:|---:|")
		for _, mode := range modeOrder {
			if len(rs.values(rate, mode)) == 0 {
				continue
			}
			mid := func(of func(result) float64) float64 { return median(rs.values(of, mode)) }
			fmt.Fprintf(&out, "| %s | %.2f | %.3f | %s | %.3f | %.0f | %.0f | %.2f |\n",
				mode, mid(rate)/1e6, mid(cpuPerMillion), spread(rs.ratios(cpuPerMillion, mode, "franz-group")), mid(allocs), mid(allocBytes), mid(rss), mid(first))
		}
	}
	return out.String()
}

var modeOrder = []string{"marshal-batches", "marshal-fetch", "marshal-messages", "marshal-channel", "franz-group", "franz-group-mark", "sarama-group", "kafkago-reader"}

func spread(qs []float64) string {
	least, most := math.Inf(1), math.Inf(-1)
	for _, q := range qs {
		least, most = min(least, q), max(most, q)
	}
	return fmt.Sprintf("%.2f (%.2f to %.2f)", median(qs), least, most)
}

// machine says where and with what it was measured.
func machine() string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s/%s, %d processors, %s", runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), runtime.Version())
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if m := regexp.MustCompile(`(?m)^model name\s*:\s*(.*)$`).FindSubmatch(text); m != nil {
			fmt.Fprintf(&out, ", %s", m[1])
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kib int
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kib); err == nil {
			fmt.Fprintf(&out, ", %d GiB", (kib+1<<19)>>20)
		}
	}
	if kind := os.Getenv("BENCH_BROKER"); kind != "" {
		fmt.Fprintf(&out, "; broker: %s", kind)
	}
	if info, ok := debug.ReadBuildInfo(); ok {
		for _, d := range info.Deps {
			switch d.Path {
			case "github.com/IBM/sarama", "github.com/twmb/franz-go", "github.com/segmentio/kafka-go":
				fmt.Fprintf(&out, "; %s %s", d.Path, d.Version)
			}
		}
	}
	return out.String() + "\n"
}

// insert puts texts into a page, each between its markers.
func insert(file string, texts map[string]string) error {
	page, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	s := string(page)
	for name, text := range texts {
		if s, err = between(s, name, text); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	return os.WriteFile(file, []byte(s), 0o644)
}

// between replaces what stands between <!-- name --> and <!-- /name -->.
func between(page, name, text string) (string, error) {
	before, rest, ok := strings.Cut(page, "<!-- "+name+" -->\n")
	_, after, ok2 := strings.Cut(rest, "<!-- /"+name+" -->")
	if !ok || !ok2 {
		return "", fmt.Errorf("no place for %s", name)
	}
	return before + "<!-- " + name + " -->\n\n" + strings.TrimSpace(text) + "\n\n<!-- /" + name + " -->" + after, nil
}
