package marshal

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWhatPauseAndResumeAddUpTo(t *testing.T) {
	type call struct {
		pause bool
		parts []int32
	}
	for name, c := range map[string]struct {
		calls []call
		want  []bool // of partitions 0, 1, 2
	}{
		"nothing":                       {nil, []bool{false, false, false}},
		"one":                           {[]call{{true, []int32{1}}}, []bool{false, true, false}},
		"one, twice":                    {[]call{{true, []int32{1}}, {true, []int32{1}}}, []bool{false, true, false}},
		"two, one resumed":              {[]call{{true, []int32{0, 1}}, {false, []int32{0}}}, []bool{false, true, false}},
		"all":                           {[]call{{true, nil}}, []bool{true, true, true}},
		"all but one":                   {[]call{{true, nil}, {false, []int32{1}}}, []bool{true, false, true}},
		"all but one, that one again":   {[]call{{true, nil}, {false, []int32{1}}, {true, []int32{1}}}, []bool{true, true, true}},
		"all but one, then all":         {[]call{{true, nil}, {false, []int32{1}}, {true, nil}}, []bool{true, true, true}},
		"one, all resumed":              {[]call{{true, []int32{1}}, {false, nil}}, []bool{false, false, false}},
		"all, all resumed":              {[]call{{true, nil}, {false, nil}}, []bool{false, false, false}},
		"resumed without a pause":       {[]call{{false, []int32{1}}}, []bool{false, false, false}},
		"all but one, then all resumed": {[]call{{true, nil}, {false, []int32{1}}, {false, nil}}, []bool{false, false, false}},
	} {
		t.Run(name, func(t *testing.T) {
			ps := &pauses{except: map[int32]bool{}}
			for _, call := range c.calls {
				ps.set(call.pause, call.parts)
			}
			for id, want := range c.want {
				assert.Equal(t, want, ps.has(int32(id)), id)
			}
		})
	}
}

func TestAPausedPartitionHandsOutNothingAndKeepsItsClaim(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 100)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t")
	c.Pause("t", 1) // before it is claimed
	k := collect(t, c)
	eventually(t, "the others", func() bool { return k.count() == 300 })
	assert.True(t, c.paused("t", 1))
	assert.False(t, c.paused("t", 0))
	b.fill("t", 4, 100, 100)
	eventually(t, "what comes later of the others", func() bool { return k.count() == 600 })
	assert.Empty(t, k.offsets("t", 1))
	at, held := c.Position("t", 1)
	assert.True(t, held, "it keeps its claim")
	assert.Zero(t, at)
	assert.Equal(t, 4, holds(m))
	epochs := m.State().Keys

	c.Resume("t", 1)
	eventually(t, "all of it", func() bool { return k.count() == 800 })
	assert.Equal(t, upTo(200), k.offsets("t", 1))
	for i, now := range m.State().Keys {
		assert.Equal(t, epochs[i].Epoch, now.Epoch, "nothing was claimed anew")
	}
}

func TestWhatIsInFlightWhenAPartitionIsPausedGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	ctx := within(t, patience)
	first, err := c.FetchMessage(ctx)
	require.NoError(t, err)
	c.Pause("t")
	_, err = c.FetchMessage(within(t, 100*time.Millisecond))
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	require.NoError(t, first.Context().Err())
	require.NoError(t, c.CommitMessages(ctx, first))
	at, _ := c.Position("t", 0)
	assert.EqualValues(t, 1, at)
	c.Resume("t")
	second, err := c.FetchMessage(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 1, second.Offset)
	for batch, err := range c.Batches(ctx) {
		require.NoError(t, err)
		assert.EqualValues(t, 2, batch.Messages[0].Offset)
		break
	}
}

func TestAPausedPartitionIsNotFetched(t *testing.T) {
	b := newBench(t, "t", "u")
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t", "u")
	k := collect(t, c)
	c.Pause("t")
	b.fill("u", 4, 0, 10)
	eventually(t, "the other topic", func() bool { return k.count() == 40 })
	fetched := func() (n int64) {
		for _, cl := range c.running() {
			for _, p := range cl.partitions() {
				p.mu.Lock()
				if p.topic == "t" {
					n += p.next
				}
				p.mu.Unlock()
			}
		}
		return n
	}
	eventually(t, "every partition", func() bool { return len(c.running()) == 8 })
	b.fill("t", 4, 0, 10) // a request that was under way when it was paused may still bring this
	for n := 10; n < 50; n += 10 {
		b.fill("u", 4, n, 10)
		eventually(t, "the other topic", func() bool { return k.count() == 4*(n+10) })
	}
	b.fill("t", 4, 10, 10)
	for n := 50; n < 90; n += 10 {
		b.fill("u", 4, n, 10)
		eventually(t, "the other topic", func() bool { return k.count() == 4*(n+10) })
	}
	assert.LessOrEqual(t, fetched(), int64(40))
	c.Resume("t")
	eventually(t, "all", func() bool { return k.count() == 360+80 })
}

func TestAPauseOfATopicHoldsForPartitionsThatComeLater(t *testing.T) {
	b := newBench(t, "t")
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	k := collect(t, c)
	c.Pause("t")
	c.Resume("t", 5)
	b.grow("t", 6)
	b.fill("t", 6, 0, 10)
	eventually(t, "the new partitions", func() bool { return len(c.running()) == 6 })
	eventually(t, "the one that was resumed", func() bool { return k.count() == 10 })
	_, held := c.Position("t", 4)
	assert.True(t, held)
	assert.Equal(t, upTo(10), k.offsets("t", 5))
	c.Resume("t")
	eventually(t, "all", func() bool { return k.count() == 60 })
}

func TestAPauseSurvivesAReclaim(t *testing.T) {
	b := newBench(t, "t")
	m1 := b.marshaler("a")
	c1 := b.consumer(m1, ConsumerOptions{}, "t")
	k1 := collect(t, c1)
	eventually(t, "every partition", func() bool { return holds(m1) == 4 })
	c1.Pause("t")
	m2 := b.marshaler("b")
	b.consumer(m2, ConsumerOptions{}, "t")
	eventually(t, "two each", func() bool { return holds(m1) == 2 && holds(m2) == 2 })
	m2.Terminate()
	b.fill("t", 4, 0, 10)
	eventually(t, "every partition again", func() bool {
		for id := range int32(4) {
			if _, held := c1.Position("t", id); !held {
				return false
			}
		}
		return true
	})
	c1.Resume("t", 3)
	eventually(t, "the one that was resumed", func() bool { return k1.count() == 10 })
	assert.Equal(t, upTo(10), k1.offsets("t", 3))
	c1.Resume("t")
	eventually(t, "all", func() bool { return k1.count() == 40 })
}

func TestAPauseTakesBackWhatTheChannelOffers(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	messages := c.ConsumeChannel()
	eventually(t, "an offer", func() bool { return c.offering() == 0 })
	c.Pause("t", 0)
	select {
	case m := <-messages:
		assert.Fail(t, "handed out", "%d", m.Offset)
	case <-time.After(50 * time.Millisecond):
	}
	c.Resume("t", 0)
	for want := range int64(10) {
		select {
		case m := <-messages:
			assert.Equal(t, want, m.Offset)
		case <-time.After(patience):
			require.Fail(t, "nothing came")
		}
	}
}

func TestPositionIsWhereTheFinishedPrefixEnds(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	var got []*Message
	for range 3 {
		msg, err := c.FetchMessage(within(t, patience))
		require.NoError(t, err)
		got = append(got, msg)
	}
	require.NoError(t, got[1].Commit())
	at, held := c.Position("t", 0)
	assert.True(t, held)
	assert.Zero(t, at, "the first is not finished")
	require.NoError(t, got[0].Commit())
	at, _ = c.Position("t", 0)
	assert.EqualValues(t, 2, at)
	for _, other := range []struct {
		topic     string
		partition int32
	}{{"t", 1}, {"t", -1}, {"u", 0}} {
		_, held = c.Position(other.topic, other.partition)
		assert.False(t, held, other)
	}
	c.Pause("u")
	c.Resume("u")
	assert.True(t, c.Terminate(true))
	_, held = c.Position("t", 0)
	assert.False(t, held)
	c.Pause("t")
	c.Resume("t")
}

func TestPausesAreHeardAndShown(t *testing.T) {
	b := newBench(t, "t")
	log, seen := logged(t)
	c := b.consumer(b.marshaler("a", WithLogger(log)), ConsumerOptions{}, "t")
	eventually(t, "begun", func() bool { return len(c.begun()) == 4 })
	heard := listen(t, c)
	paused := func() (is []bool) {
		for _, p := range c.Stats().Partitions {
			is = append(is, p.Paused)
		}
		return is
	}
	type told struct {
		kind EventKind
		of   int32
	}
	var want []told
	tells := func(ts ...told) {
		t.Helper()
		want = append(want, ts...)
		eventually(t, "told", func() bool { return len(heard.of(PartitionPaused, PartitionResumed)) == len(want) })
		for i, e := range heard.of(PartitionPaused, PartitionResumed) {
			require.Equal(t, want[i], told{e.Kind, e.Partition})
			require.Equal(t, "t", e.Topic)
		}
	}
	c.Pause("t", 1, 2)
	tells(told{PartitionPaused, 1}, told{PartitionPaused, 2})
	assert.Equal(t, []bool{false, true, true, false}, paused())
	eventually(t, "a line", func() bool { return seen.has("info", "t/2 is paused by the application") })
	c.Pause("t", 1, 3)
	tells(told{PartitionPaused, 3})
	c.Resume("t", 0, 1)
	tells(told{PartitionResumed, 1})
	assert.Equal(t, []bool{false, false, true, true}, paused())
	c.Pause("t")
	c.Pause("t")
	tells(told{PartitionPaused, -1})
	assert.Equal(t, []bool{true, true, true, true}, paused())
	c.Resume("t", 0)
	c.Resume("t")
	c.Resume("t")
	tells(told{PartitionResumed, 0}, told{PartitionResumed, -1})
	assert.Equal(t, []bool{false, false, false, false}, paused())
	eventually(t, "a line", func() bool { return seen.has("info", "t (whole) is resumed by the application") })
	c.Pause("other")
	c.Terminate(true)
	c.Pause("t")
	<-heard.done
	tells()
	assert.Equal(t, len(want), seen.times("info", "by the application"))
}
