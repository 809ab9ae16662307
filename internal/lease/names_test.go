package lease

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestTopicTableIsAMap(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 0))
		var x topicTable
		want := map[string]*topic{}
		most := 1 + rng.IntN(300)
		for range 3000 {
			name := fmt.Sprint(rng.IntN(most))
			require.Same(t, want[name], x.find(name), "seed %d", seed)
			if old := want[name]; old != nil {
				x.remove(old)
				delete(want, name)
			} else {
				want[name] = &topic{name: name}
				x.add(want[name])
			}
			require.Equal(t, len(want), x.count)
		}
		n := 0
		for o := range x.all() {
			require.Same(t, want[o.name], o)
			n++
		}
		require.Equal(t, len(want), n)
		require.LessOrEqual(t, len(x.cells), max(8, 4*most), "in proportion to the topics")
	}
}
