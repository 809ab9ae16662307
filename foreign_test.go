package marshal

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// A record of an author that has not joined.
func strangersHeartbeat() []byte {
	return appendRecord(nil, &lease.Record{Kind: lease.KindHeartbeat, Version: lease.WireVersion, Instance: lease.InstanceID{1}, Seq: 7, Heartbeat: lease.Heartbeat{P: -1}})
}

func TestAForeignRecordIsToldOnceAndCounted(t *testing.T) {
	for name, c := range map[string]struct {
		value []byte
		says  string
	}{
		"cannot be read":       {[]byte("nonsense"), "cannot be read"},
		"empty":                {nil, "cannot be read"},
		"of the original":      {[]byte("Heartbeat/1/1448572397/instance/client/group/topic/3/12345"), "is one of the original Marshal"},
		"of one who never was": {strangersHeartbeat(), "is of 01000000, which has never joined"},
		"newer, of nobody":     {append([]byte{0, 3}, strangersHeartbeat()[2:]...), "is of 01000000, which has never joined"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			b.strangers("foreign records are what this is about")
			log, seen := logged(t)
			m := b.marshaler("a", WithLogger(log))
			other := b.marshaler("b")
			heard, heardToo := listen(t, m), listen(t, other)
			require.Zero(t, m.State().Foreign)
			b.scribble(c.value, c.value, c.value)
			eventually(t, "all counted", func() bool { return m.State().Foreign == 3 && other.State().Foreign == 3 })
			e := heard.wait(t, ForeignRecord)
			heardToo.wait(t, ForeignRecord)
			assert.Equal(t, testGroup, e.Group)
			assert.Positive(t, e.Offset)
			for _, part := range []string{fmt.Sprintf("%s/%d offset %d (%d bytes)", MarshalTopic, shardOf(testGroup), e.Offset, len(c.value)), c.says} {
				assert.Contains(t, e.Text, part)
			}
			eventually(t, "a line", func() bool { return seen.has("warning", e.Text) })
			assert.Equal(t, 1, seen.times("warning", "somebody else writes"))
			assert.Len(t, heard.of(ForeignRecord), 1)
			assert.Contains(t, m.State().String(), "3 records by somebody else")

			m.g.mu.Lock()
			m.g.foreign.told = m.g.foreign.told.Add(-remindEvery)
			m.g.mu.Unlock()
			b.scribble(c.value)
			eventually(t, "told again with the count", func() bool { return seen.has("warning", "skipped, 4 so far") })
		})
	}
}

func TestLateRecordsOfMembersAreNotForeign(t *testing.T) {
	b := newBench(t, "t")
	log, seen := logged(t)
	m := b.marshaler("a", WithLogger(log))
	left := b.marshaler("b")
	b.consumer(left, ConsumerOptions{}, "t")
	eventually(t, "claims", func() bool { return holds(left) == 4 })
	of := b.written(left)
	left.Terminate()
	parked := b.marshaler("c")
	c := b.consumer(parked, ConsumerOptions{RestartGrace: time.Minute}, "t")
	eventually(t, "claims", func() bool { return holds(parked) == 4 })
	require.True(t, c.Terminate(false))
	parked.Terminate()
	of = append(of, b.written(m)...)
	b.scribble(of...) // of ended, parked and living ones, all a second time
	b.scribble(nil)   // and one that is foreign
	b.strangers("the last one is foreign")
	eventually(t, "read", func() bool { return m.State().Foreign > 0 })
	assert.EqualValues(t, 1, m.State().Foreign)
	eventually(t, "told", func() bool { return seen.has("warning", "cannot be read") })
}

// What the members of before a Base had under way is late, too.
func TestRecordsJustAfterABaseAreNotForeign(t *testing.T) {
	b := newBench(t)
	m := b.marshaler("a")
	at := int64(1_000_000)
	g := m.g
	g.mu.Lock()
	defer g.mu.Unlock()
	g.reading.record = lease.Record{Kind: lease.KindHeartbeat, Instance: lease.InstanceID{1}}
	unknown := []lease.Event{{Kind: lease.Ignored, Reason: lease.AuthorUnknown}}
	g.meet(&entry{timestamp: at}, []lease.Event{{Kind: lease.Rebased}})
	g.meet(&entry{timestamp: at + 500}, unknown)
	assert.Zero(t, g.foreign.count)
	g.meet(&entry{timestamp: at + lateFor.Milliseconds() + 1}, unknown)
	assert.EqualValues(t, 1, g.foreign.count)
}
