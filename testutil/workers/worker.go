package workers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/testutil"
)

// Worker says what a worker is: everything that a process of its own has to be told.
type Worker struct {
	Brokers      []string
	Process      string // the name of this run
	Client       string // the client id; the name of the run where it is empty
	Group        string
	Topics       []string
	Dir          string        // where its hand-out log goes, and what it logs, as <process>.log
	Coordination string        // another coordination topic than the usual one
	TTL          time.Duration // of its lease; 0: the usual one
	Read         Reading
	Keep         bool          // it ends by Terminate(false): its keys are kept for its next run
	Readers      int           // goroutines that fetch, where it reads by Fetch; 0: one
	Pace         time.Duration // what the work on a message takes
	Hang         time.Duration // for so long the work on a message takes now and then: each HangEach
	HangEach     time.Duration
	Cuttable     bool // its network can be cut: Process.Cut
	Watched      bool // it writes its vitals down
	Options      marshal.ConsumerOptions
}

// Reading is the way in which a worker reads.
type Reading string

// The ways to read.
const (
	Fetch    Reading = "fetch" // FetchMessage; the default
	Channel  Reading = "channel"
	Messages Reading = "messages"
	Batches  Reading = "batches"
)

// Member is a worker at work. Marshaler and Consumer are there for whoever runs it in his own process.
type Member struct {
	Worker
	Marshaler *marshal.Marshaler
	Consumer  *marshal.Consumer

	record    *testutil.HandoutLog
	log       *os.File
	hurry     atomic.Bool
	handed    atomic.Int64
	wg        sync.WaitGroup
	listening sync.WaitGroup
	err       error
	network   *network     // where it is Cuttable
	hung      atomic.Int64 // when it last did, as testutil.Now
}

// Open joins the group, and begins to claim; Run reads.
func Open(w Worker) (_ *Member, err error) {
	m := &Member{Worker: w}
	m.Client = cmp.Or(w.Client, w.Process)
	if m.record, err = testutil.OpenHandoutLog(w.Dir, w.Process, m.Client); err != nil {
		return nil, err
	}
	m.record.Note(testutil.Started)
	if m.log, err = os.OpenFile(LogFile(w.Dir, w.Process), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644); err != nil {
		return nil, errors.Join(err, m.record.Close())
	}
	log := logrus.New()
	log.Out = m.log
	log.SetFormatter(&logrus.TextFormatter{DisableColors: true, FullTimestamp: true, TimestampFormat: "15:04:05.000"})
	options := []marshal.Option{marshal.WithLease(w.TTL, 0), marshal.WithLogger(log)}
	if w.Coordination != "" {
		options = append(options, marshal.WithTopic(w.Coordination))
	}
	if w.Cuttable {
		m.network = newNetwork()
		cfg := sarama.NewConfig()
		cfg.Net.Proxy.Enable, cfg.Net.Proxy.Dialer = true, m.network
		options = append(options, marshal.WithSaramaConfig(cfg))
	}
	m.hung.Store(testutil.Now())
	if m.Marshaler, err = marshal.NewMarshaler(m.Client, w.Group, w.Brokers, options...); err != nil {
		return nil, errors.Join(err, m.close())
	}
	events := m.Marshaler.Events(context.Background())
	m.listening.Go(func() { m.listen(events) })
	if m.Read == Channel {
		m.record.Note(testutil.Offered)
	}
	if m.Consumer, err = m.Marshaler.NewConsumer(w.Topics, w.Options); err != nil {
		m.Marshaler.Terminate()
		return nil, errors.Join(err, m.close())
	}
	return m, nil
}

// listen notes what it is told of its claims, until the marshaler is over.
func (m *Member) listen(events iter.Seq[marshal.Event]) {
	for e := range events {
		since := testutil.Now() - time.Since(e.Time).Nanoseconds()
		switch e.Kind {
		case marshal.ClaimStarted:
			m.record.Held(since, e.Topic, e.Partition, e.Token)
		case marshal.ClaimReleased, marshal.ClaimLost:
			m.record.Over(since, e.Topic, e.Partition, e.Token)
		}
	}
}

// LogFile is where a worker writes its log lines.
func LogFile(dir, process string) string { return filepath.Join(dir, process+".log") }

func (m *Member) close() error {
	m.listening.Wait()
	return errors.Join(m.record.Close(), m.log.Close())
}

// Run reads until the consumer ends: when ctx does, or when somebody terminates it. Every message is noted and committed.
func (m *Member) Run(ctx context.Context) error {
	ended := make(chan struct{})
	stop := context.AfterFunc(ctx, func() { // SIGTERM
		defer close(ended)
		m.record.Note(testutil.Ending)
		if m.Keep {
			m.Consumer.Terminate(false)
		}
		m.Marshaler.Terminate()
		m.record.Note(testutil.Ended)
	})
	watching, unwatch := context.WithCancel(context.Background())
	if m.Watched {
		m.wg.Go(func() { m.watch(watching) })
	}
	err := m.read()
	unwatch()
	if !stop() {
		<-ended
	} else {
		m.Marshaler.Terminate()
	}
	return errors.Join(err, m.close())
}

// Go runs it beside the caller, until End.
func (m *Member) Go() { m.wg.Go(func() { m.err = m.Run(context.Background()) }) }

// End ends what Go began: by Terminate, or as Keep says.
func (m *Member) End() error {
	m.record.Note(testutil.Ending)
	if m.Keep {
		m.Consumer.Terminate(false)
	}
	m.Marshaler.Terminate()
	m.wg.Wait()
	return m.err
}

// fetch reads message by message.
func (m *Member) fetch() error {
	for {
		before := testutil.Now()
		msg, err := m.Consumer.FetchMessage(context.Background())
		if errors.Is(err, marshal.ErrTerminated) {
			return nil
		}
		if err := m.message(before, msg, err); err != nil {
			return err
		}
	}
}

// read notes and commits, message by message or batch by batch. before is when the call that gave it began.
func (m *Member) read() error {
	ctx := context.Background()
	before := testutil.Now()
	switch m.Read {
	case "", Fetch:
		errs := make([]error, max(m.Readers, 1))
		var readers sync.WaitGroup
		for i := range errs {
			readers.Go(func() { errs[i] = m.fetch() })
		}
		readers.Wait()
		return errors.Join(errs...)
	case Channel:
		for msg := range m.Consumer.ConsumeChannel() {
			if err := m.message(before, msg, nil); err != nil {
				return err
			}
			before = testutil.Now()
		}
	case Messages:
		for msg, err := range m.Consumer.Messages(ctx) {
			if err := m.message(before, msg, err); err != nil {
				return err
			}
			before = testutil.Now()
		}
	case Batches:
		for b, err := range m.Consumer.Batches(ctx) {
			if err := m.batch(before, b, err); err != nil {
				return err
			}
			before = testutil.Now()
		}
	default:
		return fmt.Errorf("there is no way to read called %q", m.Read)
	}
	return nil
}

// problem tells a partition that fails, which is noted and not the end, from everything else.
func (m *Member) problem(err error) error {
	var p *marshal.PartitionError
	if errors.As(err, &p) {
		_, err = fmt.Fprintln(m.log, "level=error partition failed:", p)
		return err
	}
	return fmt.Errorf("reading: %w", err)
}

func (m *Member) message(before int64, msg *marshal.Message, err error) error {
	after := testutil.Now()
	if err != nil {
		return m.problem(err)
	}
	m.handed.Add(1)
	m.record.Handout(before, after, msg.Topic, msg.Partition, msg.Token(), msg.Offset)
	m.work()
	return m.finish(msg.Commit, func() {
		m.record.Finished(msg.Topic, msg.Partition, msg.Token(), msg.Offset, msg.Offset)
	})
}

// finish commits and notes it: before, so that what is committed is always noted. But Terminate(false) does not wait for what is
// in hand, and refuses its commit: then it is not finished, and comes again.
func (m *Member) finish(commit func() error, note func()) error {
	if !m.Keep {
		note()
		return committed(commit())
	}
	err := commit()
	if err == nil {
		note()
	}
	return committed(err)
}

func (m *Member) batch(before int64, b *marshal.Batch, err error) error {
	after := testutil.Now()
	if err != nil {
		return m.problem(err)
	}
	m.handed.Add(int64(len(b.Messages)))
	runs := runsOf(b.Messages)
	for _, r := range runs {
		m.record.Handouts(before, after, b.Topic(), b.Partition(), b.Token(), r.From, r.To-1)
	}
	m.work()
	return m.finish(b.Commit, func() {
		for _, r := range runs {
			m.record.Finished(b.Topic(), b.Partition(), b.Token(), r.From, r.To-1)
		}
	})
}

// runsOf gives the offsets of a batch without its holes.
func runsOf(ms []marshal.Message) []testutil.Span {
	var runs []testutil.Span
	for i := range ms {
		if n := len(runs); n > 0 && runs[n-1].To == ms[i].Offset {
			runs[n-1].To++
		} else {
			runs = append(runs, testutil.Span{From: ms[i].Offset, To: ms[i].Offset + 1})
		}
	}
	return runs
}

// Handed is how many messages it was handed so far.
func (m *Member) Handed() int64 { return m.handed.Load() }

// Hurry has the work take no time from here on.
func (m *Member) Hurry() { m.hurry.Store(true) }

func (m *Member) work() {
	if m.hurry.Load() {
		return
	}
	if last := m.hung.Load(); m.Hang > 0 && testutil.Now()-last > m.HangEach.Nanoseconds() && m.hung.CompareAndSwap(last, testutil.Now()) {
		<-time.After(m.Hang)
	}
	if m.Pace > 0 {
		<-time.After(m.Pace)
	}
}

// committed excuses a claim that was lost meanwhile: somebody else gets the message again.
func committed(err error) error {
	if err == nil || errors.Is(err, marshal.ErrClaimLost) || errors.Is(err, marshal.ErrTerminated) {
		return nil
	}
	return fmt.Errorf("committing: %w", err)
}
