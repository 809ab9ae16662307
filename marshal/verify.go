package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/kafka-marshal/marshal"
)

const aboutVerify = `
Reads what the members of a group (or of all groups) have written to the coordination topic, replays it by the rules of the protocol,
and looks for what no member can have written, however late or doubled records are:

  two owners     somebody acts as the owner of a key that was never granted to it, or a snapshot gives a key to two
  regression     a position, an epoch or a token goes back
  disagreement   a snapshot, or what a member says it has read, is another history than this one
  foreign        it cannot be read, or nobody who joined has written it

It writes nothing. With -group it reads the shard of that group alone: a record with its key in another shard, which nobody of the
group heeds, is found without -group. One bad record is there until the topic's retention removes it; -since has older findings
not counted.

Exit code 0: clean, 1: there are findings, 2: the call makes no sense, 3: the log could not be reached or read, or nothing of the group
given could be replayed.

With -o json it prints one document: {"groups" (of which there is a record that can be read), "records", "replayed" (of them), "unreplayed":
[groups of which nothing could be replayed: no snapshot of them is left], "findings", "wrong" (the records with findings), "older" (findings
that -since has left out), "found": [the first thousand records with findings, as in marshal log]}.
`

// mostFound is how many records with findings a report names; the others are counted.
const mostFound = 1000

// report is what verify has found.
type report struct {
	Groups     int                 `json:"groups"`
	Records    int64               `json:"records"`
	Replayed   int64               `json:"replayed"`
	Unreplayed []string            `json:"unreplayed"` // groups of which nothing could be replayed: no snapshot is left of them
	Findings   int64               `json:"findings"`
	Wrong      int64               `json:"wrong"` // records with findings
	Older      int64               `json:"older"` // findings before -since
	Found      []marshal.LogRecord `json:"found"` // the first thousand
}

var errFindings = errors.New("something is wrong")

func verify(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	t := newTool("verify", aboutVerify, stdout, stderr)
	group := t.flags.String("group", "", "`name` of the group; empty: all")
	since := t.flags.Duration("since", 0, "count only findings that are not older than that; all of the log is replayed all the same")
	if err := t.parse(args); err != nil {
		return err
	}
	young, err := shows("", *since, time.Now())
	if err != nil {
		return err
	}
	c, end, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer end()
	r := report{Unreplayed: []string{}, Found: []marshal.LogRecord{}}
	replayed := map[string]bool{} // the groups of which there is something to replay: whether any of it was
	for rec, err := range c.Log(ctx, *group) {
		if err != nil {
			return &unreadableError{err}
		}
		r.add(&rec, replayed, young(&rec))
	}
	r.Groups = len(replayed)
	for _, g := range slices.Sorted(maps.Keys(replayed)) {
		if !replayed[g] {
			r.Unreplayed = append(r.Unreplayed, g)
		}
	}
	if err := r.print(t); err != nil {
		return err
	}
	switch {
	case r.Findings > 0:
		return fmt.Errorf("%w: %s", errFindings, r.found())
	case *group != "" && r.Records == 0:
		return &unreadableError{noRecord(*group, *t.topic)}
	case *group != "" && len(r.Unreplayed) > 0:
		return &unreadableError{fmt.Errorf("nothing of group %s could be replayed: the start of its history was cut and no snapshot is left; a running group writes one every ten minutes", *group)}
	}
	return nil
}

// add counts a record, and what is wrong with it if it is young enough.
func (r *report) add(rec *marshal.LogRecord, replayed map[string]bool, young bool) {
	r.Records++
	if rec.Kind != "foreign" { // that one can neither be replayed nor makes a group
		replayed[rec.Group] = replayed[rec.Group] || rec.Replayed
		if rec.Replayed {
			r.Replayed++
		}
	}
	switch {
	case len(rec.Findings) == 0:
	case !young:
		r.Older += int64(len(rec.Findings))
	default:
		r.Findings += int64(len(rec.Findings))
		r.Wrong++
		if len(r.Found) < mostFound {
			r.Found = append(r.Found, *rec)
		}
	}
}

// found counts the findings in words.
func (r *report) found() string {
	if r.Findings == 0 {
		return "0 findings"
	}
	return count(r.Findings, "finding") + " in " + count(r.Wrong, "record")
}

func (r *report) print(t *tool) error {
	if t.json() {
		return printJSON(t.stdout, r)
	}
	if len(r.Found) > 0 {
		rows := [][]string{{"SHARD", "OFFSET", "TIME", "GROUP", "RECORD", "FINDING"}}
		for i := range r.Found {
			f := &r.Found[i]
			for _, finding := range f.Findings {
				rows = append(rows, []string{fmt.Sprint(f.Shard), fmt.Sprint(f.Offset), f.Time.UTC().Format(time.RFC3339), printable(f.Group), f.Kind, finding})
			}
		}
		if err := printTable(t.stdout, rows); err != nil {
			return err
		}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s, %s, %d of them replayed: %s", count(r.Groups, "group"), count(r.Records, "record"), r.Replayed, r.found())
	if r.Wrong > mostFound {
		fmt.Fprintf(&b, " (those of the first %d are shown)", mostFound)
	}
	if r.Older > 0 {
		fmt.Fprintf(&b, " (%s not counted: older than -since)", count(r.Older, "finding"))
	}
	b.WriteString("\n")
	if len(r.Unreplayed) > 0 {
		fmt.Fprintf(&b, "not replayed, no snapshot of them is left: %s\n", printable(strings.Join(r.Unreplayed, ", ")))
	}
	_, err := io.WriteString(t.stdout, b.String())
	return err
}
