package marshal

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/kafka"
)

// readTo lets a group of one process finish the first n messages of each of three partitions, and end.
func (b *bench) readTo(n int64, o ConsumerOptions) {
	b.t.Helper()
	require.NoError(b.t, b.CreateTopic("t", 3, nil))
	b.fill("t", 3, 0, 10)
	m := b.marshaler("a")
	o.DrainTimeout = 20 * time.Millisecond
	k := collectBut(b.t, b.consumer(m, o, "t"), func(m *Message) bool { return m.Offset >= n })
	eventually(b.t, "all messages", func() bool { return k.count() == 30 })
	m.Terminate()
	k.stop()
}

// reset sets offsets as Kafka's own tools do.
func (b *bench) reset(m *Marshaler, offsets map[int32]int64) {
	b.t.Helper()
	var set []kafka.Committed
	for p, offset := range offsets {
		set = append(set, kafka.Committed{Topic: "t", Partition: p, Offset: offset})
	}
	require.NoError(b.t, m.c.client.CommitOffsets(within(b.t, patience), testGroup, set))
	for i := range set {
		require.NoError(b.t, set[i].Err)
	}
}

// goesOn starts a consumer and requires that it begins exactly there; one more message comes behind what is there.
func (b *bench) goesOn(m *Marshaler, o ConsumerOptions, from ...int64) {
	b.t.Helper()
	b.fill("t", 3, 0, 1)
	_, end, err := b.Offsets("t", 0)
	require.NoError(b.t, err)
	k := collect(b.t, b.consumer(m, o, "t"))
	total := 0
	for _, at := range from {
		total += int(end - at)
	}
	eventually(b.t, fmt.Sprintf("%d messages", total), func() bool { return k.count() >= total })
	for p, at := range from {
		assert.Equal(b.t, upTo(end)[at:], k.offsets("t", int32(p)), "partition %d", p)
	}
}

func TestOffsetsThatWereResetOnAStoppedGroup(t *testing.T) {
	for _, c := range []struct {
		name  string
		reset map[int32]int64
		from  []int64
	}{
		{"to earlier", map[int32]int64{0: 1, 1: 2, 2: 0}, []int64{1, 2, 0}},
		{"to later", map[int32]int64{0: 7, 1: 8, 2: 10}, []int64{7, 8, 10}},
		{"of some partitions only", map[int32]int64{1: 2}, []int64{5, 2, 5}},
		{"to where it stands", map[int32]int64{0: 5}, []int64{5, 5, 5}},
	} {
		for _, whole := range []bool{false, true} {
			b := newBench(t)
			o := ConsumerOptions{ClaimEntireTopic: whole, CommitInterval: 20 * time.Millisecond}
			b.readTo(5, o)
			log, seen := logged(t)
			m := b.marshaler("b", WithLogger(log))
			b.reset(m, c.reset)
			b.goesOn(m, o, c.from...)
			for p, at := range c.reset {
				told := fmt.Sprintf("t/%d was set from outside to %d", p, at)
				if c.from[p] != 5 {
					eventually(t, c.name+": "+told, func() bool { return seen.has("info", told) })
				}
				b.committedAt("t", p, 11)
				assert.Equal(t, c.from[p] != 5, seen.has("info", told), "%s: %s", c.name, told)
			}
			m.Terminate()
			b.goesOn(b.marshaler("c"), o, 11, 11, 11) // it is not news again
		}
	}
}

// A group whose coordination log is gone, or was trimmed, has no positions but Kafka's.
func TestOffsetsThatWereResetOnAGroupWhoseCoordinationLogIsGone(t *testing.T) {
	for _, whole := range []bool{false, true} {
		b := newBench(t)
		o := ConsumerOptions{ClaimEntireTopic: whole, CommitInterval: 20 * time.Millisecond}
		b.readTo(5, o)
		require.NoError(t, b.RecreateTopic(MarshalTopic, 32, nil))
		m := b.marshaler("b")
		require.Empty(t, m.State().Keys, "nothing of before")
		b.reset(m, map[int32]int64{0: 2, 2: 9})
		b.goesOn(m, o, 2, 5, 9)
		for p := range int32(3) {
			b.committedAt("t", p, 11)
		}
	}
}
