//go:build !marshalbreak

package rule

// Breakable tells whether this build can break rules.
const Breakable = false

// Broken tells whether r is broken: never, in a build for use.
func Broken(Rule) bool { return false }

// Break does nothing in a build for use.
func Break(Rule) {}
