package explore

import (
	"math/bits"
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// state is everything at one moment.
type state struct {
	tip      int32           // the log
	free     uint8           // records of it that were appended after the set-up
	copies   uint8           // of them, those of which a copy stayed on its way
	wished   uint8           // which wishes have happened
	n        uint8           // records on their way
	age      [maxProcs]uint8 // how many quanta ago each process ran last
	born     [maxProcs]uint8 // how many instances each process has had
	finished [maxKeys]uint8  // which messages of each key an owner has finished, since the newest Seek of it
	local    [maxProcs]int32 // -1: it does not run
	flight   [maxFlight]int32
}

// hash is 128 bits of everything in a state.
func (s *state) hash() [2]uint64 {
	h := [2]uint64{0x9e3779b97f4a7c15, 0xd1b54a32d192ed03}
	word := func(w uint64) {
		h[0] = mix(h[0]^w, 0xa0761d6478bd642f)
		h[1] = mix(h[1]^w, 0xe7037ed1a0b428db) + h[0]
	}
	word(uint64(uint32(s.tip)) | uint64(s.free)<<32 | uint64(s.copies)<<40 | uint64(s.wished)<<48 | uint64(s.n)<<56)
	var small [16]byte
	copy(small[:4], s.age[:])
	copy(small[4:8], s.born[:])
	copy(small[8:12], s.finished[:])
	word(le(small[:8]))
	word(le(small[8:]) | uint64(uint32(s.local[0]))<<32)
	word(uint64(uint32(s.local[1])) | uint64(uint32(s.local[2]))<<32)
	word(uint64(uint32(s.local[3])))
	for i := 0; i < int(s.n); i += 2 {
		w := uint64(uint32(s.flight[i]))
		if i+1 < int(s.n) {
			w |= uint64(uint32(s.flight[i+1])) << 32
		}
		word(w)
	}
	return h
}

func le(b []byte) (w uint64) {
	for i, x := range b {
		w |= uint64(x) << (8 * i)
	}
	return w
}

func mix(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// elapsed is how far a process's clock has gone since it ran last, so many quanta ago.
func (sp *space) elapsed(proc int, age uint8) time.Duration {
	return sp.step[proc] * time.Duration(age)
}

// launch puts records on their way; false: there are too many.
func (s *state) launch(records []int32) bool {
	for _, r := range records {
		list := s.flight[:s.n]
		i, there := slices.BinarySearch(list, r)
		if there {
			continue
		}
		if int(s.n) == maxFlight {
			return false
		}
		copy(s.flight[i+1:s.n+1], s.flight[i:s.n])
		s.flight[i] = r
		s.n++
	}
	return true
}

func (s *state) land(i int) {
	copy(s.flight[i:], s.flight[i+1:s.n])
	s.n--
	s.flight[s.n] = 0
}

// actions lists what may happen next, into room.
func (sp *space) actions(s *state, room []action) []action {
	for p := range sp.cfg.Procs {
		id := s.local[p]
		if id < 0 {
			continue
		}
		l, proc := sp.locals[id], uint8(p)
		if l.now+sp.elapsed(p, s.age[p]) >= l.wake {
			room = append(room, action{kind: tick, proc: proc})
		}
		if at, ok := sp.next(l.node, s.tip); ok {
			room = append(room, action{kind: read, proc: proc})
			if sp.cfg.Batches && at != s.tip {
				room = append(room, action{kind: readAll, proc: proc})
			}
		}
		room = sp.applications(s, p, l, room)
	}
	if int(s.free) < sp.cfg.Records {
		for i := range s.n {
			room = append(room, action{kind: appendOne, arg: s.flight[i]})
			if int(s.copies) < sp.cfg.Copies {
				room = append(room, action{kind: appendCopy, arg: s.flight[i]})
			}
		}
	}
	for i := range sp.cfg.Wishes {
		if s.wished&(1<<i) == 0 && sp.wishable(s, &sp.cfg.Wishes[i]) {
			room = append(room, action{kind: wish, proc: uint8(sp.cfg.proc(sp.cfg.Wishes[i].Proc)), arg: int32(i)})
		}
	}
	for p := range sp.cfg.Procs {
		if s.local[p] >= 0 && s.age[p] < sp.oldest {
			return append(room, action{kind: advance})
		}
	}
	return room
}

// applications lists what the application of a process may do.
func (sp *space) applications(s *state, p int, l *local, room []action) []action {
	proc := uint8(p)
	for i := range l.runs {
		r := &l.runs[i]
		k := int32(r.key)
		switch {
		case r.busy():
			if !r.draining || sp.cfg.Messages > 0 {
				room = append(room, action{finish, proc, k})
			}
			if r.draining {
				room = append(room, action{cut, proc, k})
			}
		case r.draining:
			room = append(room, action{drained, proc, k})
		case int(r.next) < sp.cfg.Messages && sp.handing(p, s.local[p], s.age[p])&(1<<r.key) != 0:
			room = append(room, action{take, proc, k})
		}
	}
	for i := range l.late {
		room = append(room, action{finishLate, proc, int32(i)})
	}
	return room
}

func (sp *space) wishable(s *state, w *Wish) bool {
	running := s.local[sp.cfg.proc(w.Proc)] >= 0
	return running != (w.Kind == Start)
}

// apply does one action. ok is false where a bound forbids it.
func (sp *space) apply(s state, a action) (next state, ok bool, violation string) {
	switch a.kind {
	case advance:
		for p := range sp.cfg.Procs {
			if s.local[p] >= 0 && s.age[p] < sp.oldest {
				s.age[p]++
			}
		}
		return s, true, sp.checkHands(&s)
	case appendOne, appendCopy:
		return sp.land(s, a)
	}
	p := int(a.proc)
	if a.kind == wish {
		s.wished |= 1 << a.arg
		if sp.cfg.Wishes[a.arg].Kind == Start {
			return sp.start(s, p)
		}
	}
	c := call{local: s.local[p], arg: a.arg, age: s.age[p], kind: a.kind}
	switch a.kind {
	case read:
		c.target, _ = sp.next(sp.locals[c.local].node, s.tip)
	case readAll:
		c.target = s.tip
	case finish:
		l := sp.locals[c.local]
		r := &l.runs[l.runOf(a.arg)]
		sp.noteFinished(&s, late{r.key, r.epoch, r.done})
	case finishLate:
		sp.noteFinished(&s, sp.locals[c.local].late[a.arg])
	}
	o := sp.let(p, c)
	if o.illegal {
		return s, false, ""
	}
	return sp.after(s, p, o)
}

// after puts what came of a process into the state.
func (sp *space) after(s state, p int, o outcome) (state, bool, string) {
	s.local[p], s.age[p] = o.local, 0
	if o.local >= 0 {
		s.born[p] = sp.locals[o.local].born
	}
	if !sp.free || int(s.free) < sp.cfg.Records {
		if !s.launch(o.records) {
			sp.full = true
			return s, false, ""
		}
	}
	if sp.wrong != "" {
		return s, true, sp.wrong
	}
	return s, true, sp.checkHands(&s)
}

// start begins a process, which has read all that there is, or cannot read any of it.
func (sp *space) start(s state, p int) (state, bool, string) {
	l := &local{node: s.tip, shared: sp.nodes[s.tip].shared, now: dawn, born: s.born[p]}
	var o outcome
	if sp.cfg.Procs[p].Newcomer {
		from := int64(sp.nodes[s.tip].depth)
		l.begins = history.NewBeginner(topicID, history.NewScan(topicID, from), from-1, false, uint64(p)+1, l.now)
		o = sp.workToBegin(p, l, call{kind: tick})
	} else {
		if sp.cfg.Own {
			l.shared = &member.Shared{Log: l.shared.Log.Clone(), Planner: &policy.Planner{}}
		}
		var out member.Output
		l, out = sp.begin(p, l, l.born+1)
		o = sp.settle(p, l, out)
	}
	if o.illegal {
		return s, false, ""
	}
	return sp.after(s, p, o)
}

// land appends a record to the log.
func (sp *space) land(s state, a action) (state, bool, string) {
	i, there := slices.BinarySearch(s.flight[:s.n], a.arg)
	if !there {
		return s, false, ""
	}
	before := sp.nodes[s.tip].log().World()
	tip, violation := sp.grow(s.tip, a.arg)
	s.tip = tip
	if a.kind == appendOne {
		s.land(i)
	} else {
		s.copies++
	}
	if sp.free {
		s.free++
		if int(s.free) == sp.cfg.Records { // nothing more can reach the log: what is on its way is as good as lost
			s.flight, s.n = [maxFlight]int32{}, 0
		}
	}
	if violation == "" && sp.cfg.Messages > 0 {
		violation = sp.checkFinished(&s, &sp.recs[a.arg].rec, before, sp.nodes[tip].log().World())
	}
	if violation == "" && sp.cfg.Acks {
		return sp.ack(s, a.arg)
	}
	return s, true, violation
}

// ack tells the author that its record is in the log.
func (sp *space) ack(s state, rec int32) (state, bool, string) {
	r := &sp.recs[rec]
	p := int(r.proc)
	if s.local[p] < 0 || r.rec.Instance.IsZero() || instanceOf(p, int(sp.locals[s.local[p]].born)) != r.rec.Instance {
		return s, true, ""
	}
	o := sp.let(p, call{local: s.local[p], arg: int32(r.rec.Seq), age: s.age[p], kind: appendOne})
	if o.illegal {
		return s, false, ""
	}
	return sp.after(s, p, o)
}

// noteFinished notes that a message is finished by one that is the owner of its key as it was when it took it.
func (sp *space) noteFinished(s *state, m late) {
	if held, ok := sp.nodes[s.tip].log().World().Lease(sp.cfg.Keys[m.key]); ok && held.Epoch == m.epoch && m.offset < 8 {
		s.finished[m.key] |= 1 << m.offset
	}
}

// checkFinished: progress passes no message that its owner has not finished since the newest Seek (S4).
func (sp *space) checkFinished(s *state, rec *lease.Record, before, after *lease.World) string {
	for i, k := range sp.cfg.Keys {
		if k.Partition == lease.WholeTopic {
			continue
		}
		was, _ := before.Progress(k.Topic, k.Partition)
		is, known := after.Progress(k.Topic, k.Partition)
		if rec.Kind == lease.KindDirective && rec.Directive.Key == k && known && is.Next != was.Next {
			s.finished[i] = 0
			continue
		}
		for o := max(was.Next, 0); known && o < min(is.Next, 8); o++ {
			if s.finished[i]&(1<<o) == 0 {
				return "S4: the progress of " + keyName(k) + " passes a message that is not finished"
			}
		}
	}
	return ""
}
