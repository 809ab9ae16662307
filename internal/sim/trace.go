package sim

import (
	"fmt"
	"strings"

	"github.com/kafka-marshal/marshal/internal/lease"
)

var kindNames = [...]string{
	lease.Foreign: "foreign", lease.KindJoin: "Join", lease.KindHeartbeat: "Heartbeat", lease.KindClaim: "Claim", lease.KindRelease: "Release",
	lease.KindLeave: "Leave", lease.KindEvict: "Evict", lease.KindDirective: "Directive", lease.KindSnapshot: "Snapshot", lease.KindBase: "Base",
	lease.KindProbe: "Probe", lease.KindNewer: "newer",
}

// recordDetail is what one wants to see of a record in a trace.
func recordDetail(rec *lease.Record) string {
	var b strings.Builder
	if rec.Seq > 0 {
		fmt.Fprintf(&b, " s%d", rec.Seq)
	}
	switch rec.Kind {
	case lease.KindJoin:
		fmt.Fprintf(&b, " %s ttl %s", rec.Join.Client, rec.Join.TTL)
		for _, in := range rec.Join.Interests {
			b.WriteString(" {")
			for _, t := range in.Topics {
				fmt.Fprintf(&b, "%s:%d ", t.Topic, t.Partitions)
			}
			fmt.Fprintf(&b, "whole=%t max=%d weight=%d greedy=%t}", in.Whole, in.Max, in.Weight, in.Greedy)
		}
		for _, k := range rec.Join.Pinned {
			fmt.Fprintf(&b, " pinned %s", keyString(k))
		}
	case lease.KindHeartbeat:
		for _, t := range rec.Heartbeat.Topics {
			fmt.Fprintf(&b, " %s[", t.Topic)
			for i, p := range t.Partitions {
				fmt.Fprintf(&b, "%d:e%d>%d ", p, t.Epochs[i], t.Next[i])
			}
			b.WriteString("]")
		}
		if rec.Heartbeat.Announces {
			b.WriteString(" announces")
		}
		fmt.Fprintf(&b, " p%d", rec.Heartbeat.P)
	case lease.KindClaim:
		for _, k := range rec.Claim.Keys {
			b.WriteString(" " + keyString(k))
		}
	case lease.KindRelease, lease.KindLeave:
		for i := range rec.Release.Keys {
			k := &rec.Release.Keys[i]
			fmt.Fprintf(&b, " %s e%d %v", keyString(k.Key), k.Epoch, k.Next)
		}
		if !rec.Release.Successor.IsZero() {
			fmt.Fprintf(&b, " to %s", rec.Release.Successor.String()[:4])
		}
		if rec.Release.Unfit {
			b.WriteString(" unfit")
		}
		if rec.Leave.Keep && rec.Kind == lease.KindLeave {
			fmt.Fprintf(&b, " keep %s", rec.Leave.Grace)
		}
	case lease.KindEvict:
		for _, t := range rec.Evict.Targets {
			fmt.Fprintf(&b, " %s renewed %d", t.Instance.String()[:4], t.Renewed)
		}
		if rec.Evict.Takeover {
			b.WriteString(" takeover")
		}
	case lease.KindDirective:
		fmt.Fprintf(&b, " seek %s to %d e%d", keyString(rec.Directive.Key), rec.Directive.Next, rec.Directive.Epoch)
	case lease.KindSnapshot:
		fmt.Fprintf(&b, " upto %d %d/%d", rec.Snapshot.Upto, rec.Snapshot.Index+1, rec.Snapshot.Count)
	case lease.KindBase:
		fmt.Fprintf(&b, " seen %d", rec.Base.Seen)
	case lease.KindProbe:
		fmt.Fprintf(&b, " wants base %t", rec.Probe.WantsBase)
	}
	return b.String()
}
