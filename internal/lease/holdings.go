package lease

import "iter"

// Holding is the fact that an instance holds a key, as Lease is, for those who walk over all: it tells the instance by
// its place among Instances.
type Holding struct {
	Place int
	Epoch int64
}

// Holdings yields every lease, in the order of topic and partition.
func (w *World) Holdings() iter.Seq2[Key, Holding] {
	return func(yield func(Key, Holding) bool) {
		for i, in := range w.present {
			in.index = i
		}
		for _, t := range w.orderedTopics() {
			for s := range t.leases() {
				if !yield(s.key(), Holding{s.owner.index, s.epoch}) {
					return
				}
			}
		}
	}
}
