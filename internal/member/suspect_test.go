package member

import (
	"bytes"
	"crypto/sha256"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// watcher is a member that is in the world, with peers set by hand.
func watcher(peers ...*peer) *Member {
	log := history.NewLog(history.Base{World: lease.NewWorld(lease.TopicID{})})
	m := New(Config{Instance: instance("me"), TTL: 10 * time.Second}, &Shared{Log: log, Planner: &policy.Planner{}}, Now{Mono: time.Hour})
	m.stage, m.pace = member, 2*time.Second
	m.own.anyRead, m.own.read = true, time.Hour
	for i, p := range peers {
		p.id = instance(string(rune('a' + i)))
		m.watch.peers = append(m.watch.peers, p)
		m.watch.byID[p.id] = p
	}
	return m
}

func TestSuspicionGrowsByTheTimeBetweenTwoOfOurRecordsReadBack(t *testing.T) {
	const sec = time.Second
	for _, c := range []struct {
		name       string
		ttl        time.Duration
		pace       time.Duration
		since      time.Duration // since our previous record read back
		readBefore time.Duration // how long ago the renewal was read
		want       time.Duration
	}{
		{"usual", 10 * sec, 2 * sec, 2 * sec, 3 * sec, 2 * sec},
		{"not further back than the reading of the renewal", 10 * sec, 2 * sec, 2 * sec, 500 * ms, 500 * ms},
		{"under two intervals", 10 * sec, 2 * sec, 4*sec - 1, 9 * sec, 4*sec - 1},
		{"not two intervals", 10 * sec, 2 * sec, 4 * sec, 9 * sec, 0},
		{"under a quarter of its ttl though over two intervals", 20 * sec, sec, 5*sec - 1, 9 * sec, 5*sec - 1},
		{"not a quarter of its ttl", 20 * sec, sec, 5 * sec, 9 * sec, 0},
		{"not half its ttl, though under two intervals", 3 * sec, 2 * sec, 1500 * ms, 9 * sec, 0},
		{"under half its ttl", 3 * sec, 2 * sec, 1500*ms - 1, 9 * sec, 1500*ms - 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &peer{ttl: c.ttl, readAt: time.Hour + c.since - c.readBefore}
			m := watcher(p)
			m.pace = c.pace
			m.grow(time.Hour + c.since)
			assert.Equal(t, c.want, p.silent)
		})
	}
}

func TestTheProbeGrowsWhileOurRecordsAreReadBackWithinItsLength(t *testing.T) {
	p := probe{active: true, since: time.Hour}
	p.grow(500*ms, time.Hour+200*ms)
	assert.Equal(t, 200*ms, p.silent, "it counts from the Join")
	p.grow(999*ms, time.Hour+1199*ms)
	assert.Equal(t, 1199*ms, p.silent)
	p.grow(silence, time.Hour+3*time.Second)
	assert.Equal(t, 1199*ms, p.silent)
}

func TestARenewalEndsSuspicion(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want())
	q := s.process("q", Config{}, want())
	s.pass(time.Second)
	q.silent = true
	s.pass(8 * time.Second)
	require.Greater(t, p.m.LiveTime(q.id), 5*time.Second)
	q.release()
	s.pass(writing + reading)
	assert.Zero(t, p.m.LiveTime(q.id))
	assert.Zero(t, p.m.LiveTime(instance("nobody")))
}

func TestWhileTheLogIsUnavailableTimeStandsStill(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	q := s.process("q", Config{}, want(some(2)))
	s.until(5*time.Second, "balance", func() bool { return q.runs() == 1 })
	for _, d := range []time.Duration{5 * time.Second, 9 * time.Second, 11 * time.Second, time.Hour} {
		s.outage = true
		s.pass(d)
		s.outage = false
		s.pass(6 * time.Second)
		require.Empty(t, append(p.of(lease.KindEvict), q.of(lease.KindEvict)...), "after %v", d)
		assert.True(t, p.runs() == 1 && q.runs() == 1, "after %v", d)
	}
}

func TestWhoIsAmongTheFirstTwoHeartbeatsExactlyWhenTheTTLIsOver(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	q := s.process("q", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	q.crashed = true
	s.flights = nil
	last := s.log[lastOf(s.log, q.id)].Offset
	require.Greater(t, s.now, s.landed[last])
	read := s.landed[last] + reading
	s.until(12*time.Second, "eviction", func() bool { return len(p.of(lease.KindEvict)) == 1 })
	at := p.when(lease.KindEvict)[0]
	assert.Equal(t, read+10*time.Second+writing+reading, at, "a heartbeat at exactly a ttl, and the Evict when it is read back")
	assert.Equal(t, last, p.of(lease.KindEvict)[0].Evict.Targets[0].Renewed, "the eviction names that renewal")
}

func TestTheThirdInTheOrderHeartbeatsAsUsual(t *testing.T) {
	s := newScript(t)
	var ps []*proc
	for _, n := range []string{"p1", "p2", "p3"} {
		ps = append(ps, s.process(n, Config{}, want()))
	}
	dead := s.process("dead", Config{}, want())
	s.pass(3 * time.Second)
	order := rendezvous(dead.id[:], ps)
	dead.crashed = true
	s.flights = nil
	proof := s.landed[lastOf(s.log, dead.id)] + reading + 10*time.Second
	for _, p := range ps {
		p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindEvict }
	}
	s.pass(11 * time.Second)
	assert.Contains(t, order[0].when(lease.KindHeartbeat), proof)
	assert.Contains(t, order[1].when(lease.KindHeartbeat), proof)
	assert.NotContains(t, order[2].when(lease.KindHeartbeat), proof)
}

func lastOf(log []lease.Record, id lease.InstanceID) int {
	for i := len(log) - 1; i >= 0; i-- {
		if log[i].Instance == id {
			return i
		}
	}
	return -1
}

func TestTheFirstInRendezvousOrderEvictsAtOnceTheOthersLater(t *testing.T) {
	s := newScript(t)
	var ps []*proc
	for _, n := range []string{"p1", "p2", "p3", "p4"} {
		ps = append(ps, s.process(n, Config{}, want()))
	}
	dead := s.process("dead", Config{}, want())
	s.pass(3 * time.Second)
	order := rendezvous(dead.id[:], ps)
	for i, p := range order {
		require.Equal(t, i, p.m.ahead(p.m.watch.byID[dead.id], len(ps)))
	}
	dead.crashed = true
	// The Evicts of all but the last come to nothing.
	for _, p := range order[:3] {
		p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindEvict }
	}
	s.until(15*time.Second, "eviction by the last", func() bool { return len(order[3].of(lease.KindEvict)) > 0 })
	for i, p := range order {
		require.NotEmpty(t, p.of(lease.KindEvict))
		passed := p.when(lease.KindEvict)[0] - time.Duration(i)*evictTurn
		assert.Contains(t, arrivals(s, p), passed, "%d turns after a record of its own was read back", i)
	}
	s.pass(10 * ms)
	assert.Equal(t, lease.Ended, order[0].log.World().Instance(dead.id).Status)
}

// arrivals are the times at which p read a record of its own.
func arrivals(s *script, p *proc) (at []time.Duration) {
	for i, r := range s.log {
		if r.Instance == p.id {
			at = append(at, s.landed[i]+reading)
		}
	}
	return at
}

// rendezvous sorts processes by a second version of the rendezvous order.
func rendezvous(x []byte, ps []*proc) []*proc {
	sorted := slices.Clone(ps)
	slices.SortFunc(sorted, func(a, b *proc) int {
		h := func(p *proc) []byte { d := sha256.New(); d.Write(x); d.Write(p.id[:]); return d.Sum(nil) }
		return bytes.Compare(h(b), h(a))
	})
	return sorted
}

func TestARendezvousOrderIsTheOneOfTheLease(t *testing.T) {
	ids := []lease.InstanceID{instance("a"), instance("b"), instance("c"), instance("d"), instance("e")}
	x := []byte("x")
	lease.Rank(x, ids)
	for i := 1; i < len(ids); i++ {
		a, b := lease.Place(x, ids[i-1]), lease.Place(x, ids[i])
		assert.Positive(t, bytes.Compare(a[:], b[:]))
	}
}

func TestOnlyLiveInstancesCountInTheOrder(t *testing.T) {
	s := newScript(t)
	var ps []*proc
	for _, n := range []string{"p1", "p2", "p3", "p4", "p5"} {
		ps = append(ps, s.process(n, Config{}, want()))
	}
	s.pass(3 * time.Second)
	check := func() {
		t.Helper()
		for _, p := range ps {
			for _, q := range p.m.watch.peers {
				ahead := 0
				mine := lease.Place(q.id[:], p.id)
				for _, o := range p.m.watch.peers {
					if theirs := lease.Place(q.id[:], o.id); o != q && o.live() && bytes.Compare(theirs[:], mine[:]) > 0 {
						ahead++
					}
				}
				for limit := 1; limit <= len(ps); limit++ {
					assert.Equal(t, min(ahead, limit), p.m.ahead(q, limit))
				}
			}
		}
	}
	check()
	ps[0].leave(true, time.Hour)
	s.pass(time.Second)
	check()
	ps[1].leave(false, 0)
	s.pass(time.Second)
	ps = ps[2:]
	check()
	ps[0].silent = true
	ps[1].lose = func(r *lease.Record) bool { return r.Kind == lease.KindEvict }
	ps[2].lose = ps[1].lose
	s.pass(15 * time.Second)
	require.True(t, ps[1].m.watch.byID[ps[0].id].dead)
	check()
	ps[0].release()
	s.pass(time.Second)
	require.False(t, ps[1].m.watch.byID[ps[0].id].dead)
	check()
	_ = s.process("new", Config{}, want())
	s.pass(time.Second)
	check()
}

func TestAVoidEvictIsJudgedAnew(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want())
	q := s.process("q", Config{}, want())
	s.pass(3 * time.Second)
	q.silent = true
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindEvict }
	s.until(15*time.Second, "an Evict", func() bool { return len(p.of(lease.KindEvict)) == 1 })
	s.pass(ms)
	require.Len(t, p.of(lease.KindEvict), 1, "one at a time")
	q.release() // its renewal comes before our next record
	p.lose = nil
	s.pass(5 * time.Second)
	assert.Len(t, p.of(lease.KindEvict), 1, "not needed any more")
	assert.False(t, q.ended)

	q.silent = true
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindEvict }
	s.until(15*time.Second, "an Evict", func() bool { return len(p.of(lease.KindEvict)) == 2 })
	p.lose = nil
	s.until(3*time.Second, "another", func() bool { return len(p.of(lease.KindEvict)) == 3 })
	s.pass(10 * ms)
	assert.Equal(t, lease.Ended, p.log.World().Instance(q.id).Status)
}

func TestAParkedInstanceExpiresByItsGrace(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	q := s.process("q", Config{}, want(some(2)))
	s.until(5*time.Second, "balance", func() bool { return q.runs() == 1 })
	q.leave(true, time.Minute)
	s.until(time.Second, "park", func() bool { return q.left })
	parked := s.now
	s.pass(59 * time.Second)
	assert.Equal(t, 1, p.runs())
	s.until(5*time.Second, "eviction", func() bool { return p.runs() == 2 })
	assert.Greater(t, s.now-parked, time.Minute)
}

func TestTheInterval(t *testing.T) {
	const sec = time.Second
	for _, c := range []struct {
		name  string
		own   time.Duration // setting
		ttl   time.Duration
		peers []*peer
		want  time.Duration
	}{
		{"own setting", sec, 10 * sec, nil, sec},
		{"a fifth of its ttl", 5 * sec, 10 * sec, nil, 2 * sec},
		{"a fifth of the ttl of one it watches first", 5 * sec, 10 * sec, []*peer{{ttl: 4 * sec, rank: rank{ahead: 0, all: true}}}, 800 * ms},
		{"or second", 5 * sec, 10 * sec, []*peer{{ttl: 4 * sec, rank: rank{ahead: 1, all: true}}}, 800 * ms},
		{"not third", 5 * sec, 10 * sec, []*peer{{ttl: 4 * sec, rank: rank{ahead: 2, all: true}}}, 2 * sec},
		{"the shortest of all", 5 * sec, 10 * sec, []*peer{{ttl: 4 * sec, rank: rank{ahead: 1, all: true}}, {ttl: 3 * sec, rank: rank{ahead: 1, all: true}}, {ttl: sec, rank: rank{ahead: 3, all: true}}}, 600 * ms},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := watcher(c.peers...)
			m.cfg.Heartbeat, m.cfg.TTL = c.own, c.ttl
			assert.Equal(t, c.want, m.interval())
		})
	}
}

// keptUp checks what is not worked out for each record against what it would be.
func (m *Member) keptUp(t testing.TB) {
	dead := 0
	for _, p := range m.watch.peers {
		if p.dead {
			dead++
		}
	}
	require.Equal(t, dead, m.watch.dead)
	if m.stage != member {
		return
	}
	require.Equal(t, m.interval(), m.pace)
	regular := m.beat.last + m.pace*m.beat.jitter/1000
	kept := m.proofDue(regular)
	before := m.watch.proof
	m.watch.proof = proof{}
	require.Equal(t, m.proofDue(regular), kept)
	m.watch.proof = before
}

func TestAPeerThatIsHeardOfNeedsNoProof(t *testing.T) {
	const sec = time.Second
	p, q := &peer{ttl: 10 * sec, readAt: time.Hour, silent: 9 * sec}, &peer{ttl: 10 * sec, readAt: time.Hour, silent: 8 * sec}
	m := watcher(p, q)
	require.Equal(t, time.Hour+sec, m.proofDue(time.Hour+3*sec))
	m.renewed(p.id, Now{Mono: time.Hour + 500*ms})
	require.Equal(t, time.Hour+2*sec, m.proofDue(time.Hour+3*sec), "the next one is due")
	m.renewed(q.id, Now{Mono: time.Hour + 600*ms})
	require.Equal(t, time.Hour+3*sec, m.proofDue(time.Hour+3*sec), "the regular one serves")
}
