package audit

import (
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

var kindNames = [...]string{
	lease.Foreign: "foreign", lease.KindJoin: "join", lease.KindHeartbeat: "heartbeat", lease.KindClaim: "claim", lease.KindRelease: "release",
	lease.KindLeave: "leave", lease.KindEvict: "evict", lease.KindDirective: "directive", lease.KindSnapshot: "snapshot", lease.KindBase: "base",
	lease.KindProbe: "probe", lease.KindNewer: "newer",
}

// most is how many keys, or ranges of them, are named in a line.
const most = 8

// name is what people call an instance.
func (a *Audit) name(id lease.InstanceID) string {
	if m, ok := a.authors.find(id); ok {
		return m.client + " (" + id.String() + ")"
	}
	return id.String()
}

func keyName(k lease.Key) string {
	if k.Partition == lease.WholeTopic {
		return k.Topic + " (whole)"
	}
	return k.Topic + "/" + strconv.Itoa(int(k.Partition))
}

// list joins what is to be named, and counts the rest.
func list(parts []string, all int) string {
	if more := all - len(parts); more > 0 {
		parts = append(parts, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(parts, ", ")
}

// owned is one entry of a record by which its author acts as an owner. next: -1, it says nothing of a position.
type owned struct{ epoch, next int64 }

// entries yields them: of a heartbeat, or of what is released.
func entries(rec *lease.Record) iter.Seq2[lease.Key, owned] {
	return func(yield func(lease.Key, owned) bool) {
		switch rec.Kind {
		case lease.KindHeartbeat:
			for i := range rec.Heartbeat.Topics {
				t := &rec.Heartbeat.Topics[i]
				for n, p := range t.Partitions {
					if !yield(lease.Key{Topic: t.Topic, Partition: p}, owned{t.Epochs[n], t.Next[n]}) {
						return
					}
				}
			}
		case lease.KindRelease, lease.KindLeave:
			for i := range rec.Release.Keys {
				k := &rec.Release.Keys[i]
				next := lease.NoProgress
				if k.Key.Partition != lease.WholeTopic && len(k.Next) > 0 {
					next = k.Next[0]
				}
				if !yield(k.Key, owned{k.Epoch, next}) {
					return
				}
			}
		case lease.KindDirective:
			if d := &rec.Directive; d.Kind == lease.Seek && d.Epoch != lease.NoEpoch {
				yield(d.Key, owned{d.Epoch, d.Next})
			}
		}
	}
}

// entryOf is what a record says of a partition: by itself or within its whole topic.
func entryOf(rec *lease.Record, k lease.Key) (next, epoch int64) {
	next, epoch = lease.NoProgress, lease.NoEpoch
	for held, o := range entries(rec) {
		if held == k {
			next, epoch = o.next, o.epoch // the last of several: it is what went back
		}
	}
	if epoch != lease.NoEpoch || rec.Kind != lease.KindRelease && rec.Kind != lease.KindLeave {
		return next, epoch
	}
	for i := range rec.Release.Keys {
		whole := &rec.Release.Keys[i]
		for n, p := range whole.Partitions {
			if whole.Key.Topic == k.Topic && p == k.Partition {
				return whole.Next[n], whole.Epoch
			}
		}
	}
	return next, epoch
}

// describe says what a message is.
func (a *Audit) describe(m Message) string {
	rec := m.Record
	if rec.Kind == lease.Foreign {
		if m.Original {
			return "a text record of the original marshal"
		}
		return fmt.Sprintf("a message of %d bytes that cannot be read", len(m.Value))
	}
	who := a.name(a.entry.Author)
	if _, known := a.authors.find(a.entry.Author); !known && a.entry.Client != "" {
		who = fmt.Sprintf("%s (%v)", a.entry.Client, a.entry.Author)
	}
	switch rec.Kind {
	case lease.KindJoin:
		return who + describeJoin(rec)
	case lease.KindHeartbeat:
		return "heartbeat of " + who + describeHeartbeat(rec)
	case lease.KindClaim:
		all := ""
		if rec.Claim.Atomic {
			all = " (all or none)"
		}
		return fmt.Sprintf("%s claims %s%s", who, keyNames(rec.Claim.Keys), all)
	case lease.KindRelease:
		text, to := fmt.Sprintf("%s gives up %s", who, describeOwned(rec)), " to "
		if rec.Release.Unfit {
			text, to = fmt.Sprintf("%s gives %s up as unfit for it itself", who, describeOwned(rec)), ", to "
		}
		if !rec.Release.Successor.IsZero() {
			text += to + a.name(rec.Release.Successor)
		}
		return text
	case lease.KindLeave:
		text := who + " leaves"
		if rec.Leave.Keep {
			text += fmt.Sprintf(", its keys to be kept for %v", rec.Leave.Grace)
		}
		if len(rec.Release.Keys) > 0 {
			text += ": " + describeOwned(rec)
		}
		return text
	case lease.KindEvict:
		var targets []string
		for _, t := range rec.Evict.Targets[:min(most, len(rec.Evict.Targets))] {
			targets = append(targets, fmt.Sprintf("%s, of which nothing came after offset %d", a.name(t.Instance), t.Renewed))
		}
		verb := "evicts (declared dead)"
		if rec.Evict.Takeover {
			verb = "replaces its former run"
		}
		return fmt.Sprintf("%s %s: %s", who, verb, list(targets, len(rec.Evict.Targets)))
	case lease.KindDirective:
		d := &rec.Directive
		if d.Kind != lease.Seek {
			return fmt.Sprintf("directive %d of %s", d.Kind, who)
		}
		return fmt.Sprintf("%s sets the position of %s to %d", who, keyName(d.Key), d.Next)
	case lease.KindSnapshot:
		s := &rec.Snapshot
		return fmt.Sprintf("snapshot by %s of the world at offset %d, piece %d of %d", who, s.Upto, s.Index+1, s.Count)
	case lease.KindBase:
		return fmt.Sprintf("the history begins anew, for who has read up to offset %d", rec.Base.Seen)
	case lease.KindProbe:
		if rec.Probe.WantsBase {
			return "a newcomer asks for a snapshot"
		}
		return "a newcomer measures time"
	case lease.KindNewer:
		return fmt.Sprintf("%s writes in version %d, newer than this program", who, rec.Version)
	}
	return ""
}

func describeJoin(rec *lease.Record) string {
	j := &rec.Join
	verb := " joins"
	if rec.Seq > 1 {
		verb = " changes what it wants"
	}
	var wants []string
	for i := range j.Interests {
		in := &j.Interests[i]
		var topics []string
		for _, t := range in.Topics[:min(most, len(in.Topics))] {
			topics = append(topics, fmt.Sprintf("%s (%d partitions)", t.Topic, t.Partitions))
		}
		text := list(topics, len(in.Topics))
		if in.Whole {
			text += " as whole topics"
		}
		if in.Greedy {
			text += ", greedy"
		}
		if in.Max > 0 {
			text += fmt.Sprintf(", at most %d", in.Max)
		}
		if in.Weight > 1 {
			text += fmt.Sprintf(", weight %d", in.Weight)
		}
		wants = append(wants, text)
	}
	if len(j.Pinned) > 0 {
		wants = append(wants, "holds on to "+keyNames(j.Pinned)+" (claimed by hand, or kept for its next run)")
	}
	text := "nothing"
	if len(wants) > 0 {
		text = strings.Join(wants, "; ")
	}
	if rec.Seq > 1 {
		return fmt.Sprintf("%s: %s", verb, text)
	}
	return fmt.Sprintf("%s from %s with a lease of %v, wants %s", verb, j.Host, j.TTL.Round(time.Millisecond), text)
}

func describeHeartbeat(rec *lease.Record) string {
	h := &rec.Heartbeat
	var at keyList
	for k, o := range entries(rec) {
		at.add(k, " at "+strconv.FormatInt(o.next, 10))
	}
	text := ""
	if len(at.runs) > 0 {
		text = ": " + at.String()
	}
	if h.Load != (lease.Load{}) {
		text += fmt.Sprintf("; %d in flight, lag %d", h.Load.InFlight, h.Load.Lag)
	}
	return text
}

func describeOwned(rec *lease.Record) string {
	var keys keyList
	for i := range rec.Release.Keys {
		k := &rec.Release.Keys[i]
		note := ""
		if len(k.Next) > 0 && k.Key.Partition != lease.WholeTopic {
			note = fmt.Sprintf(" at %d", k.Next[0])
		}
		keys.add(k.Key, note)
	}
	return keys.String()
}
