//go:build integration

package integration

import (
	"fmt"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
	"github.com/kafka-marshal/marshal/testutil/workers"
)

const steady = 20 * time.Millisecond // between two messages of a partition

// Four processes, each with another way to read, share a topic; a fifth comes late; one ends.
func TestClaimBalanceAndJoin(t *testing.T) {
	on(t, oneBroker|threeBrokers|embedded)
	s := open(t)
	topic := s.topic("t", 12, nil)
	s.load(topic, 12, steady)
	begun := time.Now()
	var first *workers.Process
	for i, read := range []workers.Reading{workers.Fetch, workers.Channel, workers.Messages, workers.Batches} {
		p := s.start(s.worker(fmt.Sprint("w", i), []string{topic}, func(w *workers.Worker) { w.Read = read }))
		if i == 0 {
			first = p
		}
	}
	s.balanced(4, 12)
	figure(t, "4 processes started together share 12 partitions after %v", time.Since(begun).Round(time.Millisecond))
	s.rest(2 * time.Second)
	before := s.look()
	begun = time.Now()
	s.start(s.worker("late", []string{topic}))
	s.until("it is there", func(v view) bool { _, joined := v.holds["late"]; return joined })
	joined := time.Since(begun)
	s.balanced(5, 12)
	figure(t, "a late process has its share %v after its start, %v after it has joined; %d partitions moved",
		time.Since(begun).Round(time.Millisecond), (time.Since(begun) - joined).Round(time.Millisecond), moved(before, s.look()))
	assert.Equal(t, 2, moved(before, s.look()), "only what the newcomer gets")
	s.rest(time.Second)
	begun = time.Now()
	s.term(first)
	figure(t, "a process with %d partitions ends %v after SIGTERM", before.holds["w0"], time.Since(begun).Round(time.Millisecond))
	s.balanced(4, 12)
	s.finish()
	v := s.judge()
	assert.Zero(t, v.Duplicates)
	figure(t, "planned hand-overs between processes: %s", spread(handovers(v)))
}

// moved counts the keys that have another owner.
func moved(before, after view) int {
	n := 0
	for k, client := range after.owner {
		if before.owner[k] != client {
			n++
		}
	}
	return n
}

func handovers(v *testutil.Verdict) []time.Duration {
	var took []time.Duration
	for _, h := range v.Handovers {
		took = append(took, h.Took)
	}
	return took
}

// One of two partitions goes to a member that joins and comes back when it leaves, again and again, in several groups at
// once. There are always messages to read, each takes half a millisecond of work, and there are more hands than partitions, so
// that no partition waits for the work on another.
func TestHandover(t *testing.T) {
	on(t, oneBroker|threeBrokers|embedded)
	const groups = 4
	rounds := 70
	if real() == nil {
		rounds = 8
	}
	var mu sync.Mutex
	var took, control []time.Duration
	var duplicates int64
	t.Run("groups", func(t *testing.T) {
		for g := range groups {
			t.Run(fmt.Sprint(g), func(t *testing.T) {
				t.Parallel()
				s := open(t, ttl(3*time.Second)) // a newcomer waits less for membership to be still; the rest is as with 10 s
				topic := s.topic("t", 2, nil)
				s.fill(topic, 2, 5_000)
				busy := func(w *workers.Worker) { w.Readers, w.Pace, w.Options.StrictOrdering = 4, 500*time.Microsecond, true }
				s.join(s.worker("a", []string{topic}, busy))
				s.balanced(1, 2)
				for i := range rounds {
					s.fill(topic, 2, 600)
					m := s.join(s.worker(fmt.Sprint("b", i), []string{topic}, busy))
					s.balanced(2, 2)
					s.wait("it reads", func() bool { return m.Handed() > 20 })
					s.leave(m)
					s.balanced(1, 2)
				}
				s.finish()
				v := s.judge()
				mu.Lock()
				defer mu.Unlock()
				took, control = append(took, handovers(v)...), append(control, s.appends...)
				duplicates += v.Duplicates
			})
		}
	})
	assert.Zero(t, duplicates)
	figure(t, "planned hand-over of one partition, last message at A to first at B: %s", spread(took))
	figure(t, "the control, one append of 600 messages with acks=all, beside it: %s", spread(control))
}

// kill -9 of one of two processes, in several groups at once. A lease counts from its last heartbeat.
func TestCrash(t *testing.T) {
	apart(t)
	const groups, partitions = 5, 8
	var mu sync.Mutex
	var beyond, took []time.Duration
	t.Run("groups", func(t *testing.T) {
		for g := range groups {
			t.Run(fmt.Sprint(g), func(t *testing.T) {
				apart(t)
				s := open(t)
				topic := s.topic("t", partitions, nil)
				s.load(topic, partitions, steady)
				victim := s.start(s.worker("victim", []string{topic}))
				s.start(s.worker("survivor", []string{topic}))
				s.balanced(2, partitions)
				s.watcher.Terminate()                                // it would help
				s.rest(time.Duration(2000+400*g) * time.Millisecond) // anywhere between two heartbeats
				killed := testutil.Now()
				s.kill(victim)
				s.wait("all partitions at the survivor", func() bool { return s.reads("survivor", killed) == partitions })
				s.watcher = s.marshaler("watcher")
				s.finish()
				v := s.judge()
				require.NotEmpty(t, v.Failovers)
				assert.NotZero(t, s.said(declaredDead))
				mu.Lock()
				defer mu.Unlock()
				for _, f := range v.Failovers {
					took, beyond = append(took, f.Took), append(beyond, f.Took-s.ttl)
				}
			})
		}
	})
	require.NotEmpty(t, beyond)
	figure(t, "kill -9 to the successor's first message: %s; longest beyond the lease %v (the bar is 300ms)", spread(took), slices.Max(beyond).Round(100*time.Microsecond))
	assert.Less(t, slices.Max(beyond), 2*time.Second)
}

// reads counts the partitions of which a process was handed a message after a moment.
func (s *stage) reads(process string, since int64) int {
	s.t.Helper()
	logs, err := testutil.ReadHandoutLogs(s.dir)
	require.NoError(s.t, err)
	seen := map[testutil.Place]bool{}
	for _, l := range logs {
		for _, h := range l.Handouts {
			if l.Process == process && h.After > since {
				seen[h.Place] = true
			}
		}
	}
	return len(seen)
}

// A process frozen for longer than its lease, which wakes up and joins again.
func TestFreeze(t *testing.T) {
	apart(t)
	s := open(t, ttl(3*time.Second))
	topic := s.topic("t", 6, nil)
	s.load(topic, 6, steady)
	for _, read := range []workers.Reading{workers.Fetch, workers.Channel, workers.Messages} {
		s.start(s.worker(string(read), []string{topic}, func(w *workers.Worker) { w.Read = read }))
	}
	s.balanced(3, 6)
	s.rest(time.Second)
	for i, p := range s.running() {
		s.notes.NoteOf(p.Process, testutil.Frozen)
		require.NoError(t, p.Signal(syscall.SIGSTOP))
		s.balanced(2, 6)
		s.rest(500 * time.Millisecond)
		s.notes.NoteOf(p.Process, testutil.Woken)
		begun := time.Now()
		require.NoError(t, p.Signal(syscall.SIGCONT))
		s.balanced(3, 6)
		if i == 0 {
			figure(t, "a process that wakes up has a share again after %v", time.Since(begun).Round(time.Millisecond))
		}
		s.rest(500 * time.Millisecond)
	}
	s.finish()
	assert.Equal(t, 3, s.said(died), "each time it was declared dead")
	v := s.judge()
	figure(t, "frozen three times: overlaps=%d duplicates=%d (all within what was not yet known)", v.Overlaps, v.Duplicates)
}

// A topic goes to one process as a whole.
func TestWholeTopic(t *testing.T) {
	apart(t)
	s := open(t, ttl(3*time.Second))
	var topics []string
	for i := range 4 {
		topic := s.topic(fmt.Sprint("t", i), 3, nil)
		s.load(topic, 3, steady)
		topics = append(topics, topic)
	}
	whole := func(w *workers.Worker) { w.Options.ClaimEntireTopic = true }
	s.start(s.worker("a", topics, whole))
	s.balanced(1, 4)
	b := s.start(s.worker("b", topics, whole))
	s.balanced(2, 4)
	c := s.start(s.worker("c", topics, whole))
	s.balanced(3, 4)
	s.rest(time.Second)
	s.kill(b)
	s.balanced(2, 4)
	s.term(c)
	s.balanced(1, 4)
	s.finish()
	v := s.judge()
	owners := map[string]map[int64]string{} // of a topic, by token
	logs, err := testutil.ReadHandoutLogs(s.dir)
	require.NoError(t, err)
	for _, l := range logs {
		for _, h := range l.Handouts {
			if owners[h.Topic] == nil {
				owners[h.Topic] = map[int64]string{}
			}
			if was, ok := owners[h.Topic][h.Token]; ok {
				require.Equal(t, was, l.Process, "all partitions of %s under token %d", h.Topic, h.Token)
			}
			owners[h.Topic][h.Token] = l.Process
		}
	}
	figure(t, "whole topics: %d planned hand-overs of a partition %s", len(v.Handovers), spread(handovers(v)))
}
