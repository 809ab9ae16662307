package lease

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The limits are part of the protocol: a changed one is a new wire version. So they stand here once more.
func TestTheLimitsAreThoseOfTheProtocol(t *testing.T) {
	for what, c := range map[string]struct{ is, want int }{
		"MaxTopicName": {MaxTopicName, 249}, "MaxLabel": {MaxLabel, 1024}, "MaxJoinSize": {MaxJoinSize, 1_048_576},
		"MaxJoinsSize": {MaxJoinsSize, 268_435_456}, "MaxInstances": {MaxInstances, 10_000}, "MaxKeys": {MaxKeys, 1_048_576},
		"MaxPartitions": {MaxPartitions, 1_048_576}, "MaxMarks": {MaxMarks, 65_536}, "MaxReplaced": {MaxReplaced, 4},
	} {
		assert.Equal(t, c.want, c.is, what)
	}
}

// sized is a Join of exactly that size.
func sized(size int) Record {
	rec := member()
	left := size - joinSize(rec.Join.Client, rec.Join.Host, rec.Join.Interests, rec.Join.Pinned)
	for left > 0 {
		name := min(left-32, MaxTopicName)
		if rest := left - 32 - name; rest > 0 && rest < 33 {
			name -= 33 - rest
		}
		rec.Join.Pinned = append(rec.Join.Pinned, Key{strings.Repeat("t", name), 0})
		left -= name + 32
	}
	return rec
}

// What is at a limit is taken, by Apply and from a snapshot; what is one above it is taken by neither.
func TestALimitIsTheMostThatIsTaken(t *testing.T) {
	label := func(n int) string { return strings.Repeat("x", n) }
	for _, c := range []struct {
		name string
		join func(more int) Record
	}{
		{"client", func(more int) Record { r := member(); r.Join.Client = label(1024 + more); return r }},
		{"host", func(more int) Record { r := member(); r.Join.Host = label(1024 + more); return r }},
		{"size", func(more int) Record { return sized(1<<20 + more) }},
		{"partitions", func(more int) Record {
			r := member()
			r.Join.Interests = []Interest{{Topics: []TopicInterest{{"t", 1<<20 - 7 + int32(more)}, {"u", 7}}}}
			return r
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := newFlood(t)
			require.Len(t, f.write(numbered(1), c.join(0)), 2)
			require.NoError(t, checkWorld(f.w))
			f = newFlood(t)
			f.ignored(f.write(numbered(1), c.join(1)))
			assert.Zero(t, f.w.joins)

			// What Apply does not take is in nobody's snapshot either.
			f = newFlood(t)
			rec := c.join(1)
			f.write(numbered(1), member())
			in := f.w.instances[numbered(1)]
			in.Client, in.Host, in.Interests, in.Pinned = rec.Join.Client, rec.Join.Host, rec.Join.Interests, rec.Join.Pinned
			_, err := ParseWorld(f.w.AppendBinary(nil))
			assert.ErrorIs(t, err, errWorld)
		})
	}
}

// An instance that says less than before makes room for others.
func TestOfTheJoinsOfAnInstanceTheNewestCounts(t *testing.T) {
	f := newFlood(t)
	large, small := sized(1<<20), sized(1<<19)
	f.write(numbered(1), large)
	require.Equal(t, 1<<20, f.w.joins)
	f.write(numbered(1), small)
	require.Equal(t, 1<<19, f.w.joins)
	require.NoError(t, checkWorld(f.w))
	for i := range 255 {
		require.Len(t, f.write(numbered(i+2), large), 2)
	}
	assert.Equal(t, MaxJoinsSize-1<<19, f.w.joins)
	f.ignored(f.write(numbered(1), sized(1<<20+1)))
	assert.Len(t, f.write(numbered(1), large), 2, "just as much as there may be")
	assert.Equal(t, MaxJoinsSize, f.w.joins)
	f.ignored(f.write(numbered(1000), member()))
	f.write(numbered(1), Record{Kind: KindLeave})
	assert.Equal(t, MaxJoinsSize-1<<20, f.w.joins)
}

func TestParseWorldSaysWhatIsWrong(t *testing.T) {
	slotOf := func(s *script, k string) *slot { return s.w.topics.find(key(k).Topic).find(key(k).Partition) }
	a := func(s *script) *instance { return s.w.instances[id("a")] }
	for says, change := range map[string]func(s *script){
		"topic without a name":                    func(s *script) { s.w.topics.find("w").name = "" },
		"key without a topic":                     func(s *script) { a(s).Pinned = []Key{{"", 1}} },
		"ended instances out of order":            func(s *script) { s.w.ended = append(s.w.ended, s.w.ended[0]); s.w.ended[1] = twin(s.w.ended[0]) },
		"instances out of order":                  func(s *script) { a(s).FirstJoin = s.w.present[1].FirstJoin },
		"interests over the limit":                func(s *script) { a(s).Pinned = sized(MaxJoinSize + 1).Join.Pinned },
		"key of which nothing is known":           func(s *script) { s.w.makeSlot(s.w.topic("x"), 5) },
		"topic id without progress":               func(s *script) { slotOf(s, "v").life = lives("A") },
		"progress of a whole topic":               func(s *script) { slotOf(s, "v").next = 5 },
		"number out of range":                     func(s *script) { s.w.tokenBase = MaxTokenBase },
		"seq 0":                                   func(s *script) { a(s).Seq = 0 },
		"ttl out of range":                        func(s *script) { a(s).TTL = MinTTL - 1 },
		"renewed before its first join":           func(s *script) { a(s).FirstJoin = a(s).Renewed + 1 },
		"ended before it joined":                  func(s *script) { s.w.ended[0].EndedAt = s.w.ended[0].FirstJoin },
		"parked with interests":                   func(s *script) { s.w.instances[id("parked")].Load = Load{1, 0} },
		"instance without an id of its own":       func(s *script) { a(s).ID = id("b") },
		"something known before the first record": func(s *script) { s.w.last = -1 },
	} {
		t.Run(says, func(t *testing.T) {
			s := rich(t)
			change(s)
			_, err := ParseWorld(s.w.AppendBinary(nil))
			require.ErrorIs(t, err, errWorld)
			assert.ErrorContains(t, err, says)
		})
	}
	for says, change := range map[string]func(b []byte) []byte{
		"format 2":         func(b []byte) []byte { b[0] = 2; return b },
		"1 bytes too many": func(b []byte) []byte { return append(b, 0) },
		"cut short":        func(b []byte) []byte { return b[:10] },
		"bad number":       func(b []byte) []byte { return b[:17] },
		"not in canonical form": func(b []byte) []byte { // the last number in two bytes
			return append(append(b[:len(b)-1:len(b)-1], b[len(b)-1]|0x80), 0)
		},
	} {
		t.Run(says, func(t *testing.T) {
			_, err := ParseWorld(change(rich(t).w.AppendBinary(nil)))
			require.ErrorIs(t, err, errWorld)
			assert.ErrorContains(t, err, says)
		})
	}
}

// What the bytes would spell alike is looked at all the same.
func TestParseWorldRefusesWhatTheBytesSpellWell(t *testing.T) {
	slotOf := func(s *script, k string) *slot { return s.w.topics.find(key(k).Topic).find(key(k).Partition) }
	for _, c := range []struct {
		says   string
		change func(s *script)
	}{
		{"topic without a name", func(s *script) { s.w.instances[id("a")].Interests[0].Topics[0].Topic = "" }},
		{"empty topic id", func(s *script) { slotOf(s, "t/0").life = lives("") }},
		{"number out of range", func(s *script) { slotOf(s, "t/0").owner = &instance{index: 99} }},
		{"marks out of order", func(s *script) {
			k := slotOf(s, "t/1")
			s.w.marks[k] = []*instance{s.w.instances[id("b")], s.w.instances[id("a")]}
			s.w.marked++
		}},
		{"marks out of order", func(s *script) {
			k := slotOf(s, "t/1")
			s.w.marks[k] = append(s.w.marks[k], s.w.marks[k][0])
			s.w.marked++
		}},
	} {
		t.Run(c.says, func(t *testing.T) {
			s := rich(t)
			c.change(s)
			_, err := ParseWorld(s.w.AppendBinary(nil))
			require.ErrorIs(t, err, errWorld)
			assert.ErrorContains(t, err, c.says)
		})
	}
}

// The bound of a record's size counts each of its parts.
func TestTheBoundOfASizeCountsEachPart(t *testing.T) {
	id, number, length := 2+5+16, 2+10, 2+5
	head := 2 + id + 2*number + length
	k := length + length + len("topic") + number
	for _, c := range []struct {
		rec  Record
		want int
	}{
		{Record{Kind: KindClaim, Claim: Claim{Keys: keys("topic/1", "topic/2")}}, number + 2*k},
		{Record{Kind: KindRelease, Release: Release{Keys: []ReleasedKey{{Key: key("topic/1"), Partitions: []int32{1}, Next: []int64{5}}}}},
			id + 3*number + length + k + number + id + 2*(length+10)},
		{Record{Kind: KindJoin, Join: Join{Client: "abc", Host: "de", Pinned: keys("topic/1"),
			Interests: []Interest{{Topics: []TopicInterest{{"topic", 1}}}}}},
			2*length + 5 + 3*number + id + length + 4*number + length + length + 5 + number + k},
		{Record{Kind: KindBase}, 2 * number},
		{Record{Kind: KindEvict, Evict: Evict{Targets: []Target{{}, {}}}}, number + 2*(length+id+number)},
		{Record{Kind: KindDirective, Directive: Directive{Key: key("topic/1")}}, 4*number + k + id},
		{Record{Kind: KindSnapshot, Snapshot: Snapshot{Chunk: make([]byte, 9)}}, 3*number + 2*id + length + 9},
		{Record{Kind: KindHeartbeat, Heartbeat: Heartbeat{Topics: []TopicProgress{at("topic/1", 2, 3)}}},
			length + 5*number + length + length + 5 + id + 3*(length+10)},
	} {
		assert.Equal(t, head+c.want, c.rec.SizeBound(), c.rec.Kind)
	}
}

// twin is an ended instance of the same time.
func twin(in *instance) *instance {
	other := *in
	other.ID = id("twin")
	return &other
}

// A number ends with its bytes, wherever they are cut: what is read after the first error is nothing.
func TestAParserReadsZerosAfterItsFirstError(t *testing.T) {
	for name, read := range map[string]func(p *parser) any{
		"uint":   func(p *parser) any { return p.uint() },
		"int":    func(p *parser) any { return p.int(5) },
		"signed": func(p *parser) any { return p.signed() },
		"count":  func(p *parser) any { return p.count(3) },
		"string": func(p *parser) any { return p.string(9) },
		"offset": func(p *parser) any { return p.offset() },
	} {
		for what, b := range map[string][]byte{"nothing": {}, "cut": {0x80}, "too long": []byte(strings.Repeat("\xff", 11)), "too large": {99}} {
			if (name == "uint" || name == "signed") && what == "too large" {
				continue
			}
			p := parser{rest: b, w: NewWorld(TopicID{})}
			assert.Empty(t, read(&p), "%s of %s", name, what)
			require.ErrorIs(t, p.err, errWorld, fmt.Sprint(name, what))
			first := p.err
			p.fail("another")
			assert.Equal(t, first, p.err)
			assert.Empty(t, p.rest)
		}
	}
	p := parser{rest: []byte{4}, w: NewWorld(TopicID{})}
	assert.Zero(t, p.count(1), "four things of a byte each do not fit into nothing")
	assert.Error(t, p.err)
}
