package marshal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
)

// Where a partition begins that the group has no position for.

func TestAStartAtATime(t *testing.T) {
	t.Parallel()
	base := time.UnixMilli(time.Now().Add(-time.Hour).UnixMilli())
	for name, at := range map[string]struct {
		time  time.Time
		first int64
	}{
		"before all":       {base.Add(-time.Hour), 0},
		"before 1970":      {time.UnixMilli(-5), 0},
		"at a record":      {base.Add(5 * time.Second), 5},
		"between two":      {base.Add(5*time.Second + 1), 5}, // Kafka knows milliseconds
		"a ms behind one":  {base.Add(5*time.Second + time.Millisecond), 6},
		"at the last":      {base.Add(9 * time.Second), 9},
		"behind the last":  {base.Add(time.Minute), 10},
		"far in the times": {base.Add(1000 * time.Hour), 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBothModes(t, func(t *testing.T, whole bool) {
				b := newBench(t)
				require.NoError(t, b.CreateTopic("t", 2, nil))
				for i := range 10 {
					for p := range int32(2) {
						_, err := b.Produce("t", p, testutil.Message{Value: []byte("x"), Time: base.Add(time.Duration(i) * time.Second)})
						require.NoError(t, err)
					}
				}
				m := b.marshaler("a")
				c := b.consumer(m, ConsumerOptions{ClaimEntireTopic: whole, StartOffset: StartAt(at.time)}, "t")
				k, _ := readAll(t, c)
				eventually(t, "the start, in the log", func() bool {
					s := m.State().Keys
					return len(s) > 0 && s[0].at(0) >= at.first && s[len(s)-1].at(1) >= at.first
				})
				b.fill("t", 2, 10, 1)
				eventually(t, "from the time on", func() bool { return k.count() == 2*int(11-at.first) })
				assert.Equal(t, upTo(11)[at.first:], k.offsets("t", 0))
				assert.Equal(t, upTo(11)[at.first:], k.offsets("t", 1))
			})
		})
	}
}

func TestTimestampsArriveAsTheyAre(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.CreateTopic("created", 1, nil))
	require.NoError(t, b.CreateTopic("appended", 1, map[string]string{"message.timestamp.type": "LogAppendTime"}))
	at := time.UnixMilli(time.Now().Add(-48 * time.Hour).UnixMilli())
	begin := time.Now().Truncate(time.Millisecond)
	for _, topic := range []string{"created", "appended"} {
		_, err := b.Produce(topic, 0, testutil.Message{Time: at}, testutil.Message{Time: at.Add(-time.Second)}, testutil.Message{Time: at.Add(time.Hour)})
		require.NoError(t, err)
	}
	m := b.marshaler("a")
	read := func(topic string) (times []time.Time) {
		c := b.consumer(m, ConsumerOptions{}, topic)
		for range 3 {
			msg, err := c.FetchMessage(within(t, patience))
			require.NoError(t, err)
			times = append(times, msg.Timestamp)
			require.NoError(t, msg.Commit())
		}
		return times
	}
	assert.Equal(t, []time.Time{at, at.Add(-time.Second), at.Add(time.Hour)}, read("created"))
	for _, when := range read("appended") {
		assert.False(t, when.Before(begin) || when.After(time.Now()), "the broker's time")
	}
}

func TestWhereAStartWasDecidedItStaysForWhoeverComesNext(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 1, nil))
		b.fill("t", 1, 0, 10)
		o := ConsumerOptions{ClaimEntireTopic: whole, StartOffset: StartLatest}
		m := b.marshaler("a")
		b.consumer(m, o, "t")
		eventually(t, "the start, in the log", func() bool { s := m.State().Keys; return len(s) == 1 && s[0].Instance != "" && s[0].at(0) == 10 })
		b.crash(m) // without a commit
		b.fill("t", 1, 10, 5)
		k, _ := readAll(t, b.consumer(b.marshaler("b"), o, "t"))
		eventually(t, "what came in between", func() bool { return k.count() == 5 })
		assert.Equal(t, upTo(15)[10:], k.offsets("t", 0))
	})
}

func TestPartitionsThatAppearWhileNobodyRunsBeginAtTheirFirstRecord(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 2, nil))
		b.fill("t", 2, 0, 10)
		o := ConsumerOptions{ClaimEntireTopic: whole, StartOffset: StartLatest}
		m := b.marshaler("a")
		c := b.consumer(m, o, "t")
		eventually(t, "a start of both", func() bool {
			a, ok1 := c.Position("t", 0)
			z, ok2 := c.Position("t", 1)
			return ok1 && ok2 && a == 10 && z == 10
		})
		require.NoError(t, c.Flush(within(t, patience)))
		m.Terminate()
		b.grow("t", 4)
		b.fill("t", 4, 10, 5)
		k, _ := readAll(t, b.consumer(b.marshaler("b"), o, "t"))
		eventually(t, "all that the group has not seen", func() bool { return k.count() == 20 })
		assert.Equal(t, upTo(15)[10:], k.offsets("t", 0))
		assert.Equal(t, upTo(5), k.offsets("t", 3))
	})
}
