package marshal

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// Events that take more than one process, or a log that is not what it was.

func TestAPositionThatWasSetIsHeardWithWhereAndByWhom(t *testing.T) {
	b := newBench(t)
	b.one("t", 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	eventually(t, "a claim", func() bool { return holds(m) == 1 })
	own := listen(t, c)
	require.NoError(t, b.marshaler("tool").Seek(within(t, patience), "t", 0, 4))
	e := own.wait(t, OffsetChanged)
	assert.Equal(t, []any{"t", int32(0), int64(4), "tool", testGroup}, []any{e.Topic, e.Partition, e.Offset, e.Client, e.Group})
	assert.Len(t, e.Instance, 8)
}

func TestADrainThatComesToNothingIsHeard(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	c1 := b.consumer(b.marshaler("a"), ConsumerOptions{DrainTimeout: time.Minute, MaxInFlight: 1}, "t")
	own := listen(t, c1)
	held := hold(t, c1, 4)
	c2 := b.consumer(b.marshaler("b"), ConsumerOptions{}, "t")
	eventually(t, "two that are to move", func() bool { return len(own.of(ClaimDraining)) == 2 })
	assert.True(t, c2.Terminate(true))
	eventually(t, "both go on", func() bool { return len(own.of(ClaimResumed)) == 2 })
	assert.Empty(t, own.of(ClaimReleased, ClaimLost))
	for _, e := range own.of(ClaimResumed) {
		assert.Equal(t, held[0].Topic, e.Topic)
		assert.Positive(t, e.Token)
	}
	for _, msg := range held {
		require.NoError(t, msg.Commit())
	}
}

func TestAStalledPartitionThatIsGivenUpIsHeard(t *testing.T) {
	b := newBench(t)
	b.one("t", 10)
	m := b.marshaler("a")
	c := b.consumer(m, stallOptions, "t")
	own := listen(t, c)
	hold(t, c, 1)
	k := collect(t, b.consumer(b.marshaler("b"), stallOptions, "t"))
	e := own.wait(t, ClaimGivenUp)
	assert.Equal(t, []any{"t", int32(0)}, []any{e.Topic, e.Partition})
	eventually(t, "all at the other", func() bool { return k.count() == 10 })
	own.wait(t, ClaimReleased)
	assert.Empty(t, own.of(ClaimLost), "it is not against our will")
}

func TestAHistoryThatBeganAnewIsHeard(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	own := listen(t, b.consumer(m, ConsumerOptions{}, "t"))
	eventually(t, "claims", func() bool { return len(own.of(ClaimStarted)) == 4 })
	require.NoError(t, b.RecreateTopic(MarshalTopic, 32, nil))
	own.wait(t, HistoryDiffers)
	eventually(t, "the end of each", func() bool { return len(own.of(ClaimLost)) == 4 })
	eventually(t, "new claims", func() bool { return len(own.of(ClaimStarted)) == 8 })
}

// TestAnotherHashWhereNoBaseIsLeftEndsNoClaim: the log's start has passed every base; what is left is held against what this
// process remembers.
func TestAnotherHashWhereNoBaseIsLeftEndsNoClaim(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	own := listen(t, b.consumer(m, ConsumerOptions{}, "t"))
	eventually(t, "claims", func() bool { return len(own.of(ClaimStarted)) == 4 })
	_, next, err := b.Offsets(MarshalTopic, shardOf(testGroup))
	require.NoError(t, err)
	require.NoError(t, b.DeleteRecords(MarshalTopic, shardOf(testGroup), next-1))
	b.scribble(appendRecord(nil, &lease.Record{Kind: lease.KindHeartbeat, Version: lease.WireVersion, Instance: lease.InstanceID{9}, Seq: 2,
		Heartbeat: lease.Heartbeat{P: next - 1, Hash: 1}}))
	eventually(t, "the second reading", func() bool {
		return slices.ContainsFunc(own.of(HistoryDiffers), func(e Event) bool { return strings.Contains(e.Text, "is what this process had read") })
	})
	assert.Empty(t, own.of(ClaimLost))
	eventually(t, "no doubt any more", func() bool {
		m.g.mu.Lock()
		defer m.g.mu.Unlock()
		return !m.g.log.Doubted()
	})
}

// TestTheLogIsInDoubtUntilItCouldBeReadAgain: a second reading that fails decides nothing.
func TestTheLogIsInDoubtUntilItCouldBeReadAgain(t *testing.T) {
	b := newBench(t, "t")
	b.remains.torn = "a heartbeat says that its author has read another history"
	m := b.marshaler("a", WithLease(10*time.Second, 0))
	own := listen(t, b.consumer(m, ConsumerOptions{}, "t"))
	eventually(t, "claims", func() bool { return len(own.of(ClaimStarted)) == 4 })
	_, next, err := b.Offsets(MarshalTopic, shardOf(testGroup))
	require.NoError(t, err)
	refused := b.Faults().Add(testutil.Fault{Client: "a", Keys: []kmsg.Key{kmsg.ListOffsets}, Do: testutil.Cut})
	b.scribble(appendRecord(nil, &lease.Record{Kind: lease.KindHeartbeat, Version: lease.WireVersion, Instance: lease.InstanceID{9}, Seq: 2,
		Heartbeat: lease.Heartbeat{P: next - 1, Hash: 1}}))
	doubted := func() bool {
		m.g.mu.Lock()
		defer m.g.mu.Unlock()
		return m.g.log.Doubted()
	}
	eventually(t, "some tries", func() bool { return refused.Hits() > 3 })
	assert.True(t, doubted())
	refused.Remove()
	eventually(t, "it could be read", func() bool { return !doubted() })
	assert.Empty(t, own.of(ClaimLost))
}

func TestANewerVersionOfAMemberIsHeardAndEndsTheClaims(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{}, "t")
	own := listen(t, c)
	eventually(t, "claims", func() bool { return len(own.of(ClaimStarted)) == 4 })
	joins := lease.Record{Kind: lease.KindJoin, Instance: lease.InstanceID{9}, Seq: 1, Version: 2, Join: lease.Join{Client: "new", TTL: time.Second, MaxVersion: 3}}
	newer := lease.Record{Kind: lease.KindHeartbeat, Instance: lease.InstanceID{9}, Seq: 2, Version: 3}
	b.scribble(appendRecord(nil, &joins), appendRecord(nil, &newer))
	e := own.wait(t, UpgradeNeeded)
	assert.ErrorIs(t, e.Err, ErrUpgradeNeeded)
	eventually(t, "the end of each", func() bool { return len(own.of(ClaimLost)) == 4 })
	assert.ErrorIs(t, m.Healthy(), ErrUpgradeNeeded)
	assert.ErrorIs(t, c.Healthy(), ErrUpgradeNeeded)
}
