package lease

// directive does what an operator wants. Kinds that this code does not know renew their author and do nothing more.
func (a *application) directive() {
	if a.rec.Directive.Kind == Seek {
		a.seek()
	}
}

// seek sets progress, the one way in which it may go down, and gives the leases on it a new epoch: all that is in flight
// under the old one is void.
func (a *application) seek() {
	w, d := a.w, &a.rec.Directive
	if !d.Key.valid() || d.Next < 0 {
		a.skipped(d.Key, Malformed)
		return
	}
	t := w.topics.find(d.Key.Topic)
	if reason := a.unseekable(t); reason != NoReason {
		a.skipped(d.Key, reason)
		return
	}
	if t == nil {
		t = w.topic(d.Key.Topic)
	}
	if d.Key.Partition == WholeTopic {
		a.seekTopic(t)
		return
	}
	w.setProgress(w.makeSlot(t, d.Key.Partition), d.TopicID, d.Next)
	a.sought(d.Key, t.cover(d.Key.Partition))
}

// unseekable says why a Seek does nothing.
func (a *application) unseekable(t *topic) Reason {
	w, d := a.w, &a.rec.Directive
	whole := d.Key.Partition == WholeTopic
	holder := t.cover(d.Key.Partition) // of a whole topic's key: the lease on just that
	missing := 0
	switch {
	case d.Epoch != NoEpoch && holder == nil:
		return NotHeld
	case d.Epoch != NoEpoch && holder.epoch != d.Epoch:
		return OldEpoch
	case t == nil && whole:
		return NoReason
	case whole:
		for s := range t.slots.partitions() {
			if s.life.replaces(d.TopicID) {
				return OldTopic
			}
		}
		for p := range t.partitions() {
			if t.slots.at(p) == nil {
				missing++
			}
		}
	default:
		s := t.find(d.Key.Partition)
		if s == nil {
			missing = 1
		} else if s.life.replaces(d.TopicID) {
			return OldTopic
		}
	}
	if w.keys+missing > MaxKeys {
		return TooMany
	}
	return NoReason
}

// seekTopic sets every partition that the world knows of, by its count or by what was reported.
func (a *application) seekTopic(t *topic) {
	w, d := a.w, &a.rec.Directive
	for p := range t.partitions() {
		w.makeSlot(t, p)
	}
	for s := range t.slots.partitions() {
		w.setProgress(s, d.TopicID, d.Next)
	}
	if t.cover(WholeTopic) == nil {
		a.sought(d.Key, nil)
	}
	for s := range t.leases() {
		a.sought(s.key(), s)
	}
	w.prune(t)
}

// sought gives the lease that covers what was sought its new epoch, if there is one.
func (a *application) sought(k Key, covering *slot) {
	e := a.keyEvent(Sought, InstanceID{}, k, NoEpoch)
	e.Next = a.rec.Directive.Next
	if covering != nil {
		a.w.assign(covering, covering.owner, a.rec.Offset)
		e.Instance, e.Epoch = covering.owner.ID, covering.epoch
	}
}
