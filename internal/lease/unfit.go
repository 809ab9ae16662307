package lease

import (
	"cmp"
	"slices"
)

// mark says that an instance gave a key up as unfit for it.
func (a *application) mark(in *instance, s *slot) {
	i, found := slices.BinarySearchFunc(a.w.marks[s], in.FirstJoin, func(o *instance, at int64) int { return cmp.Compare(o.FirstJoin, at) })
	if found {
		return
	}
	if a.w.marked >= MaxMarks {
		a.skipped(s.key(), TooMany)
		return
	}
	a.w.addMark(in, s, i)
	a.keyEvent(Marked, in.ID, s.key(), NoEpoch)
}

func (w *World) addMark(in *instance, s *slot, at int) {
	w.marks[s] = slices.Insert(w.marks[s], at, in)
	in.marks = append(in.marks, s)
	w.marked++
	w.planSum += markSum(s, in)
}

// unmark takes all marks of an instance away.
func (a *application) unmark(in *instance) {
	w := a.w
	slices.SortFunc(in.marks, compareSlots)
	for _, s := range in.marks {
		if w.marks[s] = slices.DeleteFunc(w.marks[s], func(o *instance) bool { return o == in }); len(w.marks[s]) == 0 {
			delete(w.marks, s)
		}
		w.marked--
		w.planSum -= markSum(s, in)
		a.keyEvent(Unmarked, in.ID, s.key(), NoEpoch)
	}
	in.marks = nil
}
