package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
)

// content says what a topic holds and who reads it.
type content struct {
	Name    string
	Size    int    // bytes of a value
	Codec   string // none, lz4, zstd, snappy or gzip
	Records int    // in a batch; 0: as many as a batch of 1 MB holds before it is compressed
	N       int64  // messages
	Modes   []string
}

var (
	everyone = []string{"marshal-batches", "franz-group", "marshal-fetch", "sarama-group", "marshal-messages", "kafkago-reader", "marshal-channel", "franz-group-mark"}
	withBest = []string{"marshal-batches", "franz-group", "marshal-fetch", "sarama-group", "kafkago-reader"} // where the best peer counts
	few      = []string{"marshal-batches", "franz-group", "marshal-fetch", "sarama-group"}
)

// contents are what is measured: everyone on the plain case; on the others the modes that a bar needs, and enough beside them
// to see where each stands.
func contents() (cs []content) {
	add := func(size int, codec string, records int, n int64, modes []string) {
		name := map[int]string{100: "100b", 1024: "1k"}[size]
		if codec != "none" {
			name += "_" + codec
		}
		if records > 0 {
			name += "_small"
		}
		if *quick {
			n /= 2
		}
		if *embedded {
			n /= 2
		}
		c := content{Name: name, Size: size, Codec: codec, Records: records, N: n / partitions * partitions, Modes: modes}
		if c.wanted() {
			cs = append(cs, c)
		}
	}
	add(100, "none", 0, 4_000_000, everyone)
	for _, codec := range []string{"lz4", "zstd", "snappy", "gzip"} {
		if *quick {
			add(100, codec, 0, 2_000_000, few[:2])
			continue
		}
		add(100, codec, 0, 2_000_000, few)
	}
	if *quick {
		return cs
	}
	add(100, "none", 100, 2_000_000, few)
	add(100, "lz4", 100, 2_000_000, few)
	for _, codec := range []string{"none", "lz4", "zstd", "snappy"} {
		add(1024, codec, 0, 500_000, withBest)
	}
	add(1024, "gzip", 0, 200_000, withBest)
	add(1024, "none", 100, 500_000, few)
	return cs
}

// topic is what its topic is called: nobody meets the topics of a run that was cut off.
func (c content) topic() string { return fmt.Sprintf("bench-%d-%s", os.Getpid(), c.Name) }

func (c content) wanted() bool {
	return *topics == "" || slices.Contains(strings.Split(*topics, ","), c.Name)
}

func (c content) String() string {
	batches := "1 MB"
	if c.Records > 0 {
		batches = fmt.Sprintf("%d records", c.Records)
	}
	return fmt.Sprintf("%s: %d messages of %d B, codec %s, batches of %s", c.Name, c.N, c.Size, c.Codec, batches)
}
