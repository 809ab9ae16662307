package policy

import (
	"cmp"
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// state is what a plan may do with a held key.
type state uint8

const (
	settled     state = iota // not part of the shares: parked, pinned, greedy, marked unfit
	shared                   // part of the shares
	unwanted                 // its holder does not want it
	overflowing              // its holder has more than its maximum, and this is not one of those it may run
)

// held is one lease.
type held struct {
	key    lease.Key
	epoch  int64
	member int32 // -1: its holder is parked
	pool   int32 // -1: nobody wants such a key
	user   int32 // -1: its holder does not want it
	state  state
}

// place is where an instance is: who it is among the members, or whose client id it has.
type place struct {
	member int32 // -1: it is parked
	client string
}

// reading reads a world into a plan. Settled keys are only counted, so that a plan is no larger than what there is to do.
type reading struct {
	*Plan
	w    *lease.World
	even even
	todo []held // unwanted and overflowing, in the order of keys
	gaps []gap  // of the answer

	over   map[lease.Key]struct{} // held over a maximum
	pinned []lease.Key            // claimed by hand and free, in order
	places []place                // of the instances in the world's order
	aside  []int32                // of each user, keys that count for its maximum and are set apart from the shares
	unfit  bool                   // somebody is marked unfit for something
	wants  []int32                // of each kind, the last pool that was entered and that it wants
	count  []int32                // of each user, a number that is zero between two pools until the answer is found
	at     cursor
	client string // of the parked instance whose lease was read last
}

// begin begins a new plan; old is the one before, of any world.
func (r *reading) begin(w *lease.World, old *Plan) {
	r.Plan, r.w = &Plan{}, w
	switch {
	case old == nil:
		r.roster = newRoster(w, nil)
	case old.roster.of(w):
		r.roster = old.roster
	default:
		r.roster = newRoster(w, old.roster)
	}
	r.todo, r.gaps, r.over, r.client = r.todo[:0], r.gaps[:0], nil, ""
}

// zeroed makes a list of so many zeros, in the memory of another where that suffices.
func zeroed[T any](list []T, n int) []T {
	if cap(list) < n {
		return make([]T, n)
	}
	list = list[:n]
	clear(list)
	return list
}

// readLeases reads who holds what, and what is free.
func (r *reading) readLeases() {
	r.unfit = r.w.HasMarks()
	r.readMaxima()
	r.pinned = r.freePins(r.w)
	r.aside = zeroed(r.aside, len(r.users))
	r.wants, r.count = zeroed(r.wants, len(r.kinds)), zeroed(r.count, len(r.users))
	for k := range r.wants {
		r.wants[k] = -1
	}
	r.even.pools, r.even.holds = zeroed(r.even.pools, len(r.names)), r.even.holds[:0]
	r.places = r.places[:0]
	alive := int32(0)
	for in := range r.w.Instances() {
		if in.Status == lease.Alive {
			r.places = append(r.places, place{member: alive})
			alive++
		} else {
			r.places = append(r.places, place{-1, in.Client})
		}
	}
	r.readPools()
	r.addPins()
	r.readHeirs()
}

// readLease counts a lease into the shares, or sets it apart.
func (r *reading) readLease(h *held, j int32) {
	if j >= 0 {
		r.readMark(h.key, j)
	}
	r.classify(h, j)
	if h.user >= 0 && r.held != nil {
		r.held[h.user]++
	}
	switch h.state {
	case settled:
		if h.user >= 0 {
			r.aside[h.user]++
		}
	case shared:
		r.even.pools[j].units++
	case unwanted, overflowing:
		r.todo = append(r.todo, *h)
		if j >= 0 && !r.isMarked(h.key) && r.shared[j] {
			r.even.pools[j].units++
		}
	}
}

// classify tells what may be done with a lease on a key of pool j, the one that was entered last.
func (r *reading) classify(h *held, j int32) {
	h.pool, h.user, h.state = j, -1, settled
	if h.member < 0 || r.isPinned(h.member, h.key) {
		return
	}
	h.state = unwanted
	if j < 0 {
		return
	}
	for u := r.members[h.member].from; u < r.members[h.member].to; u++ {
		if k := r.users[u].kind; r.wants[k] == j {
			h.user, h.state = u, shared
			if _, over := r.over[h.key]; over {
				h.state = overflowing
			} else if r.kinds[k].greedy || r.isMarked(h.key) {
				h.state = settled
			}
			return
		}
	}
}

// readMaxima finds what is held over a maximum: the leases with the largest (epoch, key).
func (r *reading) readMaxima() {
	type mine struct {
		key   lease.Key
		epoch int64
	}
	for k := range r.kinds {
		if r.kinds[k].max == noLimit {
			continue
		}
		if r.held == nil {
			r.held = make([]int32, len(r.users))
		}
		for _, u := range r.mates[k] {
			m := r.users[u].member
			if r.w.HeldCount(r.members[m].id) <= int(r.kinds[k].max) {
				continue
			}
			var keys []mine
			for key, l := range r.w.HeldBy(r.members[m].id) {
				if of, ok := r.userOf(m, key); ok && of == u && !r.isPinned(m, key) {
					keys = append(keys, mine{key, l.Epoch})
				}
			}
			if len(keys) <= int(r.kinds[k].max) {
				continue
			}
			slices.SortFunc(keys, func(a, b mine) int {
				return cmp.Or(cmp.Compare(a.epoch, b.epoch), compareKeys(a.key, b.key))
			})
			if r.over == nil {
				r.over, r.overflow = make(map[lease.Key]struct{}), make(map[int32][]lease.Key)
			}
			for _, h := range keys[r.kinds[k].max:] {
				r.over[h.key] = struct{}{}
				r.overflow[m] = append(r.overflow[m], h.key)
			}
			slices.SortFunc(r.overflow[m], compareKeys)
		}
	}
}

// readMark notes who is unfit for a key, if that counts: somebody who wants it is not.
func (r *reading) readMark(k lease.Key, j int32) {
	if !r.unfit || !r.w.HasMark(k) {
		return
	}
	var unfit []int32
	all := true
	for u := range r.wanting(j) {
		m := r.users[u].member
		if r.w.Unfit(r.members[m].id, k) {
			unfit = append(unfit, m)
		} else {
			all = false
		}
	}
	if all || len(unfit) == 0 {
		return
	}
	if r.marks == nil {
		r.marks = make(map[lease.Key][]int32)
	}
	r.marks[k] = unfit
}

func (p *Plan) isMarked(k lease.Key) bool {
	return p.marks[k] != nil
}

func (p *Plan) isUnfit(m int32, k lease.Key) bool {
	return slices.Contains(p.marks[k], m)
}
