package explore

import (
	"fmt"
	"slices"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// actionKind tells the actions apart.
type actionKind uint8

// What the adversary may choose. What it does not choose does not happen: a record that it never appends is lost, a process
// that it never lets run is paused.
const (
	advance    actionKind = iota + 1 // time goes on by a quantum
	tick                             // a process runs, whose time has come
	read                             // a process reads the next record
	readAll                          // a process reads all that there is, as one batch
	appendOne                        // a record reaches the log
	appendCopy                       // a record reaches the log, and another copy of it stays on its way
	wish                             // something of Config.Wishes happens
	take                             // an application takes the next message of a key
	finish                           // an application finishes the message in flight, and its position is reported
	finishLate                       // it finishes one whose claim is over
	drained                          // nothing is in flight: what was asked for by a Drain is told
	cut                              // DrainTimeout: it is told although a message is in flight
)

var actionNames = [...]string{advance: "advance", tick: "tick", read: "read", readAll: "readall", appendOne: "append",
	appendCopy: "copy", wish: "wish", take: "take", finish: "finish", finishLate: "late", drained: "drained", cut: "cut"}

// action is one choice of the adversary.
type action struct {
	kind actionKind
	proc uint8
	arg  int32 // key, wish, late message or record
}

// outcome is what came of letting a process run.
type outcome struct {
	local   int32 // -1: the process is over
	records []int32
	illegal bool // beyond a bound
}

// call names one run of a process: whatever has the same name comes to the same.
type call struct {
	local  int32
	target int32 // node that is read up to
	arg    int32
	age    uint8
	kind   actionKind
}

// let lets a process run.
func (sp *space) let(proc int, c call) outcome {
	if o, ok := sp.calls[c]; ok && !sp.plain {
		return o
	}
	o := sp.work(proc, c)
	if !sp.plain {
		sp.calls[c] = o
	}
	return o
}

// work does what let remembers.
func (sp *space) work(proc int, c call) outcome {
	l := sp.locals[c.local].copyOf()
	l.now += sp.elapsed(proc, c.age)
	if l.begins != nil {
		return sp.workToBegin(proc, l, c)
	}
	var events []lease.Event
	if sp.cfg.Own {
		log := l.shared.Log.Clone()
		log.Own(l.m.Instance())
		l.shared = &member.Shared{Log: log, Planner: &policy.Planner{}}
	}
	if c.kind == read || c.kind == readAll {
		for at, ok := sp.next(l.node, c.target); ok; at, ok = sp.next(at, c.target) {
			if sp.cfg.Own {
				rec := sp.place(sp.nodes[at].rec, int64(sp.nodes[at].depth-1))
				events, _ = l.shared.Log.Take(&rec, sp.recs[sp.nodes[at].rec].value, events)
			} else {
				events = append(events, sp.nodes[at].events...)
			}
		}
		l.node = c.target
		if !sp.cfg.Own {
			l.shared = sp.nodes[c.target].shared
		}
	}
	l.m = l.m.Clone(l.shared)
	var out member.Output
	switch c.kind {
	case tick:
		out = l.m.Tick(l.clock(true))
	case read, readAll:
		out = l.m.Step(events, l.clock(false))
	case wish:
		out = sp.grant(l, &sp.cfg.Wishes[c.arg])
	case take:
		l.runs[l.runOf(c.arg)].next++
		out.Wake = l.wake
	case finish:
		r := &l.runs[l.runOf(c.arg)]
		r.done++
		out = l.m.Positions(sp.position(r), lease.Load{}, l.clock(false))
	case finishLate:
		f := l.late[c.arg]
		l.late = slices.Delete(l.late, int(c.arg), int(c.arg)+1)
		out = l.m.Positions([]member.Position{{Key: sp.cfg.Keys[f.key], Epoch: f.epoch, Next: f.offset + 1}}, lease.Load{}, l.clock(false))
	case appendOne:
		out = l.m.Acked(uint64(c.arg), l.clock(false))
	case drained, cut:
		r := &l.runs[l.runOf(c.arg)]
		out = l.m.Drained(sp.cfg.Keys[r.key], r.epoch, lease.TopicID{}, sp.position(r), l.clock(false))
		if r.busy() {
			l.late = append(l.late, late{r.key, r.epoch, r.done})
			r.next = r.done
		}
	}
	return sp.settle(proc, l, out)
}

// workToBegin lets a process run that looks for a base. Once it has one it applies what it has read since, and joins.
func (sp *space) workToBegin(proc int, l *local, c call) outcome {
	b := l.begins.Clone()
	l.begins = b
	target := l.node
	if c.kind != tick {
		target = c.target
	}
	for at, ok := sp.next(l.node, target); ok; at, ok = sp.next(at, target) {
		rec := sp.place(sp.nodes[at].rec, int64(sp.nodes[at].depth-1))
		b.Add(&rec, sp.recs[sp.nodes[at].rec].value, l.now)
		l.node = at
	}
	if base, found := b.Base(); found {
		l.shared = &member.Shared{Log: sp.follow(base, l.node), Planner: &policy.Planner{}}
		l, out := sp.begin(proc, l, l.born+1)
		return sp.settle(proc, l, out)
	}
	records, wake := b.Tick(l.now, 3<<20)
	var o outcome
	for i := range records {
		o.records = append(o.records, sp.write(proc, records[i]))
	}
	l.wake = wake
	return sp.finish(proc, l, o)
}

// follow applies everything from a base to a node.
func (sp *space) follow(base history.Base, to int32) *history.Log {
	var path []int32
	for at := to; int64(sp.nodes[at].depth) > base.From; at = sp.nodes[at].parent {
		path = append(path, at)
	}
	log := history.NewLog(history.Base{From: base.From, World: base.World.Clone(), Hash: base.Hash})
	for _, at := range slices.Backward(path) {
		rec := sp.place(sp.nodes[at].rec, int64(sp.nodes[at].depth-1))
		log.Take(&rec, sp.recs[sp.nodes[at].rec].value, nil)
	}
	if sp.wrong == "" && log.World().Digest() != sp.nodes[to].log().World().Digest() {
		sp.wrong = "S1: from a base on the world is another one"
	}
	return log
}

// grant does what is wished of a member.
func (sp *space) grant(l *local, w *Wish) member.Output {
	now := l.clock(false)
	switch w.Kind {
	case Leave:
		return l.m.Leave(false, 0, now)
	case Park:
		return l.m.Leave(true, 2*sp.horizon, now)
	case Abandon:
		return l.m.Abandon(now)
	case Seek:
		return l.m.Seek(w.Key, lease.TopicID{}, w.Next, lease.NoEpoch, now)
	}
	panic(fmt.Sprintf("explore: nobody can be asked to %s", wishNames[w.Kind]))
}

// settle carries out what a member wants.
func (sp *space) settle(proc int, l *local, out member.Output) outcome {
	var o outcome
	add := func(appends []member.Append) {
		for i := range appends {
			o.records = append(o.records, sp.write(proc, appends[i].Record))
		}
	}
	add(out.Appends)
	sp.obey(l, out.Actions)
	if sp.cfg.Own {
		for _, rec := range l.shared.Log.TakeSnapshot() {
			o.records = append(o.records, sp.write(proc, rec))
		}
	}
	if out.Ended && !out.Left {
		for len(l.runs) > 0 {
			l.end(0)
		}
		l, out = sp.begin(proc, l, l.born+1)
		add(out.Appends)
	}
	l.wake = out.Wake
	if out.Left {
		l = nil
	}
	return sp.finish(proc, l, o)
}

// finish counts what a process has written, and interns what has become of it; nil: it is over.
func (sp *space) finish(proc int, l *local, o outcome) outcome {
	o.local = -1
	if l == nil {
		return o
	}
	if sp.free {
		if l.written += uint8(len(o.records)); int(l.written) > sp.cfg.written(proc) {
			return outcome{illegal: true}
		}
	}
	o.local = sp.intern(proc, l)
	return o
}

// write interns a record.
func (sp *space) write(proc int, rec lease.Record) int32 {
	v := value(&rec)
	if id, ok := sp.recIndex[string(v)]; ok {
		return id
	}
	id := int32(len(sp.recs))
	sp.recIndex[string(v)] = id
	sp.recs = append(sp.recs, record{rec, v, sp.cfg.label(proc, &rec), int8(proc)})
	return id
}

func (l *local) runOf(key int32) int {
	return slices.IndexFunc(l.runs, func(r run) bool { return int32(r.key) == key })
}
