package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

func atRoot(t *testing.T) { t.Chdir(filepath.Join("..", "..", "..")) }

func TestACaughtMutantIsARowAndExitsWith0(t *testing.T) {
	atRoot(t)
	var out strings.Builder
	assert.Equal(t, 0, run([]string{"-break", "opengap", "-net", "script"}, &out), out.String())
	assert.Regexp(t, `(?m)^opengap +script +the script +1 log +\d+\.\d$`, out.String())
	assert.Contains(t, out.String(), "\nmutants: rules=1 nets=1 caught=1 missed=0 took=")
}

func TestAMissedMutantIsToldAndExitsWith1(t *testing.T) {
	atRoot(t)
	var out strings.Builder
	assert.Equal(t, 1, run([]string{"-break", "attempt", "-seeds", "1"}, &out), out.String())
	assert.Regexp(t, `(?m)^attempt +simulator +missed `, out.String())
	assert.Contains(t, out.String(), "mutants: simulator misses attempt:\n")
	assert.Contains(t, out.String(), "\nmutants: rules=1 nets=1 caught=0 missed=1 took=")
}

func TestAnUnknownRuleExitsWith2(t *testing.T) {
	var out strings.Builder
	assert.Equal(t, 2, run([]string{"-break", "gravity"}, &out))
	assert.Contains(t, out.String(), `no rule is called "gravity"`)
}
