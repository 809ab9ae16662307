package member

import (
	"reflect"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// calls are all that may be called on a member, with arguments that change as little as they can.
var calls = map[string]func(m *Member, now Now) Output{
	"Step":      func(m *Member, now Now) Output { return m.Step(nil, now) },
	"Tick":      func(m *Member, now Now) Output { return m.Tick(now) },
	"Positions": func(m *Member, now Now) Output { return m.Positions(nil, lease.Load{}, now) },
	"Flush":     func(m *Member, now Now) Output { return m.Flush(now) },
	"Want":      func(m *Member, now Now) Output { return m.Want(want(some(2)), now) },
	"Drained":   func(m *Member, now Now) Output { return m.Drained(part(9), 1, lease.TopicID{}, nil, now) },
	"GiveUp":    func(m *Member, now Now) Output { return m.GiveUp(part(9), 1, now) },
	"LetGo":     func(m *Member, now Now) Output { return m.LetGo(part(9), 1, now) },
	"Seek":      func(m *Member, now Now) Output { return m.Seek(part(9), lease.TopicID{}, 1, 1, now) },
	"Acked":     func(m *Member, now Now) Output { return m.Acked(1000, now) },
	"Rejected":  func(m *Member, now Now) Output { return m.Rejected(1000, now) },
	"Leave":     func(m *Member, now Now) Output { return m.Leave(false, 0, now) },
	"Abandon":   func(m *Member, now Now) Output { return m.Abandon(now) },
}

func TestAMemberThatIsOverDoesNothingWhateverIsCalled(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			p := s.process("p", Config{}, want(some(2)))
			s.pass(3 * time.Second)
			p.leave(false, 0)
			s.until(time.Second, "the end", func() bool { return p.left })
			assert.Equal(t, Output{Wake: Never}, call(p.m, p.clock(true)))
			assert.Empty(t, p.m.Running())
			assert.True(t, p.m.Fitter(part(0)).IsZero())
		})
	}
	exported := reflect.TypeFor[*Member]()
	for i := range exported.NumMethod() {
		f := exported.Method(i)
		if f.Type.NumOut() == 1 && f.Type.Out(0) == reflect.TypeFor[Output]() {
			assert.Contains(t, calls, f.Name)
		}
	}
}

func TestWhoAbandonsBeforeItsJoinIsReadIsOver(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	out := p.m.Abandon(p.clock(false))
	assert.Equal(t, Output{Wake: Never, Ended: true}, out)
	for name, call := range calls {
		assert.Equal(t, Output{Wake: Never}, call(p.m, p.clock(true)), name)
	}
}

func TestEveryCallTakesTheTime(t *testing.T) {
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			p := s.process("p", Config{}, want(some(2)))
			s.pass(3 * time.Second)
			now := p.clock(false)
			now.Mono += 300 * ms
			out := call(p.m, now)
			assert.Equal(t, now.Mono, p.m.now)
			assert.GreaterOrEqual(t, out.Wake, now.Mono, "and says when it wants to be called again")
			now.Mono -= 200 * ms
			call(p.m, now)
			assert.Equal(t, now.Mono+200*ms, p.m.now, "but not back")
		})
	}
}

func TestWhatIsWantedIsTheMembersOwn(t *testing.T) {
	s := newScript(t)
	w := Wanted{Interests: []lease.Interest{some(2)}, Pinned: []lease.Key{part(7)}, Kept: []lease.Key{part(8)}, KeptUntil: Never}
	p := s.process("p", Config{}, w)
	w.Interests[0].Topics[0].Partitions, w.Pinned[0], w.Kept[0] = 9, part(1), part(1)
	assert.Equal(t, []lease.Interest{some(2)}, p.m.claims.want.Interests)
	assert.Equal(t, []lease.Key{part(7)}, p.m.claims.want.Pinned)
	assert.Equal(t, []lease.Key{part(8)}, p.m.claims.want.Kept)
}

// What a member keeps beside its claims, to find them without a look at each, is what a look at each would find.
func TestWhatIsCountedIsThere(t *testing.T) {
	drains, releases := 0, 0
	for seed := range uint64(4) {
		storm(t, seed, func(s *script) {
			for _, p := range s.procs {
				p.slow = true // drains end at the next call at the earliest
				c, underway := &p.m.claims, 0
				for k, q := range c.run {
					if q.phase == draining {
						underway++
					}
					if q.release != 0 {
						require.Equal(t, q.release, c.releasing[k])
						require.False(t, c.ready[k])
					}
				}
				require.Equal(t, underway, c.draining)
				for k := range c.ready {
					require.Equal(t, drained, c.run[k].phase)
				}
				for k, seq := range c.releasing {
					require.Equal(t, seq, c.run[k].release)
				}
				dead := 0
				for _, q := range p.m.watch.peers {
					require.Same(t, q, p.m.watch.byID[q.id])
					if q.dead {
						dead++
					}
				}
				require.Len(t, p.m.watch.byID, len(p.m.watch.peers))
				require.Equal(t, dead, p.m.watch.dead)
				drains, releases = drains+underway, releases+len(c.releasing)
				if p.ended || p.left || p.crashed {
					continue
				}
				for _, k := range p.m.Running() {
					if c.run[k] != nil && c.run[k].phase == draining {
						p.drained(k)
					}
				}
			}
		})
	}
	require.NotZero(t, drains)
	require.NotZero(t, releases)
}

func TestOnlyOneThatIsJoinedAndWasHeardOfLatelyIsFit(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	q := s.process("q", Config{}, want(some(2)))
	assert.True(t, p.m.Fitter(part(0)).IsZero(), "nobody is known before the Join is read")
	s.pass(5 * time.Second)
	require.True(t, p.m.fit(q.id))
	assert.False(t, p.m.fit(instance("stranger")))
	peer := p.m.watch.byID[q.id]
	peer.silent = 4*time.Second - 1
	assert.True(t, p.m.fit(q.id), "two of its intervals")
	peer.silent++
	assert.False(t, p.m.fit(q.id))
	peer.silent = 0
	q.leave(true, time.Hour)
	s.pass(10 * ms)
	require.True(t, q.left)
	assert.False(t, p.m.fit(q.id), "parked")
}

func TestBalanceWaitsForThreeRoundTripsWhereTheyAreLong(t *testing.T) {
	m := watcher(&peer{ttl: 10 * time.Second})
	m.watch.moved = m.now
	m.claims.since[part(0)] = m.now
	mv := policy.Move{Key: part(0), To: instance("a")}
	for _, c := range []struct{ trip, until time.Duration }{{10 * ms, 500 * ms}, {time.Second, 3 * time.Second}, {time.Hour, 8 * time.Second}} {
		m.own.trip, m.claims.at = c.trip, Never
		assert.False(t, m.mayMove(mv))
		assert.Equal(t, time.Hour+c.until, m.claims.at)
		m.now += c.until
		m.claims.at = Never
		assert.False(t, m.mayMove(mv), "nobody of that name is in the world")
		assert.Equal(t, Never, m.claims.at, "but time alone changes nothing any more")
		m.now = time.Hour
	}
}

func TestWhoIsToGetAKeyIsWhomThePlanNamesUnlessItIsSilentOrTheKeyIsGivenUp(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(8)))
	var others []*proc
	for _, n := range []string{"q", "r", "s"} {
		others = append(others, s.process(n, Config{}, want(some(8))))
	}
	s.pass(30 * time.Second)
	require.NotEmpty(t, p.m.Running())
	k := p.m.Running()[0]
	first := p.m.heir(k, false)
	require.False(t, first.IsZero())
	var other *proc
	for _, o := range others {
		if o.id != first {
			other = o
		}
	}
	p.m.claims.moves[k] = policy.Move{Key: k, To: other.id}
	assert.Equal(t, other.id, p.m.heir(k, false))
	assert.Equal(t, first, p.m.heir(k, true), "the plan's move is for balance: who gives it up looks for somebody fitter")
	p.m.claims.moves[k] = policy.Move{Key: k}
	assert.True(t, p.m.heir(k, false).IsZero(), "the plan has it free")
	p.m.claims.moves[k] = policy.Move{Key: k, To: other.id}
	p.m.watch.byID[other.id].dead = true
	assert.Equal(t, first, p.m.heir(k, false), "the one that the plan names is silent")
	delete(p.m.claims.moves, k)
	p.m.watch.byID[first].dead = true
	assert.NotContains(t, []lease.InstanceID{first, other.id, p.id}, p.m.heir(k, false))
}

func TestAClaimIsGivenUpUnderItsOwnEpochAlone(t *testing.T) {
	for name, give := range map[string]func(p *proc, k lease.Key, epoch int64){
		"GiveUp": func(p *proc, k lease.Key, epoch int64) { p.do(p.m.GiveUp(k, epoch, p.clock(false))) },
		"LetGo":  func(p *proc, k lease.Key, epoch int64) { p.do(p.m.LetGo(k, epoch, p.clock(false))) },
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			p := s.process("p", Config{}, want(some(2)))
			s.process("q", Config{}, want(some(2)))
			s.pass(10 * time.Second)
			require.Len(t, p.m.Running(), 1)
			k := p.m.Running()[0]
			e := p.keys[k].Epoch
			give(p, k, e-1)
			give(p, part(9), e)
			assert.Equal(t, running, p.m.claims.run[k].phase)
			assert.False(t, p.did(Drain, k))
			give(p, k, e)
			assert.True(t, p.did(Drain, k))
		})
	}
}

func TestWhatWasDrainedIsInTheLogThoughTheReleaseComesToNothing(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.process("q", Config{}, want(some(2)))
	s.pass(10 * time.Second)
	require.True(t, p.hands(part(0)) || p.runs() == 0)
	for _, o := range s.procs {
		if o.holds(part(0)) {
			p = o
		}
	}
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindRelease }
	p.done[part(0)] = 77
	p.do(p.m.LetGo(part(0), p.keys[part(0)].Epoch, p.clock(false)))
	require.NotEmpty(t, p.of(lease.KindRelease))
	d, ok := p.m.Unconfirmed(part(0))
	assert.True(t, ok)
	assert.Equal(t, int64(77), d.Next)
	s.pass(3 * time.Second)
	w, _ := p.log.World().Progress("t", 0)
	assert.Equal(t, int64(77), w.Next)
	_, ok = p.m.Unconfirmed(part(0))
	assert.False(t, ok)
}

// Order is not left to maps: equal members write equal records.
func TestRecordsNameKeysInOrder(t *testing.T) {
	s := newScript(t)
	topic := func(name string) lease.TopicInterest { return lease.TopicInterest{Topic: name, Partitions: 20} }
	p := s.process("p", Config{}, want(lease.Interest{Topics: []lease.TopicInterest{topic("b"), topic("a")}}))
	s.pass(3 * time.Second)
	require.Equal(t, 40, p.runs())
	var ps []Position
	for k, a := range p.keys {
		ps = append(ps, Position{Key: k, Epoch: a.Epoch, Next: 5})
	}
	n := len(p.written)
	p.do(p.m.Positions(ps, lease.Load{}, p.clock(false)))
	p.do(p.m.Flush(p.clock(false)))
	require.Equal(t, []lease.Kind{lease.KindHeartbeat}, p.kinds(n))
	topics := p.written[n].Heartbeat.Topics
	require.Len(t, topics, 2, "each topic once")
	assert.Equal(t, "a", topics[0].Topic)
	for _, topic := range topics {
		require.Len(t, topic.Partitions, 20)
		assert.IsIncreasing(t, topic.Partitions)
	}
	n = len(p.written)
	p.leave(false, 0)
	s.until(time.Second, "the end", func() bool { return p.left })
	var keys []lease.Key
	for _, r := range p.written[n:] {
		for _, k := range r.Release.Keys {
			keys = append(keys, k.Key)
		}
	}
	require.Len(t, keys, 40)
	assert.IsIncreasing(t, func() (names []string) {
		for _, k := range keys {
			names = append(names, k.Topic+string(rune('0'+k.Partition)))
		}
		return names
	}())
}
