package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/testutil"
	"github.com/kafka-marshal/marshal/testutil/replay"
	"github.com/kafka-marshal/marshal/testutil/workers"
)

const (
	demoPartitions = 12
	demoTTL        = 2 * time.Second
	demoEvery      = 4 * time.Millisecond // a message to each partition
)

// demo runs worker processes against a steady load and disturbs them; then the judge looks at what they wrote down.
func demo(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fs := newFlags("demo", "Worker processes share the partitions of a topic under load, while some join, end, crash, freeze and restart; then a judge looks at\nwhat each of them wrote down.", stdout)
	brokers := fs.String("brokers", os.Getenv("MARSHAL_BROKERS"), "bootstrap addresses, with commas; empty: an embedded broker")
	plant := fs.String("plant", os.Getenv("PLANT"), "spoil the evidence before it is judged: overlap, loss, regression, stale or released")
	keep := fs.String("dir", "", "keep the hand-out logs there; empty: a folder that is removed")
	if err := parse(fs, args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	if *brokers != "" {
		if err := checkAddresses(strings.Split(*brokers, ",")); err != nil {
			return err
		}
	}
	s, err := openStage(ctx, *brokers, *keep, stdout)
	if err != nil {
		return err
	}
	defer s.close()
	if err := s.play(ctx); err != nil {
		return err
	}
	return s.judge(ctx, *plant)
}

// stage is what the play needs: a broker, a topic under load, a watcher, and the workers.
type stage struct {
	began   time.Time
	out     io.Writer
	addrs   string
	group   string
	topic   string
	dir     string
	own     *testutil.Cluster // the embedded broker, if there is one
	temp    bool
	client  *kafka.Client
	watcher *marshal.Marshaler
	load    *workers.Load
	show    *show
	notes   *testutil.HandoutLog
	workers []*workers.Process
	judged  int
}

func openStage(ctx context.Context, brokers, dir string, out io.Writer) (_ *stage, err error) {
	run := fmt.Sprintf("%x", time.Now().UnixMilli())
	s := &stage{began: time.Now(), addrs: brokers, group: "demo-" + run, topic: "demo-" + run, dir: dir, out: out}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if brokers == "" {
		if s.own, err = testutil.Start(); err != nil {
			return nil, err
		}
		s.addrs = strings.Join(s.own.Addrs(), ",")
	}
	if dir == "" {
		if s.dir, err = os.MkdirTemp("", "marshal-demo-"); err != nil {
			return nil, err
		}
		s.temp = true
	} else if err = os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	if s.notes, err = testutil.OpenHandoutLog(s.dir, "stage", "stage"); err != nil {
		return nil, err
	}
	if s.client, err = kafka.Dial(ctx, "demo", strings.Split(s.addrs, ","), nil); err != nil {
		return nil, err
	}
	spec := kafka.TopicSpec{Name: s.topic, Partitions: demoPartitions, Retention: time.Hour, MayCreate: true}
	if _, _, err = s.client.EnsureTopic(ctx, spec, func(kafka.Topic) error { return nil }); err != nil {
		return nil, err
	}
	log := logrus.New()
	log.SetLevel(logrus.ErrorLevel)
	if s.watcher, err = marshal.NewMarshaler("watcher", s.group, strings.Split(s.addrs, ","), marshal.WithLease(demoTTL, 0), marshal.WithLogger(log)); err != nil {
		return nil, err
	}
	where := "an embedded broker"
	if s.own == nil {
		where = s.addrs
	}
	fmt.Fprintf(s.out, "demo: group %s on %s, %d partitions, a message to each every %v, ttl %v\n\n", s.group, where, demoPartitions, demoEvery, demoTTL)
	s.load = workers.StartLoad(ctx, s.client, s.topic, 0, demoPartitions, demoEvery)
	s.show = startShow(s)
	return s, nil
}

func (s *stage) close() {
	for _, w := range s.workers {
		w.Kill()
	}
	if s.show != nil {
		s.show.stop()
	}
	if s.load != nil {
		_, _ = s.load.Stop() // where it matters it was stopped before
	}
	if s.watcher != nil {
		s.watcher.Terminate()
	}
	if s.client != nil {
		_ = s.client.Close()
	}
	if s.notes != nil {
		_ = s.notes.Close()
	}
	if s.own != nil {
		s.own.Close()
	}
	if s.temp {
		_ = os.RemoveAll(s.dir)
	}
}

// play is what happens, act by act.
func (s *stage) play(ctx context.Context) error {
	acts := []func(context.Context) error{s.start, s.join, s.end, s.crash, s.freeze, s.restart, s.finish}
	for _, act := range acts {
		if err := act(ctx); err != nil {
			return err
		}
		if err := s.failures(); err != nil {
			return err
		}
	}
	return nil
}

func (s *stage) say(format string, args ...any) { s.show.say(fmt.Sprintf(format, args...)) }

func (s *stage) start(ctx context.Context) error {
	s.say("four workers start")
	for _, name := range []string{"w1", "w2", "w3", "w4"} {
		if err := s.launch(name, name); err != nil {
			return err
		}
	}
	if err := s.balanced(ctx, 4); err != nil {
		return err
	}
	return s.rest(ctx, 2*time.Second)
}

func (s *stage) join(ctx context.Context) error {
	s.say("a fifth worker joins")
	begin := time.Now()
	if err := s.launch("w5", "w5"); err != nil {
		return err
	}
	if err := s.balanced(ctx, 5); err != nil {
		return err
	}
	s.say("it has its share %v after its process was started", time.Since(begin).Round(time.Millisecond))
	return s.rest(ctx, 2*time.Second)
}

func (s *stage) end(ctx context.Context) error {
	s.say("w1 gets SIGTERM: it drains and hands over")
	w := s.worker("w1")
	if err := w.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	if err := w.Wait(ctx); err != nil {
		return err
	}
	if err := s.balanced(ctx, 4); err != nil {
		return err
	}
	return s.rest(ctx, 2*time.Second)
}

func (s *stage) crash(ctx context.Context) error {
	s.say("w2 gets kill -9: the others wait for the end of its lease")
	s.notes.NoteOf("w2", testutil.Killed)
	s.worker("w2").Kill()
	if err := s.balanced(ctx, 3); err != nil {
		return err
	}
	return s.rest(ctx, 2*time.Second)
}

func (s *stage) freeze(ctx context.Context) error {
	s.say("w3 is frozen (SIGSTOP) for longer than its lease")
	w := s.worker("w3")
	s.notes.NoteOf("w3", testutil.Frozen)
	if err := w.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := s.balanced(ctx, 2); err != nil {
		return err
	}
	if err := s.rest(ctx, time.Second); err != nil {
		return err
	}
	s.say("w3 wakes up, finds its lease gone, and joins again")
	s.notes.NoteOf("w3", testutil.Woken)
	if err := w.Signal(syscall.SIGCONT); err != nil {
		return err
	}
	if err := s.balanced(ctx, 3); err != nil {
		return err
	}
	return s.rest(ctx, 2*time.Second)
}

func (s *stage) restart(ctx context.Context) error {
	s.say("w4 gets kill -9 and restarts at once under its client id (FastReclaim)")
	s.notes.NoteOf("w4", testutil.Killed)
	before := look(s.watcher.State()).runs["w4"]
	s.worker("w4").Kill()
	begin := time.Now()
	if err := s.launch("w4b", "w4"); err != nil {
		return err
	}
	if err := s.until(ctx, "w4's keys are with its new run", func(v view) bool {
		return v.runs["w4"] != before && v.members == 3 && v.free == 0 && v.even()
	}); err != nil {
		return err
	}
	s.say("its keys are with its new run %v after the crash", time.Since(begin).Round(time.Millisecond))
	return s.rest(ctx, 2*time.Second)
}

func (s *stage) finish(ctx context.Context) error {
	s.say("the load ends; the workers finish what is left and end")
	produced, err := s.load.Stop()
	if err != nil {
		return err
	}
	s.show.produced = produced
	if err := s.until(ctx, "nothing is left to read", s.caughtUp(produced)); err != nil {
		return err
	}
	for _, w := range s.workers {
		if w.Alive() {
			if err := w.Signal(syscall.SIGTERM); err != nil {
				return err
			}
		}
	}
	var errs []error
	for _, w := range s.workers {
		errs = append(errs, w.Wait(ctx))
	}
	return errors.Join(errs...)
}

// rest lets the load run for a while.
func (s *stage) rest(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		s.summary()
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// summary says which moves the last act brought.
func (s *stage) summary() {
	logs, err := testutil.ReadHandoutLogs(s.dir)
	if err != nil {
		s.say("reading the hand-out logs: %v", err)
		return
	}
	v := testutil.Judge(testutil.Evidence{Logs: logs})
	fresh := v.Handovers[min(s.judged, len(v.Handovers)):]
	if len(v.Handovers) > s.judged {
		took := &testutil.Verdict{Handovers: fresh}
		p50, most := took.HandoverTimes()
		s.say("%d planned hand-overs: p50 %.1f ms, longest %.1f ms", len(fresh), float64(p50)/1e6, float64(most)/1e6)
	}
	s.judged = len(v.Handovers)
}

// judge gives the verdict in one line: of the judge and of porcupine on what the workers wrote down, and of the rules of marshal verify
// on the log.
func (s *stage) judge(ctx context.Context, plant string) error {
	s.show.stop()
	logs, err := testutil.ReadHandoutLogs(s.dir)
	if err != nil {
		return err
	}
	e := testutil.Evidence{Logs: logs, Produced: s.show.produced, CommitWithin: demoTTL, FastReclaim: true}
	if plant != "" {
		if err := testutil.Plant(&e, plant); err != nil {
			return err
		}
		fmt.Fprintf(s.out, "planted: %s\n", plant)
	}
	v := testutil.Judge(e)
	fmt.Fprintln(s.out)
	for _, f := range v.Failovers {
		what := "another worker"
		if f.Restart {
			what = "its next run"
		}
		fmt.Fprintf(s.out, "  failover %v: %s -> %s (%s) %.0f ms after the crash\n", f.Place, f.From, f.To, what, float64(f.Took)/1e6)
	}
	for _, d := range v.Repeats {
		fmt.Fprintf(s.out, "  duplicates %v: offsets %v of %s again at %s: %s\n", d.Place, d.Offsets, d.From, d.To, d.Cause)
	}
	l := testutil.Linearize(e)
	log, err := s.verify(ctx)
	if err != nil {
		return err
	}
	for _, f := range slices.Concat(v.Findings, l.Findings) {
		fmt.Fprintln(s.out, "  FAULT", f)
	}
	for _, f := range log.Findings {
		fmt.Fprintln(s.out, "  FAULT", f)
	}
	fmt.Fprintf(s.out, "  %d records of the log replayed by its rules, %d operations on partitions put in order by porcupine\n", log.Replayed, l.Operations)
	fmt.Fprintf(s.out, "demo: %s %s findings=%d\n", v.Line(), l.Line(), len(log.Findings))
	return errors.Join(v.Err(), l.Err(), log.Err())
}

// verify replays the log that the group has left.
func (s *stage) verify(ctx context.Context) (replay.Result, error) {
	s.watcher.Terminate()
	log := logrus.New()
	log.SetLevel(logrus.ErrorLevel)
	c, err := marshal.DialContext(ctx, "verify", strings.Split(s.addrs, ","), marshal.WithoutTopicCreation(), marshal.WithLogger(log))
	if err != nil {
		return replay.Result{}, err
	}
	defer c.Terminate()
	return replay.Log(ctx, c, s.group)
}
