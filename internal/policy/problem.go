package policy

import "math"

// noLimit stands for "as many as there are".
const noLimit int32 = math.MaxInt32

// problem is the arithmetic of a plan, free of worlds and keys: how many units of each pool each consumer should have.
//
// A pool is what is shared out together: the partitions of one topic, or one topic as a whole (a single unit). A
// consumer belongs to a member and draws from several pools; a stake is a consumer's part in one pool. The answer is
// the x of every stake:
//
//  1. as many units as possible are placed,
//  2. every stake has its exact share of its pool rounded up or down, as nearly as limits allow,
//  3. every member has in total its exact share rounded up or down, as nearly as 2 allows,
//  4. of all answers that are equally good so far it is one with the fewest moves away from what is held.
//
// What is best by 1 to 3 does not depend on who holds what, so a plan that is half carried out leaves the rest of
// itself as the next plan: a shortest way has no shorter one from any of its points. That is why nothing is moved twice.
// The rest has as many moves, but of answers that are equally good the next plan may choose another: who hands on by a
// plan must not do so while something goes another way by an older one. And what comes to somebody who claims it by hand
// leaves the shares when it has come, so that what is best is something else then, and may take a move more.
type problem struct {
	members   int
	consumers []consumer
	pools     []pool
	stakes    []stake // those of one pool stand together, in the order of members
	ahead     []fixed // of each member: the answer so far less its share, in total
}

// consumer is one interest of one member, as far as the problem needs it.
type consumer struct {
	member int32
	limit  int32 // at most so many units over all pools
	used   int32 // units in the answer so far
}

// pool is what is shared out together.
type pool struct {
	units    int32
	from, to int32 // its stakes
	unplaced int32 // answer: units that nobody may take
}

// stake is one consumer's part in one pool.
type stake struct {
	consumer int32
	pool     int32
	weight   int32  // at least 1
	held     int32  // units that it has already
	most     int32  // at most so many of this pool
	tie      uint32 // decides where the first answer has a choice: lower is preferred

	share  fixed // exact share of the pool
	lo, hi int32 // share rounded down and up
	x      int32 // the answer
}

// stakesOf are the stakes of one pool.
func (p *problem) stakesOf(j int) []stake {
	return p.stakes[p.pools[j].from:p.pools[j].to]
}

// solve finds the answer.
func (p *problem) solve() {
	p.divide()
	p.start()
	p.level()
	newBalance(p).run()
}
