package member

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

func TestHeldButNeitherWantedNorKeptIsReleasedAtOnceToThePlansSuccessor(t *testing.T) {
	s := newScript(t)
	p, q := pair(s)
	r := s.process("r", Config{}, want())
	s.pass(3 * time.Second)
	k := first(p)
	// Handed to one that does not want it (any more).
	p.m.own.seq++
	s.append(lease.Record{Kind: lease.KindRelease, Instance: p.id, Seq: p.m.own.seq,
		Release: lease.Release{Successor: r.id, Keys: []lease.ReleasedKey{{Key: k, Epoch: p.keys[k].Epoch}}}})
	s.pass(reading)
	require.True(t, r.holds(k))
	require.Empty(t, r.actions)
	require.Len(t, r.of(lease.KindRelease), 1)
	assert.False(t, r.of(lease.KindRelease)[0].Release.Successor.IsZero())
	s.pass(writing + reading)
	assert.True(t, p.hands(k) || q.hands(k))
}

func TestRunningButNotHeldStops(t *testing.T) {
	s := newScript(t)
	p, q := pair(s)
	k := first(p)
	p.m.own.seq++
	s.append(lease.Record{Kind: lease.KindRelease, Instance: p.id, Seq: p.m.own.seq,
		Release: lease.Release{Successor: q.id, Keys: []lease.ReleasedKey{{Key: k, Epoch: p.keys[k].Epoch}}}})
	s.pass(reading)
	require.True(t, p.did(Stop, k))
	last := p.actions[len(p.actions)-1]
	assert.Equal(t, "q ("+q.id.String()+") holds it", last.Reason)
}

func TestHeldAndWantedButNotRunningStarts(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(3)))
	s.pass(time.Second)
	q := s.process("q", Config{}, want(some(3)))
	s.until(5*time.Second, "balance", func() bool { return q.runs() == 1 })
	k := first(q)
	require.Equal(t, Action{Kind: Start, Key: k, Epoch: q.keys[k].Epoch}, q.actions[0])
	l, _ := q.lease(k)
	assert.Equal(t, l.Epoch, q.keys[k].Epoch)
	assert.Equal(t, 2, p.runs())
}

func TestAPartitionThatNobodySeesAnyMoreIsLetGo(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	q := s.process("q", Config{}, want(some(6)))
	s.pass(5 * time.Second)
	require.Equal(t, 3, p.runs(), "what one sees all believe")
	q.want(want(some(2)))
	s.pass(5 * time.Second)
	assert.Equal(t, 1, p.runs())
	assert.Equal(t, 1, q.runs())
	assert.Zero(t, p.log.World().Partitions("t")-2)
	for k := range p.log.World().Leases() {
		assert.Less(t, k.Partition, int32(2))
	}
}

func TestATopicThatNobodySeesAnyMoreIsLetGoAsAWhole(t *testing.T) {
	whole := func(n int32) lease.Interest { i := some(n); i.Whole = true; return i }
	s := newScript(t)
	p := s.process("p", Config{}, want(whole(2)))
	s.until(time.Second, "the topic", func() bool { return p.runs() == 1 })
	p.want(want(whole(0)))
	s.until(time.Second, "nothing", func() bool { return p.runs() == 0 })
	p.want(want(whole(3)))
	s.until(time.Second, "it again", func() bool { return p.runs() == 1 })
}

func TestTerminateFalseOfAConsumerTurnsItsKeysIntoPinnedOnesUnreadForRestartGrace(t *testing.T) {
	s := newScript(t)
	p, q := pair(s)
	kept := p.m.Running()
	p.commit(kept[0], 12)
	p.want(Wanted{Kept: kept, KeptUntil: s.now + 30*time.Second})
	join := p.written[len(p.written)-1]
	require.Equal(t, lease.KindJoin, join.Kind)
	assert.Equal(t, kept, join.Join.Pinned)
	for _, k := range kept {
		assert.True(t, p.did(Finish, k))
		assert.True(t, p.keys[k].Unread)
		assert.False(t, p.hands(k))
	}
	s.pass(29 * time.Second)
	assert.Equal(t, 2, q.runs())
	w, _ := q.log.World().Progress("t", kept[0].Partition)
	assert.EqualValues(t, 12, w.Next, "flushed")
	until := s.now + time.Second
	s.until(2*time.Second, "handed over", func() bool { return q.runs() == 4 })
	assert.Less(t, s.now, until+20*ms)
	assert.Empty(t, p.of(lease.KindJoin)[len(p.of(lease.KindJoin))-1].Join.Pinned)
	assert.Zero(t, p.runs())
	assert.False(t, p.did(Drain, kept[0]), "nothing is in flight of what is unread")
}

func TestAKeyBeginsAnewWhereAnInterestTakesOverWhatWasClaimedByHand(t *testing.T) {
	s := newScript(t)
	k := part(1)
	p := s.process("p", Config{}, Wanted{Interests: []lease.Interest{some(2)}, Pinned: []lease.Key{k}})
	s.until(time.Second, "both keys", func() bool { return p.runs() == 2 })
	p.commit(k, 7)
	s.pass(2 * time.Second)
	epoch, from := p.keys[k].Epoch, len(p.actions)
	p.want(want(some(2)))
	assert.Equal(t, []Action{{Kind: Finish, Key: k, Epoch: epoch}, {Kind: Start, Key: k, Epoch: epoch}}, p.actions[from:])
	assert.EqualValues(t, 7, p.done[k])
	assert.True(t, p.hands(k))
	p.want(Wanted{Interests: []lease.Interest{some(2)}, Pinned: []lease.Key{k}})
	assert.Len(t, p.actions, from+4, "and back")
	s.pass(5 * time.Second)
	assert.Len(t, p.actions, from+4)
	assert.Empty(t, p.of(lease.KindRelease))
}

func TestANewConsumerReadsWhatWasKeptForIt(t *testing.T) {
	s := newScript(t)
	p, q := pair(s)
	kept := p.m.Running()
	p.want(Wanted{Kept: kept, KeptUntil: s.now + 30*time.Second})
	s.pass(5 * time.Second)
	p.want(Wanted{Interests: []lease.Interest{some(4)}})
	for _, k := range kept {
		assert.True(t, p.hands(k), "at once")
		assert.False(t, p.keys[k].Unread)
	}
	s.pass(time.Minute)
	assert.Equal(t, kept, p.m.Running())
	assert.Equal(t, 2, q.runs())
}

func TestTheInterestsInTheWorldAndOurOwnAreComparedToo(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	s.pass(time.Second)
	p.want(want(some(2)))
	s.pass(time.Second)
	require.Len(t, p.of(lease.KindJoin), 1, "nothing changed")
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindJoin }
	p.want(want(some(3)))
	p.want(want(some(4)))
	require.Len(t, p.of(lease.KindJoin), 2, "one on its way at a time")
	s.until(3*time.Second, "void and written anew", func() bool { return len(p.of(lease.KindJoin)) == 3 })
	p.lose = nil
	s.pass(3 * time.Second)
	assert.EqualValues(t, 4, p.log.World().Instance(p.id).Interests[0].Topics[0].Partitions)
	assert.Equal(t, 4, p.runs())
}

func TestAnInstanceThatReadsItsOwnEndStopsEverything(t *testing.T) {
	s := newScript(t)
	p, q := pair(s)
	keys := p.m.Running()
	s.append(lease.Record{Kind: lease.KindEvict, Instance: q.id, Seq: q.m.own.seq + 1,
		Evict: lease.Evict{Targets: []lease.Target{{Instance: p.id, Renewed: p.log.World().Instance(p.id).Renewed}}}})
	s.pass(reading)
	require.True(t, p.ended)
	assert.Equal(t, []Notice{{Kind: Rejoining, Other: q.id}}, p.notices)
	for _, k := range keys {
		assert.True(t, p.did(Stop, k))
	}
	_, ok := p.m.HandsOut(keys[0], p.clock(false))
	assert.False(t, ok)
	assert.Empty(t, p.m.Running())
	assert.Equal(t, Output{Wake: Never}, p.m.Step(nil, p.clock(false)))
}

func TestAnInstanceThatReadsAValidBaseStopsEverything(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(time.Second)
	s.append(lease.Record{Kind: lease.KindBase, Base: lease.Base{Seen: int64(len(s.log) - 1)}})
	s.pass(reading)
	assert.True(t, p.ended)
	assert.True(t, p.did(Stop, part(0)))
}

func TestABaseBeforeItsJoinEndsNobody(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.append(lease.Record{Kind: lease.KindBase, Base: lease.Base{Seen: -1}})
	s.pass(time.Second)
	assert.False(t, p.ended)
	assert.Equal(t, 1, p.runs())
}

func TestAMemberThatReadsANewerVersionEndsItsClaimsAndReportsIt(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	q := s.process("q", Config{}, want())
	s.pass(time.Second)
	k := part(0)
	p.commit(k, 3)
	s.append(lease.Record{Kind: lease.KindNewer, Version: 3, Instance: q.id, Seq: q.m.own.seq + 1})
	s.pass(reading)
	assert.True(t, p.has(UpgradeNeeded))
	assert.True(t, p.ended)
	assert.True(t, p.did(Stop, k))
	require.Len(t, p.of(lease.KindLeave), 1, "its keys are free at once")
	assert.Equal(t, []int64{3}, p.of(lease.KindLeave)[0].Release.Keys[0].Next)
}

func TestASeekIsWrittenOnceAndAgainIfVoid(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(time.Second)
	e := p.keys[part(0)].Epoch
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindDirective }
	p.do(p.m.Seek(part(0), lease.TopicID{}, 5, e, p.clock(false)))
	p.do(p.m.Seek(part(0), lease.TopicID{}, 6, e, p.clock(false)))
	require.Len(t, p.of(lease.KindDirective), 2)
	s.until(3*time.Second, "written anew", func() bool { return len(p.of(lease.KindDirective)) == 3 })
	assert.EqualValues(t, 6, p.of(lease.KindDirective)[2].Directive.Next, "only the newest for the key")
	p.lose = nil
	s.pass(5 * time.Second)
	require.Len(t, p.of(lease.KindDirective), 4)
	w, _ := p.log.World().Progress("t", 0)
	assert.EqualValues(t, 6, w.Next)
	assert.Empty(t, p.m.seeks)

	// One that names an epoch that is over is not wanted any more.
	e = p.keys[part(0)].Epoch
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindDirective && r.Directive.Epoch == e }
	p.do(p.m.Seek(part(0), lease.TopicID{}, 7, e, p.clock(false)))
	p.do(p.m.Seek(lease.Key{Topic: "t", Partition: lease.WholeTopic}, lease.TopicID{}, 8, lease.NoEpoch, p.clock(false)))
	s.pass(5 * time.Second)
	assert.Empty(t, p.m.seeks)
	assert.Len(t, p.of(lease.KindDirective), 6)
}

func TestASeekDuringAHandOverKeepsTheKeyGatedUntilTheReleaseIsKnown(t *testing.T) {
	s := newScript(t)
	p, _ := pair(s)
	k := first(p)
	p.silent = true
	p.do(p.m.GiveUp(k, p.keys[k].Epoch, p.clock(false)))
	require.Len(t, p.held, 1)
	o := s.process("tool", Config{}, want())
	s.pass(100 * ms)
	o.do(o.m.Seek(k, lease.TopicID{}, 1, lease.NoEpoch, o.clock(false)))
	s.pass(10 * ms)
	require.True(t, p.did(Stop, k))
	require.False(t, p.hands(k))
	p.release()
	s.pass(10 * ms)
	assert.True(t, p.hands(k), "the Release named the old epoch and did nothing")
}

func TestWhatTheWorldWillNotTakeIsNotWrittenInALoop(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want())
	s.pass(time.Second)
	i := some(1)
	for n := range 70_000 {
		i.Topics = append(i.Topics, lease.TopicInterest{Topic: string(rune(n + 100)), Partitions: 1})
	}
	p.want(want(i))
	s.pass(time.Minute)
	if p.log.World().Instance(p.id).Interests != nil {
		t.Skip("within the limits of the world")
	}
	assert.Len(t, p.of(lease.KindJoin), 2)
	assert.True(t, p.has(JoinRefused))
	p.want(want(some(1)))
	s.pass(time.Second)
	assert.Equal(t, 1, p.runs())
}

func TestAFirstJoinThatIsTooLargeIsTriedAgainWhenSomethingElseIsWanted(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(9)))
	s.flights = nil // the broker refuses it
	p.do(p.m.Rejected(1, p.clock(false)))
	s.pass(time.Minute)
	require.Len(t, p.written, 1)
	require.True(t, p.has(JoinRefused))
	p.want(want(some(1)))
	require.Len(t, p.written, 2)
	assert.EqualValues(t, 1, p.written[1].Seq, "only seq 1 makes an instance")
	s.pass(time.Second)
	assert.Equal(t, 1, p.runs())
}

func TestASeekThatNamesAnEpochDoesNotReplaceOneThatCountsUnderAny(t *testing.T) {
	any, ours := lease.Directive{Key: part(0), Epoch: lease.NoEpoch}, lease.Directive{Key: part(0), Epoch: 7}
	elsewhere, newer := lease.Directive{Key: part(1), Epoch: lease.NoEpoch}, lease.Directive{Key: part(0), Epoch: 9}
	for _, c := range []struct {
		later, earlier lease.Directive
		so             bool
	}{
		{any, any, true}, {any, ours, true}, {ours, ours, true},
		{ours, any, false}, {newer, ours, false}, {elsewhere, any, false}, {any, elsewhere, false},
	} {
		assert.Equal(t, c.so, supersedes(c.later, c.earlier), "%+v", c)
	}

	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(time.Second)
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindDirective }
	p.do(p.m.Seek(part(0), lease.TopicID{}, 5, lease.NoEpoch, p.clock(false)))
	p.do(p.m.Seek(part(0), lease.TopicID{}, 6, p.keys[part(0)].Epoch, p.clock(false)))
	p.lose = nil
	s.pass(5 * time.Second)
	w, _ := p.log.World().Progress("t", 0)
	assert.EqualValues(t, 5, w.Next, "both were lost; the one under our epoch went out with the other, which gave it a new epoch")
	assert.Empty(t, p.m.seeks)
}
