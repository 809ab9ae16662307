package lease

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// flood is a foreign writer: it applies records without the checks of a script, which the large worlds here are too slow for.
type flood struct {
	t    *testing.T
	w    *World
	seqs map[InstanceID]uint64
}

func newFlood(t *testing.T) *flood {
	return &flood{t: t, w: NewWorld(TopicID{}), seqs: map[InstanceID]uint64{}}
}

func (f *flood) write(author InstanceID, rec Record) []Event {
	f.seqs[author]++
	rec.Instance, rec.Seq, rec.Offset = author, f.seqs[author], f.w.Last()+1
	return f.w.Apply(&rec, nil)
}

func (f *flood) ignored(events []Event) {
	f.t.Helper()
	require.Len(f.t, events, 1)
	assert.Equal(f.t, Ignored, events[0].Kind)
	assert.Equal(f.t, TooMany, events[0].Reason)
}

func member() Record {
	rec := join("client")
	rec.Join.TopicID = TopicID{}
	return rec
}

// fill claims keys of one topic until the world is full.
func (f *flood) fill(author InstanceID) {
	for f.w.keys < MaxKeys {
		claim := Record{Kind: KindClaim}
		for n := range min(100_000, MaxKeys-f.w.keys) {
			claim.Claim.Keys = append(claim.Claim.Keys, Key{"t", int32(f.w.keys + n)})
		}
		f.write(author, claim)
	}
}

func TestLimitOfKeys(t *testing.T) {
	f := newFlood(t)
	f.write(numbered(1), member())
	f.write(numbered(1), Record{Kind: KindClaim, Claim: Claim{Keys: keys("whole")}})
	whole := f.w.Last()
	f.fill(numbered(1))
	assert.Equal(t, MaxKeys, f.w.HeldCount(numbered(1)))

	events := f.write(numbered(1), Record{Kind: KindClaim, Claim: Claim{Keys: keys("u/0", "t/5")}})
	assert.Equal(t, []Reason{TooMany, NoReason}, []Reason{events[1].Reason, events[2].Reason})
	assert.Equal(t, Refused, events[1].Kind)
	assert.Nil(t, f.w.topics.find("u"), "what is refused leaves nothing behind")
	events = f.write(numbered(1), Record{Kind: KindHeartbeat, Heartbeat: Heartbeat{Topics: []TopicProgress{at("whole/1", whole, 5)}}})
	assert.Equal(t, TooMany, events[1].Reason)
	for _, k := range []string{"u/0", "whole/1"} {
		events = f.write(numbered(1), Record{Kind: KindDirective, Directive: Directive{Kind: Seek, Key: key(k), Epoch: NoEpoch}})
		assert.Equal(t, TooMany, events[1].Reason)
	}
	rec := member()
	rec.Join.Interests = []Interest{{Topics: []TopicInterest{{"whole", 2}, {"v", 1}}}}
	f.write(numbered(2), rec)
	for _, topic := range []string{"whole", "v"} {
		events = f.write(numbered(1), Record{Kind: KindDirective, Directive: Directive{Kind: Seek, Key: key(topic), Epoch: NoEpoch}})
		assert.Equal(t, TooMany, events[1].Reason, "all of its partitions or none")
	}
	// What is known goes on.
	events = f.write(numbered(1), Record{Kind: KindHeartbeat, Heartbeat: Heartbeat{Topics: []TopicProgress{at("t/7", whole+1, 5)}}})
	assert.Equal(t, Progressed, events[1].Kind)

	b := f.w.AppendBinary(nil)
	parsed, err := ParseWorld(b)
	require.NoError(t, err)
	assert.Equal(t, f.w.Digest(), parsed.Digest())
}

func TestLimitOfMarks(t *testing.T) {
	f := newFlood(t)
	f.write(numbered(1), member())
	for range MaxMarks / 1024 {
		claim, release := Record{Kind: KindClaim}, Record{Kind: KindRelease, Release: Release{Unfit: true}}
		for range 1024 {
			k := Key{"t", int32(f.w.marked + len(claim.Claim.Keys))}
			claim.Claim.Keys = append(claim.Claim.Keys, k)
			release.Release.Keys = append(release.Release.Keys, ReleasedKey{Key: k, Epoch: f.w.Last() + 1})
		}
		f.write(numbered(1), claim)
		f.write(numbered(1), release)
	}
	assert.Equal(t, MaxMarks, f.w.marked)
	f.write(numbered(1), Record{Kind: KindClaim, Claim: Claim{Keys: keys("u/0")}})
	events := f.write(numbered(1), Record{Kind: KindRelease, Release: Release{Unfit: true, Keys: []ReleasedKey{releasing("u/0", f.w.Last())}}})
	assert.Equal(t, []EventKind{Renewed, Released, Ignored}, []EventKind{events[0].Kind, events[1].Kind, events[2].Kind})
	assert.Equal(t, TooMany, events[2].Reason)
	assert.False(t, f.w.HasMark(key("u/0")))
	f.write(numbered(1), member())
	assert.Zero(t, f.w.marked)
	require.NoError(t, checkWorld(f.w))
}

func TestLimitOfInstances(t *testing.T) {
	f := newFlood(t)
	for i := range MaxInstances {
		rec := member()
		rec.Join.Client = fmt.Sprint(i)
		require.Len(t, f.write(numbered(i), rec), 2)
	}
	f.ignored(f.write(numbered(MaxInstances), member()))
	assert.Nil(t, f.w.Instance(numbered(MaxInstances)))
	assert.Len(t, f.write(numbered(5), member()), 2, "who is there may still say what it wants")
	f.write(numbered(5), Record{Kind: KindLeave})
	f.seqs[numbered(MaxInstances)] = 0
	assert.Len(t, f.write(numbered(MaxInstances), member()), 2, "there is room again")
}

func TestLimitsOfOneJoin(t *testing.T) {
	topics := func(n, length int) (all []TopicInterest) {
		for i := range n {
			all = append(all, TopicInterest{fmt.Sprintf("%0*d", length, i), 1})
		}
		return all
	}
	for what, change := range map[string]func(*Join){
		"client":     func(j *Join) { j.Client = strings.Repeat("c", MaxLabel+1) },
		"host":       func(j *Join) { j.Host = strings.Repeat("h", MaxLabel+1) },
		"names":      func(j *Join) { j.Interests = []Interest{{Topics: topics(MaxJoinSize/(200+32)+1, 200)}} },
		"pinned":     func(j *Join) { j.Pinned = make([]Key, MaxJoinSize/33); fillKeys(j.Pinned) },
		"interests":  func(j *Join) { j.Interests = make([]Interest, MaxJoinSize/32) },
		"partitions": func(j *Join) { j.Interests = []Interest{{Topics: []TopicInterest{{"t", MaxPartitions - 4}, {"u", 5}}}} },
	} {
		t.Run(what, func(t *testing.T) {
			f := newFlood(t)
			rec := member()
			rec.Join.Interests = []Interest{{Topics: []TopicInterest{{"t", 3}}}}
			f.write(numbered(1), rec)
			version := f.w.Version()
			change(&rec.Join)
			if what == "client" || what == "host" {
				f.ignored(f.write(numbered(2), rec))
				return
			}
			f.ignored(f.write(numbered(1), rec))
			f.ignored(f.write(numbered(2), rec))
			assert.Nil(t, f.w.Instance(numbered(2)))
			assert.Equal(t, version, f.w.Version())
			assert.EqualValues(t, 3, f.w.Partitions("t"))
			assert.Zero(t, f.w.Partitions("u"))
			assert.EqualValues(t, 3, f.w.partitions)
			require.NoError(t, checkWorld(f.w))
		})
	}
	f := newFlood(t)
	rec := member()
	rec.Join.Interests = []Interest{{Topics: []TopicInterest{{strings.Repeat("t", MaxTopicName), 1}}}}
	assert.Len(t, f.write(numbered(1), rec), 2)
	rec.Join.Interests[0].Topics[0].Topic += "t"
	assert.Equal(t, Malformed, f.write(numbered(1), rec)[0].Reason)
}

func fillKeys(ks []Key) {
	for i := range ks {
		ks[i] = Key{"t", int32(i)}
	}
}

func TestLimitOfAllJoins(t *testing.T) {
	f := newFlood(t)
	rec := member()
	topic := strings.Repeat("t", MaxTopicName)
	rec.Join.Interests = []Interest{{Topics: []TopicInterest{{topic, 1}}}}
	rec.Join.Pinned = slices.Repeat([]Key{{topic, 0}}, MaxJoinSize/(MaxTopicName+32)-2)
	size := joinSize(rec.Join.Client, rec.Join.Host, rec.Join.Interests, rec.Join.Pinned)
	n := MaxJoinsSize / size
	for i := range n {
		require.Len(t, f.write(numbered(i), rec), 2)
	}
	f.ignored(f.write(numbered(n), rec))
	f.write(numbered(0), Record{Kind: KindLeave})
	f.seqs[numbered(n)] = 0
	assert.Len(t, f.write(numbered(n), rec), 2)
	f.write(numbered(1), member())
	assert.Equal(t, (n-1)*size+joinSize("client", "host", nil, nil), f.w.joins)
}

// §3's pages promise that 100,000 partitions work.
func TestAHundredThousandPartitionsWork(t *testing.T) {
	w, _ := hold(10, 10_000)
	parsed, err := ParseWorld(w.AppendBinary(nil))
	require.NoError(t, err)
	n := 0
	for range parsed.Leases() {
		n++
	}
	assert.Equal(t, 100_000, n)
}
