package policy

// search looks for a way to make an even answer better: a cycle of negative cost, by the method of Bellman and Ford. Its
// nodes are the members, the pools and the outside, where a member's total grows from and shrinks to. An edge from a
// member to a pool gives a slot up, one from a pool to a member takes it. Where there is no such cycle there is no better
// answer, because every cost is convex.
type search struct {
	*even
	dist   []cost
	parent []int32
	by     []int32 // of a pool: the slot given up; of a member that takes one: its user
	queue  []int32
	queued []bool
}

// improve makes an answer the best. Where totals are level and everybody keeps what it could keep, it is.
func (e *even) improve() {
	least, most := e.spread()
	if !e.lost && most-least <= unit {
		return
	}
	e.link()
	n := len(e.ahead) + len(e.pools) + 1
	s := &search{even: e, dist: make([]cost, n), parent: make([]int32, n), by: make([]int32, n), queued: make([]bool, n)}
	for {
		cycle := s.cycle()
		if cycle == nil {
			return
		}
		s.apply(cycle)
	}
}

func (s *search) pool(j int32) int32 { return int32(len(s.ahead)) + j }
func (s *search) outside() int32     { return int32(len(s.dist) - 1) }

// more and less are the prices of one unit more and less in a member's total.
func (s *search) more(m int32) cost { return cost{total: int64(unit) + 2*int64(s.ahead[m])} }
func (s *search) less(m int32) cost { return cost{total: int64(unit) - 2*int64(s.ahead[m])} }

// relax makes a shorter way known, and tells whether it closes a cycle of negative cost at to.
func (s *search) relax(from, to int32, price cost, by int32) bool {
	d := s.dist[from].plus(price)
	if !d.less(s.dist[to]) {
		return false
	}
	for v := from; v >= 0; v = s.parent[v] {
		if v == to {
			s.parent[to], s.by[to] = from, by
			return true
		}
	}
	s.dist[to], s.parent[to], s.by[to] = d, from, by
	if !s.queued[to] {
		s.queued[to] = true
		s.queue = append(s.queue, to)
	}
	return false
}

// cycle finds a cycle of negative cost, as the list of its nodes from each to its parent; nil: there is none.
func (s *search) cycle() []int32 {
	clear(s.dist)
	clear(s.queued)
	s.queue = s.queue[:0]
	for i := range s.parent {
		s.parent[i] = -1
	}
	// any distances will do to begin with: with this one level totals alone lead nowhere
	_, most := s.spread()
	s.dist[s.outside()].total = 2*int64(most) - int64(unit)
	for m := range s.ahead {
		if s.relax(int32(m), s.outside(), s.more(int32(m)), -1) {
			return s.found(s.outside())
		}
	}
	if at := s.expandOutside(); at >= 0 {
		return s.found(at)
	}
	for j := range s.pools {
		if at := s.expandPool(int32(j), true); at >= 0 {
			return s.found(at)
		}
	}
	for i := 0; i < len(s.queue); i++ {
		v := s.queue[i]
		s.queued[v] = false
		at := int32(-1)
		switch {
		case v == s.outside():
			at = s.expandOutside()
		case v >= int32(len(s.ahead)):
			at = s.expandPool(v-int32(len(s.ahead)), false)
		default:
			at = s.expandMember(v)
		}
		if at >= 0 {
			return s.found(at)
		}
	}
	return nil
}

// expandOutside relaxes the ways that lead from the outside, expandMember and expandPool those from a member and a pool.
// They give the node at which a cycle is closed, -1 if none is.
func (s *search) expandOutside() int32 {
	for m := range s.ahead {
		if s.relax(s.outside(), int32(m), s.less(int32(m)), -1) {
			return int32(m)
		}
	}
	return -1
}

func (s *search) expandMember(m int32) int32 {
	if s.relax(m, s.outside(), s.more(m), -1) {
		return s.outside()
	}
	for i := s.first[m]; i >= 0; i = s.slots[i].next {
		price := cost{}
		if s.slots[i].kept {
			price.move = 1
		}
		if to := s.pool(s.slots[i].pool); s.relax(m, to, price, i) {
			return to
		}
	}
	return -1
}

// expandPool relaxes with held set only the ways to those who would keep what they have.
func (s *search) expandPool(j int32, held bool) int32 {
	slots, holds := s.slotsOf(j), s.holdingsOf(j)
	if len(slots) == 0 || held && len(holds) == 0 {
		return -1
	}
	s.visit++
	for i := range slots {
		s.taken[slots[i].user] = s.visit
	}
	s.enter(j)
	from := s.pool(j)
	for i := range holds {
		if u := holds[i].user; s.taken[u] != s.visit && s.above(&holds[i]) {
			s.taken[u] = s.visit
			if m := s.member[u]; s.relax(from, m, cost{move: -1}, u) {
				return m
			}
		}
	}
	if held {
		return -1
	}
	for _, b := range s.blocksOf(j) {
		if !b.fraction {
			continue
		}
		for _, u := range b.users {
			if m := s.member[u]; s.taken[u] != s.visit && s.relax(from, m, cost{}, u) {
				return m
			}
		}
	}
	return -1
}

// found lists the nodes of a cycle.
func (s *search) found(at int32) []int32 {
	cycle := []int32{at}
	for v := s.parent[at]; v != at; v = s.parent[v] {
		cycle = append(cycle, v)
	}
	return cycle
}

// apply makes the gifts of a cycle.
func (s *search) apply(cycle []int32) {
	for i, v := range cycle {
		next := cycle[(i+len(cycle)-1)%len(cycle)] // the way leads from each to the one before it in the list
		switch {
		case v == s.outside():
			s.ahead[s.parent[v]] += unit
			s.ahead[next] -= unit
		case v >= int32(len(s.ahead)):
			s.pass(s.by[v], s.by[next])
		}
	}
}
