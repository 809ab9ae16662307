package member

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

func TestALeaveDrainsAndHandsOverFirst(t *testing.T) {
	s := newScript(t)
	p, q := pair(s)
	p.slow = true
	n := len(p.written)
	p.leave(false, 0)
	s.pass(100 * ms)
	require.Equal(t, []lease.Kind{lease.KindJoin}, p.kinds(n))
	require.Empty(t, p.written[n].Join.Interests)
	keys := p.m.Running()
	p.done[keys[0]] = 17
	p.drained(keys[0])
	p.do(p.m.Tick(p.clock(true)))
	require.Equal(t, []lease.Kind{lease.KindJoin, lease.KindRelease}, p.kinds(n), "one does not wait for the other")
	s.pass(2 * time.Second)
	require.Empty(t, p.of(lease.KindLeave))
	assert.True(t, q.hands(keys[0]))
	assert.EqualValues(t, 17, q.done[keys[0]])
	p.drained(keys[1])
	s.until(time.Second, "left", func() bool { return p.left })
	assert.False(t, p.ended)
	assert.Empty(t, p.of(lease.KindLeave)[0].Release.Keys, "it carries nothing")
	assert.False(t, p.of(lease.KindLeave)[0].Leave.Keep)
	s.pass(10 * ms)
	assert.Equal(t, 4, q.runs())
	assert.Zero(t, p.runs())
	assert.False(t, p.did(Stop, keys[0]))
	out := p.m.Tick(p.clock(true))
	assert.Equal(t, Output{Wake: Never}, out)
}

func TestKeysThatAreHandedToOneThatLeavesAreHandedOnUnread(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	s.pass(5 * time.Second)
	q := s.process("q", Config{}, want(some(2)))
	s.until(5*time.Second, "a Release to it", func() bool { return len(p.of(lease.KindRelease)) == 1 })
	q.leave(false, 0)
	s.until(2*time.Second, "left", func() bool { return q.left })
	s.pass(10 * ms)
	assert.Empty(t, q.actions)
	assert.Equal(t, 2, p.runs())
}

func TestAbandonWritesLeaveWithWhatIsKnownAtOnce(t *testing.T) {
	s := newScript(t)
	p, q := pair(s)
	p.slow = true
	k := first(p)
	s.pass(ms)
	p.commit(k, 23)
	p.leave(false, 0)
	s.pass(100 * ms)
	require.Empty(t, p.of(lease.KindLeave))
	p.do(p.m.Abandon(p.clock(false)))
	require.Len(t, p.of(lease.KindLeave), 1)
	r := p.of(lease.KindLeave)[0].Release.Keys
	require.Len(t, r, 1)
	assert.Equal(t, k, r[0].Key)
	assert.Equal(t, []int64{23}, r[0].Next)
	s.until(time.Second, "left", func() bool { return p.left })
	s.until(time.Second, "taken", func() bool { return q.runs() == 4 })
	assert.EqualValues(t, 23, q.done[k])
	assert.True(t, p.did(Finish, k))
}

func TestALeaveWithKeepParksTheKeysWithTheirPositionsAndHandsNothingOver(t *testing.T) {
	s := newScript(t)
	p, q := pair(s)
	k := first(p)
	p.commit(k, 31)
	n := len(p.written)
	p.leave(true, 20*time.Second)
	require.Equal(t, []lease.Kind{lease.KindLeave}, p.kinds(n))
	assert.Equal(t, lease.Leave{Keep: true, Grace: 20 * time.Second}, p.written[n].Leave)
	assert.Equal(t, []int64{31}, p.written[n].Release.Keys[0].Next)
	assert.False(t, p.hands(k), "not from before the first attempt on")
	s.until(time.Second, "left", func() bool { return p.left })
	s.pass(15 * time.Second)
	assert.Equal(t, 2, q.runs())
	assert.Empty(t, q.of(lease.KindClaim), "they are for the next run of its client id alone")
	l, ok := q.lease(k)
	assert.True(t, ok)
	assert.Equal(t, p.id, l.Instance)
	s.until(10*time.Second, "the end of the grace", func() bool { return q.runs() == 4 })
	assert.EqualValues(t, 31, q.done[k])
}

func TestAVoidLeaveIsWrittenAnew(t *testing.T) {
	for _, keep := range []bool{false, true} {
		s := newScript(t)
		p := s.process("p", Config{}, want(some(1)))
		s.pass(3 * time.Second)
		p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindLeave }
		p.leave(keep, time.Minute)
		s.until(5*time.Second, "two", func() bool { return len(p.of(lease.KindLeave)) == 2 })
		assert.False(t, p.hands(part(0)))
		p.lose = nil
		s.until(5*time.Second, "left", func() bool { return p.left })
	}
}

func TestALeaveThatIsTooLargeIsPrecededByReleases(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{MaxReleaseBytes: minBound}, want(some(200)))
	s.pass(3 * time.Second)
	p.slow = true
	commit := func(p *proc) {
		for k := range p.keys {
			p.commit(k, 5)
		}
	}
	commit(p)
	p.leave(false, 0)
	p.do(p.m.Abandon(p.clock(false)))
	s.until(time.Second, "left", func() bool { return p.left })
	require.NotEmpty(t, p.of(lease.KindRelease))
	q := s.process("q", Config{MaxReleaseBytes: minBound}, want(some(200)))
	s.pass(3 * time.Second)
	for k := range q.keys {
		require.EqualValues(t, 5, q.done[k])
	}
	// One with keep by heartbeats: its keys stay.
	for k := range q.keys {
		q.commit(k, 6)
	}
	n := len(q.written)
	q.leave(true, time.Minute)
	s.until(time.Second, "parked", func() bool { return q.left })
	assert.Greater(t, len(q.kinds(n)), 2)
	r := s.process("r", Config{Client: "q"}, want(some(200)))
	s.pass(time.Second)
	assert.Equal(t, 200, r.runs())
	for k := range r.keys {
		require.EqualValues(t, 6, r.done[k])
	}
}

func TestWhoIsEvictedWhileItLeavesHasEnded(t *testing.T) {
	s := newScript(t)
	p, q := pair(s)
	p.slow = true
	p.leave(false, 0)
	s.pass(time.Second)
	p.silent, p.blind = true, true
	s.until(20*time.Second, "eviction", func() bool { return q.runs() == 4 })
	p.blind = false
	s.pass(ms)
	assert.True(t, p.ended)
	assert.False(t, p.left)
}

func TestWhoLeavesBeforeItsJoinIsWrittenHasLeft(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want())
	m := New(Config{Instance: instance("x")}, p.m.s, p.clock(true))
	out := m.Leave(false, 0, p.clock(false))
	assert.True(t, out.Left)
	assert.Empty(t, out.Appends)
}

func TestWhoLeavesBeforeItsJoinIsReadWaitsForItOrAbandons(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	p.leave(false, 0)
	require.Equal(t, []lease.Kind{lease.KindJoin}, p.kinds(0))
	s.until(time.Second, "left", func() bool { return p.left })

	q := s.process("q", Config{}, want(some(1)))
	q.leave(false, 0)
	q.do(q.m.Abandon(q.clock(false)))
	assert.True(t, q.ended)
}

func TestNothingIsHandedOutFromALeaveOn(t *testing.T) {
	for _, keep := range []bool{false, true} {
		s := newScript(t)
		p := s.process("p", Config{}, want(some(2)))
		s.pass(3 * time.Second)
		p.slow = true
		p.leave(keep, time.Minute)
		for n := range int32(2) {
			assert.False(t, p.hands(part(n)))
			assert.True(t, p.did(Drain, part(n)), "the process is told")
		}
	}
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	p.do(p.m.Abandon(p.clock(false)))
	assert.True(t, p.did(Drain, part(0)))
	require.Len(t, p.of(lease.KindLeave), 1)
}
