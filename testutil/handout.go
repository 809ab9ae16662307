package testutil

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// HandoutLog is what one run of one process writes down for the judge: every message it was handed, every message it
// was done with, and what happened to it. Each call is one write to the file, so kill -9 loses at most the line being
// written. Safe for concurrent use.
//
// A line is a letter and fields with a blank between them; times are Now:
//
//	p <process> <client id>
//	h <before> <after> <topic> <partition> <token> <first offset> <last offset>
//	c <at> <topic> <partition> <token> <first offset> <last offset>
//	k <since> <noted> <topic> <partition> <token>
//	x <since> <noted> <topic> <partition> <token>
//	e <at> <event> <process>
type HandoutLog struct {
	process string

	mu  sync.Mutex
	f   *os.File
	buf []byte
	err error
}

// Event is what happened to a process.
type Event string

// The events. Killed, Frozen and Woken excuse messages that come twice; the one who does it notes it just before.
const (
	Started Event = "started" // the process runs
	Ready   Event = "ready"   // it has its first claims, where somebody wants to know
	Ending  Event = "ending"  // asked to end: it drains
	Ended   Event = "ended"   // it ended of its own accord
	Killed  Event = "killed"  // by SIGKILL
	Frozen  Event = "frozen"  // by SIGSTOP, or cut off
	Woken   Event = "woken"   // by SIGCONT, or connected again
	Offered Event = "offered" // not an event: it reads ConsumeChannel, which may give one message late after a freeze
)

// OpenHandoutLog makes the log of one run. process names that run, and no other: a process that is restarted under its
// old client id gets another name.
func OpenHandoutLog(dir, process, clientID string) (*HandoutLog, error) {
	if process == "" || strings.ContainsAny(process, " \n/") || strings.ContainsAny(clientID, " \n") {
		return nil, fmt.Errorf("hand-out log of %q (%q): names have no blank and no slash", process, clientID)
	}
	f, err := os.OpenFile(filepath.Join(dir, process+logSuffix), os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("hand-out log: %w", err)
	}
	l := &HandoutLog{process: process, f: f}
	l.write(func(b []byte) []byte { return fmt.Appendf(b, "p %s %s\n", process, clientID) })
	return l, l.Err()
}

const logSuffix = ".handouts"

// Handout notes one message. before and after are Now around the call that gave it.
func (l *HandoutLog) Handout(before, after int64, topic string, partition int32, token, offset int64) {
	l.Handouts(before, after, topic, partition, token, offset, offset)
}

// Handouts notes a run of messages, first to last, that one call gave.
func (l *HandoutLog) Handouts(before, after int64, topic string, partition int32, token, first, last int64) {
	l.write(func(b []byte) []byte {
		b = append(b, 'h', ' ')
		b = append(strconv.AppendInt(b, before, 10), ' ')
		return appendRun(b, after, topic, partition, token, first, last)
	})
}

// Finished notes that the work on messages first to last is done. It is called before their Commit, so that what is
// committed is always noted.
func (l *HandoutLog) Finished(topic string, partition int32, token, first, last int64) {
	l.write(func(b []byte) []byte {
		return appendRun(append(b, 'c', ' '), Now(), topic, partition, token, first, last)
	})
}

// Held notes that this process has a key (partition -1: a whole topic) under a token. since is when it learned of it; what is
// noted later by others was noted after now.
func (l *HandoutLog) Held(since int64, topic string, partition int32, token int64) {
	l.holding('k', since, topic, partition, token)
}

// Over notes that this process has a key no longer.
func (l *HandoutLog) Over(since int64, topic string, partition int32, token int64) {
	l.holding('x', since, topic, partition, token)
}

func (l *HandoutLog) holding(kind byte, since int64, topic string, partition int32, token int64) {
	l.write(func(b []byte) []byte {
		return fmt.Appendf(b, "%c %d %d %s %d %d\n", kind, since, Now(), topic, partition, token)
	})
}

// Note notes what happened to this process.
func (l *HandoutLog) Note(e Event) { l.NoteOf(l.process, e) }

// NoteOf notes what happened to another process, by the one who did it.
func (l *HandoutLog) NoteOf(process string, e Event) {
	l.write(func(b []byte) []byte { return fmt.Appendf(b, "e %d %s %s\n", Now(), e, process) })
}

func appendRun(b []byte, at int64, topic string, partition int32, token, first, last int64) []byte {
	b = append(strconv.AppendInt(b, at, 10), ' ')
	b = append(append(b, topic...), ' ')
	b = append(strconv.AppendInt(b, int64(partition), 10), ' ')
	b = append(strconv.AppendInt(b, token, 10), ' ')
	b = append(strconv.AppendInt(b, first, 10), ' ')
	return append(strconv.AppendInt(b, last, 10), '\n')
}

func (l *HandoutLog) write(line func([]byte) []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return
	}
	l.buf = line(l.buf[:0])
	_, l.err = l.f.Write(l.buf)
}

// Err is the first error of writing. A log that has one is worth nothing.
func (l *HandoutLog) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// Close closes the file and gives the first error there was.
func (l *HandoutLog) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return errors.Join(l.err, l.f.Close())
}

// Place is a partition of a topic.
type Place struct {
	Topic     string
	Partition int32
}

func (p Place) String() string { return fmt.Sprintf("%s/%d", p.Topic, p.Partition) }

// Handout is one call that gave messages: it began Before and ended After.
type Handout struct {
	Place
	Before, After int64
	Token         int64
	First, Last   int64
}

// Finish is work that was done: messages First to Last.
type Finish struct {
	Place
	At          int64
	Token       int64
	First, Last int64
}

// Holding is a key that a process began to have, or has no longer. It was told of it at Since and had written that down at Noted.
type Holding struct {
	Place        // Partition -1: the whole topic
	Since, Noted int64
	Token        int64
	Over         bool
}

// Happening is an event and whom it happened to.
type Happening struct {
	At      int64
	What    Event
	Process string
}

// ProcessLog is what one run of one process wrote down.
type ProcessLog struct {
	Process, Client string
	Handouts        []Handout
	Finishes        []Finish
	Holdings        []Holding
	Happenings      []Happening
	Torn            bool // the last line was not complete
}

// ReadHandoutLogs reads all logs of a folder, in the order of their names.
func ReadHandoutLogs(dir string) ([]ProcessLog, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+logSuffix))
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	var logs []ProcessLog
	for _, name := range names {
		l, err := readFile(name)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", filepath.Base(name), err)
		}
		logs = append(logs, l)
	}
	return logs, nil
}

func readFile(name string) (ProcessLog, error) {
	f, err := os.Open(name)
	if err != nil {
		return ProcessLog{}, err
	}
	defer f.Close()
	return ReadHandoutLog(f)
}

// ReadHandoutLog reads one log. A last line without its end is left out; any other line that makes no sense is an error.
func ReadHandoutLog(r io.Reader) (ProcessLog, error) {
	var l ProcessLog
	in := bufio.NewReaderSize(r, 1<<16)
	topics := make(map[string]string)
	for n := 1; ; n++ {
		line, err := in.ReadSlice('\n')
		if errors.Is(err, io.EOF) {
			l.Torn = len(line) > 0
			return l, nil
		}
		if err != nil {
			return l, fmt.Errorf("line %d: %w", n, err)
		}
		if err := l.add(bytes.Fields(line), topics); err != nil {
			return l, fmt.Errorf("line %d (%q): %w", n, line, err)
		}
	}
}

var errLine = errors.New("not a line of a hand-out log")

// add takes one line. topics keeps one string for each topic.
func (l *ProcessLog) add(f [][]byte, topics map[string]string) error {
	if len(f) == 0 {
		return errLine
	}
	switch kind := string(f[0]); {
	case kind == "p" && len(f) >= 2 && len(f) <= 3:
		l.Process = string(f[1])
		if len(f) == 3 {
			l.Client = string(f[2])
		}
	case kind == "h" && len(f) == 8:
		before, err := strconv.ParseInt(string(f[1]), 10, 64)
		if err != nil {
			return err
		}
		r, err := parseRun(f[2:], topics)
		if err != nil {
			return err
		}
		l.Handouts = append(l.Handouts, Handout{r.Place, before, r.At, r.Token, r.First, r.Last})
	case kind == "c" && len(f) == 7:
		r, err := parseRun(f[1:], topics)
		if err != nil {
			return err
		}
		l.Finishes = append(l.Finishes, r)
	case (kind == "k" || kind == "x") && len(f) == 6:
		var n [4]int64
		for i, b := range [...][]byte{f[1], f[2], f[4], f[5]} {
			v, err := strconv.ParseInt(string(b), 10, 64)
			if err != nil {
				return err
			}
			n[i] = v
		}
		place := Place{intern(topics, f[3]), int32(n[2])}
		l.Holdings = append(l.Holdings, Holding{Place: place, Since: n[0], Noted: n[1], Token: n[3], Over: kind == "x"})
	case kind == "e" && len(f) == 4:
		at, err := strconv.ParseInt(string(f[1]), 10, 64)
		if err != nil {
			return err
		}
		l.Happenings = append(l.Happenings, Happening{at, Event(f[2]), string(f[3])})
	default:
		return errLine
	}
	return nil
}

// parseRun reads what appendRun wrote.
func parseRun(f [][]byte, topics map[string]string) (Finish, error) {
	var n [6]int64
	for i, b := range f {
		if i == 1 {
			continue
		}
		v, err := strconv.ParseInt(string(b), 10, 64)
		if err != nil {
			return Finish{}, err
		}
		n[i] = v
	}
	if n[5] < n[4] {
		return Finish{}, errLine
	}
	return Finish{Place{intern(topics, f[1]), int32(n[2])}, n[0], n[3], n[4], n[5]}, nil
}

func intern(topics map[string]string, name []byte) string {
	topic, ok := topics[string(name)]
	if !ok {
		topic = string(name)
		topics[topic] = topic
	}
	return topic
}
