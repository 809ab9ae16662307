package marshal

import (
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Ownership: who was frozen, or is late, has lost what was given away meanwhile, and harms nobody.

// ways is a topic for each way to read.
var ways = map[string]string{"by-channel": "channel", "by-fetch": "fetch", "by-messages": "messages", "by-batches": "batches"}

// A process is stopped with messages fetched and one in its application's hands, and goes on when another has its partition: nothing of what
// it had fetched comes out, but for the one message that ConsumeChannel may have been offering. Commit does no I/O, so the one in hand may
// still be taken in the moment of waking; it changes nothing for anybody, and is refused as soon as the process has read the log.
func TestC01PausedHolderHandsOutNothingAfterTheResume(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	for topic := range ways {
		b.one(topic, 500)
	}
	q := b.marshaler("q", WithLease(5*time.Second, 100*time.Millisecond)) // its own lease is not what is looked at
	x := b.puppet(puppetry{Client: "p", TTL: 600 * time.Millisecond, Pace: 20 * time.Millisecond, Topics: ways, Options: ConsumerOptions{
		MaxInFlight: 20, CommitInterval: 50 * time.Millisecond, WatchInterval: 200 * time.Millisecond,
	}})
	for topic := range ways {
		eventually(t, "messages at the first", func() bool { return len(x.said(0, "commit", topic)) >= 3 })
	}
	x.signal(syscall.SIGSTOP)
	ks := map[string]*collector{}
	for topic := range ways {
		ks[topic] = collect(t, b.consumer(q, ConsumerOptions{GreedyClaims: true, CommitInterval: 50 * time.Millisecond}, topic))
	}
	lowest := map[string]int64{}
	neverBack := func() {
		for topic := range ways {
			next := keyOf(q, topic, 0).Next
			assert.GreaterOrEqual(t, next, lowest[topic], "the position of %s", topic)
			lowest[topic] = next
		}
	}
	for topic := range ways {
		eventually(t, "all the rest at the other", func() bool {
			neverBack()
			at := ks[topic].offsets(topic, 0)
			return len(at) > 0 && at[len(at)-1] == 499
		})
	}
	tokens := map[string]string{}
	for topic := range ways {
		handed := x.said(0, "handed", topic)
		tokens[topic] = handed[len(handed)-1][1]
	}
	frozen := x.now()
	x.signal(syscall.SIGCONT)
	eventually(t, "it has joined again", func() bool { neverBack(); return alive(q) == 2 })
	q.Terminate()
	for topic := range ways {
		b.fill(topic, 1, 500, 50)
		eventually(t, "it has what is new, in its new life", func() bool {
			handed := x.said(frozen, "handed", topic)
			return len(handed) > 0 && handed[len(handed)-1][0] == "549"
		})
	}
	x.signal(syscall.SIGTERM)
	for topic, way := range ways {
		eventually(t, "its end", func() bool { return len(x.said(0, "terminated", topic)) == 1 })
		old := slices.DeleteFunc(x.said(frozen, "handed", topic), func(l []string) bool { return l[1] != tokens[topic] })
		late := 0
		if way == "channel" {
			late = 1
		}
		assert.LessOrEqual(t, len(old), late, "%s: handed out after the resume: %v", topic, old)
		if first := x.said(frozen, "commit", topic)[0]; way == "fetch" && first[1] == tokens[topic] {
			assert.Contains(t, first[2], ErrClaimLost.Error(), "CommitMessages, which waits for the log, of what was in hand")
		}
		again := x.said(frozen, "again", topic)
		require.Len(t, again, 1)
		assert.Contains(t, again[0][2], ErrClaimLost.Error(), "%s: the commit of a message of before", topic)
		at, _, err := b.Committed(testGroup, topic, 0)
		require.NoError(t, err)
		assert.EqualValues(t, 550, at, "%s", topic)
	}
}
