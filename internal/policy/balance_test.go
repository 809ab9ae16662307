package policy

import (
	"testing"

	"github.com/stretchr/testify/assert"
)

func TestSharesAreEven(t *testing.T) {
	g, ns := newGroup(), names(3)
	for _, n := range ns {
		g.join(n, n, topics(4, "a", "b"))
	}
	g.settle(ns)
	assert.ElementsMatch(t, []int{3, 3, 2}, g.counts(ns))
	ns = append(ns, "new")
	g.join("new", "new", topics(4, "a", "b"))
	assert.Equal(t, 2, g.settle(ns))
	assert.Equal(t, []int{2, 2, 2, 2}, g.counts(ns))
}
