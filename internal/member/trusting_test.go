package member

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAPeerIsPastItsTTLFromExactlyThenOn(t *testing.T) {
	p := &peer{ttl: 10 * time.Second, silent: 10*time.Second - 1}
	m := watcher(p)
	m.suspect(p, m.now)
	assert.False(t, p.dead)
	p.silent++
	m.suspect(p, m.now)
	assert.True(t, p.dead)
	assert.Equal(t, m.now, p.passed)
	assert.Equal(t, 1, m.watch.dead)
	m.suspect(p, m.now+5)
	assert.Equal(t, m.now, p.passed, "since then")
}

func TestAClockThatOneSideHasNotReadIsNotLookedAt(t *testing.T) {
	earlier, later := Now{Mono: 1, Wall: 1}, Now{Mono: 2, Wall: 2}
	for _, c := range []struct {
		n, t   time.Duration
		before bool
	}{{0, 0, true}, {5, 0, true}, {0, 5, true}, {4, 5, true}, {5, 5, false}, {6, 5, false}} {
		n, at := earlier, later
		n.Boot, at.Boot = c.n, c.t
		assert.Equal(t, c.before, n.before(at), c)
	}
}

func TestTheRoundTripIsThatOfRecordsReadBack(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(10 * time.Second)
	assert.Equal(t, writing+reading, p.m.own.trip)
}

func TestWhatIsReadBackWhileTheLogIsInDoubtGivesNoTrust(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	require.True(t, p.hands(part(0)))
	before := p.m.Trust()
	p.log.Doubt(true)
	seq := p.m.own.seq
	s.pass(before.Mono - p.clock(false).Mono)
	assert.Greater(t, p.m.own.seq, seq, "it goes on to write")
	assert.Equal(t, before, p.m.Trust())
	assert.False(t, p.hands(part(0)))
	p.log.Doubt(false)
	s.until(10*time.Second, "trust again", func() bool { return p.hands(part(0)) })
}

func TestARefusalOfWhatIsNotWaitedForChangesNothing(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	p.do(p.m.Tick(p.clock(true)))
	before := string(p.m.AppendBinary(nil, 0, 2*Never, 1))
	p.do(p.m.Rejected(1000, p.clock(false)))
	assert.Equal(t, before, string(p.m.AppendBinary(nil, 0, 2*Never, 1)))

	p.do(p.m.Flush(p.clock(false)))
	seq := p.m.own.seq
	p.do(p.m.Acked(seq, p.clock(false)))
	p.do(p.m.Rejected(seq, p.clock(false)))
	for _, r := range p.m.own.sent {
		assert.NotEqual(t, seq, r.seq, "what was refused is not waited for")
	}
	assert.Equal(t, 256<<10, p.m.own.bound)
}

func TestTheTimesOfTheProtocol(t *testing.T) {
	for what, c := range map[string]struct{ is, want time.Duration }{
		"silence": {silence, time.Second}, "reclaimWait": {reclaimWait, 5 * time.Second}, "evictTurn": {evictTurn, 50 * ms},
		"minTurn": {minTurn, 50 * ms}, "minRetake": {minRetake, time.Second}, "maxRetake": {maxRetake, time.Minute},
		"refusedWait": {refusedWait, time.Second},
	} {
		assert.Equal(t, c.want, c.is, what)
	}
}
