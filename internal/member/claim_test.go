package member

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

func TestOneClaimRecordTakesAllTheKeysWantedAtThatMoment(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1000)))
	s.pass(time.Second)
	claims := p.of(lease.KindClaim)
	require.Len(t, claims, 1)
	assert.Len(t, claims[0].Claim.Keys, 1000)
	assert.Equal(t, 1000, p.runs())
}

func TestClaimsLargerThanTheLimitAreSplit(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{MaxReleaseBytes: minBound}, want(some(1000)))
	s.pass(time.Second)
	claims := p.of(lease.KindClaim)
	require.Greater(t, len(claims), 2)
	for _, c := range claims {
		assert.LessOrEqual(t, c.SizeBound(), 2*minBound)
	}
	assert.Equal(t, 1000, p.runs())
}

func TestThePlanNamesWhoClaimsAFreeKeyTheOthersWaitATurn(t *testing.T) {
	s := newScript(t)
	var ps []*proc
	for _, n := range []string{"p1", "p2", "p3"} {
		ps = append(ps, s.process(n, Config{}, want()))
	}
	s.pass(3 * time.Second)
	for _, p := range ps {
		p.want(want(some(1)))
	}
	// All interests are in the world before anybody claims; then nobody's Claim arrives.
	for _, p := range ps {
		p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindClaim }
	}
	s.pass(writing + reading)
	seen := s.now
	s.pass(1500 * ms)
	plan := policy.Compute(ps[0].log.World())
	for turn := range ps {
		id, ok := plan.Claimant(part(0), turn)
		require.True(t, ok)
		for _, p := range ps {
			if p.id == id {
				require.NotEmpty(t, p.of(lease.KindClaim), "turn %d", turn)
				assert.InDelta(t, time.Duration(turn)*minTurn, p.when(lease.KindClaim)[0]-seen, float64(10*ms), "turn %d", turn)
			}
		}
	}
}

func TestATurnIsThreeRoundTripsAtLeastFiftyMilliseconds(t *testing.T) {
	m := watcher()
	for _, c := range []struct{ trip, want time.Duration }{{0, 50 * ms}, {10 * ms, 50 * ms}, {17 * ms, 51 * ms}, {time.Second, 3 * time.Second}} {
		m.own.trip = c.trip
		assert.Equal(t, c.want, m.turn())
	}
}

func TestTheRoundTripIsSmoothed(t *testing.T) {
	m := watcher()
	m.measure(80 * ms)
	assert.Equal(t, 80*ms, m.own.trip)
	m.measure(0)
	assert.Equal(t, 70*ms, m.own.trip)
	m.measure(time.Hour)
	assert.Less(t, m.own.trip, 400*ms, "an outage says nothing of the usual")
}

func TestGreedyConsumersClaimAtOnceAllThatTheyMay(t *testing.T) {
	s := newScript(t)
	dead := s.process("dead", Config{}, want(some(8))) // named by the plan as well
	s.pass(writing + reading)
	s.flights = nil
	dead.crashed = true
	greedy := some(8)
	greedy.Greedy, greedy.Max = true, 6
	p := s.process("p", Config{}, want(greedy))
	joined := s.now + writing + reading
	s.pass(20 * ms)
	require.Equal(t, []time.Duration{joined}, p.when(lease.KindClaim))
	assert.Equal(t, 6, p.runs())
}

func TestNobodyClaimsMoreThanItsMaximum(t *testing.T) {
	s := newScript(t)
	i := some(8)
	i.Max = 3
	i.Weight = 1
	other := some(8)
	other.Weight = 3 // the plan gives it 6 of 8
	p := s.process("p", Config{}, want())
	dead := s.process("dead", Config{}, want(other))
	dead.lose = func(r *lease.Record) bool { return r.Kind == lease.KindClaim }
	s.pass(writing + reading)
	dead.crashed = true
	p.want(want(i))
	s.pass(writing + reading - 1)
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindHeartbeat }
	p.silent = true
	s.pass(500 * ms) // all turns are over while its first Claim is on its way
	asked := func() (n int) {
		for _, c := range p.of(lease.KindClaim) {
			n += len(c.Claim.Keys)
		}
		return n
	}
	require.Equal(t, 3, asked())
	require.Len(t, p.of(lease.KindClaim), 2, "two by the plan, one more when its turn came")
	p.lose = nil
	p.release()
	s.pass(5 * time.Second)
	assert.Equal(t, 3, p.runs())
	assert.Equal(t, 3, asked())
}

func TestAVoidClaimIsWrittenAnew(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want())
	s.pass(time.Second)
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindClaim }
	p.want(want(some(2)))
	s.until(3*time.Second, "two claims", func() bool { return len(p.of(lease.KindClaim)) == 2 })
	p.lose = nil
	s.pass(5 * time.Second)
	assert.Len(t, p.of(lease.KindClaim), 3)
	assert.Equal(t, 2, p.runs())
}

func TestKeysClaimedByHandAreRunAndNotBalanced(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want())
	q := s.process("q", Config{}, want(some(4)))
	s.pass(time.Second)
	p.want(Wanted{Pinned: []lease.Key{part(7), part(2)}})
	s.pass(10 * ms)
	require.True(t, p.hands(part(7)), "a free one is claimed at once")
	require.False(t, p.holds(part(2)), "held by the other")
	q.leave(false, 0)
	s.until(5*time.Second, "the other's key", func() bool { return p.hands(part(2)) })
	_ = s.process("r", Config{}, want(some(8)))
	s.pass(30 * time.Second)
	assert.Equal(t, 2, p.runs())
	p.want(Wanted{Pinned: []lease.Key{part(2)}})
	s.pass(time.Second)
	assert.True(t, p.did(Drain, part(7)))
	assert.Equal(t, 1, p.runs())
}

func TestARefusedClaimOfAnotherReasonIsNotRepeatedAtOnce(t *testing.T) {
	m := watcher()
	m.refused(part(1), lease.HeldByOther)
	assert.True(t, m.mayAsk(part(1)))
	m.refused(part(1), lease.TooMany)
	assert.False(t, m.mayAsk(part(1)))
	m.now += refusedWait
	assert.True(t, m.mayAsk(part(1)))
}

func TestOnlyOneInstanceRunsAKeyThatManyClaimAtOnce(t *testing.T) {
	s := newScript(t)
	greedy := some(20)
	greedy.Greedy = true
	var ps []*proc
	for i := range 6 {
		ps = append(ps, s.process(fmt.Sprintf("p%d", i), Config{}, want(greedy)))
	}
	s.pass(time.Second)
	total := 0
	for _, p := range ps {
		total += p.runs()
	}
	assert.Equal(t, 20, total)
}
