package lease

import (
	"cmp"
	"slices"
	"strings"
)

// declare takes what a Join says into the world and gives its author, a new instance if in is nil. It gives nil, and
// changes nothing, where that would go over a limit.
func (a *application) declare(in *instance) *instance {
	w, j := a.w, &a.rec.Join
	client, host := j.Client, j.Host
	var old []Interest
	var oldSize int
	if in != nil {
		client, host, old, oldSize = in.Client, in.Host, in.Interests, in.size
	}
	size := joinSize(client, host, j.Interests, j.Pinned)
	if len(client) > MaxLabel || len(host) > MaxLabel || size > MaxJoinSize || w.joins-oldSize+size > MaxJoinsSize ||
		in == nil && len(w.present) >= MaxInstances || !w.restate(old, j.Interests) {
		return nil
	}
	w.joins += size - oldSize
	if in == nil {
		in = w.create(a.rec)
	}
	in.size = size
	in.Interests, in.Pinned = w.copyInterests(j.Interests), w.copyKeys(j.Pinned)
	w.sumInstance(in)
	return in
}

func (w *World) create(rec *Record) *instance {
	j := &rec.Join
	in := &instance{
		Instance: Instance{
			ID: rec.Instance, Client: strings.Clone(j.Client), Host: strings.Clone(j.Host),
			TTL: min(max(j.TTL, MinTTL), MaxTTL), MaxVersion: j.MaxVersion, Status: Alive, FirstJoin: rec.Offset, Renewed: rec.Offset,
		},
	}
	if w.tokenBase == 0 {
		w.tokenBase = j.TokenBase
	}
	w.admit(in)
	return in
}

// admit puts an instance that is alive or parked into the indices.
func (w *World) admit(in *instance) {
	in.hash = hashID(in.ID)
	in.held.which = ofOwner
	w.instances[in.ID] = in
	w.present = append(w.present, in)
	if in.Status == Alive {
		w.versions[in.MaxVersion]++
		w.clients[in.Client] = append(w.clients[in.Client], in)
		w.sumQuiet(in.Client)
	}
}

// copyInterests copies what a Join wants; topic names are those of the world.
func (w *World) copyInterests(from []Interest) []Interest {
	to := slices.Clone(from)
	for i := range to {
		to[i].Topics = slices.Clone(to[i].Topics)
		for n := range to[i].Topics {
			to[i].Topics[n].Topic = w.topics[to[i].Topics[n].Topic].name
		}
	}
	return to
}

func (w *World) copyKeys(from []Key) []Key {
	to := slices.Clone(from)
	for i := range to {
		if t := w.topics[to[i].Topic]; t != nil {
			to[i].Topic = t.name
		} else {
			to[i].Topic = strings.Clone(to[i].Topic)
		}
	}
	return to
}

func (a *application) join(first bool) {
	if first {
		a.event(Joined, a.author.ID)
		return
	}
	a.event(Interested, a.author.ID)
	a.unmark(a.author)
}

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
	for held := &in.held; len(held.slots) > 0; {
		w.free(held.slots[len(held.slots)-1])
	}
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

// sumQuiet brings up to date, for the alive instances of one client id, which of them have not been heard of since a
// namesake joined: a plan gives nothing to that namesake (PROTOCOL.md §6 "Balance"), until the older one is heard of.
func (w *World) sumQuiet(client string) {
	namesakes := w.clients[client]
	for _, in := range namesakes {
		var sum uint64
		if namesakes[len(namesakes)-1].FirstJoin > in.Renewed {
			sum = finish(mix(mix(tagQuiet, in.hash), uint64(in.Renewed))) | 1
		}
		replaceSum(&w.quietSum, &in.quietSum, sum)
	}
}

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
