package member

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// crowd is the log of a group of n instances that have joined.
func crowd(n int) (*Shared, []lease.InstanceID) {
	log := history.NewLog(history.Base{World: lease.NewWorld(lease.TopicID{})})
	ids := make([]lease.InstanceID, n)
	for i := range ids {
		binary.BigEndian.PutUint64(ids[i][:], uint64(i+1))
		log.Take(&lease.Record{Kind: lease.KindJoin, Instance: ids[i], Seq: 1, Offset: int64(i),
			Join: lease.Join{Client: fmt.Sprint(i), TTL: 10 * time.Second, MaxVersion: lease.WireVersion}}, nil, nil)
	}
	return &Shared{Log: log, Planner: &policy.Planner{}}, ids
}

// BenchmarkMeet makes a member in a group, which meets all others.
func BenchmarkMeet(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, _ := crowd(n)
			for b.Loop() {
				New(Config{Instance: instance("me"), Seed: 1}, s, Now{Mono: time.Hour})
			}
		})
	}
}

// BenchmarkStep tells a member of a settled group that one other has written a heartbeat.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			s, ids := crowd(n)
			now := Now{Mono: time.Hour}
			m := New(Config{Instance: instance("me"), Seed: 1}, s, now)
			out := m.Want(want(), now)
			offset, seq := int64(n), make([]uint64, n)
			var events []lease.Event
			take := func(rec *lease.Record) {
				rec.Offset = offset
				offset++
				events, _ = s.Log.Take(rec, nil, events[:0])
			}
			for len(out.Appends) > 0 {
				rec := out.Appends[0].Record
				take(&rec)
				out = m.Step(events, now)
			}
			rec := lease.Record{Kind: lease.KindHeartbeat, Heartbeat: lease.Heartbeat{P: -1}}
			i := 0
			for b.Loop() {
				i = (i + 1) % n
				seq[i]++
				rec.Instance, rec.Seq = ids[i], seq[i]+1
				take(&rec)
				m.Step(events, now)
			}
		})
	}
}
