package lease

import (
	"cmp"
	"slices"
)

// mark says that an instance gave a key up as unfit for it.
func (a *application) mark(in *instance, s *slot) {
	i, found := slices.BinarySearchFunc(s.marks, in.FirstJoin, func(o *instance, at int64) int { return cmp.Compare(o.FirstJoin, at) })
	if found {
		return
	}
	if a.w.marks >= MaxMarks {
		a.skipped(s.key(), TooMany)
		return
	}
	a.w.addMark(in, s, i)
	a.keyEvent(Marked, in.ID, s.key(), NoEpoch)
}

func (w *World) addMark(in *instance, s *slot, at int) {
	s.marks = slices.Insert(s.marks, at, in)
	in.marks = append(in.marks, s)
	w.marks++
	w.planSum += markSum(s, in)
}

// unmark takes all marks of an instance away.
func (a *application) unmark(in *instance) {
	slices.SortFunc(in.marks, compareSlots)
	for _, s := range in.marks {
		s.marks = slices.DeleteFunc(s.marks, func(o *instance) bool { return o == in })
		a.w.marks--
		a.w.planSum -= markSum(s, in)
		a.keyEvent(Unmarked, in.ID, s.key(), NoEpoch)
	}
	in.marks = nil
}
