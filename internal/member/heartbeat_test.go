package member

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

func TestANewInstanceHeartbeatsWhenItReadsItsJoinBackAndAgainAnEighthOfAnIntervalLater(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want())
	read := s.now + writing + reading
	s.pass(time.Second)
	assert.Equal(t, []time.Duration{read, read + 250*ms}, p.when(lease.KindHeartbeat))
}

func TestAnInstanceWritesNothingButItsJoinUntilThatIsReadBack(t *testing.T) {
	s := newScript(t)
	_ = s.process("other", Config{}, want())
	s.pass(time.Second)
	p := s.process("p", Config{}, want(some(3)))
	p.blind = true
	s.pass(4 * time.Second)
	p.want(want(some(5)))
	p.do(p.m.Flush(p.clock(false)))
	s.pass(4 * time.Second)
	assert.Equal(t, []lease.Kind{lease.KindJoin}, p.kinds(0))
}

func TestAnIdleSettledInstanceWritesOneHeartbeatPerIntervalAndNothingElse(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(100)))
	q := s.process("q", Config{}, want(some(100)))
	s.pass(10 * time.Second)
	require.Equal(t, 50, q.runs())
	for _, x := range []*proc{p, q} {
		from := len(x.written)
		begun := s.now
		s.pass(time.Hour)
		for i, r := range x.written[from:] {
			require.Equal(t, lease.KindHeartbeat, r.Kind)
			require.Empty(t, r.Heartbeat.Topics)
			if i > 0 {
				d := x.at[from+i] - x.at[from+i-1]
				require.True(t, d >= 1800*ms && d <= 2200*ms, "±10 %%: %v", d)
			}
		}
		assert.InDelta(t, (s.now-begun)/(2*time.Second), len(x.written)-from, 20)
	}
}

func TestPositionsThatMovedGoOutWithinTheCommitInterval(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{CommitInterval: 300 * ms}, want(some(2)))
	s.until(20*time.Second, "a heartbeat", func() bool { return len(p.of(lease.KindHeartbeat)) == 5 })
	s.pass(100 * ms)
	n := len(p.written)
	moved := s.now
	p.commit(part(0), 7)
	s.pass(100 * ms)
	p.commit(part(0), 9)
	p.commit(part(1), 3)
	s.pass(199 * ms)
	require.Len(t, p.written, n)
	s.pass(1 * ms)
	require.Len(t, p.written, n+1)
	assert.Equal(t, moved+300*ms, p.at[n])
	topics := p.written[n].Heartbeat.Topics
	require.Len(t, topics, 1)
	assert.Equal(t, []int32{0, 1}, topics[0].Partitions)
	assert.Equal(t, []int64{9, 3}, topics[0].Next)
	assert.Equal(t, []int64{p.keys[part(0)].Epoch, p.keys[part(1)].Epoch}, topics[0].Epochs)
	s.pass(time.Minute)
	assert.Empty(t, p.written[n+1].Heartbeat.Topics, "what was read back is not sent again")
	assert.Empty(t, p.m.beat.dirty)
}

func TestAHeartbeatCarriesWhatChangedSinceOurLastHeartbeatReadBack(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(2)))
	s.pass(5 * time.Second)
	p.commit(part(0), 7)
	p.lose = func(r *lease.Record) bool { return r.Kind == lease.KindHeartbeat }
	n := len(p.written)
	s.until(3*time.Second, "a heartbeat", func() bool { return len(p.written) > n })
	p.lose = nil
	p.commit(part(1), 4)
	s.pass(5 * time.Second)
	again := p.written[n+1].Heartbeat.Topics
	require.Len(t, again, 1)
	assert.Equal(t, []int64{7, 4}, again[0].Next)
	w, _ := p.log.World().Progress("t", 0)
	assert.EqualValues(t, 7, w.Next)
}

func TestProgressThatTheWorldDoesNotTakeIsNotSentForEver(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(time.Second)
	p.commit(part(0), 7)
	s.pass(2 * time.Second)
	// Behind what is stored, and then under an id that was replaced.
	n := len(p.written)
	p.do(p.m.Positions([]Position{{Key: part(0), Epoch: p.keys[part(0)].Epoch, Next: 5}}, lease.Load{}, p.clock(false)))
	old, now := lease.TopicID{1}, lease.TopicID{2}
	for _, id := range []lease.TopicID{old, now, old} {
		p.do(p.m.Positions([]Position{{Key: part(0), TopicID: id, Epoch: p.keys[part(0)].Epoch, Next: 8}}, lease.Load{}, p.clock(false)))
		p.do(p.m.Flush(p.clock(false)))
		s.pass(10 * ms)
	}
	s.pass(10 * time.Second)
	assert.Empty(t, p.m.beat.dirty)
	for _, r := range p.written[n+3:] {
		assert.Empty(t, r.Heartbeat.Topics)
	}
}

func TestProgressIsNeverReportedUnderAnOlderEpochThanTheNewestRead(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(time.Second)
	old := p.keys[part(0)].Epoch
	p.commit(part(0), 7)
	p.do(p.m.Seek(part(0), lease.TopicID{}, 2, old, p.clock(false)))
	n := len(p.written)
	s.pass(writing + reading)
	require.NotEqual(t, old, p.keys[part(0)].Epoch)
	p.do(p.m.Positions([]Position{{Key: part(0), Epoch: old, Next: 9}}, lease.Load{}, p.clock(false)))
	s.pass(5 * time.Second)
	for _, r := range p.written[n:] {
		assert.Empty(t, r.Heartbeat.Topics)
	}
	w, _ := p.log.World().Progress("t", 0)
	assert.EqualValues(t, 2, w.Next)
}

func TestFlushHeartbeatsAtOnceWithAllPositions(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(1)))
	s.pass(time.Second)
	p.commit(part(0), 7)
	n := len(p.written)
	p.do(p.m.Flush(p.clock(false)))
	require.Len(t, p.written, n+1)
	assert.Equal(t, []int64{7}, p.written[n].Heartbeat.Topics[0].Next)
}

func TestAHeartbeatSaysWhatItsAuthorHasApplied(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want())
	s.pass(5 * time.Second)
	h := p.written[len(p.written)-1].Heartbeat
	at, hash := p.log.Position()
	assert.Equal(t, at-1, h.P, "itself not counted")
	_ = hash
}

func TestOneRecordNamesOneIDPerTopicAndLargeOnesAreSplit(t *testing.T) {
	m := watcher()
	list := func(ids ...byte) (ps []*progress) {
		for i, id := range ids {
			ps = append(ps, &progress{Position: Position{Key: part(int32(i)), TopicID: lease.TopicID{id}, Epoch: 3, Next: 4}})
		}
		return ps
	}
	topics, rest := m.pack(list(1, 1, 2))
	require.Len(t, topics, 1)
	assert.Equal(t, []int32{0, 1}, topics[0].Partitions)
	assert.Len(t, rest, 1)

	m.own.bound = minBound
	var many []*progress
	for i := range 1000 {
		many = append(many, &progress{Position: Position{Key: lease.Key{Topic: fmt.Sprintf("t%d", i/10), Partition: int32(i % 10)}, Epoch: 1 << 60, Next: 1 << 60}})
	}
	total := 0
	for rest = many; len(rest) > 0; {
		before := len(rest)
		topics, rest = m.pack(rest)
		total += before - len(rest)
		rec := lease.Record{Kind: lease.KindHeartbeat, Heartbeat: lease.Heartbeat{Topics: topics}}
		assert.LessOrEqual(t, rec.SizeBound(), minBound+256)
	}
	assert.Equal(t, 1000, total)
}

func TestAHeartbeatThatIsRefusedAsTooLargeIsFollowedAtOnceByAnEmptyOne(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want(some(300)))
	s.pass(time.Second)
	for k := range p.keys {
		p.done[k] = 7
		p.do(p.m.Positions([]Position{{Key: k, Epoch: p.keys[k].Epoch, Next: 7}}, lease.Load{}, p.clock(false)))
	}
	limit := 6000 // of the broker
	refused := 0
	p.lose = func(r *lease.Record) bool { return r.SizeBound() > limit }
	n := len(p.written)
	for i := 0; i < 200; i++ {
		s.pass(100 * ms)
		for ; n < len(p.written); n++ {
			if p.lose(&p.written[n]) {
				refused++
				p.do(p.m.Rejected(p.written[n].Seq, p.clock(false)))
				last := len(p.written) - 1
				require.Greater(t, last, n)
				require.Empty(t, p.written[last].Heartbeat.Topics)
				require.Equal(t, s.now, p.at[last])
			}
		}
	}
	assert.Positive(t, refused)
	assert.Less(t, refused, 10)
	for k := range p.keys {
		w, _ := p.log.World().Progress("t", k.Partition)
		assert.EqualValues(t, 7, w.Next)
	}
}
