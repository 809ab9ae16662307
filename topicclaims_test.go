package marshal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// claimsUntil reads maps until one is what is wanted.
func claimsUntil(t *testing.T, c *Consumer, topics ...string) {
	t.Helper()
	want := map[string]bool{}
	for _, topic := range topics {
		want[topic] = true
	}
	eventually(t, "these topics alone", func() bool {
		select {
		case got, open := <-c.TopicClaims():
			require.True(t, open)
			if !assert.ObjectsAreEqual(want, got) {
				return false
			}
			now, err := c.GetCurrentTopicClaims()
			require.NoError(t, err)
			return assert.ObjectsAreEqual(want, now)
		default:
			return false
		}
	})
}

func TestTopicClaimsFollowWhatIsHeld(t *testing.T) {
	b := newBench(t, "t", "u")
	whole := ConsumerOptions{ClaimEntireTopic: true, RestartGrace: time.Minute}
	m1 := b.marshaler("a")
	c1 := b.consumer(m1, whole, "t", "u")
	claimsUntil(t, c1, "t", "u")
	m2 := b.marshaler("b")
	c2 := b.consumer(m2, whole, "t", "u")
	var one, other string
	eventually(t, "one topic each", func() bool {
		first, err := c1.GetCurrentTopicClaims()
		require.NoError(t, err)
		second, err := c2.GetCurrentTopicClaims()
		require.NoError(t, err)
		for topic := range first {
			one = topic
		}
		for topic := range second {
			other = topic
		}
		return len(first) == 1 && len(second) == 1 && one != other
	})
	claimsUntil(t, c1, one)
	claimsUntil(t, c2, other)

	// A lost claim, and one that comes back.
	m2.g.mu.Lock()
	m2.end("a test wants it so")
	m2.g.mu.Unlock()
	claimsUntil(t, c2)
	m2.g.mu.Lock()
	m2.rejoin()
	m2.g.mu.Unlock()
	require.True(t, c1.Terminate(true))
	assert.Empty(t, <-c1.TopicClaims(), "the last one")
	_, open := <-c1.TopicClaims()
	assert.False(t, open)
	claimsUntil(t, c2, "t", "u")

	// After Terminate(false) they are kept.
	require.True(t, c2.Terminate(false))
	_, open = <-c2.TopicClaims()
	assert.False(t, open, "no change, and the end")
	kept, err := c2.GetCurrentTopicClaims()
	require.NoError(t, err)
	assert.Equal(t, map[string]bool{"t": true, "u": true}, kept)
}

func TestAnUnreadMapOfTopicClaimsIsReplacedByTheNewest(t *testing.T) {
	tc := newTopicClaims()
	tc.set(map[string]bool{})
	select {
	case <-tc.channel:
		assert.Fail(t, "nothing has changed")
	default:
	}
	tc.set(map[string]bool{"t": true})
	tc.set(map[string]bool{"t": true, "u": true})
	got := <-tc.channel
	assert.Equal(t, map[string]bool{"t": true, "u": true}, got)
	got["mine"] = true
	assert.NotContains(t, tc.get(), "mine", "what is given is the application's own")
	tc.get()["mine"] = true
	assert.NotContains(t, tc.get(), "mine")
}

func TestTopicClaimsOutsideOfTopicMode(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	eventually(t, "held", func() bool { return holds(m) == 4 })
	_, err := c.GetCurrentTopicClaims()
	require.ErrorContains(t, err, "ClaimEntireTopic")
	select {
	case <-c.TopicClaims():
		assert.Fail(t, "it stays empty until it is closed")
	default:
	}
	m.Terminate()
	_, open := <-c.TopicClaims()
	assert.False(t, open)
}
