package testutil

import (
	"testing"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/assert"
)

// recorder is a test whose log can be read, and which panics on a log line after its end as a real one does.
type recorder struct {
	testing.TB
	lines   []string
	cleanup []func()
	ended   bool
}

func (r *recorder) Helper()          {}
func (r *recorder) Cleanup(f func()) { r.cleanup = append(r.cleanup, f) }
func (r *recorder) Log(args ...any) {
	if r.ended {
		panic("Log in goroutine after test has completed")
	}
	r.lines = append(r.lines, args[0].(string))
}

func (r *recorder) end() {
	for _, f := range r.cleanup {
		f()
	}
	r.ended = true
}

func TestLoggerWritesToTheTestUntilItEnds(t *testing.T) {
	r := &recorder{TB: t}
	l := Logger(r)
	l.WithFields(logrus.Fields{"partition": 3}).Debug("claimed")
	if assert.Len(t, r.lines, 1) {
		assert.Contains(t, r.lines[0], "claimed")
		assert.Contains(t, r.lines[0], "partition=3")
		assert.NotContains(t, r.lines[0], "\n")
	}
	r.end()
	assert.NotPanics(t, func() { l.Info("too late") })
	assert.Len(t, r.lines, 1)
}
