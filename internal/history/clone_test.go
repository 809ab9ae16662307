package history

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// again replays what is in the shard into a new Log.
func (s *shard) again() *Log {
	l := NewLog(emptyBase(coordination, 0))
	for _, e := range s.entries {
		l.Take(&e.rec, e.value, nil)
	}
	return l
}

// same tells apart Logs that would do different things with what comes.
func same(t *testing.T, want, got *Log) {
	t.Helper()
	assert.Equal(t, want.world.AppendBinary(nil), got.world.AppendBinary(nil))
	assert.Equal(t, want.hash, got.hash)
	assert.Equal(t, want.taken, got.taken)
	assert.Equal(t, want.ring, got.ring)
	w, g := want.snapshots, got.snapshots
	w.own, w.ready, g.own, g.ready = nil, nil, nil, nil
	assert.Equal(t, w, g)
}

func TestACloneOfALogIsEqualAndGoesItsOwnWay(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.claim("a", 1, 2, 3)
	s.announce("a")
	s.log.Own(id("a"))
	s.announce("a")
	s.log.Disown(id("a"))
	chunks := smaller(s.log.TakeSnapshot(), 20)
	require.Greater(t, len(chunks), 2)
	s.append(chunks[0])
	whole, before := s.log, s.entries
	same(t, s.again(), whole.Clone())

	for name, further := range map[string]func(){
		"a snapshot completed": func() {
			for _, c := range chunks[1:] {
				s.append(c)
				assert.Equal(t, Fine, s.outcome)
			}
		},
		"another announced": func() { s.announce("a"); s.claim("a", 7) },
		"a Base":            func() { s.base(s.next - 1) },
	} {
		t.Run(name, func(t *testing.T) {
			s.log = whole.Clone()
			s.entries, s.next = before[:len(before):len(before)], int64(len(before))
			seq := s.seqs["a"]
			further()
			same(t, s.again(), s.log)
			s.entries, s.seqs["a"] = before, seq
			same(t, s.again(), whole)
		})
	}
}

func TestACloneOfALogWritesNobodysSnapshots(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.log.Own(id("a"))
	s.announce("a")
	c := s.log.Clone()
	assert.Empty(t, c.TakeSnapshot())
	assert.NotEmpty(t, s.log.TakeSnapshot(), "that of which it is a clone still does")
	whole := s.log
	s.log = c
	s.announce("a")
	assert.Empty(t, c.TakeSnapshot())
	assert.Equal(t, []lease.InstanceID{id("a")}, whole.snapshots.own)
}

// le puts numbers after a byte, eight bytes each.
func le(b []byte, ds ...time.Duration) []byte {
	for _, d := range ds {
		b = binary.LittleEndian.AppendUint64(b, uint64(d))
	}
	return b
}

func TestTheTimesOfALogAreToldFromNowAndNoFurtherBackThanTheHorizon(t *testing.T) {
	const now, horizon = time.Hour, 10 * time.Second
	l := NewLog(emptyBase(coordination, 0))
	assert.Equal(t, []byte{9, byte(unset), byte(unset), byte(unset)}, l.AppendTimes([]byte{9}, now, horizon))
	for at, want := range map[time.Duration]time.Duration{
		now: 0, now - 1: -1, now - horizon: -horizon, now - horizon - 1: -horizon, now - time.Minute: -horizon, now + 5: 5,
	} {
		s := stamp{set, at}
		l.snapshots.doneAt, l.snapshots.dueAt, l.snapshots.waitAt = s, stamp{}, stamp{state: waiting, at: 7}
		assert.Equal(t, append(le([]byte{byte(set)}, want), byte(unset), byte(waiting)), l.AppendTimes(nil, now, horizon))
		l.snapshots.doneAt, l.snapshots.dueAt, l.snapshots.waitAt = stamp{}, s, stamp{}
		assert.Equal(t, append(le([]byte{byte(unset), byte(set)}, want), byte(unset)), l.AppendTimes(nil, now, horizon))
		l.snapshots.doneAt, l.snapshots.dueAt, l.snapshots.waitAt = stamp{}, stamp{}, s
		assert.Equal(t, le([]byte{byte(unset), byte(unset), byte(set)}, want), l.AppendTimes(nil, now, horizon))
	}
}

func TestTheTimesOfABeginnerAreToldFromNowAndNoFurtherBackThanTheHorizon(t *testing.T) {
	const now, horizon = time.Hour, 10 * time.Second
	b := newStart(t, false).b
	b.mark, b.back, b.nextProbe, b.nextBase, b.live = now-1, now-horizon-1, now+3, now-horizon, 3*horizon
	want := le([]byte{9}, -1, -horizon, 3, -horizon, 3*horizon)
	assert.Equal(t, append(want, 0), b.AppendTimes([]byte{9}, now, horizon))
	b.begun = true
	assert.Equal(t, append(want, 1), b.AppendTimes([]byte{9}, now, horizon))
}

func TestACloneOfABeginnerIsEqualAndGoesItsOwnWay(t *testing.T) {
	s := newStart(t, false)
	chunk := func(i uint32) lease.Record {
		return lease.Record{Kind: lease.KindSnapshot, Snapshot: lease.Snapshot{Upto: 200, Author: id("a"), Index: i, Count: 3, Chunk: []byte{byte(i)}}}
	}
	begin := func() {
		s.next, s.now = 201, time.Hour
		s.log(chunk(0))
	}
	begin()
	whole := s.b
	c := whole.Clone()
	assert.Equal(t, whole, c)
	s.b = c
	s.log(chunk(1))
	s.log(lease.Record{Kind: lease.KindBase, Base: lease.Base{Seen: s.next - 1}})
	s.now += time.Second
	s.tick()
	_, found := c.Base()
	require.True(t, found)
	_, found = whole.Base()
	assert.False(t, found)

	s = newStart(t, false)
	begin()
	assert.Equal(t, s.b, whole, "nothing has happened to it")
}

func TestALogIsInDoubtWhileSomebodySaysSo(t *testing.T) {
	l := newShard(t).log
	assert.False(t, l.Doubted())
	l.Doubt(true)
	assert.True(t, l.Doubted())
	assert.True(t, l.Clone().Doubted())
	l.Doubt(false)
	assert.False(t, l.Doubted())
}
