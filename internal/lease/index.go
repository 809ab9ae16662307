package lease

import (
	"iter"
	"maps"
	"slices"
)

// index finds the slots of a topic. Partitions are small numbers without many gaps, so most are found by their place in a
// slice; a far one, which a foreign writer may well claim, is in a map, so that the slice stays in proportion to the
// number of slots.
type index struct {
	near []*slot
	rare *rare // nil: nothing of it
}

// rare is what few topics have.
type rare struct {
	whole   *slot // of the whole topic
	far     map[int32]*slot
	several []stated // by rising count, where the alive state more than one
}

// whole gives the slot of the whole topic, nil if there is none.
func (x *index) whole() *slot {
	if x.rare == nil {
		return nil
	}
	return x.rare.whole
}

// at gives the slot of a partition or of the whole topic, nil if there is none (and for any other negative number).
func (x *index) at(partition int32) *slot {
	switch {
	case uint32(partition) < uint32(len(x.near)):
		return x.near[partition]
	case x.rare == nil:
		return nil
	case partition == WholeTopic:
		return x.rare.whole
	}
	return x.rare.far[partition]
}

func (x *index) needRare() *rare {
	if x.rare == nil {
		x.rare = &rare{}
	}
	return x.rare
}

// put adds the slot of a partition; count is how many there are already.
func (x *index) put(s *slot, count int) {
	if n := len(x.near); int(s.partition) >= n && int(s.partition) < 4*count+16 {
		x.near = append(x.near, make([]*slot, int(s.partition)+1-n)...)
		x.approach()
	}
	if int(s.partition) < len(x.near) {
		x.near[s.partition] = s
		return
	}
	r := x.needRare()
	if r.far == nil {
		r.far = map[int32]*slot{}
	}
	r.far[s.partition] = s
}

// approach moves the slots that are near by now.
func (x *index) approach() {
	if x.rare == nil || len(x.rare.far) == 0 {
		return
	}
	x.near = x.near[:cap(x.near)] // so that those who are far are looked through seldom
	for p, far := range x.rare.far {
		if int(p) < len(x.near) {
			x.near[p] = far
			delete(x.rare.far, p)
		}
	}
	if len(x.rare.far) == 0 {
		x.rare.far = nil
	}
}

func (x *index) drop(partition int32) {
	switch {
	case partition == WholeTopic:
		x.rare.whole = nil
	case int(partition) < len(x.near):
		x.near[partition] = nil
	default:
		delete(x.rare.far, partition)
	}
}

// partitions yields the slots of partitions in their order.
func (x *index) partitions() iter.Seq[*slot] {
	return func(yield func(*slot) bool) {
		for _, s := range x.near {
			if s != nil && !yield(s) {
				return
			}
		}
		if x.rare == nil || len(x.rare.far) == 0 {
			return
		}
		for _, p := range slices.Sorted(maps.Keys(x.rare.far)) {
			if !yield(x.rare.far[p]) {
				return
			}
		}
	}
}
