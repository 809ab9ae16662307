package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
)

var coordination = lease.TopicID{0xc0}

// script is a log that is written and audited record by record. Instances are named by a letter, their seq counts by itself.
type script struct {
	t    *testing.T
	a    *Audit
	next int64
	seqs map[string]uint64
	log  *history.Log // what an honest member has applied, for hashes and snapshots
	last *Entry
}

func newScript(t *testing.T) *script {
	return &script{t: t, a: New(&history.Base{World: lease.NewWorld(coordination)}), seqs: map[string]uint64{},
		log: history.NewLog(history.Base{World: lease.NewWorld(coordination)})}
}

func id(name string) (i lease.InstanceID) {
	copy(i[:], name)
	return i
}

func key(text string) lease.Key {
	topic, p, found := strings.Cut(text, "/")
	k := lease.Key{Topic: topic, Partition: lease.WholeTopic}
	if found {
		if _, err := fmt.Sscan(p, &k.Partition); err != nil {
			panic(err)
		}
	}
	return k
}

// append appends a record as it is and gives its offset.
func (s *script) append(rec lease.Record) int64 {
	s.t.Helper()
	rec.Offset, rec.Version = s.next, lease.WireVersion
	s.next++
	honest := rec
	s.log.Take(&honest, []byte{byte(rec.Offset)}, nil)
	s.last = s.a.Take(Message{Record: &rec, Value: []byte{byte(rec.Offset)}})
	return rec.Offset
}

func (s *script) write(author string, rec lease.Record) int64 {
	s.t.Helper()
	s.seqs[author]++
	rec.Instance, rec.Seq = id(author), s.seqs[author]
	return s.append(rec)
}

func (s *script) join(names ...string) {
	s.t.Helper()
	for _, n := range names {
		s.write(n, lease.Record{Kind: lease.KindJoin, Join: lease.Join{Client: "client-" + n, Host: "host", TTL: 10 * time.Second, TopicID: coordination, MaxVersion: 2, TokenBase: 1 << 20}})
	}
}

func (s *script) claim(author string, keys ...string) int64 {
	s.t.Helper()
	var ks []lease.Key
	for _, k := range keys {
		ks = append(ks, key(k))
	}
	return s.write(author, lease.Record{Kind: lease.KindClaim, Claim: lease.Claim{Keys: ks}})
}

func (s *script) progress(author, k string, epoch, next int64) int64 {
	s.t.Helper()
	return s.write(author, progress(k, epoch, next))
}

func progress(k string, epoch, next int64) lease.Record {
	return lease.Record{Kind: lease.KindHeartbeat, Heartbeat: lease.Heartbeat{P: -1, Topics: []lease.TopicProgress{{
		Topic: key(k).Topic, Partitions: []int32{key(k).Partition}, Epochs: []int64{epoch}, Next: []int64{next},
	}}}}
}

func released(k string, epoch int64) lease.Record {
	return lease.Record{Kind: lease.KindRelease, Release: lease.Release{Keys: []lease.ReleasedKey{{Key: key(k), Epoch: epoch}}}}
}

func (s *script) evict(author, target string) {
	s.t.Helper()
	s.write(author, lease.Record{Kind: lease.KindEvict, Evict: lease.Evict{Targets: []lease.Target{{Instance: id(target), Renewed: s.a.World().Instance(id(target)).Renewed}}}})
}

func (s *script) seek(author, k string, next int64) int64 {
	s.t.Helper()
	return s.write(author, lease.Record{Kind: lease.KindDirective, Directive: lease.Directive{Kind: lease.Seek, Key: key(k), Next: next, Epoch: lease.NoEpoch}})
}

// finds says what was found about the newest record: nothing, or exactly one thing of a kind.
func (s *script) finds(kind FindingKind, text string) {
	s.t.Helper()
	require.Len(s.t, s.last.Findings, 1, "%v", s.last.Findings)
	require.Equal(s.t, kind, s.last.Findings[0].Kind)
	require.Contains(s.t, s.last.Findings[0].String(), kind.String()+": ")
	require.Contains(s.t, s.last.Findings[0].Text, text)
}

func (s *script) clean() {
	s.t.Helper()
	require.Empty(s.t, s.last.Findings)
}

// TestWhatIsWrong has one case for each way in which a record can be wrong.
func TestWhatIsWrong(t *testing.T) {
	for name, c := range map[string]func(s *script, e int64){ // a holds t/0 with epoch e at 10; b holds t/1
		"a heartbeat under the epoch of another": func(s *script, e int64) {
			s.progress("b", "t/0", e, 20)
			s.finds(TwoOwners, "client-b (62000000) acts as the owner of t/0 under epoch 2, which it was never granted; client-a (61000000) holds t/0 under epoch 2")
		},
		"a heartbeat under an epoch that nobody has": func(s *script, e int64) {
			s.progress("a", "t/0", e+1, 20)
			s.finds(TwoOwners, "never granted")
		},
		"a heartbeat under an epoch of the future": func(s *script, e int64) {
			s.progress("a", "t/0", 1000, 20)
			s.finds(TwoOwners, "never granted")
		},
		"of a key that nobody holds": func(s *script, e int64) {
			s.progress("a", "t/7", e, 20)
			s.finds(TwoOwners, "nobody holds it")
		},
		"a release of what another holds": func(s *script, e int64) {
			s.write("b", released("t/0", e))
			s.finds(TwoOwners, "never granted")
		},
		"a leave with it": func(s *script, e int64) {
			rec := released("t/0", e)
			rec.Kind = lease.KindLeave
			s.write("b", rec)
			s.finds(TwoOwners, "never granted")
		},
		"an owner's seek under the epoch of another": func(s *script, e int64) {
			s.write("b", lease.Record{Kind: lease.KindDirective, Directive: lease.Directive{Kind: lease.Seek, Key: key("t/0"), Next: 1, Epoch: e + 1}})
			s.finds(TwoOwners, "never granted")
		},
		"the whole topic of partitions that it has none of": func(s *script, e int64) {
			s.write("b", released("t", e))
			s.finds(TwoOwners, "t (whole)")
		},
		"a position that goes back": func(s *script, e int64) {
			s.progress("a", "t/0", e, 9)
			s.finds(Regression, "t/0 goes back to 9 under epoch 2, it stands at 10")
		},
		"a release that goes back": func(s *script, e int64) {
			rec := released("t/0", e)
			rec.Release.Keys[0].Partitions, rec.Release.Keys[0].Next = []int32{0}, []int64{4}
			s.write("a", rec)
			s.finds(Regression, "t/0 goes back to 4")
		},
		"an epoch that goes back": func(s *script, e int64) {
			s.progress("a", "t/0", s.seek("b", "t/0", 3), 4)
			s.clean()
			s.progress("a", "t/0", e, 20)
			s.finds(Regression, "goes back to epoch 2 of t/0")
		},
		"tokens that go back": func(s *script, e int64) {
			s.append(lease.Record{Kind: lease.KindBase, Base: lease.Base{Seen: s.next - 1, TokenBase: 5}})
			s.finds(Regression, "tokens go on at")
		},
		"another history": func(s *script, e int64) {
			s.write("a", lease.Record{Kind: lease.KindHeartbeat, Heartbeat: lease.Heartbeat{P: 3, Hash: 77}})
			s.finds(Disagreement, "another history up to offset 3")
		},
		"what cannot be read": func(s *script, e int64) {
			s.append(lease.Record{Kind: lease.Foreign})
			s.finds(Foreign, "a message of 1 bytes that cannot be read")
		},
		"an author that never joined": func(s *script, e int64) {
			s.progress("x", "t/0", e, 20)
			s.finds(Foreign, "78000000 has never joined")
		},
		"one that joins in the middle of its life": func(s *script, e int64) {
			s.seqs["x"] = 4
			s.join("x")
			s.finds(Foreign, "has never joined")
		},
		"a newer version by one that never joined": func(s *script, e int64) {
			s.write("x", lease.Record{Kind: lease.KindNewer})
			s.finds(Foreign, "never joined, writes in version")
		},
		"a jump of seq": func(s *script, e int64) {
			s.seqs["a"] += likelyJump + 1
			s.progress("a", "t/0", e, 20)
			s.finds(Foreign, "seq jumps from 3 to 1048581")
		},
		"a jump of seq beyond what Apply takes": func(s *script, e int64) {
			s.seqs["a"] += 1 << 40
			s.progress("a", "t/0", e, 20)
			s.finds(Foreign, "seq jumps from 3 to")
		},
		"an absurd value": func(s *script, e int64) {
			s.write("x", lease.Record{Kind: lease.KindJoin, Join: lease.Join{TokenBase: lease.MaxTokenBase}})
			s.finds(Foreign, "values that no member writes")
		},
		"a snapshot that nobody has announced": func(s *script, e int64) {
			s.append(lease.Record{Kind: lease.KindSnapshot, Snapshot: lease.Snapshot{Upto: 3, Author: id("a"), Count: 1, Chunk: []byte("junk")}})
			s.finds(Foreign, "a snapshot of offset 3 that client-a (61000000) has not announced")
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.join("a", "b")
			e := s.claim("a", "t/0")
			s.claim("b", "t/1")
			s.progress("a", "t/0", e, 10)
			s.clean()
			c(s, e)
		})
	}
}

// TestWhatIsLateOrDoubledIsNotWrong has one case for each way in which an honest record can come to nothing.
func TestWhatIsLateOrDoubledIsNotWrong(t *testing.T) {
	for name, c := range map[string]func(s *script, e int64){
		"an owner whose eviction it has not read": func(s *script, e int64) {
			s.evict("b", "a")
			s.progress("a", "t/0", e, 20)
		},
		"one whose eviction was long ago": func(s *script, e int64) {
			s.evict("b", "a")
			for s.next < 2*lease.EndedMemory { // what the world has forgotten, the audit has not
				s.next += lease.EndedMemory / 2
				s.write("b", lease.Record{Kind: lease.KindHeartbeat, Heartbeat: lease.Heartbeat{P: -1}})
			}
			s.progress("a", "t/0", e, 20)
		},
		"a seek that it has not read": func(s *script, e int64) {
			s.seek("b", "t/0", 3)
			s.progress("a", "t/0", e, 20)
		},
		"a seek of the whole topic": func(s *script, e int64) {
			s.seek("b", "t", 3)
			s.progress("a", "t/0", e, 20)
		},
		"a release of before": func(s *script, e int64) {
			s.write("a", released("t/0", e))
			s.claim("b", "t/0")
			s.progress("a", "t/0", e, 20)
		},
		"the same record once more": func(s *script, e int64) {
			s.seqs["a"]--
			s.progress("a", "t/0", e, 10)
		},
		"the same position once more": func(s *script, e int64) { s.progress("a", "t/0", e, 10) },
		"a record that was overtaken": func(s *script, e int64) {
			s.progress("a", "t/0", e, 30)
			s.seqs["a"] -= 2
			s.progress("a", "t/0", e, 5)
		},
		"a position from before it wanted the partition anew": func(s *script, e int64) {
			s.write("a", lease.Record{Kind: lease.KindJoin, Join: lease.Join{TopicID: coordination}})
			s.progress("a", "t/0", e, 8)
		},
		"a claim that is refused": func(s *script, e int64) { s.claim("b", "t/0") },
		"an eviction that is too late": func(s *script, e int64) {
			s.write("b", lease.Record{Kind: lease.KindEvict, Evict: lease.Evict{Targets: []lease.Target{{Instance: id("a"), Renewed: 0}}}})
		},
		"a join for a log that is gone": func(s *script, e int64) {
			s.write("x", lease.Record{Kind: lease.KindJoin, Join: lease.Join{Client: "x", TopicID: lease.TopicID{1}}})
		},
		"a base that comes too late": func(s *script, e int64) {
			s.append(lease.Record{Kind: lease.KindBase, Base: lease.Base{Seen: 2, TokenBase: 5}})
		},
		"one of before a base": func(s *script, e int64) {
			s.append(lease.Record{Kind: lease.KindBase, Base: lease.Base{Seen: s.next - 1, TokenBase: 1 << 40}})
			s.progress("a", "t/0", e, 20)
		},
		"a recreated topic": func(s *script, e int64) {
			for topic := range byte(2) {
				rec := progress("t/0", e, 30-10*int64(topic))
				rec.Heartbeat.Topics[0].TopicID = lease.TopicID{topic + 1}
				s.write("a", rec)
			}
		},
		"a probe": func(s *script, e int64) { s.append(lease.Record{Kind: lease.KindProbe}) },
		"a gap in seq": func(s *script, e int64) {
			s.seqs["a"] += 5000
			s.progress("a", "t/0", e, 20)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScript(t)
			s.join("a", "b")
			e := s.claim("a", "t/0")
			s.progress("a", "t/0", e, 10)
			c(s, e)
			s.clean()
		})
	}
}

// snapshot has a announce a snapshot, and gives its pieces as an honest author would write them.
func (s *script) snapshot() []lease.Record {
	s.t.Helper()
	s.log.Own(id("a"))
	s.write("a", lease.Record{Kind: lease.KindHeartbeat, Heartbeat: lease.Heartbeat{P: -1, Announces: true}})
	records := s.log.TakeSnapshot()
	require.Len(s.t, records, 1)
	return records
}

func TestSnapshots(t *testing.T) {
	begin := func(t *testing.T) *script {
		s := newScript(t)
		s.join("a", "b")
		s.claim("a", "t/0")
		s.claim("b", "t/1")
		return s
	}
	t.Run("a right one, twice", func(t *testing.T) {
		s := begin(t)
		rec := s.snapshot()[0]
		for range 2 {
			s.append(rec)
			s.clean()
		}
	})
	t.Run("of another world", func(t *testing.T) {
		s := begin(t)
		rec := s.snapshot()[0]
		rec.Snapshot.Chunk[0] ^= 1 // the hash
		s.append(rec)
		s.finds(Disagreement, "is not the world as it was there")
	})
	t.Run("garbage", func(t *testing.T) {
		s := begin(t)
		rec := s.snapshot()[0]
		rec.Snapshot.Chunk = rec.Snapshot.Chunk[:len(rec.Snapshot.Chunk)/2]
		s.append(rec)
		s.finds(Disagreement, "is not the world as it was there")
	})
	t.Run("a key of two owners", func(t *testing.T) {
		s := begin(t)
		rec := s.snapshot()[0]
		at := strings.LastIndex(string(rec.Snapshot.Chunk), "t\x02") // the topic's name, then its two keys, each with its partition first
		require.Positive(t, at)
		second := len(rec.Snapshot.Chunk) - 4 // partition 1, flags, owner, epoch
		require.EqualValues(t, 2, rec.Snapshot.Chunk[second])
		rec.Snapshot.Chunk[second] = 1 // partition 0 once more
		s.append(rec)
		s.finds(TwoOwners, "t/0 is there twice")
	})
	t.Run("a whole topic beside a partition", func(t *testing.T) {
		s := begin(t)
		rec := s.snapshot()[0]
		first := len(rec.Snapshot.Chunk) - 8
		require.EqualValues(t, 1, rec.Snapshot.Chunk[first])
		rec.Snapshot.Chunk[first] = 0 // all of the topic
		s.append(rec)
		s.finds(TwoOwners, "held beside a conflicting key")
	})
}

func TestAHistoryWhoseStartWasCut(t *testing.T) {
	full := newScript(t)
	full.join("a", "b")
	e := full.claim("a", "t/0")
	rec := full.snapshot()[0]
	from := full.next
	full.append(rec)
	scan := history.NewScan(coordination, from)
	rec.Offset = from
	scan.Add(&rec, nil)
	base, ok := scan.Base()
	require.True(t, ok)

	s := newScript(t)
	s.a, s.next, s.seqs = New(&base), from-1, full.seqs
	s.write("a", lease.Record{Kind: lease.KindHeartbeat})
	assert.False(t, s.last.Judged, "it stands before the base")
	s.next, s.seqs["a"] = from, s.seqs["a"]-1
	s.append(rec)
	s.clean()
	s.progress("a", "t/0", e, 10)
	require.True(t, s.last.Judged)
	s.clean()
	s.progress("gone", "t/0", 1, 10) // it may have joined in what was cut, and have ended
	s.clean()
	s.progress("b", "t/0", 1, 10) // it may have held it then
	s.clean()
	s.progress("b", "t/0", s.next-1, 10)
	s.finds(TwoOwners, "never granted")
	s.next += lease.EndedMemory
	s.progress("gone", "t/0", 1, 10) // not any more
	s.finds(Foreign, "has never joined")

	blind := newScript(t)
	blind.a = New(nil)
	blind.join("a")
	assert.False(t, blind.last.Judged)
	assert.Nil(t, blind.a.World())
	assert.Equal(t, "client-a", blind.last.Client)
	assert.Empty(t, blind.last.Effects)
	blind.append(lease.Record{Kind: lease.Foreign})
	blind.finds(Foreign, "cannot be read")
}

func TestNothingIsJudgedBehindANewerVersion(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	s.write("a", lease.Record{Kind: lease.KindNewer})
	s.clean()
	assert.Contains(t, s.last.Effects[0], "use a newer program")
	s.progress("b", "t/0", 1, 10)
	s.clean()
	assert.False(t, s.last.Judged)
}

func TestRecordsAndWhatTheyDidInWords(t *testing.T) {
	s := newScript(t)
	says := func(kind, text string, effects ...string) {
		t.Helper()
		assert.Equal(t, kind, s.last.Kind)
		assert.Equal(t, text, s.last.Text)
		assert.Equal(t, effects, append([]string(nil), s.last.Effects...))
		s.clean()
	}
	const a, b = "client-a (61000000)", "client-b (62000000)"
	s.write("a", lease.Record{Kind: lease.KindJoin, Join: lease.Join{Client: "client-a", Host: "h", TTL: time.Second, TopicID: coordination, Interests: []lease.Interest{
		{Topics: []lease.TopicInterest{{Topic: "t", Partitions: 9}}, Whole: true, Greedy: true, Max: 2, Weight: 3}}, Pinned: []lease.Key{key("u/1")}}})
	says("join", a+" joins from h with a lease of 1s, wants t (9 partitions) as whole topics, greedy, at most 2, weight 3; holds on to u/1 (claimed by hand, or kept for its next run)", a+" is a member")
	s.write("a", lease.Record{Kind: lease.KindJoin, Join: lease.Join{TopicID: coordination}})
	says("join", a+" changes what it wants: nothing", "what it wants is changed")
	s.join("b")
	e := s.claim("a", "t/0", "t/1", "t/2", "t/3", "t/4", "t/5", "t/6", "t/7", "t/8", "t/9")
	says("claim", a+" claims t/0-9", "granted to "+a+": t/0-9")
	s.claim("b", "t/0", "u")
	says("claim", b+" claims t/0, u (whole)", "refused, held by "+a+": t/0", "granted to "+b+": u (whole)")
	rec := progress("t/0", e, 5)
	rec.Heartbeat.Load = lease.Load{InFlight: 2, Lag: 40}
	s.write("a", rec)
	says("heartbeat", "heartbeat of "+a+": t/0 at 5; 2 in flight, lag 40", "progress: t/0 at 5")
	rec = released("t/0", e)
	rec.Release.Keys[0].Partitions, rec.Release.Keys[0].Next = []int32{0}, []int64{7}
	rec.Release.Successor, rec.Release.Unfit = id("b"), true
	s.write("a", rec)
	says("release", a+" gives t/0 at 7 up as unfit for it itself, to "+b, "progress: t/0 at 7", "handed over to "+b+": t/0", a+" is marked as unfit for: t/0")
	s.write("a", released("t/1", e))
	says("release", a+" gives up t/1", "free: t/1")
	s.seek("a", "t/0", 3)
	says("directive", a+" sets the position of t/0 to 3", "position set, "+b+" starts anew there: t/0 to 3")
	s.seek("a", "t/1", 4)
	says("directive", a+" sets the position of t/1 to 4", "position set, nobody holds it: t/1 to 4")
	s.write("b", lease.Record{Kind: lease.KindEvict, Evict: lease.Evict{Targets: []lease.Target{{Instance: id("a"), Renewed: 1}}}})
	says("evict", b+" evicts (declared dead): "+a+", of which nothing came after offset 1", "spared is "+a+": it has been heard of since")
	s.write("b", lease.Record{Kind: lease.KindLeave, Leave: lease.Leave{Keep: true, Grace: time.Minute}})
	says("leave", b+" leaves, its keys to be kept for 1m0s", b+" is parked: what it holds is kept for its client's next run")
	s.write("c", lease.Record{Kind: lease.KindJoin, Join: lease.Join{Client: "client-b", TopicID: coordination, TTL: time.Second}})
	s.claim("c", "t/0")
	says("claim", "client-b (63000000) claims t/0", "granted to client-b (63000000), from its parked run 62000000: t/0")
	s.progress("b", "t/0", e, 9)
	says("heartbeat", "heartbeat of "+b+": t/0 at 9", "ignored: its author is parked")
	s.append(lease.Record{Kind: lease.KindProbe, Probe: lease.Probe{WantsBase: true}})
	says("probe", "a newcomer asks for a snapshot")
	s.append(lease.Record{Kind: lease.KindBase, Base: lease.Base{Seen: 1}})
	says("base", "the history begins anew, for who has read up to offset 1", "ignored: there are records that its author had not read")
	s.a.Take(Message{Record: &lease.Record{Kind: lease.Foreign, Offset: s.next}, Value: []byte("Heartbeat/x"), Original: true})
	assert.Equal(t, "a text record of the original marshal", s.a.entry.Text)
}

func TestEveryReasonAndKindHasWords(t *testing.T) {
	for r := lease.AuthorUnknown; r <= lease.OldOffset; r++ {
		assert.NotEmpty(t, reasons[r], "reason %d", r)
	}
	s := newScript(t)
	for k := lease.Joined; k <= lease.Newer; k++ {
		assert.NotEmpty(t, s.a.effect(&effect{of: lease.Event{Kind: k}}), "event %d", k)
		assert.True(t, changeNames[k] != "" || k == lease.Renewed, "event %d", k)
	}
	for k := lease.Foreign; k <= lease.KindNewer; k++ {
		assert.NotEmpty(t, kindNames[k])
	}
}

func TestMemoryForgetsTheOldest(t *testing.T) {
	m := newMemory[int, string](3)
	for i := range 5 {
		m.add(i, fmt.Sprint(i))
		m.add(i, fmt.Sprint(i, "'")) // again: takes no room
	}
	for i := range 5 {
		v, ok := m.find(i)
		assert.Equal(t, i >= 2, ok, i)
		if ok {
			assert.Equal(t, fmt.Sprint(i, "'"), v)
		}
	}
	assert.True(t, m.full())
	assert.Equal(t, 2, m.oldest())
	assert.Len(t, m.have, 3)
}

// TestGrantsThatAreForgottenAreNotHeldAgainstAnybody: memory is bounded, so who acts under an epoch older than all that are
// remembered may have had it.
func TestGrantsThatAreForgottenAreNotHeldAgainstAnybody(t *testing.T) {
	s := newScript(t)
	s.a.grants = newMemory[grant, struct{}](4)
	s.join("a", "b")
	e := s.claim("a", "t/0")
	s.write("a", released("t/0", e))
	for range 3 {
		n := s.claim("b", "t/0")
		s.write("b", released("t/0", n))
	}
	s.claim("b", "t/0")
	s.progress("a", "t/0", e, 5)
	s.clean()
	s.progress("a", "t/0", s.next-2, 5)
	s.finds(TwoOwners, "never granted")
}
