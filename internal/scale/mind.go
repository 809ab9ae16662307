package main

import (
	"runtime"
	"time"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
	"github.com/kafka-marshal/marshal/internal/wire"
)

// shard is the one log that everybody writes to and reads.
type shard struct {
	written [][]byte // since the last step
	end     int64
	records int64
	bytes   int64
	kinds   [lease.KindProbe + 1]int64
}

// append puts a record into the log; it is read in the next step.
func (s *shard) append(rec *lease.Record) []byte {
	value := wire.Append(nil, rec)
	s.written = append(s.written, value)
	s.records++
	s.bytes += int64(len(value))
	s.kinds[rec.Kind]++
	return value
}

// take gives what was written since the last call, and the offset of the first.
func (s *shard) take() (values [][]byte, first int64) {
	values, first = s.written, s.end
	s.written, s.end = nil, s.end+int64(len(s.written))
	return values, first
}

// work is what reading cost one process.
type work struct {
	records, batches, plans   int64
	decode, apply, plan, step time.Duration
	longest                   time.Duration // of one batch, all together
}

func (w work) total() time.Duration { return w.decode + w.apply + w.plan + w.step }

func (w work) plus(o work) work {
	w.records += o.records
	w.batches += o.batches
	w.plans += o.plans
	w.decode += o.decode
	w.apply += o.apply
	w.plan += o.plan
	w.step += o.step
	w.longest = max(w.longest, o.longest)
	return w
}

// minus is what was done since an earlier moment. The longest batch is not known of a stretch: reset it instead.
func (w work) minus(o work) work {
	w.records -= o.records
	w.batches -= o.batches
	w.plans -= o.plans
	w.decode -= o.decode
	w.apply -= o.apply
	w.plan -= o.plan
	w.step -= o.step
	return w
}

// mind is what one process knows of the group, and what it costs it to learn it.
type mind struct {
	log     *history.Log
	planner *policy.Planner
	decode  func([]byte, *lease.Record)
	recs    []lease.Record
	events  []lease.Event
	version uint64
	work    work
}

func newMind() *mind {
	return &mind{log: history.NewLog(history.Base{World: lease.NewWorld(coordination)}), planner: new(policy.Planner), decode: wire.NewDecoder()}
}

// tick is what a reading of the clock costs, as a reading sees it.
var tick = func() time.Duration {
	least := time.Hour
	for range 10_000 {
		t := cpu()
		least = min(least, cpu()-t)
	}
	return least
}()

// read applies a batch, works the plan out if the world needs another one, and lets step do the rest.
func (m *mind) read(values [][]byte, first int64, step func([]lease.Event)) {
	for len(m.recs) < len(values) {
		m.recs = append(m.recs, lease.Record{})
	}
	t0 := cpu()
	for i, v := range values {
		m.decode(v, &m.recs[i])
		m.recs[i].Offset = first + int64(i)
	}
	t1 := cpu()
	m.events = m.events[:0]
	for i, v := range values {
		var outcome history.Outcome
		if m.events, outcome = m.log.Take(&m.recs[i], v, m.events); outcome != history.Fine {
			panic("the log contradicts itself") // rule S1: here everybody reads the same
		}
	}
	t2 := cpu()
	if w := m.log.World(); step != nil && w.Version() != m.version {
		m.version = w.Version()
		m.planner.Plan(w)
		m.work.plans++
	}
	t3 := cpu()
	if step != nil {
		step(m.events)
	}
	t4 := cpu()
	m.work.records += int64(len(values))
	m.work.batches++
	m.work.decode += t1 - t0 - tick
	m.work.apply += t2 - t1 - tick
	m.work.plan += t3 - t2 - tick
	m.work.step += t4 - t3 - tick
	m.work.longest = max(m.work.longest, t4-t0)
}

// heap is what is in use after a collection.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return int64(s.HeapAlloc)
}
