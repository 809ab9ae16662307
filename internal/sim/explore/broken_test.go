//go:build marshalbreak

package explore

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/rule"
)

// A counterexample is one by itself: its script, run again without anything that the search has interned, comes to the same.
func TestTheScriptOfABrokenRuleIsOneByItself(t *testing.T) {
	t.Cleanup(func() { rule.Break(rule.None) })
	for r, config := range map[rule.Rule]string{rule.EvictEarly: "three", rule.BaseWait: "base", rule.ReleaseGate: "leave", rule.Started: "unread"} {
		rule.Break(r)
		found, err := Search(Named(config), Options{States: 300_000})
		require.NoError(t, err)
		require.NotEmpty(t, found.Violation, "rule %s is broken and nobody noticed", r)
		again, err := Replay(Named(config), found.Script, nil)
		require.NoError(t, err)
		assert.Equal(t, found.Violation, again, "%s:\n%s", r, found.Script)
		rule.Break(rule.None)
		if again, err = Replay(Named(config), found.Script, nil); err == nil {
			assert.Empty(t, again, "%s is whole:\n%s", r, found.Script)
		} // else the script has no meaning where the rule holds: what it appends was never written
	}
}
