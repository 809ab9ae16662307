package history

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// start is a beginner at a shard of which offsets 100 to 200 are other groups', and the clock.
type start struct {
	t    *testing.T
	b    *Beginner
	now  time.Duration
	next int64
	ms   int64 // the broker's clock
}

func newStart(t *testing.T, seen bool) *start {
	s := &start{t: t, now: time.Hour, next: 201, ms: 1e12}
	s.b = NewBeginner(coordination, NewScan(coordination, 100), 200, seen, 42, s.now)
	return s
}

func (s *start) tick() (records []lease.Record) {
	records, wake := s.b.Tick(s.now, 7<<20)
	require.Greater(s.t, wake, s.now)
	return records
}

// log appends a record and lets the beginner read it.
func (s *start) log(rec lease.Record) {
	rec.Offset, rec.Timestamp = s.next, s.ms
	s.next++
	s.b.Add(&rec, []byte("v"), s.now)
}

// pass lets time pass; what is to be written is written and read back at once. It gives the Bases among it.
func (s *start) pass(d time.Duration) (bases []lease.Record) {
	for end := s.now + d; ; {
		for records := s.tick(); len(records) > 0; records = s.tick() {
			for _, rec := range records {
				if rec.Kind == lease.KindBase {
					bases = append(bases, rec)
				} else {
					s.log(rec)
				}
			}
		}
		if s.now >= end {
			return bases
		}
		s.now += time.Second
		s.ms += 1000
	}
}

func TestAProbeGoesOutEverySecondAndWantsABase(t *testing.T) {
	s := newStart(t, false)
	for range 5 {
		records := s.tick()
		require.Len(t, records, 1)
		assert.Equal(t, lease.Probe{Nonce: 42, WantsBase: true}, records[0].Probe)
		assert.Equal(t, uint8(2), records[0].Version)
		s.now += time.Second / 2
		assert.Empty(t, s.tick())
		s.now += time.Second / 2
	}
}

func TestRuleAAnOldShardWithoutTheGroup(t *testing.T) {
	for _, c := range []struct {
		name       string
		before     time.Duration
		appendTime bool
		seen       bool
		base       bool
	}{
		{"an hour before our Probe", time.Hour, true, false, true},
		{"less than an hour", time.Hour - time.Millisecond, true, false, false},
		{"a time that its producer made up", 2 * time.Hour, false, false, false},
		{"a record of the group in the shard", 2 * time.Hour, true, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStart(t, c.seen)
			s.b.Oldest(s.ms-c.before.Milliseconds(), c.appendTime)
			records := s.tick()
			require.Len(t, records, 1, "nothing before our Probe is read back")
			s.log(records[0])
			records = s.tick()
			require.Equal(t, c.base, len(records) == 1)
			if c.base {
				assert.Equal(t, lease.Base{Seen: 201, TokenBase: 7 << 20}, records[0].Base)
			}
		})
	}
	s := newStart(t, false)
	s.b.Oldest(s.ms-2*time.Hour.Milliseconds(), true)
	s.log(s.tick()[0])
	s.log(lease.Record{Kind: lease.Foreign})
	assert.Empty(t, s.tick(), "a record of the group that comes late counts, too")
}

func TestRuleB30SecondsOfLogLiveTimeWithoutARecordOfTheGroup(t *testing.T) {
	s := newStart(t, true)
	assert.Empty(t, s.pass(29*time.Second))
	bases := s.pass(time.Second)
	require.Len(t, bases, 1)
	assert.Equal(t, s.next-1, bases[0].Base.Seen, "the last offset of the shard that it has read")
}

func TestARecordOfTheGroupBeginsRuleBAnew(t *testing.T) {
	s := newStart(t, false)
	s.pass(20 * time.Second)
	s.log(lease.Record{Kind: lease.Foreign})
	assert.Empty(t, s.pass(29*time.Second))
	assert.NotEmpty(t, s.pass(time.Second))
	s = newStart(t, false)
	s.pass(20 * time.Second)
	s.log(lease.Record{Kind: lease.KindProbe, Probe: lease.Probe{Nonce: 1}})
	assert.NotEmpty(t, s.pass(10*time.Second), "another's Probe is no record of the group")
}

func TestOnlyOwnProbesTellThatTheLogIsLive(t *testing.T) {
	s := newStart(t, false)
	s.pass(20 * time.Second)
	s.now += time.Second
	s.log(lease.Record{Kind: lease.KindProbe, Probe: lease.Probe{Nonce: 1}})
	assert.Equal(t, 20*time.Second, s.b.live, "another's Probe shows that it can write, not that we can")
	assert.Equal(t, s.ms, s.b.probedAt)
	s.ms += 5000
	s.log(lease.Record{Kind: lease.KindProbe, Probe: lease.Probe{Nonce: 1}})
	assert.Equal(t, s.ms-5000, s.b.probedAt)

	s = newStart(t, false)
	s.b.nonce = 0
	s.pass(20 * time.Second)
	s.now += reach / 2
	s.log(lease.Record{Kind: lease.Foreign})
	s.now += reach / 2
	s.log(lease.Record{Kind: lease.KindProbe})
	assert.Zero(t, s.b.live, "a record that is no Probe is not ours, whatever our nonce")
}

func TestWhileTheLogIsUnavailableTheTimeStandsStill(t *testing.T) {
	s := newStart(t, false)
	s.pass(20 * time.Second)
	probe := lease.Record{Kind: lease.KindProbe, Probe: lease.Probe{Nonce: 42}}
	s.now += reach
	s.log(probe)
	assert.Equal(t, 20*time.Second, s.b.live, "too far apart")
	assert.Empty(t, s.pass(9*time.Second))
	assert.NotEmpty(t, s.pass(time.Second))
	s = newStart(t, false)
	s.pass(20 * time.Second)
	s.now += reach - 1
	s.log(probe)
	assert.Equal(t, 20*time.Second+reach-1, s.b.live)
	s.now += 6 * time.Second
	s.log(lease.Record{Kind: lease.Foreign})
	s.now += time.Second
	s.log(probe)
	assert.Equal(t, time.Second, s.b.live, "not further back than the reading of the record")
	s.now += time.Hour
	assert.Equal(t, time.Second, s.b.live, "and our own Probes alone tell the time")
}

func TestSeenIsTheLastOffsetOfTheShardThatWasRead(t *testing.T) {
	s := newStart(t, false)
	s.pass(30 * time.Second)
	s.b.Read(5000, s.now)
	s.b.Read(4000, s.now)
	s.now += time.Second
	assert.Equal(t, int64(5000), s.tick()[0].Base.Seen)
}

func TestASnapshotThatComesMeanwhileIsABase(t *testing.T) {
	sh := newShard(t)
	sh.next = 300
	sh.join("a")
	sh.claim("a", 1)
	upto := sh.snapshot("a", 1<<20)
	for _, from := range []int64{upto + 1, upto + 2} {
		b := NewBeginner(coordination, NewScan(coordination, from), from-1, true, 42, 0)
		last := sh.entries[len(sh.entries)-1]
		last.rec.Offset = from + 10
		b.Add(&last.rec, last.value, 0)
		base, ok := b.Base()
		assert.Equal(t, from == upto+1, ok, "if everything after its upto has been read")
		if ok {
			assert.Equal(t, upto+1, base.From)
			records, _ := b.Tick(time.Second, 1)
			assert.Empty(t, records)
		}
	}
}

func TestABaseReadBackIsTheBase(t *testing.T) {
	s := newStart(t, false)
	bases := s.pass(30 * time.Second)
	require.Len(t, bases, 1)
	s.now += time.Second
	again := s.tick()
	require.Equal(t, lease.KindBase, again[0].Kind, "not read back: it may be lost")
	s.log(bases[0])
	b, ok := s.b.Base()
	require.True(t, ok)
	assert.Equal(t, s.next-1, b.From)
	s.now += time.Hour
	assert.Empty(t, s.tick())
}

func TestOfTwoBasesTheFirstIsValid(t *testing.T) {
	s := newStart(t, false)
	bases := s.pass(30 * time.Second)
	first := s.next
	s.log(bases[0])
	s.log(bases[0])
	b, _ := s.b.Base()
	assert.Equal(t, first, b.From)
}
