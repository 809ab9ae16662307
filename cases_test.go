package marshal

import "time"

// The tests named TestC… follow, each, one way in which systems like this one have failed for real people: docs/failures.md lists
// them. What more than one file of them needs is here.

// soon waits for a line, and tells whether it came: for goroutines, which must not end the test.
func (l *lines) soon(level, part string) bool {
	again := time.NewTicker(10 * time.Millisecond)
	defer again.Stop()
	for begin := time.Now(); time.Since(begin) < patience; <-again.C {
		if l.has(level, part) {
			return true
		}
	}
	return false
}
