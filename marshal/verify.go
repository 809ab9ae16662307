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

It writes nothing. Exit code 0: clean, 1: there are findings, 2: the call makes no sense, 3: the log could not be reached or read,
or nothing of the group given could be replayed. With -o json it prints one document:
{"groups", "records", "replayed", "unreplayed": [groups], "findings", "found": [records with findings, as in marshal log]}.
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
	Found      []marshal.LogRecord `json:"found"` // the first thousand
}

var errFindings = errors.New("something is wrong")

func verify(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	t := newTool("verify", aboutVerify, stdout, stderr)
	group := t.flags.String("group", "", "`name` of the group; empty: all")
	if err := t.parse(args); err != nil {
		return err
	}
	c, end, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer end()
	r := report{Unreplayed: []string{}, Found: []marshal.LogRecord{}}
	replayed := map[string]int64{}
	for rec, err := range c.Log(ctx, *group) {
		if err != nil {
			return &unreadableError{err}
		}
		r.Records++
		n := replayed[rec.Group]
		if rec.Replayed {
			r.Replayed++
			n++
		}
		replayed[rec.Group] = n
		if len(rec.Findings) == 0 {
			continue
		}
		r.Findings += int64(len(rec.Findings))
		if len(r.Found) < mostFound {
			r.Found = append(r.Found, rec)
		}
	}
	r.Groups = len(replayed)
	for _, g := range slices.Sorted(maps.Keys(replayed)) {
		if replayed[g] == 0 {
			r.Unreplayed = append(r.Unreplayed, g)
		}
	}
	if err := r.print(t); err != nil {
		return err
	}
	switch {
	case r.Findings > 0:
		return fmt.Errorf("%w: %d findings", errFindings, r.Findings)
	case *group != "" && r.Records == 0:
		return &unreadableError{fmt.Errorf("there is no record of group %s in %s; see marshal state for those that are there", *group, *t.topic)}
	case *group != "" && r.Replayed == 0:
		return &unreadableError{fmt.Errorf("nothing of group %s could be replayed: the start of its history was cut and no snapshot is left; a running group writes one every ten minutes", *group)}
	}
	return nil
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
	fmt.Fprintf(&b, "%d groups, %d records, %d of them replayed: %d findings", r.Groups, r.Records, r.Replayed, r.Findings)
	if more := len(r.Found); more == mostFound {
		fmt.Fprintf(&b, " (those of the first %d records are shown)", more)
	}
	b.WriteString("\n")
	if len(r.Unreplayed) > 0 {
		fmt.Fprintf(&b, "not replayed, no snapshot of them is left: %s\n", printable(strings.Join(r.Unreplayed, ", ")))
	}
	_, err := io.WriteString(t.stdout, b.String())
	return err
}
