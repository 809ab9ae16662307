package lease

import "github.com/kafka-marshal/marshal/internal/rule"

// evict ends each target of which nothing newer than the named renewal is in the log.
func (a *application) evict() {
	for _, target := range a.rec.Evict.Targets {
		t := a.w.instances[target.Instance]
		if reason := a.spares(t, target.Renewed); reason != NoReason {
			a.event(Ignored, target.Instance).Reason = reason
			continue
		}
		a.event(Evicted, t.ID).By = a.author.ID
		if a.rec.Evict.Takeover {
			a.takeOver(t)
		}
		a.end(t)
	}
}

// spares says why a target may not be evicted; NoReason: it may.
func (a *application) spares(t *instance, renewed int64) Reason {
	switch {
	case t == nil:
		return TargetUnknown
	case t == a.author:
		return TargetSelf
	case t.Status == Ended:
		return TargetEnded
	case t.Renewed != renewed && !rule.Broken(rule.CAS):
		return RenewedSince
	case a.rec.Evict.Takeover && !a.mayTakeOver(t):
		return NoTakeover
	}
	return NoReason
}

// mayTakeOver tells whether the author, a newcomer, may have all that its silent namesake t holds.
func (a *application) mayTakeOver(t *instance) bool {
	return (t.Client == a.author.Client || rule.Broken(rule.TakeoverClient)) &&
		t.FirstJoin < a.author.FirstJoin &&
		t.Status == Alive &&
		(t.Renewed < a.author.FirstJoin || rule.Broken(rule.TakeoverOrder)) &&
		(len(a.w.clients[t.Client]) == 2 || rule.Broken(rule.TakeoverClient)) // the two of them, and no third
}

func (a *application) takeOver(t *instance) {
	for _, s := range t.held.ordered() {
		a.keyEvent(TakenOver, a.author.ID, s.key(), a.rec.Offset).By = t.ID
	}
	for s := t.held.last(); s != nil; s = t.held.last() {
		a.w.assign(s, a.author, a.rec.Offset)
	}
}
