package marshal

import (
	"encoding/json"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
	"github.com/kafka-marshal/marshal/testutil"
)

func TestStateTellsWhatIsUpWithOurOwnClaims(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{OnOutOfRange: FailOutOfRange, DrainTimeout: time.Minute}, "t")
	ctx := within(t, patience)
	eventually(t, "all begun", func() bool { return c.Lag() == 40 })
	for p := range int32(4) {
		k := keyOf(m, "t", p)
		assert.Empty(t, k.Pending)
		assert.False(t, k.Paused || k.Draining || k.Failed != "" || k.Stalled > 0 || k.Why != "", "%v", k)
	}
	c.Pause("t", 1)
	assert.True(t, keyOf(m, "t", 1).Paused)
	assert.False(t, keyOf(m, "t", 2).Paused)
	c.Resume("t", 1)
	assert.False(t, keyOf(m, "t", 1).Paused)

	m.withMember(func(now member.Now) member.Output {
		return m.member.Seek(lease.Key{Topic: "t", Partition: 2}, lease.TopicID{}, 500, lease.NoEpoch, now)
	})
	eventually(t, "failed", func() bool { return keyOf(m, "t", 2).Failed != "" })
	assert.Contains(t, keyOf(m, "t", 2).Failed, "out of range")
	assert.Contains(t, keyOf(m, "t", 2).String(), "out of range")
	assert.Empty(t, keyOf(m, "t", 1).Failed)

	msg, err := c.FetchMessage(ctx)
	for err != nil { // the partition that failed
		require.NoError(t, ctx.Err())
		msg, err = c.FetchMessage(ctx)
	}
	done := make(chan bool, 1)
	var wg sync.WaitGroup
	wg.Go(func() { done <- c.Terminate(true) })
	eventually(t, "draining", func() bool { return keyOf(m, "t", msg.Partition).Draining })
	require.NoError(t, msg.Commit())
	require.True(t, <-done)
}

func TestStateTellsWhyAClaimHasNotBegun(t *testing.T) {
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	f := b.Faults().Add(testutil.Fault{Client: "a", Keys: []kmsg.Key{kmsg.OffsetFetch}, Do: testutil.Freeze})
	m := b.marshaler("a")
	b.consumer(m, ConsumerOptions{}, "t")
	eventually(t, "pending", func() bool { return keyOf(m, "t", 0).Pending != "" })
	assert.Contains(t, keyOf(m, "t", 0).String(), "not begun: ")
	f.Remove()
	eventually(t, "begun", func() bool { return keyOf(m, "t", 0).Instance != "" && keyOf(m, "t", 0).Pending == "" })
}

func TestStateTellsWhatNobodyReadsAndWhy(t *testing.T) {
	b := newBench(t, "t", "gone")
	b.fill("t", 4, 0, 10)
	b.fill("gone", 4, 0, 1)
	watch := b.marshaler("watch")
	m1 := b.marshaler("a")
	c1 := b.consumer(m1, ConsumerOptions{MaximumClaims: 3, RestartGrace: time.Minute}, "t", "missing")
	eventually(t, "three", func() bool { return holds(m1) == 3 })
	why := func(topic string, part string) bool {
		for _, k := range watch.State().Keys {
			if k.Topic == topic && strings.Contains(k.Why, part) {
				return true
			}
		}
		return false
	}
	eventually(t, "cap", func() bool { return why("t", "at the maximum") })
	eventually(t, "missing", func() bool { return why("missing", "no such topic, or its members may not see it") })

	m2 := b.marshaler("b")
	k := collect(t, b.consumer(m2, ConsumerOptions{}, "gone"))
	eventually(t, "read", func() bool { return k.count() == 4 })
	m2.Terminate()
	eventually(t, "no interest", func() bool { return why("gone", "no member wants it") })
	assert.EqualValues(t, 1, keyOf(watch, "gone", 0).Next)

	require.True(t, c1.Terminate(false))
	m1.Terminate()
	eventually(t, "parked", func() bool { return why("t", "parked, kept for the next run of a, for up to") })
	for _, k := range watch.State().Keys {
		if k.Instance != "" {
			assert.Regexp(t, `for up to (1m0|[345]\d)s more`, k.Why)
		}
	}
}

// Programs read these names.
func TestTheNamesOfAKeyInJSON(t *testing.T) {
	k := KeyState{
		Topic: "t", Instance: "i", Client: "c", Epoch: 1, Token: 2, Next: 3, Parts: []int64{4}, Why: "w", Pending: "p", Paused: true,
		Draining: true, Stalled: 5, Failed: "f",
	}
	text, err := json.Marshal(k)
	require.NoError(t, err)
	assert.JSONEq(t, `{"topic":"t","partition":0,"instance":"i","client":"c","epoch":1,"token":2,"next":3,"parts":[4],"why":"w",
		"pending":"p","paused":true,"draining":true,"stalled_ns":5,"failed":"f"}`, string(text))
}
