package lease

import "slices"

// Clone makes an independent copy. It costs about as much as the world is large.
func (w *World) Clone() *World {
	c := &World{}
	*c = *w
	c.clear()
	c.keys, c.marked, c.joins, c.partitions = w.keys, w.marked, w.joins, w.partitions
	c.versions = w.versions
	c.planSum, c.restSum, c.quietSum = w.planSum, w.restSum, w.quietSum
	c.present = c.cloneInstances(w.present)
	c.ended = c.cloneInstances(w.ended)
	for _, in := range c.present {
		if in.Status == Alive {
			c.clients[in.Client] = append(c.clients[in.Client], in)
		}
	}
	for h, wish := range w.wishes {
		copied := *wish
		c.wishes[h] = &copied
	}
	for _, t := range w.orderedTopics() {
		c.cloneTopic(w, t)
	}
	return c
}

func (c *World) cloneInstances(from []*instance) []*instance {
	block, to := make([]instance, len(from)), make([]*instance, len(from))
	for i, in := range from {
		in.index = i
		block[i] = *in
		block[i].held, block[i].marks = heldList{slots: make([]*slot, 0, in.held.len())}, nil // cloneSlot fills them; interests are never changed in place
		to[i] = &block[i]
		c.instances[in.ID] = to[i]
	}
	return to
}

func (c *World) cloneTopic(w *World, from *topic) {
	t := &topic{}
	*t = *from
	t.slots, t.known, t.leased = index{}, 0, 0
	if from.slots.rare != nil && from.slots.rare.several != nil {
		t.slots.needRare().several = slices.Clone(from.slots.rare.several)
	}
	c.topics.add(t)
	block := make([]slot, from.keys())
	for s := range from.slots.partitions() {
		c.cloneSlot(w, t, &block[t.known], s)
		t.slots.put(&block[t.known], int(t.known))
		t.known++
	}
	if whole := from.slots.whole(); whole != nil {
		t.slots.needRare().whole = &block[len(block)-1]
		c.cloneSlot(w, t, t.slots.rare.whole, whole)
	}
}

func (c *World) cloneSlot(w *World, t *topic, s, from *slot) {
	*s = *from
	s.topic = t
	if from.owner != nil && from.owner.Status != Ended { // of an ended one nothing changes any more
		s.owner = c.present[from.owner.index]
	}
	if from.held() {
		s.owner.held.add(s)
		t.leased++
	}
	if w.marked == 0 {
		return
	}
	for _, in := range w.marks[from] {
		in = c.present[in.index]
		c.marks[s] = append(c.marks[s], in)
		in.marks = append(in.marks, s)
	}
}
