package testutil

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// inBubble runs a test on a network in memory and a fake clock, where "no answer comes" can be said for certain.
func inBubble(t *testing.T, test func(t *testing.T, c *Cluster)) {
	synctest.Test(t, func(t *testing.T) {
		var v kfake.VirtualNetwork
		c, err := Start(WithNetwork(&v), WithTopic("t", 1))
		require.NoError(t, err)
		defer c.Close()
		test(t, c)
	})
}

// dial connects as a client; a request without an answer fails after patience.
func dial(t *testing.T, c *Cluster, clientID string) *wire {
	t.Helper()
	w, err := c.connect(c.Addrs()[0], clientID)
	require.NoError(t, err)
	t.Cleanup(func() { w.conn.Close() })
	return w
}

func write(w *wire) error {
	r := kmsg.NewProduceRequest()
	r.Version, r.Acks, r.TimeoutMillis = 9, -1, 1000
	p := kmsg.NewProduceRequestTopicPartition()
	p.Records = encode([]Message{Text("x")})
	rt := kmsg.NewProduceRequestTopic()
	rt.Topic, rt.Partitions = "t", append(rt.Partitions, p)
	r.Topics = append(r.Topics, rt)
	_, err := w.ask(&r)
	return err
}

// fetch waits up to wait for what comes after offset 1000, which never comes.
func fetch(w *wire, wait time.Duration) error {
	r := kmsg.NewFetchRequest()
	r.Version, r.MaxWaitMillis, r.MinBytes, r.MaxBytes = 11, int32(wait.Milliseconds()), 1, 1<<20
	p := kmsg.NewFetchRequestTopicPartition()
	p.PartitionMaxBytes = 1 << 20
	rt := kmsg.NewFetchRequestTopic()
	rt.Topic, rt.Partitions = "t", append(rt.Partitions, p)
	r.Topics = append(r.Topics, rt)
	_, err := w.ask(&r)
	return err
}

func written(t *testing.T, c *Cluster) int64 {
	t.Helper()
	_, next, err := c.Offsets("t", 0)
	require.NoError(t, err)
	return next
}

func TestWhatEachEffectDoesToAWrite(t *testing.T) {
	for _, e := range []struct {
		do      Effect
		lands   bool // the broker acted
		answers bool
		takes   time.Duration // until the client knows
	}{
		{Cut, false, false, 0},
		{Drop, false, false, patience},
		{Freeze, false, false, patience},
		{LoseAnswers, true, false, patience},
		{CutAnswers, true, false, 0},
		{DelayRequests, true, true, 3 * time.Second},
		{DelayAnswers, true, true, 3 * time.Second},
	} {
		t.Run(e.do.String(), func(t *testing.T) {
			inBubble(t, func(t *testing.T, c *Cluster) {
				f := c.Faults().Add(Fault{Client: "victim", Keys: Writes, Do: e.do, Delay: 3 * time.Second})
				victim, neighbour := dial(t, c, "victim"), dial(t, c, "neighbour")
				start := time.Now()
				err := write(victim)
				assert.Equal(t, e.answers, err == nil, "%v", err)
				assert.Equal(t, e.takes, time.Since(start))
				assert.Equal(t, e.lands, written(t, c) == 1)
				assert.Equal(t, 1, f.Hits())

				assert.NoError(t, write(neighbour), "another client is not touched")
				_, err = c.Produce("t", 0, Text("x"))
				assert.NoError(t, err, "nor are the helpers")
				assert.NoError(t, fetch(dial(t, c, "victim"), 0), "nor other requests")
				before := written(t, c)
				f.Remove()
				f.Remove()
				assert.NoError(t, write(dial(t, c, "victim")), "it is over once it is removed")
				synctest.Wait()
				late := int64(0)
				if e.do == Freeze {
					late = 1 // the frozen write lands when the broker goes on, though its client has given up
				}
				assert.Equal(t, before+1+late, written(t, c))
			})
		})
	}
}

func TestALostMessageTakesItsConnectionAlong(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		for _, do := range []Effect{Drop, LoseAnswers} {
			f := c.Faults().Add(Fault{Client: "victim", Keys: Writes, Do: do, Count: 1})
			w := dial(t, c, "victim")
			require.NoError(t, fetch(w, 0))
			require.Error(t, write(w))
			assert.Error(t, fetch(w, 0), "%v: TCP does not skip", do)
			assert.NoError(t, write(dial(t, c, "victim")), "%v: it struck once, as it should", do)
			f.Remove()
		}
	})
}

func TestOneWayCuts(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		f := c.Faults().Add(Fault{Client: "victim", Keys: Reads, Do: Drop})
		assert.NoError(t, write(dial(t, c, "victim")), "writes land")
		assert.Error(t, fetch(dial(t, c, "victim"), 0), "reads do not")
		f.Remove()
		c.Faults().Add(Fault{Client: "victim", Keys: Writes, Do: Drop})
		assert.Error(t, write(dial(t, c, "victim")))
		assert.NoError(t, fetch(dial(t, c, "victim"), 0))
		c.Faults().Clear()
		assert.NoError(t, write(dial(t, c, "victim")))
	})
}

func TestAFreezeGoesOnWhereItStood(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		w := dial(t, c, "victim")
		f := c.Faults().Add(Fault{Client: "victim", Do: Freeze})
		var wg sync.WaitGroup
		wg.Go(func() { assert.NoError(t, write(w)) })
		require.NoError(t, f.Wait(t.Context(), 1))
		synctest.Wait()
		assert.Zero(t, written(t, c))
		f.Remove()
		wg.Wait()
		assert.EqualValues(t, 1, written(t, c))
	})
}

func TestAFreezeHoldsTheAnswerOfAParkedFetch(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		w := dial(t, c, "victim")
		start := time.Now()
		var wg sync.WaitGroup
		wg.Go(func() {
			assert.NoError(t, fetch(w, 10*time.Second))
			assert.Equal(t, 20*time.Second, time.Since(start))
		})
		synctest.Wait() // parked
		f := c.Faults().Add(Fault{Client: "victim", Do: Freeze})
		<-time.After(20 * time.Second)
		assert.Equal(t, 1, f.Hits(), "the answer")
		f.Remove()
		wg.Wait()
	})
}

func TestACutClosesParkedFetches(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		start := time.Now()
		w, idle := dial(t, c, "victim"), dial(t, c, "victim")
		require.NoError(t, fetch(idle, 0))
		var wg sync.WaitGroup
		wg.Go(func() {
			assert.Error(t, fetch(w, 10*time.Second))
			assert.Zero(t, time.Since(start))
		})
		synctest.Wait() // parked
		c.Faults().Add(Fault{Client: "victim", Keys: Reads, Do: Cut})
		wg.Wait()
		assert.NoError(t, write(idle), "a connection that waits for nothing stays")
	})
}

func TestKillClosesTheConnectionsOfOneClient(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		a1, a2, b := dial(t, c, "a-1"), dial(t, c, "a-2"), dial(t, c, "b")
		for _, w := range []*wire{a1, a2, b} {
			require.NoError(t, write(w))
		}
		_, err := c.Produce("t", 0, Text("x")) // and leaves a connection idle
		require.NoError(t, err)
		assert.Zero(t, c.Faults().Kill("a"))
		assert.Equal(t, 1, c.Faults().Kill("a-1"))
		assert.Error(t, write(a1))
		assert.NoError(t, write(a2))
		assert.Equal(t, 1, c.Faults().Kill("a-*"))
		assert.Error(t, write(a2))
		assert.NoError(t, write(b))
		assert.Equal(t, 1, c.Faults().Kill("*"), "the helpers stay")
		_, err = c.Produce("t", 0, Text("x"))
		assert.NoError(t, err)
	})
}

func TestWaitEndsWithItsContext(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		f := c.Faults().Add(Fault{Do: Cut})
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		assert.ErrorIs(t, f.Wait(ctx, 1), context.DeadlineExceeded)
	})
}

func TestClosingTheClusterFreesWhatIsFrozen(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		f := c.Faults().Add(Fault{Client: "victim", Do: Freeze})
		w := dial(t, c, "victim")
		var wg sync.WaitGroup
		wg.Go(func() { assert.Error(t, write(w)) })
		require.NoError(t, f.Wait(t.Context(), 1))
		c.Close()
		wg.Wait() // and the bubble ends with no goroutine left
	})
}

func TestRequestsWithoutAnAnswerDoNotConfuseTheOthers(t *testing.T) {
	inBubble(t, func(t *testing.T, c *Cluster) {
		f := c.Faults().Add(Fault{Client: "victim", Keys: Writes, Do: DelayAnswers, Delay: time.Hour})
		w := dial(t, c, "victim")
		r := kmsg.NewProduceRequest()
		r.Version, r.Acks = 9, 0
		w.corr++
		_, err := w.conn.Write(kmsg.NewRequestFormatter(kmsg.FormatterClientID("victim")).AppendRequest(nil, &r, w.corr))
		require.NoError(t, err)
		assert.NoError(t, fetch(w, 0), "this answer is to the fetch")
		assert.Zero(t, f.Hits())
	})
}

func TestParseRequestTakesAnyBytes(t *testing.T) {
	assert.Equal(t, request{key: -1}, parseRequest(nil))
	assert.Equal(t, request{key: 1, corr: 7}, parseRequest([]byte{0, 1, 0, 0, 0, 0, 0, 7}))
	assert.Equal(t, request{key: 1, corr: 7}, parseRequest([]byte{0, 1, 0, 0, 0, 0, 0, 7, 0, 5, 'a'}))
	assert.Equal(t, request{key: 1, corr: 7}, parseRequest([]byte{0, 1, 0, 0, 0, 0, 0, 7, 0xff, 0xff, 'a'}))
	assert.Equal(t, request{key: 1, corr: 7, client: "a"}, parseRequest([]byte{0, 1, 0, 0, 0, 0, 0, 7, 0, 1, 'a', 9}))
}

func TestAFaultOfOneBrokerSparesTheOthersAndTheHelpers(t *testing.T) {
	c := NewCluster(t, WithBrokers(2), WithTopic("t", 8))
	c.Faults().Add(Fault{Nodes: []int32{1}, Do: Cut}) // of every client
	for node, works := range []bool{true, false} {
		w, err := c.connect(c.Addrs()[node], "w")
		require.NoError(t, err)
		_, err = w.ask(kmsg.NewPtrMetadataRequest())
		assert.Equal(t, works, err == nil, "broker %d: %v", node, err)
		w.conn.Close()
	}
	for p := range int32(8) {
		_, err := c.Produce("t", p, Text("x"))
		assert.NoError(t, err)
	}
}
