package marshal

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
)

// reporter writes log lines on a goroutine of its own, so that a slow logger holds nobody up: no lock is held while it
// writes, and who reports never waits. What does not fit is counted and the count is written.
type reporter struct {
	log     logrus.FieldLogger
	lines   chan line
	dropped atomic.Int64

	mu       sync.Mutex
	problems map[string]*problem
}

// problem is one that came before, and may last.
type problem struct{ first, newest, told time.Time }

type line struct {
	level  logrus.Level
	fields logrus.Fields
	text   string
}

const (
	reportQueue = 4096
	reportEvery = 10 * time.Second // a problem that lasts is told again
	lastsAfter  = 2 * time.Second  // what is over sooner is not told: leaders move, connections are cut
	isNewAfter  = 5 * time.Second  // without it, it begins anew
)

func newReporter(log logrus.FieldLogger) *reporter {
	return &reporter{log: log, lines: make(chan line, reportQueue), problems: map[string]*problem{}}
}

func (r *reporter) run(ctx context.Context) {
	for {
		select {
		case l := <-r.lines:
			r.write(l)
		case <-ctx.Done():
			r.rest()
			return
		}
	}
}

// rest writes what is left, for a second at most: a slow logger must not hold up who ends.
func (r *reporter) rest() {
	for end := time.Now().Add(time.Second); time.Now().Before(end); {
		select {
		case l := <-r.lines:
			r.write(l)
		default:
			return
		}
	}
}

func (r *reporter) write(l line) {
	if n := r.dropped.Swap(0); n > 0 {
		r.log.WithField("lines", n).Warn("marshal: log lines were dropped, the logger is too slow")
	}
	log := r.log.WithFields(l.fields)
	switch l.level {
	case logrus.ErrorLevel:
		log.Error(l.text)
	case logrus.WarnLevel:
		log.Warn(l.text)
	case logrus.DebugLevel:
		log.Debug(l.text)
	default:
		log.Info(l.text)
	}
}

func (r *reporter) put(level logrus.Level, fields logrus.Fields, text string) {
	select {
	case r.lines <- line{level: level, fields: fields, text: text}:
	default:
		r.dropped.Add(1)
	}
}

func (r *reporter) info(f logrus.Fields, text string)  { r.put(logrus.InfoLevel, f, text) }
func (r *reporter) warn(f logrus.Fields, text string)  { r.put(logrus.WarnLevel, f, text) }
func (r *reporter) error(f logrus.Fields, text string) { r.put(logrus.ErrorLevel, f, text) }

// lasting writes a line about a problem that comes again and again, once it has lasted for 2 s, and then each 10 s.
func (r *reporter) lasting(key string, f logrus.Fields, text string) {
	if r.tell(key, time.Now()) {
		r.warn(f, text)
	}
}

func (r *reporter) tell(key string, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	p := r.problems[key]
	if p == nil || now.Sub(p.newest) > isNewAfter {
		if len(r.problems) > reportQueue {
			clear(r.problems)
		}
		r.problems[key] = &problem{first: now, newest: now}
		return false
	}
	p.newest = now
	if now.Sub(p.first) < lastsAfter || now.Sub(p.told) < reportEvery {
		return false
	}
	p.told = now
	return true
}
