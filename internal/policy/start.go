package policy

import (
	"cmp"
	"slices"
)

// start makes a first answer that is usually the best one already: everybody's share rounded down, then the rest first
// to those who hold more than that, then to those who are furthest below their total.
func (p *problem) start() {
	p.ahead = make([]fixed, p.members)
	for i := range p.stakes {
		s := &p.stakes[i]
		s.x = s.lo
		p.consumers[s.consumer].used += s.x
		p.ahead[p.consumers[s.consumer].member] += fix(s.x) - s.share
	}
	var queue []int32
	for _, keep := range []bool{true, false} {
		for j := range p.pools {
			left := p.left(j)
			if left == 0 {
				continue
			}
			queue = queue[:0]
			for i := p.pools[j].from; i < p.pools[j].to; i++ {
				if s := &p.stakes[i]; s.x < s.hi && p.room(s) && (!keep || s.held > s.x) {
					queue = append(queue, i)
				}
			}
			slices.SortFunc(queue, func(a, b int32) int {
				s, t := &p.stakes[a], &p.stakes[b]
				return cmp.Or(
					cmp.Compare(p.ahead[p.consumers[s.consumer].member], p.ahead[p.consumers[t.consumer].member]),
					cmp.Compare(s.tie, t.tie))
			})
			for _, i := range queue[:min(int(left), len(queue))] {
				p.give(&p.stakes[i])
			}
		}
	}
	for j := range p.pools {
		p.spread(j)
	}
}

// spread places what rounding up did not take in: only where limits bind.
func (p *problem) spread(j int) {
	stakes := p.stakesOf(j)
	left := p.left(j)
	for left > 0 {
		var best *stake
		for i := range stakes {
			s := &stakes[i]
			if s.x < s.most && p.room(s) && (best == nil || s.x-s.hi < best.x-best.hi) {
				best = s
			}
		}
		if best == nil {
			break
		}
		p.give(best)
		left--
	}
	p.pools[j].unplaced = left
}

// left is how many units of a pool the answer does not place so far.
func (p *problem) left(j int) int32 {
	left := p.pools[j].units
	for _, s := range p.stakesOf(j) {
		left -= s.x
	}
	return left
}

// room tells whether the stake's consumer is below its limit.
func (p *problem) room(s *stake) bool {
	c := &p.consumers[s.consumer]
	return c.used < c.limit
}

func (p *problem) give(s *stake) {
	s.x++
	p.consumers[s.consumer].used++
	p.ahead[p.consumers[s.consumer].member] += unit
}

func (p *problem) take(s *stake) {
	s.x--
	p.consumers[s.consumer].used--
	p.ahead[p.consumers[s.consumer].member] -= unit
}
