package marshal

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"
)

// reporter writes log lines on a goroutine of its own, so that a slow logger holds nobody up: no lock is held while it
// writes, and who reports never waits. What does not fit is counted and the count is written.
type reporter struct {
	log      logrus.FieldLogger
	entries  chan entryOfLog
	dropped  atomic.Int64
	ailments ailments // of no group in particular

	wg   sync.WaitGroup
	quit chan struct{} // closed: write what is left, and end
	done chan struct{} // closed when it has ended
}

// entryOfLog is some lines that belong together.
type entryOfLog struct {
	level  logrus.Level
	fields logrus.Fields
	texts  []string
}

const (
	reportQueue = 4096
	lastWords   = time.Second // for what is left at the end: who ends waits for a logger no longer
)

// newReporter starts one. It must be closed.
func newReporter(log logrus.FieldLogger) *reporter {
	r := &reporter{log: log, entries: make(chan entryOfLog, reportQueue), quit: make(chan struct{}), done: make(chan struct{})}
	r.wg.Go(r.run)
	return r
}

func (r *reporter) run() {
	defer close(r.done)
	for {
		select {
		case e := <-r.entries:
			r.write(e)
		case <-r.quit:
			for end := time.Now().Add(lastWords); time.Now().Before(end); {
				select {
				case e := <-r.entries:
					r.write(e)
				default:
					return
				}
			}
			return
		}
	}
}

// close writes what is left, for a second at most. A logger that blocks keeps the goroutine, and nothing else.
func (r *reporter) close() {
	close(r.quit)
	await(r.done, lastWords)
}

// last writes a line after close.
func (r *reporter) last(level logrus.Level, fields logrus.Fields, text string) {
	written := make(chan struct{})
	r.wg.Go(func() {
		defer close(written)
		r.write(entryOfLog{level: level, fields: fields, texts: []string{text}})
	})
	await(written, lastWords)
}

// await waits for something, for d at most.
func await(done <-chan struct{}, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	}
}

func (r *reporter) write(e entryOfLog) {
	if n := r.dropped.Swap(0); n > 0 {
		r.log.WithField("lines", n).Warn("marshal: log lines were dropped, the logger is too slow")
	}
	log := r.log.WithFields(e.fields)
	for _, text := range e.texts {
		switch e.level {
		case logrus.ErrorLevel:
			log.Error(text)
		case logrus.WarnLevel:
			log.Warn(text)
		case logrus.DebugLevel:
			log.Debug(text)
		default:
			log.Info(text)
		}
	}
}

// put queues lines that belong together: they are written one after another, or dropped together.
func (r *reporter) put(level logrus.Level, fields logrus.Fields, texts ...string) {
	select {
	case r.entries <- entryOfLog{level: level, fields: fields, texts: texts}:
	default:
		r.dropped.Add(int64(len(texts)))
	}
}

func (r *reporter) info(f logrus.Fields, text string) { r.put(logrus.InfoLevel, f, text) }
func (r *reporter) warn(f logrus.Fields, text string) { r.put(logrus.WarnLevel, f, text) }

// lasting writes a line about a problem of no group in particular that comes again and again, once it has lasted for 2 s, and
// then each 10 s.
func (r *reporter) lasting(key string, f logrus.Fields, text string) {
	now := time.Now()
	if r.ailments.again(key, errors.New(text), 0, now, now) {
		r.warn(f, text)
	}
}
