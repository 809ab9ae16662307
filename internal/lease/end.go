package lease

import (
	"cmp"
	"slices"
)

// leave ends its author, or parks it with its keys.
func (a *application) leave() {
	for i := range a.rec.Release.Keys {
		k := &a.rec.Release.Keys[i]
		if s := a.ownSlot(k.Key, k.Epoch); s != nil {
			a.finalOffsets(s, k)
		}
	}
	in := a.author
	if !a.rec.Leave.Keep {
		a.event(Left, in.ID)
		a.end(in)
		return
	}
	a.w.retire(in)
	in.Status = IsParked
	in.TTL = max(in.TTL, min(a.rec.Leave.Grace, MaxGrace))
	a.w.sumInstance(in)
	a.w.sumRenewal(in)
	a.event(Parked, in.ID)
}

// retire takes an instance out of all that only the alive have a part in.
func (w *World) retire(in *instance) {
	if in.Status != Alive {
		return
	}
	w.state(in.Interests, -1)
	w.disown(in.Interests)
	w.joins -= in.size
	w.versions[in.MaxVersion]--
	in.Interests, in.Pinned, in.Load, in.size = nil, nil, Load{}, 0
	namesakes := slices.DeleteFunc(w.clients[in.Client], func(o *instance) bool { return o == in })
	if w.clients[in.Client] = namesakes; len(namesakes) == 0 {
		delete(w.clients, in.Client)
	}
	replaceSum(&w.quietSum, &in.quietSum, 0)
	w.sumQuiet(in.Client)
}

// end takes an instance that holds nothing any more, or whose leases are free now, out of the world, all but its name.
func (a *application) end(in *instance) {
	w := a.w
	for _, s := range in.held.ordered() {
		e := a.keyEvent(Released, in.ID, s.key(), s.epoch)
		if in != a.author {
			e.By = a.author.ID
		}
	}
	w.freeAll(in)
	in.held = heldList{}
	a.unmark(in)
	w.retire(in)
	i, _ := slices.BinarySearchFunc(w.present, in.FirstJoin, func(o *instance, at int64) int { return cmp.Compare(o.FirstJoin, at) })
	w.present = slices.Delete(w.present, i, i+1)
	in.Instance = Instance{ID: in.ID, Client: in.Client, Status: Ended, FirstJoin: in.FirstJoin, EndedAt: a.rec.Offset}
	w.sumEnded(in)
	w.ended = append(w.ended, in)
}

// forget drops the memory of those who ended too long ago.
func (w *World) forget() {
	n := 0
	for n < len(w.ended) && w.last-w.ended[n].EndedAt > EndedMemory {
		in := w.ended[n]
		replaceSum(&w.restSum, &in.restSum, 0)
		delete(w.instances, in.ID)
		w.ended[n] = nil
		n++
	}
	w.ended = w.ended[n:]
}
