package policy

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"
)

// randomEven makes a problem without limits, and the same as an even one. Consumers of a crowd have the same weight and
// want the same pools; those of the second crowds are second interests of their members, in other pools; some attract
// nothing.
func randomEven(r *rand.Rand, members, pools, units int) (*problem, *even) {
	p, e := &problem{members: members}, &even{}
	crowds := 1 + r.IntN(3)
	wanted := make([][]bool, 2*crowds)
	weights := make([]int32, 2*crowds)
	for c := range wanted {
		wanted[c] = make([]bool, pools)
		for j := range wanted[c] {
			wanted[c][j] = r.IntN(4) > 0 && (c < crowds || !wanted[c-crowds][j])
		}
		weights[c] = int32(1 + r.IntN(1+3*r.IntN(2)))
	}
	e.crowds = make([][]int32, 2*crowds)
	var kind []int
	for m := range members {
		first := r.IntN(crowds)
		for _, c := range []int{first, first + crowds}[:1+r.IntN(3)/2] {
			u := int32(len(p.consumers))
			p.consumers = append(p.consumers, consumer{member: int32(m), limit: noLimit})
			e.member, e.weight = append(e.member, int32(m)), append(e.weight, weights[c])
			kind = append(kind, c)
			if r.IntN(8) == 0 {
				e.crowd = append(e.crowd, alone)
			} else {
				e.crowd = append(e.crowd, int32(c))
				e.crowds[c] = append(e.crowds[c], u)
			}
		}
	}
	for j := range pools {
		pl := pool{units: int32(r.IntN(units + 1)), from: int32(len(p.stakes))}
		ep := evenPool{units: pl.units}
		for c := range wanted {
			if wanted[c][j] {
				ep.crowds = append(ep.crowds, int32(c))
			}
		}
		ep.holds.from = int32(len(e.holds))
		left := pl.units
		for u, c := range kind {
			if !wanted[c][j] {
				continue
			}
			s := stake{consumer: int32(u), pool: int32(j), weight: weights[c], most: noLimit, tie: r.Uint32()}
			if left > 0 && r.IntN(2) == 0 {
				s.held = int32(r.IntN(min(4, int(left)+1)))
				left -= s.held
			}
			if e.crowd[u] == alone {
				s.most = s.held
			}
			if s.held > 0 {
				e.holds = append(e.holds, holding{int32(u), s.held})
			}
			p.stakes = append(p.stakes, s)
		}
		ep.holds.to = int32(len(e.holds))
		pl.to = int32(len(p.stakes))
		p.pools, e.pools = append(p.pools, pl), append(e.pools, ep)
	}
	return p, e
}

// answerOf gives the even answer as that of the problem.
func (p *problem) answerOf(e *even) []int32 {
	x := make([]int32, len(p.stakes))
	for j := range e.pools {
		for _, b := range e.blocksOf(int32(j)) {
			for _, u := range b.users {
				for i := p.pools[j].from; i < p.pools[j].to; i++ {
					if p.stakes[i].consumer == u {
						x[i] = b.lo
					}
				}
			}
		}
		for _, s := range e.slotsOf(int32(j)) {
			for i := p.pools[j].from; i < p.pools[j].to; i++ {
				if p.stakes[i].consumer == s.user {
					x[i]++
				}
			}
		}
	}
	return x
}

// Where no limit binds the even answer is as good as the best, by each of the four rules in their order.
func TestTheEvenAnswerIsAsGoodAsTheBest(t *testing.T) {
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 6))
		p, e := randomEven(r, 1+r.IntN(4), 1+r.IntN(3), 3)
		e.solve(p.members)
		p.divide()
		want := p.bestPrice()
		require.Zerof(t, p.price(p.answerOf(e)).compare(want), "seed %d: %+v, want %+v", seed, p.price(p.answerOf(e)), want)
	}
}

// And as that of the search over all stakes, where trying every answer takes too long.
func TestTheEvenAnswerIsAsGoodAsTheGeneralOne(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 7))
		p, e := randomEven(r, 1+r.IntN(20), 1+r.IntN(12), 1+r.IntN(30))
		e.solve(p.members)
		p.solve()
		require.Zerof(t, p.price(p.answerOf(e)).compare(p.price(p.answer())), "seed %d: %+v, want %+v",
			seed, p.price(p.answerOf(e)), p.price(p.answer()))
	}
}
