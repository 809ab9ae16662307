//go:build integration && (chaos || soak)

package integration

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
	"github.com/kafka-marshal/marshal/testutil/workers"
)

// fleet is a stage with workers that are disturbed for a long time, and everything that the judge has to be told of it.
type fleet struct {
	*stage
	rng    *rand.Rand
	slots  []*slot
	loads  map[string][]*workers.Load // by topic
	placed map[string]int32           // partitions of each topic under load
	seen   *seen
	kinds  map[string][]time.Duration // how long it took from each kind of fault until every partition was read again
	down   string                     // what is disturbed at present
}

// slot is a place in the fleet: one process after another.
type slot struct {
	client string
	topics []string
	change func(*workers.Worker)
	runs   int
	p      *workers.Process
}

// seconds reads a duration from the environment.
func (s *stage) seconds(name string, otherwise int) time.Duration {
	n, err := strconv.Atoi(cmp.Or(os.Getenv(name), strconv.Itoa(otherwise)))
	require.NoError(s.t, err)
	return time.Duration(n) * time.Second
}

func newFleet(s *stage, seed uint64) *fleet {
	return &fleet{
		stage: s, rng: rand.New(rand.NewPCG(seed, seed)), loads: map[string][]*workers.Load{}, placed: map[string]int32{},
		seen: &seen{dir: s.dir, read: map[string]int64{}, last: map[testutil.Place]int64{}}, kinds: map[string][]time.Duration{},
	}
}

// pace is the time between two messages of a partition.
const pace = 50 * time.Millisecond

// flow writes to the partitions of a topic from now on.
func (f *fleet) flow(topic string, from, to int32) {
	f.loads[topic] = append(f.loads[topic], workers.StartLoad(f.t.Context(), f.client, topic, from, to, pace))
	f.placed[topic] = to
}

// ebb ends that, and has it in the books.
func (f *fleet) ebb(topic string) {
	f.t.Helper()
	for _, l := range f.loads[topic] {
		require.NoError(f.t, f.book(l))
	}
	delete(f.loads, topic)
	delete(f.placed, topic)
}

// man starts the next process of a slot.
func (f *fleet) man(s *slot) {
	f.t.Helper()
	name := fmt.Sprintf("%s-%d", s.client, s.runs)
	s.runs++
	s.p = f.start(f.worker(name, s.topics, as(s.client), func(w *workers.Worker) { w.Cuttable, w.Watched = true, true }, s.change))
}

func (f *fleet) anyone() *slot { return f.slots[f.rng.IntN(len(f.slots))] }

// between gives a duration.
func (f *fleet) between(least, most time.Duration) time.Duration {
	return least + time.Duration(f.rng.Int64N(int64(most-least)))
}

// freeze stops a process for a while, or cuts its network.
func (f *fleet) freeze(s *slot, how, back func() error, d time.Duration) {
	f.t.Helper()
	f.notes.NoteOf(s.p.Process, testutil.Frozen)
	require.NoError(f.t, how())
	f.rest(d)
	require.NoError(f.t, back())
	f.notes.NoteOf(s.p.Process, testutil.Woken)
}

func (s *slot) stop() error { return s.p.Signal(syscall.SIGSTOP) }
func (s *slot) cont() error { return s.p.Signal(syscall.SIGCONT) }

// strike does one fault, and waits until every partition under load is read again.
func (f *fleet) strike(name string, do func()) {
	f.t.Helper()
	f.down = name
	do()
	healed := testutil.Now()
	f.poll(50*time.Millisecond, "every partition to be read after: "+name, func() bool { return f.readSince(healed) })
	took := time.Duration(testutil.Now() - healed)
	f.kinds[name] = append(f.kinds[name], took)
	f.t.Logf("%s: read again after %v", name, took.Round(10*time.Millisecond))
	f.down = ""
}

// readSince tells whether each partition under load has had a message since.
func (f *fleet) readSince(at int64) bool {
	f.t.Helper()
	require.NoError(f.t, f.seen.look())
	for topic, n := range f.placed {
		for p := range n {
			if f.seen.last[testutil.Place{Topic: topic, Partition: p}] < at {
				return false
			}
		}
	}
	return true
}

// report prints the recovery times.
func (f *fleet) report() {
	for _, name := range slices.Sorted(maps.Keys(f.kinds)) {
		figure(f.t, "%s: every partition read again: %s", name, spread(f.kinds[name]))
	}
}

// vitals gives what the processes that run needed in the last seconds, the most of each, by slot.
func (f *fleet) vitals(last time.Duration) map[string]workers.Vitals {
	f.t.Helper()
	all := map[string]workers.Vitals{}
	for _, s := range f.slots {
		vs, err := workers.ReadVitals(f.dir, s.p.Process)
		require.NoError(f.t, err)
		var most workers.Vitals
		for _, v := range vs {
			if v.At > testutil.Now()-last.Nanoseconds() {
				most = workers.Vitals{Goroutines: max(most.Goroutines, v.Goroutines), Files: max(most.Files, v.Files), RSS: max(most.RSS, v.RSS)}
			}
		}
		require.NotZero(f.t, most.RSS, "the vitals of %s", s.p.Process)
		all[s.client] = most
	}
	return all
}

// seen follows the hand-out logs of a folder as they grow.
type seen struct {
	dir  string
	read map[string]int64 // bytes of each
	last map[testutil.Place]int64
}

func (s *seen) look() error {
	names, err := filepath.Glob(filepath.Join(s.dir, "*.handouts"))
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := s.follow(name); err != nil {
			return err
		}
	}
	return nil
}

func (s *seen) follow(name string) error {
	file, err := os.Open(name)
	if err != nil {
		return err
	}
	defer file.Close()
	if _, err := file.Seek(s.read[name], io.SeekStart); err != nil {
		return err
	}
	in := bufio.NewReader(file)
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil // the rest later
		}
		s.read[name] += int64(len(line))
		fields := bytes.Fields(line) // h <before> <after> <topic> <partition> ...
		if len(fields) < 5 || string(fields[0]) != "h" {
			continue
		}
		after, err := strconv.ParseInt(string(fields[2]), 10, 64)
		if err != nil {
			return err
		}
		partition, err := strconv.ParseInt(string(fields[4]), 10, 32)
		if err != nil {
			return err
		}
		place := testutil.Place{Topic: string(fields[3]), Partition: int32(partition)}
		s.last[place] = max(s.last[place], after)
	}
}
