// Package explore searches, breadth first and whole, what a few processes can come to: the shipped world, history and
// member under an adversary who chooses at each moment which record is appended, twice or not at all, who reads, who runs,
// who crashes, and when time goes on (PROTOCOL.md §9).
//
// A Config says who takes part and what bounds the search: not its depth, but how many records the adversary may append and
// a process may write after the set-up. Everything else follows until nothing new is found. Two things make that cheap.
// Parts are interned: a place in the log is a node (its parent, its record), a process at rest is a local (its node and its
// member's canonical form, with times told from its own clock), so that a state is a handful of numbers. And what a local
// does is a pure function of the local, of how long ago it ran last, and of what happens to it, so it is worked out once.
//
// What is not explored is said by the Config: clocks move in steps of its Quantum, each at a rate of its own; heartbeats have
// no jitter; the smoothed round trip is told to a Quantum; what lies more than the horizon back is all the same.
//
// A violation comes with the script that leads to it, which Replay runs again (script.go).
package explore
