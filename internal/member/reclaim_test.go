package member

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// fast is a wish for fast reclaim.
func fast(i ...lease.Interest) Wanted { return Wanted{Interests: i, FastReclaim: true} }

// heir lets a process with client id c die, and starts the next one.
func crashed(s *script, w Wanted) (old, heir *proc) {
	old = s.process("old", Config{Client: "c"}, want(some(4)))
	s.pass(3 * time.Second)
	old.crashed = true
	heir = s.process("new", Config{Client: "c"}, w)
	return old, heir
}

func TestANewcomerTakesOverWhatASilentNamesakeHeldAfterASecondOfLogLiveTime(t *testing.T) {
	s := newScript(t)
	_, p := crashed(s, fast(some(4)))
	joined := s.now + writing + reading
	s.until(3*time.Second, "takeover", func() bool { return p.runs() == 4 })
	require.Len(t, p.of(lease.KindEvict), 1, "all its keys in one record")
	e := p.of(lease.KindEvict)[0].Evict
	assert.True(t, e.Takeover)
	at := p.when(lease.KindEvict)[0]
	assert.GreaterOrEqual(t, at-joined, silence)
	assert.Less(t, at-joined, silence+20*ms)
	for _, b := range p.when(lease.KindHeartbeat) {
		assert.LessOrEqual(t, b-joined, silence+10*ms)
	}
	assert.Empty(t, p.of(lease.KindClaim))
	assert.False(t, p.has(ClientInUse))
}

func TestALivingNamesakeHeartbeatsAtOnceAndBothStay(t *testing.T) {
	s := newScript(t)
	old := s.process("old", Config{Client: "c"}, want(some(4)))
	s.pass(3 * time.Second)
	n := len(old.written)
	p := s.process("new", Config{Client: "c"}, fast(some(4)))
	s.pass(writing + reading)
	require.Equal(t, []lease.Kind{lease.KindHeartbeat}, old.kinds(n), "its Join is the question")
	s.pass(writing + reading)
	require.True(t, p.has(ClientInUse), "says in its log that the client id is in use")
	assert.Equal(t, old.id, p.notices[0].Other)
	s.pass(10 * time.Second)
	assert.Empty(t, p.of(lease.KindEvict))
	assert.Equal(t, 2, old.runs(), "the newcomer competes like anyone")
	assert.Equal(t, 2, p.runs())
}

func TestANamesakeThatIsNotTheOnlyOneDoesNotAnswer(t *testing.T) {
	s := newScript(t)
	a := s.process("a", Config{Client: "c"}, want())
	b := s.process("b", Config{Client: "c"}, want())
	s.pass(3 * time.Second)
	na, nb := len(a.written), len(b.written)
	p := s.process("p", Config{Client: "c"}, fast(some(1)))
	s.pass(writing + reading)
	assert.Len(t, a.written, na)
	assert.Len(t, b.written, nb)
	s.pass(5 * time.Second)
	assert.Empty(t, p.of(lease.KindEvict))
	assert.True(t, p.has(ClientInUse))
}

func TestWhetherItIsTheOnlyOneIsJudgedAtThatRecordNotAfterTheBatch(t *testing.T) {
	s := newScript(t)
	a := s.process("a", Config{Client: "c"}, want())
	s.pass(3 * time.Second)
	a.blind = true
	s.process("b", Config{Client: "c"}, fast(some(1)))
	s.process("d", Config{Client: "c"}, fast(some(1)))
	s.pass(20 * ms)
	n := len(a.written)
	a.blind = false
	s.pass(ms)
	require.Len(t, a.written, n+1, "it was asked by the first of the two")

	// And the reverse: at the Join there was another one, which is gone at the end of the batch.
	s = newScript(t)
	a = s.process("a", Config{Client: "c"}, want())
	b := s.process("b", Config{Client: "c"}, want())
	s.pass(3 * time.Second)
	a.blind = true
	s.process("p", Config{Client: "c"}, want())
	s.pass(20 * ms)
	b.leave(false, 0)
	s.until(time.Second, "b left", func() bool { return b.left })
	n = len(a.written)
	a.blind = false
	s.pass(ms)
	assert.Len(t, a.written, n)
}

func TestANewcomerThatReadsAThirdNamesakeEndsItsProbeForGood(t *testing.T) {
	s := newScript(t)
	_, p := crashed(s, fast(some(4)))
	s.pass(500 * ms)
	third := s.process("third", Config{Client: "c"}, want())
	s.pass(50 * ms)
	third.leave(false, 0)
	s.pass(5 * time.Second)
	assert.Empty(t, p.of(lease.KindEvict))
	assert.True(t, p.has(ClientInUse))
	s.until(10*time.Second, "eviction in the usual way", func() bool { return p.runs() == 4 })
	assert.False(t, p.of(lease.KindEvict)[0].Evict.Takeover)
}

func TestTheTakeoverIsWrittenAsSoonAsAConsumerHasTheOption(t *testing.T) {
	s := newScript(t)
	_, p := crashed(s, want())
	s.pass(3 * time.Second)
	require.Empty(t, p.of(lease.KindEvict))
	p.want(fast(some(4)))
	require.Len(t, p.of(lease.KindEvict), 1, "the silence counts from the Join")
	s.pass(2 * (writing + reading))
	assert.Equal(t, 4, p.runs())
}

func TestWithoutTheOptionNobodyTakesOver(t *testing.T) {
	s := newScript(t)
	_, p := crashed(s, want(some(4)))
	s.pass(5 * time.Second)
	assert.Empty(t, p.of(lease.KindEvict))
	assert.Zero(t, p.runs())
}

func TestAVoidTakeoverIsJudgedAnew(t *testing.T) {
	s := newScript(t)
	old, p := crashed(s, fast(some(4)))
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindEvict }
	s.until(3*time.Second, "a takeover", func() bool { return len(p.of(lease.KindEvict)) == 1 })
	s.until(3*time.Second, "another", func() bool { return len(p.of(lease.KindEvict)) == 2 })
	// Before it is written again the namesake is heard of.
	s.append(lease.Record{Kind: lease.KindHeartbeat, Instance: old.id, Seq: old.m.own.seq + 1})
	p.lose = nil
	s.pass(5 * time.Second)
	assert.Len(t, p.of(lease.KindEvict), 2)
	assert.True(t, p.has(ClientInUse))
}

func TestWhileTheLogIsUnavailableSilenceProvesNothing(t *testing.T) {
	s := newScript(t)
	_, p := crashed(s, fast(some(4)))
	s.pass(400 * ms)
	s.outage = true
	s.pass(time.Minute)
	s.outage = false
	back := s.now
	s.until(3*time.Second, "takeover", func() bool { return p.runs() == 4 })
	assert.Greater(t, s.now-back, 500*ms)
}

func TestKeysThatNoConsumerWantsYetAreKeptUnreadUntilFiveSecondsAfterItsFirstInterests(t *testing.T) {
	s := newScript(t)
	old := s.process("old", Config{Client: "c"}, want(some(2), lease.Interest{Topics: []lease.TopicInterest{{Topic: "u", Partitions: 2}}}))
	s.pass(3 * time.Second)
	require.Equal(t, 4, old.runs())
	old.crashed = true
	p := s.process("new", Config{Client: "c"}, Wanted{FastReclaim: true})
	s.pass(20 * time.Second / 10)
	require.Equal(t, 4, p.runs())
	for _, a := range p.keys {
		require.True(t, a.Unread)
	}
	s.pass(20 * time.Second)
	require.Equal(t, 4, p.runs(), "no interests yet")
	p.want(fast(some(2)))
	given := s.now
	s.pass(4900 * ms)
	assert.True(t, p.hands(part(0)))
	assert.False(t, p.keys[part(0)].Unread)
	u := lease.Key{Topic: "u", Partition: 1}
	assert.True(t, p.keys[u].Unread)
	assert.False(t, p.hands(u))
	s.pass(200 * ms)
	assert.False(t, p.holds(u))
	assert.Equal(t, given+5*time.Second, p.when(lease.KindRelease)[0])
	assert.Equal(t, 2, p.runs())
}

func TestParkedKeysThatNoConsumerWantsAreKeptUnreadForAsLong(t *testing.T) {
	s := newScript(t)
	u := lease.Interest{Topics: []lease.TopicInterest{{Topic: "u", Partitions: 2}}}
	old := s.process("old", Config{Client: "c"}, want(some(2), u))
	s.pass(3 * time.Second)
	old.leave(true, time.Minute)
	s.until(time.Second, "parked", func() bool { return old.left })
	p := s.process("new", Config{Client: "c"}, want(some(2)))
	given := s.now
	s.pass(20 * ms)
	require.Equal(t, 4, p.runs())
	k := lease.Key{Topic: "u", Partition: 0}
	assert.True(t, p.keys[k].Unread)
	s.pass(2 * time.Second)
	p.want(want(some(2), u))
	assert.True(t, p.hands(k), "a second consumer has come")
	p.want(want(some(2)))
	s.pass(100 * ms)
	assert.False(t, p.holds(k), "what was wanted once is not kept")
	assert.Less(t, s.now, given+5*time.Second)
}

func TestReclaimedKeysOverTheMaximumAreKeptUntilAnEligibleSuccessorExists(t *testing.T) {
	s := newScript(t)
	i := some(4)
	i.Max = 1
	_, p := crashed(s, fast(i))
	s.pass(20 * time.Second)
	require.Equal(t, 4, p.log.World().HeldCount(p.id))
	unread := 0
	for k, a := range p.keys {
		if a.Unread {
			unread++
			require.False(t, p.hands(k))
		}
	}
	require.Equal(t, 3, unread)
	q := s.process("q", Config{}, want(some(4)))
	s.until(5*time.Second, "handed over", func() bool { return q.runs() == 3 })
	assert.Equal(t, 1, p.runs())
}

func TestAParkedNamesakeNeedsNoProbe(t *testing.T) {
	s := newScript(t)
	old := s.process("old", Config{Client: "c"}, want(some(4)))
	other := s.process("other", Config{}, want(some(4)))
	s.pass(5 * time.Second)
	require.Equal(t, 2, old.runs())
	old.commit(first(old), 9)
	k := first(old)
	old.leave(true, time.Minute)
	s.until(time.Second, "parked", func() bool { return old.left })
	s.pass(10 * time.Second)
	require.Equal(t, 2, other.runs(), "leases of the parked are fixed")
	p := s.process("new", Config{Client: "c"}, want(some(4)))
	begun := s.now
	s.until(time.Second, "its keys", func() bool { return p.runs() == 2 })
	assert.LessOrEqual(t, s.now-begun, 2*(writing+reading)+ms)
	assert.EqualValues(t, 9, p.done[k])
	s.pass(10 * time.Second)
	assert.Equal(t, 2, p.runs())
	assert.Empty(t, p.of(lease.KindEvict))
}

func TestAKeyClaimedByHandIsTakenFromAParkedNamesakeAndFromNobodyElse(t *testing.T) {
	s := newScript(t)
	old := s.process("old", Config{Client: "c"}, want(some(4)))
	other := s.process("other", Config{}, want(some(4)))
	s.pass(5 * time.Second)
	mine, theirs := first(old), first(other)
	old.commit(mine, 9)
	old.leave(true, time.Minute)
	s.until(time.Second, "parked", func() bool { return old.left })
	p := s.process("new", Config{Client: "c"}, Wanted{Pinned: []lease.Key{mine, theirs}})
	s.until(time.Second, "the parked key", func() bool { return p.hands(mine) })
	assert.EqualValues(t, 9, p.done[mine])
	s.pass(5 * time.Second)
	assert.True(t, other.hands(theirs))
	assert.Len(t, p.of(lease.KindClaim), 1, "what another holds is not asked for")
}

func TestWhatWeBeginToWantIsNotHandedOnBecauseTheWorldDoesNotKnowYet(t *testing.T) {
	s := newScript(t)
	old := s.process("old", Config{Client: "c"}, want(some(4)))
	s.pass(3 * time.Second)
	q := s.process("q", Config{}, want(some(4)))
	q.lose = func(r *lease.Record) bool { return r.Kind == lease.KindEvict }
	s.until(5*time.Second, "balance", func() bool { return q.runs() == 2 })
	old.crashed = true
	p := s.process("new", Config{Client: "c"}, Wanted{FastReclaim: true})
	s.until(3*time.Second, "takeover", func() bool { return p.runs() == 2 })
	s.pass(3 * time.Second)
	require.Equal(t, 2, p.runs(), "the plan would give them to the other")
	keys := p.m.Running()
	p.want(fast(some(4)))
	for _, k := range keys {
		assert.True(t, p.hands(k))
	}
	s.pass(10 * time.Second)
	assert.Empty(t, p.of(lease.KindRelease))
	assert.Equal(t, keys, p.m.Running())
}
