package lease

import (
	"bytes"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The shard of a group is the first eight bytes of the SHA-256 of its name, big-endian, modulo 32. These were computed elsewhere.
func TestTheShardOfAGroup(t *testing.T) {
	assert.Equal(t, 32, Shards)
	for group, want := range map[string]int32{"": 20, "a": 10, "billing": 23, "orders": 4} {
		assert.Equal(t, want, ShardOf(group), group)
	}
}

func TestAPlaceIsWhatRankSortsBy(t *testing.T) {
	ids := []InstanceID{id("a"), id("b"), id("c"), id("d"), id("e")}
	Rank([]byte("x"), ids)
	for i, in := range ids[1:] {
		one, next := Place([]byte("x"), ids[i]), Place([]byte("x"), in)
		assert.Positive(t, bytes.Compare(one[:], next[:]))
	}
}

func TestAWalkEndsWhereItIsLeft(t *testing.T) {
	s := rich(t)
	s.claim("a", "t/1", "t/2", "far/1000000", "far/1")
	require.NoError(t, checkWorld(s.w))
	for name, walk := range map[string]func(each func() bool){
		"Instances": func(each func() bool) { s.w.Instances()(func(*Instance) bool { return each() }) },
		"Leases":    func(each func() bool) { s.w.Leases()(func(Key, Lease) bool { return each() }) },
		"Holdings":  func(each func() bool) { s.w.Holdings()(func(Key, Holding) bool { return each() }) },
		"HeldBy":    func(each func() bool) { s.w.HeldBy(id("a"))(func(Key, Lease) bool { return each() }) },
		"Progress":  func(each func() bool) { s.w.AllProgress()(func(Key, Progress) bool { return each() }) },
		"Conflicts": func(each func() bool) { s.w.Conflicts(key("t"))(func(Key, Lease) bool { return each() }) },
		"topics":    func(each func() bool) { s.w.topics.all()(func(*topic) bool { return each() }) },
		"slots": func(each func() bool) {
			s.w.topics.find("far").slots.partitions()(func(*slot) bool { return each() })
		},
	} {
		t.Run(name, func(t *testing.T) {
			all := 0
			walk(func() bool { all++; return true })
			require.GreaterOrEqual(t, all, 2)
			for stop := 1; stop <= all; stop++ {
				n := 0
				walk(func() bool { n++; return n < stop })
				assert.Equal(t, stop, n)
			}
		})
	}
}

func TestWhoHoldsWhatIsInTheWay(t *testing.T) {
	s := rich(t)
	s.claim("a", "t/2")
	ways := func(k string) (in []string) {
		for c, l := range s.w.Conflicts(key(k)) {
			in = append(in, c.Topic+"/"+string(rune('0'+max(c.Partition, 0)))+" "+name(l.Instance))
		}
		return in
	}
	assert.Equal(t, []string{"t/0 a", "t/2 a"}, ways("t"))
	assert.Equal(t, []string{"t/2 a"}, ways("t/2"))
	assert.Equal(t, []string{"u/0 b"}, ways("u/5"), "the whole topic")
	assert.Empty(t, ways("t/1"))
	assert.Empty(t, ways("nothing"))
	_, _, ok := s.w.Owner("t", 1)
	assert.False(t, ok)
	_, _, ok = s.w.Conflict(key("t/1"))
	assert.False(t, ok)
}

func TestWhatIsAskedOfAWorld(t *testing.T) {
	s := rich(t)
	assert.True(t, s.w.HasClient("client-a"))
	assert.False(t, s.w.HasClient("nobody"))
	assert.False(t, s.w.HasClient(s.w.instances[id("parked")].Client), "the parked do not count")
	assert.True(t, s.w.HasMarks())
	assert.True(t, s.w.HasMark(key("t/1")))
	assert.False(t, s.w.HasMark(key("t/0")))
	s.park("a", time.Minute)
	s.write("b", wanting("client-b", TopicInterest{"t", 4}))
	marked := slices.Collect(func(yield func(Key) bool) {
		for _, k := range keys("t/0", "t/1", "u") {
			if s.w.HasMark(k) && !yield(k) {
				return
			}
		}
	})
	assert.Equal(t, s.w.HasMarks(), len(marked) > 0)
}
