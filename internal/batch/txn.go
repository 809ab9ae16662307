package batch

import (
	"cmp"
	"slices"
)

// transactions knows, while batches pass in the order of offsets, whose records belong to an aborted transaction.
type transactions struct {
	coming []Aborted // in the order of first offsets
	open   map[int64]struct{}
}

func (t *transactions) reset(aborted []Aborted) {
	byOffset := func(a, b Aborted) int { return cmp.Compare(a.FirstOffset, b.FirstOffset) }
	if !slices.IsSortedFunc(aborted, byOffset) {
		aborted = slices.Clone(aborted)
		slices.SortFunc(aborted, byOffset)
	}
	t.coming = aborted
	clear(t.open)
}

// reach opens the aborted transactions that begin at or before last.
func (t *transactions) reach(last int64) {
	for len(t.coming) > 0 && t.coming[0].FirstOffset <= last {
		if t.open == nil {
			t.open = make(map[int64]struct{})
		}
		t.open[t.coming[0].ProducerID] = struct{}{}
		t.coming = t.coming[1:]
	}
}

// aborted tells whether what producer writes here is aborted.
func (t *transactions) aborted(producer int64) bool {
	_, ok := t.open[producer]
	return ok
}

// end says that producer's abort marker was met.
func (t *transactions) end(producer int64) { delete(t.open, producer) }
