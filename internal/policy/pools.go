package policy

import "github.com/kafka-marshal/marshal/internal/lease"

// cursor is how far the leases are read, which come in the order of topics and partitions.
type cursor struct {
	topic  string
	whole  bool  // its lease is on the whole topic
	leases int   // of the topic so far
	pool   int32 // of the topic, in the mode in which it is held; -1: nobody wants it so
	part   int32 // no partition before this one is still to be found free
	next   int32 // pool after all that were read
}

// readPools reads all leases into their pools, and finds what is free.
func (r *reading) readPools() {
	c := &r.at
	*c = cursor{pool: -1}
	for k, l := range r.w.Holdings() {
		if c.leases == 0 || c.topic != k.Topic {
			r.closeTopic()
			r.openTopic(k)
		}
		c.leases++
		from := r.places[l.Place]
		h := held{key: k, epoch: l.Epoch, member: from.member}
		if h.member < 0 {
			r.park(k, from.client)
		}
		r.readHeld(&h)
	}
	r.closeTopic()
	for int(c.next) < len(r.names) {
		r.readVacant(true)
	}
}

// openTopic begins with the leases of a topic, of which k is the first key. Pools before have none.
func (r *reading) openTopic(k lease.Key) {
	c := &r.at
	c.topic, c.whole, c.leases, c.pool = k.Topic, k.Partition == lease.WholeTopic, 0, -1
	for int(c.next) < len(r.names) && r.names[c.next].compare(poolOf(k)) < 0 {
		r.readVacant(r.names[c.next].topic != k.Topic)
	}
	if int(c.next) < len(r.names) && r.names[c.next] == poolOf(k) {
		c.pool = c.next
		c.next++
		c.part = 0 // only now: the pools before had their own
		r.openPool(c.pool)
	}
}

// closeTopic ends with them. Where a topic is held as a whole no partition of it is free, and the other way around.
func (r *reading) closeTopic() {
	c := &r.at
	if c.pool >= 0 {
		if !c.whole {
			r.freeBefore(c.pool, r.parts[c.pool])
		}
		r.closePool(c.pool)
	}
	for int(c.next) < len(r.names) && r.names[c.next].topic == c.topic {
		r.readVacant(false)
	}
	r.parkAll(c.topic, c.leases)
}

// readHeld reads a lease of the topic that is open.
func (r *reading) readHeld(h *held) {
	c, e := &r.at, &r.even
	if c.pool < 0 || !r.exists(c.pool, h.key) {
		r.readLease(h, -1)
		return
	}
	if !c.whole {
		r.freeBefore(c.pool, h.key.Partition)
		c.part = h.key.Partition + 1
	}
	r.readLease(h, c.pool)
	if h.state == shared {
		if r.count[h.user] == 0 {
			e.holds = append(e.holds, holding{user: h.user})
		}
		r.count[h.user]++
	}
}

// readVacant reads the next pool, in which there are no leases.
func (r *reading) readVacant(free bool) {
	j := r.at.next
	r.at.next++
	r.openPool(j)
	switch {
	case !free:
	case !r.names[j].whole:
		r.at.part = 0
		r.freeBefore(j, r.parts[j])
	case r.parts[j] > 0:
		r.addFree(j, lease.WholeTopic)
	}
	r.closePool(j)
}

// freeBefore finds the partitions before one free that were not held.
func (r *reading) freeBefore(j, partition int32) {
	for ; r.at.part < partition; r.at.part++ {
		r.addFree(j, r.at.part)
	}
}

// openPool makes a pool the one that is read.
func (r *reading) openPool(j int32) {
	pl := &r.even.pools[j]
	pl.crowds = r.wanted[j]
	pl.holds.from = int32(len(r.even.holds))
	r.enter(j)
}

// closePool notes how much everybody holds of it.
func (r *reading) closePool(j int32) {
	r.even.pools[j].holds.to = int32(len(r.even.holds))
	holds := r.even.holdingsOf(j)
	for i := range holds {
		holds[i].held = r.count[holds[i].user]
		r.count[holds[i].user] = 0
	}
}

// enter makes a pool the one for which classify finds users.
func (r *reading) enter(j int32) {
	for _, k := range r.wanted[j] {
		r.wants[k] = j
	}
}
