package policy

// rounds makes an even answer the best. The nodes of its search are the members, the pools and the outside, where a
// member's total grows from and shrinks to. An edge from a member to a pool gives a slot up, one from a pool to a member
// takes it.
type rounds struct {
	*even
	*search
}

// improve makes an answer the best. Where totals are level and every pool keeps as much as it can, it is. Where not, level has
// linked the slots.
func (e *even) improve() {
	least, most := e.spread()
	if !e.lost && most-least <= unit {
		return
	}
	r := &rounds{even: e}
	r.search = newSearch(len(e.ahead)+len(e.pools)+1, r.expandNode)
	for {
		r.seed()
		cycle := r.cycle()
		if cycle == nil {
			return
		}
		r.apply(cycle)
		r.begin() // few edges are of negative cost, and to look at them again is less than to follow what led to this cycle
	}
}

// seed puts the nodes from which an edge of negative cost may lead.
func (r *rounds) seed() {
	_, most := r.spread()
	r.dist[r.outside()].total = 2*int64(most) - int64(unit) // so that level totals alone lead nowhere
	for j := range r.pools {
		r.expandPool(int32(j), true)
	}
	for m := range r.ahead {
		r.put(int32(m))
	}
}

func (r *rounds) pool(j int32) int32 { return int32(len(r.ahead)) + j }
func (r *rounds) outside() int32     { return int32(len(r.dist) - 1) }

// expandNode relaxes the edges that lead from a node. It gives the node at which a cycle is closed.
func (r *rounds) expandNode(v int32) int32 {
	switch {
	case v == r.outside():
		return r.expandOutside()
	case v >= r.pool(0):
		return r.expandPool(v-r.pool(0), false)
	}
	return r.expandMember(v)
}

func (r *rounds) expandOutside() int32 {
	for m := range r.ahead {
		if r.relax(r.outside(), int32(m), less(r.ahead[m]), none) {
			return int32(m)
		}
	}
	return none
}

func (r *rounds) expandMember(m int32) int32 {
	if r.relax(m, r.outside(), more(r.ahead[m]), none) {
		return r.outside()
	}
	for i := r.first[m]; i != none; i = r.slots[i].next {
		price := cost{}
		if r.slots[i].kept {
			price.move = 1
		}
		if to := r.pool(r.slots[i].pool); r.relax(m, to, price, i) {
			return to
		}
	}
	return none
}

// expandPool relaxes with held set only the ways to those who would keep what they have.
func (r *rounds) expandPool(j int32, held bool) int32 {
	slots, holds := r.slotsOf(j), r.holdingsOf(j)
	if len(slots) == 0 || held && len(holds) == 0 {
		return none
	}
	r.visit++
	for i := range slots {
		r.taken[slots[i].user] = r.visit
	}
	r.enter(j)
	from := r.pool(j)
	for i := range holds {
		if u := holds[i].user; r.taken[u] != r.visit && r.above(&holds[i]) {
			if m := r.member[u]; r.relax(from, m, cost{move: -1}, u) {
				return m
			}
		}
	}
	if held {
		return none
	}
	for _, b := range r.blocksOf(j) {
		if !b.fraction {
			continue
		}
		for _, u := range b.users {
			if m := r.member[u]; r.taken[u] != r.visit && r.relax(from, m, cost{}, u) {
				return m
			}
		}
	}
	return none
}

// apply makes the gifts of a cycle.
func (r *rounds) apply(cycle []int32) {
	for i, v := range cycle {
		next := cycle[(i+len(cycle)-1)%len(cycle)] // the way leads from each to the one before it in the list
		switch {
		case v == r.outside():
			r.ahead[r.parent[v]] += unit
			r.ahead[next] -= unit
		case v >= int32(len(r.ahead)):
			r.pass(r.by[v], r.by[next])
		}
	}
}
