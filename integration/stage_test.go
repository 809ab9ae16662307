//go:build integration

package integration

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/testutil"
	"github.com/kafka-marshal/marshal/testutil/workers"
)

// patience is how long anything may take that is waited for, on a machine that is busy.
const patience = time.Minute

// stage is what one flow needs for itself: a group, topics, processes and what they write down.
type stage struct {
	t            *testing.T
	addrs        []string
	own          *testutil.Cluster // the embedded broker; nil: a real Kafka
	run          string            // in all names
	group        string
	coordination string
	ttl          time.Duration
	dir          string
	client       *kafka.Client
	admin        sarama.ClusterAdmin
	watcher      *marshal.Marshaler
	notes        *testutil.HandoutLog
	files        []*os.File

	fastReclaim, recreated bool // what Evidence wants to know

	mu        sync.Mutex
	processes []*workers.Process
	members   []*workers.Member
	loads     []*workers.Load
	produced  map[testutil.Place][]testutil.Span
	appends   []time.Duration // how long each of fill took
}

// setting changes a stage before it is opened.
type setting func(*stage)

// ttl says how long the leases of the stage are; the usual ones without.
func ttl(d time.Duration) setting { return func(s *stage) { s.ttl = d } }

// apartLog gives the stage a coordination topic of its own, which it may cut and spoil.
func apartLog(s *stage) { s.coordination = "marshal-" + s.run }

func open(t *testing.T, settings ...setting) *stage {
	t.Helper()
	s := &stage{t: t, addrs: real(), run: strings.ToLower(rand.Text()[:8]), dir: t.TempDir(), ttl: marshal.LeaseTTL, produced: map[testutil.Place][]testutil.Span{}}
	s.group = strings.ReplaceAll(strings.TrimPrefix(t.Name(), "Test"), "/", "-") + "-" + s.run
	for _, set := range settings {
		set(s)
	}
	if s.addrs == nil {
		s.own = testutil.NewCluster(t)
		s.addrs = s.own.Addrs()
	}
	t.Cleanup(s.close)
	var err error
	s.notes, err = testutil.OpenHandoutLog(s.dir, "stage", "stage")
	require.NoError(t, err)
	s.client, err = kafka.Dial(s.within(patience), "stage", s.addrs, nil)
	require.NoError(t, err)
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V3_6_0_0
	cfg.Admin.Retry.Max = 50
	s.admin, err = sarama.NewClusterAdmin(s.addrs, cfg)
	require.NoError(t, err)
	s.watcher = s.marshaler("watcher")
	return s
}

// marshaler joins the group in this process, without a consumer.
func (s *stage) marshaler(client string) *marshal.Marshaler {
	s.t.Helper()
	log := logrus.New()
	f, err := os.OpenFile(workers.LogFile(s.dir, client), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	require.NoError(s.t, err)
	s.files = append(s.files, f)
	log.Out = f
	options := []marshal.Option{marshal.WithLease(s.ttl, 0), marshal.WithLogger(log)}
	if s.coordination != "" {
		options = append(options, marshal.WithTopic(s.coordination))
	}
	m, err := marshal.NewMarshaler(client, s.group, s.addrs, options...)
	require.NoError(s.t, err)
	return m
}

func (s *stage) within(d time.Duration) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	s.t.Cleanup(cancel)
	return ctx
}

// close ends everything that is left of the stage. Only here, and for every flow, its log and its histories are judged by the
// rules that hold whatever a flow is about.
func (s *stage) close() {
	failed := s.t.Failed()
	if failed {
		s.logs()
	}
	for _, l := range s.loads {
		_, _ = l.Stop() // where it matters it was stopped before
	}
	for _, p := range s.processes {
		_ = p.Signal(syscall.SIGCONT) // it may have ended
		p.Kill()
	}
	for _, m := range s.members {
		_ = m.End()
	}
	if s.watcher != nil {
		s.watcher.Terminate()
		s.verify()
		s.linearize()
	}
	if s.t.Failed() && !failed {
		s.logs()
	}
	for _, f := range s.files {
		_ = f.Close()
	}
	if s.admin != nil {
		_ = s.admin.Close()
	}
	if s.client != nil {
		_ = s.client.Close()
	}
	if s.notes != nil {
		_ = s.notes.Close()
	}
}

// logs shows the ends of what the processes logged.
func (s *stage) logs() {
	names, _ := filepath.Glob(filepath.Join(s.dir, "*.log"))
	for _, name := range names {
		text, _ := os.ReadFile(name)
		lines := bytes.Split(bytes.TrimSpace(text), []byte("\n"))
		s.t.Logf("%s:\n%s", filepath.Base(name), bytes.Join(lines[max(0, len(lines)-30):], []byte("\n")))
	}
	if s.watcher != nil {
		s.t.Log(s.watcher.State().String())
	}
}

// topic makes a topic with a name of its own.
func (s *stage) topic(name string, partitions int32, configs map[string]string) string {
	s.t.Helper()
	name += "-" + s.run
	s.create(name, partitions, configs)
	return name
}

func (s *stage) create(name string, partitions int32, configs map[string]string) {
	s.t.Helper()
	detail := &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1, ConfigEntries: map[string]*string{}}
	if len(real()) == 3 {
		detail.ReplicationFactor = 3
	}
	for k, v := range configs {
		detail.ConfigEntries[k] = &v
	}
	s.wait("the topic "+name, func() bool { // after a deletion it may be there for a while
		err := s.admin.CreateTopic(name, detail, false)
		return err == nil || s.partitions(name) == int(partitions)
	})
	s.wait("leaders of "+name, func() bool { return s.partitions(name) == int(partitions) })
}

// partitions counts those of a topic that have a leader.
func (s *stage) partitions(name string) int {
	topics, err := s.client.Topics(s.within(patience), name)
	if err != nil || topics[name].Err != nil {
		return 0
	}
	n := 0
	for _, p := range topics[name].Partitions {
		if p.Leader >= 0 {
			n++
		}
	}
	return n
}

// fill appends n messages to each of the first partitions of a topic.
func (s *stage) fill(topic string, partitions int32, n int) {
	s.t.Helper()
	s.fillBy(topic, partitions, n, 1000)
}

// fillBy does so in batches. An append whose answer was lost may have been written: where the next one lands tells, because nobody
// else writes.
func (s *stage) fillBy(topic string, partitions int32, n, batch int) {
	s.t.Helper()
	var filling sync.WaitGroup
	for p := range partitions {
		filling.Go(func() {
			producer := s.client.NewProducer(topic, p)
			defer producer.Close()
			place := testutil.Place{Topic: topic, Partition: p}
			for left := n; left > 0; {
				ms := make([]kafka.Message, min(left, batch))
				for i := range ms {
					ms[i].Value = []byte("message")
				}
				begun := time.Now()
				first, err := producer.Append(s.within(patience), ms)
				if err == nil {
					s.took(time.Since(begun))
				}
				for tries := 0; err != nil && tries < 100; tries++ { // its leader may not be ready
					s.rest(50 * time.Millisecond)
					first, err = producer.Append(s.within(patience), ms)
				}
				if !assert.NoError(s.t, err, "an append to %s/%d", topic, p) {
					return
				}
				s.wrote(place, s.end(place), first+int64(len(ms)))
				left -= len(ms)
			}
		})
	}
	filling.Wait()
}

// wrote puts offsets into the books.
func (s *stage) wrote(p testutil.Place, from, to int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.produced[p] = append(s.produced[p], testutil.Span{From: from, To: to})
}

// end is the end of what the books have of a partition.
func (s *stage) end(p testutil.Place) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := len(s.produced[p]); n > 0 {
		return s.produced[p][n-1].To
	}
	return 0
}

// took notes how long an append took.
func (s *stage) took(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.appends = append(s.appends, d)
}

// load writes to all partitions of a topic until finish.
func (s *stage) load(topic string, partitions int32, every time.Duration) {
	s.loads = append(s.loads, workers.StartLoad(context.Background(), s.client, topic, 0, partitions, every))
}

// worker is a worker of this stage.
func (s *stage) worker(process string, topics []string, change ...func(*workers.Worker)) workers.Worker {
	w := workers.Worker{
		Brokers: s.addrs, Process: process, Client: process, Group: s.group, Topics: topics, Dir: s.dir, Coordination: s.coordination, TTL: s.ttl,
	}
	w.Options.DrainTimeout, w.Options.WatchInterval = 2*time.Second, time.Second
	for _, c := range change {
		c(&w)
	}
	s.fastReclaim = s.fastReclaim || w.Options.FastReclaim
	return w
}

// as names the client id of a worker, where it is not that of the run.
func as(client string) func(*workers.Worker) { return func(w *workers.Worker) { w.Client = client } }

// start starts a worker process.
func (s *stage) start(w workers.Worker) *workers.Process {
	s.t.Helper()
	p, err := workers.Start(w)
	require.NoError(s.t, err)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.processes = append(s.processes, p)
	return p
}

// join is a worker in this process.
func (s *stage) join(w workers.Worker) *workers.Member {
	s.t.Helper()
	m, err := workers.Open(w)
	require.NoError(s.t, err)
	m.Go()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = append(s.members, m)
	return m
}

// leave ends a member.
func (s *stage) leave(m *workers.Member) {
	s.t.Helper()
	require.NoError(s.t, m.End())
	s.mu.Lock()
	defer s.mu.Unlock()
	s.members = slices.DeleteFunc(s.members, func(o *workers.Member) bool { return o == m })
}

// kill is kill -9, with a note for the judge.
func (s *stage) kill(p *workers.Process) {
	s.notes.NoteOf(p.Process, testutil.Killed)
	p.Kill()
}

// term ends a process by SIGTERM and waits for it.
func (s *stage) term(p *workers.Process) {
	s.t.Helper()
	require.NoError(s.t, p.Signal(syscall.SIGTERM))
	require.NoError(s.t, p.Wait(s.within(patience)))
}

// view is a state in brief.
type view struct {
	members int                       // with keys or without, but for the watcher
	parked  int                       // whose keys are kept
	holds   map[string]int            // keys by client
	owner   map[testutil.Place]string // client; empty: nobody
	run     map[testutil.Place]string // instance

	next  map[testutil.Place]int64   // offset
	parts map[testutil.Place][]int64 // the same of a whole topic
}

func (s *stage) look() view {
	v := view{
		holds: map[string]int{}, owner: map[testutil.Place]string{}, run: map[testutil.Place]string{},
		next: map[testutil.Place]int64{}, parts: map[testutil.Place][]int64{},
	}
	state := s.watcher.State()
	for _, i := range state.Instances {
		switch {
		case i.Client == "watcher":
		case i.Parked:
			v.parked++
		default:
			v.members++
			v.holds[i.Client] += 0
		}
	}
	for _, k := range state.Keys {
		p := testutil.Place{Topic: k.Topic, Partition: k.Partition}
		v.owner[p], v.run[p], v.next[p], v.parts[p] = "", k.Instance, k.Next, k.Parts
		if k.Instance != "" {
			v.owner[p] = k.Client
			v.holds[k.Client]++
		}
	}
	return v
}

// free counts the keys that nobody holds.
func (v view) free() int {
	n := 0
	for _, client := range v.owner {
		if client == "" {
			n++
		}
	}
	return n
}

// even tells whether so many members share so many keys evenly.
func (v view) even(members, keys int) bool {
	if v.members != members || len(v.holds) != members || len(v.owner) != keys || v.free() > 0 {
		return false
	}
	counts := slices.Collect(maps.Values(v.holds))
	return slices.Max(counts)-slices.Min(counts) <= 1
}

// renewed tells whether everything that a client had is with another run of it.
func (v view) renewed(was view, client string) bool {
	for k, owner := range was.owner {
		if owner == client && (v.owner[k] != client || v.run[k] == was.run[k]) {
			return false
		}
	}
	return true
}

// wait waits for a condition.
func (s *stage) wait(what string, ok func() bool) {
	s.t.Helper()
	s.poll(20*time.Millisecond, what, ok)
}

func (s *stage) poll(every time.Duration, what string, ok func() bool) {
	s.t.Helper()
	limit, again := time.NewTimer(patience), time.NewTicker(every)
	defer limit.Stop()
	defer again.Stop()
	for !ok() {
		for _, p := range s.running() {
			require.NoError(s.t, p.Failed())
		}
		select {
		case <-again.C:
		case <-limit.C:
			require.FailNow(s.t, "waited in vain for "+what)
		}
	}
}

func (s *stage) running() []*workers.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.processes)
}

// until waits for something to be seen in the group's state.
func (s *stage) until(what string, ok func(view) bool) {
	s.t.Helper()
	s.poll(5*time.Millisecond, what, func() bool { return ok(s.look()) })
}

// balanced waits until so many members share so many keys evenly.
func (s *stage) balanced(members, keys int) {
	s.t.Helper()
	s.until("an even share", func(v view) bool { return v.even(members, keys) })
}

// rest lets everything run for a while.
func (s *stage) rest(d time.Duration) {
	<-time.After(d)
}

// finish ends the load, lets the workers read all of it, and ends them.
func (s *stage) finish() {
	s.t.Helper()
	for _, m := range s.members {
		m.Hurry()
	}
	for _, p := range s.processes {
		if p.Alive() {
			require.NoError(s.t, p.Hurry())
		}
	}
	s.settle()
	for _, m := range slices.Clone(s.members) {
		s.leave(m)
	}
	var alive []*workers.Process
	for _, p := range s.processes {
		if p.Alive() {
			require.NoError(s.t, p.Signal(syscall.SIGTERM))
			alive = append(alive, p)
		}
	}
	for _, p := range alive {
		require.NoError(s.t, p.Wait(s.within(patience)))
	}
}

// book ends a load, and has what it wrote in the books.
func (s *stage) book(l *workers.Load) error {
	produced, err := l.Stop()
	for p, spans := range produced {
		for _, span := range spans {
			s.wrote(p, span.From, span.To)
		}
	}
	return err
}

// settle ends the load and waits until everything is finished and known.
func (s *stage) settle() {
	s.t.Helper()
	var errs []error
	for _, l := range s.loads {
		errs = append(errs, s.book(l))
	}
	s.loads = nil
	require.NoError(s.t, errors.Join(errs...))
	s.until("nothing left to read", func(v view) bool {
		for p, spans := range s.produced {
			end := spans[len(spans)-1].To
			whole := v.parts[testutil.Place{Topic: p.Topic, Partition: -1}]
			if v.next[p] < end && (len(whole) <= int(p.Partition) || whole[p.Partition] < end) {
				return false
			}
		}
		return true
	})
}

// judge reads what the processes wrote down.
func (s *stage) judge() *testutil.Verdict {
	s.t.Helper()
	logs, err := testutil.ReadHandoutLogs(s.dir)
	require.NoError(s.t, err)
	v := testutil.Judge(testutil.Evidence{Logs: logs, Produced: s.produced, CommitWithin: 4 * time.Second})
	s.t.Logf("judge: %s", v.Line())
	require.NoError(s.t, v.Err())
	return v
}

// What the library logs where a member is evicted.
const (
	declaredDead = "declared dead by" // somebody else
	died         = "joining again as a new instance"
)

// said counts the lines of all logs of the stage, in this process and in the workers', that contain a text.
func (s *stage) said(text string) int {
	names, err := filepath.Glob(filepath.Join(s.dir, "*.log"))
	require.NoError(s.t, err)
	n := 0
	for _, name := range names {
		log, err := os.ReadFile(name)
		require.NoError(s.t, err)
		n += bytes.Count(log, []byte(text))
	}
	return n
}

// topics lists the topics that processes of the stage read.
func (s *stage) topics() []string { return s.running()[0].Topics }
