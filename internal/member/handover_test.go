package member

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// pair is two processes that share 4 partitions.
func pair(s *script) (p, q *proc) {
	p = s.process("p", Config{}, want(some(4)))
	s.pass(5 * time.Second)
	q = s.process("q", Config{}, want(some(4)))
	s.until(5*time.Second, "balance", func() bool { return p.runs() == 2 && q.runs() == 2 })
	s.pass(3 * time.Second)
	return p, q
}

func first(p *proc) lease.Key { return p.m.Running()[0] }

func TestTheOwnerHandsOnWithTheExactNextOffsetAndTheSuccessorStartsThere(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	s.pass(time.Second)
	p.commit(part(0), 41)
	p.commit(part(1), 42)
	p.slow = true
	q := s.process("q", Config{}, want(some(2)))
	s.until(5*time.Second, "a drain", func() bool { return p.did(Drain, part(0)) || p.did(Drain, part(1)) })
	k := part(0)
	other := part(1)
	if p.did(Drain, part(1)) {
		k, other = other, k
	}
	assert.False(t, p.hands(k), "stops handing it out")
	assert.True(t, p.hands(other), "nobody else stops for a moment")
	s.pass(3 * time.Second)
	require.Empty(t, p.of(lease.KindRelease), "waits for what is in flight")
	p.done[k] = 50
	p.drained(k)
	require.Len(t, p.of(lease.KindRelease), 1)
	r := p.of(lease.KindRelease)[0].Release
	assert.Equal(t, lease.Release{Successor: q.id, Keys: []lease.ReleasedKey{
		{Key: k, Epoch: p.keys[k].Epoch, Partitions: []int32{k.Partition}, Next: []int64{50}},
	}}, r)
	assert.False(t, p.hands(k))
	s.pass(writing + reading)
	assert.True(t, q.hands(k), "holds the key when it reads that record")
	assert.EqualValues(t, 50, q.done[k])
	assert.True(t, p.did(Finish, k))
	assert.False(t, p.did(Stop, k))
}

func TestWholeTopicsAreHandedOverWithAllTheirOffsets(t *testing.T) {
	s := newScript(t)
	whole := lease.Interest{Whole: true, Topics: []lease.TopicInterest{{Topic: "t", Partitions: 3}}}
	p := s.process("p", Config{}, want(whole))
	s.pass(time.Second)
	key := lease.Key{Topic: "t", Partition: lease.WholeTopic}
	require.True(t, p.hands(key))
	p.slow = true
	e := p.keys[key].Epoch
	p.do(p.m.Positions([]Position{{Key: part(1), Epoch: e, Next: 5}}, lease.Load{}, p.clock(false)))
	q := s.process("q", Config{}, want(whole))
	s.pass(3 * time.Second)
	require.Equal(t, 0, q.runs(), "one topic, one owner")
	w, _ := p.log.World().Progress("t", 1)
	require.EqualValues(t, 5, w.Next)
	p.leave(false, 0)
	require.True(t, p.did(Drain, key))
	p.do(p.m.Drained(key, e, lease.TopicID{9}, []Position{{Key: part(2), Next: 8}, {Key: part(0), Next: 6}, {Key: part(1), Next: 7}}, p.clock(false)))
	s.until(time.Second, "left", func() bool { return p.left })
	s.pass(ms)
	assert.True(t, q.hands(key))
	for i, next := range []int64{6, 7, 8} {
		w, _ := q.log.World().Progress("t", int32(i))
		assert.Equal(t, next, w.Next)
	}
}

func TestBalanceWaitsUntilMembershipHasBeenStill(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	s.pass(5 * time.Second)
	q := s.process("q", Config{}, want(some(2)))
	s.pass(400 * ms)
	require.GreaterOrEqual(t, p.log.World().Instance(q.id).Seq, uint64(3))
	r := s.process("r", Config{}, want()) // moves membership, wants nothing
	s.pass(400 * ms)
	require.Empty(t, p.of(lease.KindRelease))
	r.want(Wanted{Pinned: []lease.Key{part(9)}}) // a later Join is a Join
	joined := s.now + writing + reading
	s.until(5*time.Second, "a drain", func() bool { return len(p.actions) > 2 })
	assert.Equal(t, joined+500*ms, p.when(lease.KindRelease)[0], "a quarter of the interval")
}

func TestBalanceActsFourIntervalsAfterAMoveWasFirstWantedHoweverMembershipMoves(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	s.pass(5 * time.Second)
	q := s.process("q", Config{}, want(some(2)))
	wanted := s.now + writing + reading
	for len(p.of(lease.KindRelease)) == 0 && s.now < wanted+20*time.Second {
		x := s.process(string(rune('A'+len(s.procs))), Config{}, want())
		s.pass(150 * ms)
		x.leave(false, 0)
		s.pass(150 * ms)
	}
	require.NotEmpty(t, p.of(lease.KindRelease))
	assert.Equal(t, wanted+8*time.Second, p.when(lease.KindRelease)[0])
	assert.Equal(t, q.id, p.of(lease.KindRelease)[0].Release.Successor)
}

func TestBalanceWaitsForASuccessorThatHasShownThatItLives(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	s.pass(5 * time.Second)
	q := s.process("q", Config{}, want(some(2)))
	s.pass(writing + reading + writing) // its Join and its first heartbeat
	q.silent = true
	s.pass(4 * time.Second)
	require.EqualValues(t, 2, p.log.World().Instance(q.id).Seq)
	require.Empty(t, p.of(lease.KindRelease), "seq >= 3")
	q.release()
	s.pass(50 * ms)
	require.Len(t, p.of(lease.KindRelease), 1)

	s = newScript(t)
	p = s.process("p", Config{}, want(some(2)))
	s.pass(5 * time.Second)
	q = s.process("q", Config{}, want(some(2)))
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindRelease }
	s.pass(300 * ms)
	require.EqualValues(t, 3, p.log.World().Instance(q.id).Seq)
	require.True(t, p.m.fit(q.id))
	q.silent = true
	s.pass(3 * time.Second)
	require.True(t, p.m.fit(q.id))
	s.pass(3 * time.Second)
	assert.False(t, p.m.fit(q.id), "renewed within two intervals")
}

func TestADrainingOwnerWaitsForNeither(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	s.pass(5 * time.Second)
	q := s.process("q", Config{}, want(some(2)))
	s.pass(writing + reading)
	require.EqualValues(t, 1, p.log.World().Instance(q.id).Seq)
	p.leave(false, 0)
	s.until(time.Second, "left", func() bool { return p.left })
	s.pass(reading)
	assert.Equal(t, 2, q.runs())
}

func TestWhoTerminatesWithReleaseFirstWritesAJoinWithoutThatConsumersInterests(t *testing.T) {
	s := newScript(t)
	p, q := pair(s)
	n := len(p.written)
	p.slow = true
	p.want(want())
	for k := range p.keys {
		assert.False(t, p.hands(k), "it drains at once")
	}
	require.Equal(t, []lease.Kind{lease.KindJoin}, p.kinds(n))
	assert.Empty(t, p.written[n].Join.Interests)
	p.drained(p.m.Running()[0])
	p.drained(p.m.Running()[1])
	require.Equal(t, []lease.Kind{lease.KindJoin}, p.kinds(n), "first its draining is in the world")
	s.pass(writing + reading)
	require.Equal(t, []lease.Kind{lease.KindJoin, lease.KindRelease}, p.kinds(n), "several keys share a Release")
	assert.Equal(t, q.id, p.written[n+1].Release.Successor)
	s.pass(writing + reading)
	assert.Equal(t, 4, q.runs())
	assert.Zero(t, p.runs())
	s.pass(10 * time.Second)
	assert.Equal(t, 4, q.runs())
}

// A position may move while a drained key waits for its Release: over the hollow end of the log, say. No record goes back behind one
// that was written before.
func TestAReleaseHasThePositionThatWasReportedWhileItWaited(t *testing.T) {
	s := newScript(t)
	p, _ := pair(s)
	p.slow = true
	n := len(p.written)
	p.want(want())
	k := first(p)
	p.done[k] = 114
	p.drained(k)
	require.Equal(t, []lease.Kind{lease.KindJoin}, p.kinds(n), "first its draining is in the world")
	p.commit(k, 120)
	p.commit(k, 117) // gathered before that one
	s.pass(writing + reading)
	require.Equal(t, lease.KindRelease, p.written[len(p.written)-1].Kind)
	r := p.written[len(p.written)-1].Release.Keys[0]
	assert.Equal(t, k, r.Key)
	assert.Equal(t, []int64{120}, r.Next)
}

func TestKeysWithDifferentSuccessorsNeedDifferentReleases(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(4)))
	s.pass(3 * time.Second)
	q := s.process("q", Config{}, want())
	r := s.process("r", Config{}, want())
	s.pass(3 * time.Second)
	q.want(want(some(4)))
	r.want(want(some(4)))
	p.want(want())
	s.pass(time.Second)
	assert.Len(t, p.of(lease.KindRelease), 2)
	assert.Equal(t, 2, q.runs())
	assert.Equal(t, 2, r.runs())
}

func TestDrainingWithNobodyEligibleReleasesWithoutSuccessor(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	s.pass(3 * time.Second)
	p.commit(part(0), 5)
	p.want(want())
	s.pass(time.Second)
	require.Len(t, p.of(lease.KindRelease), 1)
	assert.True(t, p.of(lease.KindRelease)[0].Release.Successor.IsZero())
	assert.Zero(t, p.runs())
	_, ok := p.lease(part(0))
	assert.False(t, ok)
	w, _ := p.log.World().Progress("t", 0)
	assert.EqualValues(t, 5, w.Next)
}

func TestFromBeforeTheFirstAttemptUntilItIsReadBackTheKeysOfAReleaseAreNotHandedOut(t *testing.T) {
	s := newScript(t)
	p, _ := pair(s)
	p.silent = true
	k := first(p)
	p.do(p.m.GiveUp(k, p.keys[k].Epoch, p.clock(false)))
	require.Len(t, p.held, 1)
	for range 8 {
		assert.False(t, p.hands(k))
		s.pass(time.Second)
	}
	require.Greater(t, len(p.held), 2, "heartbeats go on")
	// A later record is read first: the Release is void, and written anew.
	later := p.held[len(p.held)-1]
	p.silent = false
	p.fly(later)
	n := len(p.written)
	s.pass(writing + reading)
	assert.False(t, p.hands(k))
	require.GreaterOrEqual(t, len(p.written), n+1)
	assert.Equal(t, lease.KindRelease, p.written[n].Kind)
	assert.Equal(t, p.held[0].Release, p.written[n].Release)
	s.pass(10 * ms)
	assert.True(t, p.did(Finish, k))
	for _, r := range p.written[n:] {
		assert.True(t, r.Kind != lease.KindHeartbeat || r.Seq != later.Seq, "a heartbeat is not written anew")
	}
}

func TestAVoidReleaseThatIsNotWantedAnyMoreResumes(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	s.pass(5 * time.Second)
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindRelease }
	q := s.process("q", Config{}, want(some(2)))
	s.until(5*time.Second, "a Release", func() bool { return len(p.of(lease.KindRelease)) == 1 })
	k := p.of(lease.KindRelease)[0].Release.Keys[0].Key
	p.lose = nil
	q.leave(false, 0)
	s.pass(writing + reading)
	require.False(t, p.hands(k), "not known yet to be void")
	s.until(3*time.Second, "go on", func() bool { return p.hands(k) })
	assert.True(t, p.did(Resume, k))
	assert.Len(t, p.of(lease.KindRelease), 1)
}

func TestADrainThatIsNotWantedAnyMoreResumes(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	s.pass(5 * time.Second)
	p.slow = true
	q := s.process("q", Config{}, want(some(2)))
	s.until(5*time.Second, "a drain", func() bool { return len(p.actions) > 2 })
	k := p.actions[2].Key
	q.leave(false, 0)
	s.pass(20 * ms)
	assert.True(t, p.did(Resume, k))
	assert.True(t, p.hands(k))
	n := len(p.written)
	p.drained(k) // an answer that crossed it
	s.pass(10 * time.Second)
	assert.True(t, p.hands(k))
	for _, kind := range p.kinds(n) {
		assert.Equal(t, lease.KindHeartbeat, kind)
	}
}

func TestAKeyClaimedInAnothersPlaceIsHandedToItOnlyWhenItIsHeardOf(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want())
	q := s.process("q", Config{}, want())
	s.pass(5 * time.Second)
	q.want(want(some(2)))
	q.lose = func(r *lease.Record) bool { return r.Kind == lease.KindClaim }
	p.want(want(some(2)))
	s.until(time.Second, "both keys", func() bool { return p.runs() == 2 })
	n := len(q.of(lease.KindHeartbeat))
	s.pass(500 * ms)
	require.Len(t, q.of(lease.KindHeartbeat), n)
	require.Empty(t, p.of(lease.KindRelease))
	s.until(3*time.Second, "its share", func() bool { return q.runs() == 1 })
	assert.Greater(t, len(q.of(lease.KindHeartbeat)), n)
}

func TestADrainForASuccessorThatFallsSilentResumes(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	s.pass(5 * time.Second)
	p.slow = true
	q := s.process("q", Config{}, want(some(2)))
	s.until(5*time.Second, "a drain", func() bool { return len(p.actions) > 2 })
	k := p.actions[2].Key
	q.crashed = true
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindEvict }
	s.until(12*time.Second, "go on", func() bool { return p.hands(k) })
	assert.Equal(t, lease.Alive, p.log.World().Instance(q.id).Status, "still a member, as far as the world knows")
	s.pass(time.Second)
	assert.True(t, p.hands(k))
	p.lose = nil
	s.pass(5 * time.Second)
	assert.Equal(t, 2, p.runs())
}

func TestNothingIsHandedToOneThatIsPastItsTTL(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(6)))
	q := s.process("q", Config{}, want(some(6)))
	r := s.process("r", Config{}, want(some(6)))
	s.pass(5 * time.Second)
	require.Equal(t, 2, p.runs())
	q.crashed = true
	for _, x := range []*proc{p, r} {
		x.lose = func(r *lease.Record) bool { return r.Kind == lease.KindEvict }
	}
	s.pass(13 * time.Second)
	require.Equal(t, lease.Alive, p.log.World().Instance(q.id).Status)
	p.leave(false, 0)
	s.until(time.Second, "left", func() bool { return p.left })
	s.pass(reading)
	for _, rec := range p.of(lease.KindRelease) {
		assert.Equal(t, r.id, rec.Release.Successor)
	}
	assert.Equal(t, 4, r.runs())
}

func TestReleasesLargerThanTheLimitAreSplit(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{MaxReleaseBytes: minBound}, want(some(200)))
	s.pass(3 * time.Second)
	p.want(want())
	s.pass(3 * time.Second)
	require.Greater(t, len(p.of(lease.KindRelease)), 2)
	for _, r := range p.of(lease.KindRelease) {
		assert.LessOrEqual(t, r.SizeBound(), 2*minBound)
	}
	assert.Zero(t, p.log.World().HeldCount(p.id))
}

func TestHandedMoreThanOurMaximumWeHandOnByThePlan(t *testing.T) {
	s := newScript(t)
	i := some(4)
	i.Max = 1
	p := s.process("p", Config{}, want(some(4)))
	s.pass(3 * time.Second)
	q := s.process("q", Config{}, want(i))
	s.until(5*time.Second, "one key", func() bool { return q.runs() == 1 })
	s.pass(3 * time.Second)
	// Two more come, by somebody who had not read that it is full.
	m := s.process("m", Config{}, want())
	_ = m
	p.slow = true
	for _, k := range p.m.Running()[:2] {
		p.m.own.seq++
		s.append(lease.Record{Kind: lease.KindRelease, Instance: p.id, Seq: p.m.own.seq, Release: lease.Release{
			Successor: q.id, Keys: []lease.ReleasedKey{{Key: k, Epoch: p.keys[k].Epoch}}}})
	}
	had := first(q)
	s.pass(reading)
	require.Equal(t, 3, q.log.World().HeldCount(q.id))
	assert.Equal(t, 1, q.runs(), "those over the maximum are not run")
	assert.True(t, q.hands(had))
	s.pass(20 * ms)
	assert.Equal(t, 1, q.log.World().HeldCount(q.id))
	assert.Equal(t, 3, p.runs())
}

func TestWhoGaveAKeyUpTakesItAgainNoSoonerThanASecondLaterDoublingToAMinute(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	// giveUp hands the key to somebody new, who leaves at once: nobody else is there to take it.
	giveUp := func(round int) (gone time.Duration) {
		q := s.process(fmt.Sprint("q", round), Config{}, want(some(1)))
		s.until(5*time.Second, "somebody fitter", func() bool { return p.m.Fitter(part(0)) == q.id })
		p.do(p.m.GiveUp(part(0), p.keys[part(0)].Epoch, p.clock(false)))
		rec := p.written[len(p.written)-1]
		require.Equal(t, lease.KindRelease, rec.Kind)
		require.True(t, rec.Release.Unfit)
		require.Equal(t, q.id, rec.Release.Successor)
		s.pass(writing + reading)
		gone = s.now
		require.True(t, q.holds(part(0)))
		q.crashed = true
		s.append(lease.Record{Kind: lease.KindLeave, Instance: q.id, Seq: q.m.own.seq + 1})
		return gone
	}
	s.pass(time.Second)
	want := time.Second
	for round := range 9 {
		require.True(t, p.hands(part(0)))
		gone := giveUp(round)
		s.pass(gone + want - ms - s.now)
		require.False(t, p.holds(part(0)))
		s.until(100*ms, "taken again", func() bool { return p.runs() == 1 })
		assert.InDelta(t, want, s.now-gone, float64(60*ms))
		want = min(2*want, time.Minute)
	}
	// Once its progress moves in our hands it is a key like others.
	p.commit(part(0), 1)
	s.pass(2 * time.Second)
	giveUp(9)
	s.pass(1200 * ms)
	assert.Equal(t, 1, p.runs())
}

func TestAKeyIsGivenUpToSomebodyFitterAlone(t *testing.T) {
	join := func(s *script, name string, i lease.Interest) *proc {
		p := s.process(name, Config{}, want(i))
		s.pass(5 * time.Second)
		return p
	}
	givenUpBefore := func(s *script) *proc { // by q to p
		q := join(s, "q", some(2))
		p := join(s, "p", some(2))
		q.do(q.m.GiveUp(part(0), q.keys[part(0)].Epoch, q.clock(false)))
		s.pass(5 * time.Second)
		return p
	}
	full := some(2)
	full.Max = 1
	for _, c := range []struct {
		name  string
		build func(s *script) (holder *proc)
		to    string
	}{
		{"alone", func(s *script) *proc { return join(s, "p", some(2)) }, ""},
		{"another", func(s *script) *proc { p := join(s, "p", some(2)); join(s, "q", some(2)); return p }, "q"},
		{"another wants other keys", func(s *script) *proc {
			p := join(s, "p", some(2))
			join(s, "q", lease.Interest{Topics: []lease.TopicInterest{{Topic: "u", Partitions: 1}}})
			return p
		}, ""},
		{"another is full", func(s *script) *proc { p := join(s, "p", some(2)); join(s, "q", full); return p }, ""},
		{"another has not shown that it lives", func(s *script) *proc {
			p := join(s, "p", some(2))
			s.process("q", Config{}, want(some(2))).crashed = true
			s.pass(50 * ms)
			return p
		}, ""},
		{"another is silent", func(s *script) *proc {
			p := join(s, "p", some(2))
			join(s, "q", some(2)).crashed = true
			s.pass(5 * time.Second)
			return p
		}, ""},
		{"another gave it up itself", givenUpBefore, ""},
		{"another gave it up, a third did not", func(s *script) *proc { p := givenUpBefore(s); join(s, "r", some(2)); return p }, "r"},
		{"another gave it up, and joined anew since", func(s *script) *proc {
			p := givenUpBefore(s)
			s.procs[0].want(want(some(3)))
			s.pass(5 * time.Second)
			return p
		}, "q"},
	} {
		s := newScript(t)
		p := c.build(s)
		require.True(t, p.hands(part(0)), c.name)
		var to lease.InstanceID
		if c.to != "" {
			to = instance(c.to)
		}
		assert.Equal(t, to, p.m.Fitter(part(0)), c.name)
		p.do(p.m.GiveUp(part(0), p.keys[part(0)].Epoch, p.clock(false)))
		s.pass(10 * ms)
		assert.Equal(t, to.IsZero(), p.hands(part(0)), "%s: without anybody it goes on", c.name)
	}
}

func TestAKeyWhoseHeirIsGoneWhenItIsDrainedGoesOn(t *testing.T) {
	s := newScript(t)
	p, q := pair(s)
	k := first(p)
	p.slow = true
	p.do(p.m.GiveUp(k, p.keys[k].Epoch, p.clock(false)))
	require.False(t, p.hands(k), "it drains")
	q.leave(false, 0)
	s.until(time.Second, "it goes on", func() bool { return p.hands(k) })
	assert.True(t, p.did(Resume, k))
	for _, r := range p.of(lease.KindRelease) {
		assert.False(t, r.Release.Unfit)
	}
}

// A message that nobody can handle makes the round once, and the last one keeps it.
func TestWhatStopsEverybodyMakesTheRoundOnce(t *testing.T) {
	for n := 2; n <= 4; n++ {
		s := newScript(t)
		var all []*proc
		for i := range n {
			all = append(all, s.process(fmt.Sprint("p", i), Config{}, want(some(4))))
		}
		s.pass(10 * time.Second)
		moves := 0
		for range 100 { // stuck wherever it is, and noticed each second
			for _, p := range all {
				if p.hands(part(0)) && !p.m.Fitter(part(0)).IsZero() {
					p.do(p.m.GiveUp(part(0), p.keys[part(0)].Epoch, p.clock(false)))
					moves++
					break
				}
			}
			s.pass(time.Second)
			held := 0
			for _, p := range all {
				if p.hands(part(0)) {
					held++
				}
			}
			require.Equal(t, 1, held, "never an orphan")
		}
		assert.Equal(t, n-1, moves, "of %d", n)
	}
}

// One process that can handle nothing gives everything away, once, and the others keep it.
func TestASickProcessGivesEverythingAway(t *testing.T) {
	s := newScript(t)
	p, q := pair(s)
	gaveUp := 0
	for range 100 {
		for _, k := range p.m.Running() {
			if !p.m.Fitter(k).IsZero() {
				p.do(p.m.GiveUp(k, p.keys[k].Epoch, p.clock(false)))
				gaveUp++
			}
		}
		s.pass(time.Second)
	}
	assert.Equal(t, 4, q.runs())
	assert.Zero(t, p.runs())
	assert.LessOrEqual(t, gaveUp, 4, "each key at most once")
}

func TestALeaveNamesOneLifeOfATopicAndLeavesPositionsOfTheOtherOut(t *testing.T) {
	old, fresh := lease.TopicID{1}, lease.TopicID{2}
	for range 20 { // whatever the order of a map
		s := newScript(t)
		whole := lease.Interest{Whole: true, Topics: []lease.TopicInterest{{Topic: "t", Partitions: 4}}}
		p := s.process("p", Config{}, want(whole))
		s.pass(time.Second)
		e := p.keys[lease.Key{Topic: "t", Partition: lease.WholeTopic}].Epoch
		report := func(id lease.TopicID, partition int32, next int64) {
			p.do(p.m.Positions([]Position{{Key: part(partition), TopicID: id, Epoch: e, Next: next}}, lease.Load{}, p.clock(false)))
		}
		for i := range int32(4) {
			report(old, i, 100)
		}
		s.pass(5 * time.Second)
		for i := range int32(4) {
			report(old, i, 200)
		}
		report(fresh, 1, 5)
		report(fresh, 2, 6)
		p.do(p.m.Leave(true, time.Minute, p.clock(false)))
		s.pass(5 * time.Second)
		for i, want := range []lease.Progress{{TopicID: old, Next: 100}, {TopicID: fresh, Next: 5}, {TopicID: fresh, Next: 6}, {TopicID: old, Next: 100}} {
			got, _ := p.log.World().Progress("t", int32(i))
			assert.True(t, got.TopicID == want.TopicID && got.Next <= 200 && (want.TopicID == old || got.Next == want.Next), "%d: %+v", i, got)
		}
	}
}

func TestWhatIsLetGoIsFreeThoughNobodyElseMayHaveItAndIsTakenAgainLater(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.until(time.Second, "the key", func() bool { return p.hands(part(0)) })
	epoch := p.keys[part(0)].Epoch
	p.do(p.m.GiveUp(part(0), epoch, p.clock(false)))
	s.pass(time.Second)
	require.True(t, p.hands(part(0)), "the last one that can run it keeps it")
	p.do(p.m.LetGo(part(0), epoch, p.clock(false)))
	s.until(time.Second, "it is free", func() bool { return !p.holds(part(0)) })
	let := s.now
	s.until(3*time.Second, "it is taken again", func() bool { return p.hands(part(0)) })
	assert.GreaterOrEqual(t, s.now-let, 900*ms)
}

// TestNoMoveIsBegunWhileAReleaseIsUnderWay: the plan may have several ways to the same shares, and what is read of the first
// Releases may make it choose another one for the rest. Who acted on it at once would hand on more keys than it has to.
func TestNoMoveIsBegunWhileAReleaseIsUnderWay(t *testing.T) {
	all := lease.Interest{Topics: []lease.TopicInterest{{Topic: "a", Partitions: 3}, {Topic: "b", Partitions: 2}, {Topic: "c", Partitions: 1}}}
	for i := range 40 {
		s := newScript(t)
		p := s.process(fmt.Sprint("p", i), Config{}, want(all))
		s.pass(5 * time.Second)
		require.Equal(t, 6, p.runs())
		p.slow = true
		for j := range 3 {
			s.process(fmt.Sprint("q", i, j), Config{}, want(all))
		}
		s.until(5*time.Second, "a drain", func() bool { return p.actions[len(p.actions)-1].Kind == Drain })
		moves := len(p.m.claims.plan.Moves())
		for end := s.now + 3*time.Second; s.now < end; s.pass(ms / 2) {
			for k, c := range p.m.claims.run { // one at a time, so that the Releases are read one after the other
				if c.phase == draining {
					p.drained(k)
					break
				}
			}
		}
		assert.Equal(t, moves, 6-p.runs(), "handed on by %s, and planned", p.name)
		for _, q := range s.procs[1:] {
			assert.Empty(t, q.of(lease.KindRelease))
		}
	}
}
