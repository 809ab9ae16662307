package member

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

func TestAnyChangeOfWhatIsWantedIsSaidInAJoin(t *testing.T) {
	whole, greedy, most, weight, fewer, other := some(4), some(4), some(4), some(4), some(3), some(4)
	whole.Whole, greedy.Greedy, most.Max, weight.Weight = true, true, 9, 7
	other.Topics = []lease.TopicInterest{{Topic: "u", Partitions: 4}}
	for name, w := range map[string]Wanted{
		"whole": want(whole), "greedy": want(greedy), "maximum": want(most), "weight": want(weight), "partitions": want(fewer),
		"topic": want(other), "a second": want(some(4), other), "none": want(),
		"by hand": {Interests: []lease.Interest{some(4)}, Pinned: []lease.Key{part(9)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			p := s.process("p", Config{}, want(some(4)))
			s.pass(3 * time.Second)
			require.Len(t, p.of(lease.KindJoin), 1)
			p.want(want(some(4)))
			s.pass(10 * ms)
			require.Len(t, p.of(lease.KindJoin), 1, "the same once more")
			p.want(w)
			s.pass(10 * ms)
			joins := p.of(lease.KindJoin)
			require.Len(t, joins, 2)
			assert.Equal(t, w.Interests, joins[1].Join.Interests)
			s.pass(3 * time.Second)
			assert.Len(t, p.of(lease.KindJoin), 2)
		})
	}
}

func TestAJoinNamesEachKeyClaimedByHandOrKeptOnceInOrder(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, Wanted{Pinned: []lease.Key{part(7), part(2)}})
	s.pass(3 * time.Second)
	p.want(Wanted{Pinned: []lease.Key{part(7), part(5), part(2)}, Kept: []lease.Key{part(2), part(7)}, KeptUntil: s.now + time.Minute})
	s.pass(10 * ms)
	joins := p.of(lease.KindJoin)
	assert.Equal(t, []lease.Key{part(2), part(5), part(7)}, joins[len(joins)-1].Join.Pinned)
}

func TestAFirstJoinThatTheWorldIgnoresIsTriedAgainAfterATTL(t *testing.T) {
	for _, c := range []struct {
		why  lease.Reason
		told bool
	}{{lease.TooMany, true}, {lease.Malformed, true}, {lease.OtherTopic, false}} {
		s := newScript(t)
		p := s.process("p", Config{}, want(some(1)))
		s.flights = nil
		p.do(p.m.Acked(1, p.clock(false)))
		s.pass(3 * time.Second)
		p.do(p.m.Step([]lease.Event{{Kind: lease.Ignored, Author: p.id, Seq: 1, Reason: c.why}}, p.clock(false)))
		assert.Equal(t, c.told, p.has(JoinRefused), c.why)
		s.pass(10*time.Second - 1)
		require.Len(t, p.written, 1)
		s.pass(1)
		assert.Len(t, p.written, 2, "a ttl after that was read, though it was acknowledged")
		s.pass(time.Second)
		assert.True(t, p.hands(part(0)))
	}
}

// A broker's clock may begin at any time: an acknowledgement at 0 is one.
func TestAnAcknowledgementAtTheOriginOfTheClockCounts(t *testing.T) {
	s := newScript(t)
	s.now = 0
	p := s.process("p", Config{}, want(some(1)))
	s.flights = nil
	p.do(p.m.Acked(1, p.clock(false)))
	assert.Equal(t, 20*time.Second, p.m.enterDue())
	assert.Equal(t, 5*time.Second, p.m.deafDue())
}

func TestAPositionReportedWhileAnOlderOneIsOnItsWayIsNotLost(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	s.pass(3 * time.Second)
	p.commit(part(0), 5)
	p.do(p.m.Flush(p.clock(false)))
	p.commit(part(0), 6)
	s.pass(writing + reading)
	w, _ := p.log.World().Progress("t", 0)
	require.Equal(t, int64(5), w.Next)
	d, ok := p.m.Unconfirmed(part(0))
	require.True(t, ok)
	assert.Equal(t, int64(6), d.Next)
	s.pass(time.Second)
	w, _ = p.log.World().Progress("t", 0)
	assert.Equal(t, int64(6), w.Next)
	_, ok = p.m.Unconfirmed(part(0))
	assert.False(t, ok)
}

func TestAPositionThatTheWorldHasIsNotReported(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	s.pass(3 * time.Second)
	p.commit(part(0), 5)
	s.pass(3 * time.Second)
	for _, next := range []int64{4, 5} {
		p.commit(part(0), next)
		_, dirty := p.m.Unconfirmed(part(0))
		assert.False(t, dirty, next)
	}
	p.commit(part(0), 6)
	p.commit(part(0), 6)
	d, _ := p.m.Unconfirmed(part(0))
	require.Equal(t, int64(6), d.Next)
	p.do(p.m.Flush(p.clock(false)))
	n := len(p.written)
	p.commit(part(0), 6)
	s.pass(time.Second + writing + reading)
	for _, r := range p.written[n:] {
		assert.Empty(t, r.Heartbeat.Topics, "it is on its way already")
	}
	p.do(p.m.Positions([]Position{{Key: part(1), Epoch: p.keys[part(1)].Epoch - 1, Next: 3}}, lease.Load{}, p.clock(false)))
	_, dirty := p.m.Unconfirmed(part(1))
	assert.False(t, dirty, "of an older epoch")
	p.do(p.m.Positions([]Position{{Key: part(9), Epoch: 1, Next: 3}}, lease.Load{}, p.clock(false)))
	_, dirty = p.m.Unconfirmed(part(9))
	assert.False(t, dirty, "of a key that is not run")
}

// carried lists when heartbeats with positions were written since from.
func (p *proc) carried(from int) (at []time.Duration) {
	for i, r := range p.written[from:] {
		if len(r.Heartbeat.Topics) > 0 {
			at = append(at, p.at[from+i])
		}
	}
	return at
}

func TestAPositionThatIsOnItsWayIsNotSentAgainBecauseItIsReportedAgain(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	p.commit(part(0), 6)
	p.do(p.m.Flush(p.clock(false)))
	s.outage = true
	n := len(p.written)
	p.commit(part(0), 6)
	p.commit(part(0), 5)
	s.pass(1500 * ms)
	assert.Empty(t, p.carried(n))
	p.commit(part(0), 7)
	s.pass(time.Second)
	assert.NotEmpty(t, p.carried(n))
}

func TestAPositionIsConfirmedByTheFirstHeartbeatThatCarriesIt(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	p.commit(part(0), 6)
	p.do(p.m.Flush(p.clock(false)))
	p.lose = func(*lease.Record) bool { return true }
	p.do(p.m.Flush(p.clock(false)))
	s.pass(writing + reading)
	_, ok := p.m.Unconfirmed(part(0))
	assert.False(t, ok, "though a second one with it is on its way")
}

func TestAPositionWhoseHeartbeatWasVoidGoesOutWithinTheCommitInterval(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	p.commit(part(0), 6)
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindHeartbeat }
	p.do(p.m.Flush(p.clock(false)))
	p.lose = nil
	n := len(p.written)
	p.want(Wanted{Interests: []lease.Interest{some(1)}, Pinned: []lease.Key{part(7)}})
	s.pass(writing + reading)
	known := s.now
	s.pass(time.Second)
	assert.Equal(t, []time.Duration{known + time.Second}, p.carried(n))
}

func TestPositionsOfAHeartbeatThatIsTooLargeGoOutWithinTheCommitInterval(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	p.commit(part(0), 6)
	p.lose = func(r *lease.Record) bool { return len(r.Heartbeat.Topics) > 0 }
	p.do(p.m.Flush(p.clock(false)))
	p.lose = nil
	n := len(p.written)
	p.do(p.m.Rejected(p.written[n-1].Seq, p.clock(false)))
	refused := s.now
	require.Empty(t, p.carried(n), "an empty one first")
	s.pass(time.Second)
	assert.Equal(t, []time.Duration{refused + time.Second}, p.carried(n))
}

func TestAHeartbeatTellsTheLoadAsItWasReportedLast(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	assert.Equal(t, p.id, p.m.Instance())
	p.do(p.m.Positions(nil, lease.Load{InFlight: 5, Lag: 6}, p.clock(false)))
	n := len(p.written)
	p.do(p.m.Flush(p.clock(false)))
	require.Greater(t, len(p.written), n)
	assert.Equal(t, lease.Load{InFlight: 5, Lag: 6}, p.written[n].Heartbeat.Load)
}

// A move that was wanted, was not for a while, and is again, is wanted since then.
func TestHowLongAMoveIsWantedCountsFromWhenItWasWantedAgain(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(4)))
	s.pass(3 * time.Second)
	p.m.claims.since[part(3)] = s.now - time.Hour
	s.process("q", Config{}, want())
	s.pass(10 * ms)
	assert.NotContains(t, p.m.claims.since, part(3))
}

func TestPositionsOfAKeyThatIsLostAreForgotten(t *testing.T) {
	s := newScript(t)
	i := some(2)
	i.Whole = true
	p := s.process("p", Config{}, want(i, lease.Interest{Topics: []lease.TopicInterest{{Topic: "u", Partitions: 2}}}))
	s.pass(3 * time.Second)
	whole, one := lease.Key{Topic: "t", Partition: lease.WholeTopic}, lease.Key{Topic: "u", Partition: 1}
	require.True(t, p.hands(whole) && p.hands(one))
	report := func() {
		p.do(p.m.Positions([]Position{
			{Key: part(0), Epoch: p.keys[whole].Epoch, Next: 4}, {Key: part(1), Epoch: p.keys[whole].Epoch, Next: 4},
			{Key: one, Epoch: p.keys[one].Epoch, Next: 4},
		}, lease.Load{}, p.clock(false)))
		require.Len(t, p.m.beat.dirty, 3)
	}
	report()
	p.m.forget(whole)
	assert.Len(t, p.m.beat.dirty, 1)
	_, ok := p.m.Unconfirmed(one)
	assert.True(t, ok)
	report()
	p.m.forget(one)
	assert.Len(t, p.m.beat.dirty, 2)
}

func TestWhatIsReleasedOfATopicIsInOrder(t *testing.T) {
	whole := lease.Key{Topic: "t", Partition: lease.WholeTopic}
	for name, end := range map[string]func(p *proc, ps []Position){
		"drained": func(p *proc, ps []Position) {
			p.leave(false, 0)
			p.do(p.m.Drained(whole, p.keys[whole].Epoch, lease.TopicID{7}, ps, p.clock(false)))
		},
		"abandoned": func(p *proc, ps []Position) {
			p.leave(false, 0)
			p.do(p.m.Positions(ps, lease.Load{}, p.clock(false)))
			p.do(p.m.Abandon(p.clock(false)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			i := some(50)
			i.Whole = true
			p := s.process("p", Config{}, want(i))
			s.pass(3 * time.Second)
			require.True(t, p.hands(whole))
			p.slow = true
			var ps []Position
			for n := range int32(50) {
				ps = append(ps, Position{Key: part(n * 7 % 50), Epoch: p.keys[whole].Epoch, TopicID: lease.TopicID{7}, Next: 5})
			}
			n := len(p.written)
			end(p, ps)
			s.pass(10 * ms)
			var parts []int32
			for _, r := range p.written[n:] {
				for _, k := range r.Release.Keys {
					parts = append(parts, k.Partitions...)
					assert.Equal(t, lease.TopicID{7}, k.TopicID)
				}
			}
			require.Len(t, parts, 50)
			assert.IsIncreasing(t, parts)
		})
	}
}

func TestWhatIsDrainedIsReportedUnderTheClaimsEpochAndTopicID(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	p.slow = true
	p.do(p.m.LetGo(part(0), p.keys[part(0)].Epoch, p.clock(false)))
	require.True(t, p.did(Drain, part(0)))
	epoch := p.keys[part(0)].Epoch
	p.do(p.m.Drained(part(0), epoch, lease.TopicID{7}, []Position{{Key: part(0), Next: 5}}, p.clock(false)))
	got, _ := p.m.Unconfirmed(part(0))
	assert.Equal(t, Position{Key: part(0), TopicID: lease.TopicID{7}, Epoch: epoch, Next: 5}, got)
}

// 4 KiB are one topic of 48 bytes and its name of 1, and 134 positions of 30.
func TestPositionsAreSplitByTheirSize(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{MaxReleaseBytes: minBound}, want(some(300)))
	s.pass(3 * time.Second)
	var ps []Position
	for k, a := range p.keys {
		ps = append(ps, Position{Key: k, Epoch: a.Epoch, Next: 5})
	}
	n := len(p.written)
	p.do(p.m.Positions(ps, lease.Load{}, p.clock(false)))
	p.do(p.m.Flush(p.clock(false)))
	var sizes []int
	for _, r := range p.written[n:] {
		sizes = append(sizes, len(r.Heartbeat.Topics[0].Partitions))
	}
	assert.Equal(t, []int{134, 134, 32}, sizes)
}
