// Package window knows of one partition which offsets were handed out, which are finished, and the lowest that is not.
//
// Applications finish messages in any order, but a consumer's position is one number. Window is what lies between: the
// position moves over the finished prefix and never passes a message that is still in hand.
package window

import "math"

// Window is not safe for concurrent use. All operations but Done are O(1) amortised. Done is O(1) where offsets are
// dense, and a binary search between the two places where the offset could be at most where they are not (compaction,
// control records). Memory is 8 bytes an offset, for what is used, not for the limit.
type Window struct {
	ring  []int64 // offsets in rising order from head to tail; a finished one is stored as its complement. Length: 0 or a power of two
	head  uint    // counts offsets that left the ring, tail those that entered; both wrap, their difference is the length
	tail  uint
	limit int

	next    int64 // nothing below it is still to come; the position when the ring is empty
	pending int

	emptied uint // tail when the ring was last empty
	quiet   int  // how often in a row it became empty again without using a quarter of its room
}

const (
	smallest = 16 // least length of a ring: two cache lines
	patience = 64 // quiet rounds before the ring is halved, so that neither bursts nor steady use allocate
)

// New makes a window whose position is pos and that takes at most limit offsets at or above the position.
func New(pos int64, limit int) *Window {
	return &Window{next: max(pos, 0), limit: max(limit, 0)}
}

// Add notes that offset was handed out; offsets rise. It gives false, and notes nothing, when the window is full or the
// offset is not above all noted before, or below what Skip said. The largest int64 is refused too: no position lies
// behind it.
func (w *Window) Add(offset int64) bool {
	if offset < w.next || offset == math.MaxInt64 || w.Full() {
		return false
	}
	if w.Len() == len(w.ring) {
		w.resize(max(smallest, 2*len(w.ring)))
	}
	*w.at(w.tail) = offset
	w.tail++
	w.pending++
	w.next = offset + 1
	return true
}

// Done notes that offset is finished. It gives false when it was never handed out or was finished before (idempotent).
func (w *Window) Done(offset int64) bool {
	e := w.find(offset)
	if e == nil {
		return false
	}
	*e = ^offset
	w.pending--
	for w.head != w.tail && *w.at(w.head) < 0 {
		w.head++
	}
	if w.head == w.tail {
		w.settle()
	}
	return true
}

// DoneBelow notes that everything below next is finished, handed out or not: nothing below it is still to come.
func (w *Window) DoneBelow(next int64) {
	w.Skip(next)
	if w.head == w.tail {
		return
	}
	for w.head != w.tail {
		e := *w.at(w.head)
		if e >= 0 {
			if e >= next {
				return
			}
			w.pending--
		}
		w.head++
	}
	w.settle()
}

// Skip says that nothing below next is still to come (holes, control records): when all that was handed out is finished,
// the position moves up to it. It never moves back.
func (w *Window) Skip(next int64) {
	w.next = max(w.next, next)
}

// Position is the lowest offset that is not finished: the next offset to read. While messages are in hand it is the
// lowest of them, since offsets rise and nothing before it can come any more.
func (w *Window) Position() int64 {
	if w.head == w.tail {
		return w.next
	}
	return *w.at(w.head)
}

// Len counts offsets handed out at or above the position, finished ones behind a hole too.
func (w *Window) Len() int { return int(w.tail - w.head) }

// Pending counts offsets handed out and not finished.
func (w *Window) Pending() int { return w.pending }

// Full tells whether Add would refuse for want of room.
func (w *Window) Full() bool { return w.Len() >= w.limit }

// Room is how many more Add takes.
func (w *Window) Room() int { return w.limit - w.Len() }

// at is the place of the i-th offset that ever entered. The ring must not be nil.
func (w *Window) at(i uint) *int64 { return &w.ring[i&uint(len(w.ring)-1)] }

// find gives the place of an offset in hand, nil if there is none.
//
// Offsets rise by at least one from place to place, so an offset d above the lowest is at most d places behind it, and
// one d below the highest at most d places before it. Dense offsets are found at the first guess.
func (w *Window) find(offset int64) *int64 {
	if w.head == w.tail {
		return nil
	}
	n, low := int64(w.tail-w.head), *w.at(w.head)
	if offset < low {
		return nil
	}
	hi := min(n-1, offset-low)
	if e := w.at(w.head + uint(hi)); *e == offset {
		return e
	}
	high := value(*w.at(w.tail - 1))
	if offset > high {
		return nil
	}
	lo := max(0, n-1-(high-offset))
	for lo < hi {
		mid := (lo + hi) / 2
		if value(*w.at(w.head + uint(mid))) < offset {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if e := w.at(w.head + uint(lo)); *e == offset {
		return e
	}
	return nil
}

// value is the offset of a stored one, finished or not.
func value(e int64) int64 { return e ^ e>>63 }

// settle runs when the ring became empty. A ring that a burst made large is halved once it has long been too large.
func (w *Window) settle() {
	used := w.tail - w.emptied
	w.emptied = w.tail
	if len(w.ring) == smallest || used > uint(len(w.ring)/4) {
		w.quiet = 0
		return
	}
	if w.quiet++; w.quiet == patience {
		w.quiet = 0
		w.resize(len(w.ring) / 2)
	}
}

// resize moves the ring's content, which must fit, to one of n places.
func (w *Window) resize(n int) {
	old := *w
	w.ring = make([]int64, n)
	for i := w.head; i != w.tail; i++ {
		*w.at(i) = *old.at(i)
	}
}
