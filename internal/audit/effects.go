package audit

import (
	"fmt"
	"strconv"

	"github.com/kafka-marshal/marshal/internal/lease"
)

var reasons = [...]string{
	lease.AuthorUnknown: "its author is not a member", lease.AuthorEnded: "its author had ended", lease.AuthorParked: "its author is parked",
	lease.OtherTopic: "it was written for another log", lease.Echo: "a copy, or it came late", lease.Malformed: "it cannot be meant",
	lease.NotHeld: "its author does not hold it", lease.OldEpoch: "its author holds it under another epoch", lease.Behind: "it stands further on",
	lease.OldTopic: "the topic was recreated since", lease.HeldByOther: "held", lease.AtomicPartner: "another key of the same claim was refused",
	lease.NotSuccessor: "the successor may not have it", lease.TargetUnknown: "it is not known", lease.TargetEnded: "it had ended",
	lease.TargetSelf: "it is the author", lease.RenewedSince: "it has been heard of since", lease.NoTakeover: "it may not be replaced",
	lease.BaseNotEmpty: "there are records that its author had not read", lease.TooMany: "a limit of the group's size", lease.OldOffset: "its offset is old",
}

// effect is what several events of one record have in common, and their keys.
type effect struct {
	of   lease.Event // without key, epoch and position
	keys keyList
}

// effects says in words what a record did, in the order in which it did it; what happened to many keys alike is one line.
func (a *Audit) effects(lines []string) []string {
	var groups []effect
	for i := range a.events {
		e := &a.events[i]
		if e.Kind == lease.Renewed {
			continue
		}
		of := lease.Event{Kind: e.Kind, Reason: e.Reason, Instance: e.Instance, By: e.By}
		n := len(groups) - 1
		for n >= 0 && groups[n].of != of {
			n--
		}
		if n < 0 {
			groups = append(groups, effect{of: of})
			n = len(groups) - 1
		}
		if e.Key == (lease.Key{}) {
			continue
		}
		note := ""
		switch e.Kind {
		case lease.Progressed:
			note = " at " + strconv.FormatInt(e.Next, 10)
		case lease.Sought:
			note = " to " + strconv.FormatInt(e.Next, 10)
		}
		groups[n].keys.add(e.Key, note)
	}
	for i := range groups {
		lines = append(lines, a.effect(&groups[i]))
	}
	return lines
}

func (a *Audit) effect(g *effect) string {
	e, keys := &g.of, g.keys.String()
	if e.Kind == lease.Progressed { // most are
		return "progress: " + keys
	}
	who := a.name(e.Instance)
	switch e.Kind {
	case lease.Joined:
		return who + " is a member"
	case lease.Interested:
		return "what it wants is changed"
	case lease.Left:
		return who + " has ended"
	case lease.Parked:
		return who + " is parked: what it holds is kept for its client's next run"
	case lease.Evicted:
		if a.takeover {
			return fmt.Sprintf("%s is replaced by %s", who, a.name(e.By))
		}
		return fmt.Sprintf("%s is evicted (declared dead) by %s", who, a.name(e.By))
	case lease.Granted:
		if !e.By.IsZero() {
			return fmt.Sprintf("granted to %s, from its parked run %v: %s", who, e.By, keys)
		}
		return fmt.Sprintf("granted to %s: %s", who, keys)
	case lease.Held:
		return "holds already: " + keys
	case lease.Refused:
		if e.By.IsZero() {
			return fmt.Sprintf("refused, %s: %s", reasons[e.Reason], keys)
		}
		return fmt.Sprintf("refused, held by %s: %s", a.name(e.By), keys)
	case lease.Released:
		return "free: " + keys
	case lease.HandedOver:
		return fmt.Sprintf("handed over to %s: %s", who, keys)
	case lease.TakenOver:
		return fmt.Sprintf("taken over by %s from its former run %v: %s", who, e.By, keys)
	case lease.Marked:
		return who + " is marked as unfit for: " + keys
	case lease.Unmarked:
		return who + " is no longer unfit for: " + keys
	case lease.Sought:
		if e.Instance.IsZero() {
			return "position set, nobody holds it: " + keys
		}
		return fmt.Sprintf("position set, %s starts anew there: %s", who, keys)
	case lease.Rebased:
		return "the group begins anew: no members, no positions"
	case lease.Announced:
		return "announces a snapshot"
	case lease.Newer:
		return "what it did is not known, and nothing after it can be judged: use a newer program"
	case lease.Ignored:
		if keys != "" {
			return fmt.Sprintf("ignored, %s: %s", reasons[e.Reason], keys)
		}
		if e.Reason >= lease.TargetUnknown && e.Reason <= lease.NoTakeover {
			return fmt.Sprintf("spared is %s: %s", who, reasons[e.Reason])
		}
		return "ignored: " + reasons[e.Reason]
	}
	return ""
}
