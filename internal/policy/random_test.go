package policy

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// randomGroup is a group to which random things happen.
type randomGroup struct {
	*group
	r      *rand.Rand
	names  []string
	topics []string
	parts  map[string]int32
	odd    bool // with limits, greed, whole topics, pins, marks, namesakes, weights
}

func newRandomGroup(seed uint64, odd bool) *randomGroup {
	g := &randomGroup{group: newGroup(), r: rand.New(rand.NewPCG(seed, 9)), parts: map[string]int32{}, odd: odd}
	for i := range 1 + g.r.IntN(5) {
		t := fmt.Sprintf("t%d", i)
		g.topics = append(g.topics, t)
		g.parts[t] = int32(1 + g.r.IntN(40))
	}
	for range 1 + g.r.IntN(20) {
		g.newMember()
	}
	return g
}

func (g *randomGroup) newMember() {
	n := fmt.Sprintf("m%d", len(g.names))
	g.names = append(g.names, n)
	g.rejoin(n)
}

func (g *randomGroup) rejoin(n string) {
	var in lease.Interest
	var second lease.Interest
	for _, t := range g.topics {
		ti := lease.TopicInterest{Topic: t, Partitions: g.parts[t]}
		switch {
		case g.odd && g.r.IntN(5) == 0:
		case g.odd && g.r.IntN(4) == 0:
			second.Topics = append(second.Topics, ti)
		default:
			in.Topics = append(in.Topics, ti)
		}
	}
	client := n
	var pinned []lease.Key
	if g.odd {
		for _, i := range []*lease.Interest{&in, &second} {
			i.Whole = g.r.IntN(4) == 0
			i.Greedy = g.r.IntN(8) == 0
			i.Weight = int32(g.r.IntN(4))
			if g.r.IntN(4) == 0 {
				i.Max = int32(1 + g.r.IntN(12))
			}
		}
		if g.r.IntN(6) == 0 {
			client = "same"
		}
		for range g.r.IntN(8) / 5 {
			pinned = append(pinned, g.key())
		}
	}
	g.joinPinned(n, client, pinned, in, second)
}

func (g *randomGroup) key() lease.Key {
	t := g.topics[g.r.IntN(len(g.topics))]
	return key(t, int32(g.r.IntN(int(g.parts[t])+1))-1)
}

// happen is one thing that may happen to a group.
func (g *randomGroup) happen() {
	n := g.names[g.r.IntN(len(g.names))]
	switch g.r.IntN(7) {
	case 0, 1:
		g.newMember()
	case 2:
		g.leave(n, false)
	case 3:
		g.leave(n, g.odd)
	case 4:
		g.rejoin(n)
	case 5:
		if g.odd {
			for k := range g.HeldBy(id(n)) {
				g.release(n, lease.InstanceID{}, true, k)
				break
			}
		}
	case 6:
		if g.odd {
			for range 20 {
				g.claim(n, g.key())
			}
		}
	}
}

// settleAtRandom carries out moves and claims in a random order, each alone, planning anew after each. It checks that no
// key is moved twice.
func (g *randomGroup) settleAtRandom(t *testing.T, seed uint64) (moved map[lease.Key]int) {
	moved = map[lease.Key]int{}
	for step := 0; ; step++ {
		require.Less(t, step, 5000, "seed %d: no end", seed)
		p := Compute(g.World)
		g.check(t, seed, p)
		moves, free := p.Moves(), p.Free()
		if len(moves)+len(free) == 0 {
			return moved
		}
		if i := g.r.IntN(len(moves) + len(free)); i < len(moves) {
			m := moves[i]
			moved[m.Key]++
			require.True(t, moved[m.Key] < 2 || g.odd && moved[m.Key] < 4, "seed %d: %v is moved again", seed, m.Key)
			g.carryOut(m)
		} else {
			k := free[i-len(moves)]
			first, ok := p.Claimant(k, 0)
			require.True(t, ok, "seed %d: nobody for %v", seed, k)
			for _, n := range g.names {
				if id(n) == first {
					g.claim(n, k)
				}
			}
			l, _ := g.Lease(k)
			require.Equal(t, first, l.Instance, "seed %d", seed)
		}
	}
}

// check holds what must be true of every plan.
func (g *randomGroup) check(t *testing.T, seed uint64, p *Plan) {
	for _, m := range p.Moves() {
		l, ok := g.Lease(m.Key)
		require.True(t, ok && l.Instance == m.From && m.To != m.From, "seed %d: %+v", seed, m)
		require.Equal(t, lease.Alive, g.Instance(m.From).Status, "seed %d: %+v", seed, m)
		if !m.To.IsZero() {
			require.True(t, p.Wants(m.To, m.Key), "seed %d: %+v", seed, m)
			require.Equal(t, m.To, p.Successor(m.Key, m.From, nil), "seed %d", seed)
		} else {
			require.True(t, m.Forced, "seed %d: %+v", seed, m)
		}
		require.True(t, !m.Forced || !p.Wants(m.From, m.Key) || contains(p.Overflow(m.From), m.Key), "seed %d: %+v", seed, m)
	}
	for _, k := range p.Free() {
		_, _, taken := g.Conflict(k)
		require.False(t, taken, "seed %d: %v", seed, k)
	}
}

func contains(keys []lease.Key, k lease.Key) bool {
	for _, o := range keys {
		if o == k {
			return true
		}
	}
	return false
}

// From a fixed set of instances the plan reaches balance in any order of moves, moves no key twice, and then is still.
func TestAnyOrderOfMovesReachesBalanceAndMovesNothingTwice(t *testing.T) {
	for seed := range uint64(60) {
		g := newRandomGroup(seed, false)
		for range 4 {
			planned := Compute(g.World)
			free := len(planned.Free())
			moved := g.settleAtRandom(t, seed)
			if free == 0 {
				require.Equal(t, len(planned.Moves()), len(moved), "seed %d: as many as were planned", seed)
			}
			g.even(t, seed)
			g.happen()
		}
	}
}

// even checks that everybody has its share, to within one, per topic and in total.
func (g *randomGroup) even(t *testing.T, seed uint64) {
	var alive []lease.InstanceID
	for in := range g.Instances() {
		if len(in.Interests) > 0 && len(in.Interests[0].Topics) > 0 {
			alive = append(alive, in.ID)
		}
	}
	total := map[lease.InstanceID]int{}
	for _, topic := range g.topics {
		in := map[lease.InstanceID]int{}
		for k, l := range g.Leases() {
			if k.Topic == topic {
				in[l.Instance]++
				total[l.Instance]++
			}
		}
		within(t, seed, alive, in)
	}
	within(t, seed, alive, total)
}

func within(t *testing.T, seed uint64, alive []lease.InstanceID, n map[lease.InstanceID]int) {
	lo, hi := 1<<30, 0
	for _, i := range alive {
		lo, hi = min(lo, n[i]), max(hi, n[i])
	}
	require.True(t, len(alive) == 0 || hi-lo <= 1, "seed %d: %v", seed, n)
}

// Whatever mix of interests, limits, greed, whole topics, pins, marks and namesakes there is, plans are sound and moves end.
func TestMovesEndWhateverTheMix(t *testing.T) {
	again := 0
	for seed := range uint64(50) {
		g := newRandomGroup(seed, true)
		for range 4 {
			for _, n := range g.settleAtRandom(t, seed) {
				if n > 1 {
					again++
				}
			}
			for k := range g.Leases() {
				l, _ := g.Lease(k)
				require.NotContains(t, Compute(g.World).Overflow(l.Instance), k, "seed %d", seed)
			}
			g.happen()
			g.happen()
		}
	}
	t.Logf("keys moved more than once: %d", again)
}

// A member that joins or ends moves at most its share, but for rounding.
func TestOneChangeMovesAtMostAShare(t *testing.T) {
	for seed := range uint64(80) {
		g := newRandomGroup(seed, false)
		g.settle(g.names)
		g.newMember()
		keys := 0
		for range g.Leases() {
			keys++
		}
		n := 0
		for range g.Instances() {
			n++
		}
		moves := Compute(g.World).Moves()
		require.LessOrEqual(t, len(moves), keys/n+len(g.topics), "seed %d: its share, and rounding once for each topic", seed)
		g.settle(g.names)
		g.leave(g.names[0], false)
		free := len(Compute(g.World).Free())
		require.LessOrEqual(t, len(Compute(g.World).Moves()), len(g.topics), "seed %d", seed)
		require.LessOrEqual(t, free, keys/n+1)
	}
}

// Equal worlds give equal plans, whatever the history of the maps that they are kept in.
func TestPlansAreDeterministic(t *testing.T) {
	for seed := range uint64(100) {
		g := newRandomGroup(seed, true)
		for range 5 {
			g.happen()
			w, err := lease.ParseWorld(g.AppendBinary(nil))
			require.NoError(t, err)
			a, b := Compute(g.World), Compute(w)
			require.Equal(t, a.Moves(), b.Moves())
			require.Equal(t, a.Free(), b.Free())
			for _, n := range g.names {
				require.Equal(t, a.Planned(id(n)), b.Planned(id(n)))
				require.Equal(t, a.Greedy(id(n)), b.Greedy(id(n)))
				require.Equal(t, a.Parked(id(n)), b.Parked(id(n)))
			}
			p := Compute(g.World)
			g.claimTurns(p, g.names)
		}
	}
}

// Who plans record by record has the same plan as who has just read a snapshot, whatever it planned before.
func TestWhoFollowsTheLogPlansAsANewcomerDoes(t *testing.T) {
	for seed := range uint64(60) {
		g := newRandomGroup(seed, seed%3 > 0)
		var old Planner
		for range 25 {
			switch p := old.Plan(g.World); g.r.IntN(4) {
			case 0:
				g.happen()
			case 1:
				g.claimTurns(p, g.names)
			case 2:
				if moves := p.Moves(); len(moves) > 0 {
					g.carryOut(moves[g.r.IntN(len(moves))])
				}
			case 3:
				g.claim(g.names[g.r.IntN(len(g.names))], g.key(), g.key(), g.key())
			}
			w, err := lease.ParseWorld(g.AppendBinary(nil))
			require.NoError(t, err)
			p, fresh := old.Plan(g.World), Compute(w)
			require.Equal(t, fresh.Moves(), p.Moves(), "seed %d", seed)
			require.Equal(t, fresh.Free(), p.Free(), "seed %d", seed)
			k := g.key()
			for _, n := range g.names {
				require.Equal(t, fresh.MovesOf(id(n)), p.MovesOf(id(n)), "seed %d", seed)
				require.Equal(t, fresh.Overflow(id(n)), p.Overflow(id(n)), "seed %d", seed)
				require.Equal(t, fresh.Planned(id(n)), p.Planned(id(n)), "seed %d", seed)
				require.Equal(t, fresh.Greedy(id(n)), p.Greedy(id(n)), "seed %d", seed)
				require.Equal(t, fresh.Parked(id(n)), p.Parked(id(n)), "seed %d", seed)
				require.Equal(t, fresh.Wants(id(n), k), p.Wants(id(n), k), "seed %d", seed)
				require.Equal(t, fresh.TurnOf(k, id(n)), p.TurnOf(k, id(n)), "seed %d", seed)
				require.Equal(t, fresh.Successor(k, id(n), nil), p.Successor(k, id(n), nil), "seed %d", seed)
			}
		}
	}
}
