package policy

import "slices"

// ranked is a number that is ranked by something: the lowest comes first, of equal ones the lowest number.
type ranked struct {
	by fixed
	id int32
}

func (a ranked) before(b ranked) bool { return a.by < b.by || a.by == b.by && a.id < b.id }

// ranking is a heap. What it ranks by may have grown meanwhile: whoever looks at the top checks.
type ranking []ranked

func newRanking(ids []int32, by func(int32) fixed) ranking {
	r := make(ranking, len(ids), len(ids)+1)
	for i, id := range ids {
		r[i] = ranked{by(id), id}
	}
	slices.SortFunc(r, func(a, b ranked) int {
		if a.before(b) {
			return -1
		}
		return 1
	})
	return r
}

func (r *ranking) push(x ranked) {
	h := append(*r, x)
	i := len(h) - 1
	for i > 0 && x.before(h[(i-1)/2]) {
		h[i] = h[(i-1)/2]
		i = (i - 1) / 2
	}
	h[i] = x
	*r = h
}

func (r *ranking) pop() ranked {
	h := *r
	top, x := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	for i := 0; i < len(h); {
		c := 2*i + 1
		if c+1 < len(h) && h[c+1].before(h[c]) {
			c++
		}
		if c >= len(h) || !h[c].before(x) {
			h[i] = x
			break
		}
		h[i], i = h[c], c
	}
	*r = h
	return top
}
