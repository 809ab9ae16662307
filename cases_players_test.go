package marshal

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// What the tests of failure cases (TestC01 and so on) share: members played by the test, and worker processes that it can stop and kill.

// forged is a member that a test plays: it writes what the test wants, when the test wants it.
type forged struct {
	b    *bench
	id   lease.InstanceID
	seq  uint64
	ttl  time.Duration
	skew time.Duration // of the clock that stamps its records, where the topic has CreateTime
}

// forge gives one that has not joined.
func (b *bench) forge(id byte) *forged {
	return &forged{b: b, id: lease.InstanceID{id, id, id}, ttl: testTTL}
}

// write appends its next record and gives the offset.
func (f *forged) write(r lease.Record) int64 {
	f.b.t.Helper()
	f.seq++
	r.Instance, r.Seq, r.Version = f.id, f.seq, lease.WireVersion
	at, err := f.b.Produce(MarshalTopic, shardOf(testGroup), testutil.Message{
		Key: []byte(testGroup), Value: appendRecord(nil, &r), Time: time.Now().Add(f.skew),
	})
	require.NoError(f.b.t, err)
	return at
}

func (f *forged) join(client string, interests ...lease.Interest) int64 {
	f.b.t.Helper()
	return f.write(lease.Record{Kind: lease.KindJoin, Join: lease.Join{
		Client: client, TTL: f.ttl, MaxVersion: lease.WireVersion, TokenBase: time.Now().UnixMilli() << 20, Interests: interests,
	}})
}

// claim gives the offset, which is the epoch where it is granted.
func (f *forged) claim(keys ...lease.Key) int64 {
	f.b.t.Helper()
	return f.write(lease.Record{Kind: lease.KindClaim, Claim: lease.Claim{Keys: keys}})
}

// beat is a heartbeat that says nothing.
func (f *forged) beat() int64 {
	f.b.t.Helper()
	return f.write(lease.Record{Kind: lease.KindHeartbeat, Heartbeat: lease.Heartbeat{P: -1}})
}

// beatAt is a heartbeat with the position of a partition.
func (f *forged) beatAt(k lease.Key, epoch, next int64) int64 {
	f.b.t.Helper()
	return f.write(lease.Record{Kind: lease.KindHeartbeat, Heartbeat: lease.Heartbeat{P: -1, Topics: []lease.TopicProgress{
		{Topic: k.Topic, Partitions: []int32{k.Partition}, Epochs: []int64{epoch}, Next: []int64{next}},
	}}})
}

// releaseAt gives a partition back.
func (f *forged) releaseAt(k lease.Key, epoch, next int64) int64 {
	f.b.t.Helper()
	return f.write(lease.Record{Kind: lease.KindRelease, Release: lease.Release{Keys: []lease.ReleasedKey{
		{Key: k, Epoch: epoch, Partitions: []int32{k.Partition}, Next: []int64{next}},
	}}})
}

// puppet is a worker in a process of its own.
type puppet struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.Closer
	wg  sync.WaitGroup

	mu    sync.Mutex
	lines [][]string
}

// puppetry says what a puppet is to do: it reads each topic by a Consumer of its own, in the way that is named beside it (channel,
// fetch, messages or batches), works for Pace on a message, and commits it.
type puppetry struct {
	Brokers       []string
	Client, Group string
	TTL, Pace     time.Duration
	Topics        map[string]string
	Options       ConsumerOptions
}

const puppetVariable = "MARSHAL_TEST_PUPPET"

// servePuppet is the first thing that the program of these tests does: as a puppet it works, and ends with who started it.
func servePuppet() {
	text, asked := os.LookupEnv(puppetVariable)
	if !asked {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // until the other end of the pipe is gone
		os.Exit(1)
	})
	var p puppetry
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		panic(err)
	}
	p.serve()
	os.Exit(0)
}

// serve tells what happens, a line each: "handed", topic, offset, token; "commit", topic, offset, token, error; "again" is the same of
// the newest message of before, once the first under another token is there; "event", topic, what happened to a claim; "terminated", topic,
// what Terminate(true) gave.
func (p *puppetry) serve() {
	var out sync.Mutex
	say := func(words ...any) {
		out.Lock()
		defer out.Unlock()
		text := make([]string, len(words))
		for i, w := range words {
			text[i] = fmt.Sprint(w)
		}
		_, _ = os.Stdout.WriteString(strings.Join(text, "\t") + "\n")
	}
	log := logrus.New()
	log.Out = os.Stderr
	m, err := NewMarshaler(p.Client, p.Group, p.Brokers, WithLease(p.TTL, 0), WithLogger(log))
	if err != nil {
		panic(err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	var wg sync.WaitGroup
	events := m.Events(context.Background())
	wg.Go(func() {
		for e := range events {
			if e.Topic != "" {
				say("event", e.Topic, e.Kind)
			}
		}
	})
	var reading sync.WaitGroup
	for topic, way := range p.Topics {
		c, err := m.NewConsumer([]string{topic}, p.Options)
		if err != nil {
			panic(err)
		}
		context.AfterFunc(ctx, func() { say("terminated", topic, c.Terminate(true)) })
		var last *Message
		work := func(m *Message, commit func() error) {
			say("handed", topic, m.Offset, m.Token())
			if last != nil && last.Token() != m.Token() {
				say("again", topic, last.Offset, last.Token(), last.Commit())
			}
			<-time.After(p.Pace)
			say("commit", topic, m.Offset, m.Token(), commit())
			last = m
		}
		reading.Go(func() {
			switch way {
			case "channel":
				for m := range c.ConsumeChannel() {
					work(m, m.Commit)
				}
			case "fetch":
				for m, err := c.FetchMessage(ctx); err == nil; m, err = c.FetchMessage(ctx) {
					work(m, func() error { return c.CommitMessages(ctx, m) })
				}
			case "messages":
				for m, err := range c.Messages(ctx) {
					if err == nil {
						work(m, m.Commit)
					}
				}
			case "batches":
				for b, err := range c.Batches(ctx) {
					if err == nil {
						work(&b.Messages[len(b.Messages)-1], b.Commit)
					}
				}
			}
		})
	}
	reading.Wait()
	m.Terminate()
	wg.Wait()
}

// puppet starts one. It is killed when the test ends.
func (b *bench) puppet(p puppetry) *puppet {
	b.t.Helper()
	p.Brokers, p.Group = b.Addrs(), testGroup
	text, err := json.Marshal(p)
	require.NoError(b.t, err)
	self, err := os.Executable()
	require.NoError(b.t, err)
	x := &puppet{t: b.t, cmd: exec.Command(self)}
	x.cmd.Env = append(os.Environ(), puppetVariable+"="+string(text))
	out, err := x.cmd.StdoutPipe()
	require.NoError(b.t, err)
	x.in, err = x.cmd.StdinPipe()
	require.NoError(b.t, err)
	x.cmd.Stderr = testWriter{b.t}
	require.NoError(b.t, x.cmd.Start())
	x.wg.Go(func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			x.mu.Lock()
			x.lines = append(x.lines, strings.Split(lines.Text(), "\t"))
			x.mu.Unlock()
		}
		_ = x.cmd.Wait() // it may have been killed
	})
	b.t.Cleanup(x.kill)
	return x
}

func (x *puppet) signal(s syscall.Signal) {
	x.t.Helper()
	require.NoError(x.t, x.cmd.Process.Signal(s))
}

func (x *puppet) kill() {
	if err := x.cmd.Process.Kill(); !errors.Is(err, os.ErrProcessDone) {
		assert.NoError(x.t, err)
	}
	x.wg.Wait()
}

// said gives what it told from a line on, of one kind and topic.
func (x *puppet) said(from int, kind, topic string) (lines [][]string) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.lines[from:] {
		if l[0] == kind && l[1] == topic {
			lines = append(lines, l[2:])
		}
	}
	return lines
}

// now is the number of its next line.
func (x *puppet) now() int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return len(x.lines)
}
