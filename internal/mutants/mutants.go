// Package mutants says which net must catch the breaking of which rule. A net that misses a mutant that it is named for proves
// less than it claims.
//
// The nets: the explorer (internal/sim/explore) and the simulator (internal/sim) run the shipped members with the rule broken
// until an invariant of PROTOCOL.md §9 fails; the fuzz (internal/lease) applies random logs and holds each world against a model
// that shares nothing with it, and against the invariants; a script is a test of one package that plays the case. Command list
// runs them all.
package mutants

import (
	"slices"

	"github.com/kafka-marshal/marshal/internal/rule"
)

// Net is one way of finding out that a rule does not hold.
type Net uint8

// The nets.
const (
	Explorer Net = iota + 1
	Simulator
	Fuzz
	Script
)

var names = [...]string{Explorer: "explorer", Simulator: "simulator", Fuzz: "fuzz", Script: "script"}

func (n Net) String() string { return names[n] }

// Mutant is a broken rule and the nets that must catch it.
type Mutant struct {
	Rule   rule.Rule
	Nets   []Net
	Config string // the explorer's configuration in which it is caught, where Explorer is among the nets
	Script string // the folder of the test TestBrokenRules that plays it, where Script is among the nets
}

func by(r rule.Rule, nets ...Net) Mutant { return Mutant{Rule: r, Nets: nets} }

// explored adds the explorer to the nets.
func (m Mutant) explored(config string) Mutant {
	m.Nets, m.Config = append([]Net{Explorer}, m.Nets...), config
	return m
}

// inScript adds the script of a package to the nets.
func (m Mutant) inScript(folder string) Mutant {
	m.Nets, m.Script = append(m.Nets, Script), folder
	return m
}

// List gives every mutant.
func List() []Mutant {
	return []Mutant{
		by(rule.Timestamps, Simulator),
		by(rule.EvictEarly, Simulator).explored("three"),
		by(rule.Started, Simulator).explored("unread"),
		by(rule.Attempt, Simulator),
		by(rule.NoMargin, Simulator).explored("drift"),
		by(rule.ReleaseGate, Simulator).explored("leave"),
		by(rule.Trust, Simulator).explored("crash"),
		by(rule.BaseWait, Simulator).explored("base"),
		by(rule.Epoch, Simulator, Fuzz).explored("pens"),
		by(rule.Holder, Simulator, Fuzz).explored("pens"),
		by(rule.CAS, Simulator, Fuzz).explored("crash"),
		by(rule.Seq, Simulator, Fuzz).explored("pens"),
		by(rule.FirstJoin, Simulator, Fuzz),
		by(rule.JoinAfterEnd, Simulator, Fuzz),
		by(rule.LiveNamesake, Simulator, Fuzz).explored("pens"),
		by(rule.TakeoverClient, Simulator, Fuzz).explored("pens"),
		by(rule.Successor, Simulator, Fuzz).explored("pens"),
		by(rule.ReleaseEpoch, Fuzz),
		by(rule.BaseSeen, Simulator, Fuzz).explored("pens"),
		by(rule.ReleaseLowers, Fuzz),
		by(rule.AtomicBefore, Fuzz).explored("pens"),
		by(rule.TopicConflict, Simulator, Fuzz).explored("pens"),
		by(rule.EndedMemory, Simulator, Fuzz).explored("pens"),
		by(rule.BaseForgets, Simulator, Fuzz),
		by(rule.LogLive, Simulator),
		by(rule.Reconcile, Simulator),
		by(rule.TTLOnce, Simulator, Fuzz).explored("pens"),
		by(rule.TokenOnce, Fuzz).inScript("internal/lease"),
		by(rule.TakeoverOrder, Simulator, Fuzz).inScript("internal/member"),
		by(rule.OpenGap, Simulator).inScript("internal/member"),
		// Not of the first list, and as dear:
		by(rule.ParkedClient, Simulator, Fuzz),
		by(rule.Gate, Simulator),
		by(rule.Margin, Simulator).explored("crash"),
		by(rule.OwnTTL, Simulator),
	}
}

// For gives the rules whose breaking a net must catch.
func For(n Net) []rule.Rule {
	var rules []rule.Rule
	for _, m := range List() {
		if slices.Contains(m.Nets, n) {
			rules = append(rules, m.Rule)
		}
	}
	return rules
}
