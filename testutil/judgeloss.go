package testutil

import (
	"math"
	"time"
)

// losses looks for messages of a partition that nobody got, or that nobody will.
func (j *judge) losses(p Place, claims []*claim) {
	produced := setOf(j.Produced[p]...)
	var handed spans
	for _, c := range claims {
		handed = handed.or(c.offsets)
	}
	j.v.Delivered += handed.and(produced).count()
	for _, s := range handed.without(produced) {
		j.v.Unknown += s.To - s.From
		j.find("unknown", p, "%v was handed out, and nobody wrote it", s)
	}

	lost := produced.without(handed)
	for _, s := range lost {
		j.find("lost", p, "%v was never handed out", s)
	}
	lose := func(more spans, format string, args ...any) {
		for _, s := range more.without(lost) {
			j.find("lost", p, format, append([]any{s}, args...)...)
		}
		lost = lost.or(more)
	}
	for _, c := range claims {
		start := c.offsets[0].From
		passed := produced.and(setOf(Span{math.MinInt64, start})).without(j.finishedBy(p, nil, c.first))
		lose(passed, "%v was not finished when %s (token %d) began at %d", c.by.Process, c.token, start)
	}
	if n := len(claims); n > 0 && j.commits {
		left := produced.without(j.finishedBy(p, nil, math.MaxInt64)).without(claims[n-1].offsets)
		lose(left, "%v was never finished, and the last claim (%s) was not handed it", claims[n-1].by.Process)
	}
	j.v.Lost += lost.count()
}

// moves measures how long a partition stood still between its owners.
func (j *judge) moves(p Place, claims []*claim) {
	for i := 1; i < len(claims); i++ {
		x, y := claims[i-1], claims[i]
		if x.by == y.by {
			continue
		}
		restart := x.by.Client != "" && x.by.Client == y.by.Client
		switch kill, freeze := j.happened(x, y); {
		case kill != nil:
			j.v.Failovers = append(j.v.Failovers,
				Failover{p, x.by.Process, y.by.Process, restart, y.first, time.Duration(y.first - kill.At)})
		case freeze == nil && !restart:
			j.v.Handovers = append(j.v.Handovers,
				Handover{p, x.by.Process, y.by.Process, y.first, time.Duration(y.first - x.last)})
		}
	}
}
