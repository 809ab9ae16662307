package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/internal/lease"
)

const aboutLog = `
Shows the records that the members of a group have written to the coordination topic, in order, and what each did: granted, refused and
who holds it, handed over, evicted, progress, ignored and why. Where a record is wrong (see marshal verify) that is said too.
The history is replayed from its start whatever part of it is shown. It writes nothing.

  marshal log -group orders -since 1h          the last hour
  marshal log -group orders -from 12345        from an offset on
  marshal log -group orders -topic orders -partition 9 -no-heartbeats   how orders/9 came to whom it is with
  marshal log -group orders -o json            one object a line

Heartbeats that changed nothing are left out, with -o json too; -all shows them. The table names the first partitions that a record
changed (as in orders/0-7,9); with -topic it names all of that topic that it changed (with -partition: that one), and the JSON
always has all. A record that could not be replayed is of no topic.

JSON: {"shard", "offset", "time" (the broker's), "group", "kind" (join, heartbeat, claim, release, leave, evict, directive, snapshot, base,
probe, newer, foreign), "client" and "instance" (its author), "text", "replayed" (what it did is told), "effects": [in words], "changes":
[...], "findings": [...]}. Of the changes: {"kind", "topic", "partition" (-1: the whole topic, or no key), "client" and "instance" (whom it
happened to), "by" (the instance that holds what is refused, had what is handed or taken over, or evicts), "epoch", "offset" (the next to
read, of progress and sought; else -1), "reason" (of refused and ignored)}; kind is one of joined, wants, left, parked, evicted (a member);
granted, held (before already), refused, released, handed_over, taken_over, kept (its holder is parked), progress, sought, unfit, fit
(a key); rebased, announced, ignored, newer.

Exit code 0: done, also where the filters leave nothing (stderr says so), 1: the output could not be written, 2: the call makes no sense,
3: the brokers or the log could not be reached or read, or there is no record of the group.
`

// logFilter says which records are shown.
type logFilter struct {
	young        func(*marshal.LogRecord) bool
	topic        string
	partition    int
	all          bool // heartbeats that changed nothing too
	noHeartbeats bool
}

func showLog(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	t := newTool("log", aboutLog, stdout, stderr)
	group := t.flags.String("group", "", "`name` of the group")
	from := t.flags.String("from", "", "first record to show: an `offset`, or a time as in 2006-01-02T15:04:05Z")
	since := t.flags.Duration("since", 0, "show what is not older than that")
	var f logFilter
	t.flags.StringVar(&f.topic, "topic", "", "show only what changed something about this `topic`")
	t.flags.IntVar(&f.partition, "partition", -1, "`number` of a partition of -topic: show only what changed something about it, or about its topic as a whole")
	t.flags.BoolVar(&f.all, "all", false, "show also heartbeats that changed nothing")
	t.flags.BoolVar(&f.noHeartbeats, "no-heartbeats", false, "leave out all heartbeats in which nothing is wrong, progress too")
	if err := t.parse(args); err != nil {
		return err
	}
	switch {
	case *group == "":
		return wrong("no group: use -group")
	case f.partition < -1:
		return wrong("-partition %d: there is none", f.partition)
	case f.partition >= 0 && f.topic == "":
		return wrong("-partition needs -topic")
	case f.all && f.noHeartbeats:
		return wrong("-all and -no-heartbeats: use one of them")
	}
	var err error
	if f.young, err = shows(*from, *since, time.Now()); err != nil {
		return err
	}
	c, end, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer end()
	var records, young, shown int
	var newest marshal.LogRecord
	for rec, err := range c.Log(ctx, *group) {
		if err != nil {
			return &unreadableError{err}
		}
		records++
		newest = rec
		if !f.young(&rec) {
			continue
		}
		young++
		if !f.wants(&rec) {
			continue
		}
		shown++
		if err := f.print(t, &rec); err != nil {
			return err
		}
	}
	switch {
	case records == 0:
		return &unreadableError{noRecord(*group, *t.topic)}
	case young == 0:
		fmt.Fprintf(stderr, "marshal log: nothing is there from that on: the newest record of group %s is at offset %d, of %s\n", *group, newest.Offset, newest.Time.UTC().Format(time.RFC3339))
	case shown == 0:
		fmt.Fprintf(stderr, "marshal log: none of %s is shown: see -topic, -partition, -no-heartbeats and -all\n", count(young, "record"))
	}
	return nil
}

// noRecord says that nothing is where a group's records would be.
func noRecord(group, topic string) error {
	return fmt.Errorf("there is no record of group %s in its shard %d of %s; see marshal state for the groups that are there", group, lease.ShardOf(group), topic)
}

// shows tells which records are young enough to be shown.
func shows(from string, since time.Duration, now time.Time) (func(*marshal.LogRecord) bool, error) {
	switch {
	case from != "" && since != 0:
		return nil, wrong("-from and -since: use one of them")
	case since < 0:
		return nil, wrong("-since %v: it must be above 0", since)
	case since > 0:
		return func(r *marshal.LogRecord) bool { return !r.Time.Before(now.Add(-since)) }, nil
	case from == "":
		return func(*marshal.LogRecord) bool { return true }, nil
	}
	if offset, err := strconv.ParseInt(from, 10, 64); err == nil {
		return func(r *marshal.LogRecord) bool { return r.Offset >= offset }, nil
	}
	at, err := time.Parse(time.RFC3339, from)
	if err != nil {
		return nil, wrong("-from %s: use an offset, or a time as in 2006-01-02T15:04:05Z", from)
	}
	return func(r *marshal.LogRecord) bool { return !r.Time.Before(at) }, nil
}

// wants tells whether a record is to be shown, if it is young enough.
func (f *logFilter) wants(r *marshal.LogRecord) bool {
	if r.Kind == "heartbeat" && len(r.Findings) == 0 && (f.noHeartbeats || !f.all && r.Replayed && len(r.Effects) == 0) {
		return false
	}
	if f.topic == "" {
		return true
	}
	for i := range r.Changes {
		if f.touches(&r.Changes[i]) {
			return true
		}
	}
	return false
}

// touches tells whether a change is of the topic, and of the partition or its whole topic, that are asked for.
func (f *logFilter) touches(c *marshal.LogChange) bool {
	return c.Topic == f.topic && (f.partition < 0 || c.Partition < 0 || int(c.Partition) == f.partition)
}

func (f *logFilter) print(t *tool, r *marshal.LogRecord) error {
	if t.json() {
		return printJSON(t.stdout, r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d  %s  %s\n", r.Offset, r.Time.UTC().Format("2006-01-02T15:04:05.000Z"), printable(r.Text))
	if !r.Replayed {
		b.WriteString("    (not replayed: it stands before the oldest snapshot that is left, or behind a record of a newer version)\n")
	}
	if f.topic == "" {
		for _, e := range r.Effects {
			fmt.Fprintf(&b, "    %s\n", printable(e))
		}
	} else {
		for i := range r.Changes {
			if f.touches(&r.Changes[i]) {
				fmt.Fprintf(&b, "    %s\n", printable(change(&r.Changes[i])))
			}
		}
	}
	for _, finding := range r.Findings {
		fmt.Fprintf(&b, "    WRONG, %s\n", printable(finding))
	}
	_, err := io.WriteString(t.stdout, b.String())
	return err
}

// change describes what happened to one key.
func change(c *marshal.LogChange) string {
	var b strings.Builder
	b.WriteString(c.Topic)
	if c.Partition >= 0 {
		fmt.Fprintf(&b, "/%d", c.Partition)
	} else {
		b.WriteString(" (whole)")
	}
	fmt.Fprintf(&b, ": %s", strings.ReplaceAll(c.Kind, "_", " "))
	if c.Offset >= 0 {
		fmt.Fprintf(&b, " %d", c.Offset)
	}
	by := ""
	switch {
	case c.By == "":
	case c.Kind == "refused":
		by = ", held by " + c.By
	case c.Kind == "granted", c.Kind == "handed_over", c.Kind == "taken_over":
		by = ", from " + c.By
	default:
		by = ", by " + c.By
	}
	if c.Reason != "" && by == "" {
		fmt.Fprintf(&b, ", %s", c.Reason)
	}
	if c.Instance != "" {
		fmt.Fprintf(&b, ", %s (%s)", c.Client, c.Instance)
	}
	b.WriteString(by)
	if c.Epoch > 0 {
		fmt.Fprintf(&b, ", epoch %d", c.Epoch)
	}
	return b.String()
}
