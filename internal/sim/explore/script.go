package explore

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// A script has an action on each line, after "#" nothing counts:
//
//	fair 1s [hold a,b] [stop c]   time goes on, and everybody does at once what it can; held ones reach nothing, stopped ones do not run
//	until evict [hold a] [stop c] the same, up to the moment at which somebody has written an Evict
//	start a                       a process starts, whatever the Config wishes
//
// and, as a counterexample prints them: advance, tick a, read a, readall a, append a:3, copy a:3, wish 0, take a t/0,
// finish a t/0, late a 0, drained a t/0, cut a t/0. The line "free" ends the set-up: from there on bounds count.

// replay is a script being run.
type replay struct {
	sp        *space
	s         state
	trace     func(line string)
	violation string
}

// setUp runs the Config's Setup, and gives the state that the search begins with.
func (sp *space) setUp() (state, error) {
	r := sp.replay(nil)
	if err := r.run(sp.cfg.Setup); err != nil {
		return state{}, fmt.Errorf("set-up of %s: %w", sp.cfg.Name, err)
	}
	if r.violation != "" {
		return state{}, fmt.Errorf("set-up of %s: %s", sp.cfg.Name, r.violation)
	}
	r.begin()
	return r.s, nil
}

func (sp *space) replay(trace func(string)) *replay {
	r := &replay{sp: sp, trace: trace}
	for i := range r.s.local {
		r.s.local[i] = -1
	}
	return r
}

// begin ends the set-up.
func (r *replay) begin() {
	sp := r.sp
	sp.free = true
	sp.begun = sp.nodes[r.s.tip].depth
	clear(sp.calls)
	if int(r.s.free) == sp.cfg.Records {
		r.s.flight, r.s.n = [maxFlight]int32{}, 0
	}
}

// Replay runs a script that Search has printed, after the Config's Setup, and gives the violation that it ends with; trace
// is told each step and what it did, if it is not nil.
func Replay(cfg *Config, script string, trace func(line string)) (violation string, err error) {
	sp := newSpace(cfg)
	sp.plain = true
	r := sp.replay(trace)
	if err := r.run(cfg.Setup); err != nil {
		return "", fmt.Errorf("set-up of %s: %w", cfg.Name, err)
	}
	r.begin()
	if err := r.run(script); err != nil {
		return "", err
	}
	return r.violation, nil
}

func (r *replay) run(script string) error {
	for n, line := range strings.Split(script, "\n") {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		if err := r.line(words); err != nil {
			return fmt.Errorf("line %d, %q: %w", n+1, strings.TrimSpace(line), err)
		}
		if r.violation != "" {
			return nil
		}
	}
	return nil
}

func (r *replay) line(words []string) error {
	switch words[0] {
	case "fair", "until":
		return r.fair(words)
	case "start":
		if len(words) != 2 || r.sp.cfg.proc(words[1]) < 0 {
			return errors.New("which process?")
		}
		p := r.sp.cfg.proc(words[1])
		var ok bool
		if r.s, ok, r.violation = r.sp.start(r.s, p); !ok {
			return errors.New("it cannot start")
		}
		return nil
	}
	a, err := r.parse(words)
	if err != nil {
		return err
	}
	return r.do(a)
}

func (r *replay) do(a action) error {
	if r.trace != nil {
		r.trace(r.sp.line(&r.s, a))
	}
	if !slices.Contains(r.sp.actions(&r.s, nil), a) {
		return errors.New("that cannot happen now")
	}
	s, ok, violation := r.sp.apply(r.s, a)
	if !ok {
		return errors.New("beyond a bound")
	}
	r.s, r.violation = s, violation
	if violation != "" && r.trace != nil {
		r.trace(violation)
	}
	return nil
}

// parse makes an action of a line.
func (r *replay) parse(words []string) (action, error) {
	kind := slices.Index(actionNames[:], words[0])
	if kind <= 0 {
		return action{}, errors.New("no such action")
	}
	a := action{kind: actionKind(kind)}
	args := words[1:]
	switch a.kind {
	case advance:
		return a, nil
	case appendOne, appendCopy:
		if len(args) != 1 {
			return a, errors.New("which record?")
		}
		for _, rec := range r.s.flight[:r.s.n] {
			if r.sp.recs[rec].label == args[0] {
				a.arg = rec
				return a, nil
			}
		}
		return a, errors.New("no such record is on its way")
	}
	if len(args) == 0 {
		return a, errors.New("what?")
	}
	if a.kind == wish {
		n, err := strconv.Atoi(args[0])
		if err != nil || n < 0 || n >= len(r.sp.cfg.Wishes) {
			return a, errors.New("no such wish")
		}
		a.arg, a.proc = int32(n), uint8(r.sp.cfg.proc(r.sp.cfg.Wishes[n].Proc))
		return a, nil
	}
	p := r.sp.cfg.proc(args[0])
	if p < 0 || r.s.local[p] < 0 {
		return a, errors.New("no such process runs")
	}
	a.proc = uint8(p)
	switch {
	case a.kind == tick || a.kind == read || a.kind == readAll:
		return a, nil
	case len(args) != 2:
		return a, errors.New("which?")
	case a.kind == finishLate:
		n, err := strconv.Atoi(args[1])
		a.arg = int32(n)
		return a, err
	}
	a.arg = int32(slices.IndexFunc(r.sp.cfg.Keys, func(k lease.Key) bool { return keyName(k) == args[1] }))
	if a.arg < 0 {
		return a, errors.New("no such key is watched")
	}
	return a, nil
}

// fair lets time go on while everybody does at once what it can: for some time, or until a record of some kind is written.
func (r *replay) fair(words []string) error {
	if len(words) < 2 {
		return errors.New("how long?")
	}
	var quanta time.Duration
	var kind lease.Kind
	if words[0] == "fair" {
		d, err := time.ParseDuration(words[1])
		if err != nil {
			return err
		}
		quanta = d / r.sp.cfg.Quantum
	} else {
		for k, name := range kindNames {
			if name == words[1] {
				kind, quanta = k, 20
			}
		}
	}
	var held, stopped []string
	for i := 2; i+1 < len(words); i += 2 {
		switch words[i] {
		case "hold":
			held = strings.Split(words[i+1], ",")
		case "stop":
			stopped = strings.Split(words[i+1], ",")
		default:
			return fmt.Errorf("%q is neither hold nor stop", words[i])
		}
	}
	written := func() bool {
		return slices.ContainsFunc(r.s.flight[:r.s.n], func(i int32) bool { return r.sp.recs[i].rec.Kind == kind })
	}
	for range quanta {
		for a, ok := r.fairNext(held, stopped); ok; a, ok = r.fairNext(held, stopped) {
			if err := r.do(a); err != nil || r.violation != "" || written() {
				return err
			}
		}
		if err := r.do(action{kind: advance}); err != nil || r.violation != "" {
			return err
		}
	}
	if kind != 0 {
		return errors.New("nobody writes that")
	}
	return nil
}

// fairNext is the first thing that somebody can do at once.
func (r *replay) fairNext(held, stopped []string) (action, bool) {
	name := func(p uint8) string { return r.sp.cfg.Procs[p].Name }
	for _, a := range r.sp.actions(&r.s, nil) {
		switch a.kind {
		case tick, read, drained:
			if !slices.Contains(stopped, name(a.proc)) {
				return a, true
			}
		case appendOne:
			if p := uint8(r.sp.recs[a.arg].proc); !slices.Contains(held, name(p)) && !slices.Contains(stopped, name(p)) {
				return a, true
			}
		}
	}
	return action{}, false
}

// script prints actions as lines that Replay reads, with what they did beside them.
func (sp *space) script(root state, path []action) string {
	var b strings.Builder
	s := root
	for _, a := range path {
		b.WriteString(sp.line(&s, a) + "\n")
		s, _, _ = sp.apply(s, a)
	}
	return b.String()
}

// line prints an action that is about to happen.
func (sp *space) line(s *state, a action) string {
	text, note := actionNames[a.kind], ""
	proc := func() string { return " " + sp.cfg.Procs[a.proc].Name }
	switch a.kind {
	case advance:
	case appendOne, appendCopy:
		text += " " + sp.recs[a.arg].label
		note = fmt.Sprintf("@%d %s", sp.nodes[s.tip].depth, sp.cfg.describe(&sp.recs[a.arg].rec))
	case wish:
		text += fmt.Sprintf(" %d", a.arg)
		w := &sp.cfg.Wishes[a.arg]
		note = w.Proc + " " + wishNames[w.Kind]
	case read:
		text += proc()
		if at, ok := sp.next(sp.locals[s.local[a.proc]].node, s.tip); ok {
			note = fmt.Sprintf("@%d %s", sp.nodes[at].depth-1, sp.recs[sp.nodes[at].rec].label)
		}
	case finishLate:
		text += proc() + fmt.Sprintf(" %d", a.arg)
	case take, finish, drained, cut:
		text += proc() + " " + keyName(sp.cfg.Keys[a.arg])
	default:
		text += proc()
	}
	if note != "" {
		text = fmt.Sprintf("%-20s # %s", text, note)
	}
	return text
}
