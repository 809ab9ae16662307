package policy

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

func TestATurnIsFoundWithoutTheWholeOrder(t *testing.T) {
	g, ns := newGroup(), names(12)
	for i, n := range ns {
		g.join(n, fmt.Sprintf("client-%d", i%9), topics(8, "t")) // some are namesakes, and attract nothing yet
	}
	g.joinPinned("pins", "pins", []lease.Key{key("t", 0), key("t", 1), key("u", 9)}, topics(8, "t"))
	g.joinPinned("pins too", "pins too", []lease.Key{key("t", 0)})
	g.join("full", "full", lease.Interest{Topics: topics(8, "t").Topics, Max: 1})
	g.claim("full", key("t", 7))
	for _, n := range ns[:3] {
		g.claim(n, key("t", 2))
		g.release(n, lease.InstanceID{}, true, key("t", 2))
	}
	p := Compute(g.World)
	require.Len(t, p.Free(), 8)
	later := 0
	for i := range p.free {
		f := &p.free[i]
		order := p.order(f)
		for _, n := range append(ns, "pins", "pins too", "full", "nobody") {
			turn := slices.Index(order, id(n))
			assert.Equal(t, turn, p.TurnOf(f.key, id(n)))
			for limit := 1; limit <= len(order); limit++ {
				require.Equal(t, min(turn, limit), p.TurnWithin(f.key, id(n), limit), "%v, %s, %d", f.key, n, limit)
			}
			if turn > 0 {
				later++
			}
		}
	}
	assert.Greater(t, later, 80)
	for _, n := range append(ns, "pins", "pins too", "full", "nobody") {
		var first []lease.Key
		for _, k := range p.Free() {
			if p.TurnOf(k, id(n)) == 0 {
				first = append(first, k)
			}
		}
		assert.Equal(t, first, p.Planned(id(n)), "what it is the first in turn for")
	}
	for i := range p.free {
		f := &p.free[i]
		order := p.order(f)
		for turn, want := range order {
			got, ok := p.Claimant(f.key, turn)
			assert.True(t, ok)
			assert.Equal(t, want, got)
		}
		for _, turn := range []int{-1, len(order)} {
			_, ok := p.Claimant(f.key, turn)
			assert.False(t, ok)
		}
	}
	_, ok := p.Claimant(key("t", 7), 0)
	assert.False(t, ok, "it is not free")
	assert.Equal(t, -1, p.TurnWithin(key("t", 7), id("m0"), 5), "it is not free")
}

func TestWhoClaimsByHandComesFirstThenWhomThePlanNamesAndTheUnfitLast(t *testing.T) {
	g := newGroup()
	in := topics(1, "t")
	g.join("ordinary", "one", in)
	g.join("named", "named", in)
	g.claim("ordinary", key("t", 0))
	g.release("ordinary", lease.InstanceID{}, true, key("t", 0))
	g.join("next", "one", in)
	g.joinPinned("hand", "hand", []lease.Key{key("t", 0)})
	g.join("stranger", "stranger", topics(1, "u"))
	g.join("full", "full", atMost(1, topics(1, "t", "v")))
	g.claim("full", key("v", 0))
	p := Compute(g.World)
	f := p.findFree(key("t", 0))
	for n, want := range map[string]int{"hand": byHand, "ordinary": unfit, "named": ordinary, "next": last, "stranger": excluded, "full": excluded} {
		assert.Equal(t, want, p.class(f, p.index[id(n)]), n)
	}
	order := []lease.InstanceID{id("hand"), id("named"), id("next"), id("ordinary")}
	assert.Equal(t, order, p.order(f))
	for turn, i := range order {
		assert.Equal(t, turn, p.TurnOf(f.key, i))
	}
	f.to, f.pinned = p.index[id("named")], false
	assert.Equal(t, named, p.class(f, f.to))
	assert.Equal(t, excluded, p.class(f, p.index[id("hand")]), "where nobody's pins count its own do not")
	only := freeKey{key: key("t", 0), pool: -1, to: -1, pinned: true}
	assert.Equal(t, excluded, p.class(&only, p.index[id("named")]))
	assert.Equal(t, byHand, p.class(&only, p.index[id("hand")]))
	assert.Equal(t, []byte("t\x00\x00\x00\x01\x02"), keyBytes(key("t", 258)))
}

func TestTheSuccessorIsThePlansChoiceForTheHolderAlone(t *testing.T) {
	g := newGroup()
	for _, n := range []string{"a", "b", "c", "d"} {
		g.join(n, n, topics(8, "t"))
	}
	for part := range int32(8) {
		g.claim("d", key("t", part))
	}
	p := Compute(g.World)
	k := key("t", 7)
	m, ok := p.findMove(k)
	require.True(t, ok)
	assert.Equal(t, id("c"), m.To, "the last in order has the last key")
	assert.Equal(t, m.To, p.Successor(k, id("d"), nil))
	others := []lease.InstanceID{id("a"), id("b")}
	lease.Rank(keyBytes(k), others)
	assert.Equal(t, others[0], p.Successor(k, id("d"), func(i lease.InstanceID) bool { return i == m.To }))
	all := append(others, id("c"))
	lease.Rank(keyBytes(k), all)
	assert.Equal(t, all[0], p.Successor(k, id("stranger"), nil), "who does not hold it is told who is best")
	for _, holder := range all {
		rest := slices.DeleteFunc(slices.Clone(all), func(i lease.InstanceID) bool { return i == holder })
		assert.Equal(t, rest[0], p.Successor(k, holder, nil), "and is not that itself")
	}
	assert.Equal(t, all[0], p.Successor(k, id("stranger"), func(lease.InstanceID) bool { return false }))
	for _, n := range []string{"b", "c", "d"} {
		g.leave(n, false)
	}
	p = Compute(g.World)
	assert.Equal(t, id("a"), p.Successor(k, id("stranger"), nil), "the first member too")
	assert.Zero(t, p.Successor(k, id("a"), nil))
	assert.Zero(t, p.Successor(key("x", 0), id("b"), nil), "nobody wants it")
}

func TestAGreedySuccessorIsTheLastResort(t *testing.T) {
	g := newGroup()
	g.join("greedy", "greedy", greedy(topics(4, "t")))
	g.join("busy", "busy", topics(4, "t", "u"))
	g.join("holder", "holder", topics(4, "t"))
	g.claim("holder", key("t", 0))
	g.claim("busy", key("u", 0), key("u", 1), key("u", 2), key("u", 3), key("t", 1), key("t", 2), key("t", 3))
	p := Compute(g.World)
	assert.Equal(t, id("busy"), p.Successor(key("t", 0), id("holder"), nil), "however much it has")
	assert.Equal(t, id("greedy"), p.Successor(key("t", 0), id("holder"), func(i lease.InstanceID) bool { return i == id("busy") }))
}

func TestGreedyInterestsOfOneInstanceKeepToTheirTopics(t *testing.T) {
	g := newGroup()
	g.joinPinned("a", "a", []lease.Key{key("t", 1), key("x", 3)}, greedy(topics(3, "u")), topics(2, "s"), greedy(atMost(2, topics(4, "t"))))
	g.join("b", "b", topics(3, "u", "t"))
	g.claim("a", key("u", 1))
	g.release("a", lease.InstanceID{}, true, key("u", 1))
	keys := Compute(g.World).Greedy(id("a"))
	require.Len(t, keys, 4, "not what is claimed by hand, nor what it is unfit for")
	assert.True(t, slices.IsSortedFunc(keys, compareKeys))
	assert.Equal(t, []lease.Key{key("u", 0), key("u", 2)}, keys[2:])
	for _, k := range keys[:2] {
		assert.Equal(t, "t", k.Topic)
		assert.NotEqual(t, int32(1), k.Partition)
	}
	assert.Empty(t, Compute(g.World).Greedy(id("b")))
	assert.Empty(t, Compute(g.World).Greedy(id("nobody")))
}

func TestWhatIsFreeIsFoundBehindATopicOfWhichNothingIsHeld(t *testing.T) {
	g := newGroup()
	g.join("full", "full", lease.Interest{Topics: append(topics(3, "t").Topics, topics(2, "u").Topics...), Max: 1})
	g.claim("full", key("u", 1))
	g.join("roomy", "roomy", topics(2, "u"))
	p := Compute(g.World)
	assert.Equal(t, []lease.Key{key("u", 0)}, p.Free(), "nobody has room for what is free of the topic before")
	assert.Equal(t, []lease.Key{key("u", 0)}, p.Planned(id("roomy")))

	g.join("all", "all", topics(3, "t"), topics(2, "u"))
	assert.Equal(t, []lease.Key{key("t", 0), key("t", 1), key("t", 2), key("u", 0)}, Compute(g.World).Free())
}
