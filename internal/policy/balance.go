package policy

// unplacedCost is the price of a unit that nobody gets: above any sum of deviations from shares.
const unplacedCost = int64(1) << 48

// balance makes an answer the best. The nodes of its search are the consumers, the pools, the members, and the outside,
// where a member's total grows from and shrinks to, and which has what is not placed. A consumer gives a unit to a pool
// and takes one from it; it keeps one more, or gives one without taking another, by way of its member.
type balance struct {
	*problem
	*search
	byUser [][]int32 // stakes of each consumer
	users  [][]int32 // consumers of each member
}

func newBalance(p *problem) *balance {
	b := &balance{problem: p, byUser: p.byConsumer(), users: make([][]int32, p.members)}
	for c := range p.consumers {
		m := p.consumers[c].member
		b.users[m] = append(b.users[m], int32(c))
	}
	b.search = newSearch(len(p.consumers)+len(p.pools)+p.members+1, b.expandNode)
	return b
}

func (b *balance) pool(j int32) int32   { return int32(len(b.consumers)) + j }
func (b *balance) member(m int32) int32 { return b.pool(int32(len(b.pools))) + m }
func (b *balance) outside() int32       { return int32(len(b.dist) - 1) }

func (b *balance) run() {
	for v := range b.dist {
		b.put(int32(v))
	}
	for cycle := b.cycle(); cycle != nil; cycle = b.cycle() {
		b.apply(cycle)
		b.resume(cycle)
	}
}

// add is the price of one unit more at a stake, remove that of one less.
func (s *stake) add() cost {
	var c cost
	if s.x >= s.hi {
		c.pool = 2*int64(s.x-s.hi) + 1
	} else if s.x < s.lo {
		c.pool = 1 - 2*int64(s.lo-s.x)
	}
	if s.x < s.held {
		c.move = -1
	}
	return c
}

func (s *stake) remove() cost {
	t := *s
	t.x--
	c := t.add()
	return cost{pool: -c.pool, move: -c.move}
}

// expandNode relaxes the edges that lead from a node. It gives the node at which a cycle is closed.
func (b *balance) expandNode(v int32) int32 {
	switch {
	case v == b.outside():
		return b.expandOutside()
	case v >= b.member(0):
		return b.expandMember(v - b.member(0))
	case v >= b.pool(0):
		return b.expandPool(v - b.pool(0))
	}
	return b.expandConsumer(v)
}

func (b *balance) expandConsumer(c int32) int32 {
	for _, i := range b.byUser[c] {
		s := &b.stakes[i]
		if to := b.pool(s.pool); s.x > 0 && b.relax(c, to, s.remove(), i) {
			return to
		}
	}
	user := &b.consumers[c]
	if to := b.member(user.member); user.used < user.limit && b.relax(c, to, cost{}, none) {
		return to
	}
	return none
}

func (b *balance) expandPool(j int32) int32 {
	from := b.pool(j)
	for i := b.pools[j].from; i < b.pools[j].to; i++ {
		if s := &b.stakes[i]; s.x < s.most && b.relax(from, s.consumer, s.add(), i) {
			return s.consumer
		}
	}
	if b.relax(from, b.outside(), cost{pool: unplacedCost}, none) {
		return b.outside()
	}
	return none
}

func (b *balance) expandMember(m int32) int32 {
	from := b.member(m)
	if b.relax(from, b.outside(), more(b.ahead[m]), none) {
		return b.outside()
	}
	for _, c := range b.users[m] {
		if b.relax(from, c, cost{}, none) {
			return c
		}
	}
	return none
}

func (b *balance) expandOutside() int32 {
	from := b.outside()
	for m := range b.ahead {
		if to := b.member(int32(m)); b.relax(from, to, less(b.ahead[m]), none) {
			return to
		}
	}
	for j := range b.pools {
		if to := b.pool(int32(j)); b.pools[j].unplaced > 0 && b.relax(from, to, cost{pool: -unplacedCost}, none) {
			return to
		}
	}
	return none
}

// apply makes the gifts of a cycle.
func (b *balance) apply(cycle []int32) {
	for _, to := range cycle {
		switch from := b.parent[to]; {
		case from < b.pool(0) && to >= b.pool(0) && to < b.member(0):
			b.problem.take(&b.stakes[b.by[to]])
		case from >= b.pool(0) && from < b.member(0) && to < b.pool(0):
			b.problem.give(&b.stakes[b.by[to]])
		case from == b.outside() && to < b.member(0):
			b.pools[to-b.pool(0)].unplaced--
		case to == b.outside() && from < b.member(0):
			b.pools[from-b.pool(0)].unplaced++
		}
	}
}
