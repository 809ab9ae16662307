package workers

import (
	"context"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/testutil"
)

func TestMain(m *testing.M) {
	Serve()
	testutil.VerifyNoLeaks(m)
}

const patience = 30 * time.Second

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// handed counts what the logs of a folder have.
func handed(t *testing.T, dir string) int {
	logs, err := testutil.ReadHandoutLogs(dir)
	require.NoError(t, err)
	n := 0
	for _, l := range logs {
		for _, h := range l.Handouts {
			n += int(h.Last + 1 - h.First)
		}
	}
	return n
}

func TestAWorkerProcessReadsInEachWayNotesItAndEndsBySIGTERM(t *testing.T) {
	c := testutil.NewCluster(t)
	require.NoError(t, c.CreateTopic("t", 2, nil))
	_, err := c.Fill("t", 0, 100, 10)
	require.NoError(t, err)
	for _, read := range []Reading{Fetch, Channel, Messages, Batches} {
		dir := t.TempDir()
		p, err := Start(Worker{
			Brokers: c.Addrs(), Process: "w", Group: "group-" + string(read), Topics: []string{"t"}, Dir: dir, Read: read, Pace: time.Millisecond,
		})
		require.NoError(t, err)
		t.Cleanup(p.Kill)
		require.Eventually(t, func() bool { return handed(t, dir) > 0 }, patience, 10*time.Millisecond)
		require.NoError(t, p.Hurry())
		require.Eventually(t, func() bool { return handed(t, dir) == 100 }, patience, 10*time.Millisecond)
		assert.True(t, p.Alive())
		require.NoError(t, p.Signal(syscall.SIGTERM))
		require.NoError(t, p.Wait(within(t)))
		assert.NoError(t, p.Failed(), "it was asked to end")
		at, _, err := c.Committed("group-"+string(read), "t", 0)
		require.NoError(t, err)
		assert.EqualValues(t, 100, at)
		logs, err := testutil.ReadHandoutLogs(dir)
		require.NoError(t, err)
		l := testutil.Linearize(testutil.Evidence{Logs: logs})
		assert.NoError(t, l.Err())
		had := map[testutil.Place][2]int{}
		for _, h := range logs[0].Holdings {
			n := had[h.Place]
			if h.Over {
				n[1]++
			} else {
				n[0]++
			}
			had[h.Place] = n
			assert.Positive(t, h.Token)
			assert.LessOrEqual(t, h.Since, h.Noted)
			assert.Less(t, h.Noted-h.Since, patience.Nanoseconds())
		}
		assert.Equal(t, map[testutil.Place][2]int{{Topic: "t", Partition: 0}: {1, 1}, {Topic: "t", Partition: 1}: {1, 1}}, had, "it has written down what it was told")
		text, err := os.ReadFile(LogFile(dir, "w"))
		require.NoError(t, err)
		assert.Contains(t, string(text), "joined the group as w")
	}
}

func TestAWorkerThatEndsByItselfHasFailedOneThatWasKilledHasNot(t *testing.T) {
	c := testutil.NewCluster(t)
	bad, err := Start(Worker{Brokers: c.Addrs(), Process: "bad", Group: "g", Dir: t.TempDir()}) // no topic
	require.NoError(t, err)
	t.Cleanup(bad.Kill)
	require.Eventually(t, func() bool { return !bad.Alive() }, patience, 10*time.Millisecond)
	require.ErrorContains(t, bad.Failed(), "no topic given")
	require.ErrorContains(t, bad.Wait(within(t)), "no topic given")

	good, err := Start(Worker{Brokers: c.Addrs(), Process: "good", Group: "g", Topics: []string{"t"}, Dir: t.TempDir()})
	require.NoError(t, err)
	good.Kill()
	assert.False(t, good.Alive())
	assert.NoError(t, good.Failed())
	assert.NoError(t, good.Wait(within(t)))
}

func TestAWorkerProcessEndsWithWhoStartedIt(t *testing.T) {
	c := testutil.NewCluster(t)
	p, err := Start(Worker{Brokers: c.Addrs(), Process: "w", Group: "g", Topics: []string{"t"}, Dir: t.TempDir()})
	require.NoError(t, err)
	t.Cleanup(p.Kill)
	require.NoError(t, p.parent.Close())
	require.Eventually(t, func() bool { return !p.Alive() }, patience, 10*time.Millisecond)
	assert.Error(t, p.Failed())
}

func TestAMemberThatKeepsItsKeysParks(t *testing.T) {
	c := testutil.NewCluster(t)
	require.NoError(t, c.CreateTopic("t", 2, nil))
	_, err := c.Fill("t", 1, 10, 10)
	require.NoError(t, err)
	dir := t.TempDir()
	w := Worker{Brokers: c.Addrs(), Process: "a", Group: "g", Topics: []string{"t"}, Dir: dir, Keep: true, Readers: 3}
	m, err := Open(w)
	require.NoError(t, err)
	m.Go()
	require.Eventually(t, func() bool { return m.Handed() == 10 }, patience, time.Millisecond)
	require.NoError(t, m.End())
	_, err = Open(w)
	require.Error(t, err, "a run has a name of its own")
	w.Process, w.Client, w.Keep = "b", "b", false
	next, err := Open(w)
	require.NoError(t, err)
	next.Go()
	states := next.Marshaler.State().Instances
	require.Len(t, states, 2)
	for _, i := range states {
		assert.Equal(t, i.Client == "a", i.Parked)
	}
	require.NoError(t, next.End())
}

func TestTheLoadKnowsWhatItWrote(t *testing.T) {
	c := testutil.NewCluster(t)
	require.NoError(t, c.CreateTopic("t", 2, nil))
	client, err := kafka.Dial(within(t), "load", c.Addrs(), nil)
	require.NoError(t, err)
	defer client.Close()
	l := StartLoad(context.Background(), client, "t", 0, 2, time.Millisecond)
	require.Eventually(t, func() bool {
		_, end, err := c.Offsets("t", 1)
		return err == nil && end > 20
	}, patience, time.Millisecond)
	produced, err := l.Stop()
	require.NoError(t, err)
	for p := range int32(2) {
		first, end, err := c.Offsets("t", p)
		require.NoError(t, err)
		assert.Equal(t, []testutil.Span{{From: first, To: end}}, produced[testutil.Place{Topic: "t", Partition: p}])
	}
}
