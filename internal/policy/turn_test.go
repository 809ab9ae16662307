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
	assert.Equal(t, -1, p.TurnWithin(key("t", 7), id("m0"), 5), "it is not free")
}
