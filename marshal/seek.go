package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/IBM/sarama"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/internal/kafka"
)

const aboutSeek = `
Sets the position of a topic's partitions for a group, whether it is running or not, and says from where to where. A running member goes on at
the new position within milliseconds; what it has in hand of the old one is void (its Commit gives ErrClaimLost), the rest of the group
does not notice. The command joins the group for a moment, wants nothing, and leaves.

  marshal seek -group orders -topic orders -back 1h              all partitions to where they were an hour ago
  marshal seek -group orders -topic orders -back 1h -n           only say what that would be
  marshal seek -group orders -topic orders -earliest             to the oldest message that is left
  marshal seek -group orders -topic orders -partition 3 -offset 120   one partition, to an offset

One of -offset, -time, -back, -earliest and -latest is to be given. -offset, -time and -back name the next message to read: that offset, or the first that
is not older; the end, where there is none. With -o json it prints one document:
{"group", "topic", "dry_run", "partitions": [{"partition", "from" (-1: not known), "to", "error"}]}.

Exit code 0: all positions are set (or with -n: could be), 1: some were not, the output says which; or none, since there is no such topic,
partition or offset, or the group does not know the topic; 2: the call makes no sense, 3: the brokers or the log could not be reached or read.
`

// target is where partitions are to go.
type target struct {
	at     int64 // a time in Unix ms, sarama.OffsetOldest or sarama.OffsetNewest
	offset int64 // if it is not -1, that is where
}

// moved is one partition of a seek.
type moved struct {
	Partition int32  `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
	Error     string `json:"error,omitempty"`
}

// moves is what a seek does.
type moves struct {
	Group      string  `json:"group"`
	Topic      string  `json:"topic"`
	DryRun     bool    `json:"dry_run"`
	Partitions []moved `json:"partitions"`
}

// seeker is one run of the command.
type seeker struct {
	*tool
	moves
	partition int
	target    target
	force     bool
}

func seek(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	s := &seeker{tool: newTool("seek", aboutSeek, stdout, stderr)}
	f := s.flags
	f.StringVar(&s.Group, "group", "", "`name` of the group")
	f.StringVar(&s.Topic, "topic", "", "`name` of the topic")
	f.IntVar(&s.partition, "partition", -1, "`number` of the partition; -1: all")
	f.BoolVar(&s.DryRun, "n", false, "dry run: say what would be set, and write nothing")
	f.BoolVar(&s.force, "force", false, "set it though the group has no position of that topic and nobody wants it: is its name right?")
	f.Int64("offset", -1, "to this `offset` (with -partition)")
	f.String("time", "", "to the first message at or after a `time` as in 2006-01-02T15:04:05Z")
	f.Duration("back", 0, "to the first message that is not older than that")
	f.Bool("earliest", false, "to the oldest message")
	f.Bool("latest", false, "behind the newest message")
	if err := s.parse(args); err != nil {
		return err
	}
	if err := s.where(time.Now()); err != nil {
		return err
	}
	return s.run(ctx)
}

// where finds out where the partitions are to go.
func (s *seeker) where(now time.Time) error {
	var given []string
	var bad error
	s.target = target{offset: -1}
	s.flags.Visit(func(f *flag.Flag) {
		value := f.Value.(flag.Getter).Get()
		switch f.Name {
		case "offset":
			s.target.offset = value.(int64)
		case "time":
			at, err := time.Parse(time.RFC3339, value.(string))
			if err != nil {
				bad = wrong("-time %s: use a time as in 2006-01-02T15:04:05Z", value)
			}
			s.target.at = max(0, at.UnixMilli())
		case "back":
			if value.(time.Duration) <= 0 {
				bad = wrong("-back %v: it must be above 0", value)
			}
			s.target.at = max(0, now.Add(-value.(time.Duration)).UnixMilli())
		case "earliest":
			s.target.at = sarama.OffsetOldest
		case "latest":
			s.target.at = sarama.OffsetNewest
		default:
			return
		}
		given = append(given, "-"+f.Name)
	})
	switch {
	case bad != nil:
		return bad
	case s.Group == "" || s.Topic == "":
		return wrong("use -group and -topic")
	case len(given) != 1:
		return wrong("use one of -offset, -time, -back, -earliest and -latest, not %d of them", len(given))
	case given[0] == "-offset" && (s.partition < 0 || s.target.offset < 0):
		return wrong("-offset needs -partition, and is 0 or above")
	case s.partition < -1:
		return wrong("-partition %d: there is none", s.partition)
	}
	return nil
}

func (s *seeker) run(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, *s.timeout)
	defer cancel()
	if err := s.aim(ctx); err != nil {
		return err
	}
	if err := s.look(ctx); err != nil {
		return err
	}
	failed := 0
	if !s.DryRun {
		var err error
		if failed, err = s.set(ctx); err != nil {
			return err
		}
	}
	if err := s.print(); err != nil {
		return err
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d positions were not set", failed, len(s.Partitions))
	}
	return nil
}

// aim asks the brokers where each partition is to go.
func (s *seeker) aim(ctx context.Context) error {
	client, err := s.client(ctx)
	if err != nil {
		return err
	}
	defer client.Close()
	topics, err := client.Topics(ctx, s.Topic)
	if err != nil {
		return &unreadableError{err}
	}
	count := len(topics[s.Topic].Partitions)
	switch err := topics[s.Topic].Err; {
	case errors.Is(err, kafka.ErrUnknownTopic):
		return fmt.Errorf("there is no topic %s, or it may not be seen: %w; nothing was set", s.Topic, err)
	case err != nil:
		return &unreadableError{err}
	case s.partition >= count:
		return fmt.Errorf("%s has %d partitions, there is no %d; nothing was set", s.Topic, count, s.partition)
	}
	var qs []kafka.OffsetQuery
	for p := range int32(count) {
		if s.partition < 0 || int(p) == s.partition {
			s.Partitions = append(s.Partitions, moved{Partition: p, From: -1})
			for _, at := range []int64{s.target.at, sarama.OffsetOldest, sarama.OffsetNewest} {
				qs = append(qs, kafka.OffsetQuery{Topic: s.Topic, Partition: p, At: at})
			}
		}
	}
	answers := client.Offsets(ctx, qs)
	for i := range s.Partitions {
		m, to, first, end := &s.Partitions[i], answers[3*i], answers[3*i+1], answers[3*i+2]
		if err := errors.Join(to.Err, first.Err, end.Err); err != nil {
			return &unreadableError{fmt.Errorf("%w; nothing was set", err)}
		}
		m.To = to.Offset
		if to.Offset < 0 {
			m.To = end.Offset
		}
		if s.target.offset >= 0 {
			m.To = s.target.offset
		}
		if m.To < first.Offset || m.To > end.Offset {
			return fmt.Errorf("%s/%d has offsets %d to %d, not %d; nothing was set", s.Topic, m.Partition, first.Offset, end.Offset, m.To)
		}
	}
	return nil
}

// look finds out where the group stands, without a trace.
func (s *seeker) look(ctx context.Context) error {
	c, end, err := s.dial(ctx, marshal.WithAllGroups())
	if err != nil {
		return err
	}
	defer end()
	known := false
	for _, state := range c.State() {
		if state.Group != s.Group {
			continue
		}
		known = state.Unreadable != "" // who joins may find out more
		for i := range state.Keys {
			if k := &state.Keys[i]; k.Topic == s.Topic {
				known = true
				s.from(k)
			}
		}
	}
	if !known && !s.force {
		return fmt.Errorf("group %s has no position of topic %s in %s, and no member of it wants the topic: is that its name? See marshal state; -force sets it all the same", s.Group, s.Topic, *s.topic)
	}
	return nil
}

// from notes where the partitions of a key stand.
func (s *seeker) from(k *marshal.KeyState) {
	first, next := partitions(k)
	for i := range s.Partitions {
		if n := int(s.Partitions[i].Partition - first); n >= 0 && n < len(next) {
			s.Partitions[i].From = next[n]
		}
	}
}

// set sets the positions, one after the other, and counts those that could not be set.
func (s *seeker) set(ctx context.Context) (failed int, err error) {
	c, end, err := s.dial(ctx)
	if err != nil {
		return 0, err
	}
	defer end()
	m, err := c.NewMarshalerContext(ctx, "marshal-seek-"+rand.Text()[:8], s.Group)
	if err != nil {
		return 0, &unreadableError{err}
	}
	for i := range s.Partitions {
		p := &s.Partitions[i]
		if err := m.Seek(ctx, s.Topic, p.Partition, p.To); err != nil {
			p.Error = err.Error()
			failed++
		}
	}
	return failed, nil
}

func (s *seeker) print() error {
	if s.json() {
		return printJSON(s.stdout, s.moves)
	}
	rows := [][]string{{"TOPIC", "PARTITION", "FROM", "TO", ""}}
	for _, p := range s.Partitions {
		note := printable(p.Error)
		if s.DryRun {
			note = "not set: dry run"
		}
		rows = append(rows, []string{s.Topic, fmt.Sprint(p.Partition), strings.Replace(fmt.Sprint(p.From), "-1", "unknown", 1), fmt.Sprint(p.To), note})
	}
	return printTable(s.stdout, rows)
}
