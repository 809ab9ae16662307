package explore

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// TestNothingIsFoundNearTheBeginning is the slice of the exploration that belongs to the tests; make explore does all of it.
func TestNothingIsFoundNearTheBeginning(t *testing.T) {
	states := 5000
	if testing.Short() {
		states = 1000
	}
	for i := range Configs {
		c := &Configs[i]
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			r, err := Search(c, Options{States: states})
			require.NoError(t, err)
			require.Empty(t, r.Violation, r.Script)
			assert.NotEmpty(t, r.Events, "nothing happens in it")
		})
	}
}

// TestInterningChangesNothing walks at random twice: once as the search does, once with every process by itself, its times
// never told anew. Whatever can happen in one can happen in the other, and the same is handed out.
func TestInterningChangesNothing(t *testing.T) {
	for i := range Configs {
		c := &Configs[i]
		if len(c.Authors) > 0 {
			continue
		}
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			together, apart := newSpace(c), newSpace(c)
			apart.plain = true
			together.grain = 1 // the search tells the round trip less exactly
			begin, err := together.setUp()
			require.NoError(t, err)
			same, err := apart.setUp()
			require.NoError(t, err)
			for seed := range uint64(15) {
				walk(t, seed, together, begin, apart, same)
			}
		})
	}
}

func walk(t *testing.T, seed uint64, sp *space, s state, plain *space, p state) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for range 60 {
		can, also := sp.actions(&s, nil), plain.actions(&p, nil)
		lines, alsoLines := linesOf(sp, &s, can), linesOf(plain, &p, also)
		require.Equal(t, slices.Sorted(slices.Values(lines)), slices.Sorted(slices.Values(alsoLines)), "seed %d", seed)
		for i := range sp.cfg.Procs {
			require.Equal(t, s.local[i] < 0, p.local[i] < 0)
			if s.local[i] >= 0 {
				require.Equal(t, sp.handing(i, s.local[i], s.age[i]), plain.handing(i, p.local[i], p.age[i]), "seed %d", seed)
			}
		}
		if len(can) == 0 {
			return
		}
		i := rng.IntN(len(can))
		n, ok, violation := sp.apply(s, can[i])
		q, alsoOK, alsoViolation := plain.apply(p, also[slices.Index(alsoLines, lines[i])])
		require.Equal(t, ok, alsoOK)
		require.Equal(t, violation, alsoViolation)
		if ok {
			s, p = n, q
		}
	}
}

func linesOf(sp *space, s *state, actions []action) []string {
	var lines []string
	for _, a := range actions {
		lines = append(lines, sp.line(s, a))
	}
	return lines
}

func TestAStateIsFoundOnce(t *testing.T) {
	tr := newTrail(state{})
	assert.False(t, tr.add(&state{}, 0, action{}))
	for i := range int32(200_000) {
		require.True(t, tr.add(&state{tip: i + 1}, 0, action{kind: advance}))
	}
	assert.False(t, tr.add(&state{tip: 77}, 0, action{}))
	assert.True(t, tr.add(&state{tip: 77, finished: [maxKeys]uint8{0, 1}}, 76, action{kind: tick}))
	assert.Equal(t, []action{{kind: advance}, {kind: tick}}, tr.to(uint32(len(tr.from)-1)))

	full := state{n: 3, flight: [maxFlight]int32{4, 5, 6}}
	other := full
	other.flight[2] = 7
	assert.NotEqual(t, full.hash(), other.hash())
	other = full
	other.local[3] = 9
	assert.NotEqual(t, full.hash(), other.hash())
	other = full
	other.age[3], other.born[0] = 1, 1
	assert.NotEqual(t, full.hash(), other.hash())
}

func TestRecordsAreOnTheirWayInOrderAndOnce(t *testing.T) {
	var s state
	require.True(t, s.launch([]int32{5, 3, 9, 3}))
	assert.Equal(t, []int32{3, 5, 9}, s.flight[:s.n])
	s.land(1)
	assert.Equal(t, []int32{3, 9, 0}, s.flight[:3])
	for i := range int32(maxFlight - 2) {
		require.True(t, s.launch([]int32{100 + i}))
	}
	assert.False(t, s.launch([]int32{1000}), "there is no room for more")
}

func TestAScriptIsTakenAsItIsPrinted(t *testing.T) {
	c := Named("balance")
	sp := newSpace(c)
	s, err := sp.setUp()
	require.NoError(t, err)
	root := s
	var path []action
	rng := rand.New(rand.NewPCG(3, 4))
	for range 40 {
		can := sp.actions(&s, nil)
		if len(can) == 0 {
			break
		}
		a := can[rng.IntN(len(can))]
		n, ok, violation := sp.apply(s, a)
		require.Empty(t, violation)
		if ok {
			s, path = n, append(path, a)
		}
	}
	script := sp.script(root, path)
	var trace []string
	violation, err := Replay(c, script, func(line string) { trace = append(trace, line) })
	require.NoError(t, err)
	assert.Empty(t, violation)
	assert.Equal(t, strings.Split(strings.TrimSpace(script), "\n"), trace[len(trace)-len(path):])
}

func TestAScriptThatCannotBeIsRefused(t *testing.T) {
	for _, c := range []struct{ script, says string }{
		{"jump", "no such action"},
		{"read", "what?"},
		{"read z", "no such process"},
		{"append a:99", "no such record"},
		{"take a t/7", "no such key"},
		{"take a", "which?"},
		{"wish 9", "no such wish"},
		{"late a 3", "cannot happen now"},
		{"fair", "how long?"},
		{"fair soon", "invalid duration"},
		{"fair 1s until b", "neither hold nor stop"},
		{"until join", "beyond a bound"},
		{"start z", "which process?"},
	} {
		_, err := Replay(Named("balance"), "\n# nothing\n"+c.script, nil)
		require.Error(t, err, c.script)
		assert.Contains(t, err.Error(), c.says)
		assert.Contains(t, err.Error(), "line 3")
	}
}

// TestTheChecksSeeWhatARecordMustNotDo gives the checks worlds that Apply would not make.
func TestTheChecksSeeWhatARecordMustNotDo(t *testing.T) {
	world := func(records ...lease.Record) *lease.World {
		w := lease.NewWorld(topicID)
		for i := range records {
			records[i].Offset = int64(i)
			w.Apply(&records[i], nil)
		}
		return w
	}
	a, b := instanceOf(0, 1), instanceOf(1, 1)
	joinA := lease.Record{Kind: lease.KindJoin, Instance: a, Seq: 1, Join: lease.Join{Client: "a", TTL: lease.MinTTL, TokenBase: 1 << 20}}
	joinB := lease.Record{Kind: lease.KindJoin, Instance: b, Seq: 1, Join: lease.Join{Client: "b", TTL: lease.MinTTL, TokenBase: 1 << 20}}
	claim := lease.Record{Kind: lease.KindClaim, Instance: a, Seq: 2, Claim: lease.Claim{Keys: []lease.Key{p0}}}
	both := world(joinA, joinB)
	held := world(joinA, joinB, claim)
	sp := newSpace(Named("pens"))
	for _, c := range []struct {
		says          string
		before, after *lease.World
		rec           lease.Record
	}{
		{"S7", both, held, lease.Record{Kind: lease.KindClaim, Instance: a, Seq: 1, Offset: 2}},
		{"S2: t/0 is granted", both, held, lease.Record{Kind: lease.KindHeartbeat, Instance: a, Seq: 2, Offset: 2}},
		{"S2: t/0 is lost", held, both, lease.Record{Kind: lease.KindHeartbeat, Instance: b, Seq: 2, Offset: 3}},
		{"S5", both, held, lease.Record{Kind: lease.KindClaim, Instance: a, Seq: 2, Offset: 7}},
		{"S6", both, world(joinA), lease.Record{Kind: lease.KindHeartbeat, Instance: a, Seq: 2, Offset: 2}},
		{"S6", world(joinA), both, lease.Record{Kind: lease.KindHeartbeat, Instance: a, Seq: 2, Offset: 2}},
		{"S1", held, held, lease.Record{Kind: lease.KindHeartbeat, Instance: a, Seq: 3, Offset: 3}},
	} {
		assert.Contains(t, sp.checkRecord(c.before, &c.rec, c.after), c.says)
	}
	assert.Empty(t, sp.checkRecord(both, &lease.Record{Kind: lease.KindClaim, Instance: a, Seq: 2, Offset: 2, Claim: claim.Claim}, held))
}

// found are scripts that once ended in a violation, each with its story.
var found = []struct{ config, story, script string }{
	{"late", "a message that was finished after a drain was cut off counted as one that nobody had finished, though its key had no other owner since: a fault of the check", `
		wish 0
		cut a t/0
		late a 0
		append a:6
		read a
		advance`},
}

func TestScriptsThatOnceFailed(t *testing.T) {
	for _, f := range found {
		c := *Named(f.config)
		c.Setup = "start a\nfair 250ms\nstart b\nfair 500ms\ntake a t/0"
		c.Procs[0].Written, c.Wishes = 5, []Wish{{Proc: "a", Kind: Leave}}
		violation, err := Replay(&c, f.script, nil)
		require.NoError(t, err, f.story)
		assert.Empty(t, violation, f.story)
	}
}
