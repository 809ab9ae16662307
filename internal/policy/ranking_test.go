package policy

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestARankingGivesTheLowestFirstAndOfEqualOnesTheLowestNumber(t *testing.T) {
	by := []fixed{3, 1, 2, 1, 3, 0, 2, 2, 1, 0, 3}
	want := []int32{5, 9, 1, 3, 8, 2, 6, 7, 0, 4, 10}
	ids := make([]int32, len(by))
	for i := range ids {
		ids[i] = int32(i)
	}
	empty := func(r *ranking) (all []int32) {
		for len(*r) > 0 {
			all = append(all, r.pop().id)
		}
		return all
	}
	for turn := range ids { // in the order of numbers, against it, and begun anywhere
		begun := append(slices.Clone(ids[turn:]), ids[:turn]...)
		backwards := slices.Clone(begun)
		slices.Reverse(backwards)
		for _, order := range [][]int32{begun, backwards} {
			r := newRanking(order, func(i int32) fixed { return by[i] })
			assert.Equal(t, ranked{0, 5}, r[0], "a new one is in order")
			assert.True(t, slices.IsSortedFunc(r, func(a, b ranked) int {
				if a.by != b.by {
					return int(a.by - b.by)
				}
				return int(a.id - b.id)
			}))
			assert.Equal(t, want, empty(&r))
			for _, i := range order {
				r.push(ranked{by[i], i})
			}
			assert.Equal(t, want, empty(&r))
		}
	}
	r := ranking{}
	for i := range int32(4) {
		r.push(ranked{5, i})
	}
	r.push(ranked{4, 9})
	assert.Equal(t, []ranked{{4, 9}, {5, 0}}, []ranked{r.pop(), r.pop()})
	r.push(ranked{5, 0})
	assert.Equal(t, []int32{0, 1, 2, 3}, empty(&r))
}
