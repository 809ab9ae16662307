package policy

// cost is what a change of the answer costs, the more important part first.
type cost struct{ pool, total, move int64 }

func (a cost) plus(b cost) cost {
	return cost{a.pool + b.pool, a.total + b.total, a.move + b.move}
}

func (a cost) less(b cost) bool {
	if a.pool != b.pool {
		return a.pool < b.pool
	}
	if a.total != b.total {
		return a.total < b.total
	}
	return a.move < b.move
}

// unplacedCost is the price of a unit that nobody gets: above any sum of deviations from shares.
const unplacedCost = int64(1) << 48

// balance improves an answer until it is the best: it is the classic cancelling of negative cycles of a minimum cost
// flow. Its graph has a node per consumer, one for nobody (who has what is not placed) and one for the outside. An edge
// from a to b is the cheapest pool of which a gives a unit to b. A cycle of negative cost is a set of gifts that makes the
// answer better; where there is none, there is no better answer, because every cost is convex.
type balance struct {
	*problem
	n       int       // consumers
	size    int       // nodes
	byUser  [][]int32 // stakes of each consumer
	kin     [][]int32 // the other consumers of its member, usually none
	edges   []edge    // size*size
	dist    []cost
	parent  []int32
	colour  []int32
	touched []int32
}

// edge is the cheapest way to bring a unit from one node to another. give and take are stakes, negative where nothing
// is given but room (to the outside, or between two consumers of one member) or where nobody is the node.
type edge struct {
	cost       cost
	pool       int32
	give, take int32
	ok         bool
}

func newBalance(p *problem) *balance {
	n := len(p.consumers)
	b := &balance{problem: p, n: n, size: n + 2}
	b.byUser = p.byConsumer()
	b.kin = make([][]int32, n)
	of := make([][]int32, p.members)
	for c := range p.consumers {
		of[p.consumers[c].member] = append(of[p.consumers[c].member], int32(c))
	}
	for c := range p.consumers {
		if all := of[p.consumers[c].member]; len(all) > 1 {
			b.kin[c] = all
		}
	}
	b.edges = make([]edge, b.size*b.size)
	b.dist, b.parent, b.colour = make([]cost, b.size), make([]int32, b.size), make([]int32, b.size)
	return b
}

// nobody is the node that has what is not placed; outside is where a member's total grows from and shrinks to.
func (b *balance) nobody() int32  { return int32(b.n) }
func (b *balance) outside() int32 { return int32(b.n + 1) }

func (b *balance) run() {
	for j := range b.pools {
		b.offerPool(int32(j))
	}
	for {
		b.linkOutside()
		cycle := b.cycle()
		if cycle == nil {
			return
		}
		b.apply(cycle)
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
	return cost{-c.pool, -c.total, -c.move}
}

// offer makes a way known that may be the cheapest between two nodes.
func (b *balance) offer(from, to int32, e edge) {
	old := &b.edges[int(from)*b.size+int(to)]
	if !old.ok || e.cost.less(old.cost) {
		*old = e
	}
}

// offerPool offers every way that leads through a pool.
func (b *balance) offerPool(j int32) {
	for g := b.pools[j].from; g < b.pools[j].to; g++ {
		b.offerGive(g)
		if b.pools[j].unplaced > 0 {
			b.offerUnplaced(g)
		}
	}
}

// offerGive offers every way on which a stake gives a unit away.
func (b *balance) offerGive(g int32) {
	from := &b.stakes[g]
	if from.x == 0 {
		return
	}
	gone, j := from.remove(), from.pool
	for t := b.pools[j].from; t < b.pools[j].to; t++ {
		if to := &b.stakes[t]; t != g && to.x < to.most {
			b.offer(from.consumer, to.consumer, edge{gone.plus(to.add()), j, g, t, true})
		}
	}
	gone.pool += unplacedCost
	b.offer(from.consumer, b.nobody(), edge{gone, j, g, -1, true})
}

// offerTake offers every way on which a stake takes a unit from another.
func (b *balance) offerTake(t int32) {
	to := &b.stakes[t]
	if to.x >= to.most {
		return
	}
	price, j := to.add(), to.pool
	for g := b.pools[j].from; g < b.pools[j].to; g++ {
		if from := &b.stakes[g]; g != t && from.x > 0 {
			b.offer(from.consumer, to.consumer, edge{price.plus(from.remove()), j, g, t, true})
		}
	}
}

// offerUnplaced offers the way on which a stake takes a unit that nobody has.
func (b *balance) offerUnplaced(t int32) {
	to := &b.stakes[t]
	if to.x >= to.most || b.pools[to.pool].unplaced == 0 {
		return
	}
	price := to.add()
	price.pool -= unplacedCost
	b.offer(b.nobody(), to.consumer, edge{price, to.pool, -1, t, true})
}

// linkOutside sets the edges that change totals, and those between the consumers of one member.
func (b *balance) linkOutside() {
	out := int(b.outside())
	free := edge{pool: -1, give: -1, take: -1, ok: true}
	for c := range b.consumers {
		user := &b.consumers[c]
		over := 2 * int64(b.ahead[user.member])
		e := free
		e.cost.total = int64(unit) - over
		b.edges[out*b.size+c] = e // it gives one and has one less in total
		e.cost.total = int64(unit) + over
		e.ok = user.used < user.limit
		b.edges[c*b.size+out] = e // it takes one and has one more in total
		for _, k := range b.kin[c] {
			if k != int32(c) {
				b.offerKin(int32(c), k, user.used < user.limit)
			}
		}
	}
	b.edges[out*b.size+b.n] = free
	b.edges[b.n*b.size+out] = free
}

// offerKin lets c keep what it takes while its kin gives one: the member's total stays. Two consumers of one member never
// draw from one pool, so no other way leads from one to the other.
func (b *balance) offerKin(c, kin int32, room bool) {
	b.edges[int(c)*b.size+int(kin)] = edge{pool: -1, give: -1, take: -1, ok: room}
}

// cycle finds a cycle of negative cost, as the list of its nodes, by Bellman and Ford; nil: there is none.
func (b *balance) cycle() []int32 {
	clear(b.dist)
	for i := range b.parent {
		b.parent[i] = -1
	}
	for {
		changed := false
		for from := range b.size {
			row, base := b.edges[from*b.size:(from+1)*b.size], b.dist[from]
			for to := range row {
				if !row[to].ok || to == from {
					continue
				}
				if d := base.plus(row[to].cost); d.less(b.dist[to]) {
					b.dist[to], b.parent[to], changed = d, int32(from), true
				}
			}
		}
		if !changed {
			return nil
		}
		if found := b.parentCycle(); found != nil {
			return found
		}
	}
}

// parentCycle finds a cycle among the parents: such a one always has negative cost.
func (b *balance) parentCycle() []int32 {
	clear(b.colour)
	for i := range b.parent {
		mark := int32(i + 1)
		v := int32(i)
		for v >= 0 && b.colour[v] == 0 {
			b.colour[v] = mark
			v = b.parent[v]
		}
		if v < 0 || b.colour[v] != mark {
			continue
		}
		found := b.touched[:0]
		for u := v; ; {
			found = append(found, u)
			if u = b.parent[u]; u == v {
				break
			}
		}
		b.touched = found
		return found
	}
	return nil
}

// apply makes the gifts of a cycle and offers anew what they changed.
func (b *balance) apply(cycle []int32) {
	for _, to := range cycle {
		e := b.edges[int(b.parent[to])*b.size+int(to)]
		if e.pool < 0 {
			continue
		}
		if e.give >= 0 {
			b.take(&b.stakes[e.give])
		} else {
			b.pools[e.pool].unplaced--
		}
		if e.take >= 0 {
			b.give(&b.stakes[e.take])
		} else {
			b.pools[e.pool].unplaced++
		}
	}
	for _, v := range cycle {
		b.refresh(v)
	}
}

// refresh offers anew every way from and to a node.
func (b *balance) refresh(v int32) {
	if v == b.outside() {
		return
	}
	for i := range b.size {
		b.edges[int(v)*b.size+i].ok = false
		b.edges[i*b.size+int(v)].ok = false
	}
	if v == b.nobody() {
		for i := range b.stakes {
			s := &b.stakes[i]
			b.offerUnplaced(int32(i))
			if s.x > 0 {
				gone := s.remove()
				gone.pool += unplacedCost
				b.offer(s.consumer, v, edge{gone, s.pool, int32(i), -1, true})
			}
		}
		return
	}
	for _, s := range b.byUser[v] {
		b.offerGive(s)
		b.offerTake(s)
		b.offerUnplaced(s)
	}
}
