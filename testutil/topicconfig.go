package testutil

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// topicConfigs says which settings a topic has in Apache Kafka 4, and which values each takes.
var topicConfigs = map[string]func(string) bool{
	"cleanup.policy":                          list("compact", "delete"),
	"compression.type":                        list("producer", "uncompressed", "none", "gzip", "snappy", "lz4", "zstd"),
	"compression.gzip.level":                  between(-1, 9),
	"compression.lz4.level":                   between(1, 17),
	"compression.zstd.level":                  between(-131072, 22),
	"delete.retention.ms":                     between(0, math.MaxInt64),
	"file.delete.delay.ms":                    between(0, math.MaxInt64),
	"flush.messages":                          between(1, math.MaxInt64),
	"flush.ms":                                between(0, math.MaxInt64),
	"follower.replication.throttled.replicas": anything,
	"index.interval.bytes":                    between(0, math.MaxInt32),
	"leader.replication.throttled.replicas":   anything,
	"local.retention.bytes":                   between(-2, math.MaxInt64),
	"local.retention.ms":                      between(-2, math.MaxInt64),
	"max.compaction.lag.ms":                   between(1, math.MaxInt64),
	"max.message.bytes":                       between(0, math.MaxInt32),
	"message.timestamp.after.max.ms":          between(0, math.MaxInt64),
	"message.timestamp.before.max.ms":         between(0, math.MaxInt64),
	"message.timestamp.type":                  list("CreateTime", "LogAppendTime"),
	"min.cleanable.dirty.ratio":               ratio,
	"min.compaction.lag.ms":                   between(0, math.MaxInt64),
	"min.insync.replicas":                     between(1, math.MaxInt32),
	"preallocate":                             list("true", "false"),
	"remote.log.copy.disable":                 list("true", "false"),
	"remote.log.delete.on.disable":            list("true", "false"),
	"remote.storage.enable":                   list("true", "false"),
	"retention.bytes":                         between(math.MinInt64, math.MaxInt64),
	"retention.ms":                            between(-1, math.MaxInt64),
	"segment.bytes":                           between(1<<20, math.MaxInt32),
	"segment.index.bytes":                     between(4, math.MaxInt32),
	"segment.jitter.ms":                       between(0, math.MaxInt64),
	"segment.ms":                              between(1, math.MaxInt64),
	"unclean.leader.election.enable":          list("true", "false"),
}

// checkConfig says what a broker has against a setting of a topic.
func checkConfig(name, value string) error {
	ok, known := topicConfigs[name]
	if !known {
		return fmt.Errorf("unknown topic config name: %s", name)
	}
	if !ok(value) {
		return fmt.Errorf("invalid value %q for configuration %s", value, name)
	}
	return nil
}

func anything(string) bool { return true }

// list takes some of the words, separated by commas.
func list(words ...string) func(string) bool {
	return func(v string) bool {
		for w := range strings.SplitSeq(v, ",") {
			if !slices.Contains(words, strings.TrimSpace(w)) {
				return false
			}
		}
		return true
	}
}

func between(low, high int64) func(string) bool {
	return func(v string) bool {
		n, err := strconv.ParseInt(strings.TrimSpace(v), 10, 64)
		return err == nil && n >= low && n <= high
	}
}

func ratio(v string) bool {
	f, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
	return err == nil && f >= 0 && f <= 1
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
