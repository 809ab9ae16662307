package testutil

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// held is clean with what the processes were told of their claims: a hands t/0 over to b.
const held = `
	p a ca
	k 8 9 t 0 100
	h 10 12 t 0 100 0 0
	h 20 22 t 0 100 1 2
	x 30 31 t 0 100
	p b cb
	k 34 35 t 0 200
	h 5 40 t 0 200 3 3
	h 50 52 t 0 200 4 5
`

func TestOneOwnerAtATimeIsLinearizable(t *testing.T) {
	for name, text := range map[string]string{
		"a hand-over":                       held,
		"of which nobody was told":          clean,
		"the successor hears of it earlier": strings.Replace(held, "x 30 31 t 0 100", "x 30 90 t 0 100", 1),
		"the owner is killed, and has written down neither its claim nor its end": `
			p a ca
			h 10 12 t 0 100 0 2
			p b cb
			k 34 35 t 0 200
			h 36 37 t 0 200 1 3`,
		"a claim that is learned of when it is over": held + `
			p c cc
			k 60 61 t 0 150
			x 60 62 t 0 150`,
		"a call that was frozen between its check and its return": strings.Replace(held, "h 20 22", "h 20 60", 1),
		"two readers of one process":                              strings.Replace(held, "h 20 22 t 0 100 1 2", "h 11 25 t 0 100 2 2\n h 20 22 t 0 100 1 1", 1),
		"a batch with holes":                                      strings.Replace(held, "h 20 22 t 0 100 1 2", "h 20 22 t 0 100 1 1\n h 20 22 t 0 100 7 7", 1),
		"a whole topic": `
			p a ca
			k 8 9 t -1 100
			h 10 12 t 0 100 0 0
			x 30 31 t -1 100
			p b cb
			k 34 35 t 0 200
			h 36 40 t 0 200 1 1`,
		"kept, and taken up again under its token": `
			p a ca
			k 8 9 t 0 100
			h 10 12 t 0 100 0 4
			x 30 31 t 0 100
			k 35 37 t 0 100
			h 36 40 t 0 100 2 6`,
		"another partition": held + "p c cc\n k 33 33 t 1 150\n h 33 34 t 1 150 0 0\n h 70 71 t 1 150 1 1",
	} {
		l := Linearize(Evidence{Logs: logs(t, text)})
		assert.NoError(t, l.Err(), name)
		assert.Equal(t, l.Keys, l.Linearizable, name)
		assert.Empty(t, l.Exceptions, name)
		assert.Positive(t, l.Operations, name)
	}
}

func TestWhatBreaksOneOwnerHasNoPlaceInAnyOrder(t *testing.T) {
	for name, c := range map[string]struct{ text, finding string }{
		"two owners in turn": {strings.Replace(held, "x 30 31 t 0 100", "h 45 46 t 0 100 3 3", 1),
			"a is handed 3, token 100 (from 45 to 46) has no place; before it b is handed"},
		"asked under an old token after the successor has it, before it was handed anything": {
			strings.Replace(held, "x 30 31 t 0 100", "h 36 38 t 0 100 3 3\n x 30 90 t 0 100", 1), "a is handed 3, token 100 (from 36 to 38) has no place"},
		"after its release": {strings.Replace(held, "x 30 31 t 0 100", "x 30 31 t 0 100\n h 32 33 t 0 100 3 3", 1),
			"a is handed 3, token 100 (from 32 to 33) has no place; before it a has it no longer, token 100"},
		"of a whole topic, while its partition is another's": {`
			p a ca
			k 8 9 t -1 100
			h 10 12 t 0 100 0 0
			h 36 37 t 0 100 1 1
			p b cb
			k 34 35 t 0 200
			h 35 40 t 0 200 1 1`, "a is handed 1, token 100 (from 36 to 37) has no place"},
		"of a partition, while its topic is another's": {`
			p a ca
			h 10 12 t 0 100 0 0
			h 36 37 t 0 100 1 1
			p b cb
			k 34 35 t -1 200
			h 50 51 t 0 200 1 1`, "a is handed 1, token 100 (from 36 to 37) has no place"},
		"a smaller token after a larger": {strings.ReplaceAll(held, "t 0 200", "t 0 50"), "b is handed 3, token 50"},
		"one token in two processes":     {strings.ReplaceAll(held, "t 0 200", "t 0 100"), "b has it, token 100"},
		"an offset that goes back":       {strings.Replace(held, "h 50 52 t 0 200 4 5", "h 50 52 t 0 200 3 5", 1), "b is handed 3-5, token 200"},
		"kept, but not taken up again":   {strings.Replace(held, "x 30 31 t 0 100", "x 30 31 t 0 100\n h 60 61 t 0 100 3 3", 1), "a is handed 3"},
	} {
		l := Linearize(Evidence{Logs: logs(t, c.text), FastReclaim: true})
		require.ErrorContains(t, l.Err(), c.finding, name)
		assert.Equal(t, "linearizable=0/1", l.Line(), name)
	}
	assert.ErrorContains(t, Linearize(Evidence{}).Err(), "nobody was handed anything")
}

// What the exceptions allow is counted, and nothing beside it.
func TestExceptionsToOneOwnerAreCountedApart(t *testing.T) {
	late := strings.Replace(held, "x 30 31 t 0 100", "h 45 46 t 0 100 3 3\n h 47 48 t 0 100 4 4", 1)
	reclaimed := Evidence{Logs: logs(t, strings.Replace(late, "p b cb", "p b ca", 1))}
	require.Error(t, Linearize(reclaimed).Err(), "nobody reclaims there")
	reclaimed.FastReclaim = true
	l := Linearize(reclaimed)
	require.NoError(t, l.Err())
	assert.Equal(t, "linearizable=1/1 fast_reclaim=2", l.Line())

	woken := "\n p stage stage\n e 24 frozen a\n e 44 woken a"
	for name, c := range map[string]struct{ text, line string }{
		"one":           {strings.Replace(late, "h 47 48 t 0 100 4 4", "e 1 offered a", 1) + woken, "linearizable=1/1 offered_before_a_freeze=1"},
		"a second":      {strings.Replace(late, "p a ca", "p a ca\n e 1 offered a", 1) + woken, "linearizable=0/1 offered_before_a_freeze=1"},
		"not by itself": {strings.Replace(late, "h 47 48 t 0 100 4 4", "", 1) + woken, "linearizable=0/1"},
	} {
		assert.Equal(t, c.line, Linearize(Evidence{Logs: logs(t, c.text)}).Line(), name)
	}
}

func TestOffsetsOfATopicThatWasMadeAgainBeginAnew(t *testing.T) {
	again := Evidence{Logs: logs(t, strings.Replace(held, "h 50 52 t 0 200 4 5", "h 50 52 t 0 200 0 1", 1))}
	require.Error(t, Linearize(again).Err())
	again.Recreated = true
	require.NoError(t, Linearize(again).Err())
}

// long is n messages of t/0 that a and b are handed in turn, in claims of so many, by so many readers.
func long(n, each, readers int64) Evidence {
	by := [2]ProcessLog{{Process: "a", Client: "a"}, {Process: "b", Client: "b"}}
	for o := range n {
		l := &by[o/each%2]
		token := o / each * each
		if o == token {
			if token > 0 {
				was := &by[(o/each+1)%2]
				was.Holdings = append(was.Holdings, Holding{Place: place, Since: 10*o - 1, Noted: 10*o - 1, Token: token - each + 1, Over: true})
			}
			l.Holdings = append(l.Holdings, Holding{Place: place, Since: 10 * o, Noted: 10*o + 1, Token: token + 1})
		}
		at := 10*o + 2
		l.Handouts = append(l.Handouts, Handout{place, at - 11*(o%readers), at + 1 + o%readers, token + 1, o, o})
	}
	return Evidence{Logs: by[:]}
}

// A long history is judged piece by piece, in seconds, and a fault anywhere in it is found.
func TestALongHistoryIsJudgedInPieces(t *testing.T) {
	for _, each := range []int64{700, 15_000} { // claims that are shorter and longer than a piece
		for _, readers := range []int64{1, 4} {
			e := long(20_000, each, readers)
			pieces, _ := cut(histories(e.Logs)[place], pieceSize)
			require.GreaterOrEqual(t, len(pieces), 2)
			begun := time.Now()
			l := Linearize(e)
			require.NoError(t, l.Err())
			assert.GreaterOrEqual(t, l.Operations, 20_000)
			assert.Less(t, time.Since(begun), pieceTime)
			t.Logf("%d operations in claims of %d, %d readers: %v", l.Operations, each, readers, time.Since(begun))
			assert.Less(t, l.LeftOut, 20, "a thousandth")
			for _, at := range []int64{11, 5_000, 9_999, 19_001} {
				e := long(20_000, each, readers)
				hs := e.Logs[at/each%2].Handouts
				i := slices.IndexFunc(hs, func(h Handout) bool { return h.First == at })
				hs[i].First, hs[i].Last = at-10, at-10
				assert.Error(t, Linearize(e).Err(), "%d comes again instead of %d", at-10, at)
			}
		}
	}
}

// The two that are planted for the judge, and those for this checker alone.
func TestWhatIsPlantedIsNotLinearizable(t *testing.T) {
	for what, seen := range map[string]bool{"overlap": true, "regression": true, "stale": true, "released": true, "loss": false} {
		e := Evidence{Logs: logs(t, held), Produced: produced(0, 6)}
		require.NoError(t, Plant(&e, what), what)
		assert.Equal(t, seen, Linearize(e).Err() != nil, what)
	}
}
