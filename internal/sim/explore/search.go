package explore

import (
	"fmt"
	"strings"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// space is what a search has found of one Config.
type space struct {
	cfg        *Config
	step       [maxProcs]time.Duration // of each process's clock, for a quantum
	oldest     uint8
	horizon    time.Duration
	grain      time.Duration // to which the round trip is told
	conflicts  [maxKeys]mask
	nodes      []*node
	recs       []record
	recIndex   map[string]int32
	locals     []*local
	localIndex map[[16]byte]int32
	calls      map[call]outcome
	buf        []byte
	begun      int32  // depth of the log when the set-up was over
	free       bool   // the set-up is over: bounds hold
	full       bool   // more records were on their way than fit
	wrong      string // what was found wrong while a process ran
	plain      bool   // intern nothing: to hold the search against
}

func newSpace(cfg *Config) *space {
	sp := &space{cfg: cfg, oldest: cfg.oldest(), horizon: cfg.horizon(), grain: cfg.Quantum, recIndex: map[string]int32{},
		localIndex: map[[16]byte]int32{}, calls: map[call]outcome{}}
	for p := range cfg.Procs {
		sp.step[p] = cfg.Procs[p].step(cfg.Quantum)
	}
	for i, a := range cfg.Keys {
		for j, b := range cfg.Keys {
			if conflicting(a, b) {
				sp.conflicts[i] |= 1 << j
			}
		}
	}
	sp.plant()
	return sp
}

// Result is what a search came to.
type Result struct {
	Config      string
	States      int // different ones
	Transitions int
	Depth       int            // of the last state that was found
	Nodes       int            // different logs
	Locals      int            // different processes
	Events      map[string]int // what the records of the search did, in different logs
	Handing     [maxProcs]int  // states in which each process hands something out
	Complete    bool
	Violation   string
	Script      string // that leads to it from nothing
	Took        time.Duration
}

// Options bound a search beyond its Config.
type Options struct {
	States int // stop there, and say that it is not complete; 0: no bound
}

// Search explores a Config.
func Search(cfg *Config, o Options) (Result, error) {
	began := time.Now()
	if len(cfg.Authors) > 0 {
		r := Result{Config: cfg.Name, Events: map[string]int{}}
		pens(cfg, o, &r)
		r.Took = time.Since(began)
		return r, nil
	}
	sp := newSpace(cfg)
	root, err := sp.setUp()
	if err != nil {
		return Result{}, err
	}
	r := Result{Config: cfg.Name}
	t := newTrail(root)
	level, next := []state{root}, []state(nil)
	first := uint32(0) // number of level[0]
	var room []action
search:
	for len(level) > 0 {
		for i := range level {
			room = sp.actions(&level[i], room[:0])
			for _, a := range room {
				s, ok, violation := sp.apply(level[i], a)
				r.Transitions++
				if violation != "" {
					r.Violation, r.Script = violation, sp.script(root, append(t.to(first+uint32(i)), a))
					break search
				}
				if ok && t.add(&s, first+uint32(i), a) {
					next = append(next, s)
					sp.count(&s, &r)
				}
			}
			if o.States > 0 && len(t.from) >= o.States {
				break search
			}
		}
		first += uint32(len(level))
		level, next = next, level[:0]
		if len(level) > 0 {
			r.Depth++
		}
	}
	r.States, r.Nodes, r.Locals = len(t.from), len(sp.nodes), len(sp.locals)
	r.Events = sp.events()
	r.Complete = r.Violation == "" && len(level) == 0 && !sp.full
	r.Took = time.Since(began)
	return r, nil
}

// count notes who hands out.
func (sp *space) count(s *state, r *Result) {
	for p := range sp.cfg.Procs {
		if s.local[p] >= 0 && sp.handing(p, s.local[p], s.age[p]) != 0 {
			r.Handing[p]++
		}
	}
}

// events counts what the records after the set-up did.
func (sp *space) events() map[string]int {
	counts := map[string]int{}
	for _, n := range sp.nodes {
		if n.depth > sp.begun {
			sp.countEvents(n.events, counts)
		}
	}
	return counts
}

func (sp *space) countEvents(events []lease.Event, counts map[string]int) {
	for i := range events {
		name, ok := eventNames[events[i].Kind]
		if !ok {
			continue
		}
		if r := events[i].Reason; r != lease.NoReason {
			name += ": " + reasonNames[r]
		}
		counts[name]++
	}
}

var eventNames = map[lease.EventKind]string{
	lease.Joined: "joined", lease.Left: "left", lease.Parked: "parked", lease.Evicted: "evicted", lease.Granted: "granted",
	lease.Held: "held", lease.Refused: "refused", lease.Released: "released", lease.HandedOver: "handed over",
	lease.TakenOver: "taken over", lease.Progressed: "progressed", lease.Marked: "marked", lease.Sought: "sought",
	lease.Rebased: "rebased", lease.Announced: "announced", lease.Ignored: "ignored",
}

var reasonNames = map[lease.Reason]string{
	lease.AuthorUnknown: "unknown author", lease.AuthorEnded: "author ended", lease.AuthorParked: "author parked",
	lease.Echo: "echo", lease.NotHeld: "not held", lease.OldEpoch: "old epoch", lease.Behind: "behind",
	lease.HeldByOther: "held by another", lease.AtomicPartner: "atomic partner", lease.NotSuccessor: "no successor",
	lease.TargetUnknown: "target unknown", lease.TargetEnded: "target ended", lease.TargetSelf: "target self",
	lease.RenewedSince: "renewed since", lease.NoTakeover: "no takeover", lease.BaseNotEmpty: "base not empty",
}

// trail remembers which states were found, and from which other each was found first.
type trail struct {
	table [][2]uint64 // open addressing; {0, 0}: empty
	from  []uint32
	by    []action
}

func newTrail(root state) *trail {
	t := &trail{table: make([][2]uint64, 1<<16)}
	t.add(&root, 0, action{})
	return t
}

// add notes a state; false: it is known.
func (t *trail) add(s *state, from uint32, by action) bool {
	h := s.hash()
	i := t.slot(h)
	if t.table[i] == h {
		return false
	}
	t.table[i] = h
	t.from, t.by = append(t.from, from), append(t.by, by)
	if 3*len(t.from) > 2*len(t.table) {
		old := t.table
		t.table = make([][2]uint64, 2*len(old))
		for _, h := range old {
			if h != ([2]uint64{}) {
				t.table[t.slot(h)] = h
			}
		}
	}
	return true
}

func (t *trail) slot(h [2]uint64) int {
	i := int(h[0]) & (len(t.table) - 1)
	for t.table[i] != ([2]uint64{}) && t.table[i] != h {
		i = (i + 1) & (len(t.table) - 1)
	}
	return i
}

// to lists the actions that lead to a state.
func (t *trail) to(n uint32) []action {
	var path []action
	for ; n != 0; n = t.from[n] {
		path = append(path, t.by[n])
	}
	for i, j := 0, len(path)-1; i < j; i, j = i+1, j-1 {
		path[i], path[j] = path[j], path[i]
	}
	return path
}

// HandingOut says in how many states each process hands something out.
func (r *Result) HandingOut(c *Config) string {
	var b strings.Builder
	for p := range c.Procs {
		fmt.Fprintf(&b, "%s %d ", c.Procs[p].Name, r.Handing[p])
	}
	return strings.TrimSpace(b.String())
}
