package policy

import (
	"cmp"
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// Where a held key goes: to a member (its number), or one of these.
const (
	stays  int32 = -1
	leaves int32 = -2 // nobody else may have it
)

// assigner turns the counts of an answer into particular keys. Who is full at this moment is given nothing, even if the
// plan makes room for it: what it should have comes when the room is there.
type assigner struct {
	*Plan
	room  []int32 // of each user, less what it was given here
	ahead []fixed // of each member: what it holds, more what it was given here, less its share
	to    []int32 // of each lease
}

// assign finds the moves, and who is to claim each free key.
func (p *Plan) assign() {
	a := &assigner{Plan: p, room: make([]int32, len(p.users)), to: make([]int32, len(p.leases))}
	a.ahead = p.standing()
	for i := range p.users {
		a.room[i] = p.users[i].room()
	}
	for i := range a.to {
		a.to[i] = stays
	}
	leaseAt, freeAt := 0, 0
	for j := range p.names {
		from := leaseAt
		for leaseAt < len(p.leases) && !p.beyond(p.leases[leaseAt].key, j) {
			leaseAt++
		}
		freeFrom := freeAt
		for freeAt < len(p.free) && !p.beyond(p.free[freeAt].key, j) {
			freeAt++
		}
		a.assignPool(int32(j), from, leaseAt, p.free[freeFrom:freeAt])
	}
	a.assignRest()
	a.finish()
}

// standing is how far each member is ahead of its share in total.
func (p *Plan) standing() []fixed {
	ahead := make([]fixed, len(p.members))
	for _, s := range p.problem.stakes {
		ahead[p.users[s.consumer].member] += fix(s.held) - s.share
	}
	return ahead
}

// beyond tells whether k comes after the last key of pool j.
func (p *Plan) beyond(k lease.Key, j int) bool {
	name := p.names[j]
	if c := cmp.Compare(k.Topic, name.topic); c != 0 {
		return c > 0
	}
	return name.whole && k.Partition != lease.WholeTopic
}

// takers walks over the stakes that should have more than they hold, in the order of members. Whoever is served with all
// of its keys at once leaves the others' unchanged.
type takers struct {
	stakes []stake
	short  []int32
	room   []int32
	at     int
}

// next takes one unit for the next stake that has room; false: nobody is left.
func (t *takers) next() (user int32, ok bool) {
	for ; t.at < len(t.stakes); t.at++ {
		u := t.stakes[t.at].consumer
		if t.short[t.at] > 0 && t.room[u] > 0 {
			t.short[t.at]--
			if t.room[u] != noLimit {
				t.room[u]--
			}
			return u, true
		}
	}
	return 0, false
}

func (a *assigner) assignPool(j int32, from, to int, free []freeKey) {
	stakes := a.problem.stakesOf(int(j))
	t := &takers{stakes: stakes, short: make([]int32, len(stakes)), room: a.room}
	for i := range stakes {
		t.short[i] = max(0, stakes[i].x-stakes[i].held)
	}
	for i := from; i < to; i++ {
		h := &a.leases[i]
		if h.pool != j || h.state != unwanted && h.state != overflowing || a.marked(h.key) {
			continue
		}
		if h.stake >= 0 {
			// it has too much of another pool, not of this one: this key can be run once that is gone
			if own := h.stake - a.problem.pools[j].from; t.short[own] > 0 {
				t.short[own]--
				continue
			}
		}
		if u, ok := t.next(); ok {
			a.to[i] = a.users[u].member
			a.ahead[a.users[u].member] += unit
		} else {
			a.to[i] = leaves // for now: assignRest looks for somebody
		}
	}
	for _, i := range a.surplus(j, from, to) {
		u, ok := t.next()
		if !ok {
			break
		}
		a.to[i] = a.users[u].member
		a.ahead[a.users[u].member] += unit
	}
	for i := range free {
		if f := &free[i]; f.pool == j && a.freeShared(f) {
			u, ok := t.next()
			if !ok {
				break
			}
			f.to = a.users[u].member
			a.ahead[f.to] += unit
		}
	}
}

// surplus lists the leases of a pool that their holders should not keep, of each holder the newest: those with the
// largest (epoch, key).
func (a *assigner) surplus(j int32, from, to int) []int {
	stakes := a.problem.stakesOf(int(j))
	first := a.problem.pools[j].from
	any := false
	for i := range stakes {
		any = any || stakes[i].x < stakes[i].held
	}
	if !any {
		return nil
	}
	mine := make([][]int, len(stakes))
	for i := from; i < to; i++ {
		if h := &a.leases[i]; h.pool == j && h.state == shared {
			if s := h.stake - first; stakes[s].x < stakes[s].held {
				mine[s] = append(mine[s], i)
			}
		}
	}
	var all []int
	for s, keys := range mine {
		if len(keys) == 0 {
			continue
		}
		slices.SortFunc(keys, func(x, y int) int {
			return cmp.Or(cmp.Compare(a.leases[y].epoch, a.leases[x].epoch), cmp.Compare(y, x))
		})
		all = append(all, keys[:stakes[s].held-stakes[s].x]...)
	}
	slices.Sort(all)
	return all
}

// assignRest finds somebody for the keys that must go and are in nobody's share.
func (a *assigner) assignRest() {
	for i := range a.leases {
		h := &a.leases[i]
		if h.state != unwanted && h.state != overflowing || a.to[i] >= 0 {
			continue
		}
		if a.to[i] == stays && h.pool >= 0 && !a.marked(h.key) && a.sharers(h.pool) {
			continue // it is to be run again where it is
		}
		a.to[i] = leaves
		u, ok := a.best(h.key, h.member, a.room, a.ahead, nil)
		if !ok {
			continue
		}
		if a.room[u] != noLimit {
			a.room[u]--
		}
		a.to[i] = a.users[u].member
		a.ahead[a.users[u].member] += unit
	}
}

// finish lists the moves, and drops the free keys that nobody may have at present.
func (a *assigner) finish() {
	a.byFrom = make([][]int32, len(a.members))
	for i := range a.leases {
		h := &a.leases[i]
		if a.to[i] == stays {
			continue
		}
		m := Move{Key: h.key, From: a.members[h.member].id, Forced: h.state != shared}
		if a.to[i] >= 0 {
			m.To = a.members[a.to[i]].id
		}
		a.byFrom[h.member] = append(a.byFrom[h.member], int32(len(a.moves)))
		a.moves = append(a.moves, m)
	}
	roomy := make([]bool, len(a.names))
	for j := range roomy {
		for _, s := range a.problem.stakesOf(j) {
			roomy[j] = roomy[j] || a.users[s.consumer].room() > 0
		}
	}
	a.free = slices.DeleteFunc(a.free, func(f freeKey) bool {
		return !f.pinned && !roomy[f.pool]
	})
}
