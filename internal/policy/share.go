package policy

import "math/bits"

// fixed is a number of units with fraction bits, so that shares are exact enough and the same on every machine
// (floating point may be fused on some).
type fixed int64

const (
	fraction = 24
	unit     = fixed(1) << fraction
)

func fix(n int32) fixed { return fixed(n) << fraction }

// mulDiv is a*b/c rounded down. The result must fit: a*b/c is at most a wherever it is used.
func mulDiv(a, b, c uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	q, _ := bits.Div64(hi, lo, c)
	return q
}

// divide computes the exact shares: each pool is divided by weight, nobody gets more than it may have, and what one may
// not have is divided among the others of the pool by weight again. A consumer whose limit spans several pools has its
// shares of them cut in proportion.
func (p *problem) divide() {
	bound := make([]fixed, len(p.stakes))
	for i, s := range p.stakes {
		bound[i] = fix(min(s.most, p.pools[s.pool].units))
	}
	done := make([]bool, len(p.stakes))
	sum := make([]fixed, len(p.consumers))
	for {
		for j := range p.pools {
			from, to := p.pools[j].from, p.pools[j].to
			dividePool(p.pools[j].units, p.stakes[from:to], bound[from:to], done[from:to])
		}
		clear(sum)
		for _, s := range p.stakes {
			sum[s.consumer] += s.share
		}
		again := false
		for i, s := range p.stakes {
			sum, limit := sum[s.consumer], fix(p.consumers[s.consumer].limit)
			if sum > limit {
				bound[i] = fixed(mulDiv(uint64(s.share), uint64(limit), uint64(sum)))
				again = true
			}
		}
		if !again {
			break
		}
	}
	for i := range p.stakes {
		s := &p.stakes[i]
		s.lo = int32(s.share >> fraction)
		s.hi = int32((s.share + unit - 1) >> fraction)
	}
}

// dividePool divides units among the stakes by weight, none above its bound.
func dividePool(units int32, stakes []stake, bound []fixed, done []bool) {
	clear(done)
	left := fix(units)
	for {
		var weights uint64
		for i := range stakes {
			if !done[i] {
				weights += uint64(stakes[i].weight)
			}
		}
		rest, again := left, false
		for i := range stakes {
			if done[i] {
				continue
			}
			s := &stakes[i]
			s.share = fixed(mulDiv(uint64(left), uint64(s.weight), weights))
			if s.share > bound[i] {
				s.share, done[i], again = bound[i], true, true
				rest -= bound[i]
			}
		}
		if !again {
			return
		}
		left = rest
	}
}
