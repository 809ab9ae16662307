package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

func TestANewcomerLooksFrom20MinutesAgoThen4TimesFurther(t *testing.T) {
	back := Lookbacks()
	assert.Equal(t, 20*time.Minute, back[0])
	for i := 1; i < len(back); i++ {
		assert.Equal(t, 4*back[i-1], back[i])
	}
	assert.Equal(t, 85*time.Hour+20*time.Minute, back[len(back)-1], "from there to the start is no more than as much again")
}

func TestOffset0IsABase(t *testing.T) {
	s := newShard(t)
	s.join("a")
	b, ok := s.scan(0).Base()
	require.True(t, ok)
	assert.Equal(t, int64(0), b.From)
	equal(t, s.log, s.follow(b))
	_, ok = s.scan(1).Base()
	assert.False(t, ok)
}

func TestTheCompleteSnapshotWithTheLargestUptoIsTheBase(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.claim("a", 1, 2, 3)
	first := s.snapshot("a", 40)
	s.claim("a", 4)
	second := s.snapshot("a", 40)
	s.beat("a")
	third := s.announce("a")
	s.log.Own(id("a"))
	s.announce("a")
	for _, rec := range smaller(s.log.TakeSnapshot(), 40)[1:] {
		s.append(rec) // the first chunk is missing
	}
	for from := range s.next {
		b, ok := s.scan(from).Base()
		switch {
		case from <= second+1:
			require.True(t, ok, "from %d", from)
			assert.Equal(t, second+1, b.From)
			assert.Equal(t, second, b.World.Last())
			equal(t, s.log, s.follow(b))
		default:
			assert.False(t, ok, "from %d: a snapshot serves only who can read every record after its upto", from)
		}
	}
	assert.Less(t, first, third)
}

func TestChunksMayInterleaveAndComeTwice(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.join("b")
	s.log.Own(id("a"))
	s.log.Own(id("b"))
	s.announce("a")
	as := smaller(s.log.TakeSnapshot(), 30)
	upto := s.announce("b")
	bs := smaller(s.log.TakeSnapshot(), 30)
	require.Greater(t, len(as), 3)
	for i := len(as) - 1; i > 0; i-- {
		for _, rec := range []lease.Record{as[i], as[i], bs[i]} {
			s.append(rec)
			require.Equal(t, Fine, s.outcome, "twice is not two")
		}
	}
	for _, bad := range []func(*lease.Snapshot){
		func(c *lease.Snapshot) { c.Count = 0 },
		func(c *lease.Snapshot) { c.Index = c.Count },
		func(c *lease.Snapshot) { c.Upto = -1 },
		func(c *lease.Snapshot) { c.Upto = 1 << 50 },
		func(c *lease.Snapshot) { c.Chunk = nil },
		func(c *lease.Snapshot) { c.Count = 1 << 31 },
		func(c *lease.Snapshot) { c.Author = lease.InstanceID{9} },
	} {
		rec := bs[0]
		bad(&rec.Snapshot)
		s.append(rec)
		require.Equal(t, Fine, s.outcome)
	}
	_, ok := s.scan(1).Base()
	require.False(t, ok, "both lack their first chunk")
	s.append(as[0])
	s.append(bs[0])
	assert.Equal(t, Fine, s.outcome)
	b, ok := s.scan(1).Base()
	require.True(t, ok)
	assert.Equal(t, upto+1, b.From)
	equal(t, s.log, s.follow(b))
}

// What is no snapshot that its author could have announced makes no base.
func TestNothingUnreadableMakesABase(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.log.Own(id("a"))
	s.announce("a")
	good := s.log.TakeSnapshot()
	require.Len(t, good, 1)
	try := func(change func(*lease.Record)) bool {
		rec := good[0]
		rec.Snapshot.Chunk = append([]byte(nil), rec.Snapshot.Chunk...)
		change(&rec)
		rec.Offset = s.next
		sc := NewScan(coordination, 1)
		sc.Add(&rec, nil)
		_, ok := sc.Base()
		return ok
	}
	assert.True(t, try(func(*lease.Record) {}))
	assert.False(t, try(func(r *lease.Record) { r.Snapshot.Chunk = r.Snapshot.Chunk[:len(r.Snapshot.Chunk)-1] }))
	assert.False(t, try(func(r *lease.Record) { r.Snapshot.Chunk = r.Snapshot.Chunk[:5] }))
	assert.False(t, try(func(r *lease.Record) { r.Snapshot.Author = id("b") }), "not its author")
	assert.False(t, try(func(r *lease.Record) { r.Snapshot.Upto-- }), "another upto")
	assert.False(t, try(func(r *lease.Record) { r.Snapshot.TopicID = lease.TopicID{1} }), "another incarnation of the topic")
	assert.True(t, try(func(r *lease.Record) { r.Snapshot.TopicID = lease.TopicID{} }))
	at := s.foreign()
	later := appendPayload(nil, 1, s.log.World())
	assert.False(t, try(func(r *lease.Record) { r.Snapshot.Chunk = later }), "a world of a later offset")
	assert.False(t, try(func(r *lease.Record) { r.Snapshot.Chunk, r.Snapshot.Upto = later, at }), "at an offset that is not its heartbeat's")
}

func TestABaseServesOnlyWhoHasReadFromSeenPlusOneOn(t *testing.T) {
	s := newShard(t)
	s.foreign() // 0
	s.foreign() // 1
	s.next = 10
	o := s.base(5)
	require.Equal(t, lease.Rebased, s.events[0].Kind)
	s.join("a")
	for from := int64(1); from < s.next; from++ {
		b, ok := s.scan(from).Base()
		if from > 6 {
			assert.False(t, ok, "from %d", from)
			continue
		}
		require.True(t, ok, "from %d", from)
		assert.Equal(t, o, b.From)
		equal(t, s.log, s.follow(b))
	}
}

func TestABaseIsValidIffLastIsNotAboveSeenAndSeenIsBeforeIt(t *testing.T) {
	s := newShard(t)
	s.next = 3
	s.foreign() // 3
	s.probe()   // 4: no record of the group
	o := s.base(2)
	_, ok := s.scan(1).Base()
	assert.False(t, ok, "3 is above its seen")
	s.base(4)
	_, ok = s.scan(1).Base()
	assert.False(t, ok, "the invalid Base at %d is a record of the group too", o)
	s.base(s.next)
	_, ok = s.scan(1).Base()
	assert.False(t, ok, "nobody has read the record that it writes")
	s.append(lease.Record{Kind: lease.KindBase, Base: lease.Base{Seen: s.next - 1, TokenBase: lease.MaxTokenBase}})
	_, ok = s.scan(1).Base()
	assert.False(t, ok, "absurd")
	o = s.base(s.next - 1)
	b, ok := s.scan(1).Base()
	assert.True(t, ok)
	assert.Equal(t, o, b.From)
}

func TestABaseMayHaveSeenNothingAndProposeAnyTokenBase(t *testing.T) {
	for _, c := range []struct {
		name            string
		seen, tokenBase int64
		valid           bool
	}{
		{"an empty shard", -1, 0, true},
		{"below an empty shard", -2, 0, false},
		{"a token base below 0", -1, -1, false},
		{"the largest token base", -1, lease.MaxTokenBase - 1, true},
		{"above the largest", -1, lease.MaxTokenBase, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newShard(t)
			rec := lease.Record{Kind: lease.KindBase, Base: lease.Base{Seen: c.seen, TokenBase: c.tokenBase}}
			assert.Equal(t, c.valid, validBase(&rec, -1))
			s.append(rec)
			assert.Equal(t, c.valid, did(s.events, lease.Rebased), "as Apply judges it")
		})
	}
}

func TestTheNewestBaseWins(t *testing.T) {
	s := newShard(t)
	s.join("a")
	upto := s.snapshot("a", 1<<20)
	b, _ := s.scan(0).Base()
	assert.Equal(t, upto+1, b.From)
	o := s.base(s.next - 1)
	b, _ = s.scan(0).Base()
	assert.Equal(t, o, b.From)
	s.append(s.entries[upto+1].rec) // the old snapshot again
	b, _ = s.scan(0).Base()
	assert.Equal(t, o, b.From)
	s.seqs = map[string]uint64{}
	s.join("b")
	upto = s.snapshot("b", 1<<20)
	b, _ = s.scan(0).Base()
	assert.Equal(t, upto+1, b.From)
	equal(t, s.log, s.follow(b))
}
