//go:build integration && soak

package integration

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/testutil"
	"github.com/kafka-marshal/marshal/testutil/workers"
)

// TestSoak runs eight workers on 64 partitions for a long time, with a fault every 20 s, and looks whether anything grows: what the
// four of them need that are never replaced, and what the group writes. MARSHAL_SOAK_SECONDS is for how long.
func TestSoak(t *testing.T) {
	on(t, threeBrokers)
	s := &soak{fleet: newFleet(open(t), 1)}
	const partitions = 64
	topic := s.topic("soak", partitions, nil)
	for i := range 8 {
		client := fmt.Sprint("w", i)
		reads := []workers.Reading{workers.Fetch, workers.Channel, workers.Messages, workers.Batches}[i%4]
		w := &slot{client: client, topics: []string{topic}, change: func(w *workers.Worker) { w.Read = reads }}
		s.slots = append(s.slots, w)
		s.man(w)
	}
	s.flow(topic, 0, partitions)
	s.wait("everything to flow", func() bool { return s.readSince(0) })
	begun, duration := time.Now(), s.seconds("MARSHAL_SOAK_SECONDS", 1800)
	warm := min(5*time.Minute, duration/3) // what grows at first has its size then
	each := time.NewTicker(20 * time.Second)
	defer each.Stop()
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	for time.Since(begun) < duration {
		select {
		case <-each.C:
			s.one(topic)
		case <-minute.C:
			s.measure(time.Since(begun), warm)
		}
	}
	s.rest(15 * time.Second)
	s.flat()
	s.ebb(topic)
	s.finish()
	logs, err := testutil.ReadHandoutLogs(s.dir)
	require.NoError(t, err)
	v := testutil.Judge(testutil.Evidence{Logs: logs, Produced: s.produced, CommitWithin: 30 * time.Second})
	s.report()
	assert.NoError(t, v.Err())
	strange := s.strange()
	for _, line := range strange {
		t.Errorf("an error line without a fault: %s", line)
	}
	fmt.Printf("soak: %v lost=%d overlaps=%d regressions=%d duplicates=%d delivered=%d faults=%d strange error lines=%d\n",
		duration, v.Lost, v.Overlaps, v.Regressions, v.Duplicates, v.Delivered, len(s.faults), len(strange))
}

type soak struct {
	*fleet
	faults  []span
	samples []sample
}

// span is when something was disturbed.
type span struct{ from, to time.Time }

// sample is what the lasting processes need together, and the size of the group's log.
type sample struct {
	at     time.Duration
	vitals workers.Vitals
	log    int64
}

// lasting are the slots whose processes are never replaced.
func (s *soak) lasting() []*slot { return s.slots[:4] }

func (s *soak) one(topic string) {
	replaced := s.slots[4+s.rng.IntN(4)]
	anyone := s.anyone()
	faults := []struct {
		name string
		do   func()
	}{
		{"a worker is killed", func() { s.kill(replaced.p); s.man(replaced) }},
		{"a worker ends by SIGTERM", func() { s.term(replaced.p); s.man(replaced) }},
		{"a worker is frozen", func() { s.freeze(anyone, anyone.stop, anyone.cont, s.between(time.Second, 5*time.Second)) }},
		{"a worker is frozen beyond its lease", func() { s.freeze(anyone, anyone.stop, anyone.cont, s.ttl+2*time.Second) }},
		{"a worker's network is cut", func() { s.freeze(anyone, anyone.p.Cut, anyone.p.Cut, s.between(time.Second, 5*time.Second)) }},
		{"a broker is restarted", func() { kafkaScript(s.t, "restart", fmt.Sprint(1+s.rng.IntN(3))) }},
		{"leaders are elected", func() {
			all := make([]int32, 64)
			for p := range all {
				all[p] = int32(p)
			}
			_, err := s.admin.ElectLeaders(sarama.PreferredElection, map[string][]int32{topic: all})
			s.t.Logf("electing leaders: %v", err)
		}},
	}
	f := faults[s.rng.IntN(len(faults))]
	from := time.Now()
	s.strike(f.name, f.do)
	s.faults = append(s.faults, span{from, time.Now()})
}

// measure takes a sample.
func (s *soak) measure(at, warm time.Duration) {
	sum := workers.Vitals{}
	all := s.vitals(30 * time.Second)
	for _, l := range s.lasting() {
		v := all[l.client]
		sum = workers.Vitals{Goroutines: sum.Goroutines + v.Goroutines, Files: sum.Files + v.Files, RSS: sum.RSS + v.RSS}
	}
	size := s.logSize()
	s.t.Logf("after %v: %d goroutines, %d files, RSS %d MiB, log %d KiB", at.Round(time.Second), sum.Goroutines, sum.Files, sum.RSS>>20, size>>10)
	if at >= warm {
		s.samples = append(s.samples, sample{at, sum, size})
	}
}

// logSize is how many bytes the group's part of the coordination topic has.
func (s *soak) logSize() int64 {
	s.t.Helper()
	var size int64
	s.wait("the size of the log", func() bool {
		size = 0
		brokers, _, err := s.admin.DescribeCluster()
		if err != nil {
			return false
		}
		for _, b := range brokers {
			dirs, err := s.admin.DescribeLogDirs([]int32{b.ID()})
			if err != nil {
				return false
			}
			for _, d := range dirs[b.ID()] {
				for _, topic := range d.Topics {
					for _, p := range topic.Partitions {
						if topic.Topic == marshal.MarshalTopic && p.PartitionID == s.shard() {
							size = max(size, p.Size)
						}
					}
				}
			}
		}
		return size > 0
	})
	return size
}

// flat compares the first samples with the last ones: a third of them each.
func (s *soak) flat() {
	third := len(s.samples) / 3
	require.Positive(s.t, third, "too few samples")
	first, last := s.samples[:third], s.samples[len(s.samples)-third:]
	most := func(of []sample, what func(sample) int64) int64 {
		return what(slices.MaxFunc(of, func(a, b sample) int { return cmp.Compare(what(a), what(b)) }))
	}
	n := int64(len(s.lasting()))
	for name, m := range map[string]struct {
		what func(sample) int64
		more int64 // of each process
	}{
		"goroutines": {func(s sample) int64 { return int64(s.vitals.Goroutines) }, 10},
		"files":      {func(s sample) int64 { return int64(s.vitals.Files) }, 6},
		"RSS":        {func(s sample) int64 { return s.vitals.RSS }, 8 << 20},
	} {
		a, b := most(first, m.what), most(last, m.what)
		figure(s.t, "%s of four processes: at most %d in the first third from minute 5 on, %d in the last", name, a, b)
		assert.LessOrEqual(s.t, b, a+n*m.more, name)
	}
	rate := func(of []sample) float64 {
		a, b := of[0], of[len(of)-1]
		return float64(b.log-a.log) / (b.at - a.at).Seconds()
	}
	if third > 1 {
		figure(s.t, "the group writes %.0f B/s in the first third, %.0f in the last", rate(first), rate(last))
		assert.LessOrEqual(s.t, rate(last), 1.5*rate(first), "what the group writes")
	}
}

var errorLine = regexp.MustCompile(`^time="?([0-9:.]+)"? level=(error|fatal|panic)`)

// strange lists the error lines of the workers that came while nothing was disturbed.
func (s *soak) strange() (lines []string) {
	const after = 5 * time.Second // what a fault leaves behind
	names, err := filepath.Glob(filepath.Join(s.dir, "*.log"))
	require.NoError(s.t, err)
	seen := map[string]bool{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		require.NoError(s.t, err)
		for line := range bytes.Lines(text) {
			m := errorLine.FindSubmatch(line)
			if m == nil {
				continue
			}
			clock, err := time.Parse("15:04:05.000", string(m[1]))
			require.NoError(s.t, err, "%s", line)
			excused := slices.ContainsFunc(s.faults, func(f span) bool {
				at := time.Date(f.from.Year(), f.from.Month(), f.from.Day(), clock.Hour(), clock.Minute(), clock.Second(), clock.Nanosecond(), f.from.Location())
				return !at.Before(f.from.Add(-time.Second)) && at.Before(f.to.Add(after))
			})
			if !excused {
				seen[filepath.Base(name)+": "+string(bytes.TrimSpace(line))] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(seen))
}
