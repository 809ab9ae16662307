package policy

import (
	"hash/crc32"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

func TestAPlannerKeepsWhatHasNotChanged(t *testing.T) {
	g := newGroup()
	g.join("z", "z", topics(9, "t"))
	g.leave("z", true)
	g.join("a", "a", topics(9, "t"))
	g.join("b", "b", topics(9, "t"))
	var planner Planner
	before := planner.Plan(g.World)
	step := func(do func(), sameRoster, sameLayout bool) {
		t.Helper()
		do()
		p := planner.Plan(g.World)
		assert.NotSame(t, before, p)
		assert.Equal(t, sameRoster, before.roster == p.roster, "who is there and what they want")
		assert.Equal(t, sameLayout, before.layout == p.layout, "what is wanted")
		fresh := Compute(g.World)
		assert.Equal(t, fresh.members, p.members)
		assert.Equal(t, fresh.Free(), p.Free())
		assert.Equal(t, fresh.Moves(), p.Moves())
		before = p
	}
	step(func() { g.claim("a", key("t", 0)) }, true, true)
	step(func() { g.join("c", "c", topics(9, "t")) }, false, true)
	step(func() { g.claim("a", key("t", 1)) }, true, true)
	step(func() { g.claim("c", key("t", 8)) }, true, true)
	step(func() { g.leave("b", false) }, false, true)
	step(func() { g.leave("c", true) }, false, true)
	step(func() { g.claim("a", key("t", 2)) }, true, true)
	step(func() { g.joinPinned("a", "a", []lease.Key{key("t", 5)}, topics(9, "t")) }, false, true)
	step(func() { g.join("a", "a", topics(9, "t", "u")) }, false, false)
	step(func() { g.join("a", "a", topics(8, "t", "u")) }, false, false)
	step(func() { g.join("a", "a", whole(topics(8, "t", "u"))) }, false, false)
	step(func() { g.join("a", "a", greedy(whole(topics(8, "t", "u")))) }, false, false)
	step(func() { g.join("a", "a", atMost(3, topics(8, "t", "u"))) }, false, false)
	step(func() { g.join("a", "a", weighing(3, topics(8, "t", "u"))) }, false, false)
	step(func() { g.join("a", "a", topics(8, "t"), topics(8, "u")) }, false, false)
	step(func() { g.leave("a", false) }, false, false)
	step(func() { g.join("d", "d", topics(1, "t")) }, false, false)
}

func TestAMemberIsTheSameWhileItWantsTheSame(t *testing.T) {
	wants, pins := []lease.Interest{topics(1, "t")}, []lease.Key{key("t", 0)}
	in := lease.Instance{ID: id("a"), Interests: wants, Pinned: pins}
	m := member{id: id("a"), wants: &wants[0], pinned: &pins[0]}
	assert.True(t, m.is(&in))
	for _, change := range []func(){
		func() { in.ID = id("b") },
		func() { in.Interests = nil },
		func() { in.Pinned = nil },
		func() { in.Interests = []lease.Interest{topics(1, "t")} },
		func() { in.Pinned = []lease.Key{key("t", 0)} },
	} {
		old := in
		change()
		assert.False(t, m.is(&in))
		in = old
	}
	none := member{id: id("a")}
	assert.True(t, none.is(&lease.Instance{ID: id("a")}))
	assert.False(t, none.is(&in))
}

func TestWishesThatAreEqualAreOne(t *testing.T) {
	all := func() [][]lease.Interest {
		return [][]lease.Interest{
			nil, {topics(1, "t")}, {topics(2, "t")}, {topics(1, "u")}, {topics(1, "t", "u")}, {topics(1, "t"), topics(1, "u")},
			{topics(1, "t"), topics(1, "v")}, {whole(topics(1, "t"))}, {greedy(topics(1, "t"))}, {atMost(1, topics(1, "t"))},
			{weighing(2, topics(1, "t"))}, {lease.Interest{}}, {topics(1, "t", "v")},
		}
	}
	w := wishes{at: map[*lease.Interest]int32{}, like: map[likeness][]int32{}}
	for range 2 {
		for i, in := range all() {
			assert.EqualValues(t, i, w.number(in))
			assert.EqualValues(t, i, w.number(in), "and once more")
		}
	}
	assert.Len(t, w.list, len(all()))
	for i, a := range all() {
		for j, b := range all() {
			assert.Equal(t, i == j, sameInterests(a, b), "%v %v", a, b)
		}
		assert.True(t, sameInterests(a, a))
	}
	var none *layout
	assert.False(t, none.of(w.list))
	l := newLayout(w.list)
	assert.True(t, l.of(w.list))
	assert.False(t, l.of(w.list[1:]))
	assert.False(t, l.of(append([]wish{w.list[1]}, w.list[1:]...)))
}

func TestALayoutNamesEachTopicOnceForEachWish(t *testing.T) {
	twice := lease.Interest{Topics: append(topics(2, "b").Topics, topics(1, "b", "a").Topics...)}
	l := newLayout([]wish{
		{interests: []lease.Interest{twice, topics(5, "b", "c")}},
		{interests: []lease.Interest{greedy(whole(atMost(3, topics(4, "b")))), weighing(7, topics(0, "d"))}},
	})
	assert.Equal(t, []poolName{{"a", false}, {"b", true}, {"b", false}, {"c", false}, {"d", false}}, l.names)
	assert.Equal(t, []int32{1, 5, 5, 5, 0}, l.parts)
	assert.Equal(t, [][]int32{{0}, {2}, {0}, {1}, {3}}, l.wanted, "the first interest that names a topic has it")
	assert.Equal(t, []bool{true, false, true, true, true}, l.shared)
	assert.Equal(t, []kind{
		{max: noLimit, weight: 1, pools: []int32{0, 2}}, {max: noLimit, weight: 1, pools: []int32{3}},
		{greedy: true, max: 3, weight: 1, pools: []int32{1}}, {max: noLimit, weight: 7, pools: []int32{4}},
	}, l.kinds)
	assert.Equal(t, []int32{0, 2}, []int32{l.wishes[0].kind, l.wishes[1].kind})
	for j, name := range l.names {
		at, ok := l.poolNamed(name)
		assert.True(t, ok && at == int32(j))
	}
	_, ok := l.poolNamed(poolName{"a", true})
	assert.False(t, ok)
	for k, want := range map[lease.Key]int32{
		key("a", 0): 0, key("a", 1): -1, key("a", lease.WholeTopic): -1, key("b", lease.WholeTopic): 1, key("b", 4): 2, key("b", 5): -1,
		key("d", 0): -1, key("b", -2): -1, key("e", 0): -1,
	} {
		j, ok := l.poolAt(k)
		assert.Equal(t, want >= 0, ok, "%v", k)
		if ok {
			assert.Equal(t, want, j)
		}
	}
}

func TestAMaximumCountsTheKeysOfItsInterestAndNoOthers(t *testing.T) {
	g := newGroup()
	pinned := []lease.Key{key("t", 4)}
	g.join("z", "z", topics(1, "z"))
	g.join("a", "a", topics(6, "t", "u"))
	g.claim("a", key("u", 0), key("u", 1), key("u", 2), key("t", 3))
	g.claim("a", key("t", 2), key("t", 4))
	g.claim("a", key("t", 0))
	g.joinPinned("a", "a", pinned, atMost(3, topics(6, "t")), topics(6, "u"))
	assert.Empty(t, Compute(g.World).Overflow(id("a")), "three of the topic, one claimed by hand, three of the other")
	g.joinPinned("a", "a", pinned, atMost(1, topics(6, "t")), topics(6, "u"))
	p := Compute(g.World)
	assert.Equal(t, []lease.Key{key("t", 0), key("t", 2)}, p.Overflow(id("a")), "in the order of keys, though the other is newer")
	assert.Empty(t, p.Overflow(id("z")))
	assert.Empty(t, p.Overflow(id("nobody")))
	g.joinPinned("a", "a", pinned, atMost(4, topics(6, "t")), topics(6, "u"))
	assert.Empty(t, Compute(g.World).Overflow(id("a")), "fewer of the topic than its maximum, more in all")
	g.joinPinned("a", "a", pinned, atMost(1, topics(6, "t")), atMost(1, topics(6, "u")))
	assert.Equal(t, []lease.Key{key("t", 0), key("t", 2), key("u", 1), key("u", 2)}, Compute(g.World).Overflow(id("a")))
}

func TestWhatAnInstanceWants(t *testing.T) {
	g := newGroup()
	g.joinPinned("a", "a", []lease.Key{key("x", 7)}, topics(3, "t"), whole(topics(2, "u")))
	g.join("b", "b", topics(2, "u"))
	p := Compute(g.World)
	for k, want := range map[lease.Key][2]bool{
		key("t", 0): {true, false}, key("t", 2): {true, false}, key("t", 3): {false, false}, key("t", lease.WholeTopic): {false, false},
		key("u", 0): {false, true}, key("u", 1): {false, true}, key("u", lease.WholeTopic): {true, false}, key("x", 7): {true, false}, key("x", 6): {false, false},
	} {
		assert.Equal(t, want, [2]bool{p.Wants(id("a"), k), p.Wants(id("b"), k)}, "%v", k)
		assert.False(t, p.Wants(id("nobody"), k))
	}
	assert.Empty(t, p.Parked(id("nobody")))
	keys := []lease.Key{key("a", -1), key("a", 0), key("a", 5), key("b", -1), key("b", 2)}
	for i, a := range keys {
		for j, b := range keys {
			assert.Equal(t, i < j, compareKeys(a, b) < 0)
			assert.Equal(t, i == j, compareKeys(a, b) == 0)
		}
	}
}

func TestAParkedKeyThatIsClaimedByHandNeedsNoRoom(t *testing.T) {
	g := newGroup()
	g.join("z", "z", topics(1, "t"))
	g.join("a", "one", topics(5, "t", "u"))
	g.claim("a", key("t", 1), key("t", 2), key("t", 3), key("u", 0))
	g.leave("a", true)
	g.joinPinned("b", "one", []lease.Key{key("t", 1), key("t", 3)}, atMost(1, topics(5, "t")))
	assert.Equal(t, []lease.Key{key("t", 1), key("t", 2), key("t", 3)}, Compute(g.World).Parked(id("b")), "what it does not want is not among them")
	assert.Empty(t, Compute(g.World).Parked(id("z")))
	g.join("c", "one", topics(5, "u"))
	assert.Equal(t, []lease.Key{key("u", 0)}, Compute(g.World).Parked(id("c")))
}

func TestPinnedKeysThatAreFreeAreListedInOrder(t *testing.T) {
	g := newGroup()
	g.join("a", "a", topics(3, "m"))
	g.joinPinned("b", "b", []lease.Key{key("z", 1), key("m", 1), key("b", 4), key("b", 2), key("m", 9)})
	g.joinPinned("c", "c", []lease.Key{key("b", 2), key("a", 0), key("y", 3)})
	g.claim("c", key("y", 3))
	p := Compute(g.World)
	free := []lease.Key{key("a", 0), key("b", 2), key("b", 4), key("m", 0), key("m", 1), key("m", 2), key("m", 9), key("z", 1)}
	assert.Equal(t, free, p.Free())
	for _, k := range free {
		require.NotNil(t, p.findFree(k))
		assert.Equal(t, k, p.findFree(k).key)
	}
	assert.Nil(t, p.findFree(key("y", 3)))
	assert.Equal(t, []lease.Key{key("m", 0), key("m", 2)}, p.Planned(id("a")))
	assert.ElementsMatch(t, []lease.Key{key("a", 0), key("b", 2)}, append(intersect(p.Planned(id("b")), free[:2]), intersect(p.Planned(id("c")), free[:2])...))
	assert.Subset(t, p.Planned(id("b")), []lease.Key{key("b", 4), key("m", 1), key("m", 9), key("z", 1)})
}

func intersect(a, b []lease.Key) (both []lease.Key) {
	for _, k := range a {
		if slices.Contains(b, k) {
			both = append(both, k)
		}
	}
	return both
}

func TestMarksOfWhatIsHeld(t *testing.T) {
	g := newGroup()
	for _, n := range []string{"a", "b", "c"} {
		g.join(n, n, topics(3, "t"))
	}
	unfit := func(n string, k lease.Key) {
		g.claim(n, k)
		g.release(n, lease.InstanceID{}, true, k)
	}
	unfit("a", key("t", 0))
	unfit("b", key("t", 0))
	unfit("a", key("t", 1))
	unfit("b", key("t", 1))
	unfit("c", key("t", 1))
	unfit("a", key("x", 0))
	g.claim("c", key("t", 0), key("t", 1), key("t", 2), key("x", 0))
	p := Compute(g.World)
	assert.Equal(t, []int32{0, 1}, p.marks[key("t", 0)])
	assert.Len(t, p.marks, 1, "where all are unfit, or nobody wants it, nobody is")
	assert.Equal(t, []bool{true, true, false}, []bool{p.isUnfit(0, key("t", 0)), p.isUnfit(1, key("t", 0)), p.isUnfit(2, key("t", 0))})
	assert.False(t, p.isUnfit(0, key("t", 1)))
	assert.Equal(t, []Move{move(key("t", 2), "c", "a"), forced(move(key("x", 0), "c", ""))}, p.Moves())
	g.leave("c", true)
	p = Compute(g.World)
	assert.Empty(t, p.Moves())
	assert.Empty(t, p.Free(), "what is parked is nobody's")
}

func TestACrashLoopIsWhatIsNotHeardOfSinceItsNamesakeCame(t *testing.T) {
	g := newGroup()
	g.join("a", "same", topics(4, "t"))
	g.join("b", "same", topics(4, "t"))
	g.join("c", "same", topics(4, "t"))
	shadowed := func() []bool { return Compute(g.World).shadowed }
	assert.Equal(t, []bool{false, true, true}, shadowed())
	g.beat("a")
	assert.Equal(t, []bool{false, false, true}, shadowed(), "there is another that is not heard of")
	g.beat("b")
	assert.Equal(t, []bool{false, false, false}, shadowed())
	g.join("d", "same", topics(4, "t"))
	g.beat("c")
	assert.Equal(t, []bool{false, false, false, true}, shadowed(), "any one will do, not the newest alone")
}

// Where a maximum binds, who is rounded up of those who are equally far behind is decided by a number that is the same for everybody
// and differs between topics.
func TestTiesAreBrokenByTheNumberOfMemberAndTopic(t *testing.T) {
	seed := func(name string) uint64 {
		i := id(name)
		var a, b uint64
		for at := 7; at >= 0; at-- {
			a, b = a<<8|uint64(i[at]), b<<8|uint64(i[8+at])
		}
		return a ^ (b<<29 | b>>35)
	}
	first := map[string]int{}
	for i := range 24 {
		topic := names(24)[i]
		g := newGroup()
		in := topics(2, topic)
		g.join("full", "full", atMost(1, in))
		g.join("y", "y", in)
		g.join("x", "x", in)
		g.claim("x", key(topic, 1))
		g.release("x", lease.InstanceID{}, true, key(topic, 1))
		g.claim("full", key(topic, 1)) // in nobody's share, but it counts
		sum := uint64(crc32.ChecksumIEEE([]byte(topic)))
		want := "y"
		if tieNumber(sum, seed("x")) < tieNumber(sum, seed("y")) {
			want = "x"
		}
		first[want]++
		p := Compute(g.World)
		assert.Equal(t, []lease.Key{key(topic, 0)}, p.Planned(id(want)), topic)
		assert.Equal(t, []fixed{0, -unit / 2, -unit / 2}, p.ahead)
	}
	assert.Greater(t, min(first["x"], first["y"]), 4)
	assert.EqualValues(t, 0, tieNumber(0, 0))
	assert.Equal(t, [3]uint32{0x1130efe8, 0x0adaf0e7, 0xd0c7a4f8}, [3]uint32{tieNumber(1, 2), tieNumber(2, 1), tieNumber(1<<31, 1<<63)}, "for ever: members of several versions compute one plan")
}

func TestAMaximumThatLeavesRoomForTheShareDoesNotBind(t *testing.T) {
	binds := func(do func(g *group)) bool {
		g := newGroup()
		do(g)
		r := new(reading)
		r.begin(g.World, nil)
		r.shadow()
		r.readLeases()
		r.solve()
		return r.binds()
	}
	for _, c := range []struct {
		most, parts int32
		others      int
		want        bool
		why         string
	}{
		{0, 9, 1, false, "there is none"},
		{5, 9, 1, false, "a share of 4.5 rounded up"},
		{4, 9, 1, true, "less than the share"},
		{4, 8, 1, false, "exactly the share"},
		{3, 8, 1, true, "one less"},
		{3, 9, 2, false, "exactly the share"},
	} {
		assert.Equal(t, c.want, binds(func(g *group) {
			in := topics(c.parts, "t")
			for _, n := range names(c.others) {
				g.join(n, n, in)
			}
			g.join("full", "full", atMost(c.most, in))
		}), "%s: %+v", c.why, c)
	}
	twoTopics := func(most int32) func(g *group) {
		return func(g *group) {
			g.join("full", "full", atMost(most, topics(3, "t", "u")))
			g.join("other", "other", topics(3, "t", "u"))
		}
	}
	assert.True(t, binds(twoTopics(2)), "a share of 1.5 of each of two topics")
	assert.False(t, binds(twoTopics(3)))
	roundedUp := func(most int32) func(g *group) {
		return func(g *group) {
			g.join("full", "full", atMost(most, topics(3, "t")))
			g.join("other", "other", topics(3, "t"))
			g.claim("full", key("t", 0), key("t", 1))
		}
	}
	assert.False(t, binds(roundedUp(2)))
	aside := func(g *group) {
		g.join("other", "other", topics(5, "t"))
		g.join("full", "full", atMost(2, topics(5, "t")))
		g.claim("other", key("t", 0))
		g.release("other", lease.InstanceID{}, true, key("t", 0))
		g.claim("full", key("t", 0))
	}
	twoInterests := func(parts, most int32) func(g *group) {
		return func(g *group) {
			for _, n := range []string{"full", "other"} {
				in := topics(parts, "t", "u")
				if n == "full" {
					in.Max = most
				}
				g.join(n, n, in, topics(parts, "v", "w"))
			}
			for part := range (parts + 1) / 2 {
				g.claim("other", key("v", part), key("w", part))
			}
		}
	}
	assert.True(t, binds(twoInterests(1, 1)), "totals are level, so both of two halves are rounded up in one interest")
	assert.False(t, binds(twoInterests(1, 2)))
	assert.True(t, binds(twoInterests(3, 3)))
	assert.False(t, binds(twoInterests(3, 4)))
	assert.True(t, binds(aside), "of four two would be its share, but one is taken")
}

func TestALeaseOfTheFirstMemberIsNotParked(t *testing.T) {
	g := newGroup()
	g.join("a", "", topics(2, "t"))
	g.claim("a", key("t", 0))
	assert.Empty(t, Compute(g.World).Parked(id("a")))
}

func TestStakesAreCountedForEverybodyInEverything(t *testing.T) {
	g := newGroup()
	g.join("a", "a", topics(2, "t", "u", "v"))
	g.join("b", "b", topics(2, "t", "u", "v"), topics(1, "w"))
	g.join("c", "c", topics(2, "t", "u", "v"))
	assert.Equal(t, 3+4+3, newRoster(g.World, nil).stakes())
}

func TestHowFarEverybodyIsAheadOfItsShare(t *testing.T) {
	for _, full := range []bool{false, true} {
		g := newGroup()
		g.join("a", "a", topics(6, "t"))
		g.join("b", "b", weighing(2, topics(6, "t")))
		want := []fixed{2 * unit, -4 * unit}
		if full {
			g.join("full", "full", atMost(1, weighing(3, topics(6, "t"))))
			want = []fixed{4*unit - fix(5)/3, -2 * fix(5) / 3, -unit}
		}
		g.claim("a", key("t", 0), key("t", 1), key("t", 2), key("t", 3))
		p := Compute(g.World)
		for m := range want {
			assert.InDelta(t, float64(want[m]), float64(p.ahead[m]), 4, "%v %d", full, m)
		}
	}
}
