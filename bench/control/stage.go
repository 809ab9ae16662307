package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// stage is where one measurement takes place: a topic, a group, the processes, and what they were handed.
type stage struct {
	ctx        context.Context
	admin      *kgo.Client
	dir        string
	brokers    []string
	topic      string
	partitions int
	group      string

	field *field // whose topic it is; nil: its own
	cast  []*process
	lines timeline
}

// process is one that this program started.
type process struct {
	name    string
	cmd     *exec.Cmd
	orders  io.WriteCloser
	answers *bufio.Reader
	journal *reader
	path    string
	gone    bool
	marks   map[int32]time.Time // newest of each
}

func emptyStage(ctx context.Context, admin *kgo.Client, dir, name string, partitions int) *stage {
	s := &stage{ctx: ctx, admin: admin, dir: dir, brokers: splitAddresses(*brokers), partitions: partitions, lines: make(timeline, partitions)}
	s.group = fmt.Sprintf("control-%s-%d", name, time.Now().UnixNano())
	return s
}

// newStage makes one with a topic of its own.
func newStage(ctx context.Context, admin *kgo.Client, dir, name string, partitions int) (*stage, error) {
	s := emptyStage(ctx, admin, dir, name, partitions)
	s.topic = s.group
	return s, createTopic(ctx, admin, s.topic, partitions)
}

// all lists the topic's partitions.
func (s *stage) all() []int32 {
	all := make([]int32, s.partitions)
	for i := range all {
		all[i] = int32(i)
	}
	return all
}

// start starts this program again, in another role.
func (s *stage) start(name, role, argument string) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{name: name, cmd: exec.Command(self, "-role", role, "-argument", argument), marks: map[int32]time.Time{}}
	p.cmd.Stderr = os.Stderr
	if *roleProfile != "" && role == "member" {
		p.cmd.Args = append(p.cmd.Args, "-cpuprofile", fmt.Sprintf("%s-%s.pprof", *roleProfile, name))
	}
	if p.orders, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	p.answers = bufio.NewReader(out)
	return p, p.cmd.Start()
}

// field is a topic under steady load, for many stages: to make hundreds of partitions, and to remove them, keeps a broker busy for long.
type field struct {
	topic string
	feed  *process // that writes the load
}

// field makes one, once.
func (p *program) field(partitions int) (*field, error) {
	if f := p.fields[partitions]; f != nil {
		return f, nil
	}
	s, err := newStage(p.ctx, p.admin, p.dir, fmt.Sprint(partitions), partitions)
	if err != nil {
		return nil, err
	}
	f := &field{topic: s.topic}
	p.fields[partitions] = f
	if err := warm(p.ctx, p.admin, s.topic, s.all()); err != nil {
		return nil, err
	}
	text, err := json.Marshal(load{Brokers: s.brokers, Topic: s.topic, Partitions: partitions, Period: periods[partitions]})
	if err != nil {
		return nil, err
	}
	f.feed, err = s.start("load", "load", string(text))
	return f, err
}

// close ends the load, and removes the topics.
func (p *program) close() {
	for _, f := range p.fields {
		if f.feed != nil {
			f.feed.end()
		}
		deleteTopic(p.admin, f.topic)
	}
}

// newRun makes a stage on a field.
func (p *program) newRun(client string, partitions int) (*stage, error) {
	f, err := p.field(partitions)
	if err != nil {
		return nil, err
	}
	s := emptyStage(p.ctx, p.admin, p.dir, fmt.Sprintf("%s-%d", client, partitions), partitions)
	s.field, s.topic = f, f.topic
	return s, nil
}

// enter starts a process that may become a member.
func (s *stage) enter(t task) (int, error) {
	t.Brokers, t.Group, t.Topic = s.brokers, s.group, s.topic
	if t.Name == "" {
		t.Name = fmt.Sprint("member", len(s.cast))
	}
	if *logs != "" && t.Client == "ours" {
		t.LogTo = fmt.Sprintf("%s/%s-%s.log", *logs, s.group, t.Name)
	}
	journal, path, err := newReader(s.dir, s.group+"-"+t.Name)
	if err != nil {
		return 0, err
	}
	t.Journal = path
	text, err := json.Marshal(t)
	if err != nil {
		return 0, err
	}
	p, err := s.start(t.Name, "member", string(text))
	if err != nil {
		return 0, err
	}
	p.journal, p.path = journal, path
	s.cast = append(s.cast, p)
	return len(s.cast) - 1, nil
}

// order has a process do something, and gives its answer.
func (s *stage) order(who int, order string) (string, error) {
	p := s.cast[who]
	if _, err := fmt.Fprintln(p.orders, order); err != nil {
		return "", fmt.Errorf("%s: %w", p.name, err)
	}
	answer, err := p.answers.ReadString('\n')
	if err != nil {
		return "", fmt.Errorf("%s ended: %w", p.name, err)
	}
	return strings.TrimSpace(answer), nil
}

// join starts a process and has it join, and gives when it began to.
func (s *stage) join(t task) (who int, at time.Time, err error) {
	if who, err = s.enter(t); err != nil {
		return 0, at, err
	}
	if _, err = s.order(who, orderJoin); err != nil {
		return 0, at, err
	}
	s.look()
	return who, s.cast[who].marks[begun], nil
}

// leave has a process leave, and gives when it began to.
func (s *stage) leave(who int) (time.Time, error) {
	_, err := s.order(who, orderLeave)
	s.look()
	return s.cast[who].marks[leaving], err
}

// kill ends a process as kill -9 does.
func (s *stage) kill(who int) time.Time {
	at := time.Now()
	s.cast[who].kill()
	return at
}

func (p *process) kill() {
	if p.gone {
		return
	}
	p.gone = true
	_ = p.cmd.Process.Signal(syscall.SIGKILL) // it may have ended by itself
	_ = p.cmd.Wait()                          // tells that it was killed
}

// end lets a process go by itself, and helps it after a while.
func (p *process) end() {
	if p.gone {
		return
	}
	_ = p.orders.Close() // it ends with its input
	help := time.AfterFunc(10*time.Second, func() { _ = p.cmd.Process.Kill() })
	_ = p.cmd.Wait() // how it ended does not matter any more
	help.Stop()
	p.gone = true
}

// look reads what is new in the journals.
func (s *stage) look() {
	for who, p := range s.cast {
		p.journal.read(func(at time.Time, partition int32, offset int64) {
			if partition < 0 {
				p.marks[partition] = at
				return
			}
			s.lines[partition] = append(s.lines[partition], handed{at, offset, who})
		})
	}
}

// until looks again and again until a condition holds. It gives false when that takes too long.
func (s *stage) until(limit time.Duration, ok func() bool) (bool, error) {
	again := time.NewTicker(lookEvery)
	defer again.Stop()
	deadline := time.Now().Add(limit)
	for {
		s.look()
		switch {
		case ok():
			return true, nil
		case time.Now().After(deadline):
			return false, nil
		}
		select {
		case <-again.C:
		case <-s.ctx.Done():
			return false, s.ctx.Err()
		}
	}
}

// pass lets time pass.
func (s *stage) pass(d time.Duration) error {
	_, err := s.until(d, func() bool { return false })
	return err
}

// close ends everything that was started.
func (s *stage) close() {
	for _, p := range s.cast {
		p.end()
		p.journal.close()
		_ = os.Remove(p.path) // so that the folder does not grow; it is removed at the end anyway
	}
	if s.field == nil {
		deleteTopic(s.admin, s.topic)
	}
}

const lookEvery = 50 * time.Millisecond

var errNever = errors.New("it never came to rest")
