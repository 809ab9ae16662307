package member

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// The figures here are of the protocol: how long things take when the machine takes no time.

func TestTenProcessesStartedTogetherBalanceAThousandPartitionsWithinThreeSeconds(t *testing.T) {
	for _, apart := range []time.Duration{0, 3 * ms, 50 * ms} {
		s := newScript(t)
		var ps []*proc
		for i := range 10 {
			ps = append(ps, s.process(fmt.Sprintf("p%d", i), Config{}, want(some(1000))))
			s.pass(apart)
		}
		begun := s.now
		s.until(3*time.Second, "balance", func() bool {
			for _, p := range ps {
				if p.runs() != 100 {
					return false
				}
			}
			return true
		})
		kinds := map[lease.Kind]int{}
		for _, r := range s.log {
			kinds[r.Kind]++
		}
		t.Logf("started %v apart: balanced after %v, claims %d, releases %d, heartbeats %d", apart, s.now-begun,
			kinds[lease.KindClaim], kinds[lease.KindRelease], kinds[lease.KindHeartbeat])
		assert.LessOrEqual(t, kinds[lease.KindClaim]+kinds[lease.KindRelease], 200)
	}
}

func TestAJoiningMemberHasItsShareWithinTwoSeconds(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(100)))
	s.pass(10 * time.Second)
	begun := s.now
	q := s.process("q", Config{}, want(some(100)))
	s.until(2*time.Second, "its share", func() bool { return q.runs() == 50 })
	t.Logf("share after %v, in %d Releases", s.now-begun, len(p.of(lease.KindRelease)))
	assert.LessOrEqual(t, len(p.of(lease.KindRelease)), 2)
}

func TestACrashedMembersKeysAreRunAgainATTLAfterItsLastRenewal(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(10)))
	q := s.process("q", Config{}, want(some(10)))
	s.pass(9 * time.Second)
	require.Equal(t, 5, q.runs())
	q.crashed = true
	s.flights = nil
	renewed := s.landed[lastOf(s.log, q.id)] + reading
	s.until(15*time.Second, "takeover", func() bool { return p.runs() == 10 })
	t.Logf("%v after the reading of its last renewal", s.now-renewed)
	assert.LessOrEqual(t, s.now-renewed, 10*time.Second+20*ms)
}
