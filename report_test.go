package marshal

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// stuck is what a logger writes to that blocks until the test ends.
type stuck struct{ free <-chan struct{} }

func (s stuck) Write(p []byte) (int, error) {
	<-s.free
	return len(p), nil
}

func TestALoggerThatBlocksForEverHoldsCloseUpForASecond(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	log, free := logrus.New(), make(chan struct{})
	defer close(free)
	log.SetOutput(stuck{free})
	m, err := NewMarshaler("a", testGroup, b.Addrs(), WithLease(testTTL, 0), WithLogger(log))
	require.NoError(t, err)
	k := collect(t, b.consumer(m, ConsumerOptions{}, "t"))
	b.fill("t", 4, 0, 10)
	eventually(t, "messages", func() bool { return k.count() == 40 })
	for range 2 * reportQueue {
		m.PrintState()
	}
	begin := time.Now()
	require.NoError(t, m.Close(within(t, patience)))
	assert.Less(t, time.Since(begin), 4*time.Second)
	begin = time.Now()
	m.c.report.last(logrus.WarnLevel, nil, "the last words")
	assert.Less(t, time.Since(begin), 3*time.Second)
}

func TestAStateOfMoreLinesThanTheQueueHasRoomForIsPrintedWhole(t *testing.T) {
	log, seen := logrus.New(), &lines{}
	log.SetOutput(io.Discard)
	log.AddHook(seen)
	r := newReporter(log)
	m := &Marshaler{c: &KafkaCluster{report: r}}
	var texts []string
	for i := range 3 * reportQueue {
		texts = append(texts, fmt.Sprintf("t/%d", i))
	}
	r.put(logrus.InfoLevel, m.fields(), texts...)
	r.put(logrus.InfoLevel, m.fields(), "after it")
	eventually(t, "all", func() bool { return seen.has("info", "after it") })
	r.close()
	require.Len(t, seen.texts, 3*reportQueue+1)
	assert.Equal(t, "info: t/0", seen.texts[0])
	assert.Equal(t, "info: after it", seen.texts[3*reportQueue])
	assert.False(t, seen.has("warning", "dropped"))
}

func TestDroppedLinesAreCounted(t *testing.T) {
	log, seen := logrus.New(), &lines{}
	free := make(chan struct{})
	log.SetOutput(stuck{free})
	log.AddHook(seen)
	r := newReporter(log)
	for range reportQueue + 10 {
		r.put(logrus.InfoLevel, nil, "x", "y")
	}
	close(free)
	eventually(t, "the count", func() bool { return seen.has("warning", "log lines were dropped") })
	r.close()
	assert.LessOrEqual(t, strings.Count(strings.Join(seen.texts, "\n"), "info: x"), reportQueue+2)
}
