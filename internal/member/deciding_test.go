package member

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// What becomes of a key that is held, in the order of the reasons.
func TestWhatBecomesOfAHeldKey(t *testing.T) {
	k, other := part(0), instance("other")
	moving := func(m *Member, forced bool) {
		p := &peer{id: other, ttl: 10 * time.Second}
		m.watch.peers, m.watch.byID[other] = append(m.watch.peers, p), p
		m.claims.moves[k] = policy.Move{Key: k, From: m.cfg.Instance, To: other, Forced: forced}
		m.watch.moved = m.now // balance is to wait
	}
	unwanted := func(m *Member) { clear(m.claims.subjects) }
	for _, c := range []struct {
		name   string
		change func(m *Member, q *claim)
		want   verb
	}{
		{"nothing", func(*Member, *claim) {}, run},
		{"leaving", func(m *Member, _ *claim) { m.leaving.active = true }, hand},
		{"parking", func(m *Member, _ *claim) { m.leaving.active, m.leaving.keep = true, true }, park},
		{"parking, given up", func(m *Member, q *claim) { m.leaving.active, m.leaving.keep, q.unfit = true, true, true }, park},
		{"not parking yet", func(m *Member, _ *claim) { m.leaving.keep = true }, run},
		{"given up", func(_ *Member, q *claim) { q.unfit = true }, hand},
		{"given up, claimed by hand", func(m *Member, q *claim) { q.unfit, m.claims.pinned[k] = true, true }, hand},
		{"claimed by hand, unwanted", func(m *Member, _ *claim) { unwanted(m); m.claims.pinned[k] = true }, run},
		{"claimed by hand, and kept", func(m *Member, _ *claim) { m.claims.pinned[k], m.claims.kept[k] = true, true }, run},
		{"kept", func(m *Member, _ *claim) { m.claims.kept[k] = true }, keep},
		{"unwanted", func(m *Member, _ *claim) { unwanted(m) }, hand},
		{"unwanted, reclaimed", func(m *Member, _ *claim) { unwanted(m); m.claims.reclaimed[k] = true }, keep},
		{"unwanted, reclaimed long ago", func(m *Member, _ *claim) {
			unwanted(m)
			m.claims.reclaimed[k], m.claims.first = true, m.now-5*time.Second
		}, hand},
		{"unwanted, reclaimed just before", func(m *Member, _ *claim) {
			unwanted(m)
			m.claims.reclaimed[k], m.claims.first = true, m.now-5*time.Second+1
		}, keep},
		{"over the maximum", func(m *Member, _ *claim) { m.claims.over[k] = true }, hand},
		{"over the maximum, never started", func(m *Member, q *claim) { m.claims.over[k], q.idle = true, true }, rest},
		{"over the maximum, no claim", func(m *Member, _ *claim) { m.claims.over[k] = true; delete(m.claims.run, k) }, rest},
		{"over the maximum, unread", func(m *Member, q *claim) { m.claims.over[k], q.unread = true, true }, rest},
		{"over the maximum, reclaimed", func(m *Member, q *claim) { m.claims.over[k], m.claims.reclaimed[k], q.unread = true, true, true }, keep},
		{"over the maximum, somebody may have it", func(m *Member, q *claim) { moving(m, true); m.claims.over[k], q.unread = true, true }, hand},
		{"moving to one that is silent", func(m *Member, _ *claim) { moving(m, true); m.watch.byID[other].dead = true }, run},
		{"forced", func(m *Member, _ *claim) { moving(m, true) }, hand},
		{"forced, and the world does not know what we want", func(m *Member, _ *claim) { moving(m, true); m.join.lost = true }, run},
		{"balance", func(m *Member, _ *claim) { moving(m, false) }, run},
		{"balance, draining", func(m *Member, q *claim) { moving(m, false); q.phase = draining }, move},
		{"balance, drained", func(m *Member, q *claim) { moving(m, false); q.phase = drained }, move},
		{"balance, drained without being read", func(m *Member, q *claim) { moving(m, false); q.phase, q.unread = drained, true }, run},
		{"balance, no claim", func(m *Member, _ *claim) { moving(m, false); delete(m.claims.run, k) }, run},
	} {
		m, _, _ := settledMember(t, 2)
		c.change(m, m.claims.run[k])
		assert.Equal(t, c.want, m.fate(k), c.name)
	}
}

// attended is what attend makes of the first key: its claim, and the actions.
func attended(t *testing.T, change func(m *Member, q *claim)) (m *Member, q *claim, kinds []ActionKind) {
	m, _, _ = settledMember(t, 2)
	k := part(0)
	q = m.claims.run[k]
	change(m, q)
	if c := m.claims.run[k]; c != nil {
		switch c.phase {
		case draining:
			m.claims.draining++
		case drained:
			m.claims.ready[k] = true
		}
	}
	m.out = Output{}
	m.attend(k, q.epoch)
	for _, a := range m.out.Actions {
		kinds = append(kinds, a.Kind)
	}
	return m, m.claims.run[k], kinds
}

func TestAClaimIsMadeWhatItsKeyIsToBe(t *testing.T) {
	k := part(0)
	kept := func(m *Member) { m.claims.kept[k] = true }
	parking := func(m *Member) { m.leaving.active, m.leaving.keep = true, true }
	for _, c := range []struct {
		name   string
		change func(m *Member, q *claim)
		kinds  []ActionKind
		phase  phase // 0: no claim
		unread bool
	}{
		{"run what runs", func(*Member, *claim) {}, nil, running, false},
		{"run what drains", func(_ *Member, q *claim) { q.phase = draining }, []ActionKind{Resume}, running, false},
		{"run what is drained", func(_ *Member, q *claim) { q.phase = drained }, []ActionKind{Resume}, running, false},
		{"run what never ran", func(_ *Member, q *claim) { q.phase, q.idle = drained, true }, []ActionKind{Start}, running, false},
		{"run what was only kept", func(_ *Member, q *claim) { q.unread = true }, []ActionKind{Finish, Start}, running, false},
		{"run by hand what drains", func(m *Member, q *claim) { m.claims.pinned[k], q.phase = true, draining }, []ActionKind{Finish, Start}, running, false},
		{"keep what runs", func(m *Member, _ *claim) { kept(m) }, []ActionKind{Finish, Start}, running, true},
		{"keep what drains", func(m *Member, q *claim) { kept(m); q.phase = draining }, []ActionKind{Finish, Start}, running, true},
		{"keep what is kept", func(m *Member, q *claim) { kept(m); q.unread = true }, nil, running, true},
		{"keep what was about to go", func(m *Member, q *claim) { kept(m); q.unread, q.phase = true, drained }, nil, running, true},
		{"keep what never ran", func(m *Member, q *claim) { kept(m); q.phase, q.idle = drained, true }, []ActionKind{Start}, running, true},
		{"keep what has no claim", func(m *Member, _ *claim) { kept(m); delete(m.claims.run, k) }, []ActionKind{Start}, running, true},
		{"rest", func(m *Member, q *claim) { m.claims.over[k], q.phase, q.idle = true, drained, true }, nil, 0, false},
		{"rest what is unread", func(m *Member, q *claim) { m.claims.over[k], q.unread = true, true }, nil, running, true},
		{"rest what has no claim", func(m *Member, _ *claim) { m.claims.over[k] = true; delete(m.claims.run, k) }, nil, 0, false},
		{"park what runs", func(m *Member, _ *claim) { parking(m) }, []ActionKind{Drain}, draining, false},
		{"park what drains", func(m *Member, q *claim) { parking(m); q.phase = draining }, nil, draining, false},
		{"park what is unread", func(m *Member, q *claim) { parking(m); q.unread = true }, nil, running, true},
		{"park what has no claim", func(m *Member, _ *claim) { parking(m); delete(m.claims.run, k) }, nil, 0, false},
		{"hand on what runs", func(m *Member, _ *claim) { m.leaving.active = true }, []ActionKind{Drain}, draining, false},
		{"hand on what drains", func(m *Member, q *claim) { m.leaving.active, q.phase = true, draining }, nil, draining, false},
		{"hand on what is unread", func(m *Member, q *claim) { m.leaving.active, q.unread = true, true }, nil, drained, true},
		{"hand on what has no claim", func(m *Member, _ *claim) { m.leaving.active = true; delete(m.claims.run, k) }, nil, drained, false},
		{"whose Release is on its way", func(_ *Member, q *claim) { q.phase, q.release = draining, 7 }, nil, draining, false},
		{"that is lost", func(_ *Member, q *claim) { q.phase, q.lost = draining, true }, nil, draining, false},
	} {
		m, q, kinds := attended(t, c.change)
		assert.Equal(t, c.kinds, kinds, c.name)
		drains, gone := 0, false
		if c.phase == 0 {
			assert.Nil(t, q, c.name)
		} else if assert.NotNil(t, q, c.name) {
			assert.True(t, q.phase == c.phase && q.unread == c.unread, c.name)
			gone = c.phase == drained
			if c.phase == draining {
				drains = 1
			}
		}
		assert.Equal(t, drains, m.claims.draining, c.name)
		assert.Equal(t, gone, m.claims.ready[k], c.name)
	}
}

func TestNothingIsLeftOfAClaimThatIsDropped(t *testing.T) {
	m, _, _ := settledMember(t, 2)
	c, k := &m.claims, part(0)
	q := c.run[k]
	q.phase, c.draining = draining, 2
	c.ready[k], c.releasing[k], c.reclaimed[k] = true, 7, true
	for i := range int32(2) {
		m.beat.dirty[part(i)] = &progress{Position: Position{Key: part(i)}}
	}
	m.drop(k, q)
	assert.Equal(t, 1, c.draining)
	assert.Len(t, c.run, 1)
	assert.True(t, len(c.ready) == 0 && len(c.releasing) == 0 && len(c.reclaimed) == 0)
	assert.Len(t, m.beat.dirty, 1, "nor of its positions, of its own alone")
	assert.Contains(t, m.beat.dirty, part(1))
	m.drop(part(1), c.run[part(1)])
	assert.Equal(t, 1, c.draining, "it did not drain")
}

func TestWhatIsLostIsStoppedInOrderAndOnce(t *testing.T) {
	const n = 12
	m, _, _ := settledMember(t, n)
	kept := part(n - 1)
	for k, q := range m.claims.run {
		if k != kept {
			q.epoch-- // the world has another
		}
	}
	under, idle := part(3), part(5)
	m.claims.run[under].release = 9
	m.claims.run[idle].idle = true
	m.beat.dirty[under] = &progress{Position: Position{Key: under}}
	m.out = Output{}
	m.stopLost()
	var keys []lease.Key
	for _, a := range m.out.Actions {
		assert.Equal(t, Stop, a.Kind)
		keys = append(keys, a.Key)
	}
	want := []lease.Key{}
	for i := range int32(n - 1) {
		if part(i) != idle {
			want = append(want, part(i))
		}
	}
	assert.Equal(t, want, keys)
	assert.Len(t, m.claims.run, 2)
	assert.True(t, m.claims.run[under].lost, "until we know what became of the Release")
	assert.Empty(t, m.beat.dirty)
	m.out = Output{}
	m.stopLost()
	assert.Empty(t, m.out.Actions)
	assert.Equal(t, []lease.Key{kept}, m.Running())
	m.end("evicted")
	require.Len(t, m.out.Actions, 1, "what was stopped is not stopped again")
	assert.Equal(t, kept, m.out.Actions[0].Key)
}

func TestWhatRunsIsListedInOrder(t *testing.T) {
	m, _, _ := settledMember(t, 12)
	m.claims.run[part(2)].idle = true
	m.claims.run[part(4)].lost = true
	var want []lease.Key
	for i := range int32(12) {
		if i != 2 && i != 4 {
			want = append(want, part(i))
		}
	}
	assert.Equal(t, want, m.Running())
}

func TestOnlyWhatIsHeldIsKeptAndWhatWasReclaimedForFiveSeconds(t *testing.T) {
	m, _, _ := settledMember(t, 2)
	m.hear(instance("other"))
	m.logged(lease.Record{Kind: lease.KindClaim, Instance: instance("other"), Seq: 2, Claim: lease.Claim{Keys: []lease.Key{part(5)}}})
	l, ok := m.world().Lease(part(5))
	require.True(t, ok && l.Instance == instance("other"))
	m.claims.want.Kept, m.claims.want.KeptUntil = []lease.Key{part(1), part(5), part(6)}, m.now+1
	m.claims.reclaimed[part(0)], m.claims.first = true, m.now-5*time.Second+1
	m.claims.at = Never
	m.keep()
	assert.Equal(t, map[lease.Key]bool{part(1): true}, m.claims.kept)
	assert.Len(t, m.claims.reclaimed, 1)
	assert.Equal(t, m.now+1, m.claims.at)
	m.now++
	m.claims.at = Never
	m.keep()
	assert.Empty(t, m.claims.kept)
	assert.Empty(t, m.claims.reclaimed)
	assert.Equal(t, Never, m.claims.at)
}

func TestAPlanReplacesTheOneBefore(t *testing.T) {
	m, _, _ := settledMember(t, 2)
	c, gone := &m.claims, part(9)
	c.over[gone], c.since[gone], c.moves[gone] = true, 1, policy.Move{Key: gone}
	m.consult()
	assert.Len(t, c.over, 1, "the world is the same")
	c.version++
	m.consult()
	assert.True(t, len(c.over) == 0 && len(c.since) == 0 && len(c.moves) == 0)
}

func TestTheWorldKnowsWhatWeWantOnceOurNewestJoinIsRead(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(j *join)
		want   bool
	}{
		{"read", func(*join) {}, true},
		{"on its way", func(j *join) { j.seq = 7 }, false},
		{"on its way, and refused", func(j *join) { j.seq, j.refused = 7, true }, false},
		{"void", func(j *join) { j.lost = true }, false},
		{"it says something else", func(j *join) { j.said.pinned = []lease.Key{part(7)} }, false},
		{"refused", func(j *join) { j.refused, j.lost = true, true }, true},
	} {
		m, _, _ := settledMember(t, 1)
		c.change(&m.join)
		assert.Equal(t, c.want, m.settled(), c.name)
	}
}

func TestWhatBecameOfAJoin(t *testing.T) {
	for _, c := range []struct {
		name    string
		r       ruling
		joining bool
		seq     uint64 // of the Join on its way
		lost    bool
		refused bool
		own     uint64
	}{
		{"not known", ruling{seq: 4}, false, 5, false, false, 9},
		{"taken", ruling{seq: 5}, false, 0, false, false, 9},
		{"void", ruling{seq: 6}, false, 0, true, false, 9},
		{"refused", ruling{5, true}, false, 0, true, true, 9},
		{"the first one refused", ruling{5, true}, true, 0, true, true, 0},
	} {
		m, _, _ := settledMember(t, 1)
		if c.joining {
			m.stage = joining
		}
		m.join.seq, m.own.seq, m.claims.stale = 5, 9, false
		m.ruleJoin(c.r)
		assert.True(t, m.join.seq == c.seq && m.join.lost == c.lost && m.join.refused == c.refused, c.name)
		assert.Equal(t, c.seq == 0, m.claims.stale, c.name)
		assert.Equal(t, c.own, m.own.seq, "%s: the next try is the first again", c.name)
	}
}

func TestATakeoverThatWasTakenSettlesTheMatter(t *testing.T) {
	for seq, want := range map[uint64]probe{4: {active: true, evict: 5}, 5: {}, 6: {active: true}} {
		m := watcher()
		m.probe = probe{active: true, evict: 5}
		m.ruleTakeOver(ruling{seq: seq})
		assert.Equal(t, want, m.probe)
	}
}

func TestATakeoverIsWrittenWhenTheSilenceIsCompleteAndTheNamesakeIsAloneThere(t *testing.T) {
	silent := func() *Member {
		m := watcher(&peer{ttl: 10 * time.Second})
		m.hear(m.watch.peers[0].id)
		m.claims.want.FastReclaim = true
		m.probe = probe{active: true, target: m.watch.peers[0].id, silent: silence, since: m.now}
		return m
	}
	m := silent()
	assert.Equal(t, m.now, m.takeOverDue())
	assert.Equal(t, Never, m.probeDue())
	m.probe.silent--
	assert.Equal(t, Never, m.takeOverDue())
	assert.NotEqual(t, Never, m.probeDue())
	m.probe.silent++
	m.take.pause = m.now + 5
	assert.Equal(t, m.now+5, m.takeOverDue())
	m.takeOver(Now{Mono: m.now})
	assert.Empty(t, m.out.Appends)
	m.take.pause = 0
	m.takeOver(Now{Mono: m.now})
	require.Len(t, m.out.Appends, 1)
	assert.True(t, m.out.Appends[0].Record.Evict.Takeover)
	assert.Equal(t, m.out.Appends[0].Record.Seq, m.probe.evict)

	for name, change := range map[string]func(m *Member){
		"a third one":                   func(m *Member) { m.watch.peers = append(m.watch.peers, &peer{id: instance("third")}) },
		"nobody":                        func(m *Member) { m.watch.peers = nil },
		"another":                       func(m *Member) { m.watch.peers[0] = &peer{id: instance("third")} },
		"one that the world forgot":     func(m *Member) { m.probe.target, m.watch.peers[0].id = instance("x"), instance("x") },
		"it is parked":                  func(m *Member) { m.watch.peers[0].parked = true },
		"it calls itself something new": func(m *Member) { m.watch.peers[0].client = "new" },
	} {
		m := silent()
		change(m)
		m.takeOver(Now{Mono: m.now})
		assert.Empty(t, m.out.Appends, name)
		assert.Equal(t, probe{}, m.probe, name)
	}
}
