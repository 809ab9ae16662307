package lease

import "github.com/kafka-marshal/marshal/internal/rule"

// assign gives a key to an instance. The caller has seen to it that nobody holds a conflicting one.
func (w *World) assign(s *slot, owner *instance, epoch int64) {
	w.discount(s)
	if !s.heldBy(owner) {
		if s.held() {
			s.owner.held.remove(s)
		} else {
			s.topic.leased++
		}
		owner.held.add(s)
	}
	s.owner, s.epoch = owner, epoch
	w.count(s)
}

// free takes a key from its owner; who that was, and its epoch, are kept.
func (w *World) free(s *slot) {
	w.discount(s)
	s.topic.leased--
	s.owner.held.remove(s)
	w.count(s)
}

// freeAll takes all from an instance.
func (w *World) freeAll(in *instance) {
	for s := in.held.last(); s != nil; s = in.held.last() {
		w.free(s)
	}
}

// grant is what a key was before a Claim changed it.
type grant struct {
	slot  *slot
	owner *instance
	epoch int64
	held  bool
}

func (w *World) note(s *slot) {
	w.journal = append(w.journal, grant{s, s.owner, s.epoch, s.held()})
}

// undo takes back every grant of the Claim that is being applied, newest first.
func (w *World) undo() {
	for i := len(w.journal) - 1; i >= 0; i-- {
		g := &w.journal[i]
		s := g.slot
		if s.held() {
			w.free(s)
		}
		if g.held {
			w.assign(s, g.owner, g.epoch)
			continue
		}
		w.discount(s)
		s.owner, s.epoch = g.owner, g.epoch
		w.count(s)
		if s.empty() {
			w.dropSlot(s)
		}
	}
}

// claim grants each key that is free, one after the other, or all or none.
func (a *application) claim() {
	w, c := a.w, &a.rec.Claim
	start := len(a.events)
	for i, k := range c.Keys {
		reason, holder := a.claimKey(k)
		if reason == NoReason {
			continue
		}
		if !c.Atomic {
			a.refuse(k, reason, holder)
			continue
		}
		w.undo()
		a.events = a.events[:start]
		for n, other := range c.Keys {
			if n == i {
				a.refuse(k, reason, holder)
			} else {
				a.refuse(other, AtomicPartner, InstanceID{})
			}
		}
		break
	}
	clear(w.journal)
	w.journal = w.journal[:0]
}

func (a *application) refuse(k Key, reason Reason, holder InstanceID) {
	e := a.event(Refused, a.author.ID)
	e.Key, e.Reason, e.By = k, reason, holder
}

// claimKey grants one key, or says why not and who holds it.
func (a *application) claimKey(k Key) (Reason, InstanceID) {
	w := a.w
	if !k.valid() {
		return Malformed, InstanceID{}
	}
	t := w.topics.find(k.Topic)
	s := t.find(k.Partition)
	if s.heldBy(a.author) {
		a.keyEvent(Held, a.author.ID, k, s.epoch)
		return NoReason, InstanceID{}
	}
	if rule.Broken(rule.TopicConflict) && s != nil && s.held() && !a.mayTakeFrom(s.owner) {
		return HeldByOther, s.owner.ID
	}
	for h := range t.inTheWay(k.Partition) {
		if !a.mayTakeFrom(h.owner) && !a.overlooks(h, k.Partition) {
			return HeldByOther, h.owner.ID
		}
	}
	if s == nil && w.full() {
		return TooMany, InstanceID{}
	}
	if t == nil {
		t = w.topic(k.Topic)
	}
	s = w.makeSlot(t, k.Partition)
	from := a.endParked(s)
	w.note(s)
	w.assign(s, a.author, a.rec.Offset)
	a.keyEvent(Granted, a.author.ID, s.key(), s.epoch).By = from
	return NoReason, InstanceID{}
}

// mayTakeFrom tells whether the author may have a key from its holder: only from a parked one with its own client id.
func (a *application) mayTakeFrom(holder *instance) bool {
	return (holder.Status == IsParked || rule.Broken(rule.LiveNamesake)) &&
		(holder.Client == a.author.Client || rule.Broken(rule.ParkedClient))
}

// endParked ends the leases in the way of s, held by parked instances, and gives the holder that s comes from. A lease on
// s itself passes to the author at once.
func (a *application) endParked(s *slot) (from InstanceID) {
	if s.held() {
		return s.owner.ID
	}
	w, first := a.w, len(a.w.journal)
	for h := range s.topic.inTheWay(s.partition) {
		if a.overlooks(h, s.partition) {
			continue
		}
		w.note(h)
		a.keyEvent(Released, h.owner.ID, h.key(), h.epoch).By = a.author.ID
	}
	for _, g := range w.journal[first:] {
		w.free(g.slot)
	}
	if len(w.journal) > first {
		from = w.journal[first].owner.ID
	}
	return from
}
