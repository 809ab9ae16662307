package explore

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
)

// local is a process as it stands after something happened to it. It does not change: whatever happens next makes another.
type local struct {
	node    int32             // what it has read
	m       *member.Member    // nil: it has no base yet
	begins  *history.Beginner // that looks for one
	shared  *member.Shared
	now     time.Duration // of its own clock, when it ran last
	wake    time.Duration
	runs    []run
	late    []late
	written uint8 // records since the set-up
	born    uint8 // which of its instances it is
	hands   []mask
}

// run is one key that the process runs, with the application that reads it.
type run struct {
	key      uint8 // index in the Config
	epoch    int64
	next     int64 // to be handed out
	done     int64 // lowest that is not finished
	draining bool
}

// busy tells whether a message is in flight.
func (r *run) busy() bool { return r.next > r.done }

// late is a message that is still worked on although its claim is over.
type late struct {
	key    uint8
	epoch  int64
	offset int64
}

// mask says, bit by bit, which of the Config's keys are handed out; unknown is what has not been asked.
type mask uint8

const unknown mask = 1 << 7

// copyOf gives a local that may be changed.
func (l *local) copyOf() *local {
	c := *l
	c.runs, c.late, c.hands = slices.Clone(l.runs), slices.Clone(l.late), nil
	return &c
}

// digest tells locals apart: two with the same one act alike from now on.
func (sp *space) digest(proc int, l *local) [16]byte {
	b := append(sp.buf[:0], byte(proc), l.written, l.born, byte(len(l.runs)))
	b = binary.LittleEndian.AppendUint32(b, uint32(l.node))
	b = binary.LittleEndian.AppendUint64(b, uint64(max(l.wake-l.now, 0)))
	for _, r := range l.runs {
		b = append(b, r.key, byte(r.next), byte(r.done))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.epoch))
		if r.draining {
			b = append(b, 1)
		}
	}
	b = append(b, byte(len(l.late)))
	for _, r := range l.late {
		b = append(b, r.key, byte(r.offset))
		b = binary.LittleEndian.AppendUint64(b, uint64(r.epoch))
	}
	switch {
	case l.begins != nil:
		b = l.begins.AppendTimes(b, l.now, sp.horizon)
	case sp.cfg.Own:
		b = l.shared.Log.AppendTimes(b, l.now, sp.horizon)
		fallthrough
	default:
		b = l.m.AppendBinary(b, l.now, sp.horizon, sp.grain)
	}
	sp.buf = b
	sum := sha256.Sum256(b)
	return [16]byte(sum[:16])
}

// intern gives the number of a local.
func (sp *space) intern(proc int, l *local) int32 {
	d := sp.digest(proc, l)
	if id, ok := sp.localIndex[d]; ok && !sp.plain {
		return id
	}
	id := int32(len(sp.locals))
	sp.localIndex[d] = id
	sp.locals = append(sp.locals, l)
	return id
}

// dawn is what the monotonic clock of a process shows when it starts; wall and boot are how far those clocks are from it:
// never suspended, never set.
const (
	dawn = time.Hour
	wall = 1_000_000 * time.Hour
	boot = 1000 * time.Hour
)

// clock is a reading of the process's clocks; the boot clock is read on ticks only.
func (l *local) clock(tick bool) member.Now {
	n := member.Now{Mono: l.now, Wall: l.now + wall}
	if tick {
		n.Boot = l.now + boot
	}
	return n
}

// handing tells what a local that ran last so many quanta ago would hand out now.
func (sp *space) handing(proc int, id int32, age uint8) mask {
	l := sp.locals[id]
	if l.hands == nil {
		l.hands = make([]mask, sp.oldest+1)
		for i := range l.hands {
			l.hands[i] = unknown
		}
	}
	if h := l.hands[age]; h != unknown {
		return h
	}
	var h mask
	at := *l
	at.now += sp.elapsed(proc, age)
	for i, k := range sp.cfg.Keys {
		if l.m == nil {
			break
		}
		if _, ok := l.m.HandsOut(k, at.clock(false)); ok {
			h |= 1 << i
		}
	}
	l.hands[age] = h
	return h
}

// begin makes the process's next instance, on the log that it has read.
func (sp *space) begin(proc int, l *local, born uint8) (*local, member.Output) {
	p := &sp.cfg.Procs[proc]
	l = &local{node: l.node, shared: l.shared, now: l.now, late: l.late, written: l.written, born: born}
	l.m = member.New(member.Config{
		Instance: instanceOf(proc, int(born)), Client: p.client(), Host: "h", Group: "g", TTL: p.ttl(),
		CommitInterval: 2 * sp.cfg.Quantum,
	}, l.shared, l.clock(false))
	out := l.m.Want(p.Wanted, l.clock(false))
	tick := l.m.Tick(l.clock(true))
	out.Appends = append(out.Appends, tick.Appends...)
	out.Wake = tick.Wake
	return l, out
}

// obey carries out a member's actions: the application begins and ends.
func (sp *space) obey(l *local, actions []member.Action) {
	for _, a := range actions {
		key := slices.Index(sp.cfg.Keys, a.Key)
		if key < 0 {
			continue
		}
		i := slices.IndexFunc(l.runs, func(r run) bool { return r.key == uint8(key) })
		switch a.Kind {
		case member.Start:
			if a.Unread {
				continue
			}
			if i >= 0 {
				l.end(i)
			}
			r := run{key: uint8(key), epoch: a.Epoch}
			if p, ok := l.shared.Log.World().Progress(a.Key.Topic, a.Key.Partition); ok && a.Key.Partition >= 0 {
				r.next = max(p.Next, 0)
			}
			r.done = r.next
			l.runs = append(l.runs, r)
			slices.SortFunc(l.runs, func(x, y run) int { return int(x.key) - int(y.key) })
		case member.Drain:
			if i >= 0 {
				l.runs[i].draining = true
			}
		case member.Resume:
			if i >= 0 {
				l.runs[i].draining = false
			}
		case member.Stop, member.Finish:
			if i >= 0 {
				l.end(i)
			}
		}
	}
}

// end ends a run; what is in flight is finished later, or never.
func (l *local) end(i int) {
	r := l.runs[i]
	l.runs = slices.Delete(l.runs, i, i+1)
	if r.busy() {
		l.late = append(l.late, late{r.key, r.epoch, r.done})
	}
}

// position is how far a run is.
func (sp *space) position(r *run) []member.Position {
	k := sp.cfg.Keys[r.key]
	if k.Partition == lease.WholeTopic {
		return nil
	}
	return []member.Position{{Key: k, Epoch: r.epoch, Next: r.done}}
}
