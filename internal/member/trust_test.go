package member

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

func TestTrustFrom(t *testing.T) {
	sec := time.Second
	for _, c := range []struct {
		name    string
		started Now
		ttl     time.Duration
		want    Now
	}{
		{"margin is a tenth", Now{100 * sec, 1000 * sec, 500 * sec}, 10 * sec, Now{109 * sec, 1009 * sec, 509 * sec}},
		{"an unread clock stays out", Now{100 * sec, 1000 * sec, 0}, 10 * sec, Now{109 * sec, 1009 * sec, 0}},
		{"shortest", Now{sec, sec, sec}, 300 * ms, Now{sec + 270*ms, sec + 270*ms, sec + 270*ms}},
	} {
		t.Run(c.name, func(t *testing.T) { assert.Equal(t, c.want, trustFrom(c.started, c.ttl)) })
	}
}

func TestTrustIsOverWhenAnyClockIsPast(t *testing.T) {
	sec := time.Second
	trust := Now{9 * sec, 90 * sec, 900 * sec}
	for _, c := range []struct {
		now  Now
		want bool
	}{
		{Now{9*sec - 1, 90*sec - 1, 900*sec - 1}, true},
		{Now{9 * sec, 90*sec - 1, 900*sec - 1}, false},
		{Now{9*sec - 1, 90 * sec, 900*sec - 1}, false},
		{Now{9*sec - 1, 90*sec - 1, 900 * sec}, false},
		{Now{9*sec - 1, 90*sec - 1, 0}, true}, // not read
	} {
		assert.Equal(t, c.want, c.now.before(trust), "%v", c.now)
	}
}

func TestTrustCountsFromTheStartOfTheWritingOfARecordThatWasReadBack(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	assert.Zero(t, p.m.Trust(), "nothing is read back")
	begun := s.now
	p.blind = true
	s.pass(time.Second)
	assert.Zero(t, p.m.Trust(), "appended and acknowledged is not read back")
	p.blind = false
	s.pass(reading)
	assert.Equal(t, begun+9*time.Second, p.m.Trust().Mono)
	assert.Equal(t, p.m.Trust().Mono+1000*time.Hour, p.m.Trust().Wall)
	assert.Equal(t, p.m.Trust().Mono, p.m.Trust().Boot)
}

func TestTrustNeedsThatApplyTookTheRecord(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want())
	q := s.process("q", Config{}, want())
	s.pass(time.Second)
	before := p.m.Trust()
	// Two heartbeats that change places: the earlier one is an echo.
	p.silent = true
	s.until(5*time.Second, "two heartbeats", func() bool { return len(p.held) == 2 })
	p.silent = false
	p.fly(p.held[1])
	s.pass(writing + reading)
	after := p.m.Trust()
	assert.Equal(t, p.at[len(p.at)-1]+9*time.Second, after.Mono)
	assert.Greater(t, after.Mono, before.Mono)
	p.fly(p.held[0])
	s.pass(writing + reading)
	assert.Equal(t, after, p.m.Trust())
	assert.Empty(t, p.m.own.sent, "every start up to what was read is forgotten")
	_ = q
}

func TestARetryKeepsTheStartOfTheFirstAttempt(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want())
	begun := s.now
	p.lose = func(*lease.Record) bool { return true }
	s.flights = nil
	s.pass(4 * time.Second)
	p.lose = nil
	p.fly(p.written[0]) // the producer tries again
	s.pass(writing + reading)
	assert.Equal(t, begun+9*time.Second, p.m.Trust().Mono)
}

func TestTheFirstJoinIsPutOutAgainWhenATTLBringsNoWordOfIt(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{TTL: time.Second}, want())
	begun := s.now
	s.flights = nil
	s.pass(999 * ms)
	require.Len(t, p.written, 1)
	s.pass(1*ms + writing + reading)
	require.Equal(t, []lease.Kind{lease.KindJoin, lease.KindJoin, lease.KindHeartbeat}, p.kinds(0))
	assert.Equal(t, p.written[0], p.written[1])
	assert.Equal(t, begun+900*ms, p.m.Trust().Mono, "the first attempt counts")
}

func TestTheTTLIsOurOwnAsTheWorldHasItAfterClamping(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{TTL: time.Millisecond}, want())
	begun := s.now
	s.pass(writing + reading)
	assert.Equal(t, begun+lease.MinTTL*9/10, p.m.Trust().Mono)
}

func TestTrustEndsEarlyIfTheWallClockOrTheBootClockHasGoneFurther(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(time.Second)
	require.True(t, p.hands(part(0)))
	p.wall += 10 * time.Second
	assert.False(t, p.hands(part(0)))
	p.wall -= 10 * time.Second
	p.boot += 10 * time.Second
	assert.True(t, p.hands(part(0)), "the boot clock was not read")
	_, ok := p.m.HandsOut(part(0), p.clock(true))
	assert.False(t, ok)

	n := len(p.written)
	p.do(p.m.Tick(p.clock(true)))
	require.Len(t, p.written, n+1, "a machine that was suspended heartbeats as soon as it sees it")
	p.do(p.m.Tick(p.clock(true)))
	require.Len(t, p.written, n+1, "and once is enough")
	p.wall -= 10 * time.Second
	assert.False(t, p.hands(part(0)), "a tick has seen it: the boot clock need not be read again, whatever the wall clock says")
	s.pass(writing + reading)
	_, ok = p.m.HandsOut(part(0), p.clock(true))
	assert.True(t, ok)
}

func TestTheBootClockIsReckonedOnTheSafeSideBetweenTicks(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want())
	s.pass(100 * ms)
	tick := p.m.tick
	p.boot += time.Minute // suspended since
	s.now += 50 * ms
	p.do(p.m.Flush(p.clock(false)))
	started := p.m.own.sent[len(p.m.own.sent)-1].started
	assert.Equal(t, tick.Boot+s.now-tick.Mono, started.Boot)
	assert.Less(t, started.Boot, p.clock(true).Boot)
}

func TestWhenTrustEndsHandOutStopsAndGoesOnIfTheLeaseIsStillOurs(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(time.Second)
	require.True(t, p.hands(part(0)))
	s.outage = true
	s.pass(p.m.Trust().Mono - s.now - 1)
	assert.True(t, p.hands(part(0)))
	s.pass(1)
	assert.False(t, p.hands(part(0)))
	s.pass(time.Minute)
	s.outage = false
	s.pass(5 * time.Second)
	assert.True(t, p.hands(part(0)))
	assert.Equal(t, []Action{{Kind: Start, Key: part(0), Epoch: p.keys[part(0)].Epoch}}, p.actions, "nothing was stopped meanwhile")
}

func TestWhenTrustEndsTheClaimEndsIfTheLeaseIsNotOursAnyMore(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(time.Second)
	p.blind, p.silent = true, true
	q := s.process("q", Config{}, want(some(1)))
	s.pass(15 * time.Second)
	require.True(t, q.hands(part(0)))
	assert.False(t, p.hands(part(0)))
	p.blind = false
	s.pass(reading)
	assert.True(t, p.ended)
	assert.True(t, p.has(Rejoining))
	assert.True(t, p.did(Stop, part(0)))
	assert.Zero(t, p.m.Trust())
}

func TestAMessageIsHandedOutOnlyWhileTheWorldSaysThatWeHoldItsKeyWithItsEpoch(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(time.Second)
	epoch, ok := p.m.HandsOut(part(0), p.clock(false))
	require.True(t, ok)
	l, _ := p.lease(part(0))
	assert.Equal(t, l.Epoch, epoch)
	assert.False(t, p.hands(part(1)))
	p.do(p.m.Seek(part(0), lease.TopicID{}, 7, lease.NoEpoch, p.clock(false)))
	s.pass(writing)
	rec := s.log[len(s.log)-1]
	require.Equal(t, lease.KindDirective, rec.Kind)
	events, _ := p.log.Take(&rec, nil, nil)
	p.next++
	assert.False(t, p.hands(part(0)), "applied, though not stepped yet")
	p.do(p.m.Step(events, p.clock(false)))
	now, ok := p.m.HandsOut(part(0), p.clock(false))
	assert.True(t, ok)
	assert.Greater(t, now, epoch)
	assert.Equal(t, []ActionKind{Start, Stop, Start}, []ActionKind{p.actions[0].Kind, p.actions[1].Kind, p.actions[2].Kind})
}

func TestWhoReadsNotWhatWasAcknowledgedWithinHalfATTLIsDeaf(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	q := s.process("q", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	p.blind = true
	n := len(p.written)
	s.until(3*time.Second, "a heartbeat", func() bool { return len(p.written) > n })
	s.pass(writing)
	acked := s.now
	s.pass(5*time.Second - 1)
	require.Zero(t, p.reopens)
	s.pass(1)
	assert.Equal(t, 1, p.reopens)
	assert.True(t, p.has(Deaf))
	wrote := len(p.written)
	s.until(time.Minute, "eviction by the other", func() bool { i := q.log.World().Instance(p.id); return i.Status == lease.Ended })
	assert.Len(t, p.written, wrote, "no further heartbeat until it has read it")
	assert.Greater(t, s.now, acked+10*time.Second)
}

func TestWhoWasDeafHeartbeatsWhenItHears(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	p.blind = true
	s.until(20*time.Second, "deafness", func() bool { return p.reopens == 1 })
	n := len(p.written)
	s.pass(9 * time.Second)
	require.Len(t, p.written, n)
	s.pass(2 * time.Second)
	require.Equal(t, 2, p.reopens, "where opening anew did not help it is tried again after a ttl")
	p.blind = false
	s.pass(10 * ms)
	assert.Len(t, p.written, n+1)
	assert.True(t, p.hands(part(0)))

	p.blind = true // and again: the count begins anew
	s.until(20*time.Second, "deafness", func() bool { return p.reopens == 3 })
	s.pass(20*time.Second + 2*ms)
	assert.Equal(t, 5, p.reopens)
	assert.False(t, p.ended)
}

// Nobody else writes, so nothing that is read would ever show that the heartbeat is not in the log.
func TestWhoIsDeafForThreeTTLsEndsAndJoinsAnew(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	require.True(t, p.hands(part(0)))
	p.lose = func(*lease.Record) bool { return true } // the broker acknowledges a heartbeat, and loses it; others do not arrive
	n := len(p.written)
	s.until(3*time.Second, "a heartbeat", func() bool { return len(p.written) > n })
	p.do(p.m.Acked(p.written[n].Seq, p.clock(false)))
	acked, ttl := s.now, 10*time.Second
	s.until(ttl/2+2*ms, "deafness", func() bool { return p.reopens == 1 })
	p.lose = nil
	written := len(p.written)
	s.until(2*ttl+2*ms, "two more", func() bool { return p.reopens == 3 })
	require.Len(t, p.written, written, "and silence")
	s.until(ttl+2*ms, "its end", func() bool { return p.ended })
	assert.InDelta(t, float64(ttl*7/2), float64(s.now-acked), float64(10*ms))
	assert.Equal(t, 3, p.reopens)
}

func TestARecordIsNotWaitedForOnceALaterOneIsRead(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want())
	s.pass(time.Second)
	// The broker acknowledges a heartbeat that it then loses.
	p.lose = func(r *lease.Record) bool { return true }
	n := len(p.written)
	s.until(3*time.Second, "a heartbeat", func() bool { return len(p.written) > n })
	p.do(p.m.Acked(p.written[n].Seq, p.clock(false)))
	p.lose = nil
	s.pass(20 * time.Second)
	assert.Zero(t, p.reopens)
}

// TestAJoinThatTheBrokersLostIsPutOutAgain: nothing else of ours would ever be written, and be read first.
func TestAJoinThatTheBrokersLostIsPutOutAgain(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	require.Equal(t, lease.KindJoin, p.written[0].Kind)
	s.flights = nil
	p.do(p.m.Acked(p.written[0].Seq, p.clock(false)))
	s.pass(20*time.Second - 1)
	require.Len(t, p.written, 1)
	s.until(time.Second, "a member", func() bool { return p.hands(part(0)) })
	assert.Equal(t, p.written[0], p.written[1], "the same record: a second one is an echo")
}

func TestOwnRecordsAreRememberedInBoundedMemory(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{TTL: time.Second}, want(some(1)))
	s.pass(time.Second)
	s.outage = true
	n := len(p.written)
	s.pass(time.Hour)
	assert.LessOrEqual(t, len(p.m.own.sent), maxSent)
	assert.Less(t, len(p.written)-n, 3700, "once per ttl at most, when much is unread")
	s.outage = false
	s.pass(3 * time.Second)
	assert.True(t, p.hands(part(0)))
}

func TestTimeDoesNotStepBack(t *testing.T) {
	// A caller that read its clock before another one, but got the lock after it.
	s := newScript(t)
	p := s.process("p", Config{}, want())
	s.pass(time.Second)
	p.do(p.m.Tick(p.clock(true)))
	late := p.clock(false)
	late.Mono -= 100 * ms
	p.do(p.m.Flush(late))
	assert.Equal(t, s.now, p.m.own.sent[len(p.m.own.sent)-1].started.Mono)
}
