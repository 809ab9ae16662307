package lease

import "slices"

// heldList is the set of what one instance holds. A change costs constant time; what is out of place is put in order when
// the list is walked, in one pass over it, so that who walks after every change pays for the walk and for no sorting.
type heldList struct {
	slots  []*slot // nil: a hole, where one was removed
	sorted int     // so many of the first are in order
	holes  int
}

func (l *heldList) len() int { return len(l.slots) - l.holes }

func (l *heldList) add(s *slot) {
	n := len(l.slots)
	if l.sorted == n && (n == 0 || compareSlots(l.slots[n-1], s) < 0) {
		l.sorted++
	}
	s.at = int32(n)
	l.slots = append(l.slots, s)
}

// remove leaves a hole, but none at the end.
func (l *heldList) remove(s *slot) {
	l.slots[s.at] = nil
	s.at = free
	l.holes++
	n := len(l.slots)
	for n > 0 && l.slots[n-1] == nil {
		n--
		l.holes--
	}
	l.slots, l.sorted = l.slots[:n], min(l.sorted, n)
}

// last gives one that is held; nil: there is none.
func (l *heldList) last() *slot {
	if len(l.slots) == 0 {
		return nil
	}
	return l.slots[len(l.slots)-1]
}

// ordered gives the slots in the order of topic and partition. The slice is valid until the list changes.
func (l *heldList) ordered() []*slot {
	if l.sorted == len(l.slots) && l.holes == 0 {
		return l.slots
	}
	late := slices.DeleteFunc(slices.Clone(l.slots[l.sorted:]), func(s *slot) bool { return s == nil })
	slices.SortFunc(late, compareSlots)
	early := slices.DeleteFunc(l.slots[:l.sorted], func(s *slot) bool { return s == nil })
	n := len(early) + len(late)
	clear(l.slots[n:])
	l.slots, l.sorted, l.holes = l.slots[:n], n, 0
	for to := n; to > 0; { // merge from the end, in place
		to--
		if e := len(early); e > 0 && (len(late) == 0 || compareSlots(early[e-1], late[len(late)-1]) > 0) {
			l.slots[to], early = early[e-1], early[:e-1]
		} else {
			l.slots[to], late = late[len(late)-1], late[:len(late)-1]
		}
	}
	for i, s := range l.slots {
		s.at = int32(i)
	}
	return l.slots
}
