package policy

import (
	"math/big"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// randomProblem makes a small problem: members with one or two consumers, weights, limits, stakes in some of the pools,
// and units that are held already.
func randomProblem(r *rand.Rand, equal bool) *problem {
	p := &problem{members: 1 + r.IntN(4)}
	for m := range p.members {
		for range 1 + r.IntN(5)/4 {
			c := consumer{member: int32(m), limit: noLimit}
			if !equal && r.IntN(3) == 0 {
				c.limit = int32(r.IntN(4))
			}
			p.consumers = append(p.consumers, c)
		}
	}
	weights := make([]int32, len(p.consumers))
	for c := range weights {
		weights[c] = 1
		if !equal && r.IntN(2) == 0 {
			weights[c] = int32(1 + r.IntN(5))
		}
	}
	for j := range 1 + r.IntN(3) {
		pl := pool{units: int32(r.IntN(5)), from: int32(len(p.stakes))}
		left := pl.units
		seen := -1
		for c := range p.consumers {
			m := int(p.consumers[c].member)
			if m == seen || !equal && r.IntN(4) == 0 {
				continue
			}
			seen = m
			s := stake{consumer: int32(c), pool: int32(j), weight: weights[c], most: noLimit, tie: r.Uint32()}
			if left > 0 {
				s.held = int32(r.IntN(int(left) + 1))
				left -= s.held
			}
			if !equal && r.IntN(8) == 0 {
				s.most = s.held
			}
			p.stakes = append(p.stakes, s)
		}
		pl.to = int32(len(p.stakes))
		p.pools = append(p.pools, pl)
	}
	return p
}

// price is what an answer is worth, worst part first, computed from the answer alone.
type price struct {
	unplaced, pool int64
	total          *big.Int
	moves          int64
}

func (p *problem) price(x []int32) price {
	pr := price{total: new(big.Int)}
	ahead := make([]int64, p.members)
	for j := range p.pools {
		left := int64(p.pools[j].units)
		for i := p.pools[j].from; i < p.pools[j].to; i++ {
			s := &p.stakes[i]
			left -= int64(x[i])
			out := int64(max(s.lo-x[i], x[i]-s.hi, 0))
			pr.pool += out * out
			pr.moves += int64(max(0, x[i]-s.held))
			ahead[p.consumers[s.consumer].member] += int64(fix(x[i]) - s.share)
		}
		pr.unplaced += left
	}
	for _, a := range ahead {
		pr.total.Add(pr.total, new(big.Int).Mul(big.NewInt(a), big.NewInt(a)))
	}
	return pr
}

func (a price) compare(b price) int {
	for _, d := range []int64{a.unplaced - b.unplaced, a.pool - b.pool, int64(a.total.Cmp(b.total)), a.moves - b.moves} {
		if d != 0 {
			return int(d)
		}
	}
	return 0
}

// best tries every answer.
func (p *problem) bestPrice() price {
	x := make([]int32, len(p.stakes))
	left := make([]int32, len(p.pools))
	for j := range left {
		left[j] = p.pools[j].units
	}
	used := make([]int32, len(p.consumers))
	var best *price
	var try func(i int)
	try = func(i int) {
		if i == len(x) {
			if pr := p.price(x); best == nil || pr.compare(*best) < 0 {
				best = &pr
			}
			return
		}
		s := &p.stakes[i]
		for n := int32(0); n <= min(left[s.pool], s.most, p.consumers[s.consumer].limit-used[s.consumer]); n++ {
			x[i] = n
			left[s.pool] -= n
			used[s.consumer] += n
			try(i + 1)
			left[s.pool] += n
			used[s.consumer] -= n
		}
	}
	try(0)
	return *best
}

func (p *problem) answer() []int32 {
	x := make([]int32, len(p.stakes))
	for i := range x {
		x[i] = p.stakes[i].x
	}
	return x
}

// The answer is as good as the best of all answers, by each of the four rules in their order.
func TestNoAnswerIsBetter(t *testing.T) {
	for seed := range uint64(1500) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := randomProblem(r, seed%4 == 0)
		p.solve()
		got, want := p.price(p.answer()), p.bestPrice()
		require.Zerof(t, got.compare(want), "seed %d: %+v, want %+v\n%+v", seed, got, want, p)
	}
}

// The first answer and the levelling only save work: from the worst answer of all, in which nobody has anything, the search
// finds one that is just as good.
func TestTheSearchAloneFindsTheBest(t *testing.T) {
	for seed := range uint64(1000) {
		p := randomProblem(rand.New(rand.NewPCG(seed, 2)), false)
		p.divide()
		p.ahead = make([]fixed, p.members)
		for i := range p.stakes {
			p.ahead[p.consumers[p.stakes[i].consumer].member] -= p.stakes[i].share
		}
		for j := range p.pools {
			p.pools[j].unplaced = p.pools[j].units
		}
		newBalance(p).run()
		require.Zero(t, p.price(p.answer()).compare(p.bestPrice()), "seed %d", seed)
	}
}

// A half carried out plan leaves the rest of itself: whatever part of the difference is made up, the best that is left
// costs exactly the rest of the moves.
func TestTheRestOfAPlanIsTheNextPlan(t *testing.T) {
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 3))
		p := randomProblem(r, seed%2 == 0)
		p.solve()
		first := p.answer()
		all := p.price(first).moves
		q := *p
		q.stakes = append([]stake(nil), p.stakes...)
		q.consumers = append([]consumer(nil), p.consumers...)
		q.pools = append([]pool(nil), p.pools...)
		for c := range q.consumers {
			q.consumers[c].used = 0
		}
		var done int64
		for j := range q.pools {
			// some of those who should have less give, and as much is taken by some of those who should have more
			nobody := q.pools[j].units
			for _, s := range q.stakesOf(j) {
				nobody -= s.held
			}
			gain := int32(0)
			stakes := q.stakesOf(j)
			for i := range stakes {
				if s := &stakes[i]; s.x < s.held {
					n := int32(r.IntN(int(s.held-s.x) + 1))
					s.held -= n
					gain += n
				}
			}
			gain += nobody - int32(r.IntN(int(nobody)+1))
			for i := range stakes {
				if s := &stakes[i]; s.x > s.held && gain > 0 {
					n := min(gain, s.x-s.held)
					s.held += n
					gain -= n
					done += int64(n)
				}
			}
		}
		q.solve()
		require.Equal(t, all-done, q.price(q.answer()).moves, "seed %d", seed)
		for i := range first {
			before, now, then := p.stakes[i].held, q.stakes[i].held, q.stakes[i].x
			require.True(t, before <= now && now <= then || before >= now && now >= then || before == now, "seed %d: a way back", seed)
		}
	}
}

// Shares are by weight, cut at the limits, and what is cut off is divided by weight again.
func TestShares(t *testing.T) {
	one := func(units int32, stakes ...stake) []float64 {
		p := &problem{members: len(stakes), pools: []pool{{units: units, to: int32(len(stakes))}}}
		for i := range stakes {
			stakes[i].consumer = int32(i)
			if stakes[i].most == 0 {
				stakes[i].most = noLimit
			}
			p.consumers = append(p.consumers, consumer{member: int32(i), limit: noLimit})
		}
		p.stakes = stakes
		p.divide()
		shares := make([]float64, len(stakes))
		for i, s := range p.stakes {
			shares[i] = float64(s.share) / float64(unit)
		}
		return shares
	}
	assert.Equal(t, []float64{4, 4, 4}, one(12, stake{weight: 1}, stake{weight: 1}, stake{weight: 1}))
	assert.Equal(t, []float64{6, 2, 4}, one(12, stake{weight: 3}, stake{weight: 1}, stake{weight: 2}))
	assert.Equal(t, []float64{2.5, 7.5}, one(10, stake{weight: 1}, stake{weight: 3}))
	assert.Equal(t, []float64{2, 2, 8}, one(12, stake{weight: 10, most: 2}, stake{weight: 1}, stake{weight: 4}))
	assert.InDeltaSlice(t, []float64{2, 10. / 3, 20. / 3}, one(12, stake{weight: 9, most: 2}, stake{weight: 1}, stake{weight: 2}), 1e-6)
	assert.Equal(t, []float64{1, 2}, one(12, stake{weight: 1, most: 1}, stake{weight: 1, most: 2}))
	const most = 1<<31 - 1
	assert.Equal(t, []float64{1 << 18, 1 << 18}, one(1<<19, stake{weight: most}, stake{weight: most}))
}

// Where no limit binds, everybody has its exact share of each pool and in total rounded up or down.
func TestSharesAreRoundedUpOrDown(t *testing.T) {
	for seed := range uint64(2000) {
		r := rand.New(rand.NewPCG(seed, 4))
		p := &problem{members: 1 + r.IntN(8)}
		for m := range p.members {
			p.consumers = append(p.consumers, consumer{member: int32(m), limit: noLimit})
		}
		weight := make([]int32, p.members)
		for m := range weight {
			weight[m] = int32(1 + r.IntN(4))
		}
		for j := range 1 + r.IntN(6) {
			pl := pool{units: int32(r.IntN(30)), from: int32(len(p.stakes))}
			for c := range p.consumers {
				p.stakes = append(p.stakes, stake{consumer: int32(c), pool: int32(j), weight: weight[c], most: noLimit, held: int32(r.IntN(6))})
			}
			pl.to = int32(len(p.stakes))
			p.pools = append(p.pools, pl)
		}
		p.solve()
		total, share := make([]int32, p.members), make([]fixed, p.members)
		for _, s := range p.stakes {
			require.True(t, s.lo <= s.x && s.x <= s.hi, "seed %d", seed)
			total[s.consumer] += s.x
			share[s.consumer] += s.share
		}
		for m := range total {
			require.Less(t, fix(total[m])-share[m], unit, "seed %d", seed)
			require.Greater(t, fix(total[m])-share[m], -unit-16, "seed %d", seed)
		}
		for j := range p.pools {
			require.Zero(t, p.pools[j].unplaced)
			require.Zero(t, p.left(j))
		}
	}
}

func TestAVeryLargeGroupIsBalanced(t *testing.T) {
	const members = 3000
	p := &problem{members: members, pools: []pool{{units: 3*members - 7, to: members}}}
	for m := range p.members {
		p.consumers = append(p.consumers, consumer{member: int32(m), limit: noLimit})
		p.stakes = append(p.stakes, stake{consumer: int32(m), weight: 1, most: noLimit, held: int32(m % 5)})
	}
	p.solve()
	for _, s := range p.stakes {
		require.True(t, s.lo <= s.x && s.x <= s.hi)
	}
	require.Zero(t, p.left(0))
}
