package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

func greedy(in lease.Interest) lease.Interest { in.Greedy = true; return in }

func whole(in lease.Interest) lease.Interest { in.Whole = true; return in }

func atMost(n int32, in lease.Interest) lease.Interest { in.Max = n; return in }

func weighing(n int32, in lease.Interest) lease.Interest { in.Weight = n; return in }

func TestSharesAreWithinOneOfEvenPerTopicAndInTotal(t *testing.T) {
	g, ns := newGroup(), names(3)
	for _, n := range ns {
		g.join(n, n, topics(4, "a", "b"))
	}
	g.settle(ns)
	assert.ElementsMatch(t, []int{3, 3, 2}, g.counts(ns))
	ns = append(ns, "new")
	g.join("new", "new", topics(4, "a", "b"))
	assert.Equal(t, 2, g.settle(ns), "a newcomer costs as many moves as it is to have keys")
	assert.Equal(t, []int{2, 2, 2, 2}, g.counts(ns))
	assert.Empty(t, Compute(g.World).Moves(), "what is balanced stays")
}

func TestSharesAreByWeight(t *testing.T) {
	g, ns := newGroup(), names(3)
	g.join("m0", "m0", weighing(2, topics(1, "a", "b", "c", "d", "e", "f", "g", "h")))
	g.join("m1", "m1", topics(1, "a", "b", "c", "d", "e", "f", "g", "h"))
	g.join("m2", "m2", topics(1, "a", "b", "c", "d", "e", "f", "g", "h"))
	g.settle(ns)
	assert.Equal(t, []int{4, 2, 2}, g.counts(ns), "also where each topic has one partition only")
}

func TestWholeTopicsAreCountedAsTopics(t *testing.T) {
	g, ns := newGroup(), names(2)
	for _, n := range ns {
		g.join(n, n, whole(topics(50, "a", "b", "c")))
	}
	g.settle(ns)
	assert.ElementsMatch(t, []int{1, 2}, g.counts(ns))
	for k := range g.Leases() {
		assert.Equal(t, lease.WholeTopic, k.Partition)
	}
}

func TestNobodyGetsMoreThanItsMaximum(t *testing.T) {
	g, ns := newGroup(), names(3)
	g.join("m0", "m0", atMost(2, topics(6, "a", "b")))
	g.join("m1", "m1", topics(6, "a", "b"))
	g.join("m2", "m2", atMost(3, topics(6, "a")))
	g.settle(ns)
	assert.Equal(t, []int{2, 7, 3}, g.counts(ns))
	g.join("m1", "m1", atMost(1, topics(6, "a", "b")))
	g.settle(ns)
	assert.Equal(t, []int{2, 1, 3}, g.counts(ns))
	p := Compute(g.World)
	assert.Empty(t, p.Free(), "what nobody may have is not offered")
	assert.Equal(t, -1, p.TurnOf(key("a", 0), id("m0")))
}

func TestOverTheMaximumTheSurplusIsTheLargestEpochAndKey(t *testing.T) {
	g := newGroup()
	g.join("a", "a", topics(4, "t"))
	g.claim("a", key("t", 3))
	g.claim("a", key("t", 1), key("t", 0))
	g.claim("a", key("t", 2))
	g.join("a", "a", atMost(2, topics(4, "t")))
	p := Compute(g.World)
	assert.Equal(t, []lease.Key{key("t", 1), key("t", 2)}, p.Overflow(id("a")))
	assert.Equal(t, []Move{{Key: key("t", 1), From: id("a"), Forced: true}, {Key: key("t", 2), From: id("a"), Forced: true}},
		p.MovesOf(id("a")), "nobody else is there")
	assert.Empty(t, Compute(g.World).Overflow(id("b")))
}

func TestLeasesOfTheParkedAreFixed(t *testing.T) {
	g := newGroup()
	g.join("a", "one", topics(4, "t"))
	g.claim("a", key("t", 0), key("t", 1), key("t", 2))
	g.leave("a", true)
	g.join("b", "one", atMost(2, topics(4, "t")))
	g.join("c", "two", topics(4, "t"))
	p := Compute(g.World)
	assert.Equal(t, []lease.Key{key("t", 3)}, p.Free())
	assert.Empty(t, p.Moves())
	assert.Equal(t, []lease.Key{key("t", 0), key("t", 1)}, p.Parked(id("b")), "its namesake may claim them, as many as it may have")
	assert.Empty(t, p.Parked(id("c")))
}

func TestParkedKeysInTheOtherMode(t *testing.T) {
	g := newGroup()
	g.join("a", "one", whole(topics(2, "t")))
	g.claim("a", key("t", lease.WholeTopic))
	g.leave("a", true)
	g.join("b", "one", topics(2, "t"))
	assert.Equal(t, []lease.Key{key("t", 0), key("t", 1)}, Compute(g.World).Parked(id("b")))
	g.claim("b", key("t", 0), key("t", 1))
	g.leave("b", true)
	g.join("c", "one", whole(topics(2, "t")))
	assert.Equal(t, []lease.Key{key("t", lease.WholeTopic)}, Compute(g.World).Parked(id("c")))
}

func TestLeasesOfGreedyMembersAreNobodysSurplus(t *testing.T) {
	g := newGroup()
	g.join("a", "a", greedy(topics(8, "t")))
	assert.Len(t, Compute(g.World).Greedy(id("a")), 8)
	g.claim("a", key("t", 0), key("t", 1), key("t", 2), key("t", 3), key("t", 4))
	g.join("b", "b", topics(8, "t"))
	g.join("c", "c", topics(8, "t"))
	p := Compute(g.World)
	assert.Empty(t, p.Moves())
	assert.Len(t, p.Greedy(id("a")), 3)
	for part := int32(5); part < 8; part++ {
		first, ok := p.Claimant(key("t", part), 0)
		assert.True(t, ok)
		assert.NotEqual(t, id("a"), first, "who shares comes first in turn")
	}
	g.settle([]string{"b", "c"})
	assert.ElementsMatch(t, []int{1, 2}, g.counts([]string{"b", "c"}), "shares are of what is not the greedy one's")
	g.join("a", "a", greedy(atMost(4, topics(8, "t"))))
	moves := Compute(g.World).Moves()
	require.Len(t, moves, 1, "over its maximum it has a surplus")
	assert.Equal(t, key("t", 4), moves[0].Key)
	assert.True(t, moves[0].Forced)
}

func TestGreedyOnesWithALimitBeginAtPlacesOfTheirOwn(t *testing.T) {
	g := newGroup()
	taken := map[lease.Key]int{}
	for _, n := range names(8) {
		g.join(n, n, greedy(atMost(10, topics(200, "t"))))
	}
	p := Compute(g.World)
	for _, n := range names(8) {
		keys := p.Greedy(id(n))
		assert.Len(t, keys, 10)
		assert.IsNonDecreasing(t, func() (parts []int32) {
			for _, k := range keys {
				parts = append(parts, k.Partition)
				taken[k]++
			}
			return parts
		}())
	}
	assert.Greater(t, len(taken), 40)
}

func TestPinnedKeysAreNobodysSurplusAndInNobodysShare(t *testing.T) {
	g, ns := newGroup(), []string{"a", "b"}
	g.joinPinned("a", "a", []lease.Key{key("t", 0), key("t", 1), key("u", 9)}, topics(6, "t"))
	p := Compute(g.World)
	assert.Equal(t, 0, p.TurnOf(key("u", 9), id("a")), "who claims by hand comes first, whatever it is interested in")
	assert.True(t, p.Wants(id("a"), key("u", 9)))
	assert.False(t, p.Wants(id("a"), key("u", 8)))
	g.claim("a", key("t", 0), key("t", 1), key("u", 9))
	g.join("b", "b", topics(6, "t"))
	g.settle(ns)
	assert.Equal(t, []int{5, 2}, g.counts(ns))
}

// What comes to who claims it by hand is in nobody's share from then on, so the shares of the rest are made anew.
func TestAKeyThatComesToWhoClaimsItByHandLeavesTheShares(t *testing.T) {
	g, ns := newGroup(), []string{"a", "b"}
	g.join("a", "a", topics(3, "t"))
	g.claim("a", key("t", 0), key("t", 1), key("t", 2))
	g.joinPinned("b", "b", []lease.Key{key("t", 2)}, topics(3, "t"))
	assert.Equal(t, []Move{{Key: key("t", 2), From: id("a"), To: id("b")}}, Compute(g.World).Moves())
	assert.Equal(t, 2, g.settle(ns))
	assert.Equal(t, []int{1, 2}, g.counts(ns))
}

func TestAnUnfitMarkCountsOnlyWhileSomeInterestedInstanceHasNone(t *testing.T) {
	g, ns := newGroup(), []string{"a", "b"}
	for _, n := range ns {
		g.join(n, n, topics(4, "t"))
	}
	g.claim("a", key("t", 0), key("t", 1))
	g.claim("b", key("t", 2), key("t", 3))
	g.release("a", lease.InstanceID{}, true, key("t", 0))
	p := Compute(g.World)
	assert.Equal(t, 0, p.TurnOf(key("t", 0), id("b")))
	assert.Equal(t, 1, p.TurnOf(key("t", 0), id("a")), "it stays the last resort: a key is never orphaned")
	assert.Equal(t, id("b"), p.Successor(key("t", 0), id("c"), nil))
	g.claim("b", key("t", 0))
	assert.Empty(t, Compute(g.World).Moves(), "a key with a mark is nobody's surplus and in nobody's share")
	g.release("b", lease.InstanceID{}, true, key("t", 0))
	p = Compute(g.World)
	assert.Equal(t, 0, p.TurnOf(key("t", 0), id("a")), "both are unfit, so it is as if none were, and a has fewer")
	g.claim("b", key("t", 0))
	assert.Len(t, Compute(g.World).Moves(), 1, "it is in the shares again: three against one")
	assert.Equal(t, []int{1, 3}, g.counts(ns))
}

func TestACrashLoopAttractsNothingThoughItMayClaimAFreeKeyAfterItsTurn(t *testing.T) {
	g := newGroup()
	g.join("a", "same", topics(6, "t"))
	g.claim("a", key("t", 0), key("t", 1), key("t", 2))
	g.join("b", "other", topics(6, "t"))
	g.claim("b", key("t", 3), key("t", 4))
	g.join("a2", "same", topics(6, "t"))
	var planner Planner
	p := planner.Plan(g.World)
	assert.Empty(t, p.Moves())
	assert.Equal(t, 0, p.TurnOf(key("t", 5), id("b")))
	assert.Equal(t, 2, p.TurnOf(key("t", 5), id("a2")), "after everybody else")
	assert.Equal(t, lease.InstanceID{}, p.Successor(key("t", 0), id("a"), func(i lease.InstanceID) bool { return i == id("b") }))
	assert.Same(t, p, planner.Plan(g.World))
	g.beat("b")
	assert.Same(t, p, planner.Plan(g.World), "a renewal is nothing new")
	g.beat("a")
	p = planner.Plan(g.World)
	assert.Equal(t, 0, p.TurnOf(key("t", 5), id("a2")), "but now the older one lives, so both count")
	assert.Len(t, p.Moves(), 1)
}

func TestWhoHasParkedKeysToInheritAttractsNothingUntilItHasThem(t *testing.T) {
	g := newGroup()
	g.join("a", "one", topics(6, "t"))
	g.join("b", "two", topics(6, "t"))
	g.claim("a", key("t", 0), key("t", 1), key("t", 2))
	g.claim("b", key("t", 3), key("t", 4), key("t", 5))
	g.leave("a", true)
	assert.Empty(t, Compute(g.World).Moves())
	g.join("a2", "one", topics(6, "t"))
	assert.Empty(t, Compute(g.World).Moves(), "it will have three")
	g.claim("a2", key("t", 0), key("t", 1), key("t", 2))
	assert.Empty(t, Compute(g.World).Moves())

	g.leave("a2", true)
	g.join("c", "three", topics(6, "t"))
	assert.Len(t, Compute(g.World).MovesOf(id("b")), 1, "others have nothing to inherit")
	g.join("a3", "one", topics(6, "other"))
	p := Compute(g.World)
	assert.Len(t, p.MovesOf(id("b")), 1, "nor has its next run, where it does not want them")
	assert.False(t, p.shadowed[p.index[id("a3")]])
	g.join("a3", "one", atMost(1, topics(6, "t")))
	g.claim("a3", key("t", 0))
	for _, m := range Compute(g.World).Moves() {
		assert.NotEqual(t, id("a3"), m.To, "it is at its maximum")
	}
}

func TestADrainingInstanceHandsOverAllThatItHolds(t *testing.T) {
	g, ns := newGroup(), names(3)
	for _, n := range ns {
		g.join(n, n, topics(9, "t"))
	}
	g.settle(ns)
	g.join("m0", "m0")
	p := Compute(g.World)
	require.Len(t, p.MovesOf(id("m0")), 3)
	got := map[lease.InstanceID]int{}
	for _, m := range p.Moves() {
		assert.True(t, m.Forced)
		assert.Equal(t, m.To, p.Successor(m.Key, m.From, nil))
		got[m.To]++
	}
	assert.ElementsMatch(t, []int{1, 2}, []int{got[id("m1")], got[id("m2")]}, "evenly")
	g.join("m1", "m1")
	g.join("m2", "m2")
	for _, m := range Compute(g.World).Moves() {
		assert.Zero(t, m.To, "nobody is eligible")
	}
}

func TestWholeTopicsAndPartitionsOfOneTopicNeverLivelock(t *testing.T) {
	g := newGroup()
	g.join("p", "p", topics(3, "t"))
	g.join("w", "w", whole(topics(3, "t")))
	p := Compute(g.World)
	assert.Equal(t, []lease.Key{key("t", lease.WholeTopic), key("t", 0), key("t", 1), key("t", 2)}, p.Free())
	g.claim("p", key("t", 1))
	p = Compute(g.World)
	assert.Equal(t, []lease.Key{key("t", 0), key("t", 2)}, p.Free(), "conflicts block")
	assert.Equal(t, -1, p.TurnOf(key("t", 0), id("w")))
	g.claim("p", key("t", 0), key("t", 2))
	assert.Empty(t, Compute(g.World).Moves(), "the first in the log keeps it")
	g.join("p", "p", whole(topics(3, "t")))
	p = Compute(g.World)
	assert.Empty(t, p.Free())
	assert.Len(t, p.Moves(), 3)
	for _, m := range p.Moves() {
		assert.Zero(t, m.To, "nobody wants partitions any more")
		g.carryOut(m)
	}
	assert.Equal(t, []lease.Key{key("t", lease.WholeTopic)}, Compute(g.World).Free())
}

func TestPartitionsAreThoseThatTheWorldKnows(t *testing.T) {
	g, ns := newGroup(), []string{"a", "b"}
	g.join("a", "a", topics(2, "t"))
	g.join("b", "b", topics(4, "t"))
	p := Compute(g.World)
	assert.Len(t, p.Free(), 4, "the largest count counts for everybody")
	assert.True(t, p.Wants(id("a"), key("t", 3)))
	assert.False(t, p.Wants(id("a"), key("t", 4)))
	g.settle(ns)
	g.join("b", "b", topics(2, "t"))
	for _, part := range []int32{2, 3} {
		m, ok := Compute(g.World).findMove(key("t", part))
		assert.True(t, ok && m.Forced && m.To.IsZero(), "what is no partition of the topic is let go")
	}
}

func TestATopicThatNobodySeesAnyMoreIsLetGoAsAWholeToo(t *testing.T) {
	g := newGroup()
	whole := func(n int32) lease.Interest { i := topics(n, "t"); i.Whole = true; return i }
	g.join("a", "a", whole(3))
	g.settle([]string{"a"})
	k := key("t", lease.WholeTopic)
	assert.True(t, Compute(g.World).Wants(id("a"), k))
	g.join("a", "a", whole(0))
	p := Compute(g.World)
	assert.False(t, p.Wants(id("a"), k))
	m, ok := p.findMove(k)
	assert.True(t, ok && m.Forced && m.To.IsZero())
	assert.Empty(t, p.Free())
	g.carryOut(m)
	assert.Empty(t, Compute(g.World).Free())
}

func TestInterestsMayDiffer(t *testing.T) {
	g, ns := newGroup(), names(3)
	g.join("m0", "m0", topics(4, "a"))
	g.join("m1", "m1", topics(4, "a"), topics(6, "b"))
	g.join("m2", "m2", topics(6, "b"))
	g.settle(ns)
	assert.Equal(t, []int{2, 5, 3}, g.counts(ns), "each topic is divided among those who want it")
}

func TestTheOthersFollowInRendezvousOrder(t *testing.T) {
	g, ns := newGroup(), names(6)
	for _, n := range ns {
		g.join(n, n, topics(6, "t"))
	}
	p := Compute(g.World)
	for part := range int32(6) {
		k := key("t", part)
		first, _ := p.Claimant(k, 0)
		var rest, want []lease.InstanceID
		for turn := 1; ; turn++ {
			i, ok := p.Claimant(k, turn)
			if !ok {
				break
			}
			assert.Equal(t, turn, p.TurnOf(k, i))
			rest = append(rest, i)
		}
		for _, n := range ns {
			if id(n) != first {
				want = append(want, id(n))
			}
		}
		lease.Rank(keyBytes(k), want)
		assert.Equal(t, want, rest)
	}
}

func TestSuccessorIsWhoIsFurthestBelowItsShare(t *testing.T) {
	g := newGroup()
	for _, n := range names(4) {
		g.join(n, n, topics(8, "t"))
	}
	g.claim("m0", key("t", 0), key("t", 1))
	g.claim("m1", key("t", 2), key("t", 3))
	g.claim("m2", key("t", 4), key("t", 5))
	g.claim("m3", key("t", 6))
	p := Compute(g.World)
	assert.Equal(t, id("m3"), p.Successor(key("t", 0), id("m0"), nil))
	next := p.Successor(key("t", 0), id("m0"), func(i lease.InstanceID) bool { return i == id("m3") })
	ids := []lease.InstanceID{id("m1"), id("m2")}
	lease.Rank(keyBytes(key("t", 0)), ids)
	assert.Equal(t, ids[0], next, "ties by rendezvous of the key")
	assert.Zero(t, p.Successor(key("t", 0), id("m0"), func(lease.InstanceID) bool { return true }))
}

func TestWhoIsFullMayNotClaim(t *testing.T) {
	g := newGroup()
	g.join("a", "a", atMost(1, topics(3, "t")))
	g.join("b", "b", topics(3, "t"))
	g.claim("a", key("t", 0))
	p := Compute(g.World)
	assert.Equal(t, -1, p.TurnOf(key("t", 1), id("a")))
	assert.Equal(t, 0, p.TurnOf(key("t", 1), id("b")))
	assert.Zero(t, p.Successor(key("t", 1), id("b"), nil))
}

func TestTheUnfitComeLastForEveryKey(t *testing.T) {
	g := newGroup()
	g.join("a", "a", topics(12, "t"))
	g.join("b", "b", topics(12, "t"))
	for part := range int32(12) {
		g.claim("a", key("t", part))
		g.release("a", lease.InstanceID{}, true, key("t", part))
	}
	p := Compute(g.World)
	for part := range int32(12) {
		assert.Equal(t, 0, p.TurnOf(key("t", part), id("b")))
		assert.Equal(t, 1, p.TurnOf(key("t", part), id("a")))
		assert.Empty(t, p.Greedy(id("b")))
	}
}

func TestAKeyOverTheMaximumStaysWhereAnotherIsToGo(t *testing.T) {
	g := newGroup()
	g.join("a", "a", topics(2, "t", "u"))
	g.claim("a", key("t", 0))
	g.claim("a", key("u", 0))
	g.claim("a", key("t", 1))
	only := atMost(2, lease.Interest{Topics: []lease.TopicInterest{{Topic: "t", Partitions: 2}, {Topic: "u", Partitions: 1}}})
	g.join("a", "a", only)
	g.join("b", "b", topics(1, "u"))
	p := Compute(g.World)
	assert.Equal(t, []lease.Key{key("t", 1)}, p.Overflow(id("a")))
	assert.Equal(t, []Move{{Key: key("u", 0), From: id("a"), To: id("b")}}, p.Moves(), "nobody else wants the other topic")
	g.carryOut(p.Moves()[0])
	p = Compute(g.World)
	assert.Empty(t, p.Overflow(id("a")))
	assert.Empty(t, p.Moves())
}
