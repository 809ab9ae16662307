package marshal

import (
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var stallOptions = ConsumerOptions{StallTimeout: 150 * time.Millisecond, CommitInterval: 20 * time.Millisecond, DrainTimeout: 50 * time.Millisecond}

// keyOf is what m knows of a key.
func keyOf(m *Marshaler, topic string, partition int32) KeyState {
	for _, k := range m.State().Keys {
		if k.Topic == topic && k.Partition == partition {
			return k
		}
	}
	return KeyState{}
}

// A message that nobody can handle: each of the others gets its partition once, and the last one keeps it, goes on, and says so.
func TestAMessageThatIsStuckEverywhereMakesTheRoundOnceAndIsKept(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		for n := 2; n <= 3; n++ {
			b := newBench(t)
			require.NoError(t, b.CreateTopic("t", 2, nil))
			b.fill("t", 2, 0, 20)
			logs := map[string]*lines{}
			o := stallOptions
			o.ClaimEntireTopic = whole
			var ms []*Marshaler
			var ks []*collector
			poison := func(m *Message) bool { return m.Partition == 0 && m.Offset == 7 }
			for i := range n {
				log, seen := logged(t)
				m := b.marshaler(string(rune('a'+i)), WithLogger(log))
				logs[m.ClientID()] = seen
				ms = append(ms, m)
				ks = append(ks, collectBut(t, b.consumer(m, o, "t"), poison))
			}
			key := int32(0)
			if whole {
				key = -1
			}
			eventually(t, "each has tried", func() bool {
				return !slices.ContainsFunc(ks, func(k *collector) bool { return !slices.Contains(k.offsets("t", 0), 7) })
			})
			at := keyOf(ms[0], "t", key)
			eventually(t, "the last one says that it keeps it", func() bool { return logs[at.Client].has("warning", "so it stays and goes on") })
			given := 0
			for _, l := range logs {
				given += l.times("warning", "t/0: the message at 7 is not finished after") - l.times("warning", "so it stays and goes on")
			}
			assert.Equal(t, n-1, given, "%d members, whole %t", n, whole)
			eventually(t, "the other messages are handled", func() bool {
				got := map[int64]bool{}
				for _, k := range ks {
					for _, offset := range k.offsets("t", 1) {
						got[offset] = true
					}
				}
				return len(got) == 20
			})
			letPass(t, 20, stallOptions.StallTimeout/5)
			assert.Equal(t, at.Epoch, keyOf(ms[0], "t", key).Epoch, "nobody wanders")
			for _, k := range ks {
				k.stop()
			}
			for _, m := range ms {
				m.Terminate()
			}
		}
	}
}

// letPass lets n times d go by.
func letPass(t *testing.T, n int, d time.Duration) {
	tick := time.NewTicker(d)
	defer tick.Stop()
	for range n {
		<-tick.C
	}
}

// One process is sick: it gives everything away, once, and the other handles it.
func TestAProcessThatIsSickGivesItsPartitionToAFitterOne(t *testing.T) {
	for _, whole := range []bool{false, true} {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 4, nil))
		require.NoError(t, b.CreateTopic("u", 4, nil))
		b.fill("t", 4, 0, 10)
		b.fill("u", 4, 0, 10)
		log, seen := logged(t)
		o := stallOptions
		o.ClaimEntireTopic = whole
		sick, well := b.marshaler("sick", WithLogger(log)), b.marshaler("well", WithLogger(log))
		var hung atomic.Int32
		collectBut(t, b.consumer(sick, o, "t", "u"), func(*Message) bool { hung.Add(1); return true })
		eventually(t, "it is sick", func() bool { return hung.Load() > 0 })
		k := collect(t, b.consumer(well, o, "t", "u"))
		eventually(t, "the other handles all", func() bool { return k.count() >= 80 })
		end := 10
		for ; holds(well) < keysOf(whole); end++ { // what balance moved back, while there was nothing to handle in it
			require.Less(t, end, 20)
			b.fill("t", 4, end, 1)
			b.fill("u", 4, end, 1)
			eventually(t, "the other handles these too", func() bool { return k.count() >= 8*(end+1) })
		}
		given := seen.times("warning", "it is given up to well")
		assert.LessOrEqual(t, given, keysOf(whole), "each once")
		assert.Positive(t, given)
		assert.False(t, seen.has("warning", "it is given up to sick"))
		for p := range int32(4) {
			assert.Equal(t, upTo(int64(end)), k.offsets("t", p), "from the first unfinished one on")
			b.committedAt("t", p, int64(end))
		}
		sick.Terminate()
		well.Terminate()
	}
}

func keysOf(whole bool) int {
	if whole {
		return 2
	}
	return 8
}

// Alone it keeps what is stalled: hand-out goes on behind the message, and once it is finished the stall is over.
func TestAStalledPartitionOfTheOnlyMemberGoesOn(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 10)
	log, seen := logged(t)
	m := b.marshaler("a", WithLogger(log))
	var mu sync.Mutex
	var stuck *Message
	c := b.consumer(m, stallOptions, "t")
	k := collectBut(t, c, func(m *Message) bool {
		mu.Lock()
		defer mu.Unlock()
		if m.Offset == 3 {
			stuck = m
		}
		return m.Offset == 3
	})
	eventually(t, "told", func() bool { return seen.has("warning", "t/0: the message at 3 is not finished") })
	assert.Equal(t, 10, k.count())
	p := c.begun()[0]
	assert.GreaterOrEqual(t, p.stalledFor(), stallOptions.StallTimeout)
	epoch := keyOf(m, "t", 0).Epoch
	assert.GreaterOrEqual(t, keyOf(m, "t", 0).Stalled, stallOptions.StallTimeout)
	require.ErrorIs(t, c.Healthy(), ErrStalled)
	mu.Lock()
	require.NoError(t, stuck.Commit())
	mu.Unlock()
	eventually(t, "it is over", func() bool { return p.stalledFor() == 0 })
	assert.Equal(t, epoch, keyOf(m, "t", 0).Epoch)
	assert.Zero(t, keyOf(m, "t", 0).Stalled)
	require.NoError(t, c.Healthy())
	assert.Equal(t, 1, seen.times("warning", "is not finished"), "told once")
}

// Slow is not stalled: each message gets its time.
func TestAPartitionThatMovesIsNotStalled(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	b.fill("t", 1, 0, 30)
	log, seen := logged(t)
	m := b.marshaler("a", WithLogger(log))
	o := stallOptions
	o.StallTimeout = time.Second
	c := b.consumer(m, o, "t")
	ctx := within(t, patience)
	var all []*Message
	for range 30 {
		msg, err := c.FetchMessage(ctx)
		require.NoError(t, err)
		all = append(all, msg)
	}
	for _, msg := range all { // 1.5 s in all, 50 ms each
		letPass(t, 1, 50*time.Millisecond)
		require.NoError(t, msg.Commit())
	}
	assert.False(t, seen.has("warning", "is not finished"))
}

func TestStallTimeoutIsOffByDefault(t *testing.T) {
	assert.Zero(t, NewConsumerOptions().StallTimeout)
	assert.Error(t, ConsumerOptions{StallTimeout: time.Millisecond}.Validate())
	assert.Error(t, ConsumerOptions{StallTimeout: 2 * time.Hour}.Validate())
	assert.NoError(t, ConsumerOptions{StallTimeout: time.Second}.Validate())
}
