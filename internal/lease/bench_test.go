package lease

import (
	"fmt"
	"testing"
)

// hold makes a world in which instances hold keys of one topic, so many each.
func hold(instances, each int) (*World, []int64) {
	w := NewWorld(TopicID{})
	epochs := make([]int64, instances)
	var events []Event
	for i := range instances {
		rec := join(fmt.Sprintf("client-%d", i))
		rec.Join.TopicID = TopicID{}
		rec.Instance, rec.Seq, rec.Offset = numbered(i), 1, w.Last()+1
		events = w.Apply(&rec, events[:0])
		claim := Record{Kind: KindClaim, Instance: numbered(i), Seq: 2, Offset: w.Last() + 1}
		for p := range each {
			claim.Claim.Keys = append(claim.Claim.Keys, Key{"topic", int32(i*each + p)})
		}
		epochs[i] = claim.Offset
		events = w.Apply(&claim, events[:0])
	}
	return w, epochs
}

func numbered(i int) InstanceID { return InstanceID{1, byte(i), byte(i >> 8)} }

// BenchmarkApply/heartbeat is a heartbeat with three positions, by the instances in turn; as behind a decoder there is one
// record, filled anew each time.
func BenchmarkApply(b *testing.B) {
	for _, g := range []struct{ instances, each int }{{10, 100}, {1_000, 10}, {10_000, 100}} {
		b.Run(fmt.Sprintf("heartbeat/instances=%d/keys=%d", g.instances, g.instances*g.each), func(b *testing.B) {
			w, epochs := hold(g.instances, g.each)
			rec := Record{Kind: KindHeartbeat, Heartbeat: Heartbeat{Topics: []TopicProgress{{
				Topic: "topic", TopicID: TopicID{7}, Partitions: make([]int32, 3), Epochs: make([]int64, 3), Next: make([]int64, 3),
			}}}}
			t := &rec.Heartbeat.Topics[0]
			var events []Event
			n := 0
			b.ReportAllocs()
			for b.Loop() {
				i := n % g.instances
				rec.Instance, rec.Offset, rec.Seq = numbered(i), w.Last()+1, uint64(n)+3
				for j := range 3 {
					t.Partitions[j] = int32(i*g.each + (n/g.instances*3+j)%g.each)
					t.Epochs[j], t.Next[j] = epochs[i], int64(n)
				}
				events = w.Apply(&rec, events[:0])
				n++
			}
			if len(events) != 4 || events[3].Kind != Progressed {
				b.Fatal("the heartbeats did not count")
			}
		})
	}
	const instances, each = 10, 100
	b.Run("mixed", func(b *testing.B) {
		w, epochs := hold(instances, each)
		var events []Event
		seqs := make([]uint64, instances)
		var beat, other Record
		beat.Heartbeat.Topics = []TopicProgress{{Topic: "topic", Partitions: make([]int32, 3), Epochs: make([]int64, 3), Next: make([]int64, 3)}}
		other.Release.Keys = []ReleasedKey{{Partitions: make([]int32, 1), Next: make([]int64, 1)}}
		owner, epoch := 0, epochs[0] // of the key that goes round
		n := 0
		b.ReportAllocs()
		for b.Loop() {
			i := n % instances
			rec := &beat
			if n%10 == 9 { // nine heartbeats, then a hand-over
				rec, i = &other, owner
				owner = (owner + 1) % instances
				rec.Kind = KindRelease
				rec.Release.Successor = numbered(owner)
				k := &rec.Release.Keys[0]
				k.Key, k.Epoch, k.Partitions[0], k.Next[0] = Key{"topic", 0}, epoch, 0, int64(n)
				epoch = w.Last() + 1
			} else {
				rec.Kind = KindHeartbeat
				for j := range 3 {
					p := 1 + (n/instances*3+j)%(each-1)
					rec.Heartbeat.Topics[0].Partitions[j] = int32(i*each + p)
					rec.Heartbeat.Topics[0].Epochs[j] = epochs[i]
					rec.Heartbeat.Topics[0].Next[j] = int64(n)
				}
			}
			rec.Instance, rec.Offset, rec.Seq = numbered(i), w.Last()+1, seqs[i]+3
			seqs[i]++
			events = w.Apply(rec, events[:0])
			n++
		}
		if w.HeldCount(numbered(owner)) < each {
			b.Fatal("the hand-overs did not count")
		}
	})
}

func BenchmarkDigest(b *testing.B) {
	w, _ := hold(10, 10_000)
	for b.Loop() {
		w.Digest()
	}
}

func BenchmarkClone(b *testing.B) {
	for _, each := range []int{1, 10_000} {
		b.Run(fmt.Sprint(each*10), func(b *testing.B) {
			w, _ := hold(10, each)
			b.ReportAllocs()
			for b.Loop() {
				w.Clone()
			}
		})
	}
}

func BenchmarkParseWorld(b *testing.B) {
	w, _ := hold(10, 10_000)
	bytes := w.AppendBinary(nil)
	b.SetBytes(int64(len(bytes)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseWorld(bytes); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkSnapshot is what the author of a snapshot, and who starts from one, stands still for.
func BenchmarkSnapshot(b *testing.B) {
	for _, s := range []shape{{100_000, 100, 100}, {1_000_000, 100, 1_000}} {
		w := s.build()
		bytes := w.AppendBinary(nil)
		b.Run(fmt.Sprintf("append/%v", s), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.AppendBinary(nil)
			}
			b.ReportMetric(float64(len(bytes))/float64(s.keys), "bytes/key")
		})
		b.Run(fmt.Sprintf("parse/%v", s), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := ParseWorld(bytes); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(fmt.Sprintf("clone/%v", s), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				w.Clone()
			}
		})
	}
}

// BenchmarkMemory tells what a key and a member take, as TestAKeyTakesLessThan250Bytes does, of larger groups too.
func BenchmarkMemory(b *testing.B) {
	for _, keys := range []int{10_000, 100_000, 1_000_000} {
		for _, topics := range []int{1, 100, 10_000} {
			for _, owners := range []int{10, 400, 1_000, 10_000} {
				if topics*owners > 4_000_000 {
					continue // more interests than all Joins of a group may have
				}
				s := shape{keys, topics, owners}
				b.Run(s.String(), func(b *testing.B) {
					for b.Loop() {
						member, key := s.sizes(b)
						b.ReportMetric(key, "bytes/key")
						b.ReportMetric(member, "bytes/member")
					}
				})
			}
		}
	}
}
