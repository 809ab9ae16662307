package member

import (
	"bytes"
	"cmp"
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// maxUnread is how many heartbeats may be on their way before they are written at the pace of the ttl only: a log that
// is away for hours must not fill the queue.
const maxUnread = 32

// progress is a position that the world does not have yet.
type progress struct {
	Position
	sent uint64 // the newest heartbeat that carries it; 0: none
}

// beat is when and what to heartbeat.
type beat struct {
	last   time.Duration // Mono of the newest heartbeat, or of the reading of our Join
	jitter time.Duration // thousandths of the interval until the next one
	at     time.Duration // Mono of one that is wanted beside the regular ones; Never: none
	second time.Duration // Mono of a new instance's second heartbeat; Never: none
	load   lease.Load
	dirty  map[lease.Key]*progress // by partition
	since  time.Duration           // Mono since when something in dirty is in no heartbeat; Never: nothing
}

func (b *beat) init() {
	b.at, b.second, b.since = Never, Never, Never
	b.dirty = map[lease.Key]*progress{}
}

// begin starts the heartbeats of a new instance: at once, and again an eighth of an interval later, so that the others
// soon see that it lives.
func (m *Member) begin() {
	m.beat.last = m.now
	m.beat.at = m.now
	m.beat.second = m.now + m.pace/8
	m.draw()
}

// draw takes the jitter of the next interval: ±10 %; none where the seed is zero.
func (m *Member) draw() {
	m.beat.jitter = 1000
	if m.cfg.Seed != 0 {
		m.beat.jitter = time.Duration(900 + m.random()%201)
	}
}

// silenced tells whether we must not write what would renew us.
func (m *Member) silenced() bool { return m.own.deaf != 0 }

// pulseDue is when the next heartbeat is due.
func (m *Member) pulseDue() time.Duration {
	if m.silenced() {
		return Never
	}
	b := &m.beat
	regular := b.last + m.pace*b.jitter/1000
	if m.unread() >= maxUnread {
		return max(regular, b.last+m.ttl())
	}
	due := min(b.at, b.second, m.proofDue(regular), m.probeDue())
	if b.since != Never {
		due = min(due, b.since+m.cfg.CommitInterval)
	}
	return due
}

func (m *Member) unread() int {
	n := 0
	for _, s := range m.own.sent {
		if s.kind == lease.KindHeartbeat {
			n++
		}
	}
	return n
}

// pulse heartbeats if it is time.
func (m *Member) pulse(now Now) {
	if m.now < m.pulseDue() {
		return
	}
	if m.now >= m.beat.second {
		m.beat.second = Never
	}
	m.beatWith(m.pending(), now)
}

// awaken heartbeats at once where the wall or the boot clock alone has ended our trust: the machine was suspended, and
// the others may be about to give us up. Once is enough, until that heartbeat is read back or the next one is due.
func (m *Member) awaken(now Now) {
	if m.stage != member || now.before(m.own.trust) || m.now >= m.own.trust.Mono {
		return
	}
	for _, s := range m.own.sent {
		if now.before(trustFrom(s.started, m.ttl())) {
			return
		}
	}
	m.beat.at = m.now
}

// report takes a position of a key that we run. What the world has already needs no heartbeat.
func (m *Member) report(p Position) {
	c := m.claims.covering(p.Key)
	if c == nil || c.lost || c.epoch != p.Epoch {
		return // under an older epoch than the newest read nothing may be reported
	}
	c.raise(p)
	if w, ok := m.world().Progress(p.Key.Topic, p.Key.Partition); ok && w.Next >= p.Next && w.TopicID.Same(p.TopicID) {
		return
	}
	d := m.beat.dirty[p.Key]
	if d != nil && d.Epoch == p.Epoch && d.TopicID.Same(p.TopicID) && d.Next >= p.Next {
		return
	}
	m.beat.dirty[p.Key] = &progress{Position: p}
	m.beat.since = min(m.beat.since, m.now)
}

// Unconfirmed is the newest position of a partition that was reported here and is not read back yet.
func (m *Member) Unconfirmed(k lease.Key) (Position, bool) {
	if d := m.beat.dirty[k]; d != nil {
		return d.Position, true
	}
	return Position{}, false
}

// pending lists what the next heartbeat carries: all that changed since our last heartbeat read back, in order.
func (m *Member) pending() []*progress {
	list := make([]*progress, 0, len(m.beat.dirty))
	for _, d := range m.beat.dirty {
		list = append(list, d)
	}
	slices.SortFunc(list, func(a, b *progress) int {
		return cmp.Or(cmp.Compare(a.Key.Topic, b.Key.Topic), bytes.Compare(a.TopicID[:], b.TopicID[:]),
			cmp.Compare(a.Key.Partition, b.Key.Partition))
	})
	return list
}

// beatWith writes a heartbeat with these positions: several records if they do not fit into one.
func (m *Member) beatWith(list []*progress, now Now) {
	for {
		topics, rest := m.pack(list)
		h := lease.Heartbeat{Topics: topics, Load: m.beat.load, Announces: len(rest) == 0 && m.announces()}
		h.P, h.Hash = m.s.Log.Position()
		seq := m.write(lease.Record{Kind: lease.KindHeartbeat, Heartbeat: h}, now)
		for _, d := range list[:len(list)-len(rest)] {
			d.sent = seq
		}
		if list = rest; len(list) == 0 {
			break
		}
	}
	m.beat.last, m.beat.at, m.beat.since = m.now, Never, Never
	m.draw()
	m.restDirty()
}

// restDirty keeps the commit interval going where positions were left out of a heartbeat.
func (m *Member) restDirty() {
	for _, d := range m.beat.dirty {
		if d.sent == 0 {
			m.beat.since = min(m.beat.since, m.now)
		}
	}
}

// pack puts as much of a sorted list as one record may hold into the form of a heartbeat, and gives the rest. A record
// names one id per topic.
func (m *Member) pack(list []*progress) (topics []lease.TopicProgress, rest []*progress) {
	size := 0
	for i, d := range list {
		n := len(topics)
		if n == 0 || topics[n-1].Topic != d.Key.Topic {
			size += topicSize + len(d.Key.Topic)
		}
		size += positionSize
		if i > 0 && size > m.own.bound {
			return topics, list[i:]
		}
		switch {
		case n == 0 || topics[n-1].Topic != d.Key.Topic:
			topics = append(topics, lease.TopicProgress{Topic: d.Key.Topic, TopicID: d.TopicID})
			n++
		case topics[n-1].TopicID != d.TopicID:
			return topics, list[i:]
		}
		t := &topics[n-1]
		t.Partitions = append(t.Partitions, d.Key.Partition)
		t.Epochs = append(t.Epochs, d.Epoch)
		t.Next = append(t.Next, d.Next)
	}
	return topics, nil
}

// ruleProgress forgets positions whose heartbeat was read back, whatever Apply made of them, and sends those again whose
// heartbeat was void.
func (m *Member) ruleProgress(r ruling) {
	for k, d := range m.beat.dirty {
		switch r.of(d.sent) {
		case took:
			delete(m.beat.dirty, k)
		case void:
			d.sent = 0
			m.beat.since = min(m.beat.since, m.now)
		}
	}
}

// progressed takes that the world has a position of ours.
func (m *Member) progressed(k lease.Key, next int64) {
	if d := m.beat.dirty[k]; d != nil && d.Next <= next {
		delete(m.beat.dirty, k)
	}
	delete(m.take.given, m.claims.cover(k)) // who moves it is fit for it
}

// forget drops the positions of a key that is not ours any more.
func (m *Member) forget(k lease.Key) {
	if k.Partition != lease.WholeTopic {
		delete(m.beat.dirty, k)
		return
	}
	for d := range m.beat.dirty {
		if d.Topic == k.Topic {
			delete(m.beat.dirty, d)
		}
	}
}

// announces tells whether the next heartbeat is to announce a snapshot: the first live instance in rendezvous order of
// the group does when one is due, the k-th k heartbeats later. While an announced one is waited
// for none is due.
func (m *Member) announces() bool {
	overdue := m.s.Log.SnapshotOverdue(m.now, m.pace)
	if overdue < 0 {
		return false
	}
	x := []byte(m.cfg.Group)
	mine, k := lease.Place(x, m.cfg.Instance), 0
	for _, p := range m.watch.peers {
		if theirs := lease.Place(x, p.id); p.live() && bytes.Compare(theirs[:], mine[:]) > 0 {
			k++
		}
	}
	return overdue >= k
}
