package lease

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The limits once more, on small worlds that are told to be large: which side of a limit each look at it is on.

// crowded is a world of two topics in which t/0 is held, t/1 was, and of "whole" all is held; of that two partitions are stated.
func crowded(t *testing.T) (f *flood, held, whole int64) {
	f = newFlood(t)
	rec := member()
	rec.Join.Interests = []Interest{{Topics: []TopicInterest{{"whole", 2}}}}
	f.write(numbered(1), rec)
	f.write(numbered(1), Record{Kind: KindClaim, Claim: Claim{Keys: keys("t/0", "t/1")}})
	held = f.w.Last()
	f.write(numbered(1), Record{Kind: KindRelease, Release: Release{Keys: []ReleasedKey{releasing("t/1", held)}}})
	f.write(numbered(1), Record{Kind: KindClaim, Claim: Claim{Keys: keys("whole")}})
	return f, held, f.w.Last()
}

func TestTheLastKeyThatThereIsRoomForIsTaken(t *testing.T) {
	seek := func(k string) Record {
		return Record{Kind: KindDirective, Directive: Directive{Kind: Seek, Key: key(k), Epoch: NoEpoch, Next: 5}}
	}
	for _, c := range []struct {
		name string
		rec  func(held, whole int64) Record
		more int // keys that it needs
	}{
		{"a claim", func(int64, int64) Record { return Record{Kind: KindClaim, Claim: Claim{Keys: keys("u/0")}} }, 1},
		{"a claim of what is known", func(int64, int64) Record { return Record{Kind: KindClaim, Claim: Claim{Keys: keys("t/1")}} }, 0},
		{"progress", func(_, whole int64) Record {
			return Record{Kind: KindHeartbeat, Heartbeat: Heartbeat{Topics: []TopicProgress{at("whole/1", whole, 5)}}}
		}, 1},
		{"progress of what is known", func(held, _ int64) Record {
			return Record{Kind: KindHeartbeat, Heartbeat: Heartbeat{Topics: []TopicProgress{at("t/0", held, 5)}}}
		}, 0},
		{"a seek", func(int64, int64) Record { return seek("u/0") }, 1},
		{"a seek of what is known", func(int64, int64) Record { return seek("t/1") }, 0},
		{"a seek of a topic", func(int64, int64) Record { return seek("whole") }, 2},
	} {
		f, held, whole := crowded(t)
		f.w.keys = MaxKeys - c.more
		events := f.write(numbered(1), c.rec(held, whole))
		require.Greater(t, len(events), 1, c.name)
		for _, e := range events {
			assert.NotEqual(t, TooMany, e.Reason, c.name)
		}
		if c.more > 0 {
			f, held, whole = crowded(t)
			f.w.keys = MaxKeys - c.more + 1
			events = f.write(numbered(1), c.rec(held, whole))
			assert.Equal(t, TooMany, events[len(events)-1].Reason, c.name)
			assert.Nil(t, f.w.topics.find("u"))
		}
	}
	f, _, whole := crowded(t)
	f.write(numbered(1), Record{Kind: KindHeartbeat, Heartbeat: Heartbeat{Topics: []TopicProgress{at("whole/1", whole, 5)}}})
	f.w.keys = MaxKeys - 1
	events := f.write(numbered(1), seek("whole"))
	assert.NotEqual(t, TooMany, events[len(events)-1].Reason, "one of its partitions is known")
}

func TestTheLastMarkThatThereIsRoomForIsTaken(t *testing.T) {
	for marked, taken := range map[int]bool{MaxMarks - 1: true, MaxMarks: false} {
		f, held, _ := crowded(t)
		f.w.marked = marked
		events := f.write(numbered(1), Record{Kind: KindRelease, Release: Release{Unfit: true, Keys: []ReleasedKey{releasing("t/0", held)}}})
		last := events[len(events)-1]
		assert.Equal(t, taken, last.Kind == Marked)
		assert.Equal(t, !taken, last.Reason == TooMany)
		assert.Equal(t, MaxMarks, f.w.marked)
	}
	assert.False(t, newFlood(t).w.HasMarks())
}

func TestTheLastJoinThatThereIsRoomForIsTaken(t *testing.T) {
	rec := member()
	size := joinSize(rec.Join.Client, rec.Join.Host, nil, nil)
	for before, taken := range map[int]bool{MaxJoinsSize - size: true, MaxJoinsSize - size + 1: false} {
		f := newFlood(t)
		f.w.joins = before
		events := f.write(numbered(1), rec)
		assert.Equal(t, taken, events[0].Kind != Ignored)
		if taken {
			assert.Equal(t, MaxJoinsSize, f.w.joins)
			assert.NotEqual(t, Ignored, f.write(numbered(1), rec)[0].Kind, "the same once more takes nothing more")
			rec := member()
			rec.Join.Interests = []Interest{{Topics: []TopicInterest{{"t", 1}}}}
			assert.Equal(t, TooMany, f.write(numbered(1), rec)[0].Reason)
		}
	}
}

func TestAParserHoldsEachLimit(t *testing.T) {
	parse := func(b []byte, set func(*World), read func(*parser)) string {
		p := parser{rest: b, w: NewWorld(TopicID{}), former: map[string]*instance{}}
		if set != nil {
			set(p.w)
		}
		if read(&p); p.err == nil {
			return ""
		}
		return p.err.Error()
	}
	head := append([]byte{format}, make([]byte, 18)...)
	world := func(p *parser) { p.world() }
	for n, over := range map[uint64]bool{MaxInstances: false, MaxInstances + 1: true} {
		said := parse(append(binary.AppendUvarint(head, n), make([]byte, 28*n)...), nil, world)
		if over {
			assert.Contains(t, said, "too many instances")
		} else {
			assert.NotContains(t, said, "too many instances")
		}
	}
	none := append(head[:len(head):len(head)], 0, 0, 0)
	assert.Empty(t, parse(none, func(w *World) { w.joins, w.partitions = MaxJoinsSize, MaxPartitions }, world))
	assert.Contains(t, parse(none, func(w *World) { w.joins = MaxJoinsSize + 1 }, world), "interests over the limit")
	assert.Contains(t, parse(none, func(w *World) { w.partitions = MaxPartitions + 1 }, world), "interests over the limit")

	two := append([]byte{1, 't', 2}, make([]byte, 6)...)
	topic := func(p *parser) { p.topic() }
	assert.Contains(t, parse(two, func(w *World) { w.keys = MaxKeys - 1 }, topic), "too many keys")
	assert.Contains(t, parse(two, func(w *World) { w.keys = MaxKeys - 2 }, topic), "key of which nothing is known")

	marks := func(p *parser) { p.marks(new(slot)) }
	assert.Contains(t, parse([]byte{0, 0}, nil, marks), "number of marks")
	assert.Contains(t, parse([]byte{1, 0}, func(w *World) { w.marked = MaxMarks }, marks), "number of marks")
	assert.Contains(t, parse([]byte{1, 0}, func(w *World) { w.marked = MaxMarks - 1 }, marks), "no such instance")

	one := func(w *World) { w.present = []*instance{{}} }
	assert.Contains(t, parse([]byte{1, 1}, one, func(p *parser) { p.instanceAt() }), "number out of range")
	assert.Empty(t, parse([]byte{0}, one, func(p *parser) { p.instanceAt() }))

	count := func(p *parser) { p.count(3) }
	assert.Empty(t, parse([]byte{2, 0, 0, 0, 0, 0}, nil, count))
	assert.Contains(t, parse([]byte{3, 0, 0, 0, 0, 0}, nil, count), "number out of range")

	p := parser{rest: []byte{6, keyOwned}, w: NewWorld(TopicID{})}
	in := p.w.topic("t")
	p.w.makeSlot(in, 5)
	p.slot(in, new(slot))
	assert.ErrorIs(t, p.err, ErrTwoOwners)
}

func TestATopicOfWhichNothingIsKnownIsForgottenInEachList(t *testing.T) {
	w := NewWorld(TopicID{})
	x := w.topic("x")
	require.Len(t, w.orderedTopics(), 1)
	w.prune(x)
	assert.Empty(t, w.orderedTopics())
	w.dropSlot(w.makeSlot(w.topic("x"), 5))
	assert.Nil(t, w.topics.find("x"))
	assert.Zero(t, w.keys)
	interests := []Interest{{Topics: []TopicInterest{{"x", 1}}}}
	w.state(interests, 1)
	assert.NotNil(t, w.topics.find("x"))
	w.state(interests, -1)
	assert.Nil(t, w.topics.find("x"))
	assert.Zero(t, w.partitions)
}

func TestAWalkOfPartitionsEndsWhereItIsLeft(t *testing.T) {
	w := NewWorld(TopicID{})
	x := w.topic("x")
	all := []int32{0, 3, 1 << 20, 1 << 21, 1 << 22}
	for _, p := range all {
		w.makeSlot(x, p)
	}
	for n := range all {
		var seen []int32
		for s := range x.slots.partitions() {
			if seen = append(seen, s.partition); len(seen) == n+1 {
				break
			}
		}
		assert.Equal(t, all[:n+1], seen)
	}
}

func TestACopyNumbersTheInstancesItself(t *testing.T) {
	s := rich(t)
	for _, in := range s.w.present {
		in.index = 99
	}
	assert.Equal(t, s.w.AppendBinary(nil), s.w.Clone().AppendBinary(nil))
	for _, in := range s.w.present {
		in.index = 99
	}
	copied := s.w.Clone()
	require.NoError(t, checkWorld(copied))
}

func TestWhatIsNoRecordOfTheGroupLeavesTheEventsAsTheyWere(t *testing.T) {
	before := []Event{{Kind: Renewed}}
	w := NewWorld(TopicID{})
	assert.Equal(t, before, w.Apply(&Record{Kind: KindProbe, Offset: 5}, before))
	assert.EqualValues(t, -1, w.Last())
}

func TestAKeyIsForgottenWhereverItIsKept(t *testing.T) {
	for far := int32(16); far < 48; far++ {
		for near := range far {
			w := NewWorld(TopicID{})
			x := w.topic("x")
			s := w.makeSlot(x, far)
			w.makeSlot(x, near)
			w.dropSlot(s)
			require.Nil(t, x.find(far), near)
			require.NotNil(t, x.find(near), far)
		}
	}
}
