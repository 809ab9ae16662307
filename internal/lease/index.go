package lease

import (
	"iter"
	"maps"
	"slices"
)

// index finds the slots of a topic by partition. Partitions are small numbers without many gaps, so most are found by
// their place in a slice; a far one, which a foreign writer may well claim, is in a map, so that the slice stays in
// proportion to the number of slots.
type index struct {
	near []*slot
	far  map[int32]*slot
}

// at gives the slot of a partition, nil if there is none (and for a negative number).
func (x *index) at(partition int32) *slot {
	if uint32(partition) < uint32(len(x.near)) {
		return x.near[partition]
	}
	if x.far == nil {
		return nil
	}
	return x.far[partition]
}

// put adds the slot of a partition; count is how many there are already.
func (x *index) put(s *slot, count int) {
	if n := len(x.near); int(s.partition) >= n && int(s.partition) < 4*count+16 {
		x.near = append(x.near, make([]*slot, int(s.partition)+1-n)...)
		if len(x.far) > 0 {
			x.near = x.near[:cap(x.near)] // so that those who are far are looked through seldom
			x.approach()
		}
	}
	if int(s.partition) < len(x.near) {
		x.near[s.partition] = s
		return
	}
	if x.far == nil {
		x.far = map[int32]*slot{}
	}
	x.far[s.partition] = s
}

// approach moves the slots that are near by now.
func (x *index) approach() {
	for p, far := range x.far {
		if int(p) < len(x.near) {
			x.near[p] = far
			delete(x.far, p)
		}
	}
	if len(x.far) == 0 {
		x.far = nil
	}
}

func (x *index) drop(partition int32) {
	if int(partition) < len(x.near) {
		x.near[partition] = nil
		return
	}
	delete(x.far, partition)
}

// all yields the slots in the order of partitions.
func (x *index) all() iter.Seq[*slot] {
	return func(yield func(*slot) bool) {
		for _, s := range x.near {
			if s != nil && !yield(s) {
				return
			}
		}
		if len(x.far) == 0 {
			return
		}
		for _, p := range slices.Sorted(maps.Keys(x.far)) {
			if !yield(x.far[p]) {
				return
			}
		}
	}
}
