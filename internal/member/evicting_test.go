package member

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// logged puts a record of somebody into the log of a member, and nobody tells the member of it.
func (m *Member) logged(rec lease.Record) int64 {
	p, _ := m.s.Log.Position()
	rec.Offset = p + 1
	m.s.Log.Take(&rec, nil, nil)
	return rec.Offset
}

// hear is logged for the Join of another.
func (m *Member) hear(id lease.InstanceID) int64 {
	return m.logged(lease.Record{Kind: lease.KindJoin, Instance: id, Seq: 1, Join: lease.Join{Client: "o", TTL: 10 * time.Second}})
}

func TestAnEvictNamesThoseAloneWhoseTurnHasCome(t *testing.T) {
	const ttl = 10 * time.Second
	live := &peer{ttl: ttl}
	due := &peer{ttl: ttl, dead: true, passed: time.Hour, rank: rank{all: true}}
	asked := &peer{ttl: ttl, dead: true, passed: time.Hour, rank: rank{all: true}, evict: 7}
	later := &peer{ttl: ttl, dead: true, passed: time.Hour, rank: rank{ahead: 1, all: true}}
	gone := &peer{ttl: ttl, dead: true, passed: time.Hour, rank: rank{all: true}}
	also := &peer{ttl: ttl, dead: true, passed: time.Hour, rank: rank{all: true}}
	m := watcher(live, due, asked, later, gone, also)
	m.watch.dead = 5
	renewed := map[*peer]int64{}
	for _, p := range []*peer{live, due, asked, later, also} {
		renewed[p] = m.hear(p.id)
	}
	m.evict(Now{Mono: m.now})
	require.Len(t, m.out.Appends, 1)
	rec := m.out.Appends[0].Record
	assert.Equal(t, []lease.Target{{Instance: due.id, Renewed: renewed[due]}, {Instance: also.id, Renewed: renewed[also]}}, rec.Evict.Targets)
	assert.False(t, rec.Evict.Takeover)
	for p, evict := range map[*peer]uint64{live: 0, due: rec.Seq, asked: 7, later: 0, gone: 0, also: rec.Seq} {
		assert.Equal(t, evict, p.evict)
	}
	m.now += evictTurn - 1
	m.evict(Now{Mono: m.now})
	require.Len(t, m.out.Appends, 1, "not yet")
	m.now++
	m.evict(Now{Mono: m.now})
	require.Len(t, m.out.Appends, 2)
	assert.Equal(t, []lease.Target{{Instance: later.id, Renewed: renewed[later]}}, m.out.Appends[1].Record.Evict.Targets)
}

func TestWhoMustNotWriteEvictsNobody(t *testing.T) {
	p := &peer{ttl: 10 * time.Second, dead: true, passed: time.Hour, rank: rank{all: true}}
	m := watcher(p)
	m.watch.dead = 1
	m.hear(p.id)
	m.own.deaf = 5
	m.evict(Now{Mono: m.now})
	m.own.deaf, m.take.pause = 0, m.now+1
	m.evict(Now{Mono: m.now})
	assert.Empty(t, m.out.Appends, "deaf, and refused a moment ago")
	m.take.pause--
	m.evict(Now{Mono: m.now})
	assert.Len(t, m.out.Appends, 1)
}

// When a proof is due is worked out when something changes that it follows from.
func TestWhenAProofIsDueFollowsFromEachOfItsReasons(t *testing.T) {
	const sec = time.Second
	for _, c := range []struct {
		name   string
		change func(m *Member, p *peer)
		want   time.Duration
	}{
		{"nothing", func(*Member, *peer) {}, sec},
		{"a record of ours is read", func(m *Member, _ *peer) { m.own.read += 500 * ms }, 1500 * ms},
		{"our newest record serves", func(m *Member, _ *peer) { m.own.sent[0].started.Mono = time.Hour + sec }, 3 * sec},
		{"our newest record is just too early", func(m *Member, _ *peer) { m.own.sent[0].started.Mono = time.Hour + sec - 1 }, sec},
		{"its ttl", func(m *Member, p *peer) { p.ttl += sec; m.watch.turn++ }, 2 * sec},
		{"two are before us", func(m *Member, p *peer) { m.watch.turn++; p.rank = rank{ahead: 2, all: true, turn: m.watch.turn} }, 3 * sec},
		{"one is before us", func(m *Member, p *peer) { m.watch.turn++; p.rank = rank{ahead: 1, all: true, turn: m.watch.turn} }, sec},
		{"it is dead", func(m *Member, p *peer) { m.flip(p, false, true) }, 3 * sec},
		{"no record of ours was read", func(m *Member, _ *peer) { m.own.anyRead = false }, 3 * sec},
	} {
		p := &peer{ttl: 10 * sec, readAt: time.Hour, silent: 9 * sec}
		m := watcher(p)
		m.own.sent = []sent{{seq: 4, started: Now{Mono: time.Hour - sec}, acked: -1}}
		require.Equal(t, time.Hour+sec, m.proofDue(time.Hour+3*sec))
		c.change(m, p)
		assert.Equal(t, time.Hour+c.want, m.proofDue(time.Hour+3*sec), c.name)
	}
	m := watcher(&peer{ttl: 10 * sec, readAt: time.Hour, silent: 9 * sec})
	require.Equal(t, time.Hour+sec, m.proofDue(time.Hour+3*sec))
	assert.Equal(t, time.Hour+500*ms, m.proofDue(time.Hour+500*ms), "the regular one is earlier")
	assert.Equal(t, m.own.read, m.newest(), "nothing is on its way")
}

func TestNothingIsProvedBeforeARecordOfOursIsRead(t *testing.T) {
	p := &peer{ttl: 10 * time.Second, readAt: time.Hour}
	m := watcher(p)
	m.own.anyRead = false
	m.grow(time.Hour + time.Second)
	assert.Zero(t, p.silent)
}

func TestThePlanIsLookedAtAnewWhenSomebodyIsLiveOrNoLonger(t *testing.T) {
	for _, c := range []struct{ fromParked, fromDead, toParked, toDead, stale bool }{
		{false, false, true, false, true},
		{false, false, false, true, true},
		{true, false, false, false, true},
		{false, true, false, false, true},
		{true, false, true, true, false},
		{true, true, false, true, false},
		{false, false, false, false, false},
	} {
		p := &peer{ttl: 10 * time.Second, parked: c.fromParked, dead: c.fromDead}
		m := watcher(p)
		m.claims.stale = false
		m.flip(p, c.toParked, c.toDead)
		assert.Equal(t, c.stale, m.claims.stale, c)
		assert.True(t, p.parked == c.toParked && p.dead == c.toDead)
	}
}

func TestNeitherWeNorWhoHasEndedIsWatched(t *testing.T) {
	m := watcher()
	m.see(&lease.Instance{ID: m.cfg.Instance, Status: lease.Alive}, Now{Mono: m.now})
	m.see(&lease.Instance{ID: instance("ended"), Status: lease.Ended}, Now{Mono: m.now})
	assert.Empty(t, m.watch.peers)
	other := &lease.Instance{ID: instance("other"), Status: lease.Alive, TTL: time.Second}
	m.see(other, Now{Mono: m.now})
	require.Len(t, m.watch.peers, 1)
	turn := m.watch.turn
	other.TTL = 2 * time.Second
	m.see(other, Now{Mono: m.now})
	assert.Equal(t, 2*time.Second, m.watch.peers[0].ttl)
	assert.Greater(t, m.watch.turn, turn, "what follows from its ttl is worked out anew")
}
