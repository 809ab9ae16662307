package main

import (
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/internal/kafka"
)

const aboutState = `
Shows a group, or all that are in the coordination topic: its members and when the broker last heard of them; who holds each partition (or
topic that is claimed as a whole), under which epoch, at which offset and how far behind the end of its log; and why a partition is held
by nobody, or by a member that is parked or was not heard of. It writes nothing. LAG -1: not known.

STATE of a member, by the broker's time stamps and the clock here (this command measures nothing itself): alive; silent, nothing was heard
of it for more than two fifths of its lease, in which there are two heartbeats; overdue, for longer than its lease, so that the others
will evict it (declare it dead); parked, its keys are kept for the next run of its client id; replaced, that run is there and has them.

With -o json it prints one document, an array with one object for each group: {"group", "offset" (of its newest record), "foreign" (records
by somebody else met while the command ran; marshal verify counts all), "unreadable" (why nothing is known of it), "instances": [...],
"keys": [...]}.

  of an instance: "instance", "client", "host", "status" (as STATE), "parked", "ttl_ns" (its lease), "last_heartbeat" (the broker's clock),
    "overdue" (by that), "silent_ns" (-1: only a member of the group measures it), "claims" (keys it holds), "in_flight" and "lag" (as it last
    said), "suspended" (only that process knows it of itself: here always false)
  of a key: "topic", "partition" (-1: the whole topic), "instance" and "client" (of its holder; without "instance" nobody holds it, and
    "client" had it last), "epoch", "token", "next" (-1: not known), "parts" (of a whole topic: "next" of each partition), "why", "end" and
    "lag" (-1: not known; of a whole topic the sums)
  what only its holder knows, and shows in its own State and PrintState, never here: "pending" (why it has not begun), "paused",
    "draining", "stalled_ns" (for how long its oldest message in hand is unfinished), "failed" (why it cannot be read)

Since when a key is free the log does not say. To alert on it ask twice, two leases apart: keys that are free both times.

Exit code 0: done, 1: the output could not be written, 2: the call makes no sense, 3: the brokers or the log could not be reached or
read, or there is no such group.
`

// groupView is a state with what the brokers say beside.
type groupView struct {
	marshal.State
	Keys []keyView `json:"keys"` // instead of the State's
}

// keyView is a key with the end of its log.
type keyView struct {
	marshal.KeyState
	End int64 `json:"end"` // -1: not known
	Lag int64 `json:"lag"` // -1: not known
}

func state(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	t := newTool("state", aboutState, stdout, stderr)
	group := t.flags.String("group", "", "`name` of the group; empty: all")
	if err := t.parse(args); err != nil {
		return err
	}
	c, end, err := t.dial(ctx, marshal.WithAllGroups())
	if err != nil {
		return err
	}
	defer end()
	states := c.State()
	if *group != "" {
		one := states[:0]
		for _, s := range states {
			if s.Group == *group {
				one = append(one, s)
			}
		}
		if states = one; len(states) == 0 {
			return &unreadableError{fmt.Errorf("there is no group %s in %s; without -group all are shown", *group, *t.topic)}
		}
	}
	views, err := t.ends(ctx, states)
	if err != nil {
		return err
	}
	if err := t.printGroups(views); err != nil {
		return err
	}
	if *group != "" && views[0].Unreadable != "" {
		return &unreadableError{fmt.Errorf("group %s: %s", *group, views[0].Unreadable)}
	}
	return nil
}

func (t *tool) printGroups(views []groupView) error {
	if t.json() {
		return printJSON(t.stdout, views)
	}
	if len(views) == 0 {
		_, err := fmt.Fprintf(t.stdout, "no group has ever been in %s, as far back as it reaches\n", *t.topic)
		return err
	}
	for i := range views {
		if i > 0 {
			fmt.Fprintln(t.stdout)
		}
		if err := views[i].print(t.stdout, time.Now()); err != nil {
			return err
		}
	}
	return nil
}

// partitions gives the positions of a key's partitions.
func partitions(k *marshal.KeyState) (first int32, next []int64) {
	if k.Partition < 0 {
		return 0, k.Parts
	}
	return k.Partition, []int64{k.Next}
}

// ends asks for the ends of all logs.
func (t *tool) ends(ctx context.Context, states []marshal.State) ([]groupView, error) {
	ctx, cancel := context.WithTimeout(ctx, *t.timeout)
	defer cancel()
	client, err := t.client(ctx)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	var qs []kafka.OffsetQuery
	for i := range states {
		for n := range states[i].Keys {
			k := &states[i].Keys[n]
			first, next := partitions(k)
			for p := range next {
				qs = append(qs, kafka.OffsetQuery{Topic: k.Topic, Partition: first + int32(p), At: sarama.OffsetNewest})
			}
		}
	}
	answers := client.Offsets(ctx, qs)
	views := make([]groupView, len(states))
	for i := range states {
		views[i] = groupView{State: states[i], Keys: make([]keyView, len(states[i].Keys))}
		for n := range states[i].Keys {
			v := &views[i].Keys[n]
			v.KeyState = states[i].Keys[n]
			_, next := partitions(&v.KeyState)
			v.behind(next, answers[:len(next)])
			answers = answers[len(next):]
		}
	}
	return views, nil
}

// behind sums up the lags of a key's partitions; one that is not known makes the sum unknown.
func (v *keyView) behind(next []int64, ends []kafka.OffsetAnswer) {
	if len(next) == 0 {
		v.End, v.Lag = -1, -1
		return
	}
	for i, e := range ends {
		switch {
		case e.Err != nil || v.End < 0:
			v.End, v.Lag = -1, -1
		case next[i] < 0 || v.Lag < 0:
			v.End, v.Lag = v.End+e.Offset, -1
		default:
			v.End, v.Lag = v.End+e.Offset, v.Lag+max(0, e.Offset-next[i])
		}
	}
}

// client is a connection of the command's own, for what the library does not tell.
func (t *tool) client(ctx context.Context) (*kafka.Client, error) {
	client, err := kafka.Dial(ctx, "marshal-command", t.addresses(), t.sarama)
	if err != nil {
		return nil, &unreadableError{err}
	}
	return client, nil
}

func (v *groupView) print(w io.Writer, now time.Time) error {
	if v.Unreadable != "" {
		_, err := fmt.Fprintf(w, "GROUP %s: nothing is known of it yet: %s\n", printable(v.Group), v.Unreadable)
		return err
	}
	fmt.Fprintf(w, "GROUP %s, as of offset %d of its log\n", printable(v.Group), v.Offset)
	rows := [][]string{{"MEMBER", "INSTANCE", "HOST", "HOLDS", "LAG", "IN FLIGHT", "LAST HEARD OF", "LEASE", "STATE"}}
	for _, i := range v.Instances {
		lag, inFlight := fmt.Sprint(i.Lag), fmt.Sprint(i.InFlight)
		if i.Parked { // what it last said is not so any more
			lag, inFlight = "-", "-"
		}
		rows = append(rows, []string{printable(i.Client), i.Instance, printable(i.Host), fmt.Sprint(i.Claims), lag, inFlight, ago(now, i.LastHeartbeat), i.TTL.String(), standing(&i)})
	}
	if len(v.Instances) == 0 {
		fmt.Fprintln(w, "no members")
	} else if err := printTable(w, rows); err != nil {
		return err
	}
	if len(v.Keys) == 0 {
		_, err := fmt.Fprintln(w, "no keys")
		return err
	}
	fmt.Fprintln(w)
	rows = [][]string{{"TOPIC", "PARTITION", "HOLDER", "INSTANCE", "EPOCH", "NEXT", "END", "LAG", "WHY"}}
	for i := range v.Keys {
		rows = append(rows, v.Keys[i].row())
	}
	return printTable(w, rows)
}

// standing is a member's STATE.
func standing(i *marshal.InstanceState) string {
	switch {
	case i.Status == "overdue":
		return "overdue: it looks dead"
	case i.Status == "parked" && i.Overdue:
		return "parked, overdue"
	case i.Status == "parked":
		return "parked: its keys are kept for its next run"
	case i.Status == "replaced":
		return "replaced by its next run"
	}
	return i.Status
}

// mostParts is of how many partitions of a whole topic the table shows the position.
const mostParts = 8

func (v *keyView) row() []string {
	partition, next := fmt.Sprint(v.Partition), fmt.Sprint(v.Next)
	if v.Partition < 0 {
		partition, next = "all", strings.Trim(fmt.Sprint(v.Parts[:min(len(v.Parts), mostParts)]), "[]")
		if len(v.Parts) > mostParts {
			next += " …"
		}
	}
	holder, instance, epoch := printable(v.Client), v.Instance, fmt.Sprint(v.Epoch)
	if v.Instance == "" {
		holder, instance, epoch = "-", "-", "-"
	}
	return []string{printable(v.Topic), partition, holder, instance, epoch, next, fmt.Sprint(v.End), fmt.Sprint(v.Lag), printable(v.Why)}
}

// ago says how long ago something was.
func ago(now, then time.Time) string {
	d := max(0, now.Sub(then))
	if d < time.Second {
		return d.Round(time.Millisecond).String() + " ago"
	}
	return d.Round(time.Second).String() + " ago"
}
