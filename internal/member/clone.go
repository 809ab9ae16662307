package member

import (
	"encoding/binary"
	"maps"
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// Clone makes an independent copy that works on s.
func (m *Member) Clone(s *Shared) *Member {
	c := *m
	c.s = s
	c.own.sent = slices.Clone(m.own.sent)
	c.beat.dirty = cloneEach(m.beat.dirty)
	c.watch.peers = make([]*peer, len(m.watch.peers))
	c.watch.byID = make(map[lease.InstanceID]*peer, len(m.watch.peers))
	for i, p := range m.watch.peers {
		q := *p
		c.watch.peers[i] = &q
		c.watch.byID[q.id] = &q
	}
	c.watch.proof = proof{}
	c.claims.run = cloneEach(m.claims.run)
	for _, q := range c.claims.run {
		q.offsets = slices.Clone(q.offsets)
	}
	c.claims.subjects = maps.Clone(m.claims.subjects)
	c.claims.pinned = maps.Clone(m.claims.pinned)
	c.claims.kept = maps.Clone(m.claims.kept)
	c.claims.reclaimed = maps.Clone(m.claims.reclaimed)
	c.claims.since = maps.Clone(m.claims.since)
	c.claims.moves = maps.Clone(m.claims.moves)
	c.claims.over = maps.Clone(m.claims.over)
	c.claims.ready = maps.Clone(m.claims.ready)
	c.claims.releasing = maps.Clone(m.claims.releasing)
	c.take.free = maps.Clone(m.take.free)
	c.take.asked = maps.Clone(m.take.asked)
	c.take.given = maps.Clone(m.take.given)
	c.seeks = slices.Clone(m.seeks)
	return &c
}

func cloneEach[K comparable, V any](m map[K]*V) map[K]*V {
	if m == nil {
		return nil
	}
	c := make(map[K]*V, len(m))
	for k, v := range m {
		w := *v
		c[k] = &w
	}
	return c
}

// AppendBinary appends a canonical form of the member's whole state (for the explorer): members that will act alike give
// equal bytes. Points in time are told from now, a reading of the monotonic clock, and those further back than horizon all
// look alike: choose it longer than anything that is waited for. The round trip, which is smoothed over the
// whole past, is rounded to a multiple of grain.
func (m *Member) AppendBinary(b []byte, now, horizon, grain time.Duration) []byte {
	e := encoder{b: b, now: now, horizon: horizon, grain: grain, tick: m.tick}
	e.num(uint64(m.stage), m.rng)
	e.span(m.pace)
	e.time(m.now)
	e.stamp(m.tick)
	e.own(&m.own)
	e.beat(&m.beat)
	e.num(m.join.seq)
	e.time(m.join.at)
	e.bit(m.join.lost, m.join.refused)
	e.content(m.join.said)
	e.watch(&m.watch)
	e.id(m.probe.target)
	e.bit(m.probe.active)
	if m.probe.active {
		e.time(m.probe.since)
	}
	e.span(m.probe.silent)
	e.num(m.probe.evict)
	e.claims(&m.claims)
	e.bit(m.claims.version != m.world().Version())
	e.bit(len(m.claims.releasing) > 0 && m.claims.written != m.claims.version)
	e.take(&m.take)
	e.num(uint64(len(m.seeks)))
	for _, s := range m.seeks {
		e.num(s.seq, uint64(s.d.Next), uint64(s.d.Epoch))
		e.key(s.d.Key)
		e.topic(s.d.TopicID)
	}
	e.bit(m.leaving.active, m.leaving.keep, m.leaving.abandon)
	e.span(m.leaving.grace)
	e.num(m.leaving.seq)
	return e.b
}

// encoder appends values of fixed form.
type encoder struct {
	b       []byte
	now     time.Duration
	horizon time.Duration
	grain   time.Duration
	tick    Now
}

func (e *encoder) num(vs ...uint64) {
	for _, v := range vs {
		e.b = binary.BigEndian.AppendUint64(e.b, v)
	}
}

// span appends lengths of time.
func (e *encoder) span(ts ...time.Duration) {
	for _, t := range ts {
		e.num(uint64(t))
	}
}

// time appends points of the monotonic clock.
func (e *encoder) time(ts ...time.Duration) {
	for _, t := range ts {
		if t != Never {
			t = max(t-e.now, -e.horizon)
		}
		e.num(uint64(t))
	}
}

// stamp appends points of all three clocks. The others are told by how far they have run from the monotonic one since the
// newest tick; a zero stays one.
func (e *encoder) stamp(n Now) {
	e.time(n.Mono)
	e.bit(n == Now{}, n.Boot == 0)
	if n.Mono-e.now > -e.horizon && n != (Now{}) {
		e.span(n.Wall - e.tick.Wall - (n.Mono - e.tick.Mono))
		if n.Boot != 0 {
			e.span(n.Boot - e.tick.Boot - (n.Mono - e.tick.Mono))
		}
	}
}

func (e *encoder) bit(vs ...bool) {
	for _, v := range vs {
		if v {
			e.b = append(e.b, 1)
		} else {
			e.b = append(e.b, 0)
		}
	}
}

func (e *encoder) str(s string) {
	e.num(uint64(len(s)))
	e.b = append(e.b, s...)
}

func (e *encoder) id(id lease.InstanceID) { e.b = append(e.b, id[:]...) }
func (e *encoder) topic(id lease.TopicID) { e.b = append(e.b, id[:]...) }
func (e *encoder) key(k lease.Key) {
	e.str(k.Topic)
	e.num(uint64(k.Partition))
}

func (e *encoder) position(p Position) {
	e.key(p.Key)
	e.topic(p.TopicID)
	e.num(uint64(p.Epoch), uint64(p.Next))
}

func (e *encoder) content(c content) {
	e.num(uint64(len(c.interests)), uint64(len(c.pinned)))
	for _, i := range c.interests {
		e.bit(i.Whole, i.Greedy)
		e.num(uint64(i.Max), uint64(i.Weight), uint64(len(i.Topics)))
		for _, t := range i.Topics {
			e.str(t.Topic)
			e.num(uint64(t.Partitions))
		}
	}
	for _, k := range c.pinned {
		e.key(k)
	}
}

func (e *encoder) own(o *own) {
	e.num(o.seq, o.deaf, uint64(o.bound), uint64(len(o.sent)))
	for _, s := range o.sent {
		e.num(s.seq, uint64(s.kind))
		e.stamp(s.started)
		e.bit(s.acked < 0)
		if s.acked >= 0 {
			e.time(s.acked)
		}
	}
	e.stamp(o.trust)
	e.span(o.trip.Round(e.grain))
	e.time(o.read)
	if o.deaf != 0 {
		e.time(o.reopen)
		e.num(uint64(o.reopens))
	}
	e.bit(o.anyRead)
}

func (e *encoder) beat(b *beat) {
	e.span(b.jitter)
	e.time(b.last, b.at, b.second, b.since)
	e.num(uint64(b.load.InFlight), uint64(b.load.Lag))
	each(e, b.dirty, func(d *progress) {
		e.position(d.Position)
		e.num(d.sent)
	})
}

func (e *encoder) watch(w *watch) {
	e.time(w.moved)
	e.num(uint64(len(w.peers)))
	for _, p := range w.peers {
		e.id(p.id)
		e.str(p.client)
		e.span(p.ttl, p.silent)
		e.time(p.readAt)
		if p.dead {
			e.time(p.passed)
		}
		e.bit(p.parked, p.dead)
		e.num(p.evict)
	}
}

func (e *encoder) claims(c *claims) {
	each(e, c.run, func(q *claim) {
		e.num(uint64(q.epoch), uint64(q.phase), q.release, uint64(len(q.offsets)))
		e.bit(q.unread, q.pinned, q.idle, q.unfit, q.letGo, q.lost, q.released)
		e.topic(q.topicID)
		for _, p := range q.offsets {
			e.position(p)
		}
	})
	e.content(content{c.want.Interests, c.want.Pinned})
	e.content(content{nil, c.want.Kept})
	e.time(c.want.KeptUntil, c.first, c.at)
	e.num(uint64(c.draining))
	e.bit(c.want.FastReclaim, c.stale, c.waiting, c.unsent, c.linger)
	each(e, c.kept, func(bool) {})
	each(e, c.reclaimed, func(bool) {})
	each(e, c.ready, func(bool) {})
	each(e, c.since, func(t time.Duration) { e.time(t) })
	each(e, c.releasing, func(seq uint64) { e.num(seq) })
}

func (e *encoder) take(t *take) {
	e.time(t.pause)
	each(e, t.free, func(v vacancy) {
		e.time(v.since)
		e.num(uint64(v.turn))
	})
	each(e, t.asked, func(seq uint64) { e.num(seq) })
	each(e, t.given, func(r retake) {
		e.time(r.at)
		e.span(r.wait)
	})
}

// each appends a map in the order of its keys.
func each[V any](e *encoder, m map[lease.Key]V, value func(V)) {
	e.num(uint64(len(m)))
	for _, k := range slices.SortedFunc(maps.Keys(m), compareKeys) {
		e.key(k)
		value(m[k])
	}
}
