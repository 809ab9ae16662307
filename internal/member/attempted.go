//go:build marshalbreak

package member

import "github.com/kafka-marshal/marshal/internal/rule"

// Attempted says that the writing of our record with this seq is attempted once more. A member for use need not hear of that: a
// retry keeps the start of the first attempt.
func (m *Member) Attempted(seq uint64, now Now) {
	if rule.Broken(rule.Attempt) && m.stage != over {
		m.clocks(now)
		m.restart(seq, now)
	}
}
