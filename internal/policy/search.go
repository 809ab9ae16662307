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

// more and less are the prices of one unit more and less in the total of somebody who is ahead by so much.
func more(ahead fixed) cost { return cost{total: int64(unit) + 2*int64(ahead)} }
func less(ahead fixed) cost { return cost{total: int64(unit) - 2*int64(ahead)} }

// search improves an answer until it is the best: it is the classic cancelling of negative cycles of a minimum cost flow,
// by the method of Bellman and Ford. An edge brings a unit from one node to another. A cycle of negative cost is a set of
// gifts that makes the answer better; where there is none, there is no better answer, because every cost is convex.
type search struct {
	dist   []cost  // any distances will do to begin with
	parent []int32 // -1: none
	by     []int32 // with the parent: whatever the edge is made of
	queue  []int32
	queued []bool

	expand func(v int32) (closed int32) // relaxes the edges that lead from a node, as relax tells; -1: no cycle is closed
}

const none = -1

func newSearch(nodes int, expand func(int32) int32) *search {
	s := &search{
		dist: make([]cost, nodes), parent: make([]int32, nodes), by: make([]int32, nodes), queued: make([]bool, nodes), expand: expand,
	}
	s.begin()
	return s
}

// begin forgets all that was found. The nodes from which an edge of negative cost may lead are to be put then.
func (s *search) begin() {
	clear(s.dist)
	clear(s.queued)
	s.queue = s.queue[:0]
	s.forgetParents()
}

func (s *search) forgetParents() {
	for v := range s.parent {
		s.parent[v] = none
	}
}

// put has a node expanded.
func (s *search) put(v int32) {
	if !s.queued[v] {
		s.queued[v] = true
		s.queue = append(s.queue, v)
	}
}

// relax makes a shorter way known. It tells whether that closes a cycle of negative cost at to.
func (s *search) relax(from, to int32, price cost, by int32) bool {
	d := s.dist[from].plus(price)
	if !d.less(s.dist[to]) {
		return false
	}
	s.put(to)
	for v := from; v != none; v = s.parent[v] {
		if v == to {
			s.parent[to], s.by[to] = from, by
			return true
		}
	}
	s.dist[to], s.parent[to], s.by[to] = d, from, by
	return false
}

// cycle finds a cycle of negative cost, as a list of nodes, each before its parent; nil: there is none.
func (s *search) cycle() []int32 {
	for at := 0; at < len(s.queue); at++ {
		v := s.queue[at]
		s.queued[v] = false
		closed := s.expand(v)
		if closed == none {
			continue
		}
		cycle := []int32{closed}
		for u := s.parent[closed]; u != closed; u = s.parent[u] {
			cycle = append(cycle, u)
		}
		s.queue = append(s.queue[:0], s.queue[at+1:]...)
		return cycle
	}
	return nil
}

// resume goes on after the gifts of a cycle were made, which changed no edges but those from its nodes. The distances
// found so far are as good as any.
func (s *search) resume(cycle []int32) {
	s.forgetParents()
	for _, v := range cycle {
		s.put(v)
	}
}
