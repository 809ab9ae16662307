package policy

import (
	"cmp"
	"slices"
)

// even is a problem in which no limit binds, as it is in nearly every group: then there is an answer in which everything
// is placed, and every stake has its share rounded up or down, so all that is left to decide is who is rounded up. It
// does not keep the stakes of everybody in everything: users that are alike are a crowd and have the same share of a
// pool, so that the work grows with the units and not with members times pools.
//
// Its answer is as good as problem's would be, by the same four rules.
type even struct {
	member []int32 // of each user; those of one member stand together, in the order of members
	weight []int32 // of each user
	crowd  []int32 // that each user is in; alone: it attracts nothing, and takes part only where it has something
	crowds [][]int32
	pools  []evenPool
	holds  []holding // those of one pool stand together

	blocks []block // those of one pool stand together
	slots  []slot  // those of one pool stand together
	share  []fixed // of each member, in total
	ahead  []fixed // of each member: the answer so far less its share, in total
	lost   bool    // somebody has been rounded down where it would have kept what it has, and another took its place

	atCrowd, atUser []int32 // the block of each in the pool that was entered last
	taken           []int32 // of each user: the number of the visit to a pool that found it rounded up there
	visit           int32
	first           []int32 // of each member, one of its slots; -1: none
}

// alone stands for the crowd of a user that is in none.
const alone = -1

// evenPool is what is shared out together.
type evenPool struct {
	units  int32
	crowds []int32 // that want it
	holds  span
	blocks span
	slots  span
}

// span is where something stands in a list.
type span struct{ from, to int32 }

// holding is what a user has of a pool.
type holding struct{ user, held int32 }

// block is the users that have the same share of a pool.
type block struct {
	users    []int32
	crowd    int32
	most     fixed // share that it may have
	share    fixed
	full     bool  // it has that much
	lo       int32 // share rounded down
	fraction bool  // it may be rounded up
}

// slot is the right to be rounded up in a pool.
type slot struct {
	pool, user int32
	next       int32 // slot of the same member; -1: none
	kept       bool  // it has that much already, so it costs no move
}

func (e *even) blocksOf(j int32) []block {
	return e.blocks[e.pools[j].blocks.from:e.pools[j].blocks.to]
}
func (e *even) slotsOf(j int32) []slot { return e.slots[e.pools[j].slots.from:e.pools[j].slots.to] }
func (e *even) holdingsOf(j int32) []holding {
	return e.holds[e.pools[j].holds.from:e.pools[j].holds.to]
}

// solve finds the answer. The caller has filled in all up to holds; members are numbered below the given number.
func (e *even) solve(members int) {
	e.reset(members)
	e.divide()
	e.keep()
	e.fill()
	e.level()
	e.improve()
}

func (e *even) reset(members int) {
	e.blocks, e.slots, e.lost, e.visit = e.blocks[:0], e.slots[:0], false, 0
	e.share, e.ahead = zeroed(e.share, members), zeroed(e.ahead, members)
	e.atCrowd, e.atUser = zeroed(e.atCrowd, len(e.crowds)), zeroed(e.atUser, len(e.member))
	e.taken, e.first = zeroed(e.taken, len(e.member)), e.first[:0]
}

// divide computes the exact shares, and how many are rounded up in each pool.
func (e *even) divide() {
	share, lo := make([]fixed, len(e.crowds)), make([]fixed, len(e.crowds))
	for j := range e.pools {
		pl := &e.pools[j]
		pl.blocks.from = int32(len(e.blocks))
		for _, c := range pl.crowds {
			if len(e.crowds[c]) > 0 {
				e.blocks = append(e.blocks, block{users: e.crowds[c], crowd: c, most: fix(pl.units)})
			}
		}
		for i := pl.holds.from; i < pl.holds.to; i++ {
			if h := &e.holds[i]; e.crowd[h.user] == alone {
				e.blocks = append(e.blocks, block{users: []int32{h.user}, crowd: alone, most: fix(min(h.held, pl.units))})
			}
		}
		pl.blocks.to = int32(len(e.blocks))
		blocks := e.blocksOf(int32(j))
		e.divideBlocks(pl.units, blocks)
		left, eligible := pl.units, int32(0)
		for i := range blocks {
			b := &blocks[i]
			b.lo, b.fraction = int32(b.share>>fraction), b.share&(unit-1) != 0
			left -= b.lo * int32(len(b.users))
			if b.fraction {
				eligible += int32(len(b.users))
			}
			if b.crowd != alone {
				share[b.crowd] += b.share
				lo[b.crowd] += fix(b.lo)
			} else {
				m := e.member[b.users[0]]
				e.share[m] += b.share
				e.ahead[m] += fix(b.lo) - b.share
			}
		}
		pl.slots.from = int32(len(e.slots))
		for range min(left, eligible) {
			e.slots = append(e.slots, slot{pool: int32(j), user: -1, next: -1})
		}
		pl.slots.to = int32(len(e.slots))
	}
	for u, c := range e.crowd {
		if c != alone {
			e.share[e.member[u]] += share[c]
			e.ahead[e.member[u]] += lo[c] - share[c]
		}
	}
}

// divideBlocks divides units by weight, none above its bound: those with one are of a single user.
func (e *even) divideBlocks(units int32, blocks []block) {
	left := fix(units)
	for again := true; again; {
		var weights uint64
		for i := range blocks {
			if b := &blocks[i]; !b.full {
				weights += uint64(e.weight[b.users[0]]) * uint64(len(b.users))
			}
		}
		again = false
		rest := left
		for i := range blocks {
			b := &blocks[i]
			if b.full {
				continue
			}
			b.share = fixed(mulDiv(uint64(left), uint64(e.weight[b.users[0]]), weights))
			if b.share > b.most {
				b.share, b.full, again = b.most, true, true
				rest -= b.most
			}
		}
		left = rest
	}
}

// enter makes the blocks of a pool those that blockOf finds.
func (e *even) enter(j int32) {
	from := e.pools[j].blocks.from
	for i, b := range e.blocksOf(j) {
		if b.crowd == alone {
			e.atUser[b.users[0]] = from + int32(i)
		} else {
			e.atCrowd[b.crowd] = from + int32(i)
		}
	}
}

// blockOf finds the block of a user in the pool that was entered last. It must have one.
func (e *even) blockOf(u int32) *block {
	if c := e.crowd[u]; c != alone {
		return &e.blocks[e.atCrowd[c]]
	}
	return &e.blocks[e.atUser[u]]
}

// above tells whether somebody holds more than its share rounded down, and may be rounded up.
func (e *even) above(h *holding) bool {
	b := e.blockOf(h.user)
	return b.fraction && h.held > b.lo
}

// keep rounds up those who hold more than their share rounded down: of too many those who are furthest behind.
func (e *even) keep() {
	var queue []int32
	for j := range e.pools {
		slots := e.slotsOf(int32(j))
		if len(slots) == 0 {
			continue
		}
		e.enter(int32(j))
		queue = queue[:0]
		holds := e.holdingsOf(int32(j))
		for i := range holds {
			if e.above(&holds[i]) {
				queue = append(queue, holds[i].user)
			}
		}
		if len(queue) > len(slots) {
			slices.SortFunc(queue, func(a, b int32) int {
				return cmp.Or(cmp.Compare(e.ahead[e.member[a]], e.ahead[e.member[b]]), cmp.Compare(a, b))
			})
		}
		for i, u := range queue[:min(len(slots), len(queue))] {
			slots[i].user, slots[i].kept = u, true
			e.ahead[e.member[u]] += unit
		}
	}
}

// fill gives the slots that are left to those who are furthest behind in total.
func (e *even) fill() {
	ranks := make([]ranking, len(e.crowds))
	var aside []int32
	for j := range e.pools {
		slots := e.slotsOf(int32(j))
		at := len(slots)
		for at > 0 && slots[at-1].user < 0 {
			at--
		}
		if at == len(slots) {
			continue
		}
		e.visit++
		for i := range slots[:at] {
			e.taken[slots[i].user] = e.visit
		}
		aside = aside[:0]
		for ; at < len(slots); at++ {
			best := int32(-1)
			for _, b := range e.blocksOf(int32(j)) {
				if !b.fraction || b.crowd == alone {
					continue // one that attracts nothing has what it may have: keep came to it first
				}
				r := &ranks[b.crowd]
				if *r == nil {
					*r = newRanking(b.users, func(u int32) fixed { return e.ahead[e.member[u]] })
				}
				var u int32
				u, aside = e.behind(r, aside)
				if u >= 0 && (best < 0 || e.ahead[e.member[u]] < e.ahead[e.member[best]]) {
					best = u
				}
			}
			slots[at].user = best
			e.taken[best] = e.visit
			e.ahead[e.member[best]] += unit
		}
		for _, u := range aside {
			ranks[e.crowd[u]].push(ranked{e.ahead[e.member[u]], u})
		}
	}
}

// behind finds who of a crowd is furthest behind and not rounded up in this pool. Those who are go from the ranking to aside.
func (e *even) behind(r *ranking, aside []int32) (int32, []int32) {
	for len(*r) > 0 {
		top := (*r)[0]
		now := e.ahead[e.member[top.id]]
		switch {
		case e.taken[top.id] == e.visit:
			aside = append(aside, r.pop().id)
		case top.by != now:
			r.pop()
			r.push(ranked{now, top.id})
		default:
			return top.id, aside
		}
	}
	return -1, aside
}
