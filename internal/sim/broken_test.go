//go:build marshalbreak

package sim

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/kafka-marshal/marshal/internal/rule"
)

// TestEveryBrokenRuleIsCaught breaks one rule after the other: a simulation that does not notice proves nothing.
func TestEveryBrokenRuleIsCaught(t *testing.T) {
	t.Cleanup(func() { rule.Break(rule.None) })
	for _, r := range rule.All() {
		rule.Break(r)
		caught := ""
		for first := uint64(1); first < 3000 && caught == ""; first += 50 {
			for _, res := range runSeeds(first, 50, r) {
				if res.Violation != nil {
					caught = res.Violation.Invariant
					t.Logf("%s: schedule %s, %s", r, res.Schedule, res.Violation)
					break
				}
			}
		}
		assert.NotEmpty(t, caught, "rule %s is broken and nobody noticed", r)
	}
}
