package marshal

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestRecordsGatherWhereManyHeartbeatsComeAndNothingElse(t *testing.T) {
	const beat = 2 * time.Second
	t0 := time.Unix(1_000_000, 0)
	// run has so many heartbeats come in each interval, one by one, and gives what it says at the end.
	run := func(c *calm, from time.Duration, perBeat, beats int) (at time.Duration, gather time.Duration) {
		for i := range perBeat * beats {
			at = from + time.Duration(i+1)*beat/time.Duration(perBeat)
			gather = c.gather(1, false, t0.Add(at))
		}
		return at, gather
	}
	t.Run("a crowd", func(t *testing.T) {
		c := &calm{beat: beat}
		at, gather := run(c, 0, 100, 3)
		require.Equal(t, 100*time.Millisecond, gather)
		require.Zero(t, c.gather(1, true, t0.Add(at)), "something else comes")
		at, gather = run(c, at, 100, 1)
		require.Zero(t, gather, "it may not be over")
		_, gather = run(c, at, 100, 2)
		require.Equal(t, 100*time.Millisecond, gather, "it is")
	})
	t.Run("a few", func(t *testing.T) {
		_, gather := run(&calm{beat: beat}, 0, 30, 5)
		require.Zero(t, gather)
	})
	t.Run("a crowd that has gone", func(t *testing.T) {
		c := &calm{beat: beat}
		at, gather := run(c, 0, 100, 3)
		require.NotZero(t, gather)
		_, gather = run(c, at, 5, 3)
		require.Zero(t, gather)
	})
	t.Run("a crowd and then nothing for long", func(t *testing.T) {
		c := &calm{beat: beat}
		at, _ := run(c, 0, 100, 3)
		require.Zero(t, c.gather(0, false, t0.Add(at+3*beat)))
	})
}

// A process of a large group is not woken for each heartbeat of the others; when something happens it reads it as it comes.
func TestHeartbeatsOfALargeGroupAreReadTogether(t *testing.T) {
	const members, beat = 60, 500 * time.Millisecond
	k := newBench(t, "t")
	k.fill("t", 1, 0, 3)
	one, crowd := k.process("one", testGroup, 5*beat), k.process("m", testGroup, 5*beat).c
	var joining sync.WaitGroup
	errs := make([]error, members)
	for i := range errs {
		joining.Go(func() { _, errs[i] = crowd.NewMarshaler(fmt.Sprint("m", i), testGroup) })
	}
	joining.Wait()
	require.NoError(t, errors.Join(errs...))
	c := k.consumer(one, ConsumerOptions{}, "t")
	var gathering, prompt atomic.Int64
	k.Kfake().ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		k.Kfake().KeepControl()
		for _, topic := range req.(*kmsg.FetchRequest).Topics {
			if topic.Partitions[0].Partition != shardOf(testGroup) {
				continue
			}
			if req.(*kmsg.FetchRequest).MinBytes > 1 {
				gathering.Add(1)
			} else {
				prompt.Add(1)
			}
		}
		return nil, nil, false
	})
	waitFor(t, "polls of both processes that gather", func() bool { return gathering.Load() > 20 })
	before := prompt.Load()
	for _, m := range hold(t, c, 3) {
		require.NoError(t, c.CommitMessages(within(t, patience), m))
	}
	require.Greater(t, prompt.Load(), before, "somebody waits for a heartbeat")
	before = gathering.Load()
	waitFor(t, "polls that gather again", func() bool { return gathering.Load() > before+20 })
	require.NoError(t, one.Close(within(t, patience)))
	before = prompt.Load()
	waitFor(t, "polls that do not", func() bool { return prompt.Load() > before+10 })
}
