package member

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

func TestADrainedPositionIsRaisedNeverLoweredAndInItsLifeAlone(t *testing.T) {
	id, other := lease.TopicID{1}, lease.TopicID{2}
	for _, c := range []struct {
		name string
		p    Position
		want []int64
	}{
		{"further on", Position{Key: part(1), TopicID: id, Next: 8}, []int64{5, 8}},
		{"in a life that is not known", Position{Key: part(1), Next: 8}, []int64{5, 8}},
		{"further back", Position{Key: part(1), TopicID: id, Next: 6}, []int64{5, 7}},
		{"another partition", Position{Key: part(2), TopicID: id, Next: 8}, []int64{5, 7}},
		{"another life of the topic", Position{Key: part(1), TopicID: other, Next: 8}, []int64{5, 7}},
	} {
		q := claim{topicID: id, offsets: []Position{{Key: part(0), Next: 5}, {Key: part(1), Next: 7}}}
		q.raise(c.p)
		assert.Equal(t, c.want, []int64{q.offsets[0].Next, q.offsets[1].Next}, c.name)
		assert.Len(t, q.offsets, 2)
	}
}

// The plan does not know yet what a Release under way makes of the shares.
func TestBalanceWaitsForTheReleaseThatIsUnderWay(t *testing.T) {
	s := newScript(t)
	p, q := pair(s)
	mv := policy.Move{Key: first(p), To: q.id}
	s.pass(20 * time.Second)
	p.m.claims.at, p.m.claims.waiting = Never, false
	require.True(t, p.m.mayMove(mv))
	p.m.claims.releasing[part(9)] = 1
	assert.False(t, p.m.mayMove(mv))
	assert.Equal(t, Never, p.m.claims.at, "what becomes of it brings us here again")
	assert.False(t, p.m.claims.waiting)
	delete(p.m.claims.releasing, part(9))
	p.m.watch.byID[q.id].silent = 4 * time.Second
	assert.False(t, p.m.mayMove(mv))
	assert.True(t, p.m.claims.waiting, "until it is heard of")
}

// Of two Releases the later one came into the log first, so the earlier one is void: what it was about is to go where the plan of now
// wants it, but that may be where what is still under way goes by the plan before.
func TestWhatBalanceWantsWaitsForReleasesThatWereWrittenByAnOlderPlan(t *testing.T) {
	for _, c := range []struct {
		name                    string
		underway, older, forced bool
		released                bool
	}{
		{"by an older plan", true, true, false, false},
		{"by the same plan", true, false, false, true},
		{"none is under way any more", false, true, false, true},
		{"it may not be kept", true, true, true, true},
	} {
		s := newScript(t)
		p, q := pair(s)
		s.pass(20 * time.Second)
		m, k := p.m, first(p)
		m.claims.moves[k] = policy.Move{Key: k, From: p.id, To: q.id, Forced: c.forced}
		m.claims.run[k].phase, m.claims.ready[k] = drained, true
		m.claims.written = m.claims.version
		if c.older {
			m.claims.written--
		}
		if c.underway {
			m.claims.releasing[part(9)] = 1
		}
		m.release(p.clock(false))
		assert.Equal(t, !c.released, m.claims.ready[k], c.name)
		assert.Equal(t, c.released, m.claims.releasing[k] != 0, c.name)
		assert.Equal(t, !c.underway || !c.older, m.claims.written == m.claims.version, c.name)
	}
}

// Nobody gets a key back that it has given up, though the holder does not give it up.
func TestAKeyIsHandedToNobodyWhoHasAMarkAgainstIt(t *testing.T) {
	s := newScript(t)
	q := s.process("q", Config{}, want(some(2)))
	s.pass(5 * time.Second)
	p := s.process("p", Config{}, want(some(2)))
	s.until(5*time.Second, "balance", func() bool { return p.runs() == 1 && q.runs() == 1 })
	s.pass(5 * time.Second)
	k := first(q)
	require.Equal(t, p.id, q.m.heir(k, false))
	q.do(q.m.GiveUp(k, q.keys[k].Epoch, q.clock(false)))
	s.until(time.Second, "given up", func() bool { return p.hands(k) })
	require.True(t, p.log.World().Unfit(q.id, k))
	assert.True(t, p.m.heir(k, true).IsZero())
	assert.True(t, p.m.heir(k, false).IsZero())
	other := part(1 - k.Partition)
	assert.Equal(t, q.id, p.m.heir(other, true), "the mark is against one key")
}

func TestTheLifeOfATopicInARecordIsTheOneThatTheWorldDoesNotHave(t *testing.T) {
	m, _, _ := settledMember(t, 4)
	old, fresh, none := lease.TopicID{1}, lease.TopicID{2}, lease.TopicID{}
	l, _ := m.world().Lease(part(1))
	m.logged(lease.Record{Kind: lease.KindHeartbeat, Instance: m.cfg.Instance, Seq: m.own.seq + 1, Heartbeat: lease.Heartbeat{
		Topics: []lease.TopicProgress{{Topic: "t", TopicID: old, Partitions: []int32{1}, Epochs: []int64{l.Epoch}, Next: []int64{5}}}}})
	known, _ := m.world().Progress("t", 1)
	require.Equal(t, old, known.TopicID)
	for _, c := range []struct {
		ids  []lease.TopicID // of partitions 0, 1, ...
		want lease.TopicID
	}{
		{nil, none},
		{[]lease.TopicID{none}, none},
		{[]lease.TopicID{old}, old},
		{[]lease.TopicID{fresh, fresh}, fresh},
		{[]lease.TopicID{none, old}, old},
		{[]lease.TopicID{old, none}, old},
		{[]lease.TopicID{old, old, none}, old},
		{[]lease.TopicID{fresh, old}, fresh},
		{[]lease.TopicID{old, fresh}, fresh},
		{[]lease.TopicID{old, none, fresh}, fresh},
	} {
		var ps []Position
		for i, id := range c.ids {
			ps = append(ps, Position{Key: part(int32(i)), TopicID: id})
		}
		assert.Equal(t, c.want, m.lifeOf(ps), c.ids)
	}
}

func TestWhatWasReportedUnderAClaimIsListedInOrder(t *testing.T) {
	m := watcher()
	whole := lease.Key{Topic: "t", Partition: lease.WholeTopic}
	for i := range int32(9) {
		m.beat.dirty[part(i)] = &progress{Position: Position{Key: part(i), Epoch: 5, Next: int64(i)}}
	}
	m.beat.dirty[part(9)] = &progress{Position: Position{Key: part(9), Epoch: 4}}
	m.beat.dirty[lease.Key{Topic: "u"}] = &progress{Position: Position{Key: lease.Key{Topic: "u"}, Epoch: 5}}
	ps := m.reported(whole, 5)
	require.Len(t, ps, 9)
	for i, p := range ps {
		assert.Equal(t, part(int32(i)), p.Key)
	}
	assert.Equal(t, []Position{{Key: part(3), Epoch: 5, Next: 3}}, m.reported(part(3), 5))
}

// ready is a member whose first key is drained, and nothing else is to be done.
func ready(t *testing.T) (m *Member, k lease.Key, now Now) {
	m, _, now = settledMember(t, 2)
	k = part(0)
	m.claims.run[k].phase = drained
	m.claims.ready[k] = true
	m.out = Output{}
	return m, k, now
}

func TestWhatIsDrainedAndNotToGoAnyMoreIsNotReleased(t *testing.T) {
	m, k, now := ready(t)
	epoch := m.claims.run[k].epoch
	m.release(now)
	assert.Empty(t, m.out.Appends)
	assert.Equal(t, []Action{{Kind: Resume, Key: k, Epoch: epoch}}, m.out.Actions)
	assert.Empty(t, m.claims.ready)
	assert.Equal(t, running, m.claims.run[k].phase)
}

func TestWhatIsNotWantedIsReleasedAfterTheJoinThatSaysSoWhatIsGivenUpAtOnce(t *testing.T) {
	for _, c := range []struct {
		name           string
		settled, leave bool
		released       bool
	}{
		{"given up, and the world knows what we want", true, false, true},
		{"given up", false, false, true},
		{"leaving", false, true, false},
		{"leaving, and the world knows", true, true, true},
	} {
		m, k, now := ready(t)
		m.leaving.active = c.leave
		m.join.said = m.content()
		q := m.claims.run[k]
		q.unfit, q.letGo = !c.leave, true
		m.join.lost = !c.settled
		m.release(now)
		assert.Equal(t, c.released, len(m.out.Appends) == 1, c.name)
		assert.Equal(t, !c.released, m.claims.ready[k], c.name)
	}
}

func TestWhatBecameOfAReleaseEndsItsBeingUnderWay(t *testing.T) {
	for _, c := range []struct {
		name     string
		seq      uint64
		lost     bool
		run      bool
		underway bool
		ready    bool
		released bool
	}{
		{"earlier ones were read", 4, false, true, true, false, false},
		{"taken", 5, false, true, false, false, true},
		{"void", 6, false, true, false, true, false},
		{"void, and the key was lost meanwhile", 6, true, false, false, false, false},
	} {
		m, k, _ := ready(t)
		q := m.claims.run[k]
		delete(m.claims.ready, k)
		q.release, q.lost, m.claims.releasing[k], m.claims.stale = 5, c.lost, 5, false
		m.ruleReleases(ruling{seq: c.seq})
		assert.Equal(t, c.run, m.claims.run[k] != nil, c.name)
		assert.Equal(t, c.underway, m.claims.releasing[k] != 0, c.name)
		assert.Equal(t, c.ready, m.claims.ready[k], c.name)
		assert.Equal(t, c.released, q.released, c.name)
		assert.Equal(t, c.underway, q.release != 0, c.name)
		assert.Equal(t, !c.underway, m.claims.stale, c.name)
	}
}

func TestALeaveCarriesWhatFitsAndTheRestGoesBeforeIt(t *testing.T) {
	kinds := func(m *Member) (kinds []lease.Kind) {
		for _, a := range m.out.Appends {
			kinds = append(kinds, a.Record.Kind)
		}
		return kinds
	}
	for _, c := range []struct {
		name   string
		keys   int32 // with a position each
		fit    int   // in a record
		keep   bool
		before []lease.Kind
		last   int // keys in the Leave
	}{
		{"nothing", 0, 9, false, nil, 0},
		{"nothing to keep", 0, 9, true, nil, 0},
		{"all", 3, 9, false, nil, 3},
		{"all that is kept", 3, 9, true, nil, 3},
		{"two records", 2, 1, false, []lease.Kind{lease.KindRelease}, 1},
		{"three records", 3, 1, false, []lease.Kind{lease.KindRelease, lease.KindRelease}, 1},
		{"too much that is kept", 3, 2, true, []lease.Kind{lease.KindHeartbeat}, 0},
	} {
		m, _, now := settledMember(t, 4)
		m.leaving = leaving{active: true, keep: c.keep}
		for i := range c.keys {
			m.claims.run[part(i)].offsets = []Position{{Key: part(i), Next: 7}}
		}
		m.own.bound = c.fit * (topicSize + keySize + 1 + positionSize)
		m.out = Output{}
		seq := m.own.seq + uint64(len(c.before)) + 1
		assert.Equal(t, seq, m.farewell(now), c.name)
		assert.Equal(t, append(c.before, lease.KindLeave), kinds(m), c.name)
		for i := range c.before {
			if !c.keep {
				assert.Len(t, m.out.Appends[i].Record.Release.Keys, 1, c.name)
			}
		}
		assert.Len(t, m.out.Appends[len(c.before)].Record.Release.Keys, c.last, c.name)
	}
}

func TestALeaveWaitsUntilSomethingMayBeWrittenAnew(t *testing.T) {
	m, _, _ := settledMember(t, 1)
	assert.Equal(t, Never, m.departDue())
	m.leaving = leaving{active: true, keep: true}
	assert.Equal(t, m.now, m.departDue())
	m.take.pause = m.now + 5
	assert.Equal(t, m.now+5, m.departDue())
	m.leaving.seq = 3
	assert.Equal(t, Never, m.departDue())
}

func TestWhoLeavesAsksNobodyWhetherItLives(t *testing.T) {
	m, _, now := settledMember(t, 1)
	m.probe = probe{active: true, target: instance("other"), since: m.now}
	m.Leave(false, 0, now)
	assert.Equal(t, probe{}, m.probe)
}
