package sim

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Parameter is one of the numbers that shape a run. A seed draws all of them; a Schedule may set some.
type Parameter int

// The parameters. Those of time are in ms, or in hundredths of the ttl.
const (
	members  Parameter = iota // processes at the start
	keys                      // partitions of all topics
	topicsOf                  // topics that these are spread over
	ttlOf                     // ms
	spanOf                    // of faults, in hundredths of the ttl
	faultsOf                  // how many
	commit                    // interval of positions, in hundredths of the ttl
	drain                     // limit of a drain, in hundredths of the ttl
	flight                    // messages in flight of one partition
	pace                      // of the application: 1 is the quickest
	wholes                    // 0: partitions, 1: whole topics, 2: both
	fast                      // 1: a quick network
	foreign                   // share of claims that find a foreign commit, in hundredths
	rejected                  // share of heartbeats that are refused as too large, in hundredths
	slow                      // how long appending a snapshot may take, ms
	late                      // share of evicts that are held up, in hundredths
	often1                    // a fault that comes often: its kind + 1
	often2
	often3
	forkAt // from this fault on, counted from 0, chance is another
	forkTo // which other; 0: none
	parameters
)

var parameterNames = [parameters]string{
	"members", "keys", "topics", "ttl", "span", "faults", "commit", "drain", "flight", "pace", "whole", "fast", "foreign", "rejected", "slow",
	"late", "often", "often2", "often3", "fork", "forkto",
}

// size is the class of a run. Most are small, so that many can be run; what needs many members or much time needs the others.
type size int

const (
	small  size = iota // 2 or 3 processes, a handful of keys, a few faults in quick succession
	medium             // up to 6 processes, many faults, and time for those that take long
	large              // up to 30 processes and 400 keys
)

// choice is what a draw is made from.
type choice struct {
	rng  *rand.Rand
	size size
	all  [parameters]int // those drawn before
}

func (c *choice) chance(p float64) bool { return c.rng.Float64() < p }

// among gives a number from a to b.
func (c *choice) among(a, b int) int { return a + c.rng.IntN(b-a+1) }

// spread gives a number from a to b, as often between 10 and 20 as between 20 and 40.
func (c *choice) spread(a, b int) int {
	lo, hi := math.Log(float64(a)), math.Log(float64(b)+0.999)
	return int(math.Exp(lo + c.rng.Float64()*(hi-lo)))
}

// ttls in ms, some more than once.
var ttls = []int{300, 1000, 1000, 2000, 2000, 2000, 3000, 5000, 5000, 10_000, 10_000}

// draw gives the parameter a value.
func (p Parameter) draw(c *choice) int {
	switch p {
	case members:
		switch {
		case c.size == small:
			return c.among(2, 3)
		case c.size == medium:
			return c.among(2, 6)
		case c.chance(0.6):
			return c.spread(8, 30)
		}
		return c.among(3, 7)
	case keys:
		switch {
		case c.size == small:
			return c.among(1, 8)
		case c.size == medium:
			return c.among(4, 20)
		case c.all[members] < 8:
			return c.spread(100, 400)
		}
		return c.spread(1, 400)
	case topicsOf:
		return c.among(1, 3)
	case ttlOf:
		ttl := ttls[c.rng.IntN(len(ttls))]
		switch {
		case c.size == medium && c.chance(0.02):
			return 30_000
		case c.size == large:
			return max(ttl, 2000)
		}
		return ttl
	case spanOf:
		switch c.size {
		case small:
			return c.among(150, 500)
		case large:
			return c.among(150, 300)
		}
		ttl := max(c.all[ttlOf], 300)
		return min(max(1000, 8_000*100/ttl), 60_000*100/ttl)
	case faultsOf:
		switch c.size {
		case small:
			return c.among(1, 6)
		case large:
			return c.among(1, 5)
		}
		return c.among(3, 20)
	case commit:
		if c.size == medium {
			return c.among(5, 25)
		}
		return c.among(15, 45)
	case drain:
		return c.among(10, 200)
	case flight:
		return c.among(4, 63)
	case pace:
		if c.size == medium {
			return 1
		}
		return c.among(1, 4)
	default:
		return p.drawSwitch(c)
	}
}

// drawSwitch draws what is mostly off.
func (p Parameter) drawSwitch(c *choice) int {
	often, value := 0.0, 0
	switch p {
	case wholes:
		often, value = 0.25, c.rng.IntN(4)/3+1
	case fast:
		often, value = 0.3, 1
	case foreign:
		often, value = 0.2, 5
	case rejected:
		often, value = 0.2, 2
	case slow:
		often, value = 0.3, c.rng.IntN(4000)
	case late:
		often, value = 0.3, 50
	}
	if c.chance(often) {
		return value
	}
	return 0
}

// drawAll draws every parameter, and then sets those that the schedule sets.
func drawAll(rng *rand.Rand, kind size, set []Setting) [parameters]int {
	c := choice{rng: rng, size: kind}
	for p := range parameters {
		c.all[p] = p.draw(&c)
	}
	for _, s := range set {
		c.all[s.Parameter] = s.Value
	}
	return c.all
}

// choose makes the scenario of the parameters.
func (s *simulation) choose() {
	kind := small
	switch x := s.rng.Float64(); {
	case s.cfg.Broken != 0 || x > 0.9:
		kind = medium
	case x < 0.012:
		kind = large
	}
	all := drawAll(s.rng, kind, s.cfg.Set)
	s.members, s.keys, s.topicCount = max(1, all[members]), max(1, all[keys]), max(1, all[topicsOf])
	s.crowd = max(4, s.members+2)
	if kind == medium {
		s.crowd = max(8, s.crowd)
	}
	s.ttl = time.Duration(max(300, all[ttlOf])) * time.Millisecond
	s.maxTTL = s.ttl
	s.period = max(s.ttl*time.Duration(all[spanOf])/100, 2*time.Second)
	s.faults = all[faultsOf]
	s.commitEvery = max(s.ttl*time.Duration(all[commit])/100, 10*time.Millisecond)
	s.drainTimeout = max(s.ttl*time.Duration(all[drain])/100, 10*time.Millisecond)
	s.inFlight = max(1, all[flight])
	s.pace = time.Duration(max(1, all[pace]))
	s.whole, s.mixed = all[wholes] == 1, all[wholes] == 2
	s.fastNetwork = all[fast] > 0
	s.foreignCommits = float64(all[foreign]) / 100
	s.rejects = float64(all[rejected]) / 100
	s.slowAppend = time.Duration(all[slow]) * time.Millisecond
	s.lateEvicts = float64(all[late]) / 100
	s.forkAt, s.forkTo = all[forkAt], all[forkTo]
	s.scheme = -1
	s.weigh()
	for _, p := range []Parameter{often1, often2, often3} {
		if k := all[p]; k > 0 {
			s.weights[k-1] = 12
		}
	}
	if s.cfg.Broken != 0 {
		s.bias(s.cfg.Broken)
	}
}

// crowded tells whether there are as many processes as the run is meant for.
func (s *simulation) crowded() bool {
	return len(s.alive()) >= s.crowd || len(s.procs) >= s.crowd+6
}

// shares spreads the keys over the topics, the first having the most.
func (s *simulation) shares() []int32 {
	n := min(s.topicCount, s.keys)
	counts := make([]int32, n)
	left := s.keys
	for i := range counts {
		counts[i] = 1
		left--
	}
	for i := n - 1; i > 0 && left > 0; i-- {
		more := s.rng.IntN(left/2 + 1)
		counts[i] += int32(more)
		left -= more
	}
	counts[0] += int32(left)
	slices.SortFunc(counts, func(x, y int32) int { return int(y - x) })
	return counts
}
