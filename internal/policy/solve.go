package policy

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"slices"
)

// maxStakes is the number of stakes up to which maxima that bind are part of the problem. Of a larger group (which may be
// garbage in the log) the answer is the even one: nobody gets more than its maximum, but what it cannot have is not in
// the others' shares. They take it when their turn comes.
const maxStakes = 1 << 20

// solve finds how many keys of each pool everybody should have: as an even problem, unless a maximum is in the way.
func (r *reading) solve() {
	e := &r.even
	e.member, e.weight = zeroed(e.member, len(r.users)), zeroed(e.weight, len(r.users))
	e.crowd, e.crowds = zeroed(e.crowd, len(r.users)), zeroed(e.crowds, len(r.kinds))
	r.ahead = make([]fixed, len(r.members))
	for u := range r.users {
		k := r.users[u].kind
		e.member[u], e.weight[u], e.crowd[u] = r.users[u].member, r.kinds[k].weight, k
		if r.kinds[k].greedy || r.shadowed[e.member[u]] {
			e.crowd[u] = alone
		}
	}
	for k := range r.kinds {
		e.crowds[k] = r.mates[k]
		if slices.ContainsFunc(r.mates[k], func(u int32) bool { return e.crowd[u] == alone }) {
			e.crowds[k] = slices.DeleteFunc(slices.Clone(r.mates[k]), func(u int32) bool { return e.crowd[u] == alone })
		}
	}
	for _, h := range e.holds {
		r.ahead[e.member[h.user]] += fix(h.held)
	}
	e.solve(len(r.members))
	if r.binds() && r.stakes() <= maxStakes {
		r.solveGenerally()
		return
	}
	for m := range r.ahead {
		r.ahead[m] -= e.share[m]
	}
	for j := range e.pools {
		r.evenGaps(int32(j))
	}
}

// stakes is how many there would be of everybody in everything.
func (s *roster) stakes() (n int) {
	for k := range s.kinds {
		n += len(s.kinds[k].pools) * len(s.mates[k])
	}
	return n
}

// limit is how many keys of the shares a user may have.
func (r *reading) limit(u int32) int32 {
	if most := r.kinds[r.users[u].kind].max; most != noLimit {
		return most - r.aside[u]
	}
	return noLimit
}

// binds tells whether somebody's maximum does not leave room for its share, or for what the even answer gives it.
func (r *reading) binds() bool {
	e := &r.even
	used := make(map[int32]int32)
	for i := range e.slots {
		if u := e.slots[i].user; r.kinds[r.users[u].kind].max != noLimit {
			used[u]++
		}
	}
	for k := range r.kinds {
		if r.kinds[k].max == noLimit {
			continue
		}
		var share fixed
		var lo int32
		for i := range e.blocks {
			if e.blocks[i].crowd == int32(k) {
				share += e.blocks[i].share
				lo += e.blocks[i].lo
			}
		}
		for _, u := range e.crowds[k] {
			if limit := r.limit(u); share > fix(limit) || lo+used[u] > limit {
				return true
			}
		}
	}
	return false
}

// evenGaps lists the gaps of a pool in the even answer.
func (r *reading) evenGaps(j int32) {
	e := &r.even
	from := len(r.gaps)
	add := func(u, lo int32) {
		if more := lo + r.count[u]; more != 0 {
			r.gaps = append(r.gaps, gap{j, u, more})
		}
		r.count[u] = 0
	}
	slots, holds := e.slotsOf(j), e.holdingsOf(j)
	for i := range slots {
		r.count[slots[i].user]++
	}
	for i := range holds {
		r.count[holds[i].user] -= holds[i].held
	}
	for _, b := range e.blocksOf(j) {
		if b.lo > 0 {
			for _, u := range b.users {
				add(u, b.lo)
			}
		}
	}
	for i := range slots {
		add(slots[i].user, 0)
	}
	for i := range holds {
		add(holds[i].user, 0)
	}
	slices.SortFunc(r.gaps[from:], func(a, b gap) int { return cmp.Compare(a.user, b.user) })
}

// solveGenerally solves the problem with the stakes of everybody in everything.
func (r *reading) solveGenerally() {
	p := &problem{members: len(r.members), consumers: make([]consumer, len(r.users)), pools: make([]pool, len(r.names))}
	seeds := make([]uint64, len(r.members))
	for i := range seeds {
		id := r.members[i].id
		seeds[i] = binary.LittleEndian.Uint64(id[:8]) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(id[8:]), 29)
	}
	for u := range p.consumers {
		p.consumers[u] = consumer{member: r.users[u].member, limit: r.limit(int32(u))}
	}
	for j := range p.pools {
		pl := &p.pools[j]
		pl.units, pl.from = r.even.pools[j].units, int32(len(p.stakes))
		for _, h := range r.even.holdingsOf(int32(j)) {
			r.count[h.user] = h.held
		}
		topic := uint64(crc32.ChecksumIEEE([]byte(r.names[j].topic)))
		for u := range r.wanting(int32(j)) {
			k := &r.kinds[r.users[u].kind]
			if k.greedy {
				continue
			}
			m := r.users[u].member
			s := stake{consumer: u, pool: int32(j), weight: k.weight, held: r.count[u], most: noLimit, tie: tieNumber(topic, seeds[m])}
			if r.shadowed[m] {
				s.most = s.held
			}
			r.count[u] = 0
			p.stakes = append(p.stakes, s)
		}
		pl.to = int32(len(p.stakes))
		slices.SortFunc(p.stakesOf(j), func(a, b stake) int { return cmp.Compare(a.consumer, b.consumer) })
	}
	p.solve()
	for i := range p.stakes {
		s := &p.stakes[i]
		r.ahead[r.users[s.consumer].member] -= s.share
		if s.x != s.held {
			r.gaps = append(r.gaps, gap{s.pool, s.consumer, s.x - s.held})
		}
	}
}

// tieNumber decides between answers that are equally good. It only has to differ between members and topics, and to
// be the same for everybody: a rendezvous hash without the cost of SHA-256 for every pair.
func tieNumber(topic, member uint64) uint32 {
	h := (topic*0x9e3779b97f4a7c15 ^ member) * 0xd6e8feb86659fd93
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	return uint32(h >> 32)
}
