package member

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

func TestASeekWaitsWhileWeAreDeafAndOnlyTheNewestIsWritten(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	s.pass(3 * time.Second)
	p.blind = true
	s.until(20*time.Second, "deafness", func() bool { return p.has(Deaf) })
	for _, next := range []int64{5, 6, 7} {
		p.do(p.m.Seek(part(0), lease.TopicID{}, next, lease.NoEpoch, p.clock(false)))
	}
	p.do(p.m.Seek(part(1), lease.TopicID{}, 9, lease.NoEpoch, p.clock(false)))
	require.Empty(t, p.of(lease.KindDirective))
	p.blind = false
	s.pass(10 * ms)
	seeks := p.of(lease.KindDirective)
	require.Len(t, seeks, 2)
	assert.Equal(t, int64(7), seeks[0].Directive.Next)
	assert.Equal(t, int64(9), seeks[1].Directive.Next)
}

func TestASeekThatIsRefusedIsWrittenAnewAfterAnInterval(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindDirective }
	p.do(p.m.Seek(part(0), lease.TopicID{}, 5, lease.NoEpoch, p.clock(false)))
	require.Len(t, p.of(lease.KindDirective), 1)
	p.lose = nil
	refused := s.now
	p.do(p.m.Rejected(p.of(lease.KindDirective)[0].Seq, p.clock(false)))
	s.pass(5 * time.Second)
	require.Len(t, p.of(lease.KindDirective), 2)
	assert.Equal(t, refused+2*time.Second, p.when(lease.KindDirective)[1])
}

// What another is told, granted or refused is not ours.
func TestEventsOfOthersAreNotOurs(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	p.commit(part(0), 9)
	other := instance("other")
	state := func() string { return string(p.m.AppendBinary(nil, 0, 2*Never, 1)) }
	before := state()
	for _, e := range []lease.Event{
		{Kind: lease.Refused, Instance: other, Author: other, Key: part(5), Reason: lease.TooMany},
		{Kind: lease.TakenOver, Instance: other, Author: other, Key: part(5), By: instance("third")},
		{Kind: lease.Granted, Instance: other, Author: other, Key: part(5), By: instance("third")},
		{Kind: lease.Granted, Instance: p.id, Author: p.id, Key: part(5)},
		{Kind: lease.Progressed, Instance: other, Author: other, Key: part(0), Next: 9, Record: lease.KindHeartbeat},
		{Kind: lease.Progressed, Instance: p.id, Author: other, Key: part(0), Next: 9, Record: lease.KindHeartbeat},
		{Kind: lease.Progressed, Instance: p.id, Author: p.id, Key: part(0), Next: 9, Record: lease.KindDirective},
		{Kind: lease.Ignored, Author: other, Seq: p.m.own.seq, Reason: lease.TooMany},
		{Kind: lease.Ignored, Author: p.id, Key: part(5), Seq: p.m.own.seq, Reason: lease.TooMany},
		{Kind: lease.Ignored, Author: p.id, Seq: p.m.own.seq, Reason: lease.Echo},
	} {
		p.do(p.m.Step([]lease.Event{e}, p.clock(false)))
		assert.Equal(t, before, state(), e.Kind)
	}
	for _, e := range []lease.Event{
		{Kind: lease.Refused, Instance: p.id, Author: p.id, Key: part(5), Reason: lease.TooMany},
		{Kind: lease.TakenOver, Instance: p.id, Author: p.id, Key: part(6), By: other},
		{Kind: lease.Granted, Instance: p.id, Author: p.id, Key: part(7), By: other},
		{Kind: lease.Progressed, Instance: p.id, Author: p.id, Key: part(0), Next: 9, Record: lease.KindHeartbeat},
	} {
		p.do(p.m.Step([]lease.Event{e}, p.clock(false)))
		after := state()
		assert.NotEqual(t, before, after, e.Kind)
		before = after
	}
}

func TestWhoReadsAValidBaseSaysSoAndReadsNothingMoreOfItsBatch(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	out := p.m.Step([]lease.Event{{Kind: lease.Rebased}, {Kind: lease.Evicted, Instance: p.id, Author: instance("o"), By: instance("o")}}, p.clock(false))
	assert.Equal(t, []Notice{{Kind: Rejoining}}, out.Notices)
	assert.True(t, out.Ended)

	s = newScript(t)
	q := s.process("q", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	out = q.m.Step([]lease.Event{{Kind: lease.Evicted, Instance: q.id, Author: instance("o"), By: instance("o")}, {Kind: lease.Rebased}}, q.clock(false))
	assert.Equal(t, []Notice{{Kind: Rejoining, Other: instance("o")}}, out.Notices)
}

func TestWhoJoinsForgetsWhoWasThereBeforeABase(t *testing.T) {
	s := newScript(t)
	s.process("q", Config{}, want(some(1)))
	s.pass(3 * time.Second)
	p := s.process("p", Config{}, want(some(1)))
	s.flights = nil
	require.Len(t, p.m.watch.peers, 1)
	s.append(lease.Record{Kind: lease.KindBase, Version: 2, Base: lease.Base{Seen: int64(len(s.log)) - 1, TokenBase: 1 << 40}})
	s.pass(10 * ms)
	assert.Empty(t, p.m.watch.peers)
	assert.False(t, p.ended)
}

func TestWhoIsThatHoldsAKeyIsSaidInWords(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{Client: "pc"}, want(some(1)))
	whole := lease.Interest{Whole: true, Topics: []lease.TopicInterest{{Topic: "u", Partitions: 2}}}
	q := s.process("q", Config{Client: "qc"}, want(whole))
	s.pass(3 * time.Second)
	require.True(t, p.hands(part(0)))
	e := p.keys[part(0)].Epoch
	assert.Contains(t, p.m.holder(part(0)), "ours with epoch "+string(rune('0'+e)))
	assert.Contains(t, q.m.holder(part(0)), "pc (")
	assert.Contains(t, q.m.holder(part(0)), " holds it")
	assert.Contains(t, p.m.holder(lease.Key{Topic: "u", Partition: 1}), " holds u/-1")
	assert.Equal(t, "nobody holds it", p.m.holder(part(7)))
	assert.Equal(t, instance("zz").String(), p.m.nameOf(instance("zz")))
}
