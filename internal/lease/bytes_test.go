package lease

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rich is a world with one of everything.
func rich(t *testing.T) *script {
	s := newScript(t)
	rec := wanting("client-a", TopicInterest{"t", 4}, TopicInterest{"u", 2})
	rec.Join.Pinned, rec.Join.TokenBase = keys("t/3", "v"), 99<<20
	s.write("a", rec)
	s.join("b", "left", "parked")
	e := s.claim("a", "t/0", "t/1", "v")
	f := s.claim("b", "u")
	s.claim("parked", "w/2")
	s.write("a", Record{Kind: KindHeartbeat, Heartbeat: Heartbeat{Load: Load{7, 8}, Topics: []TopicProgress{atID("t/0", "A", e, 5), at("v/9", e, 6)}}})
	s.heartbeat("a", atID("t/0", "B", e, 3))
	s.heartbeat("b", at("u/1", f, 7))
	s.releaseUnfit("a", releasing("t/1", e, 4))
	s.leave("left")
	s.park("parked", time.Minute)
	return s
}

func TestBytesOfTheEmptyWorld(t *testing.T) {
	w := NewWorld(TopicID{})
	b := w.AppendBinary(nil)
	assert.Equal(t, append([]byte{format}, make([]byte, 16+5)...), b)
	require.NoError(t, checkWorld(w))
}

func TestAppendBinaryAppends(t *testing.T) {
	w := rich(t).w
	assert.Equal(t, append([]byte("before"), w.AppendBinary(nil)...), w.AppendBinary([]byte("before")))
}

// S1: equal sequences of records give equal worlds, also through a snapshot taken at any place.
func TestAWorldFromASnapshotGoesTheSameWay(t *testing.T) {
	for seed := range uint64(20) {
		src, w := newSource(randomBytes(seed, 2000)), NewWorld(TopicID{9})
		rng := rand.New(rand.NewPCG(seed, 1))
		other := w
		for !src.done() {
			rec := src.record(w)
			events := w.Apply(&rec, nil)
			if other != w {
				require.Equal(t, events, other.Apply(&rec, nil), "the events are the same too")
			}
			require.Equal(t, w.AppendBinary(nil), other.AppendBinary(nil))
			require.Equal(t, w.Digest(), other.Digest())
			require.Equal(t, w.Version(), other.Version())
			if rng.IntN(10) == 0 {
				var err error
				other, err = ParseWorld(w.AppendBinary(nil))
				require.NoError(t, err)
			}
		}
	}
}

// Every fact is in the bytes and in the digest: most of these changes are one record at one offset, by one author with one
// seq, so the worlds differ by just that fact.
func TestEveryChangeChangesBytesAndDigest(t *testing.T) {
	type fingerprint struct {
		bytes  string
		digest uint64
	}
	changed := map[string]fingerprint{}
	for what, change := range map[string]func(s *script){
		"renewal":       func(s *script) { s.heartbeat("b") },
		"load":          func(s *script) { s.write("b", Record{Kind: KindHeartbeat, Heartbeat: Heartbeat{Load: Load{1, 0}}}) },
		"other load":    func(s *script) { s.write("b", Record{Kind: KindHeartbeat, Heartbeat: Heartbeat{Load: Load{0, 1}}}) },
		"interests":     func(s *script) { s.write("b", wanting("client-b", TopicInterest{"t", 1})) },
		"partitions":    func(s *script) { s.write("b", wanting("client-b", TopicInterest{"t", 2})) },
		"topic":         func(s *script) { s.write("b", wanting("client-b", TopicInterest{"u", 1})) },
		"pinned":        func(s *script) { r := join(""); r.Join.Pinned = keys("t/1"); s.write("b", r) },
		"other pinned":  func(s *script) { r := join(""); r.Join.Pinned = keys("t/2"); s.write("b", r) },
		"whole":         func(s *script) { r := join(""); r.Join.Interests = []Interest{{Whole: true}}; s.write("b", r) },
		"greedy":        func(s *script) { r := join(""); r.Join.Interests = []Interest{{Greedy: true}}; s.write("b", r) },
		"no wish":       func(s *script) { r := join(""); r.Join.Interests = []Interest{{}}; s.write("b", r) },
		"maximum":       func(s *script) { r := join(""); r.Join.Interests = []Interest{{Max: 1}}; s.write("b", r) },
		"weight":        func(s *script) { r := join(""); r.Join.Interests = []Interest{{Weight: 1}}; s.write("b", r) },
		"lease":         func(s *script) { s.claim("b", "t/2") },
		"other lease":   func(s *script) { s.claim("b", "t/3") },
		"progress":      func(s *script) { s.heartbeat("b", at("u/1", 105, 8)) },
		"next":          func(s *script) { s.heartbeat("b", at("u/1", 105, 9)) },
		"topic id":      func(s *script) { s.heartbeat("b", atID("u/1", "A", 105, 8)) },
		"release":       func(s *script) { s.release("b", "", releasing("u", 105)) },
		"unfit":         func(s *script) { s.releaseUnfit("b", releasing("u", 105)) },
		"hand-over":     func(s *script) { s.release("b", "a", releasing("u", 105)) },
		"leave":         func(s *script) { s.leave("b") },
		"park":          func(s *script) { s.park("b", time.Minute) },
		"longer park":   func(s *script) { s.park("b", time.Hour) },
		"evict":         func(s *script) { s.evict("b", "a", s.renewed("a")) },
		"last":          func(s *script) { s.foreign(1) },
		"join":          func(s *script) { s.joinAs("c", "x") },
		"join with ttl": func(s *script) { r := join("x"); r.Join.TTL = time.Second; s.write("c", r) },
		"host":          func(s *script) { r := join("x"); r.Join.Host = "x"; s.write("c", r) },
		"client":        func(s *script) { s.joinAs("c", "y") },
		"wire version":  func(s *script) { r := join("x"); r.Join.MaxVersion = 3; s.write("c", r) },
		"base":          func(s *script) { s.base(s.w.Last(), 1) },
		"token base":    func(s *script) { s.base(s.w.Last(), 2) },
		"other id":      func(s *script) { s.joinAs("d", "x") },
	} {
		s := rich(t)
		change(s)
		now := fingerprint{string(s.w.AppendBinary(nil)), s.w.Digest()}
		for before, f := range changed {
			assert.NotEqual(t, f.bytes, now.bytes, "%s and %s", what, before)
			assert.NotEqual(t, f.digest, now.digest, "%s and %s", what, before)
		}
		changed[what] = now
	}
}

func TestTheTopicIDIsInTheBytesAndNotInTheDigest(t *testing.T) {
	a, b := NewWorld(TopicID{1}), NewWorld(TopicID{})
	assert.Equal(t, a.Digest(), b.Digest())
	parsed, err := ParseWorld(a.AppendBinary(nil))
	require.NoError(t, err)
	assert.Equal(t, TopicID{1}, parsed.TopicID())
}

func TestCloneIsIndependent(t *testing.T) {
	s := rich(t)
	c := s.w.Clone()
	was, version, digest := c.AppendBinary(nil), c.Version(), c.Digest()
	for _, change := range []func(){
		func() { s.release("b", "a", releasing("u", 105, 10, 20)) },
		func() { s.write("a", wanting("", TopicInterest{"x", 4})) },
		func() { s.evict("b", "parked", s.renewed("parked")) },
		func() { s.claim("b", "t/1", "t/7") },
		func() { s.seek("a", "t", "", 0, NoEpoch) },
		func() { s.leave("a") },
		func() { s.foreign(2 * EndedMemory) },
		func() { s.base(s.w.Last(), 1) },
	} {
		change()
		assert.Equal(t, was, c.AppendBinary(nil))
		assert.Equal(t, version, c.Version())
		assert.Equal(t, digest, c.Digest())
	}
	assert.NotEqual(t, was, s.w.AppendBinary(nil))
	assert.NotZero(t, s.w.Last())
	assert.Equal(t, "client-a", c.Instance(id("a")).Client)
	assert.NotZero(t, c.Instance(id("a")).RenewedTime, "what is for display is copied too")
}

func TestParseWorldTakesNothingButCanonicalBytes(t *testing.T) {
	b := rich(t).w.AppendBinary(nil)
	for n := range b {
		_, err := ParseWorld(b[:n])
		require.ErrorIs(t, err, errWorld, "cut after %d bytes", n)
	}
	_, err := ParseWorld(append(bytes.Clone(b), 0))
	require.ErrorIs(t, err, errWorld)
	// Any byte changed: another world, or none; never a second spelling of the same.
	for i := range b {
		for _, bit := range []byte{1, 2, 4, 8, 16, 32, 64, 128} {
			c := bytes.Clone(b)
			c[i] ^= bit
			if w, err := ParseWorld(c); err == nil {
				require.Equal(t, c, w.AppendBinary(nil))
				require.NoError(t, checkWorld(w))
			}
		}
	}
}

// lives makes the life of a topic that had these ids, oldest first.
func lives(ids ...string) (l *life) {
	for _, id := range ids {
		l = &life{topicID(id), l}
	}
	return l
}

func TestParseWorldRefusesWhatCannotBe(t *testing.T) {
	build := func(change func(s *script)) []byte {
		s := rich(t)
		change(s)
		return s.w.AppendBinary(nil)
	}
	slotOf := func(s *script, k string) *slot { return s.w.topics.find(key(k).Topic).find(key(k).Partition) }
	instanceOf := func(s *script, n string) *instance { return s.w.instances[id(n)] }
	for what, change := range map[string]func(s *script){
		"a whole topic beside a partition": func(s *script) {
			s.w.assign(s.w.makeSlot(s.w.topic("t"), WholeTopic), instanceOf(s, "a"), 105)
		},
		"an epoch after the last record": func(s *script) { slotOf(s, "t/0").epoch = s.w.last + 1 },
		"an epoch before its owner":      func(s *script) { slotOf(s, "u").epoch = instanceOf(s, "b").FirstJoin },
		"a renewal after the last":       func(s *script) { instanceOf(s, "a").Renewed = s.w.last + 1 },
		"a renewal before the first":     func(s *script) { instanceOf(s, "b").Renewed = instanceOf(s, "b").FirstJoin - 1 },
		"two with one id":                func(s *script) { instanceOf(s, "a").ID = id("b") },
		"an ended one that is there":     func(s *script) { s.w.ended[0].ID = id("b") },
		"ended before it joined":         func(s *script) { s.w.ended[0].EndedAt = s.w.ended[0].FirstJoin },
		"ended too long ago": func(s *script) {
			s.w.last += EndedMemory + 1
		},
		"the wrong order of instances":  func(s *script) { s.w.present[0], s.w.present[1] = s.w.present[1], s.w.present[0] },
		"a ttl below the least":         func(s *script) { instanceOf(s, "a").TTL = MinTTL - 1 },
		"a ttl above the most":          func(s *script) { instanceOf(s, "a").TTL = MaxTTL + 1 },
		"a grace above the most":        func(s *script) { instanceOf(s, "parked").TTL = MaxGrace + 1 },
		"seq 0":                         func(s *script) { instanceOf(s, "a").Seq = 0 },
		"interests of the parked":       func(s *script) { instanceOf(s, "parked").Interests = []Interest{{}} },
		"a topic id replaced by itself": func(s *script) { slotOf(s, "t/0").life = lives("B", "B") },
		"five replaced topic ids": func(s *script) {
			slotOf(s, "t/0").life = lives("v", "w", "x", "y", "z", "B")
		},
		"a topic id without progress": func(s *script) { slotOf(s, "v").life = lives("A") },
		"progress of a whole topic":   func(s *script) { slotOf(s, "v").next = 5 },
		"a token base out of range":   func(s *script) { s.w.tokenBase = MaxTokenBase },
		"a topic without a name":      func(s *script) { s.w.topics.find("w").name = "" },
		"a key of which nothing is known": func(s *script) {
			s.w.makeSlot(s.w.topic("x"), 5)
		},
	} {
		_, err := ParseWorld(build(change))
		assert.ErrorIs(t, err, errWorld, what)
	}
	_, err := ParseWorld(build(func(*script) {}))
	assert.NoError(t, err)
}

// A few bytes that announce millions of things cost no memory.
func TestParseWorldAllocatesInProportionToItsInput(t *testing.T) {
	b := rich(t).w.AppendBinary(nil)
	huge := []byte{0xff, 0xff, 0xff, 0xff, 0x07}
	for i := 17; i < len(b); i++ {
		c := append(append(bytes.Clone(b[:i]), huge...), b[i:]...)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		_, err := ParseWorld(c)
		runtime.ReadMemStats(&after)
		require.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(1<<20), "at %d: %v", i, err)
	}
}

func TestVersionDependsOnWhatAPlanDependsOn(t *testing.T) {
	s := newScript(t)
	s.joinAs("old", "client")
	s.join("b")
	e := s.claim("b", "t/0")
	same := func(what string) {
		t.Helper()
		copied := s.w.Clone()
		assert.Equal(t, copied.Version(), s.w.Version(), what)
	}
	version := s.w.Version()
	s.heartbeat("b", at("t/0", e, 5))
	s.heartbeat("old")
	s.foreign(3)
	assert.Equal(t, version, s.w.Version(), "heartbeats and progress")
	same("copy")

	s.joinAs("new", "client")
	joined := s.w.Version()
	assert.NotEqual(t, version, joined)
	s.heartbeat("new")
	assert.Equal(t, joined, s.w.Version())
	s.heartbeat("old")
	heard := s.w.Version()
	assert.NotEqual(t, joined, heard, "an older namesake is heard of for the first time since: the new one is eligible now")
	s.heartbeat("old")
	assert.Equal(t, heard, s.w.Version())
}
