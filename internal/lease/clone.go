package lease

import "slices"

// Clone makes an independent copy. It costs about as much as the world is large.
func (w *World) Clone() *World {
	c := &World{}
	*c = *w
	c.clear()
	c.keys, c.marks, c.joins, c.partitions = w.keys, w.marks, w.joins, w.partitions
	c.versions = w.versions
	c.planSum, c.restSum, c.quietSum = w.planSum, w.restSum, w.quietSum
	c.present = c.cloneInstances(w.present)
	c.ended = c.cloneInstances(w.ended)
	for _, in := range c.present {
		if in.Status == Alive {
			c.clients[in.Client] = append(c.clients[in.Client], in)
		}
	}
	for _, t := range w.orderedTopics() {
		c.cloneTopic(t)
	}
	return c
}

func (c *World) cloneInstances(from []*instance) []*instance {
	block, to := make([]instance, len(from)), make([]*instance, len(from))
	for i, in := range from {
		block[i] = *in
		block[i].held.slots, block[i].marks = nil, nil // cloneSlot fills them; interests are never changed in place
		to[i] = &block[i]
		c.instances[in.ID] = to[i]
	}
	return to
}

func (c *World) cloneTopic(from *topic) {
	t := &topic{}
	*t = *from
	t.slots = index{}
	t.stated = slices.Clone(from.stated)
	t.leased.slots = nil
	t.whole = nil
	c.topics[t.name] = t
	block := make([]slot, from.known())
	t.order = make([]*slot, len(from.order))
	for i, s := range from.ordered() {
		t.order[i] = &block[i]
		c.cloneSlot(t, &block[i], s)
		t.slots.put(&block[i], i)
	}
	t.unsorted = false
	if from.whole != nil {
		t.whole = &block[len(block)-1]
		c.cloneSlot(t, t.whole, from.whole)
	}
}

func (c *World) cloneSlot(t *topic, s, from *slot) {
	*s = *from
	s.topic = t
	s.marks = nil
	for _, in := range from.marks {
		in = c.instances[in.ID]
		s.marks = append(s.marks, in)
		in.marks = append(in.marks, s)
	}
	if from.owner != nil {
		s.owner = c.instances[from.owner.ID]
		s.owner.held.add(s)
		t.leased.add(s)
	}
}
