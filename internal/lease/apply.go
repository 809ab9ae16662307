package lease

import "github.com/kafka-marshal/marshal/internal/rule"

// Apply applies one record and appends what it did to events. It never fails and never panics. Records must come in the
// order of their offsets (one that does not is ignored altogether); it keeps nothing of rec.
func (w *World) Apply(rec *Record, events []Event) []Event {
	a := application{w: w, rec: rec, events: events}
	switch {
	case rec.Kind == KindProbe: // no record of the group anywhere
		return events
	case rec.Offset <= w.last:
		a.ignored(OldOffset)
		return a.events
	}
	switch rec.Kind {
	case KindSnapshot: // moves last, and nothing else
	case KindBase:
		a.base()
	case KindNewer:
		a.newer()
	case KindJoin, KindHeartbeat, KindClaim, KindRelease, KindLeave, KindEvict, KindDirective:
		a.authored()
	default:
		a.ignored(Malformed)
	}
	clear(w.named)
	w.named = w.named[:0]
	w.last = rec.Offset
	w.forget()
	return a.events
}

// application is one record being applied.
type application struct {
	w      *World
	rec    *Record
	author *instance
	events []Event
}

// event appends an event with what all have; the caller sets the rest. The pointer is valid until the next one.
func (a *application) event(kind EventKind, instance InstanceID) *Event {
	a.events = append(a.events, Event{})
	e := &a.events[len(a.events)-1]
	e.Kind, e.Instance = kind, instance
	e.Offset, e.Seq, e.Author, e.Record = a.rec.Offset, a.rec.Seq, a.rec.Instance, a.rec.Kind
	return e
}

func (a *application) keyEvent(kind EventKind, instance InstanceID, k Key, epoch int64) *Event {
	e := a.event(kind, instance)
	e.Key, e.Epoch = k, epoch
	return e
}

// ignored says that the whole record changed nothing.
func (a *application) ignored(reason Reason) { a.event(Ignored, a.rec.Instance).Reason = reason }

// skipped says that one entry of the record changed nothing.
func (a *application) skipped(k Key, reason Reason) {
	e := a.event(Ignored, a.rec.Instance)
	e.Key, e.Reason = k, reason
}

// authored applies a record that an instance wrote about itself: everything but Snapshot, Base and Probe (§5).
func (a *application) authored() {
	in := a.w.instances[a.rec.Instance]
	if rule.Broken(rule.JoinAfterEnd) && a.rec.Kind == KindJoin && a.rec.Seq == 1 && in != nil && in.Status == Ended {
		a.w.unremember(in)
		in = nil
	}
	if reason := a.rejects(in); reason != NoReason {
		a.ignored(reason)
		return
	}
	first := in == nil
	if first || a.rec.Kind == KindJoin {
		if in = a.declare(in); in == nil {
			a.ignored(TooMany)
			return
		}
	}
	a.author = in
	a.renew()
	switch a.rec.Kind {
	case KindJoin:
		a.join(first)
	case KindHeartbeat:
		a.heartbeat()
	case KindClaim:
		a.claim()
	case KindRelease:
		a.release()
	case KindLeave:
		a.leave()
	case KindEvict:
		a.evict()
	case KindDirective:
		a.directive()
	}
}

// rejects checks the author, the values and the sequence number of a record; in is the author, nil if it is unknown.
func (a *application) rejects(in *instance) Reason {
	rec := a.rec
	switch {
	case rec.Instance.IsZero():
		return Malformed
	case in == nil && (rec.Kind != KindJoin || rec.Seq != 1) && !rule.Broken(rule.FirstJoin):
		return AuthorUnknown
	case in == nil && rec.Kind == KindJoin && !rec.Join.TopicID.Same(a.w.topicID):
		return OtherTopic
	case in != nil && in.Status == Ended:
		return AuthorEnded
	case in != nil && in.Status == IsParked:
		return AuthorParked
	case malformed(rec):
		return Malformed
	case in != nil && rec.Seq <= in.Seq && !rule.Broken(rule.Seq):
		return Echo
	case in != nil && rec.Seq > in.Seq && rec.Seq-in.Seq > MaxSeqJump:
		return Malformed
	}
	return NoReason
}

// renew notes that its author was there at this offset.
func (a *application) renew() {
	in, w := a.author, a.w
	in.Seq = max(in.Seq, a.rec.Seq)
	in.Renewed = a.rec.Offset
	in.RenewedTime = a.rec.Timestamp
	if a.rec.Kind == KindHeartbeat {
		in.Load = a.rec.Heartbeat.Load
	}
	w.sumRenewal(in)
	if in.quietSum != 0 {
		replaceSum(&w.quietSum, &in.quietSum, 0)
	}
	a.event(Renewed, in.ID)
}

// newer meets a record in a version that this code cannot read. Only a joined author is believed; its record cannot be
// applied, so it renews nobody.
func (a *application) newer() {
	if in := a.w.instances[a.rec.Instance]; in == nil || in.Status != Alive {
		a.ignored(Malformed)
		return
	}
	a.event(Newer, a.rec.Instance)
}

// base starts the group's history afresh, if nobody has written anything that its author had not seen (§7).
func (a *application) base() {
	w, b := a.w, &a.rec.Base
	switch {
	case !validTokenBase(b.TokenBase):
		a.ignored(Malformed)
	case (b.Seen < w.last || b.Seen >= a.rec.Offset) && !rule.Broken(rule.BaseSeen):
		a.ignored(BaseNotEmpty)
	default:
		ended := w.ended
		w.clear()
		w.tokenBase = b.TokenBase
		if rule.Broken(rule.BaseForgets) {
			w.remember(ended)
		}
		a.event(Rebased, InstanceID{})
	}
}
