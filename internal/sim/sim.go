package sim

import (
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/rule"
)

// Config says which run it is.
type Config struct {
	Schedule
	Broken rule.Rule         // chooses the faults that the rule protects from; the rule itself is broken by rule.Break
	Trace  func(line string) // nil: no trace
	Limits func(*scenario)   // tests narrow the scenario; nil: as the seed says
}

// Violation is an invariant of PROTOCOL.md §9 that did not hold.
type Violation struct {
	Invariant string // S1 … S7, L1 … L3, or "panic"
	Text      string
	At        time.Duration
}

func (v *Violation) String() string { return fmt.Sprintf("%s: %s (at %s)", v.Invariant, v.Text, v.At) }

// Result is what a run came to. It depends on the Config alone.
type Result struct {
	Schedule   Schedule
	Steps      int64
	Records    int64
	Virtual    time.Duration
	Violation  *Violation
	Table      Table
	Covered    []uint32 // what it came by
	Standstill Standstill
	Liveness   Liveness
}

// simulation is one run.
type simulation struct {
	cfg   Config
	rng   *rand.Rand
	now   time.Duration
	queue queue
	scenario

	log    vlog
	ref    reference
	data   map[string]*topic
	topics []*topic
	procs  []*process
	agents []*agent // that live, of all processes, in the order of their making
	byID   map[lease.InstanceID]*agent
	tools  int

	faulted   int // faults whose moment has come
	newest    [2]aFault
	cover     Coverage
	quiet     bool // no more faults
	settled   bool
	calmAt    time.Duration // when the faults ended
	lastWish  time.Duration // when an application wants something else for the last time
	live      Liveness
	still     standstill
	uid       uint64
	lossUntil time.Duration // exception 2 of S3 holds until then
	lost      bool          // the log lost records in this run
	upgrade   bool          // a joined author wrote in a newer version: members end, and nothing is promised of the rest
	violation *Violation
	steps     int64
	table     Table
}

// Run runs one seed to its end or to its first violation.
func Run(cfg Config) Result {
	s := newSimulation(cfg)
	s.run()
	return Result{
		Schedule: cfg.Schedule, Steps: s.steps, Records: s.ref.records, Virtual: s.now, Violation: s.violation,
		Table: s.table, Covered: s.covered(), Standstill: s.still.longest(), Liveness: s.live,
	}
}

func newSimulation(cfg Config) *simulation {
	return &simulation{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 0x6d61727368616c))}
}

func (s *simulation) run() {
	defer func() {
		if r := recover(); r != nil {
			s.fail("panic", "%v", r)
			s.tracef("%s", debug.Stack())
		}
	}()
	s.setUp()
	for s.violation == nil && !s.settled {
		e, ok := s.queue.pop()
		if !ok {
			s.fail("L1", "nothing is left to happen")
			break
		}
		s.now = e.at
		s.steps++
		e.fn()
	}
}

// at schedules fn; moments of the past become now.
func (s *simulation) at(t time.Duration, fn func()) { s.queue.push(max(t, s.now), fn) }

// after schedules fn in d.
func (s *simulation) after(d time.Duration, fn func()) { s.at(s.now+d, fn) }

// fail notes the first violation; the run ends with it.
func (s *simulation) fail(invariant, format string, args ...any) {
	if s.violation != nil {
		return
	}
	s.violation = &Violation{Invariant: invariant, Text: fmt.Sprintf(format, args...), At: s.now}
	if s.tracing() {
		s.tracef("VIOLATION %s: %s", invariant, s.violation.Text)
	}
}

func (s *simulation) tracing() bool { return s.cfg.Trace != nil }

// tracef writes one line of the trace. Callers on hot paths ask tracing first.
func (s *simulation) tracef(format string, args ...any) {
	if s.cfg.Trace != nil {
		s.cfg.Trace(fmt.Sprintf("%11.6fs  ", s.now.Seconds()) + fmt.Sprintf(format, args...))
	}
}

// chance is true with probability p.
func (s *simulation) chance(p float64) bool { return s.rng.Float64() < p }

// between gives a duration in [a, b).
func (s *simulation) between(a, b time.Duration) time.Duration {
	if b <= a {
		return a
	}
	return a + time.Duration(s.rng.Int64N(int64(b-a)))
}

func (s *simulation) randomID() (id [16]byte) {
	for i := 0; i < len(id); i += 8 {
		v := s.rng.Uint64()
		for j := range 8 {
			id[i+j] = byte(v >> (8 * j))
		}
	}
	return id
}

// pick chooses one of a list.
func pick[T any](s *simulation, list []T) T { return list[s.rng.IntN(len(list))] }
