package testutil

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// logs reads logs that are written down as processes write them; each begins with its p line.
func logs(t *testing.T, text string) []ProcessLog {
	t.Helper()
	var all []ProcessLog
	for part := range strings.SplitSeq(text, "p ") {
		if part = strings.TrimSpace(part); part == "" {
			continue
		}
		var lines strings.Builder
		lines.WriteString("p ")
		for line := range strings.SplitSeq(part, "\n") {
			lines.WriteString(strings.TrimSpace(line) + "\n")
		}
		l, err := ReadHandoutLog(strings.NewReader(lines.String()))
		require.NoError(t, err)
		all = append(all, l)
	}
	return all
}

var place = Place{"t", 0}

func produced(from, to int64) map[Place][]Span { return map[Place][]Span{place: {{from, to}}} }

// clean is a run without a fault: a hands t/0 over to b after offset 2.
const clean = `
	p a ca
	h 10 12 t 0 100 0 0
	c 13 t 0 100 0 0
	h 20 22 t 0 100 1 2
	c 23 t 0 100 1 2
	p b cb
	h 5 1000040 t 0 200 3 3
	c 1000041 t 0 200 3 3
	h 1000050 1000052 t 0 200 4 5
	c 1000053 t 0 200 4 5
`

func TestJudgeAcquitsACleanRunAndMeasuresItsHandover(t *testing.T) {
	v := Judge(Evidence{Logs: logs(t, clean), Produced: produced(0, 6)})
	require.NoError(t, v.Err())
	assert.Equal(t, "produced=6 delivered=6 lost=0 overlaps=0 regressions=0 duplicates=0 handovers=1"+
		" handover_p50_ms=1.0 handover_max_ms=1.0 failover_ms=0", v.Line())
	assert.Equal(t, []Handover{{place, "a", "b", 1000040, 1000018}}, v.Handovers)
}

func TestJudgeCondemnsAnEmptyLog(t *testing.T) {
	v := Judge(Evidence{Produced: produced(0, 6)})
	require.Error(t, v.Err())
	assert.ErrorContains(t, v.Err(), "nothing was delivered")
	assert.EqualValues(t, 6, v.Lost)
	assert.ErrorContains(t, Judge(Evidence{}).Err(), "nothing was produced")
}

func TestJudgeFinds(t *testing.T) {
	for name, c := range map[string]struct {
		logs                                       string
		to                                         int64 // produced: 0 up to here
		lost, unknown, duplicates                  int64
		overlaps, regressions, handovers, failover int
		says                                       []string // "" for a run without a fault
		cause                                      Cause
	}{
		"a message that nobody was handed": {
			logs: clean, to: 8, lost: 2, handovers: 1,
			says: []string{"lost t/0: 6-7 was never handed out"},
		},
		"a hole in the middle": {
			logs: "p a ca\nh 1 2 t 0 9 0 1\nc 3 t 0 9 0 1\nh 4 5 t 0 9 3 3\nc 6 t 0 9 3 3", to: 4, lost: 1,
			says: []string{"lost t/0: 2 was never handed out"},
		},
		"a claim that begins beyond what was finished": {
			logs: `p a ca
				h 10 12 t 0 100 0 1
				c 13 t 0 100 0 0
				p b cb
				h 20 22 t 0 200 2 3
				c 23 t 0 200 2 3`, to: 4, lost: 1, handovers: 1,
			says: []string{"lost t/0: 1 was not finished when b (token 200) began at 2"},
		},
		"work that was never finished and not handed to the last claim": {
			logs: `p a ca
				h 10 12 t 0 100 0 1
				c 13 t 0 100 0 0
				p b cb
				h 20 22 t 0 200 0 0
				c 23 t 0 200 0 0`, to: 2, lost: 1, handovers: 1, duplicates: 1, regressions: 1,
			says: []string{"1 was never finished, and the last claim (b) was not handed it"}, cause: NoCause,
		},
		"an offset that nobody wrote": {
			logs: clean, to: 5, unknown: 1, handovers: 1,
			says: []string{"unknown t/0: 5 was handed out, and nobody wrote it"},
		},
		"an overlap: x, y, x": {
			logs: `p a ca
				h 10 12 t 0 100 0 0
				h 30 32 t 0 100 2 2
				p b cb
				h 20 22 t 0 200 1 1`, to: 3, overlaps: 1, handovers: 1,
			says: []string{"overlap t/0: a (token 100) and b (token 200)"},
		},
		"an overlap: y, x, y": {
			logs: `p a ca
				h 20 22 t 0 100 1 1
				p b cb
				h 10 12 t 0 200 0 0
				h 30 32 t 0 200 2 2`, to: 3, overlaps: 1, handovers: 1,
			says: []string{"overlap"},
		},
		"no overlap where the old owner's call began before": { // it was frozen in its call
			logs: `p a ca
				h 10 12 t 0 100 0 0
				h 15 99 t 0 100 1 1
				p b cb
				h 20 22 t 0 200 1 2
				p boss
				e 14 frozen a`, to: 3, duplicates: 1, cause: AfterFreeze,
		},
		"no overlap in touching intervals": {
			logs: `p a ca
				h 10 12 t 0 100 0 0
				h 22 32 t 0 100 2 2
				p b cb
				h 12 22 t 0 200 1 1`, to: 3, handovers: 1,
		},
		"an old owner that asks again after the new one's first": {
			logs: `p a ca
				h 30 32 t 0 100 1 1
				p b cb
				h 10 12 t 0 200 0 0`, to: 2, regressions: 1, handovers: 1,
			says: []string{"a asked and was handed a message under token 100 after b had one under token 200"},
		},
		"an offset that goes back in one claim": {
			logs: "p a ca\nh 10 12 t 0 100 0 1\nh 20 22 t 0 100 1 2", to: 3, regressions: 1, duplicates: 1,
			says: []string{"a, token 100: offset 1 after offset 1"},
		},
		"offsets of calls at the same time may come in any order": {
			logs: "p a ca\nh 10 20 t 0 100 1 1\nh 15 25 t 0 100 0 0", to: 2,
		},
		"one token in two processes": {
			logs: "p a ca\nh 10 12 t 0 100 0 0\np b cb\nh 20 22 t 0 100 1 1", to: 2, regressions: 1,
			says: []string{"token 100 is used by a and by b"},
		},
		"finished work that comes again without a reason": {
			logs: `p a ca
				h 10 12 t 0 100 0 2
				c 13 t 0 100 0 1
				p b cb
				h 20 22 t 0 200 0 2
				c 23 t 0 200 0 2`, to: 3, regressions: 1, duplicates: 3, handovers: 1, cause: NoCause,
			says: []string{"regression t/0: b was handed 0-1 again, which a had finished"},
		},
		"unfinished work that comes again": {
			logs: `p a ca
				h 10 12 t 0 100 0 1
				c 13 t 0 100 0 0
				p b cb
				h 20 22 t 0 200 1 1
				c 23 t 0 200 1 1`, to: 2, duplicates: 1, handovers: 1, cause: NotFinished,
		},
		"finished work above what was not finished comes again": {
			logs: `p a ca
				h 10 12 t 0 100 0 3
				c 13 t 0 100 0 0
				c 13 t 0 100 2 3
				p b cb
				h 20 22 t 0 200 1 3
				c 23 t 0 200 1 3`, to: 4, duplicates: 3, handovers: 1, cause: AboveOne,
		},
		"though that was finished when it was another's": {
			logs: `p a ca
				h 10 12 t 0 100 0 3
				c 13 t 0 100 0 0
				c 13 t 0 100 2 3
				c 25 t 0 100 1 1
				p b cb
				h 20 22 t 0 200 1 1
				p d cd
				h 30 32 t 0 300 1 3
				c 33 t 0 300 1 3`, to: 4, duplicates: 4, handovers: 2,
		},
		"finished work below what was not finished has no reason to come again": {
			logs: `p a ca
				h 10 12 t 0 100 0 3
				c 13 t 0 100 0 1
				c 13 t 0 100 3 3
				p b cb
				h 20 22 t 0 200 1 3
				c 23 t 0 200 1 3`, to: 4, duplicates: 3, regressions: 1, handovers: 1,
			says: []string{"regression t/0: b was handed 1 again, which a had finished"},
		},
		"what a killed process had not made known comes again": {
			logs: `p a ca
				h 10 12 t 0 100 0 1
				c 13 t 0 100 0 1
				p b cb
				h 20 1000000022 t 0 200 1 1
				c 1000000023 t 0 200 1 1
				p boss
				e 14 killed a`, to: 2, duplicates: 1, failover: 1, cause: AfterKill,
		},
		"what came twice is counted against the last who had it": {
			logs: `p z cz
				h 10 12 t 0 50 0 0
				c 13 t 0 50 0 0
				p a ca
				h 15 1000000022 t 0 100 0 0
				p b cb
				h 20 1000000040 t 0 200 0 0
				c 1000000041 t 0 200 0 0
				p boss
				e 14 killed z`, to: 1, duplicates: 2, handovers: 1, failover: 1, cause: AfterKill,
		},
		"a restart under the same client id is no hand-over": {
			logs: "p a1 ca\nh 10 12 t 0 100 0 0\nc 13 t 0 100 0 0\np a2 ca\nh 20 22 t 0 200 1 1\nc 23 t 0 200 1 1", to: 2,
		},
		"nor is a move from a frozen process": {
			logs: `p a ca
				h 10 12 t 0 100 0 0
				c 13 t 0 100 0 0
				p b cb
				h 20 22 t 0 200 1 1
				c 23 t 0 200 1 1
				p boss
				e 14 frozen a`, to: 2,
		},
		"a kill before the claim is no excuse": {
			logs: `p a ca
				h 10 12 t 0 100 0 1
				c 13 t 0 100 0 1
				p b cb
				h 20 22 t 0 200 1 1
				c 23 t 0 200 1 1
				p boss
				e 5 killed a
				e 14 killed b`, to: 2, duplicates: 1, regressions: 1, handovers: 1, cause: NoCause,
			says: []string{"b was handed 1 again"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := Judge(Evidence{Logs: logs(t, c.logs), Produced: produced(0, c.to)})
			assert.Equal(t, c.lost, v.Lost, "lost")
			assert.Equal(t, c.unknown, v.Unknown, "unknown")
			assert.Equal(t, c.duplicates, v.Duplicates, "duplicates")
			assert.Equal(t, c.overlaps, v.Overlaps, "overlaps")
			assert.Equal(t, c.regressions, v.Regressions, "regressions")
			assert.Len(t, v.Handovers, c.handovers, "handovers")
			assert.Len(t, v.Failovers, c.failover, "failovers")
			if c.cause != "" {
				require.NotEmpty(t, v.Repeats)
				assert.Equal(t, c.cause, v.Repeats[0].Cause)
			}
			if len(c.says) == 0 {
				assert.NoError(t, v.Err())
			}
			for _, s := range c.says {
				assert.ErrorContains(t, v.Err(), s)
			}
		})
	}
}

func TestJudgeHoldsAKilledProcessToItsCommitInterval(t *testing.T) {
	const run = `
		p a ca
		h 10 12 t 0 100 0 1
		c 1000 t 0 100 0 0
		c 4000 t 0 100 1 1
		p b cb
		h 20 6000 t 0 200 0 1
		c 6001 t 0 200 0 1
		p boss
		e 5000 killed a`
	e := Evidence{Logs: logs(t, run), Produced: produced(0, 2)}
	assert.NoError(t, Judge(e).Err(), "not checked by default")
	e.CommitWithin = 2000 * time.Nanosecond
	v := Judge(e)
	assert.Equal(t, 1, v.Regressions)
	assert.ErrorContains(t, v.Err(), "b was handed 0 again")
}

func TestFailoverToARestartIsToldApart(t *testing.T) {
	const run = `
		p a1 ca
		h 10 12 t 0 100 0 0
		h 11 13 t 1 101 0 0
		c 14 t 0 100 0 0
		c 15 t 1 101 0 0
		p a2 ca
		h 20 9000000 t 0 200 1 1
		c 9000001 t 0 200 1 1
		p b cb
		h 20 5000100 t 1 201 1 1
		c 5000101 t 1 201 1 1
		p boss
		e 100 killed a1`
	v := Judge(Evidence{Logs: logs(t, run), Produced: map[Place][]Span{{"t", 0}: {{0, 2}}, {"t", 1}: {{0, 2}}}})
	require.NoError(t, v.Err())
	require.Len(t, v.Failovers, 2)
	assert.False(t, v.Failovers[0].Restart, "they come in the order of time, not of partitions")
	assert.True(t, v.Failovers[1].Restart)
	assert.Equal(t, 5*time.Millisecond, v.LongestFailover())
	assert.Empty(t, v.Handovers, "a failover is no planned hand-over")
}

func TestJudgeSeesEachPlant(t *testing.T) {
	for _, what := range []string{"overlap", "loss", "regression"} {
		e := Evidence{Logs: logs(t, clean), Produced: produced(0, 6)}
		require.NoError(t, Plant(&e, what))
		v := Judge(e)
		require.Error(t, v.Err(), what)
		assert.Equal(t, what == "overlap", v.Overlaps > 0, "%s: %v", what, v.Err())
		assert.Equal(t, what == "loss", v.Lost > 0, "%s: %v", what, v.Err())
		if what == "regression" {
			assert.Positive(t, v.Regressions, "%v", v.Err())
		}
	}
	e := Evidence{Logs: logs(t, "p a ca\nh 10 12 t 0 100 0 0\nh 20 22 t 0 300 1 1\nh 30 32 t 0 300 2 2"), Produced: produced(0, 3)}
	require.NoError(t, Plant(&e, "overlap"))
	assert.Equal(t, 1, Judge(e).Overlaps, "it needs two messages of one claim")
	assert.Error(t, Plant(&e, "nonsense"))
	for _, what := range []string{"overlap", "loss", "regression"} {
		assert.Error(t, Plant(&Evidence{}, what), what)
	}
}
