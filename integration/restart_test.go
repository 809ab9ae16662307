//go:build integration

package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
	"github.com/kafka-marshal/marshal/testutil/workers"
)

// kill -9 and a restart at once under the same client id, with FastReclaim.
func TestFastReclaim(t *testing.T) {
	on(t, oneBroker|embedded)
	s := open(t)
	const partitions, rounds = 8, 5
	topic := s.topic("t", partitions, nil)
	s.load(topic, partitions, steady)
	fast := func(w *workers.Worker) { w.Options.FastReclaim = true }
	s.start(s.worker("other", []string{topic}, fast))
	p := s.start(s.worker("a0", []string{topic}, fast, as("a")))
	s.balanced(2, partitions)
	s.rest(2 * time.Second)
	before := s.look()
	for i := range rounds {
		s.rest(time.Duration(500+300*i) * time.Millisecond)
		was := s.look()
		s.kill(p)
		p = s.start(s.worker(fmt.Sprint("a", i+1), []string{topic}, fast, as("a")))
		s.until("its keys are with its new run", func(v view) bool { return v.even(2, partitions) && v.renewed(was, "a") })
	}
	assert.Zero(t, moved(before, s.look()), "each kept its own")
	s.finish()
	v := s.judge()
	var took []time.Duration
	for _, f := range v.Failovers {
		assert.True(t, f.Restart, "%v went to %s", f.Place, f.To)
		took = append(took, f.Took)
	}
	require.NotEmpty(t, took)
	figure(t, "kill -9 to the next run's first message, with the start of its process: %s", spread(took))
	assert.Less(t, slices.Max(took), s.ttl, "without waiting for the lease")
}

// Terminate(false), and a restart within the grace: nothing moves.
func TestPark(t *testing.T) {
	on(t, oneBroker|embedded)
	s := open(t, ttl(3*time.Second))
	const partitions = 6
	topic := s.topic("t", partitions, nil)
	s.load(topic, partitions, steady)
	keep := func(w *workers.Worker) { w.Keep, w.Options.RestartGrace = true, 10*time.Second }
	s.start(s.worker("b", []string{topic}))
	p := s.start(s.worker("a0", []string{topic}, keep, as("a")))
	s.balanced(2, partitions)
	s.rest(time.Second)
	before := s.look()
	for i := range 3 {
		was := s.look()
		s.term(p)
		s.until("a parked member", func(v view) bool { return v.parked > 0 && v.members == 1 })
		s.rest(500 * time.Millisecond)
		p = s.start(s.worker(fmt.Sprint("a", i+1), []string{topic}, keep, as("a")))
		s.until("its keys again", func(v view) bool { return v.even(2, partitions) && v.renewed(was, "a") })
		s.rest(500 * time.Millisecond)
	}
	assert.Zero(t, moved(before, s.look()))
	s.finish()
	v := s.judge()
	assert.LessOrEqual(t, v.Duplicates, int64(4), "one may be in hand at each end, and its commit refused")
	figure(t, "parked, and back 0.5 s after its end, with the start of its process: stood still %s; 0 moved", spread(s.standstills(0)))
}

// Nobody comes back: the others have the keys after the grace, and not before.
func TestParkThatRunsOut(t *testing.T) {
	apart(t)
	s := open(t, ttl(2*time.Second))
	const partitions, grace = 6, 4 * time.Second
	topic := s.topic("t", partitions, nil)
	s.load(topic, partitions, steady)
	s.start(s.worker("b", []string{topic}))
	p := s.start(s.worker("a", []string{topic}, func(w *workers.Worker) { w.Keep, w.Options.RestartGrace = true, grace }))
	s.balanced(2, partitions)
	s.rest(time.Second)
	begun := time.Now()
	s.term(p)
	s.balanced(1, partitions)
	took := time.Since(begun)
	s.finish()
	s.judge()
	figure(t, "keys of a parked member are with others after %v, with a grace of %v", took.Round(time.Millisecond), grace)
	assert.Greater(t, took, grace-100*time.Millisecond)
	assert.Less(t, took, grace+2*s.ttl)
}

// standstills are how long partitions stood still between two claims, whoever had them, of which the second began after a moment.
func (s *stage) standstills(since int64) []time.Duration {
	s.t.Helper()
	logs, err := testutil.ReadHandoutLogs(s.dir)
	require.NoError(s.t, err)
	type claim struct{ token, first, last int64 }
	claims := map[testutil.Place]map[int64]*claim{}
	for _, l := range logs {
		for _, h := range l.Handouts {
			byToken := claims[h.Place]
			if byToken == nil {
				byToken = map[int64]*claim{}
				claims[h.Place] = byToken
			}
			c := byToken[h.Token]
			if c == nil {
				c = &claim{h.Token, h.After, h.After}
				byToken[h.Token] = c
			}
			c.first, c.last = min(c.first, h.After), max(c.last, h.After)
		}
	}
	var took []time.Duration
	for _, byToken := range claims {
		var all []*claim
		for _, c := range byToken {
			all = append(all, c)
		}
		slices.SortFunc(all, func(a, b *claim) int { return int(a.token - b.token) })
		for i := 1; i < len(all); i++ {
			if all[i].first > since {
				took = append(took, time.Duration(all[i].first-all[i-1].last))
			}
		}
	}
	return took
}

// Six processes are replaced one after the other.
func TestRollingRestartWithRelease(t *testing.T) { rolling(t, false) }

func TestRollingRestartWithGrace(t *testing.T) { rolling(t, true) }

func rolling(t *testing.T, keep bool) {
	on(t, oneBroker|embedded)
	const fleetSize, partitions = 6, 24
	s := open(t)
	topic := s.topic("t", partitions, nil)
	s.load(topic, partitions, 2*steady)
	as := func(i, run int) workers.Worker {
		return s.worker(fmt.Sprintf("w%d-%d", i, run), []string{topic}, as(fmt.Sprint("w", i)), func(w *workers.Worker) { w.Keep = keep })
	}
	var old []*workers.Process
	for i := range fleetSize {
		old = append(old, s.start(as(i, 0)))
	}
	s.balanced(fleetSize, partitions)
	s.rest(2 * time.Second)
	begun, since := time.Now(), testutil.Now()
	for i, p := range old {
		was := s.look()
		s.term(p)
		s.start(as(i, 1))
		s.until("its next run at work", func(v view) bool { return v.even(fleetSize, partitions) && (!keep || v.renewed(was, p.Client)) })
	}
	took := time.Since(begun)
	s.finish()
	v := s.judge()
	// By release what a process holds has to go to others, and as much to its successor. What is kept need not move at all.
	logs, err := testutil.ReadHandoutLogs(s.dir)
	require.NoError(t, err)
	moves, least := changes(logs, since), 0
	if !keep {
		least = 2 * partitions
	}
	figure(t, "%d processes in %v; partitions stood still %s; %d moves from one client id to another, %d of them need not have been",
		fleetSize, took.Round(10*time.Millisecond), spread(s.standstills(since)), moves, max(moves-least, 0))
	if keep {
		assert.Zero(t, moves, "everybody gets his own again")
	}
	if keep {
		assert.LessOrEqual(t, v.Duplicates, int64(2*fleetSize), "one may be in hand at each end, and its commit refused")
	} else {
		assert.Zero(t, v.Duplicates)
	}
}

// changes counts how often a partition went from one client id to another after a moment.
func changes(logs []testutil.ProcessLog, since int64) int {
	type turn struct {
		token  int64
		client string
		first  int64
	}
	turns := map[testutil.Place][]turn{}
	seen := map[testutil.Place]map[int64]bool{}
	for _, l := range logs {
		for _, h := range l.Handouts {
			if seen[h.Place] == nil {
				seen[h.Place] = map[int64]bool{}
			}
			if !seen[h.Place][h.Token] {
				seen[h.Place][h.Token] = true
				turns[h.Place] = append(turns[h.Place], turn{h.Token, l.Client, h.After})
			}
		}
	}
	n := 0
	for _, all := range turns {
		slices.SortFunc(all, func(a, b turn) int { return int(a.token - b.token) })
		for i := 1; i < len(all); i++ {
			if all[i].client != all[i-1].client && all[i].first > since {
				n++
			}
		}
	}
	return n
}
