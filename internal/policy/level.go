package policy

// level lets those who are behind in total take what is rounding from those who are ahead. It brings nothing that
// balance would not bring, but balance needs a search for each unit, and after a Join there may be hundreds.
func (p *problem) level() {
	byUser := p.byConsumer()
	for c := range p.consumers {
		own, most := &p.ahead[p.consumers[c].member], fixed(0)
		for _, a := range p.ahead {
			most = max(most, a)
		}
		for _, i := range byUser[c] {
			if most <= *own+unit {
				break
			}
			if to := &p.stakes[i]; to.x < min(to.hi, to.most) && p.room(to) {
				p.levelStake(to)
			}
		}
	}
}

// levelStake brings one unit to a stake, from the one of its pool that is furthest ahead, if that is fairer.
func (p *problem) levelStake(to *stake) {
	ahead := p.ahead[p.consumers[to.consumer].member] + unit
	var best *stake
	stakes := p.stakesOf(int(to.pool))
	for i := range stakes {
		from := &stakes[i]
		if from.x <= from.lo {
			continue
		}
		if a := p.ahead[p.consumers[from.consumer].member]; a > ahead {
			best, ahead = from, a
		}
	}
	if best != nil {
		p.take(best)
		p.give(to)
	}
}

// byConsumer lists everybody's stakes.
func (p *problem) byConsumer() [][]int32 {
	count := make([]int32, len(p.consumers))
	for i := range p.stakes {
		count[p.stakes[i].consumer]++
	}
	all := make([]int32, len(p.stakes))
	by := make([][]int32, len(p.consumers))
	at := int32(0)
	for c, n := range count {
		by[c] = all[at : at : at+n]
		at += n
	}
	for i := range p.stakes {
		c := p.stakes[i].consumer
		by[c] = append(by[c], int32(i))
	}
	return by
}
