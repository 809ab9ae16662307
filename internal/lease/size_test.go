package lease

import (
	"bytes"
	"crypto/sha256"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"google.golang.org/protobuf/encoding/protowire"
)

// worst encodes a value as its kind of field takes most: every number ten bytes, every tag two.
type worst []byte

func (b *worst) number(n int) {
	for range n {
		*b = protowire.AppendTag(*b, 2047, protowire.VarintType)
		*b = protowire.AppendVarint(*b, math.MaxUint64)
	}
}

func (b *worst) bytes(v []byte) {
	*b = protowire.AppendTag(*b, 2047, protowire.BytesType)
	*b = protowire.AppendBytes(*b, v)
}

func (b *worst) packed(n int) { b.bytes(bytes.Repeat(protowire.AppendVarint(nil, math.MaxUint64), n)) }

func (b *worst) key(k Key) {
	var in worst
	in.bytes([]byte(k.Topic))
	in.number(1)
	b.bytes(in)
}

func TestSizeBoundIsAboveTheWorstEncoding(t *testing.T) {
	long := strings.Repeat("t", MaxTopicName)
	id := make([]byte, 16)
	records := map[Kind]struct {
		rec  Record
		size func(b *worst)
	}{
		KindJoin: {Record{Join: Join{
			Client: long, Host: "h", Interests: []Interest{{Topics: []TopicInterest{{long, 1}, {"u", 2}}}, {}}, Pinned: keys(long+"/1", "u"),
		}}, func(b *worst) {
			b.bytes([]byte(long))
			b.bytes([]byte("h"))
			b.number(3)
			b.bytes(id)
			for _, topics := range [][]string{{long, "u"}, {}} {
				var in worst
				for _, topic := range topics {
					in.key(Key{Topic: topic})
				}
				in.number(4)
				b.bytes(in)
			}
			b.key(key(long))
			b.key(key("u"))
		}},
		KindHeartbeat: {Record{Heartbeat: Heartbeat{Topics: []TopicProgress{{Topic: long, Partitions: make([]int32, 1000), Epochs: make([]int64, 1000), Next: make([]int64, 1000)}, {Topic: "u"}}}}, func(b *worst) {
			for topic, n := range map[string]int{long: 1000, "u": 0} {
				var in worst
				in.bytes([]byte(topic))
				in.bytes(id)
				in.packed(n)
				in.packed(n)
				in.packed(n)
				b.bytes(in)
			}
			var load worst
			load.number(2)
			b.bytes(load)
			b.number(3)
		}},
		KindClaim: {Record{Claim: Claim{Keys: keys(long+"/1", "u")}}, func(b *worst) {
			b.key(key(long))
			b.key(key("u"))
			b.number(1)
		}},
		KindRelease: {Record{Release: Release{Keys: []ReleasedKey{releasing(long, 1, 2, 3), releasing("u/1", 4)}}}, func(b *worst) {
			for topic, n := range map[string]int{long: 2, "u": 0} {
				var in worst
				in.key(Key{Topic: topic})
				in.number(1)
				in.bytes(id)
				in.packed(n)
				in.packed(n)
				b.bytes(in)
			}
			b.bytes(id)
			b.number(1)
		}},
		KindEvict: {Record{Evict: Evict{Targets: make([]Target, 100)}}, func(b *worst) {
			for range 100 {
				var in worst
				in.bytes(id)
				in.number(1)
				b.bytes(in)
			}
			b.number(1)
		}},
		KindDirective: {Record{Directive: Directive{Key: key(long)}}, func(b *worst) {
			b.number(4)
			b.key(key(long))
			b.bytes(id)
		}},
		KindSnapshot: {Record{Snapshot: Snapshot{Chunk: make([]byte, 100_000)}}, func(b *worst) {
			b.number(3)
			b.bytes(id)
			b.bytes(id)
			b.bytes(make([]byte, 100_000))
		}},
		KindBase:  {Record{}, func(b *worst) { b.number(2) }},
		KindProbe: {Record{}, func(b *worst) { b.number(2) }},
	}
	leave := records[KindRelease]
	records[KindLeave] = leave
	for kind := KindJoin; kind <= KindProbe; kind++ {
		r := records[kind]
		r.rec.Kind = kind
		var content, record worst
		r.size(&content)
		if kind == KindLeave {
			content.number(2)
		}
		record.bytes(id)
		record.number(2)
		record.bytes(content)
		bound := r.rec.SizeBound()
		assert.GreaterOrEqual(t, bound, len(record)+2, "kind %d", kind)
		assert.Less(t, bound, 2*len(record)+200, "kind %d: it is a bound, but not just any", kind)
	}
}

func TestRankIsBySHA256LargestFirst(t *testing.T) {
	ids := []InstanceID{id("a"), id("b"), id("c"), id("d"), id("e"), id("f")}
	sum := func(i InstanceID) string {
		s := sha256.Sum256(append([]byte("key"), i[:]...))
		return string(s[:])
	}
	want := slices.Clone(ids)
	for i := range want {
		for j := range want[:i] {
			if sum(want[i]) > sum(want[j]) {
				want[i], want[j] = want[j], want[i]
			}
		}
	}
	Rank([]byte("key"), ids)
	assert.Equal(t, want, ids)
	other := slices.Clone(ids)
	Rank([]byte("another"), other)
	assert.NotEqual(t, ids, other)
	Rank(nil, nil)
}
