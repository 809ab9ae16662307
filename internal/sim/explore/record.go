package explore

import (
	"fmt"
	"strings"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// record is one that somebody wrote.
type record struct {
	rec   lease.Record
	value []byte // stands for the bytes in the log
	label string // author and seq, for scripts
	proc  int8
}

// value is the record in a form of which equal records have the same.
func value(rec *lease.Record) []byte {
	var content any
	switch rec.Kind {
	case lease.KindJoin:
		content = rec.Join
	case lease.KindHeartbeat:
		content = rec.Heartbeat
	case lease.KindClaim:
		content = rec.Claim
	case lease.KindRelease:
		content = rec.Release
	case lease.KindLeave:
		content = struct {
			lease.Leave
			Keys []lease.ReleasedKey
		}{rec.Leave, rec.Release.Keys}
	case lease.KindEvict:
		content = rec.Evict
	case lease.KindDirective:
		content = rec.Directive
	case lease.KindSnapshot:
		content = rec.Snapshot
	case lease.KindBase:
		content = rec.Base
	case lease.KindProbe:
		content = rec.Probe
	}
	return fmt.Appendf(nil, "%d %x %d %v", rec.Kind, rec.Instance, rec.Seq, content)
}

var kindNames = map[lease.Kind]string{
	lease.KindJoin: "join", lease.KindHeartbeat: "heartbeat", lease.KindClaim: "claim", lease.KindRelease: "release",
	lease.KindLeave: "leave", lease.KindEvict: "evict", lease.KindDirective: "seek", lease.KindSnapshot: "snapshot",
	lease.KindBase: "base", lease.KindProbe: "probe",
}

// instanceOf is the id of a process's n-th instance.
func instanceOf(proc, n int) lease.InstanceID {
	return lease.InstanceID{0xe0 + byte(proc), byte(n)}
}

// name is an instance for people: a, or a2 for the second.
func (c *Config) name(id lease.InstanceID) string {
	p := int(id[0]) - 0xe0
	if p < 0 || p >= max(len(c.Procs), len(c.Authors)) {
		return "-"
	}
	if len(c.Authors) > 0 {
		return string(rune('a' + p))
	}
	if id[1] <= 1 {
		return c.Procs[p].Name
	}
	return fmt.Sprintf("%s%d", c.Procs[p].Name, id[1])
}

// label names a record that is on its way: no two of one label are so at a time.
func (c *Config) label(proc int, rec *lease.Record) string {
	author := c.name(instanceOf(proc, 1))
	switch rec.Kind {
	case lease.KindSnapshot:
		return fmt.Sprintf("%s:snapshot%d", author, rec.Snapshot.Upto)
	case lease.KindProbe:
		return author + ":probe"
	case lease.KindBase:
		return fmt.Sprintf("%s:base%d", author, rec.Base.Seen)
	}
	return fmt.Sprintf("%s:%d", c.name(rec.Instance), rec.Seq)
}

func keyName(k lease.Key) string {
	if k.Partition == lease.WholeTopic {
		return k.Topic + "/*"
	}
	return fmt.Sprintf("%s/%d", k.Topic, k.Partition)
}

// nameOf is a line about a record in a log.
func (sp *space) nameOf(rec *lease.Record) string {
	return fmt.Sprintf("@%d %s:%d %s\n", rec.Offset, sp.cfg.name(rec.Instance), rec.Seq, sp.cfg.describe(rec))
}

// describe is a record's content for people.
func (c *Config) describe(rec *lease.Record) string {
	var b strings.Builder
	b.WriteString(kindNames[rec.Kind])
	switch rec.Kind {
	case lease.KindHeartbeat:
		for _, t := range rec.Heartbeat.Topics {
			for i, p := range t.Partitions {
				fmt.Fprintf(&b, " %s e%d next %d", keyName(lease.Key{Topic: t.Topic, Partition: p}), t.Epochs[i], t.Next[i])
			}
		}
		if rec.Heartbeat.Announces {
			b.WriteString(" announces")
		}
	case lease.KindClaim:
		for _, k := range rec.Claim.Keys {
			b.WriteString(" " + keyName(k))
		}
	case lease.KindRelease, lease.KindLeave:
		for _, k := range rec.Release.Keys {
			fmt.Fprintf(&b, " %s e%d next %v", keyName(k.Key), k.Epoch, k.Next)
		}
		if !rec.Release.Successor.IsZero() && rec.Kind == lease.KindRelease {
			b.WriteString(" to " + c.name(rec.Release.Successor))
		}
		if rec.Kind == lease.KindLeave && rec.Leave.Keep {
			b.WriteString(" keep")
		}
	case lease.KindEvict:
		for _, t := range rec.Evict.Targets {
			fmt.Fprintf(&b, " %s@%d", c.name(t.Instance), t.Renewed)
		}
		if rec.Evict.Takeover {
			b.WriteString(" takeover")
		}
	case lease.KindDirective:
		fmt.Fprintf(&b, " %s to %d under e%d", keyName(rec.Directive.Key), rec.Directive.Next, rec.Directive.Epoch)
	case lease.KindSnapshot:
		fmt.Fprintf(&b, " upto %d", rec.Snapshot.Upto)
	case lease.KindBase:
		fmt.Fprintf(&b, " seen %d", rec.Base.Seen)
	}
	return b.String()
}
