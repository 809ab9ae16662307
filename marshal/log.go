package main

import (
	"context"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/kafka-marshal/marshal"
)

const aboutLog = `
Shows the records that the members of a group have written to the coordination topic, in order, and what each did: granted, refused and
who holds it, handed over, evicted, progress, ignored and why. Where a record is wrong (see marshal verify) that is said too.
The history is replayed from its start whatever part of it is shown. It writes nothing.

  marshal log -group orders -since 1h          the last hour
  marshal log -group orders -from 12345        from an offset on
  marshal log -group orders -o json            one object a line: {"shard", "offset", "time", "group", "kind", "client", "instance", "text",
                                               "replayed", "effects": [...], "findings": [...]}
`

func showLog(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	t := newTool("log", aboutLog, stdout, stderr)
	group := t.flags.String("group", "", "`name` of the group")
	from := t.flags.String("from", "", "first record to show: an `offset`, or a time as in 2006-01-02T15:04:05Z")
	since := t.flags.Duration("since", 0, "show what is not older than that")
	if err := t.parse(args); err != nil {
		return err
	}
	if *group == "" {
		return wrong("no group: use -group")
	}
	shown, err := shows(*from, *since, time.Now())
	if err != nil {
		return err
	}
	c, end, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer end()
	var records int
	for rec, err := range c.Log(ctx, *group) {
		if err != nil {
			return &unreadableError{err}
		}
		records++
		if !shown(&rec) {
			continue
		}
		if err := printRecord(t, &rec); err != nil {
			return err
		}
	}
	if records == 0 {
		return &unreadableError{fmt.Errorf("there is no record of group %s in %s; see marshal state for those that are there", *group, *t.topic)}
	}
	return nil
}

// shows tells which records are to be shown.
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

func printRecord(t *tool, r *marshal.LogRecord) error {
	if t.json() {
		return printJSON(t.stdout, r)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%d  %s  %s\n", r.Offset, r.Time.UTC().Format("2006-01-02T15:04:05.000Z"), printable(r.Text))
	if !r.Replayed {
		b.WriteString("    (not replayed: it stands before the oldest snapshot that is left, or behind a record of a newer version)\n")
	}
	for _, e := range r.Effects {
		fmt.Fprintf(&b, "    %s\n", printable(e))
	}
	for _, f := range r.Findings {
		fmt.Fprintf(&b, "    WRONG, %s\n", printable(f))
	}
	_, err := io.WriteString(t.stdout, b.String())
	return err
}
