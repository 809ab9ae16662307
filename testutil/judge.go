package testutil

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"
)

// Evidence is what the judge judges.
type Evidence struct {
	Logs     []ProcessLog     // of all processes, and of the one that killed and froze them
	Produced map[Place][]Span // the offsets written

	// CommitWithin is how old finished work can be that a killed or frozen process had not yet made known (its commit
	// interval and a heartbeat): what was finished earlier must not come again. Defaults to: not checked.
	CommitWithin time.Duration

	FastReclaim bool // processes may take over from a former run of their client id that is alive: what that permits is counted (see Linearize)
	Recreated   bool // topics were made again: offsets may begin anew under one token (see Linearize)
}

// Judge tells what went wrong, from what the processes wrote down and nothing else.
//
//   - Lost: a message that nobody was handed, or that was not finished when a later claim of its partition began
//     beyond it, or that was never finished and the last claim was not handed. Where no log notes finished work at all,
//     a message counts as finished when it was handed out.
//   - Overlap: of two claims (tokens) X and Y of one partition an interval of Y begins after one of X ended, and a later
//     interval of X begins after that one of Y ended. Anything less may be the clock's or the scheduler's doing.
//   - Regression: in one claim an offset does not rise; one token in two processes; a message under an older token after
//     one under a newer; a message that its finished owner had no reason to leave behind comes again.
//
// It judges runs without a Seek, in which the last claims were left to finish.
func Judge(e Evidence) *Verdict {
	j := &judge{Evidence: e, v: &Verdict{}, finished: make(map[Place][]finish)}
	for p, in := range e.Produced {
		j.places = append(j.places, p)
		j.v.Produced += setOf(in...).count()
	}
	byPlace := make(map[Place][]handout)
	for i := range e.Logs {
		l := &e.Logs[i]
		for _, h := range l.Handouts {
			byPlace[h.Place] = append(byPlace[h.Place], handout{h, l})
		}
		for _, f := range l.Finishes {
			j.finished[f.Place] = append(j.finished[f.Place], finish{f, l})
			j.commits = true
		}
	}
	for p := range byPlace {
		if _, ok := e.Produced[p]; !ok {
			j.places = append(j.places, p)
		}
	}
	slices.SortFunc(j.places, func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	})
	for _, p := range j.places {
		j.place(p, byPlace[p])
	}
	slices.SortStableFunc(j.v.Handovers, func(a, b Handover) int { return cmp.Compare(a.At, b.At) })
	slices.SortStableFunc(j.v.Failovers, func(a, b Failover) int { return cmp.Compare(a.At, b.At) })
	return j.v
}

type judge struct {
	Evidence
	v        *Verdict
	places   []Place
	finished map[Place][]finish
	commits  bool // some log notes finished work
}

type handout struct {
	Handout
	by *ProcessLog
}

type finish struct {
	Finish
	by *ProcessLog
}

// claim is all that was handed out of one partition under one token.
type claim struct {
	token    int64
	by       *ProcessLog
	handouts []Handout // by Before
	offsets  spans
	begins   int64 // earliest Before
	first    int64 // earliest After: when its first message was out
	lastCall int64 // latest Before
	last     int64 // latest After: when its last message was out
}

func (j *judge) find(kind string, p Place, format string, args ...any) {
	j.v.Findings = append(j.v.Findings, Finding{p, kind, fmt.Sprintf(format, args...)})
}

func (j *judge) regression(p Place, format string, args ...any) {
	j.v.Regressions++
	j.find("regression", p, format, args...)
}

func (j *judge) place(p Place, hs []handout) {
	claims := j.claims(p, hs)
	for i := range claims {
		j.rising(p, claims[i])
		for k := range i {
			j.pair(p, claims[k], claims[i])
		}
		j.repeats(p, claims[:i], claims[i])
	}
	j.losses(p, claims)
	j.moves(p, claims)
}

// claims sorts the hand-outs of a partition by token.
func (j *judge) claims(p Place, hs []handout) []*claim {
	byToken := make(map[int64]*claim)
	for _, h := range hs {
		c := byToken[h.Token]
		if c == nil {
			c = &claim{token: h.Token, by: h.by}
			byToken[h.Token] = c
		}
		if c.by != h.by {
			j.regression(p, "token %d is used by %s and by %s", h.Token, c.by.Process, h.by.Process)
		}
		c.handouts = append(c.handouts, h.Handout)
	}
	var claims []*claim
	for _, t := range sortedKeys(byToken) {
		c := byToken[t]
		slices.SortStableFunc(c.handouts, func(a, b Handout) int { return cmp.Compare(a.Before, b.Before) })
		h := c.handouts[0]
		c.begins, c.first, c.lastCall, c.last = h.Before, h.After, h.Before, h.After
		runs := make([]Span, len(c.handouts))
		for i, h := range c.handouts {
			runs[i] = Span{h.First, h.Last + 1}
			c.first, c.last = min(c.first, h.After), max(c.last, h.After)
			c.lastCall = h.Before
		}
		c.offsets = setOf(runs...)
		claims = append(claims, c)
	}
	return claims
}

// rising checks that the offsets of one claim rise, wherever one call surely came after another.
func (j *judge) rising(p Place, c *claim) {
	ended := slices.Clone(c.handouts)
	slices.SortFunc(ended, func(a, b Handout) int { return cmp.Compare(a.After, b.After) })
	seen, next := int64(-1), 0
	for _, h := range c.handouts {
		for ; next < len(ended) && ended[next].After < h.Before; next++ {
			seen = max(seen, ended[next].Last)
		}
		if h.First <= seen {
			j.regression(p, "%s, token %d: offset %d after offset %d", c.by.Process, c.token, h.First, seen)
		}
	}
}

// pair checks two claims against each other; x has the smaller token.
func (j *judge) pair(p Place, x, y *claim) {
	switch {
	case inTurn(x, y), inTurn(y, x):
		j.v.Overlaps++
		j.find("overlap", p, "%s (token %d) and %s (token %d) were handed messages in turn",
			x.by.Process, x.token, y.by.Process, y.token)
	case x.lastCall > y.first:
		j.regression(p, "%s asked and was handed a message under token %d after %s had one under token %d",
			x.by.Process, x.token, y.by.Process, y.token)
	}
}

// inTurn tells whether a hand-out of y surely lies between two of x.
func inTurn(x, y *claim) bool {
	return slices.ContainsFunc(y.handouts, func(h Handout) bool { return h.Before > x.first && h.After < x.lastCall })
}

// repeats finds what y was handed again, and from whom: the newest claim that had it.
func (j *judge) repeats(p Place, before []*claim, y *claim) {
	var handed int64
	for _, h := range y.handouts {
		handed += h.Last + 1 - h.First
	}
	j.v.Duplicates += handed - y.offsets.count() // in one claim: rising says more
	rest := y.offsets
	for i := len(before) - 1; i >= 0 && len(rest) > 0; i-- {
		x := before[i]
		again := rest.and(x.offsets)
		if len(again) == 0 {
			continue
		}
		rest = rest.without(again)
		cause, at := j.cause(x, y)
		if i+1 < len(before) {
			at = min(at, before[i+1].first) // what it finished after that was not its own any more
		}
		done := j.finishedBy(p, x.by, at)
		known := again.and(done)
		if cause == "" {
			cause = NotFinished
			if open := x.offsets.without(done); len(open) > 0 {
				above := known.and(setOf(Span{open[0].From, math.MaxInt64}))
				j.repeatAll(p, above, x, y, AboveOne)
				again, known = again.without(above), known.without(above)
			}
		}
		for _, s := range known {
			j.repeat(Duplicate{p, s, x.by.Process, y.by.Process, NoCause})
			j.regression(p, "%s was handed %v again, which %s had finished", y.by.Process, s, x.by.Process)
		}
		j.repeatAll(p, again.without(known), x, y, cause)
	}
}

func (j *judge) repeatAll(p Place, again spans, x, y *claim, cause Cause) {
	for _, s := range again {
		j.repeat(Duplicate{p, s, x.by.Process, y.by.Process, cause})
	}
}

func (j *judge) repeat(d Duplicate) {
	j.v.Duplicates += d.Offsets.To - d.Offsets.From
	j.v.Repeats = append(j.v.Repeats, d)
}

// cause looks for what happened to x's process between its first message and y's, and says when its positions must
// have been known to all: what was finished by then has no excuse.
func (j *judge) cause(x, y *claim) (Cause, int64) {
	kill, freeze := j.happened(x, y)
	cause, at := Cause(""), y.first
	switch {
	case kill != nil:
		cause, at = AfterKill, kill.At
	case freeze != nil:
		cause, at = AfterFreeze, freeze.At
	default:
		return cause, at
	}
	if j.CommitWithin == 0 {
		return cause, -1
	}
	return cause, at - j.CommitWithin.Nanoseconds()
}

// happened finds the kill, and the first freeze, of x's process while it had x and before y had its first message.
func (j *judge) happened(x, y *claim) (kill, freeze *Happening) {
	for i := range j.Logs {
		for k := range j.Logs[i].Happenings {
			h := &j.Logs[i].Happenings[k]
			if h.Process != x.by.Process || h.At < x.begins || h.At > y.first {
				continue
			}
			if h.What == Killed {
				kill = h
			}
			if h.What == Frozen && (freeze == nil || h.At < freeze.At) {
				freeze = h
			}
		}
	}
	return kill, freeze
}

// finishedBy is what a process had finished of a partition at a time; nil for everybody's.
func (j *judge) finishedBy(p Place, by *ProcessLog, at int64) spans {
	var done []Span
	if !j.commits {
		for i := range j.Logs {
			for _, h := range j.Logs[i].Handouts {
				if h.Place == p && h.After <= at && (by == nil || by == &j.Logs[i]) {
					done = append(done, Span{h.First, h.Last + 1})
				}
			}
		}
	}
	for _, f := range j.finished[p] {
		if f.At <= at && (by == nil || by == f.by) {
			done = append(done, Span{f.First, f.Last + 1})
		}
	}
	return setOf(done...)
}
