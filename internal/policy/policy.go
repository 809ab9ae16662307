// Package policy decides, from the world alone, who should hold what (PROTOCOL.md §6 "Balance" and "Who claims a free
// key"). Everybody who has the same world computes the same plan.
package policy

import "github.com/kafka-marshal/marshal/internal/lease"

// Plan is who should hold what, for one world.
type Plan struct{}

// Planner computes plans and keeps the newest, so that the members of one world share it. Its zero value works.
type Planner struct{}

// Plan gives the plan of w, computed anew only when w.Version() has changed since the last call.
func (p *Planner) Plan(w *lease.World) *Plan { panic("todo") }

// Compute makes the plan of a world.
func Compute(w *lease.World) *Plan { panic("todo") }

// Move says that the holder of a key should hand it to To (zero: let it go, nobody else may have it: never for a key
// that its holder wants and may keep).
type Move struct {
	Key      lease.Key
	From, To lease.InstanceID
	Forced   bool // its holder does not want it, or holds more than its maximum; not a matter of balance
}

// Moves lists what should move, in the order of topic and partition.
func (p *Plan) Moves() []Move { panic("todo") }

// MovesOf lists what one instance should hand on.
func (p *Plan) MovesOf(id lease.InstanceID) []Move { panic("todo") }

// Free lists the free keys that somebody may claim, in order. Whole-topic keys stand beside partitions here only where
// they do not conflict with a lease.
func (p *Plan) Free() []lease.Key { panic("todo") }

// Claimant gives the k-th in turn to claim a free key: 0 is the one that the plan names, the others follow in
// rendezvous order of the key among all who may have it. ok is false past the last.
func (p *Plan) Claimant(k lease.Key, turn int) (id lease.InstanceID, ok bool) { panic("todo") }

// TurnOf gives the turn of an instance for a free key: 0 first; -1: it may not claim it.
func (p *Plan) TurnOf(k lease.Key, id lease.InstanceID) int { panic("todo") }

// Greedy lists the free keys that a greedy interest of id may claim at once.
func (p *Plan) Greedy(id lease.InstanceID) []lease.Key { panic("todo") }

// Successor names who should get k when its holder must give it up now (draining, terminating, over its maximum,
// unfit): the best eligible instance other than the holder and not in not; zero: nobody.
func (p *Plan) Successor(k lease.Key, holder lease.InstanceID, not func(lease.InstanceID) bool) lease.InstanceID {
	panic("todo")
}

// Wants tells whether an instance's interests or pinned keys cover k.
func (p *Plan) Wants(id lease.InstanceID, k lease.Key) bool { panic("todo") }

// Overflow lists the keys that id holds over its maximum and must not run: those with the largest (epoch, key).
func (p *Plan) Overflow(id lease.InstanceID) []lease.Key { panic("todo") }
