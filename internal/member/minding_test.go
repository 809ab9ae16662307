package member

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

func TestWhatIsNotSetHasItsDefaultAndATTLItsBounds(t *testing.T) {
	for given, want := range map[time.Duration]time.Duration{
		0: 10 * time.Second, -1: 10 * time.Second, 1: lease.MinTTL, lease.MinTTL: lease.MinTTL, 20 * time.Second: 20 * time.Second, 1000 * time.Hour: lease.MaxTTL,
	} {
		m := New(Config{TTL: given}, alone(), Now{})
		assert.Equal(t, want, m.cfg.TTL, given)
		assert.Equal(t, 2*time.Second, m.cfg.Heartbeat)
		assert.Equal(t, time.Second, m.cfg.CommitInterval)
		assert.Equal(t, 512<<10, m.own.bound)
	}
	m := New(Config{Heartbeat: 3, CommitInterval: 4, MaxReleaseBytes: 5}, alone(), Now{})
	assert.True(t, m.cfg.Heartbeat == 3 && m.cfg.CommitInterval == 4 && m.own.bound == 5)
}

// Callers read the clock before they take the lock: a call may bring an older time than the one before.
func TestAClockThatStepsBackStandsStill(t *testing.T) {
	m, log, now := settledMember(t, 1)
	at := m.now
	back := now
	back.Mono -= 5 * ms
	out := m.Flush(back)
	require.Len(t, out.Appends, 1)
	assert.Equal(t, at, m.own.sent[len(m.own.sent)-1].started.Mono)
	rec := out.Appends[0].Record
	rec.Offset = m.world().Last() + 1
	events, _ := log.Take(&rec, nil, nil)
	m.own.read = 0
	m.Step(events, back)
	assert.Equal(t, at, m.own.read)

	out = m.Flush(now)
	out = m.Rejected(out.Appends[0].Record.Seq, back)
	require.Len(t, out.Appends, 1, "an empty heartbeat")
	assert.Equal(t, at, m.own.sent[len(m.own.sent)-1].started.Mono)
}

func TestWhileReleasesLingerATickIsWantedAtOnce(t *testing.T) {
	m, _, now := settledMember(t, 1)
	require.Greater(t, m.wake(), m.now)
	m.claims.linger = true
	assert.Equal(t, m.now, m.wake())
	assert.Greater(t, m.Tick(now).Wake, m.now)
}

func TestHearingAgainWhatWasWrittenEndsDeafness(t *testing.T) {
	for seq, deaf := range map[uint64]uint64{4: 5, 5: 0, 6: 0} {
		m := watcher()
		m.own.deaf, m.claims.stale = 5, false
		m.readBack(seq, Now{Mono: m.now})
		assert.Equal(t, deaf, m.own.deaf)
		assert.Equal(t, deaf == 0, m.claims.stale, "what was held back")
	}
}

func TestWeAreDeafToTheFirstThatWasAcknowledgedHalfATTLAgo(t *testing.T) {
	m := watcher()
	m.own.sent = []sent{{seq: 3, acked: -1}, {seq: 4, acked: m.now - 5*time.Second + 1}, {seq: 5, acked: m.now - 5*time.Second}, {seq: 6, acked: m.now - 6*time.Second}}
	m.listen()
	assert.Equal(t, uint64(5), m.own.deaf)
	assert.Equal(t, []Notice{{Kind: Deaf}}, m.out.Notices)
	assert.True(t, m.out.Reopen)

	m = watcher()
	m.now = 5 * time.Second
	m.own.sent = []sent{{seq: 4}}
	m.listen()
	assert.Equal(t, uint64(4), m.own.deaf, "acknowledged at the origin of the clock")
}

func TestTheFirstAcknowledgementOfARecordCounts(t *testing.T) {
	m := watcher()
	m.own.sent = []sent{{seq: 3, acked: -1}, {seq: 4, acked: 0}, {seq: 5, acked: m.now - 1}, {seq: 6, acked: -1}}
	for seq := range uint64(6) {
		m.Acked(seq, Now{Mono: m.now})
	}
	var acked []time.Duration
	for _, s := range m.own.sent {
		acked = append(acked, s.acked)
	}
	assert.Equal(t, []time.Duration{m.now, 0, m.now - 1, -1}, acked)
}

func TestTheFirstRoundTripIsTakenWholeOfEachOtherAnEighth(t *testing.T) {
	m := watcher()
	for _, c := range []struct{ sample, trip time.Duration }{{80 * ms, 80 * ms}, {160 * ms, 90 * ms}, {-time.Second, 90*ms - 90*ms/8}} {
		m.measure(c.sample)
		assert.Equal(t, c.trip, m.own.trip)
	}
	m.own.trip = 0
	m.measure(time.Hour)
	assert.Equal(t, m.pace, m.own.trip, "at most an interval")
}

func TestTheBoundsOfWhatIsRememberedAndSplit(t *testing.T) {
	assert.Equal(t, 128, maxSent)
	assert.Equal(t, 4<<10, minBound)
	m := watcher()
	for range 200 {
		m.write(lease.Record{Kind: lease.KindClaim}, Now{Mono: m.now})
	}
	require.Len(t, m.own.sent, 128)
	assert.Equal(t, m.own.seq, m.own.sent[127].seq)
	m.own.bound = 5000
	m.Rejected(m.own.seq, Now{Mono: m.now})
	assert.Equal(t, 4096, m.own.bound)
}

func TestAListIsSplitWhereTheNextWouldBeTooMuch(t *testing.T) {
	self := func(n int) int { return n }
	for _, c := range []struct {
		list []int
		want [][]int
	}{
		{nil, nil},
		{[]int{10}, [][]int{{10}}},
		{[]int{11}, [][]int{{11}}},
		{[]int{4, 6}, [][]int{{4, 6}}},
		{[]int{4, 7}, [][]int{{4}, {7}}},
		{[]int{11, 11, 1}, [][]int{{11}, {11}, {1}}},
		{[]int{1, 11, 5, 5, 1}, [][]int{{1}, {11}, {5, 5}, {1}}},
	} {
		assert.Equal(t, c.want, split(c.list, 10, self))
	}
	assert.Equal(t, topicSize+keySize+3+2*positionSize, sizeOf(lease.ReleasedKey{Key: lease.Key{Topic: "abc"}, Partitions: []int32{1, 2}}))
}

func TestAHeartbeatHasWhatFitsAndOnePositionAtLeast(t *testing.T) {
	m := watcher()
	list := []*progress{{Position: Position{Key: part(0)}}, {Position: Position{Key: part(1)}}, {Position: Position{Key: part(2)}}}
	for bound, want := range map[int]int{
		0: 1, topicSize + 1 + 2*positionSize - 1: 1, topicSize + 1 + 2*positionSize: 2, topicSize + 1 + 3*positionSize - 1: 2, topicSize + 1 + 3*positionSize: 3,
	} {
		m.own.bound = bound
		_, rest := m.pack(list)
		assert.Len(t, rest, 3-want, bound)
	}
}

func TestTheFirstIntervalIsDrawnToo(t *testing.T) {
	m := watcher()
	m.cfg.Seed, m.beat.jitter = 1, 0
	m.begin()
	assert.GreaterOrEqual(t, m.beat.jitter, time.Duration(900))
	assert.LessOrEqual(t, m.beat.jitter, time.Duration(1100))
	assert.Equal(t, m.now+m.pace/8, m.beat.second)
}

func TestAHeartbeatAtOnceIsForASuspensionAlone(t *testing.T) {
	sec := time.Second
	for _, c := range []struct {
		name             string
		mono, wall, boot time.Duration // of trust, from now
		awake            bool
	}{
		{"all are left", 1, 1, 1, false},
		{"the wall clock has run ahead", 1, 0, 1, true},
		{"the boot clock has run ahead", 1, 1, 0, true},
		{"trust has just ended by itself", 0, -sec, 1, false},
		{"long ago", -sec, -sec, -sec, false},
	} {
		m := watcher()
		now := Now{Mono: m.now, Wall: 1000 * time.Hour, Boot: 7 * time.Hour}
		m.own.trust = Now{now.Mono + c.mono, now.Wall + c.wall, now.Boot + c.boot}
		m.awaken(now)
		want := Never
		if c.awake {
			want = m.now
		}
		assert.Equal(t, want, m.beat.at, c.name)
	}
}

func TestWhoJoinsLooksAtEverythingAndCountsAsAMove(t *testing.T) {
	m := watcher()
	m.stage, m.claims.stale, m.watch.moved = joining, false, 0
	m.join.first.Seq = 1
	m.entered(Now{Mono: m.now})
	assert.Equal(t, member, m.stage)
	assert.True(t, m.claims.stale)
	assert.Equal(t, m.now, m.watch.moved)
	m.claims.stale, m.watch.moved = false, 0
	m.entered(Now{Mono: m.now})
	assert.False(t, m.claims.stale, "once")
	assert.Zero(t, m.watch.moved)
}

func TestOnlyAnIgnoredRecordOfOurOwnAndAsAWholeIsRefused(t *testing.T) {
	for _, c := range []struct {
		name    string
		author  lease.InstanceID
		key     lease.Key
		refused bool
	}{
		{"ours", instance("me"), lease.Key{}, true},
		{"one key of ours", instance("me"), part(1), false},
		{"another's", instance("a"), lease.Key{}, false},
	} {
		m := watcher()
		m.own.sent = []sent{{seq: 7, kind: lease.KindClaim, acked: -1}}
		m.read([]lease.Event{{Kind: lease.Ignored, Author: c.author, Key: c.key, Seq: 7, Reason: lease.TooMany}}, Now{Mono: m.now})
		assert.Equal(t, c.refused, len(m.own.sent) == 0, c.name)
	}
}

func TestWhatComesAfterOurEndInABatchIsNotRead(t *testing.T) {
	for _, last := range []lease.Event{
		{Kind: lease.Left, Instance: instance("me")},
		{Kind: lease.Parked, Instance: instance("me")},
		{Kind: lease.Evicted, Instance: instance("me"), By: instance("a")},
		{Kind: lease.Rebased},
		{Kind: lease.Newer},
	} {
		m := watcher()
		out := m.Step([]lease.Event{last, {Kind: lease.Evicted, Instance: instance("me"), By: instance("b")}, last, {Kind: lease.Newer}}, Now{Mono: m.now})
		assert.Equal(t, last.Kind != lease.Left && last.Kind != lease.Parked, out.Ended, last.Kind)
		assert.Equal(t, !out.Ended, out.Left, last.Kind)
		if out.Ended {
			assert.Len(t, out.Notices, 1, last.Kind)
		}
		assert.Equal(t, over, m.stage)
	}
}

func TestOneWhomTheWorldHasForgottenIsNotMet(t *testing.T) {
	m := watcher()
	m.metNew(instance("x"), Now{Mono: m.now})
	assert.Empty(t, m.watch.peers)
}

// To one that is still joining a namesake's Join is no question.
func TestWhoIsNotJoinedAnswersNobody(t *testing.T) {
	m := watcher()
	m.stage = joining
	m.probe = probe{active: true, target: instance("a")}
	m.arrived(nil)
	assert.Equal(t, Never, m.beat.at)
	assert.Empty(t, m.out.Notices)
	m.stage = member
	m.arrived(nil)
	assert.Equal(t, m.now, m.beat.at)
	assert.Equal(t, []Notice{{Kind: ClientInUse, Other: instance("a")}}, m.out.Notices)
}

func TestTheLastRunsKeysWaitUntilTheWorldKnowsWhatWeWant(t *testing.T) {
	s := newScript(t)
	old := s.process("old", Config{Client: "c"}, want(some(3)))
	s.pass(3 * time.Second)
	old.leave(true, time.Minute)
	s.until(time.Second, "parked", func() bool { return old.left })
	p := s.process("new", Config{Client: "c"}, Wanted{})
	s.pass(time.Second)
	m := p.m
	require.NotNil(t, m.claims.plan)
	require.True(t, m.settled())
	assert.Empty(t, m.inheritance(), "nothing is wanted")
	m.claims.want.Interests = []lease.Interest{some(3)}
	require.False(t, m.settled())
	assert.Empty(t, m.inheritance(), "nobody knows of it yet")
	m.join.said = m.content()
	assert.Len(t, m.inheritance(), 3)
}

func TestAStampTellsHowFarTheClocksRanApartUnlessItIsLongPast(t *testing.T) {
	const sec = time.Second
	for _, c := range []struct {
		name  string
		n     Now
		spans []time.Duration
		never bool
	}{
		{"never", Now{}, nil, true},
		{"in step", Now{95 * sec, 1095 * sec, 295 * sec}, []time.Duration{0, 0}, false},
		{"apart", Now{95 * sec, 1096 * sec, 297 * sec}, []time.Duration{sec, 2 * sec}, false},
		{"ahead", Now{112 * sec, 1111 * sec, 0}, []time.Duration{-sec}, false},
		{"just within the horizon", Now{90*sec + 1, 1090*sec + 1, 0}, []time.Duration{0}, false},
		{"long past", Now{90 * sec, 1, 1}, nil, false},
	} {
		e := encoder{now: 100 * sec, horizon: 10 * sec, tick: Now{98 * sec, 1098 * sec, 298 * sec}}
		e.stamp(c.n)
		want := encoder{now: e.now, horizon: e.horizon}
		want.time(c.n.Mono)
		want.bit(c.never, c.n.Boot == 0)
		want.span(c.spans...)
		assert.Equal(t, want.b, e.b, c.name)
	}
	m := Member{s: alone()}
	before := string(m.AppendBinary(nil, 0, 2*Never, 1))
	m.tick.Boot = 1
	assert.NotEqual(t, before, string(m.AppendBinary(nil, 0, 2*Never, 1)), "whether the boot clock was ever read")
}

// Who may claim a free key does so when those before have had their turns, however it comes to look.
func TestATurnBeginsWhenThoseBeforeHaveHadTheirs(t *testing.T) {
	k := part(0)
	for round := range 12 {
		shared := alone()
		shared.Planner = &policy.Planner{}
		m := New(Config{Instance: instance("me"), TTL: 10 * time.Second}, shared, Now{Mono: time.Hour})
		names := []lease.InstanceID{m.cfg.Instance}
		for i := range 4 {
			names = append(names, instance(string([]byte{byte('a' + round), byte('0' + i)})))
		}
		for _, id := range append(names, instance("idle")) {
			join := lease.Join{Client: "o", TTL: 10 * time.Second, Interests: []lease.Interest{some(1)}}
			if id == instance("idle") {
				join.Interests = nil
			}
			m.logged(lease.Record{Kind: lease.KindJoin, Instance: id, Seq: 1, Join: join})
		}
		m.claims.plan = shared.Planner.Plan(m.world())
		for _, id := range names {
			m.cfg.Instance = id
			turn := m.claims.plan.TurnOf(k, id)
			for begun := range 6 {
				for _, d := range []time.Duration{0, minTurn - 1} {
					m.take.free = map[lease.Key]vacancy{k: {m.now - time.Duration(begun)*minTurn - d, 1}}
					assert.Equal(t, begun >= max(turn, 1), m.myTurn(k), "%d of %d", turn, begun)
				}
			}
		}
		m.cfg.Instance, _ = m.claims.plan.Claimant(k, 0)
		m.take.free[k] = vacancy{m.now, 0}
		assert.True(t, m.myTurn(k), "the first")
		m.take.asked[k] = 4
		assert.False(t, m.myTurn(k), "it is asked for")
		delete(m.take.asked, k)
		m.take.free[k] = vacancy{m.now, -1}
		assert.False(t, m.myTurn(k), "none is ours")
		m.cfg.Instance = instance("idle")
		m.take.free[k] = vacancy{m.now - time.Hour, 1}
		assert.False(t, m.myTurn(k), "none is found to be ours")
		assert.Equal(t, -1, m.take.free[k].turn)
	}
}

func TestOnlyWhatAnInterestCoversTakesUpItsRoom(t *testing.T) {
	m := watcher()
	most := some(8)
	most.Max = 3
	u := lease.TopicInterest{Topic: "u", Partitions: 4}
	m.Want(want(most, lease.Interest{Topics: []lease.TopicInterest{u}}), Now{Mono: m.now})
	m.claims.pinned[part(7)] = true
	m.take.asked = map[lease.Key]uint64{part(0): 1, part(7): 1, {Topic: "u"}: 1, {Topic: "x"}: 1}
	assert.Equal(t, room{0: 2}, m.room())
}

func TestTheFormOfAnAcknowledgementSaysWhenItCame(t *testing.T) {
	form := func(acked time.Duration) int {
		var e encoder
		e.grain = 1
		e.own(&own{sent: []sent{{acked: acked}}})
		return len(e.b)
	}
	assert.Equal(t, form(-1)+8, form(0))
	assert.Equal(t, form(0), form(1))
}
