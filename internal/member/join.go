package member

import (
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/rule"
)

// content is what a Join says of what we want.
type content struct {
	interests []lease.Interest
	pinned    []lease.Key // in order
}

func (c content) equal(o content) bool {
	return slices.Equal(c.pinned, o.pinned) && slices.EqualFunc(c.interests, o.interests, func(a, b lease.Interest) bool {
		return a.Whole == b.Whole && a.Max == b.Max && a.Weight == b.Weight && a.Greedy == b.Greedy && slices.Equal(a.Topics, b.Topics)
	})
}

// join is what our newest Join says, and whether the world has it.
type join struct {
	first   lease.Record  // the Join with seq 1, until it is read back
	at      time.Duration // Mono at which it was last put out
	said    content       // what the newest Join says
	seq     uint64        // that Join, while it is not read back
	lost    bool          // the newest Join was void: the world has an older one
	refused bool          // it was too large: not again until something else is wanted
}

// enter writes the Join that makes the instance. It is the only record that no later one can prove void, so that it is
// put out again (the same record: a second one is an echo) if a ttl brings no word of it, or two though it was acknowledged:
// brokers can lose what they have acknowledged, and we wait for it in silence.
func (m *Member) enter(now Now) {
	if m.now < m.enterDue() {
		return
	}
	m.join.at = m.now
	if m.own.seq > 0 {
		m.out.Appends = append(m.out.Appends, Append{m.join.first})
		if rule.Broken(rule.Attempt) {
			m.restart(m.join.first.Seq, now)
		}
		return
	}
	m.join.said = m.content()
	rec := m.joinRecord(m.join.said)
	rec.Join.TokenBase = lease.ProposeTokenBase(now.Wall.Milliseconds(), m.cfg.LargestSeen)
	m.join.seq = m.write(rec, now)
	m.join.first = m.out.Appends[len(m.out.Appends)-1].Record
}

func (m *Member) enterDue() time.Duration {
	switch {
	case m.join.refused:
		return Never
	case m.own.seq == 0:
		return m.now
	case slices.ContainsFunc(m.own.sent, func(s sent) bool { return s.acked >= 0 }):
		return m.join.at + 2*m.cfg.TTL
	}
	return m.join.at + m.cfg.TTL
}

// turnedAway takes that Apply ignored our first Join: another is tried when a ttl has passed.
func (m *Member) turnedAway(why lease.Reason) {
	if why != lease.OtherTopic {
		m.notice(Notice{Kind: JoinRefused})
	}
	m.join.at = m.now
	for i := range m.own.sent {
		m.own.sent[i].acked = -1
	}
}

func (m *Member) joinRecord(c content) lease.Record {
	ttl := m.cfg.TTL
	if rule.Broken(rule.TTLOnce) && m.own.seq > 0 {
		ttl /= 4
	}
	return lease.Record{Kind: lease.KindJoin, Join: lease.Join{
		Client: m.cfg.Client, Host: m.cfg.Host, TTL: ttl, TopicID: m.world().TopicID(), MaxVersion: lease.WireVersion,
		Interests: c.interests, Pinned: c.pinned,
	}}
}

// content is what our Join should say. Who ends wants nothing, so that its draining is in the world; keys that are only
// kept are pinned, so that nobody counts on them.
func (m *Member) content() content {
	if m.leaving.active && !m.leaving.keep {
		return content{}
	}
	c := content{interests: m.claims.want.Interests, pinned: slices.Clone(m.claims.want.Pinned)}
	for _, k := range m.claims.want.Kept {
		if m.claims.kept[k] {
			c.pinned = append(c.pinned, k)
		}
	}
	slices.SortFunc(c.pinned, compareKeys)
	c.pinned = slices.Compact(c.pinned)
	return c
}

// announce writes a Join if what we want is not what our newest one says. There is one on its way at a time.
func (m *Member) announce(now Now) {
	if m.join.seq != 0 || m.join.refused || m.silenced() {
		return
	}
	if c := m.content(); m.join.lost || !c.equal(m.join.said) {
		m.join.said, m.join.lost = c, false
		m.join.seq = m.write(m.joinRecord(c), now)
	}
}

// settled tells whether the world knows what we want.
func (m *Member) settled() bool {
	return m.join.seq == 0 && (m.join.refused || !m.join.lost && m.content().equal(m.join.said))
}

func (m *Member) ruleJoin(r ruling) {
	switch r.of(m.join.seq) {
	case took:
		m.join.seq = 0
		m.claims.stale = true
	case void:
		m.join.seq, m.join.lost = 0, true
		m.claims.stale = true
		if r.refused {
			m.join.refused = true
			m.notice(Notice{Kind: JoinRefused})
		}
		if m.stage == joining {
			m.own.seq = 0 // the next try is the first again
		}
	}
}
