// Package window knows of one partition which offsets were handed out, which are finished, and the lowest that is not.
package window

// Window is not safe for concurrent use. All operations are O(1) amortised; memory is bounded by its limit.
type Window struct{}

// New makes a window whose position is pos and that takes at most limit offsets at or above the position.
func New(pos int64, limit int) *Window { panic("todo") }

// Add notes that offset was handed out; offsets rise. It gives false, and notes nothing, when the window is full or the
// offset is below one noted before.
func (w *Window) Add(offset int64) bool { panic("todo") }

// Done notes that offset is finished. It gives false when it was never handed out or was finished before (idempotent).
func (w *Window) Done(offset int64) bool { panic("todo") }

// Skip says that nothing below next is still to come (holes, control records): when all that was handed out is finished,
// the position moves up to it.
func (w *Window) Skip(next int64) { panic("todo") }

// Position is the lowest offset that is not finished: the next offset to read.
func (w *Window) Position() int64 { panic("todo") }

// Len counts offsets handed out at or above the position, finished ones behind a hole too.
func (w *Window) Len() int { panic("todo") }

// Pending counts offsets handed out and not finished.
func (w *Window) Pending() int { panic("todo") }

// Full tells whether Add would refuse for want of room.
func (w *Window) Full() bool { panic("todo") }

// Room is how many more Add takes.
func (w *Window) Room() int { panic("todo") }
