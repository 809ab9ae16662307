package lease

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// What is walked is in order and whole, whatever was added and removed since the last walk.
func TestHeldListIsASetInOrder(t *testing.T) {
	for seed := range uint64(50) {
		rng := rand.New(rand.NewPCG(seed, 0))
		topics := []*topic{{name: "a"}, {name: "b"}, {name: "c"}}
		var l heldList
		want := map[*slot]bool{}
		var all []*slot
		for i := range 60 {
			all = append(all, &slot{topic: topics[i%3], partition: int32(i / 3), at: free})
		}
		for range 500 {
			switch s := all[rng.IntN(len(all))]; {
			case rng.IntN(20) == 0: // a walk
				got := l.ordered()
				require.True(t, slices.IsSortedFunc(got, compareSlots), "seed %d", seed)
				require.Len(t, got, len(want))
				for i, s := range got {
					require.True(t, want[s])
					require.EqualValues(t, i, s.at)
				}
			case s.held():
				require.True(t, want[s])
				l.remove(s)
				delete(want, s)
			default:
				require.False(t, want[s])
				l.add(s)
				want[s] = true
			}
			require.Equal(t, len(want), l.len())
			require.Equal(t, len(want) == 0, l.last() == nil)
		}
		for s := l.last(); s != nil; s = l.last() {
			l.remove(s)
		}
		require.Zero(t, l.len())
		require.Empty(t, l.ordered())
	}
}

// A topic finds its partitions whatever the order in which they come, and walks them in order.
func TestIndexInAnyOrder(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		partitions := rng.Perm(2000)
		partitions = append(partitions[:rng.IntN(2000)], 1<<30, 1<<20)
		rng.Shuffle(len(partitions), func(i, j int) { partitions[i], partitions[j] = partitions[j], partitions[i] })
		var x index
		for count, p := range partitions {
			require.Nil(t, x.at(int32(p)))
			x.put(&slot{partition: int32(p)}, count)
		}
		slices.Sort(partitions)
		i := 0
		for s := range x.partitions() {
			require.EqualValues(t, partitions[i], s.partition)
			require.Same(t, s, x.at(s.partition))
			i++
		}
		require.Equal(t, len(partitions), i)
		require.LessOrEqual(t, len(x.near), 2*(4*len(partitions)+16), "in proportion to the slots")
		x.drop(1 << 30)
		require.Nil(t, x.at(1<<30))
	}
}
