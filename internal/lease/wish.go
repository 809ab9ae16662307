package lease

import "slices"

// wish is what one or more of the alive want. The members of a group mostly want the same, so it is kept once; it is never
// changed.
type wish struct {
	interests []Interest
	times     int // how many want it
}

// own gives the world's copy of what a Join wants; disown is to follow. Topic names are those of the world.
func (w *World) own(interests []Interest) []Interest {
	if len(interests) == 0 {
		return nil
	}
	h := hashInterests(interests)
	known := w.wishes[h]
	if known != nil && slices.EqualFunc(known.interests, interests, Interest.equal) {
		known.times++
		return known.interests
	}
	copied := w.copyInterests(interests)
	if known == nil { // else two that differ have one hash, and the later one is not shared
		w.wishes[h] = &wish{copied, 1}
	}
	return copied
}

// disown says that one less wants what own gave.
func (w *World) disown(owned []Interest) {
	if len(owned) == 0 {
		return
	}
	h := hashInterests(owned)
	if known := w.wishes[h]; known != nil && &known.interests[0] == &owned[0] {
		if known.times--; known.times == 0 {
			delete(w.wishes, h)
		}
	}
}

func (i Interest) equal(o Interest) bool {
	return i.Whole == o.Whole && i.Max == o.Max && i.Weight == o.Weight && i.Greedy == o.Greedy && slices.Equal(i.Topics, o.Topics)
}

func (w *World) copyInterests(from []Interest) []Interest {
	to := slices.Clone(from)
	for i := range to {
		to[i].Topics = slices.Clone(to[i].Topics)
		for n := range to[i].Topics {
			to[i].Topics[n].Topic = w.topics.find(to[i].Topics[n].Topic).name
		}
	}
	return to
}
