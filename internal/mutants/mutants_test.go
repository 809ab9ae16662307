package mutants

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/rule"
)

func TestEveryRuleHasItsNets(t *testing.T) {
	listed := map[rule.Rule]int{}
	for _, m := range List() {
		listed[m.Rule]++
		assert.NotEmpty(t, m.Nets, "%s", m.Rule)
	}
	for _, r := range rule.All() {
		assert.Equal(t, 1, listed[r], "%s", r)
		found, ok := rule.Parse(r.String())
		assert.True(t, ok && found == r, "the name %q stands for one rule", r)
	}
	assert.Len(t, listed, len(rule.All()))
}

// TestTheProtocolNamesTheNetsOfEachRule reads the rows of PROTOCOL.md that say which net notices what.
func TestTheProtocolNamesTheNetsOfEachRule(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "PROTOCOL.md"))
	require.NoError(t, err)
	rows := map[string]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `BREAK=([a-z]+)` \\|.*\\|([^|]*)\\|$").FindAllStringSubmatch(string(page), -1) {
		rows[m[1]] = m[2]
	}
	says := map[Net]string{Explorer: "explorer ", Simulator: "sim ", Fuzz: "`lease: TestBrokenByFuzz`", Script: ": TestBrokenRules`"}
	for _, m := range List() {
		row, ok := rows[m.Rule.String()]
		if !assert.True(t, ok, "%s has no row", m.Rule) {
			continue
		}
		nets := map[Net]bool{}
		for _, n := range m.Nets {
			nets[n] = true
		}
		for n, text := range says {
			assert.Equal(t, nets[n], strings.Contains(row, text), "%s: %s", m.Rule, n)
		}
		if m.Script != "" {
			assert.Contains(t, row, "`"+filepath.Base(m.Script)+says[Script], "%s", m.Rule)
		}
	}
	assert.Len(t, rows, len(List()))
}
