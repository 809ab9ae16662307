package testutil

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"github.com/anishathalye/porcupine"
)

// step is what an operation on a key does.
type step uint8

const (
	claims   step = iota // owner has the key from here on
	hands                // owner is handed messages first to last
	releases             // owner has it no longer
)

// op is an operation on a key: porcupine's input. There is no output, what was seen is all in here.
type op struct {
	step        step
	by          *ProcessLog // whose it is
	token       int64
	first, last int64 // offsets, of hands
}

func (o op) String() string {
	switch o.step {
	case claims:
		return fmt.Sprintf("%s has it, token %d", o.by.Process, o.token)
	case releases:
		return fmt.Sprintf("%s has it no longer, token %d", o.by.Process, o.token)
	}
	return fmt.Sprintf("%s is handed %v, token %d", o.by.Process, Span{o.first, o.last + 1}, o.token)
}

// histories gives the operations on each partition that anybody was handed a message of, by when they were called.
//
// An operation has taken place somewhere between its call and its return:
//   - a hand-out between Before and After, for it is the reader that looks whether it may;
//   - a claim between the moment when its process was told of it and the moment when it had written that down, but before the
//     first hand-out has returned; where it could not write it down any more, within that first hand-out;
//   - an end of it between the same two moments of that message.
//
// What one call gave is one hand-out, and a claim of a whole topic is one of each of its partitions.
func histories(logs []ProcessLog) map[Place][]porcupine.Operation {
	type under struct {
		by    *ProcessLog
		token int64
	}
	handed := map[Place]map[under][]Handout{}
	for i := range logs {
		l := &logs[i]
		for _, h := range l.Handouts {
			if handed[h.Place] == nil {
				handed[h.Place] = map[under][]Handout{}
			}
			u := under{l, h.Token}
			all := handed[h.Place][u]
			if n := len(all); n > 0 && all[n-1].Before == h.Before {
				all[n-1].First, all[n-1].Last = min(all[n-1].First, h.First), max(all[n-1].Last, h.Last)
				all[n-1].After = max(all[n-1].After, h.After)
			} else {
				handed[h.Place][u] = append(all, h)
			}
		}
	}
	all := map[Place][]porcupine.Operation{}
	for place, by := range handed {
		var ops []porcupine.Operation
		add := func(o op, call, end int64) {
			ops = append(ops, porcupine.Operation{Input: o, Call: call, Return: end})
		}
		known := map[under]bool{}
		for i := range logs {
			l := &logs[i]
			for _, k := range l.Holdings {
				if k.Place != place && k.Place != (Place{place.Topic, wholeTopic}) {
					continue
				}
				u, end := under{l, k.Token}, k.Noted
				o := op{step: claims, by: l, token: k.Token}
				switch {
				case k.Over:
					o.step = releases
				case !known[u]:
					end = min(end, firstOut(by[u]))
				}
				known[u] = known[u] || !k.Over
				add(o, min(k.Since, end), end)
			}
		}
		for u, hs := range by {
			if !known[u] {
				at := slices.MinFunc(hs, func(a, b Handout) int { return cmp.Compare(a.After, b.After) })
				add(op{step: claims, by: u.by, token: u.token}, at.Before, at.After)
			}
			for _, h := range hs {
				add(op{hands, u.by, u.token, h.First, h.Last}, h.Before, h.After)
			}
		}
		slices.SortFunc(ops, func(a, b porcupine.Operation) int {
			x, y := a.Input.(op), b.Input.(op)
			return cmp.Or(cmp.Compare(a.Call, b.Call), cmp.Compare(a.Return, b.Return), cmp.Compare(x.token, y.token),
				cmp.Compare(x.step, y.step), cmp.Compare(x.first, y.first))
		})
		all[place] = ops
	}
	return all
}

// wholeTopic is the partition of a Holding that is of a whole topic.
const wholeTopic = -1

// firstOut is when the first message of a claim was out.
func firstOut(hs []Handout) int64 {
	first := int64(math.MaxInt64)
	for _, h := range hs {
		first = min(first, h.After)
	}
	return first
}

// cut divides a history into pieces of at least so many operations, where nothing is under way: whoever takes the first place of
// all orders takes it before all that comes after. Where several readers wait at once that may never be: then, at twice as
// many, the hand-outs that are under way are left out. Without them nothing is illegal that was legal with them.
func cut(ops []porcupine.Operation, size int) (pieces [][]porcupine.Operation, left int) {
	begin, open := 0, int64(math.MinInt64)
	for i, o := range ops {
		if n := i - begin; n >= size && open < o.Call {
			pieces = append(pieces, ops[begin:i])
			begin = i
		} else if n >= 2*size {
			underWay := func(h porcupine.Operation) bool { return h.Return >= o.Call }
			whole := ops[begin:i]
			if !slices.ContainsFunc(whole, func(h porcupine.Operation) bool { return underWay(h) && h.Input.(op).step != hands }) {
				piece := slices.DeleteFunc(slices.Clone(whole), underWay)
				pieces, left = append(pieces, piece), left+len(whole)-len(piece)
				begin, open = i, math.MinInt64
			}
		}
		open = max(open, o.Return)
	}
	return append(pieces, ops[begin:]), left
}
