package member

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// seeds is how many storms a test runs.
func seeds() uint64 {
	if testing.Short() {
		return 3
	}
	return 25
}

// storm runs a few processes under random faults and wishes.
func storm(t *testing.T, seed uint64, each func(s *script)) *script {
	r := rand.New(rand.NewPCG(seed, 1))
	s := newScript(t)
	n := 0
	start := func() {
		i := some(1 + r.Int32N(8))
		i.Max, i.Weight, i.Greedy, i.Whole = r.Int32N(4), r.Int32N(3), r.IntN(4) == 0, r.IntN(8) == 0
		n++
		s.process(fmt.Sprintf("p%d", n), Config{
			Client: fmt.Sprintf("c%d", r.IntN(4)), TTL: time.Duration(300+r.IntN(9000)) * ms, Heartbeat: time.Duration(100+r.IntN(2000)) * ms,
		}, Wanted{Interests: []lease.Interest{i}, FastReclaim: r.IntN(2) == 0})
	}
	start()
	for range 60 {
		p := s.procs[r.IntN(len(s.procs))]
		over := p.ended || p.left || p.crashed
		switch r.IntN(14) {
		case 0, 1:
			start()
		case 2:
			p.crashed = true
		case 3:
			s.outage = !s.outage
		case 4:
			p.blind = !p.blind
		case 5:
			if p.silent {
				p.release()
			} else {
				p.silent = true
			}
		case 6:
			if !over {
				p.leave(r.IntN(2) == 0, time.Duration(r.IntN(20))*time.Second)
			}
		case 7:
			if !over {
				p.want(Wanted{Kept: p.m.Running(), KeptUntil: s.now + time.Duration(r.IntN(9000))*ms})
			}
		case 8:
			if !over {
				p.want(want(some(r.Int32N(6))))
			}
		case 9:
			lost := r.IntN(3)
			p.lose = func(rec *lease.Record) bool { return lost > 0 && r.IntN(3) < lost }
		case 10:
			for k, a := range p.keys {
				if !over && !a.Unread && k.Partition != lease.WholeTopic {
					p.commit(k, p.done[k]+1)
				}
			}
		case 11:
			if keys := p.m.Running(); !over && len(keys) > 0 {
				k := keys[r.IntN(len(keys))]
				p.do(p.m.GiveUp(k, p.keys[k].Epoch, p.clock(false)))
			}
		case 12:
			if !over {
				p.do(p.m.Tick(p.clock(true)))
				p.do(p.m.Seek(part(r.Int32N(6)), lease.TopicID{}, r.Int64N(9), lease.NoEpoch, p.clock(false)))
			}
		case 13:
			if !over && r.IntN(3) == 0 {
				p.do(p.m.Abandon(p.clock(false)))
			}
		}
		s.pass(time.Duration(r.IntN(4000)) * ms)
		each(s)
	}
	return s
}

// The harness itself checks, in each of its ticks, that no tick asks for another one at once.
func TestWakeIsAlwaysLaterAndATickTooManyIsHarmless(t *testing.T) {
	for seed := range seeds() {
		storm(t, seed, func(s *script) {
			for _, p := range s.procs {
				if p.crashed || p.ended || p.left {
					continue
				}
				p.do(p.m.Tick(p.clock(true))) // a Positions call may have moved the wake
				n := len(p.written)
				out := p.m.Tick(p.clock(true))
				require.Empty(t, out.Appends, "%s wrote %d", p.name, n)
				require.Empty(t, out.Actions)
				require.Greater(t, out.Wake, s.now)
			}
		})
	}
}

func TestNoTwoMembersRunOneKeyAndEveryFreeKeyIsHeldAgain(t *testing.T) {
	for seed := range seeds() {
		s := storm(t, seed, func(s *script) {
			owner := map[lease.Key]string{}
			for _, p := range s.procs {
				for k := range p.keys {
					if p.hands(k) && !p.crashed && !p.ended && !p.left {
						require.Empty(t, owner[k], "seed %d: %v by %s", seed, k, p.name)
						owner[k] = p.name
					}
				}
			}
		})
		// The faults end; somebody who wants all is there.
		s.outage = false
		for _, p := range s.procs {
			p.crashed, p.silent, p.lose = true, false, nil
		}
		a := s.process("last", Config{TTL: time.Second}, want(some(6)))
		b := s.process("very last", Config{TTL: time.Second}, want(some(6)))
		s.pass(2 * time.Minute)
		require.Equal(t, 3, a.runs(), "seed %d", seed)
		require.Equal(t, 3, b.runs(), "seed %d", seed)
		from := len(s.log)
		s.pass(time.Minute)
		for _, r := range s.log[from:] {
			require.Equal(t, lease.KindHeartbeat, r.Kind, "balance is reached, and then nothing more is written")
		}
	}
}

func TestEqualInputsGiveEqualOutputs(t *testing.T) {
	for seed := range uint64(10) {
		a := storm(t, seed, func(*script) {})
		b := storm(t, seed, func(*script) {})
		require.Equal(t, len(a.procs), len(b.procs))
		for i, p := range a.procs {
			q := b.procs[i]
			require.Equal(t, p.written, q.written)
			require.Equal(t, p.actions, q.actions)
			require.Equal(t, p.m.AppendBinary(nil, 0, 2*Never, 1), q.m.AppendBinary(nil, 0, 2*Never, 1))
		}
	}
}

func TestACloneIsEqualAndIndependent(t *testing.T) {
	storm(t, 7, func(s *script) {
		for _, p := range s.procs {
			if p.ended || p.left || p.crashed {
				continue
			}
			before := p.m.AppendBinary(nil, 0, 2*Never, 1)
			c := p.m.Clone(p.m.s)
			require.Equal(t, before, c.AppendBinary(nil, 0, 2*Never, 1))
			now := p.clock(true)
			now.Mono += 5 * time.Second
			out := c.Tick(now)
			c.Want(want(some(3)), now)
			c.Step([]lease.Event{{Kind: lease.Renewed, Instance: p.id, Author: p.id, Seq: c.own.seq}}, now)
			c.Drained(part(0), 1, lease.TopicID{}, nil, now)
			require.Equal(t, before, p.m.AppendBinary(nil, 0, 2*Never, 1), "what the clone does leaves the original alone")
			again := p.m.Clone(p.m.s)
			require.Equal(t, out, again.Tick(now), "and another does the same")
		}
	})
}

func TestTheCanonicalFormTellsMembersApart(t *testing.T) {
	m, log, now := settledMember(t, 2)
	e := func() int64 { l, _ := log.World().Lease(part(0)); return l.Epoch }()
	seen := map[string]string{}
	note := func(what string) {
		b := string(m.AppendBinary(nil, 0, 2*Never, 1))
		require.Empty(t, seen[b], "as before %s", what)
		seen[b] = what
	}
	note("start")
	m.Positions([]Position{{Key: part(0), Epoch: e, Next: 4}}, lease.Load{}, now)
	note("position")
	m.Flush(now)
	note("heartbeat")
	m.Acked(m.own.seq, now)
	note("acknowledgement")
	offset, _ := log.Position()
	for seq := range uint64(3) {
		rec := lease.Record{Kind: lease.KindHeartbeat, Instance: instance("other"), Seq: seq + 1, Offset: offset + 1 + int64(seq)}
		if seq == 0 {
			rec.Kind, rec.Join = lease.KindJoin, lease.Join{Client: "o", TTL: 10 * time.Second, Interests: []lease.Interest{some(2)}}
		}
		events, _ := log.Take(&rec, nil, nil)
		m.Step(events, now)
	}
	note("somebody who is fit")
	m.GiveUp(part(0), e, now)
	note("drain")
	m.Drained(part(0), e, lease.TopicID{}, nil, now)
	note("release")
	m.Seek(part(1), lease.TopicID{}, 4, lease.NoEpoch, now)
	note("seek")
	m.Want(Wanted{FastReclaim: true}, now)
	note("want")
	m.Leave(false, 0, now)
	note("leave")
}

// settledMember is one that holds n keys, with another one beside it.
func settledMember(t testing.TB, n int32) (*Member, *history.Log, Now) {
	log := history.NewLog(history.Base{World: lease.NewWorld(lease.TopicID{})})
	now := Now{Mono: time.Hour, Wall: 1000 * time.Hour}
	m := New(Config{Instance: instance("me"), TTL: 10 * time.Second}, &Shared{Log: log, Planner: &policy.Planner{}}, now)
	queue := m.Want(want(some(n)), now).Appends
	offset := int64(0)
	for len(queue) > 0 {
		now.Mono += ms
		now.Wall += ms
		rec := queue[0].Record
		rec.Offset = offset
		offset++
		events, _ := log.Take(&rec, nil, nil)
		queue = append(queue[1:], m.Step(events, now).Appends...)
	}
	require.Len(t, m.Running(), int(n))
	return m, log, now
}

func TestASettledInstanceDoesNoWorkPerKeyForAHeartbeat(t *testing.T) {
	cost := func(n int32) float64 {
		m, log, now := settledMember(t, n)
		offset, _ := log.Position()
		other := lease.Record{Kind: lease.KindJoin, Instance: instance("other"), Seq: 1, Offset: offset + 1, Join: lease.Join{Client: "o", TTL: 10 * time.Second}}
		events, _ := log.Take(&other, nil, nil)
		m.Step(events, now)
		offset++
		seq := uint64(1)
		return testing.AllocsPerRun(200, func() {
			offset++
			seq++
			rec := lease.Record{Kind: lease.KindHeartbeat, Instance: instance("other"), Seq: seq, Offset: offset}
			events, _ = log.Take(&rec, nil, events[:0])
			m.Step(events, now)
		})
	}
	assert.Equal(t, cost(1), cost(2000))
}

func BenchmarkStepOfAnothersHeartbeat(b *testing.B) {
	for _, n := range []int32{10, 1000} {
		b.Run(fmt.Sprintf("keys=%d", n), func(b *testing.B) {
			m, log, now := settledMember(b, n)
			offset, _ := log.Position()
			other := lease.Record{Kind: lease.KindJoin, Instance: instance("other"), Seq: 1, Offset: offset + 1, Join: lease.Join{Client: "o", TTL: 10 * time.Second}}
			events, _ := log.Take(&other, nil, nil)
			m.Step(events, now)
			events = []lease.Event{{Kind: lease.Renewed, Instance: instance("other"), Author: instance("other"), Seq: 2}}
			b.ReportAllocs()
			for b.Loop() {
				m.Step(events, now)
			}
		})
	}
}

func BenchmarkReconcile(b *testing.B) {
	m, _, now := settledMember(b, 1000)
	b.ReportAllocs()
	for b.Loop() {
		m.claims.stale = true
		m.Tick(now)
	}
}
