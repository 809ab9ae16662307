package policy

import (
	"bytes"
	"encoding/binary"
	"iter"
	"math"
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// Free lists the free keys that somebody may claim, in order. Whole-topic keys stand beside partitions here only where
// they do not conflict with a lease. Pinned ones are among them.
func (p *Plan) Free() []lease.Key {
	keys := make([]lease.Key, len(p.free))
	for i := range p.free {
		keys[i] = p.free[i].key
	}
	return keys
}

func (p *Plan) findFree(k lease.Key) *freeKey {
	i, ok := slices.BinarySearchFunc(p.free, k, func(f freeKey, k lease.Key) int { return compareKeys(f.key, k) })
	if !ok {
		return nil
	}
	return &p.free[i]
}

// Planned lists the free keys for which id is the first in turn, in order, as TurnOf would tell for each.
func (p *Plan) Planned(id lease.InstanceID) []lease.Key {
	m, ok := p.index[id]
	if !ok {
		return nil
	}
	var keys []lease.Key
	for i := range p.free {
		f := &p.free[i]
		if f.to == m || f.to < 0 && p.TurnWithin(f.key, id, 1) == 0 {
			keys = append(keys, f.key)
		}
	}
	return keys
}

// Claimant gives the k-th in turn to claim a free key: 0 is the one that the plan names, the others follow in
// rendezvous order of the key among all who may have it. ok is false past the last.
func (p *Plan) Claimant(k lease.Key, turn int) (id lease.InstanceID, ok bool) {
	f := p.findFree(k)
	if f == nil || turn < 0 {
		return lease.InstanceID{}, false
	}
	if turn == 0 && f.to >= 0 {
		return p.members[f.to].id, true
	}
	order := p.order(f)
	if turn >= len(order) {
		return lease.InstanceID{}, false
	}
	return order[turn], true
}

// TurnOf gives the turn of an instance for a free key: 0 first; -1: it may not claim it.
func (p *Plan) TurnOf(k lease.Key, id lease.InstanceID) int { return p.TurnWithin(k, id, math.MaxInt) }

// TurnWithin is TurnOf for somebody who need not know which of the later turns is his: limit stands for all from limit on.
// It is found without looking at everybody, so that the members of a large group need not work out whole orders.
func (p *Plan) TurnWithin(k lease.Key, id lease.InstanceID, limit int) int {
	f := p.findFree(k)
	m, ok := p.index[id]
	if f == nil || !ok {
		return -1
	}
	own := p.class(f, m)
	if own == excluded {
		return -1
	}
	turn := 0
	x := keyBytes(k)
	mine := lease.Place(x, id)
	for o := range p.candidates(f) {
		c := p.class(f, o)
		if c == own && o != m {
			theirs := lease.Place(x, p.members[o].id)
			if bytes.Compare(theirs[:], mine[:]) > 0 {
				turn++
			}
		} else if c < own {
			turn++
		}
		if turn == limit {
			break
		}
	}
	return turn
}

// The classes of those who may claim a free key, in order: who claims it by hand, whom the plan names, the others; behind
// them those that attract nothing, and at last those that are unfit for it while somebody is not.
const (
	byHand = iota
	named
	ordinary
	last
	unfit
	excluded // may not claim it
)

// class is where a member stands.
func (p *Plan) class(f *freeKey, m int32) int {
	if f.pinned && p.isPinned(m, f.key) {
		return byHand
	}
	if f.pool < 0 {
		return excluded
	}
	u, ok := p.userIn(f.pool, m)
	switch {
	case !ok || p.room(u) == 0:
		return excluded
	case f.to == m:
		return named
	case p.isUnfit(m, f.key):
		return unfit
	case p.shadowed[m]:
		return last
	}
	return ordinary
}

// candidates are the members that may be of a class, each once.
func (p *Plan) candidates(f *freeKey) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		if f.pinned {
			for m := range p.members {
				if !yield(int32(m)) {
					return
				}
			}
			return
		}
		for u := range p.wanting(f.pool) {
			if !yield(p.users[u].member) {
				return
			}
		}
	}
}

// order lists who may claim a free key, class after class; within each it is the rendezvous order of the key.
func (p *Plan) order(f *freeKey) []lease.InstanceID {
	var class [excluded][]lease.InstanceID
	for m := range p.candidates(f) {
		if c := p.class(f, m); c != excluded {
			class[c] = append(class[c], p.members[m].id)
		}
	}
	x := keyBytes(f.key)
	var order []lease.InstanceID
	for _, ids := range class {
		if len(ids) > 1 {
			lease.Rank(x, ids)
		}
		order = append(order, ids...)
	}
	return order
}

// keyBytes is a key as the rendezvous order sees it: the topic's name, a zero byte, the partition in four bytes, big-endian.
func keyBytes(k lease.Key) []byte {
	return binary.BigEndian.AppendUint32(append([]byte(k.Topic), 0), uint32(k.Partition))
}

// Greedy lists the free keys that a greedy interest of id may claim at once, as many as it has room for, in order. Where
// it cannot have all it begins at a place of its own, so that several do not go for the same ones.
func (p *Plan) Greedy(id lease.InstanceID) []lease.Key {
	m, ok := p.index[id]
	if !ok {
		return nil
	}
	var keys []lease.Key
	for u := p.members[m].from; u < p.members[m].to; u++ {
		if p.kinds[p.users[u].kind].greedy {
			keys = append(keys, p.greedy(m, u)...)
		}
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}

func (p *Plan) greedy(m, u int32) []lease.Key {
	var keys []lease.Key
	room := p.room(u)
	if room == 0 {
		return nil
	}
	for i := range p.free {
		f := &p.free[i]
		if f.pinned || p.isUnfit(m, f.key) {
			continue
		}
		if of, ok := p.userIn(f.pool, m); ok && of == u {
			keys = append(keys, f.key)
		}
	}
	if int64(len(keys)) <= int64(room) {
		return keys
	}
	id := p.members[m].id
	begin := int(binary.BigEndian.Uint64(id[:8]) % uint64(len(keys)))
	return slices.Concat(keys[begin:], keys[:begin])[:room]
}

// Successor names who should get k when its holder must give it up now (draining, terminating, over its maximum,
// unfit): the plan's choice if it has one, else the best eligible instance other than the holder and not in not; zero:
// nobody. Best is who is furthest below its share, then the first in rendezvous order of k; a greedy one only where
// there is no other.
func (p *Plan) Successor(k lease.Key, holder lease.InstanceID, not func(lease.InstanceID) bool) lease.InstanceID {
	if m, ok := p.findMove(k); ok && m.From == holder && !m.To.IsZero() && (not == nil || !not(m.To)) {
		return m.To
	}
	from, ok := p.index[holder]
	if !ok {
		from = -1
	}
	u, ok := p.best(k, from, p.rooms(), p.ahead, not)
	if !ok {
		return lease.InstanceID{}
	}
	return p.members[p.users[u].member].id
}

// best finds the user that should get k.
func (p *Plan) best(k lease.Key, holder int32, room []int32, ahead []fixed, not func(lease.InstanceID) bool) (int32, bool) {
	j, ok := p.poolAt(k)
	if !ok {
		return 0, false
	}
	var ties []int32
	worse := func(a, b *user) bool { // a after b
		if greedy := p.kinds[a.kind].greedy; greedy != p.kinds[b.kind].greedy {
			return greedy
		}
		return ahead[a.member] > ahead[b.member]
	}
	for i := range p.wanting(j) {
		u := &p.users[i]
		m := &p.members[u.member]
		if room[i] == 0 || p.shadowed[u.member] || u.member == holder || p.isUnfit(u.member, k) || not != nil && not(m.id) {
			continue
		}
		if len(ties) > 0 {
			if worse(u, &p.users[ties[0]]) {
				continue
			}
			if worse(&p.users[ties[0]], u) {
				ties = ties[:0]
			}
		}
		ties = append(ties, i)
	}
	if len(ties) == 0 {
		return 0, false
	}
	if len(ties) == 1 {
		return ties[0], true
	}
	ids := make([]lease.InstanceID, len(ties))
	for i, u := range ties {
		ids[i] = p.members[p.users[u].member].id
	}
	lease.Rank(keyBytes(k), ids)
	for _, u := range ties {
		if p.members[p.users[u].member].id == ids[0] {
			return u, true
		}
	}
	return 0, false
}
