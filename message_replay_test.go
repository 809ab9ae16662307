package marshal

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
)

// replayLog writes n messages of a busy group: 20 instances on 1,000 partitions, 90 % of the records heartbeats with three
// positions, the others hand-overs, claims, changed interests and probes.
func replayLog(t testing.TB, n int) (values [][]byte) {
	r := rand.New(rand.NewPCG(1, 1))
	topics := []string{"orders", "payments", "shipments", "page-views", "audit"}
	const perTopic, instances = 200, 20
	log := history.NewLog(history.Base{World: lease.NewWorld(lease.TopicID{})})
	var ids [instances]lease.InstanceID
	var seqs [instances]uint64
	var d decoder
	var back lease.Record
	var events []lease.Event
	write := func(i int, rec *lease.Record) {
		if hasAuthor(rec.Kind) {
			seqs[i]++
			rec.Instance, rec.Seq = ids[i], seqs[i]
		}
		value := appendRecord(nil, rec)
		d.decode(value, &back)
		back.Offset = int64(len(values))
		var outcome history.Outcome
		events, outcome = log.Take(&back, value, events[:0])
		require.Equal(t, history.Fine, outcome)
		for _, e := range events {
			require.NotEqual(t, lease.Ignored, e.Kind, "%+v", e)
		}
		values = append(values, value)
	}
	join := func(i int) {
		in := lease.Interest{}
		for _, topic := range topics {
			in.Topics = append(in.Topics, lease.TopicInterest{Topic: topic, Partitions: perTopic})
		}
		write(i, &lease.Record{Kind: lease.KindJoin, Join: lease.Join{Client: "client", TTL: 10 * time.Second, MaxVersion: 2,
			TokenBase: 1 << 40, Interests: []lease.Interest{in}}})
	}
	var held [instances][]lease.Key
	for i := range instances {
		ids[i] = lease.InstanceID{byte(i + 1)}
		join(i)
		for p := range int32(perTopic / instances) {
			for _, topic := range topics {
				held[i] = append(held[i], lease.Key{Topic: topic, Partition: int32(i)*perTopic/instances + p})
			}
		}
		write(i, &lease.Record{Kind: lease.KindClaim, Claim: lease.Claim{Keys: held[i]}})
	}
	next := int64(1_000_000)
	for len(values) < n {
		i := r.IntN(instances)
		what := r.IntN(100)
		next += 10
		switch {
		case what < 90:
			p, hash := log.Position()
			h := lease.Heartbeat{P: p, Hash: hash, Load: lease.Load{InFlight: int64(r.IntN(1000)), Lag: int64(r.IntN(100_000))}}
			topic := lease.TopicProgress{Topic: topics[r.IntN(len(topics))], TopicID: lease.TopicID{7}}
			for _, k := range held[i] {
				if k.Topic == topic.Topic && len(topic.Next) < 3 {
					l, _ := log.World().Lease(k)
					topic.Partitions, topic.Epochs, topic.Next = append(topic.Partitions, k.Partition), append(topic.Epochs, l.Epoch), append(topic.Next, next)
				}
			}
			h.Topics = []lease.TopicProgress{topic}
			write(i, &lease.Record{Kind: lease.KindHeartbeat, Heartbeat: h})
		case what < 95 && len(held[i]) > 30:
			to, at := (i+1)%instances, r.IntN(len(held[i]))
			k := held[i][at]
			l, _ := log.World().Lease(k)
			held[i] = append(held[i][:at:at], held[i][at+1:]...)
			held[to] = append(held[to], k)
			write(i, &lease.Record{Kind: lease.KindRelease, Release: lease.Release{Successor: ids[to], Keys: []lease.ReleasedKey{
				{Key: k, Epoch: l.Epoch, TopicID: lease.TopicID{7}, Partitions: []int32{k.Partition}, Next: []int64{next}}}}})
		case what < 97:
			join(i)
		case what < 98:
			write(i, &lease.Record{Kind: lease.KindProbe, Probe: lease.Probe{Nonce: r.Uint64()}})
		default:
			write(i, &lease.Record{Kind: lease.KindClaim, Claim: lease.Claim{Keys: held[i][:5]}})
		}
	}
	return values
}

// BenchmarkReplay decodes and applies a group's log, as a process does that starts. One op is one record.
func BenchmarkReplay(b *testing.B) {
	values := replayLog(b, 50_000)
	var d decoder
	var rec lease.Record
	var events []lease.Event
	var log *history.Log
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		at := i % len(values)
		if at == 0 {
			log = history.NewLog(history.Base{World: lease.NewWorld(lease.TopicID{})})
		}
		d.decode(values[at], &rec)
		rec.Offset = int64(at)
		var outcome history.Outcome
		if events, outcome = log.Take(&rec, values[at], events[:0]); outcome != history.Fine {
			b.Fatal(outcome)
		}
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "records/s")
}
