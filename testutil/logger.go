package testutil

import (
	"bytes"
	"io"
	"sync"
	"testing"

	"github.com/sirupsen/logrus"
)

// Logger gives a logger, down to debug, whose lines go to the log of a test. It falls silent when the test ends, so
// what still runs then may go on using it.
func Logger(t testing.TB) *logrus.Logger {
	w := &testWriter{t: t}
	t.Cleanup(w.stop)
	l := logrus.New()
	l.SetOutput(w)
	l.SetLevel(logrus.DebugLevel)
	l.SetFormatter(&logrus.TextFormatter{DisableColors: true, TimestampFormat: "15:04:05.000", FullTimestamp: true})
	return l
}

var _ io.Writer = (*testWriter)(nil)

type testWriter struct {
	mu sync.Mutex
	t  testing.TB // nil: the test has ended, and t.Log would panic
}

func (w *testWriter) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.t = nil
}

func (w *testWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.t != nil {
		w.t.Helper()
		w.t.Log(string(bytes.TrimRight(p, "\n")))
	}
	return len(p), nil
}
