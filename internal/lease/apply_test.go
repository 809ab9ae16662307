package lease

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

// A replay is nine tenths heartbeats.
func TestAHeartbeatAllocatesNothing(t *testing.T) {
	w, epochs := hold(2, 10)
	rec := Record{Kind: KindHeartbeat, Instance: numbered(1), Seq: 2, Heartbeat: Heartbeat{Topics: []TopicProgress{{
		Topic: "topic", TopicID: TopicID{7}, Partitions: []int32{10, 15, 19}, Epochs: []int64{epochs[1], epochs[1], epochs[1]}, Next: []int64{1, 1, 1},
	}}}}
	events := make([]Event, 0, 8)
	allocations := testing.AllocsPerRun(100, func() {
		rec.Offset, rec.Seq = w.Last()+1, rec.Seq+1
		for i := range rec.Heartbeat.Topics[0].Next {
			rec.Heartbeat.Topics[0].Next[i]++
		}
		events = w.Apply(&rec, events[:0])
	})
	assert.Len(t, events, 4)
	assert.Zero(t, allocations)
}

// The slice of events is the caller's, to be used again.
func TestApplyAppendsToTheEventsThatItIsGiven(t *testing.T) {
	w := NewWorld(TopicID{})
	before := []Event{{Kind: Newer}}
	rec := join("client")
	rec.Instance, rec.Seq = id("a"), 1
	events := w.Apply(&rec, before)
	assert.Equal(t, []EventKind{Newer, Renewed, Joined}, []EventKind{events[0].Kind, events[1].Kind, events[2].Kind})
}
