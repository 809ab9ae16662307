// Package policy decides, from the world alone, who should hold what (PROTOCOL.md §6 "Balance" and "Who claims a free
// key"). Everybody who has the same world computes the same plan.
//
// Compute reads the world into a problem (read.go), the problem is solved as arithmetic on counts (problem.go: shares,
// start, balance), and the answer is turned into moves and claims of particular keys (assign.go). What follows from a
// plan besides, whose turn it is and who comes after whom, is in turn.go.
package policy

import (
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// Plan is who should hold what, for one world. It does not change, and it does not look at the world again.
type Plan struct {
	*roster
	shadowed []bool                // of each member, whether it attracts nothing: see shadow and readHeirs
	held     []int32               // of each user, keys that count for its maximum; nil: nobody has one
	marks    map[lease.Key][]int32 // the members unfit for a key, where that counts
	parked   map[string][]parkedTopic
	overflow map[int32][]lease.Key // of each member
	ahead    []fixed               // of each member: what it holds less its share, in total

	moves  []Move            // in the order of keys
	byFrom map[int32][]int32 // of each member, indices of moves
	free   []freeKey         // in the order of keys
}

// Move says that the holder of a key should hand it to To (zero: let it go, nobody else may have it: never for a key
// that its holder wants and may keep).
type Move struct {
	Key      lease.Key
	From, To lease.InstanceID
	Forced   bool // its holder does not want it, or holds more than its maximum; not a matter of balance
}

// Planner computes plans and keeps the newest, so that the members of one world share it. Its zero value works.
type Planner struct {
	version uint64
	plan    *Plan
	reading reading // the memory of the last one is used again
}

// Plan gives the plan of w, computed anew only when w.Version() has changed since the last call.
func (p *Planner) Plan(w *lease.World) *Plan {
	if p.plan == nil || p.version != w.Version() {
		p.version, p.plan = w.Version(), p.compute(w)
	}
	return p.plan
}

// Compute makes the plan of a world.
func Compute(w *lease.World) *Plan { return new(Planner).compute(w) }

func (p *Planner) compute(w *lease.World) *Plan {
	r := &p.reading
	r.begin(w, p.plan)
	r.shadow()
	r.readLeases()
	r.solve()
	r.assign()
	return r.Plan
}

// Moves lists what should move, in the order of topic and partition.
func (p *Plan) Moves() []Move { return p.moves }

// MovesOf lists what one instance should hand on, in the order of topic and partition.
func (p *Plan) MovesOf(id lease.InstanceID) []Move {
	m, ok := p.index[id]
	if !ok {
		return nil
	}
	var of []Move
	for _, i := range p.byFrom[m] {
		of = append(of, p.moves[i])
	}
	return of
}

// Wants tells whether an instance's interests or pinned keys cover k. Partitions that the world does not know of are
// covered by pinned keys only.
func (p *Plan) Wants(id lease.InstanceID, k lease.Key) bool {
	m, ok := p.index[id]
	if !ok {
		return false
	}
	_, wanted := p.userOf(m, k)
	return wanted || p.isPinned(m, k)
}

// Overflow lists the keys that id holds over its maximum and must not run: those with the largest (epoch, key), in the
// order of topic and partition.
func (p *Plan) Overflow(id lease.InstanceID) []lease.Key {
	if m, ok := p.index[id]; ok {
		return p.overflow[m]
	}
	return nil
}

func compareKeys(a, b lease.Key) int {
	if a.Topic != b.Topic {
		if a.Topic < b.Topic {
			return -1
		}
		return 1
	}
	return int(int64(a.Partition) - int64(b.Partition))
}

func (p *Plan) findMove(k lease.Key) (Move, bool) {
	i, ok := slices.BinarySearchFunc(p.moves, k, func(m Move, k lease.Key) int { return compareKeys(m.Key, k) })
	if !ok {
		return Move{}, false
	}
	return p.moves[i], true
}
