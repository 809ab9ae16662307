//go:build marshalbreak

package sim

import (
	"testing"

	"github.com/kafka-marshal/marshal/internal/mutants"
	"github.com/kafka-marshal/marshal/internal/rule"
)

// TestEveryBrokenRuleIsCaught breaks one rule after the other: a simulation that does not notice proves nothing.
func TestEveryBrokenRuleIsCaught(t *testing.T) {
	for _, r := range mutants.For(mutants.Simulator) {
		t.Run(r.String(), func(t *testing.T) {
			t.Cleanup(func() { rule.Break(rule.None) })
			rule.Break(r)
			for first := uint64(1); first < 3000; first += 10 {
				for _, res := range runSeeds(first, 10, r) {
					if res.Violation != nil {
						t.Logf("caught by %s at schedule %s\n%s", res.Violation.Invariant, res.Schedule, res.Violation)
						return
					}
				}
			}
			t.Error("nobody noticed")
		})
	}
}
