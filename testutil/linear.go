package testutil

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Exception is one of those that the protocol has to one owner at a time.
type Exception string

// The exceptions that hand-out logs can show. A machine frozen with all its clocks and a broker that loses records are the others:
// nobody who is judged here goes through them.
const (
	Reclaimed     Exception = "fast reclaim"            // the former run of the same client id, alive, was handed a message after its successor began
	BeforeAFreeze Exception = "offered before a freeze" // one message that ConsumeChannel offered when the process was frozen came out when it woke up
)

// Linearity is what Linearize found.
type Linearity struct {
	Keys         int // partitions that anybody was handed messages of
	Linearizable int // of these, whose history is one of an owner at a time
	Unknown      int // of these, for which there was not enough time
	Operations   int
	LeftOut      int // of these: hand-outs where a history had to be divided while they were under way
	Exceptions   map[Exception]int
	Findings     []Finding // for each of the others, the first operation that has no place
}

// Err says what is wrong, nil if nothing is. A key of which nobody knows is wrong, and so is that there is none.
func (l *Linearity) Err() error {
	var errs []error
	if l.Keys == 0 {
		errs = append(errs, errors.New("nobody was handed anything"))
	}
	if l.Unknown > 0 {
		errs = append(errs, fmt.Errorf("%d of %d histories could not be judged in time", l.Unknown, l.Keys))
	}
	for _, f := range l.Findings {
		errs = append(errs, errors.New(f.String()))
	}
	return errors.Join(errs...)
}

// Line is the result in a few words for the end of another line.
func (l *Linearity) Line() string {
	line := fmt.Sprintf("linearizable=%d/%d", l.Linearizable, l.Keys)
	if l.Unknown > 0 {
		line += fmt.Sprintf(" unknown=%d", l.Unknown)
	}
	for _, e := range slices.Sorted(maps.Keys(l.Exceptions)) {
		line += fmt.Sprintf(" %s=%d", strings.ReplaceAll(string(e), " ", "_"), l.Exceptions[e])
	}
	return line
}

const (
	pieceSize  = 5_000            // porcupine's memory grows with the square of it
	pieceTime  = 20 * time.Second // a piece takes milliseconds
	mostExcuse = 100              // operations of one piece
)

// Linearize asks porcupine, a checker that shares no code with Judge, whether what the processes wrote down is what one owner at a
// time would have seen: whether there is an order of the claims, hand-outs and ends of claims of each partition, each at some
// moment of the time that it took, in which
//
//   - nobody is handed a message but the newest owner, under its token, and not after the end of its claim,
//   - under one token the offsets rise, and no two processes have the same token.
//
// A claim under an older token than the newest does nothing: who reads the log late learns late of what was his. What an exception
// of the protocol allows is left out, and counted, where the history has no order with it.
func Linearize(e Evidence) *Linearity {
	l := &Linearity{Exceptions: map[Exception]int{}}
	all := histories(e.Logs)
	for _, p := range slices.SortedFunc(maps.Keys(all), func(a, b Place) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
	}) {
		l.Keys++
		l.Operations += len(all[p])
		l.place(p, all[p], e)
	}
	return l
}

// place judges one history, piece by piece.
func (l *Linearity) place(p Place, ops []porcupine.Operation, e Evidence) {
	at := ownership{next: -1}
	pieces, left := cut(ops, pieceSize)
	l.LeftOut += left
	for _, piece := range pieces {
		for tries := 0; ; tries++ {
			result := porcupine.CheckOperationsTimeout(at.model(e), piece, pieceTime)
			if result == porcupine.Unknown {
				l.Unknown++
				return
			}
			if result == porcupine.Ok {
				break
			}
			stuck, before := at.stuck(piece, e)
			excuse := e.excuse(at, piece, stuck)
			if excuse == "" || tries == mostExcuse {
				l.Findings = append(l.Findings, Finding{p, "not linearizable",
					fmt.Sprintf("%v (from %d to %d) has no place; before it %s", piece[stuck].Input, piece[stuck].Call, piece[stuck].Return, before)})
				return
			}
			l.Exceptions[excuse]++
			piece = slices.Delete(slices.Clone(piece), stuck, stuck+1)
		}
		at = at.after(piece)
	}
	l.Linearizable++
}

// ownership is the state of the model: who owns a key.
type ownership struct {
	token int64
	owner *ProcessLog
	held  bool
	next  int64 // the lowest offset that may be handed out; under a new token any
}

// do takes a step, and tells whether it may be taken. again: offsets may begin anew under one token.
func (s ownership) do(o op, again bool) (ownership, bool) {
	switch {
	case o.token < s.token:
		return s, o.step != hands // it is too late to matter
	case o.token > s.token:
		return ownership{o.token, o.by, true, -1}, o.step == claims
	case o.by != s.owner:
		return s, false
	}
	switch o.step {
	case claims:
		return ownership{s.token, s.owner, true, -1}, !s.held
	case releases:
		s.held = false
		return s, true
	}
	ok := s.held && (again || o.first >= s.next)
	s.next = o.last + 1
	return s, ok
}

// model is the one-owner model, from this state on.
func (s ownership) model(e Evidence) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return s },
		Step: func(state, input, _ any) (bool, any) {
			next, ok := state.(ownership).do(input.(op), e.Recreated)
			return ok, next
		},
	}
}

// after is the state behind a piece that has an order: the same behind all of them. Only where a claim was ended and taken up
// again under its token it is not known how far it was handed out since.
func (s ownership) after(piece []porcupine.Operation) ownership {
	for _, o := range piece {
		if o := o.Input.(op); o.step == claims && o.token > s.token {
			s = ownership{o.token, o.by, false, -1}
		}
	}
	begun, noted := 0, int64(math.MinInt64)
	if s.held || s.next >= 0 {
		begun++
	}
	for _, at := range piece {
		switch o := at.Input.(op); {
		case o.token != s.token:
		case o.step == hands:
			s.next = max(s.next, o.last+1)
		default:
			if o.step == claims {
				begun++
			}
			if at.Return >= noted { // one process writes them down in their order
				s.held, noted = o.step == claims, at.Return
			}
		}
	}
	if begun > 1 {
		s.next = -1
	}
	return s
}

// stuck finds the operation of a piece without an order that has no place, and says what the last one is that has one.
func (s ownership) stuck(piece []porcupine.Operation, e Evidence) (int, string) {
	numbered := slices.Clone(piece)
	for i := range numbered {
		numbered[i].Metadata = i
	}
	_, info := porcupine.CheckOperationsVerbose(s.model(e), numbered, pieceTime)
	var longest []porcupine.Operation
	for _, partial := range info.PartialLinearizationsOperations()[0] {
		if len(partial) > len(longest) {
			longest = partial
		}
	}
	placed := make([]bool, len(piece))
	before := "nothing"
	for _, o := range longest {
		placed[o.Metadata.(int)] = true
		before = fmt.Sprintf("%v (from %d to %d)", o.Input, o.Call, o.Return)
	}
	stuck := -1
	for i := range piece {
		if !placed[i] && (stuck < 0 || piece[i].Return < piece[stuck].Return) {
			stuck = i
		}
	}
	return stuck, before
}

// excuse says which exception allows an operation of a piece that has no place; empty: none.
func (e Evidence) excuse(from ownership, piece []porcupine.Operation, stuck int) Exception {
	at, o := piece[stuck], piece[stuck].Input.(op)
	if o.step != hands {
		return ""
	}
	successor := func(by *ProcessLog, token int64) bool {
		return by != nil && by != o.by && token > o.token && by.Client != "" && by.Client == o.by.Client
	}
	if e.FastReclaim && (successor(from.owner, from.token) || slices.ContainsFunc(piece, func(c porcupine.Operation) bool {
		in := c.Input.(op)
		return in.step == claims && c.Call <= at.Return && successor(in.by, in.token)
	})) {
		return Reclaimed
	}
	if o.by.offers() {
		for i := range e.Logs {
			for _, h := range e.Logs[i].Happenings {
				if h.What == Woken && h.Process == o.by.Process && h.At <= at.Return && o.by.firstSince(h.At) == at.Return {
					return BeforeAFreeze
				}
			}
		}
	}
	return ""
}

// offers tells whether the process reads ConsumeChannel.
func (l *ProcessLog) offers() bool {
	return slices.ContainsFunc(l.Happenings, func(h Happening) bool { return h.What == Offered && h.Process == l.Process })
}

// firstSince is when the first message came out after a moment.
func (l *ProcessLog) firstSince(at int64) int64 {
	first := int64(math.MaxInt64)
	for _, h := range l.Handouts {
		if h.After >= at {
			first = min(first, h.After)
		}
	}
	return first
}
