package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// move is a move as a test writes it.
func move(k lease.Key, from, to string) Move {
	m := Move{Key: k, From: id(from)}
	if to != "" {
		m.To = id(to)
	}
	return m
}

func forced(m Move) Move { m.Forced = true; return m }

func TestTheSurplusIsTheLargestEpochAndKeyAndGoesToTheTakersInOrder(t *testing.T) {
	for _, others := range []int32{1, 40} { // whether it is found among what the giver holds, or among the topic's leases
		g := newGroup()
		g.join("a", "a", topics(6, "t"), topics(others, "u"))
		g.claim("a", key("t", 3))
		g.claim("a", key("t", 4), key("t", 1))
		g.claim("a", key("t", 5))
		g.claim("a", key("t", 2))
		g.claim("a", key("t", 0))
		for part := range others {
			g.claim("a", key("u", part))
		}
		g.join("b", "b", topics(6, "t"))
		g.join("c", "c", topics(6, "t"))
		assert.Equal(t, []Move{move(key("t", 0), "a", "b"), move(key("t", 2), "a", "b"), move(key("t", 4), "a", "c"), move(key("t", 5), "a", "c")},
			Compute(g.World).Moves())
		g.carryOut(Compute(g.World).Moves()[3])
		assert.Equal(t, []Move{move(key("t", 0), "a", "b"), move(key("t", 2), "a", "b"), move(key("t", 4), "a", "c")}, Compute(g.World).Moves())
		g.leave("c", false)
		assert.Equal(t, []Move{move(key("t", 0), "a", "b"), move(key("t", 2), "a", "b")}, Compute(g.World).Moves(), "of equal epochs the larger key is newer")
	}
}

func TestAMarkedKeyIsNobodysSurplusHoweverNewItIs(t *testing.T) {
	g := newGroup()
	g.join("a", "a", topics(5, "t"))
	g.join("b", "b", topics(5, "t"))
	g.claim("b", key("t", 4))
	g.release("b", lease.InstanceID{}, true, key("t", 4))
	g.claim("a", key("t", 0), key("t", 1), key("t", 2), key("t", 3))
	g.claim("a", key("t", 4))
	assert.Equal(t, []Move{move(key("t", 2), "a", "b"), move(key("t", 3), "a", "b")}, Compute(g.World).Moves())
}

func TestMovesAreInTheOrderOfKeysWhateverTheyAreFor(t *testing.T) {
	g := newGroup()
	g.join("a", "a", topics(4, "b", "d"), whole(topics(1, "a", "e")))
	for part := range int32(4) {
		g.claim("a", key("b", part))
		g.claim("a", key("d", part))
	}
	g.claim("a", key("a", lease.WholeTopic))
	g.claim("a", key("e", lease.WholeTopic))
	g.join("b", "b", topics(4, "b", "d"))
	g.join("a", "a", topics(4, "b", "d"))
	p := Compute(g.World)
	moves := []Move{
		forced(move(key("a", lease.WholeTopic), "a", "")), move(key("b", 2), "a", "b"), move(key("b", 3), "a", "b"),
		move(key("d", 2), "a", "b"), move(key("d", 3), "a", "b"), forced(move(key("e", lease.WholeTopic), "a", "")),
	}
	assert.Equal(t, moves, p.Moves())
	assert.Equal(t, moves, p.MovesOf(id("a")))
	assert.Empty(t, p.MovesOf(id("b")))
	assert.Empty(t, p.MovesOf(id("nobody")))
	for _, m := range moves {
		found, ok := p.findMove(m.Key)
		assert.True(t, ok && found == m)
	}
	for _, k := range []lease.Key{key("b", 0), key("b", 4), key("c", 0), key("f", 0), key("a", 0)} {
		_, ok := p.findMove(k)
		assert.False(t, ok)
	}
}

// Keys of a topic that is held in both modes are of two pools.
func TestWhatIsHeldOfATopicAsAWholeIsNotOfItsPartitions(t *testing.T) {
	g := newGroup()
	g.join("a", "a", topics(2, "s", "t"))
	for _, topic := range []string{"s", "t"} {
		g.claim("a", key(topic, 0), key(topic, 1))
	}
	g.join("w", "w", whole(topics(2, "s", "t")))
	g.join("b", "b", topics(2, "s", "t"))
	assert.Equal(t, []Move{move(key("s", 1), "a", "b"), move(key("t", 1), "a", "b")}, Compute(g.World).Moves())
	g.join("a", "a")
	p := Compute(g.World)
	require.Len(t, p.Moves(), 4)
	for _, m := range p.Moves() {
		assert.Equal(t, forced(move(m.Key, "a", "b")), m)
	}
	h := &layout{names: []poolName{{"s", true}, {"s", false}, {"t", true}}}
	q := &Plan{roster: &roster{layout: h}}
	for k, want := range map[lease.Key][]bool{
		key("r", 5):                {false, false, false},
		key("s", lease.WholeTopic): {false, false, false},
		key("s", 0):                {true, false, false},
		key("t", lease.WholeTopic): {true, true, false},
		key("t", 0):                {true, true, true},
	} {
		for j := range h.names {
			assert.Equal(t, want[j], q.beyond(k, j), "%v %v", k, h.names[j])
		}
	}
}

func TestTakersAreServedInOrderWhileTheyHaveRoom(t *testing.T) {
	room := []int32{5, 0, 1, noLimit, 3}
	gaps := []gap{{0, 0, -2}, {0, 1, 2}, {0, 2, 2}, {0, 3, 2}, {0, 4, 1}}
	tk := &takers{gaps: gaps, room: room}
	var served []int32
	for u, ok := tk.next(); ok; u, ok = tk.next() {
		served = append(served, u)
	}
	assert.Equal(t, []int32{2, 3, 3, 4}, served)
	assert.Equal(t, []int32{5, 0, 0, noLimit, 2}, room)
	assert.Equal(t, []gap{{0, 0, -2}, {0, 1, 2}, {0, 2, 1}, {0, 3, 0}, {0, 4, 0}}, gaps)
}

func TestWhoIsFullIsGivenNothingThoughThePlanMakesRoom(t *testing.T) {
	g := newGroup()
	g.join("a", "a", atMost(4, topics(4, "t", "u")))
	g.join("b", "b", topics(4, "u"))
	g.claim("a", key("t", 0), key("t", 1), key("t", 2), key("t", 3))
	g.claim("b", key("u", 0), key("u", 1), key("u", 2), key("u", 3))
	g.join("c", "c", topics(4, "t"))
	p := Compute(g.World)
	for _, m := range p.Moves() {
		assert.Equal(t, move(m.Key, "a", "c"), m)
	}
	require.NotEmpty(t, p.Moves())
	g.carryOut(p.Moves()[0])
	require.Len(t, Compute(g.World).MovesOf(id("b")), 1, "it has room for one now")
	assert.Equal(t, id("a"), Compute(g.World).MovesOf(id("b"))[0].To)
}

// A key that is run again once something else is gone is as many as the holder should have of its pool, and no more.
func TestOverAMaximumSoMuchStaysAsIsInTheShare(t *testing.T) {
	g := newGroup()
	in := lease.Interest{Topics: []lease.TopicInterest{{Topic: "t", Partitions: 3}, {Topic: "u", Partitions: 1}}}
	g.join("a", "a", in)
	g.claim("a", key("t", 0))
	g.claim("a", key("u", 0))
	g.claim("a", key("t", 1))
	g.claim("a", key("t", 2))
	g.join("a", "a", atMost(2, in))
	g.join("b", "b", topics(1, "u"))
	p := Compute(g.World)
	assert.Equal(t, []lease.Key{key("t", 1), key("t", 2)}, p.Overflow(id("a")))
	assert.Equal(t, []Move{forced(move(key("t", 2), "a", "")), move(key("u", 0), "a", "b")}, p.Moves())
	g.join("c", "c", topics(3, "t"))
	p = Compute(g.World)
	assert.Equal(t, []Move{forced(move(key("t", 1), "a", "c")), forced(move(key("t", 2), "a", "c"))}, p.Moves())
}

// What must go and is in nobody's share goes to who is furthest behind, within maxima.
func TestMarkedKeysOfOneWhoDrainsAreSpread(t *testing.T) {
	const parts = 12
	g := newGroup()
	for _, n := range []string{"b", "c", "d"} {
		in := topics(parts, "t")
		if n == "d" {
			in.Max = 2
		}
		g.join(n, n, in)
	}
	g.join("a", "a", topics(parts, "t"))
	for part := range int32(parts) {
		g.claim("c", key("t", part))
		g.release("c", lease.InstanceID{}, true, key("t", part))
		g.claim("a", key("t", part))
	}
	assert.Empty(t, Compute(g.World).Moves())
	g.join("a", "a")
	got := map[lease.InstanceID]int{}
	for _, m := range Compute(g.World).Moves() {
		assert.True(t, m.Forced)
		got[m.To]++
	}
	assert.Equal(t, map[lease.InstanceID]int{id("b"): parts - 2, id("d"): 2}, got, "not to who is unfit, and to nobody above its maximum")
	g.join("d", "d", topics(parts, "t"))
	clear(got)
	for _, m := range Compute(g.World).Moves() {
		got[m.To]++
	}
	assert.Equal(t, map[lease.InstanceID]int{id("b"): parts / 2, id("d"): parts / 2}, got)
}

func TestTheFirstMemberIsAGoodSuccessorToo(t *testing.T) {
	g := newGroup()
	g.join("first", "first", topics(12, "t"))
	g.join("old", "old", topics(12, "t"))
	g.join("third", "third", topics(12, "t"))
	for part := range int32(12) {
		g.claim("old", key("t", part))
	}
	g.join("old", "old")
	for i, m := range Compute(g.World).Moves() {
		to := "first"
		if i >= 6 {
			to = "third"
		}
		assert.Equal(t, forced(move(key("t", int32(i)), "old", to)), m, "the members' gaps in order, not who is best for each key")
	}
}

func TestFreeKeysThatAreInNobodysShareYetAreNotNamed(t *testing.T) {
	g := newGroup()
	g.join("a", "same", atMost(1, topics(3, "t")))
	g.claim("a", key("t", 0))
	g.join("b", "same", topics(3, "t")) // perhaps a's next run: it attracts nothing
	p := Compute(g.World)
	assert.Empty(t, p.Planned(id("a")), "it is full")
	assert.Equal(t, []lease.Key{key("t", 1), key("t", 2)}, p.Planned(id("b")), "the only one in turn")
	assert.Equal(t, []lease.Key{key("t", 1), key("t", 2)}, p.Free())
	g.join("c", "c", topics(1, "u"))
	g.join("d", "d", atMost(1, topics(1, "u", "v")))
	g.claim("c", key("u", 0))
	assert.Equal(t, []lease.Key{key("t", 1), key("t", 2), key("v", 0)}, Compute(g.World).Free())
	g.claim("d", key("v", 0))
	g.leave("c", false)
	assert.Equal(t, []lease.Key{key("t", 1), key("t", 2)}, Compute(g.World).Free(), "nobody has room for the other topic")
	g.joinPinned("e", "e", []lease.Key{key("u", 0)})
	assert.Equal(t, []lease.Key{key("t", 1), key("t", 2), key("u", 0)}, Compute(g.World).Free(), "but for who claims it by hand")
}

func TestFreeKeysAreNamedWithinWhatTheSharesLeave(t *testing.T) {
	g := newGroup()
	g.join("a", "a", atMost(3, topics(8, "t")))
	g.join("b", "b", topics(8, "t"))
	g.claim("b", key("t", 0))
	g.release("b", lease.InstanceID{}, true, key("t", 0))
	g.claim("a", key("t", 0))
	p := Compute(g.World)
	assert.Len(t, p.Planned(id("a")), 2, "the marked key counts for its maximum, though it is in nobody's share")
	assert.Len(t, p.Planned(id("b")), 5)
}

func TestKeysThatTheirHolderDoesNotWantMustGo(t *testing.T) {
	g := newGroup()
	g.join("z", "z", topics(2, "z"))
	g.join("b", "b", topics(2, "b"))
	g.join("c", "c", topics(2, "c"))
	for _, n := range []string{"z", "b", "c"} {
		for _, topic := range []string{"a", "b", "c", "z"} {
			if topic != n {
				g.claim(n, key(topic, int32(n[0])%2))
			}
		}
	}
	g.claim("z", key("z", 5))
	var want []Move
	for k, l := range g.Leases() {
		for _, n := range []string{"z", "b", "c"} {
			if l.Instance == id(n) {
				to := k.Topic
				if to == "a" || k.Partition > 1 {
					to = ""
				}
				want = append(want, forced(move(k, n, to)))
			}
		}
	}
	assert.ElementsMatch(t, want, Compute(g.World).Moves())
	assert.Len(t, want, 8)
}

func TestWhoHoldsMoreThanItsShareRoundedUpInTotalGivesTheRest(t *testing.T) {
	g := newGroup()
	for _, n := range names(3) {
		g.join(n, n, topics(1, "t", "u", "v"))
	}
	g.claim("m0", key("t", 0), key("u", 0), key("v", 0))
	p := Compute(g.World)
	require.Len(t, p.Moves(), 2, "though its share of each is less than one")
	assert.NotEqual(t, p.Moves()[0].To, p.Moves()[1].To)
}

// Interests that differ make no difference to the order in which members are served, nor do maxima that bind elsewhere.
func TestTakersAreServedInTheOrderOfMembersWhateverElseTheyWant(t *testing.T) {
	for _, full := range []bool{false, true} {
		g := newGroup()
		g.join("h", "h", topics(8, "t"))
		g.join("b", "b", topics(8, "t"), topics(0, "x"))
		g.join("c", "c", topics(8, "t"))
		g.join("d", "d", topics(8, "t"), topics(0, "x"))
		if full {
			g.join("full", "full", atMost(1, topics(8, "y")))
		}
		for part := range int32(8) {
			g.claim("h", key("t", part))
		}
		var got []lease.InstanceID
		for _, m := range Compute(g.World).Moves() {
			got = append(got, m.To)
		}
		assert.Equal(t, []lease.InstanceID{id("b"), id("b"), id("c"), id("c"), id("d"), id("d")}, got)
	}
}

// Where a maximum binds, what is left of it is divided among the others, but nothing goes to who is greedy or attracts nothing.
func TestSharesWhereAMaximumBinds(t *testing.T) {
	g := newGroup()
	both := topics(6, "t", "u")
	g.join("old", "same")
	g.join("full", "full", atMost(1, both))
	g.join("greedy", "greedy", greedy(both))
	g.join("new", "same", both)
	g.join("a", "a", both)
	g.join("b", "b", both, topics(1, "x"))
	for part := range int32(6) {
		g.claim("a", key("t", part))
	}
	g.claim("b", key("u", 0))
	p := Compute(g.World)
	assert.True(t, p.shadowed[p.index[id("new")]])
	got := map[lease.InstanceID]int{}
	for _, m := range p.Moves() {
		assert.Equal(t, id("a"), m.From)
		got[m.To]++
	}
	named := 0
	for _, n := range []string{"full", "a", "b"} {
		named += len(p.Planned(id(n)))
	}
	assert.Equal(t, 6, named, "all that is free is in somebody's share, the other topic's only key too")
	assert.Zero(t, got[id("new")]+got[id("greedy")])
	assert.LessOrEqual(t, got[id("full")], 1)
	assert.GreaterOrEqual(t, got[id("b")], 2)
	ns := []string{"full", "a", "b"}
	g.settle(ns)
	assert.Equal(t, 1, g.HeldCount(id("full")))
	assert.Contains(t, [][]int{{6, 6}, {5, 7}}, g.counts(ns)[1:], "five and a half of the two topics each, and the third")
	assert.Zero(t, g.HeldCount(id("new"))+g.HeldCount(id("greedy")))
}
