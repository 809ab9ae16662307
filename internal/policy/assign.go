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

// gap is how many more units of a pool a user should have than it holds, or fewer.
type gap struct{ pool, user, more int32 }

// assigner turns the counts of an answer into particular keys. Who is full at this moment is given nothing, even if the
// plan makes room for it: what it should have comes when the room is there.
type assigner struct {
	*reading
	room  []int32 // of each user, less what it was given here
	ahead []fixed // of each member: what it holds, more what it was given here, less its share
	to    []int32 // of each lease that is to do
}

// assign finds the moves, and who is to claim each free key.
func (r *reading) assign() {
	if len(r.gaps)+len(r.todo)+len(r.free) == 0 {
		return
	}
	a := &assigner{reading: r, room: r.rooms(), ahead: slices.Clone(r.Plan.ahead), to: make([]int32, len(r.todo))}
	for i := range a.to {
		a.to[i] = stays
	}
	gapAt, todoAt, freeAt := 0, 0, 0
	for j := range r.names {
		gaps, todo, free := gapAt, todoAt, freeAt
		for gapAt < len(r.gaps) && r.gaps[gapAt].pool == int32(j) {
			gapAt++
		}
		for todoAt < len(r.todo) && !r.beyond(r.todo[todoAt].key, j) {
			todoAt++
		}
		for freeAt < len(r.free) && !r.beyond(r.free[freeAt].key, j) {
			freeAt++
		}
		a.assignPool(int32(j), r.gaps[gaps:gapAt], todo, todoAt, r.free[free:freeAt])
	}
	a.assignRest()
	a.finish()
}

// beyond tells whether k comes after the last key of pool j.
func (p *Plan) beyond(k lease.Key, j int) bool {
	return poolOf(k).compare(p.names[j]) > 0
}

// takers walks over the gaps of those who should have more than they hold, in the order of members. Whoever is served
// with all of its keys at once leaves the others' unchanged.
type takers struct {
	gaps []gap
	room []int32
	at   int
}

// next takes one unit for the next one that has room; false: nobody is left.
func (t *takers) next() (user int32, ok bool) {
	for ; t.at < len(t.gaps); t.at++ {
		g := &t.gaps[t.at]
		if g.more > 0 && t.room[g.user] > 0 {
			g.more--
			if t.room[g.user] != noLimit {
				t.room[g.user]--
			}
			return g.user, true
		}
	}
	return 0, false
}

func (a *assigner) assignPool(j int32, gaps []gap, from, to int, free []freeKey) {
	t := &takers{gaps: gaps, room: a.room}
	for i := from; i < to; i++ {
		h := &a.todo[i]
		if h.pool != j || a.isMarked(h.key) {
			continue
		}
		if h.user >= 0 {
			// it has too much of another pool, not of this one: this key can be run once that is gone
			own, ok := slices.BinarySearchFunc(gaps, h.user, func(g gap, u int32) int { return cmp.Compare(g.user, u) })
			if ok && gaps[own].more > 0 {
				gaps[own].more--
				continue
			}
		}
		if u, ok := t.next(); ok {
			a.give(&a.to[i], u)
		} else {
			a.to[i] = leaves // for now: assignRest looks for somebody
		}
	}
	for _, h := range a.surplus(j, gaps) {
		to := stays
		u, ok := t.next()
		if !ok {
			break
		}
		a.give(&to, u)
		a.move(&h, to)
	}
	for i := range free {
		if f := &free[i]; a.freeShared(f) {
			u, ok := t.next()
			if !ok {
				break
			}
			a.give(&f.to, u)
		}
	}
}

// give notes to whom a key goes.
func (a *assigner) give(to *int32, u int32) {
	*to = a.users[u].member
	a.ahead[*to] += unit
}

// surplus lists the leases of a pool that their holders should not keep, of each holder the newest: those with the
// largest (epoch, key).
func (a *assigner) surplus(j int32, gaps []gap) []held {
	var givers []lease.InstanceID
	walk := 0 // as many keys as they hold of all pools
	for _, g := range gaps {
		if g.more < 0 {
			a.count[g.user] = -g.more
			id := a.members[a.users[g.user].member].id
			givers = append(givers, id)
			walk += a.w.HeldCount(id)
		}
	}
	if len(givers) == 0 {
		return nil
	}
	var all []held
	a.enter(j)
	look := func(k lease.Key, l lease.Lease) {
		m, joined := a.index[l.Instance]
		if !joined || poolOf(k) != a.names[j] || !a.exists(j, k) {
			return
		}
		h := held{key: k, epoch: l.Epoch, member: m}
		if a.classify(&h, j); h.state == shared && a.count[h.user] > 0 {
			all = append(all, h)
		}
	}
	if walk < int(a.even.pools[j].units) {
		for _, id := range givers {
			for k, l := range a.w.HeldBy(id) {
				look(k, l)
			}
		}
	} else {
		for k, l := range a.w.Conflicts(lease.Key{Topic: a.names[j].topic, Partition: lease.WholeTopic}) {
			look(k, l)
		}
	}
	slices.SortFunc(all, func(x, y held) int {
		return cmp.Or(cmp.Compare(y.epoch, x.epoch), compareKeys(y.key, x.key))
	})
	all = slices.DeleteFunc(all, func(h held) bool {
		a.count[h.user]--
		return a.count[h.user] < 0
	})
	slices.SortFunc(all, func(x, y held) int { return compareKeys(x.key, y.key) })
	return all
}

// assignRest finds somebody for the keys that must go and are in nobody's share.
func (a *assigner) assignRest() {
	for i := range a.todo {
		h := &a.todo[i]
		if a.to[i] < 0 {
			if a.to[i] == stays && h.pool >= 0 && !a.isMarked(h.key) && a.shared[h.pool] {
				continue // it is to be run again where it is
			}
			if u, ok := a.best(h.key, h.member, a.room, a.ahead, nil); ok {
				if a.room[u] != noLimit {
					a.room[u]--
				}
				a.give(&a.to[i], u)
			}
		}
		a.move(h, a.to[i])
	}
}

func (a *assigner) move(h *held, to int32) {
	m := Move{Key: h.key, From: a.members[h.member].id, Forced: h.state != shared}
	if to >= 0 {
		m.To = a.members[to].id
	}
	a.moves = append(a.moves, m)
}

// finish puts the moves in order, and drops the free keys that nobody may have at present.
func (a *assigner) finish() {
	slices.SortFunc(a.moves, func(x, y Move) int { return compareKeys(x.Key, y.Key) })
	a.byFrom = make(map[int32][]int32)
	for i := range a.moves {
		m := a.index[a.moves[i].From]
		a.byFrom[m] = append(a.byFrom[m], int32(i))
	}
	pool, roomy := int32(-1), false
	a.free = slices.DeleteFunc(a.free, func(f freeKey) bool {
		if f.pool != pool && f.pool >= 0 {
			pool, roomy = f.pool, false
			for u := range a.wanting(pool) {
				if roomy = a.Plan.room(u) > 0; roomy {
					break
				}
			}
		}
		return !f.pinned && !roomy
	})
}
