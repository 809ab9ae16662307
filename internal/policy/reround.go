package policy

import "slices"

// spread gives the least and the most that anybody is ahead of its share. Together all come to zero, so that is between them.
func (e *even) spread() (least, most fixed) {
	for _, a := range e.ahead {
		least, most = min(least, a), max(most, a)
	}
	return least, most
}

// link lists the slots of each member.
func (e *even) link() {
	e.first = zeroed(e.first, len(e.ahead))
	for m := range e.first {
		e.first[m] = -1
	}
	for i := len(e.slots) - 1; i >= 0; i-- {
		e.attach(int32(i))
	}
}

func (e *even) attach(i int32) {
	m := e.member[e.slots[i].user]
	e.slots[i].next, e.first[m] = e.first[m], i
}

// pass gives a slot to another user.
func (e *even) pass(i, to int32) {
	s := &e.slots[i]
	at := &e.first[e.member[s.user]]
	for *at != i {
		at = &e.slots[*at].next
	}
	*at = s.next
	e.lost = e.lost || s.kept
	s.user, s.kept = to, false
	e.enter(s.pool)
	for h := range e.holdingsOf(s.pool) {
		if h := &e.holdingsOf(s.pool)[h]; h.user == to {
			s.kept = e.above(h)
		}
	}
	e.attach(i)
}

// maxFruitless is how many members level looks at in vain for one. What it does not find, improve does.
const maxFruitless = 16

// level lets who is furthest behind in total take a slot from who is furthest ahead, until they are level. It brings nothing
// that improve would not bring, but improve needs a search for each, and after a Join there may be hundreds.
func (e *even) level() {
	if least, most := e.spread(); most-least <= unit {
		return
	}
	e.link()
	members := make([]int32, len(e.ahead))
	for m := range members {
		members[m] = int32(m)
	}
	behind := newRanking(members, func(m int32) fixed { return e.ahead[m] })
	ahead := newRanking(members, func(m int32) fixed { return -e.ahead[m] })
	has := make([]int32, len(e.pools))
	var aside []int32
	for step := int32(1); len(behind) > 0; step++ {
		to := behind.pop()
		if to.by != e.ahead[to.id] {
			continue // it is further down as well
		}
		for i := e.first[to.id]; i != none; i = e.slots[i].next {
			has[e.slots[i].pool] = step
		}
		aside = aside[:0]
		for len(ahead) > 0 && len(aside) < maxFruitless {
			from := ahead.pop()
			if -from.by != e.ahead[from.id] {
				continue
			}
			if e.ahead[from.id] <= e.ahead[to.id]+unit {
				if len(aside) == 0 {
					return
				}
				aside = append(aside, from.id)
				break
			}
			i, u := e.gift(from.id, to.id, has, step)
			if i == none {
				aside = append(aside, from.id)
				continue
			}
			e.pass(i, u)
			e.ahead[from.id] -= unit
			e.ahead[to.id] += unit
			for _, m := range []int32{from.id, to.id} {
				behind.push(ranked{e.ahead[m], m})
				ahead.push(ranked{-e.ahead[m], m})
			}
			break
		}
		for _, m := range aside {
			ahead.push(ranked{-e.ahead[m], m})
		}
	}
}

// gift finds a slot that a member can give to another, which has one of each pool that is marked with step, and the user of
// that one. It is a slot that costs no move if there is such.
func (e *even) gift(from, to int32, has []int32, step int32) (slot, user int32) {
	slot = none
	first, _ := slices.BinarySearch(e.member, to)
	for i := e.first[from]; i != none; i = e.slots[i].next {
		s := &e.slots[i]
		if has[s.pool] == step || slot != none && (s.kept || !e.slots[slot].kept) {
			continue
		}
		for u := first; u < len(e.member) && e.member[u] == to; u++ {
			if e.eligible(s.pool, int32(u)) {
				slot, user = i, int32(u)
			}
		}
	}
	return slot, user
}

// eligible tells whether a user may be rounded up in a pool.
func (e *even) eligible(j, u int32) bool {
	for i := range e.blocksOf(j) {
		b := &e.blocksOf(j)[i]
		if b.fraction && (b.crowd == alone && b.users[0] == u || b.crowd != alone && b.crowd == e.crowd[u]) {
			return true
		}
	}
	return false
}
