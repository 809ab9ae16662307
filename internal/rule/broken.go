//go:build marshalbreak

package rule

// Breakable tells whether this build can break rules.
const Breakable = true

var broken Rule

// Broken tells whether r is the rule that this simulation breaks.
func Broken(r Rule) bool { return r == broken }

// Break breaks one rule, for the whole process, from now on.
func Break(r Rule) { broken = r }
