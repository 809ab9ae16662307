package policy

import (
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// freeKey is a key without a lease on it or on a conflicting one, that somebody may have.
type freeKey struct {
	key    lease.Key
	pool   int32 // -1: it is in none, only pinned
	to     int32 // the member that the plan names; -1: none
	pinned bool  // somebody claims it by hand: not part of the shares
}

// addFree notes a key that nobody holds, and counts it into the shares.
func (r *reading) addFree(j int32, partition int32) {
	k := lease.Key{Topic: r.names[j].topic, Partition: partition}
	r.readMark(k, j)
	_, pinned := slices.BinarySearchFunc(r.pinned, k, compareKeys)
	f := freeKey{key: k, pool: j, to: -1, pinned: pinned}
	if r.freeShared(&f) {
		r.even.pools[j].units++
	}
	r.free = append(r.free, f)
}

// freePins lists the keys that somebody claims by hand and that nobody has, in order.
func (p *Plan) freePins(w *lease.World) []lease.Key {
	var pinned []lease.Key
	for pin := range p.pins {
		if _, _, taken := w.Conflict(pin.key); !taken {
			pinned = append(pinned, pin.key)
		}
	}
	slices.SortFunc(pinned, compareKeys)
	return slices.Compact(pinned)
}

// addPins adds the pinned keys that are in no pool to the free ones.
func (r *reading) addPins() {
	covered := len(r.free)
	for _, k := range r.pinned {
		_, ok := slices.BinarySearchFunc(r.free[:covered], k, func(f freeKey, k lease.Key) int { return compareKeys(f.key, k) })
		if !ok {
			r.free = append(r.free, freeKey{key: k, pool: -1, to: -1, pinned: true})
		}
	}
	if covered < len(r.free) {
		slices.SortFunc(r.free, func(a, b freeKey) int { return compareKeys(a.key, b.key) })
	}
}

// freeShared tells whether a free key is part of the shares.
func (p *Plan) freeShared(f *freeKey) bool {
	return !f.pinned && !p.isMarked(f.key) && p.shared[f.pool]
}
