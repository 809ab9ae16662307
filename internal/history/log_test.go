package history

import (
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

var coordination = lease.TopicID{0xc0}

func id(name string) (i lease.InstanceID) { copy(i[:], name); return i }

// entry is a message of the group as it stands in the log.
type entry struct {
	rec   lease.Record
	value []byte
}

// shard is a log that is being written, and the Log of one who reads all of it.
type shard struct {
	t       *testing.T
	entries []entry
	next    int64
	seqs    map[string]uint64
	log     *Log
	events  []lease.Event // of the newest record
	outcome Outcome       // and what it brought
}

func newShard(t *testing.T) *shard {
	return &shard{t: t, seqs: map[string]uint64{}, log: NewLog(emptyBase(coordination, 0))}
}

// write appends a record by a named instance.
func (s *shard) write(author string, rec lease.Record) int64 {
	s.seqs[author]++
	rec.Instance, rec.Seq = id(author), s.seqs[author]
	return s.append(rec)
}

// append appends a record as it is; its value is some bytes of its own.
func (s *shard) append(rec lease.Record) int64 {
	rec.Offset, rec.Timestamp = s.next, 1_000_000+s.next
	if rec.Version == 0 {
		rec.Version = lease.WireVersion
	}
	s.next++
	e := entry{rec, binary.BigEndian.AppendUint64([]byte{0, 2, byte(rec.Kind)}, rec.Seq)}
	s.entries = append(s.entries, e)
	if s.log != nil {
		s.events, s.outcome = s.log.Take(&e.rec, e.value, nil)
	}
	return rec.Offset
}

func (s *shard) join(name string) int64 {
	return s.write(name, lease.Record{Kind: lease.KindJoin, Join: lease.Join{
		Client: name, TTL: 10 * time.Second, TopicID: coordination, MaxVersion: 2, TokenBase: 1 << 40,
		Interests: []lease.Interest{{Topics: []lease.TopicInterest{{Topic: "t", Partitions: 100}}}},
	}})
}

func (s *shard) claim(name string, parts ...int32) int64 {
	var keys []lease.Key
	for _, p := range parts {
		keys = append(keys, lease.Key{Topic: "t", Partition: p})
	}
	return s.write(name, lease.Record{Kind: lease.KindClaim, Claim: lease.Claim{Keys: keys}})
}

// beat writes a heartbeat that tells where the reader of all is.
func (s *shard) beat(name string) int64 {
	p, hash := s.log.Position()
	return s.beatAt(name, p, hash)
}

func (s *shard) beatAt(name string, p int64, hash uint64) int64 {
	return s.write(name, lease.Record{Kind: lease.KindHeartbeat, Heartbeat: lease.Heartbeat{P: p, Hash: hash}})
}

func (s *shard) announce(name string) int64 {
	p, hash := s.log.Position()
	return s.write(name, lease.Record{Kind: lease.KindHeartbeat, Heartbeat: lease.Heartbeat{P: p, Hash: hash, Announces: true}})
}

// snapshot announces one and writes it, in chunks of the given size.
func (s *shard) snapshot(name string, size int) (upto int64) {
	s.log.Own(id(name))
	upto = s.announce(name)
	s.log.Disown(id(name))
	for _, rec := range smaller(s.log.TakeSnapshot(), size) {
		s.append(rec)
	}
	return upto
}

// smaller cuts a snapshot anew.
func smaller(records []lease.Record, size int) []lease.Record {
	var payload []byte
	for _, r := range records {
		payload = append(payload, r.Snapshot.Chunk...)
	}
	count := (len(payload) + size - 1) / size
	var cut []lease.Record
	for i := range count {
		r := records[0]
		r.Snapshot.Index, r.Snapshot.Count = uint32(i), uint32(count)
		r.Snapshot.Chunk = payload[i*size : min(len(payload), (i+1)*size)]
		cut = append(cut, r)
	}
	return cut
}

func (s *shard) foreign() int64 { return s.append(lease.Record{Kind: lease.Foreign}) }

func (s *shard) probe() int64 {
	return s.append(lease.Record{Kind: lease.KindProbe, Probe: lease.Probe{Nonce: 7, WantsBase: true}})
}

func (s *shard) base(seen int64) int64 {
	return s.append(lease.Record{Kind: lease.KindBase, Base: lease.Base{Seen: seen, TokenBase: 5 << 40}})
}

// scan reads the shard from an offset on.
func (s *shard) scan(from int64) *Scan {
	sc := NewScan(coordination, from)
	for _, e := range s.entries {
		if e.rec.Offset >= from {
			sc.Add(&e.rec, e.value)
		}
	}
	return sc
}

// follow reads the shard from a base on.
func (s *shard) follow(b Base) *Log {
	l := NewLog(b)
	for _, e := range s.entries {
		if e.rec.Offset >= b.From {
			l.Take(&e.rec, e.value, nil)
		}
	}
	return l
}

// equal checks that two have the same world and hash.
func equal(t *testing.T, want, got *Log, msg ...any) {
	t.Helper()
	assert.Equal(t, want.World().AppendBinary(nil), got.World().AppendBinary(nil), msg...)
	assert.Equal(t, want.World().Digest(), got.World().Digest(), msg...)
	p, hash := want.Position()
	q, other := got.Position()
	assert.Equal(t, p, q, msg...)
	assert.Equal(t, hash, other, msg...)
}

func TestEveryMessageMovesTheHashWhateverItsValueAProbeAloneExcepted(t *testing.T) {
	s := newShard(t)
	s.join("a")
	seen := map[uint64]bool{}
	for _, write := range []func() int64{
		func() int64 { return s.beat("a") }, s.foreign,
		func() int64 { return s.beat("nobody") },
		func() int64 { return s.append(lease.Record{Kind: lease.KindSnapshot}) },
		func() int64 { return s.append(lease.Record{Kind: lease.KindNewer}) },
		func() int64 { return s.base(0) },
	} {
		o := write()
		p, hash := s.log.Position()
		assert.Equal(t, o, p)
		assert.False(t, seen[hash])
		seen[hash] = true
	}
	p, hash := s.log.Position()
	s.probe()
	q, same := s.log.Position()
	assert.Equal(t, p, q)
	assert.Equal(t, hash, same)
}

func TestTheHashDependsOnOffsetOrderAndValue(t *testing.T) {
	assert.NotEqual(t, roll(1, 5, []byte("x")), roll(1, 6, []byte("x")))
	assert.NotEqual(t, roll(1, 4, []byte("x")), roll(1, 5, []byte("x")), "neighbours")
	assert.NotEqual(t, roll(1, 5, []byte("x")), roll(1, 5, []byte("y")))
	assert.NotEqual(t, roll(1, 5, []byte("x")), roll(2, 5, []byte("x")))
	assert.NotEqual(t, roll(1, 5, []byte{}), roll(1, 5, []byte{0}))
	assert.NotEqual(t, roll(1, 5, []byte("\xff\xff\xff\xff")), roll(1, 5, []byte("\xff\xff\xff\xff\x00")), "equal checksums of unequal length")
	r := rand.New(rand.NewPCG(1, 1))
	seen := map[uint64]bool{}
	for range 100_000 {
		seen[roll(uint64(r.IntN(4)), int64(r.IntN(300)), []byte{byte(r.IntN(100))})] = true
	}
	assert.Greater(t, len(seen), 65_000, "of 120,000 possible inputs")
	ones := 0
	for hash := range seen {
		ones += bits.OnesCount64(hash)
	}
	assert.InDelta(t, 32, float64(ones)/float64(len(seen)), 0.1, "half of the bits are set")
}

func TestAnOffsetNotAboveTheLastIsRewound(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.probe()
	before := s.log.World().Digest()
	earlier := []lease.Event{{Kind: lease.Announced}}
	for _, back := range []int64{0, 1} {
		rec := lease.Record{Kind: lease.Foreign, Offset: back}
		events, outcome := s.log.Take(&rec, nil, earlier)
		assert.Equal(t, earlier, events, "it appends nothing")
		assert.Equal(t, Rewound, outcome)
	}
	events, outcome := s.log.Take(&lease.Record{Kind: lease.KindProbe, Offset: 2}, nil, earlier)
	assert.Equal(t, earlier, events, "nor does a Probe")
	assert.Equal(t, Fine, outcome)
	assert.Equal(t, before, s.log.World().Digest())
}

func TestWhoMeetsAnotherHashForAPositionThatItHasFindsOut(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.join("b")
	p, hash := s.log.Position()
	s.foreign()
	q, _ := s.log.Position()
	s.beatAt("a", p, hash)
	assert.Equal(t, Fine, s.outcome)
	s.beatAt("a", p, hash+1)
	assert.Equal(t, HashDiffers, s.outcome, "another hash")
	s.probe()
	s.foreign()
	s.beatAt("a", q+3, hash)
	assert.Equal(t, HashDiffers, s.outcome, "a position at which we have nothing")
	s.beatAt("a", -1, 0)
	assert.Equal(t, Fine, s.outcome, "one who has nothing says nothing")
	s.beatAt("stranger", p, hash+1)
	assert.Equal(t, HashDiffers, s.outcome, "its Join may stand where we have read a record that the log has lost")
	s.beatAt("a", s.next+10, 3)
	assert.Equal(t, Fine, s.outcome, "nor does nonsense")
	s.beatAt("a", s.next, 3)
	assert.Equal(t, Fine, s.outcome, "nobody knows the hash at the record that it writes")
}

func TestPositionsBelowTheBaseAreNotJudged(t *testing.T) {
	s := newShard(t)
	s.join("a")
	old, _ := s.log.Position()
	upto := s.snapshot("a", 50)
	sc := s.scan(2)
	b, ok := sc.Base()
	require.True(t, ok)
	l := s.follow(b)
	at := func(p int64, hash uint64) Outcome {
		s.seqs["a"]++
		rec := lease.Record{Kind: lease.KindHeartbeat, Offset: s.next, Instance: id("a"), Seq: s.seqs["a"], Heartbeat: lease.Heartbeat{P: p, Hash: hash}}
		s.next++
		_, outcome := l.Take(&rec, nil, nil)
		return outcome
	}
	assert.Equal(t, Fine, at(old, 12345))
	assert.Equal(t, HashDiffers, at(upto, b.Hash+1), "the base's own position is known")
	assert.Equal(t, Fine, at(upto, b.Hash))
	w := lease.NewWorld(coordination)
	w.Apply(&lease.Record{Kind: lease.Foreign, Offset: 0}, nil)
	l = NewLog(Base{From: 1, World: w, Hash: 9})
	assert.Equal(t, HashDiffers, at(0, 8), "so is one at the first offset of all")
	assert.Equal(t, Fine, at(0, 9))
}

func TestTheNewest4096PositionsAreRemembered(t *testing.T) {
	var r ring
	r2 := rand.New(rand.NewPCG(5, 5))
	_, ok := r.find(0)
	assert.False(t, ok)
	_, ok = r.oldest()
	assert.False(t, ok)
	var all []int64
	o := int64(0)
	for i := range 20_000 {
		o += 1 + int64(r2.IntN(3))*int64(r2.IntN(5000))
		all = append(all, o)
		r.add(o, uint64(o)*3)
		if i%997 != 0 && i > 300 {
			continue
		}
		oldest, _ := r.oldest()
		assert.Equal(t, all[max(0, len(all)-len(r.entries))], oldest)
		assert.GreaterOrEqual(t, int(r.kept()), min(len(all), ringSize))
		for n, p := range all {
			hash, ok := r.find(p)
			require.Equal(t, n >= len(all)-int(r.kept()), ok, "%d of %d", n, len(all))
			require.True(t, !ok || hash == uint64(p)*3)
			_, ok = r.find(p + 1)
			require.True(t, !ok || n+1 < len(all) && all[n+1] == p+1)
		}
	}
	assert.Len(t, r.entries, 4096, "and it takes no more memory")
	r.reset()
	_, ok = r.find(o)
	assert.False(t, ok)
}

func TestARingThatWasResetKnowsOnlyWhatCameAfter(t *testing.T) {
	var r ring
	for o := range int64(300) {
		r.add(o, 5)
	}
	r.reset()
	for i := range int64(300) {
		r.add(1000+2*i, uint64(i))
		for j := range i + 1 {
			hash, ok := r.find(1000 + 2*j)
			require.True(t, ok)
			require.Equal(t, uint64(j), hash)
			_, ok = r.find(1000 + 2*j + 1)
			require.False(t, ok)
		}
	}
	_, ok := r.find(299)
	assert.False(t, ok)
}

func TestAPositionThatWasOverwrittenInItsOwnBucketIsNotFound(t *testing.T) {
	var r ring
	for o := range int64(ringSize) {
		r.add(o, uint64(o))
	}
	next := int64(ringSize)
	for r.bucket(next) != r.bucket(0) {
		next++
	}
	r.add(next, 7)
	_, ok := r.find(0)
	assert.False(t, ok)
	hash, ok := r.find(next)
	assert.True(t, ok)
	assert.Equal(t, uint64(7), hash)
}

func TestTheHashStartsAgainAtABase(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.claim("a", 1, 2)
	p, hash := s.log.Position()
	o := s.base(p)
	require.Equal(t, lease.Rebased, s.events[0].Kind)
	assert.Equal(t, int64(5<<40), s.log.World().TokenBase())
	other := newShard(t)
	other.next = o
	other.log = NewLog(emptyBase(coordination, o))
	other.base(p)
	s.seqs = map[string]uint64{}
	for _, sh := range []*shard{s, other} {
		sh.join("b")
	}
	equal(t, s.log, other.log)
	s.beatAt("b", p, hash+5)
	assert.Equal(t, Fine, s.outcome, "positions before it are forgotten")
}

func BenchmarkTakeHeartbeat(b *testing.B) {
	rec, value, l := heartbeats()
	b.ReportAllocs()
	var events []lease.Event
	for b.Loop() {
		rec.Offset++
		rec.Seq++
		events, _ = l.Take(rec, value, events[:0])
		rec.Heartbeat.P, rec.Heartbeat.Hash = l.Position()
	}
}

// BenchmarkApplyHeartbeat is what BenchmarkTakeHeartbeat costs without history.
func BenchmarkApplyHeartbeat(b *testing.B) {
	rec, _, l := heartbeats()
	b.ReportAllocs()
	var events []lease.Event
	for b.Loop() {
		rec.Offset++
		rec.Seq++
		events = l.World().Apply(rec, events[:0])
		rec.Heartbeat.P, rec.Heartbeat.Hash = l.Position()
	}
}

func heartbeats() (*lease.Record, []byte, *Log) {
	s := &shard{seqs: map[string]uint64{}, log: NewLog(emptyBase(coordination, 0))}
	s.join("a")
	rec := &lease.Record{Kind: lease.KindHeartbeat, Version: 2, Offset: s.next, Instance: id("a"), Seq: 1, Heartbeat: lease.Heartbeat{P: -1}}
	return rec, make([]byte, 120), s.log
}
