package audit

import (
	"testing"
	"time"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
)

// BenchmarkTake audits heartbeats with three positions, which most of a log consists of.
func BenchmarkTake(b *testing.B) {
	a := New(&history.Base{World: lease.NewWorld(coordination)})
	keys := []lease.Key{key("t/0"), key("t/1"), key("t/2")}
	a.Take(Message{Record: &lease.Record{Kind: lease.KindJoin, Instance: id("a"), Seq: 1, Join: lease.Join{Client: "client", TTL: time.Second, TopicID: coordination}}})
	a.Take(Message{Record: &lease.Record{Kind: lease.KindClaim, Offset: 1, Instance: id("a"), Seq: 2, Claim: lease.Claim{Keys: keys}}})
	next := []int64{0, 0, 0}
	rec := lease.Record{Kind: lease.KindHeartbeat, Instance: id("a"), Heartbeat: lease.Heartbeat{P: -1, Topics: []lease.TopicProgress{{
		Topic: "t", Partitions: []int32{0, 1, 2}, Epochs: []int64{1, 1, 1}, Next: next,
	}}}}
	b.ReportAllocs()
	for n := int64(2); b.Loop(); n++ {
		rec.Offset, rec.Seq = n, uint64(n)+1
		next[0], next[1], next[2] = n, n, n
		a.Take(Message{Record: &rec})
	}
}
