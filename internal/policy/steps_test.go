package policy

import (
	"cmp"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// consistent checks what is true between any two steps of an even answer.
func (e *even) consistent(t *testing.T, p *problem) {
	t.Helper()
	share, ahead := make([]fixed, p.members), make([]fixed, p.members)
	for i, x := range p.answerOf(e) {
		m := p.consumers[p.stakes[i].consumer].member
		share[m] += p.stakes[i].share
		ahead[m] += fix(x) - p.stakes[i].share
	}
	require.Equal(t, share, e.share, "everybody's share in total")
	require.Equal(t, ahead, e.ahead, "what the answer gives, less the share")
	for j := range e.pools {
		seen := map[int32]bool{}
		for _, s := range e.slotsOf(int32(j)) {
			require.Equal(t, int32(j), s.pool)
			if s.user < 0 {
				continue
			}
			require.False(t, seen[s.user], "nobody is rounded up twice")
			seen[s.user] = true
			i := slices.IndexFunc(p.stakesOf(j), func(o stake) bool { return o.consumer == s.user })
			require.GreaterOrEqual(t, i, 0, "who is rounded up wants the pool")
			o := &p.stakesOf(j)[i]
			require.Less(t, o.lo, o.hi, "and has a share to round")
			require.Equal(t, o.held > o.lo, s.kept)
		}
	}
	for m, i := range e.first {
		n := 0
		for ; i != none; i = e.slots[i].next {
			require.EqualValues(t, m, e.member[e.slots[i].user])
			n++
		}
		for i := range e.slots {
			if e.member[e.slots[i].user] == int32(m) {
				n--
			}
		}
		require.Zero(t, n, "all slots of a member are listed")
	}
}

// squares is how far an answer is from level totals.
func (e *even) squares() (sum float64) {
	for _, a := range e.ahead {
		sum += float64(a) * float64(a)
	}
	return sum
}

// Each step of the even answer does what it says, as told by trying everybody.
func TestTheStepsOfAnEvenAnswer(t *testing.T) {
	for seed := range uint64(120) {
		r := rand.New(rand.NewPCG(seed, 8))
		p, e := randomEven(r, 1+r.IntN(10), 1+r.IntN(6), 14)
		p.divide()
		e.reset(p.members)

		e.divide()
		e.consistent(t, p)
		for j := range e.pools {
			left, eligible := p.pools[j].units, int32(0)
			for _, s := range p.stakesOf(j) {
				left -= s.lo
				if s.lo < s.hi {
					eligible++
				}
			}
			require.EqualValues(t, max(0, min(left, eligible)), len(e.slotsOf(int32(j))), "as many are rounded up as units are left")
		}

		ahead := slices.Clone(e.ahead)
		e.keep()
		e.consistent(t, p)
		for j := range e.pools {
			var want []int32
			for _, s := range p.stakesOf(j) {
				if s.lo < s.hi && s.held > s.lo {
					want = append(want, s.consumer)
				}
			}
			slices.SortFunc(want, func(a, b int32) int {
				return cmp.Or(cmp.Compare(ahead[e.member[a]], ahead[e.member[b]]), cmp.Compare(a, b))
			})
			slots := e.slotsOf(int32(j))
			want = want[:min(len(want), len(slots))]
			var got []int32
			for _, s := range slots {
				if s.user >= 0 {
					got = append(got, s.user)
				}
			}
			require.ElementsMatch(t, want, got, "seed %d: who has it keeps it, of too many those furthest behind", seed)
			for _, u := range want {
				ahead[e.member[u]] += unit
			}
		}

		before := slices.Clone(e.slots)
		e.fill()
		e.consistent(t, p)
		for j := range e.pools {
			taken := map[int32]bool{}
			pl := e.pools[j].slots
			for i := pl.from; i < pl.to; i++ {
				if before[i].user >= 0 {
					require.Equal(t, before[i], e.slots[i])
					taken[before[i].user] = true
				}
			}
			for i := pl.from; i < pl.to; i++ {
				if before[i].user >= 0 {
					continue
				}
				u := e.slots[i].user
				first := int32(-1)
				for _, b := range e.blocksOf(int32(j)) {
					of := int32(-1)
					for _, o := range b.users {
						if b.fraction && !taken[o] && (of < 0 || ahead[e.member[o]] < ahead[e.member[of]]) {
							of = o
						}
					}
					if of >= 0 && (first < 0 || ahead[e.member[of]] < ahead[e.member[first]]) {
						first = of
					}
				}
				require.Equal(t, first, u, "seed %d: the one furthest behind, of equal ones the first", seed)
				taken[u] = true
				ahead[e.member[u]] += unit
			}
		}

		squares := e.squares()
		e.level()
		e.consistent(t, p)
		require.LessOrEqual(t, e.squares(), squares)
		squares = e.squares()
		e.improve()
		e.consistent(t, p)
		require.LessOrEqual(t, e.squares(), squares)

		slots, lost := slices.Clone(e.slots), e.lost
		e.solve(p.members)
		e.consistent(t, p)
		require.Equal(t, slots, e.slots, "seed %d: whatever was solved before in the same memory", seed)
		require.Equal(t, lost, e.lost)
	}
}

// alike is an even problem whose members all want all pools, each with less than one unit for everybody, and in which those
// who are named are rounded up.
func alike(members int32, pools ...[]int32) (*problem, *even) {
	p, e := &problem{members: int(members)}, &even{crowds: make([][]int32, 1)}
	for m := range members {
		p.consumers = append(p.consumers, consumer{member: m, limit: noLimit})
		e.member, e.weight, e.crowd = append(e.member, m), append(e.weight, 1), append(e.crowd, 0)
		e.crowds[0] = append(e.crowds[0], m)
	}
	for j, up := range pools {
		units := int32(len(up))
		p.pools = append(p.pools, pool{units: units, from: int32(j) * members, to: int32(j+1) * members})
		for m := range members {
			p.stakes = append(p.stakes, stake{consumer: m, pool: int32(j), weight: 1, most: noLimit})
		}
		e.pools = append(e.pools, evenPool{units: units, crowds: []int32{0}})
	}
	return p, e
}

// round gives the slots to those who are named, in order, as if the answer were so far.
func (e *even) round(pools ...[]int32) {
	i := 0
	for _, up := range pools {
		for _, u := range up {
			e.slots[i].user = u
			e.ahead[e.member[u]] += unit
			i++
		}
	}
}

func TestLevellingAloneMakesTotalsLevel(t *testing.T) {
	for _, pools := range [][][]int32{
		{{0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}, {0, 1}},
		{{4, 3}, {4, 3}, {4, 3}, {4, 3}, {4, 3}, {4, 3}},
		{{2}, {2}, {2}, {2}, {2}, {2}, {2}},
		{{1, 2, 3}, {1, 2, 4}, {1, 2, 3}, {1, 3, 2}},
		{{0}, {0}, {0}},
		{{0}, {1}, {1}, {3}},
		{{0, 1, 2, 3}, {0, 1, 2, 4}, {0, 1, 2, 3}, {0, 1, 3, 2}, {2}, {3}, {4, 0}},
	} {
		p, e := alike(5, pools...)
		p.divide()
		e.reset(5)
		e.divide()
		require.Len(t, e.slots, len(slices.Concat(pools...)))
		e.round(pools...)
		least, most := e.spread()
		assert.Equal(t, slices.Min(e.ahead), least)
		assert.Equal(t, slices.Max(e.ahead), most)
		e.level()
		e.consistent(t, p)
		least, most = e.spread()
		assert.LessOrEqual(t, most-least, unit, "%v", pools)
		assert.False(t, e.lost, "nobody had anything")
	}
}

func TestLevellingMovesNothingThatIsLevel(t *testing.T) {
	pools := [][]int32{{0}, {1}, {3}, {2}}
	_, e := alike(5, pools...)
	e.reset(5)
	e.divide()
	e.round(pools...)
	before := slices.Clone(e.slots)
	e.level()
	e.improve()
	assert.Equal(t, before, e.slots)
}

func TestWhoIsAheadGivesFirstWhatItDoesNotHold(t *testing.T) {
	for _, kept := range [][]int{{0, 2}, {4, 1}, {3, 4}} {
		pools := [][]int32{{1}, {1}, {1}, {1}, {1}}
		p, e := alike(3, pools...)
		for j := range e.pools {
			e.pools[j].holds.from = int32(len(e.holds))
			if slices.Contains(kept, j) {
				e.holds = append(e.holds, holding{1, 1})
				p.stakes[3*j+1].held = 1
			}
			e.pools[j].holds.to = int32(len(e.holds))
		}
		p.divide()
		e.reset(3)
		e.divide()
		e.round(pools...)
		for _, j := range kept {
			e.slots[j].kept = true
		}
		e.level()
		e.consistent(t, p)
		for _, j := range kept {
			assert.EqualValues(t, 1, e.slots[j].user, "it keeps what it holds")
		}
		assert.False(t, e.lost)
		least, most := e.spread()
		assert.LessOrEqual(t, most-least, unit)
	}
}

func TestAGiftIsToSomebodyWhoMayHaveIt(t *testing.T) {
	// member 0 and 1 want all pools, the second interest of 1 wants the last alone, and 2 attracts nothing
	e := &even{
		member: []int32{0, 1, 1, 2}, weight: []int32{1, 1, 1, 1}, crowd: []int32{0, 0, 1, alone},
		crowds: [][]int32{{0, 1}, {2}},
		pools: []evenPool{
			{units: 1, crowds: []int32{0}}, {units: 1, crowds: []int32{0}, holds: span{0, 1}}, {units: 1, crowds: []int32{1}},
		},
		holds: []holding{{3, 1}},
	}
	e.reset(3)
	e.divide()
	for _, want := range []struct {
		pool int32
		may  []bool
	}{{0, []bool{true, true, false, false}}, {1, []bool{true, true, false, true}}, {2, []bool{false, false, false, false}}} {
		for u, may := range want.may {
			assert.Equal(t, may, e.eligible(want.pool, int32(u)), "%d %d", want.pool, u)
		}
	}
	e.slots[0].user, e.slots[1].user = 0, 0
	e.slots[1].kept = true
	e.link()
	has := make([]int32, 3)
	gift := func(from, to, step int32) [2]int32 {
		i, u := e.gift(from, to, has, step)
		if i == none {
			return [2]int32{none, none}
		}
		return [2]int32{i, u}
	}
	assert.Equal(t, [2]int32{0, 1}, gift(0, 1, 1), "what costs no move")
	assert.Equal(t, [2]int32{1, 3}, gift(0, 2, 1), "the only one that it may have")
	assert.Equal(t, [2]int32{none, none}, gift(1, 0, 1), "who has nothing gives nothing")
	has[0] = 1
	assert.Equal(t, [2]int32{1, 1}, gift(0, 1, 1), "where it has none yet")
	assert.Equal(t, [2]int32{0, 1}, gift(0, 1, 2))
	e.slots[0].kept, e.slots[1].kept = true, false
	assert.Equal(t, [2]int32{1, 1}, gift(0, 1, 2), "what costs no move, though it comes later")
	e.pass(0, 1)
	assert.True(t, e.lost, "it held that")
	assert.Equal(t, []int32{1, 0, none}, e.first)
}

// at makes a problem of stakes, each of a consumer and a member of its own where the pools do not overlap.
func at(units int32, stakes ...stake) *problem {
	p := &problem{members: len(stakes), pools: []pool{{units: units, to: int32(len(stakes))}}, ahead: make([]fixed, len(stakes))}
	for i := range stakes {
		stakes[i].consumer = int32(i)
		if stakes[i].most == 0 {
			stakes[i].most = noLimit
		}
		p.consumers = append(p.consumers, consumer{member: int32(i), limit: noLimit, used: stakes[i].x})
	}
	p.stakes = stakes
	return p
}

func TestWhatRoundingDoesNotPlaceGoesToWhoIsLeastAboveItsShare(t *testing.T) {
	p := at(10, stake{x: 1, hi: 1}, stake{x: 1, hi: 3}, stake{x: 1, hi: 5, most: 1})
	p.spread(0)
	assert.Equal(t, []int32{4, 5, 1}, p.answer(), "in turn once they are equal")
	assert.Zero(t, p.pools[0].unplaced)
	assert.Equal(t, []fixed{3 * unit, 4 * unit, 0}, p.ahead)
	p = at(10, stake{x: 1, hi: 1}, stake{x: 1, hi: 3}, stake{x: 1, hi: 5, most: 1})
	p.consumers[0].limit, p.consumers[1].limit = 2, 3
	p.spread(0)
	assert.Equal(t, []int32{2, 3, 1}, p.answer())
	assert.EqualValues(t, 4, p.pools[0].unplaced)
	p = at(3, stake{x: 1, hi: 1}, stake{x: 2, hi: 2})
	p.spread(0)
	assert.Equal(t, []int32{1, 2}, p.answer())
}

func TestTheFirstAnswer(t *testing.T) {
	two := func() *problem {
		p := &problem{members: 3, pools: []pool{{units: 5, from: 0, to: 3}, {units: 5, from: 3, to: 6}}}
		for m := range int32(3) {
			p.consumers = append(p.consumers, consumer{member: m, limit: noLimit})
		}
		for i, tie := range []uint32{9, 1, 4, 4, 5, 3} {
			p.stakes = append(p.stakes, stake{consumer: int32(i % 3), pool: int32(i / 3), weight: 1, most: noLimit, tie: tie})
		}
		return p
	}
	p := two()
	p.stakes[2].held = 2
	p.divide()
	p.start()
	assert.Equal(t, []int32{1, 2, 2, 2, 1, 2}, p.answer(), "who holds it, then who is furthest behind, then by the tie")
	assert.Equal(t, []int32{3, 3, 4}, []int32{p.consumers[0].used, p.consumers[1].used, p.consumers[2].used})
	assert.Equal(t, []int32{0, 0}, []int32{p.pools[0].unplaced, p.pools[1].unplaced})
	for m := range p.ahead {
		assert.Equal(t, fix(p.consumers[m].used)-p.stakes[m].share-p.stakes[3+m].share, p.ahead[m])
	}
	p = two()
	p.stakes[0].held, p.stakes[1].held, p.stakes[2].held = 1, 2, 2
	p.stakes[3].held, p.stakes[4].held, p.stakes[5].held = 2, 2, 1
	p.divide()
	p.start()
	assert.Equal(t, []int32{1, 2, 2, 2, 2, 1}, p.answer(), "what is held stays")
	p = two()
	p.stakes[1].held, p.stakes[4].held = 5, 5
	p.divide()
	p.start()
	assert.Equal(t, []int32{1, 2, 2, 2, 2, 1}, p.answer())
	p = two()
	p.divide()
	p.consumers[1].limit = 2
	p.start()
	assert.Equal(t, []int32{2, 1, 2, 2, 1, 2}, p.answer(), "nobody above its limit")
}

func TestAStakeIsLevelledFromWhoIsFurthestAhead(t *testing.T) {
	anew := func() *problem {
		p := at(9, stake{x: 1, lo: 1, hi: 2}, stake{x: 2, lo: 1, hi: 2}, stake{x: 2, lo: 1, hi: 2}, stake{x: 2, lo: 2, hi: 3}, stake{x: 2, lo: 1, hi: 2})
		p.ahead = []fixed{-unit, unit / 2, unit, 3 * unit, unit}
		return p
	}
	p := anew()
	p.levelStake(&p.stakes[0])
	assert.Equal(t, []int32{2, 2, 1, 2, 2}, p.answer(), "the first of them, not one that is not rounded up")
	assert.Equal(t, []fixed{0, unit / 2, 0, 3 * unit, unit}, p.ahead)
	p.ahead[4] = unit
	p.stakes[2].x, p.stakes[0].x = 2, 1
	p.levelStake(&p.stakes[0])
	assert.Equal(t, []int32{1, 2, 2, 2, 2}, p.answer(), "a unit more than it: that is level")
	p = anew()
	p.level()
	assert.Equal(t, []int32{2, 2, 1, 2, 2}, p.answer())
	p = anew()
	p.consumers[0].limit = 1
	p.level()
	assert.Equal(t, []int32{1, 2, 2, 2, 2}, p.answer(), "who is full takes nothing")
	p = anew()
	p.stakes[0].most = 1
	p.level()
	assert.Equal(t, []int32{1, 2, 2, 2, 2}, p.answer())
	p = anew()
	p.stakes[0].hi = 1
	p.level()
	assert.Equal(t, []int32{1, 2, 2, 2, 2}, p.answer(), "nor who is rounded up already")
}

func TestLevellingTheGeneralProblem(t *testing.T) {
	const members, pools = 4, 6
	for _, first := range []int32{0, 2} {
		p := &problem{members: members, ahead: make([]fixed, members)}
		for m := range int32(members) {
			p.consumers = append(p.consumers, consumer{member: m, limit: noLimit})
		}
		for j := range int32(pools) {
			p.pools = append(p.pools, pool{units: 1, from: j * members, to: (j + 1) * members})
			for m := range int32(members) {
				p.stakes = append(p.stakes, stake{consumer: m, pool: j, weight: 1, most: noLimit})
			}
		}
		p.divide()
		for i := range p.stakes {
			s := &p.stakes[i]
			p.ahead[s.consumer] -= s.share
			if s.consumer == first {
				p.give(s)
			}
		}
		for c, of := range p.byConsumer() {
			want := []int32{}
			for j := range int32(pools) {
				want = append(want, j*members+int32(c))
			}
			assert.Equal(t, want, of)
		}
		p.level()
		assert.LessOrEqual(t, slices.Max(p.ahead)-slices.Min(p.ahead), unit)
		used := []int32{}
		for j := range p.pools {
			assert.Zero(t, p.left(j))
		}
		for _, c := range p.consumers {
			used = append(used, c.used)
		}
		slices.Sort(used)
		assert.Equal(t, []int32{1, 1, 2, 2}, used)
	}
}

// What one unit more costs is what it adds to the squares of what is outside the rounded share, and to the moves.
func TestThePriceOfAUnit(t *testing.T) {
	square := func(s stake) int64 { out := int64(max(s.lo-s.x, s.x-s.hi, 0)); return out * out }
	for lo := range int32(3) {
		for hi := lo; hi <= lo+1; hi++ {
			for held := range int32(5) {
				for x := range int32(6) {
					s := stake{x: x, lo: lo, hi: hi, held: held}
					next := s
					next.x++
					want := cost{pool: square(next) - square(s), move: int64(max(0, held-next.x) - max(0, held-s.x))}
					assert.Equal(t, want, s.add(), "%+v", s)
					assert.Equal(t, cost{pool: -want.pool, move: -want.move}, next.remove(), "%+v", next)
				}
			}
		}
	}
	for _, a := range []fixed{-3 * unit, -5, 0, 7, 2 * unit} {
		f, u := float64(a), float64(unit)
		assert.InDelta(t, (f+u)*(f+u)-f*f, float64(more(a).total)*u, 1)
		assert.InDelta(t, (f-u)*(f-u)-f*f, float64(less(a).total)*u, 1)
	}
	costs := []cost{{-1, 5, 5}, {0, -1, 9}, {0, 0, -1}, {0, 0, 0}, {0, 0, 1}, {0, 2, -9}, {3, -9, -9}}
	for i, a := range costs {
		for j, b := range costs {
			assert.Equal(t, i < j, a.less(b))
		}
	}
	assert.Equal(t, cost{4, 7, 10}, cost{1, 2, 3}.plus(cost{3, 5, 7}))
}

// Members who cannot give each other anything do not hinder the others.
func TestLevellingAmongThoseWhoWantDifferentPools(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 10))
		const crowds, members, each = 3, 9, 4
		e := &even{crowds: make([][]int32, crowds)}
		for m := range int32(members) {
			e.member, e.weight, e.crowd = append(e.member, m), append(e.weight, 1), append(e.crowd, m%crowds)
			e.crowds[m%crowds] = append(e.crowds[m%crowds], m)
		}
		for j := range int32(crowds * each) {
			e.pools = append(e.pools, evenPool{units: 1 + r.Int32N(2), crowds: []int32{j % crowds}})
		}
		e.reset(members)
		e.divide()
		for i := range e.slots {
			s := &e.slots[i]
			of, first := e.crowds[s.pool%crowds], r.IntN(1+r.IntN(3))
			if i > 0 && e.slots[i-1].pool == s.pool && e.slots[i-1].user == of[first] {
				first = (first + 1) % len(of)
			}
			s.user = of[first]
			e.ahead[s.user] += unit
		}
		e.level()
		for _, of := range e.crowds {
			least, most := e.ahead[of[0]], e.ahead[of[0]]
			for _, m := range of {
				least, most = min(least, e.ahead[m]), max(most, e.ahead[m])
			}
			assert.LessOrEqual(t, most-least, unit, "seed %d", seed)
		}
	}
}

// The steps before only save work: from any rounding at all the search finds an answer that is as good as the best.
func TestImprovingAloneFindsTheBestRounding(t *testing.T) {
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 11))
		p, e := randomEven(r, 1+r.IntN(4), 1+r.IntN(3), 3)
		p.divide()
		e.reset(p.members)
		e.divide()
		for j := range e.pools {
			var may []int32
			held := map[int32]bool{}
			for _, s := range p.stakesOf(j) {
				if s.lo < s.hi {
					may = append(may, s.consumer)
					held[s.consumer] = s.held > s.lo
				}
			}
			r.Shuffle(len(may), func(a, b int) { may[a], may[b] = may[b], may[a] })
			slots := e.slotsOf(int32(j))
			for i := range slots {
				slots[i].user, slots[i].kept = may[i], held[may[i]]
				e.ahead[e.member[may[i]]] += unit
			}
		}
		e.lost = true
		e.link()
		e.improve()
		e.consistent(t, p)
		got, want := p.price(p.answerOf(e)), p.bestPrice()
		require.Zerof(t, got.compare(want), "seed %d: %+v, want %+v", seed, got, want)
	}
}
