package lease

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
	if reach := 4*count + 16; int(s.partition) >= len(x.near) && int(s.partition) < reach {
		x.near = append(x.near, make([]*slot, reach-len(x.near))...)
		for p, far := range x.far {
			if int(p) < reach {
				x.near[p] = far
				delete(x.far, p)
			}
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

func (x *index) drop(partition int32) {
	if int(partition) < len(x.near) {
		x.near[partition] = nil
		return
	}
	delete(x.far, partition)
}
