package policy

import (
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// freeKey is a key without a lease on it or on a conflicting one, that somebody may have.
type freeKey struct {
	key    lease.Key
	pool   int32 // -1: it is only pinned
	to     int32 // the member that the plan names; -1: none
	pinned bool  // somebody claims it by hand: not part of the shares
}

// readFree finds the free keys and counts them into the shares.
func (p *Plan) readFree(w *lease.World) {
	pinned := p.freePins(w)
	at := 0 // in p.leases
	for j := 0; j < len(p.names); {
		topic := p.names[j].topic
		for at < len(p.leases) && p.leases[at].key.Topic < topic {
			at++
		}
		from := at
		for at < len(p.leases) && p.leases[at].key.Topic == topic {
			at++
		}
		for ; j < len(p.names) && p.names[j].topic == topic; j++ {
			if p.names[j].whole {
				p.readFreeTopic(w, int32(j), p.leases[from:at])
			} else {
				p.readFreePartitions(w, int32(j), p.leases[from:at])
			}
		}
	}
	p.addPins(pinned)
}

// readFreeTopic finds a topic free as a whole: nobody holds any of it.
func (p *Plan) readFreeTopic(w *lease.World, j int32, leases []held) {
	if len(leases) == 0 && p.parts[j] > 0 {
		p.addFree(w, j, lease.WholeTopic)
	}
}

func (p *Plan) readFreePartitions(w *lease.World, j int32, leases []held) {
	if len(leases) > 0 && leases[0].key.Partition == lease.WholeTopic {
		return
	}
	for part := range p.parts[j] {
		for len(leases) > 0 && leases[0].key.Partition < part {
			leases = leases[1:]
		}
		if len(leases) == 0 || leases[0].key.Partition != part {
			p.addFree(w, j, part)
		}
	}
}

func (p *Plan) addFree(w *lease.World, j int32, partition int32) {
	k := lease.Key{Topic: p.names[j].topic, Partition: partition}
	p.readMark(w, k, j)
	p.free = append(p.free, freeKey{key: k, pool: j, to: -1})
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

// addPins adds the pinned keys to the free ones, and counts the others into the shares.
func (p *Plan) addPins(pinned []lease.Key) {
	covered := len(p.free)
	for _, k := range pinned {
		i, ok := slices.BinarySearchFunc(p.free[:covered], k, func(f freeKey, k lease.Key) int { return compareKeys(f.key, k) })
		if ok {
			p.free[i].pinned = true
		} else {
			p.free = append(p.free, freeKey{key: k, pool: -1, to: -1, pinned: true})
		}
	}
	if covered < len(p.free) {
		slices.SortFunc(p.free, func(a, b freeKey) int { return compareKeys(a.key, b.key) })
	}
	for i := range p.free {
		if f := &p.free[i]; p.freeShared(f) {
			p.problem.pools[f.pool].units++
		}
	}
}

// freeShared tells whether a free key is part of the shares.
func (p *Plan) freeShared(f *freeKey) bool {
	return f.pool >= 0 && !f.pinned && !p.marked(f.key) && p.sharers(f.pool)
}
