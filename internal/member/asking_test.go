package member

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

func TestWhoIsDeafOrLeavesClaimsNothing(t *testing.T) {
	byHand := Wanted{Pinned: []lease.Key{part(7)}}
	s := newScript(t)
	p := s.process("p", Config{}, want())
	s.pass(time.Second)
	p.lose = func(*lease.Record) bool { return true }
	n := len(p.written)
	s.until(3*time.Second, "a heartbeat", func() bool { return len(p.written) > n })
	p.do(p.m.Acked(p.written[n].Seq, p.clock(false)))
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindHeartbeat }
	s.pass(5 * time.Second)
	require.True(t, p.has(Deaf))
	p.want(byHand)
	s.append(lease.Record{Kind: lease.Foreign}) // it hears, but nothing of its own
	s.pass(time.Second)
	assert.Empty(t, p.of(lease.KindClaim))

	q := s.process("q", Config{}, want(some(1)))
	s.until(5*time.Second, "a key", func() bool { return q.hands(part(0)) })
	q.slow = true
	q.leave(false, 0)
	n = len(q.of(lease.KindClaim))
	q.want(byHand)
	s.pass(time.Second)
	require.False(t, q.left)
	assert.Len(t, q.of(lease.KindClaim), n)
}

func TestAfterARefusalNothingIsWrittenAnewForAnInterval(t *testing.T) {
	for _, kind := range []lease.Kind{lease.KindClaim, lease.KindRelease} {
		s := newScript(t)
		p := s.process("p", Config{}, want())
		s.pass(time.Second)
		p.lose = func(r *lease.Record) bool { return r.Kind == kind }
		p.want(Wanted{Pinned: []lease.Key{part(7)}})
		s.pass(10 * ms)
		if kind == lease.KindRelease {
			p.want(want())
		}
		s.until(time.Second, "the record", func() bool { return len(p.of(kind)) == 1 })
		refused := s.now
		for _, r := range p.of(kind) {
			p.do(p.m.Rejected(r.Seq, p.clock(false)))
		}
		for range 5 { // what else it reads is no reason
			s.append(lease.Record{Kind: lease.KindJoin, Instance: instance("o" + string(rune('0'+len(s.log)))), Seq: 1, Join: lease.Join{Client: "o", TTL: time.Minute}})
			s.pass(100 * ms)
		}
		require.Len(t, p.of(kind), 1)
		p.lose = nil
		s.pass(2 * time.Second)
		require.Len(t, p.of(kind), 2)
		assert.Equal(t, refused+2*time.Second, p.when(kind)[1])
	}
}

func TestAReleaseOfWhoLeavesThatIsRefusedIsWrittenAnewAfterAnInterval(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	s.pass(3 * time.Second)
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindRelease }
	p.leave(false, 0)
	s.until(time.Second, "the release", func() bool { return len(p.of(lease.KindRelease)) == 1 })
	p.lose = nil
	refused := s.now
	p.do(p.m.Rejected(p.of(lease.KindRelease)[0].Seq, p.clock(false)))
	s.until(10*time.Second, "another", func() bool { return len(p.of(lease.KindRelease)) == 2 })
	assert.Equal(t, refused+2*time.Second, p.when(lease.KindRelease)[1])
	s.until(time.Second, "the end", func() bool { return p.left })
}

func TestAClaimNamesEachKeyOnceInOrder(t *testing.T) {
	s := newScript(t)
	greedy := some(8)
	greedy.Greedy = true
	s.process("p", Config{}, Wanted{Interests: []lease.Interest{greedy}, Pinned: []lease.Key{part(12), part(11), {Topic: "s", Partition: 3}}})
	s.pass(20 * ms)
	claims := s.procs[0].of(lease.KindClaim)
	require.Len(t, claims, 1)
	want := []lease.Key{{Topic: "s", Partition: 3}}
	for p := range int32(8) {
		want = append(want, part(p))
	}
	assert.Equal(t, append(want, part(11), part(12)), claims[0].Claim.Keys)
}

func TestTheLastRunsKeysAreClaimedOnce(t *testing.T) {
	s := newScript(t)
	p := s.process("p1", Config{Client: "c"}, Wanted{Interests: []lease.Interest{some(4)}, Pinned: []lease.Key{part(7)}})
	s.pass(3 * time.Second)
	p.leave(true, time.Minute)
	s.until(time.Second, "parking", func() bool { return p.left })
	next := s.process("p2", Config{Client: "c"}, Wanted{Interests: []lease.Interest{some(4)}, Pinned: []lease.Key{part(7)}})
	s.pass(20 * ms)
	claims := next.of(lease.KindClaim)
	require.Len(t, claims, 1)
	assert.Equal(t, []lease.Key{part(0), part(1), part(2), part(3), part(7)}, claims[0].Claim.Keys)
}

// 4 KiB are 15 keys of 273 bytes.
func TestTheNameOfATopicCountsInTheSizeOfAClaim(t *testing.T) {
	s := newScript(t)
	name := strings.Repeat("n", 249)
	p := s.process("p", Config{MaxReleaseBytes: minBound}, want(lease.Interest{Topics: []lease.TopicInterest{{Topic: name, Partitions: 40}}}))
	s.pass(time.Second)
	var sizes []int
	for _, r := range p.of(lease.KindClaim) {
		sizes = append(sizes, len(r.Claim.Keys))
	}
	assert.Equal(t, []int{15, 15, 10}, sizes)
}

// Whoever comes fifth in the order waits four turns, whatever it reads meanwhile.
func TestATurnIsWaitedForThoughSomethingElseHappens(t *testing.T) {
	s := newScript(t)
	var ps []*proc
	for _, n := range []string{"p1", "p2", "p3", "p4", "p5"} {
		ps = append(ps, s.process(n, Config{}, want()))
	}
	s.pass(3 * time.Second)
	for _, p := range ps {
		p.want(want(some(1)))
		p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindClaim }
	}
	s.pass(writing + reading)
	seen := s.now
	plan := policy.Compute(ps[0].log.World())
	for range 50 {
		for _, p := range ps {
			p.m.claims.stale = true
			p.do(p.m.Tick(p.clock(true)))
		}
		s.pass(5 * ms)
	}
	for turn := range ps {
		id, _ := plan.Claimant(part(0), turn)
		for _, p := range ps {
			if p.id == id {
				require.NotEmpty(t, p.when(lease.KindClaim), turn)
				assert.InDelta(t, time.Duration(turn)*minTurn, p.when(lease.KindClaim)[0]-seen, float64(10*ms), "turn %d", turn)
			}
		}
	}
}

// Keys that it holds, and those that it has asked for, count in an interest's maximum; one that is claimed by hand does not.
func TestWhatIsHeldCountsInTheMaximumWhatIsClaimedByHandDoesNot(t *testing.T) {
	s := newScript(t)
	i, other := some(8), some(8)
	i.Max, i.Weight, other.Weight = 3, 1, 3 // the plan gives the other 6 of 8
	p := s.process("p", Config{}, want())
	dead := s.process("dead", Config{}, want(other))
	dead.lose = func(r *lease.Record) bool { return r.Kind == lease.KindClaim }
	s.pass(writing + reading)
	dead.crashed = true
	p.want(Wanted{Interests: []lease.Interest{i}, Pinned: []lease.Key{part(7)}})
	s.pass(5 * time.Second) // all turns are over, and nobody is evicted yet
	require.True(t, p.holds(part(7)))
	assert.Len(t, p.keys, 4)
	asked := map[lease.Key]bool{}
	for _, c := range p.of(lease.KindClaim) {
		for _, k := range c.Claim.Keys {
			assert.False(t, asked[k], k)
			asked[k] = true
		}
	}
	assert.Len(t, asked, 4)
}

// A maximum is that of the interest which covers a key, whichever that is.
func TestEachInterestHasItsOwnMaximum(t *testing.T) {
	s := newScript(t)
	first, second := lease.Interest{Topics: []lease.TopicInterest{{Topic: "s", Partitions: 4}}, Greedy: true}, some(8)
	second.Max, second.Greedy = 3, true
	p := s.process("p", Config{}, want(first, second))
	s.pass(20 * ms)
	claims := p.of(lease.KindClaim)
	require.Len(t, claims, 1)
	of := map[string]int{}
	for _, k := range claims[0].Claim.Keys {
		of[k.Topic]++
	}
	assert.Equal(t, map[string]int{"s": 4, "t": 3}, of)
}

func TestPartitionsOfAParkedRunMayBecomeAWholeTopicAndAWholeTopicPartitions(t *testing.T) {
	whole := some(3)
	whole.Whole = true
	all := lease.Key{Topic: "t", Partition: lease.WholeTopic}
	for _, c := range []struct {
		name          string
		before, after lease.Interest
		keys          []lease.Key
	}{
		{"a whole topic", some(3), whole, []lease.Key{all}},
		{"partitions", whole, some(3), []lease.Key{part(0), part(1), part(2)}},
		{"the same", some(3), some(3), []lease.Key{part(0), part(1), part(2)}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScript(t)
			p := s.process("p1", Config{Client: "c"}, want(c.before))
			s.pass(3 * time.Second)
			p.leave(true, time.Minute)
			s.until(time.Second, "parking", func() bool { return p.left })
			next := s.process("p2", Config{Client: "c"}, want(c.after))
			s.pass(time.Second)
			assert.Equal(t, c.keys, next.m.Running())
			require.Len(t, next.of(lease.KindClaim), 1)
			assert.Equal(t, c.keys, next.of(lease.KindClaim)[0].Claim.Keys)
		})
	}
}

func TestARefusedKeyIsAskedForAgainAfterASecond(t *testing.T) {
	m := watcher()
	m.claims.at = Never
	m.refused(part(1), lease.TooMany)
	m.now += time.Second - 1
	assert.False(t, m.mayAsk(part(1)))
	assert.Equal(t, m.now+1, m.claims.at)
	m.now++
	assert.True(t, m.mayAsk(part(1)))
}

func TestHeartbeatsOnTheirWayAreBounded(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	s.outage = true
	at := len(p.when(lease.KindHeartbeat))
	s.pass(10 * time.Minute)
	times := p.when(lease.KindHeartbeat)[at:]
	var gaps []time.Duration
	for i := 1; i < len(times); i++ {
		gaps = append(gaps, times[i]-times[i-1])
	}
	slow := slices.IndexFunc(gaps, func(d time.Duration) bool { return d > 3*time.Second })
	assert.Equal(t, 31, slow, "32 at the pace of heartbeats")
	for _, d := range gaps[slow:] {
		assert.Equal(t, 10*time.Second, d, "then one a ttl")
	}
}
