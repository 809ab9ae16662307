package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

func TestTheAuthorWritesTheWorldAtExactlyItsHeartbeat(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.join("b")
	s.log.Own(id("a"))
	s.claim("a", 1, 2)
	s.announce("b")
	assert.Empty(t, s.log.TakeSnapshot(), "another's is not ours to write")
	s.announce("a")
	want, hash := s.log.World().AppendBinary(nil), s.log.hash
	s.claim("b", 3)
	records := s.log.TakeSnapshot()
	require.Len(t, records, 1)
	assert.Empty(t, s.log.TakeSnapshot(), "once")
	got, w, err := parsePayload(records[0].Snapshot.Chunk)
	require.NoError(t, err)
	assert.Equal(t, hash, got, "the hash is part of the snapshot")
	assert.Equal(t, want, w.AppendBinary(nil))
	assert.Equal(t, id("a"), records[0].Snapshot.Author)
	assert.Equal(t, coordination, records[0].Snapshot.TopicID)
	s.log.Disown(id("a"))
	s.announce("a")
	assert.Empty(t, s.log.TakeSnapshot())
}

func TestChunksAreBelowTheRecordLimit(t *testing.T) {
	s := newShard(t)
	var topics []lease.TopicInterest
	for i := range 4000 {
		topics = append(topics, lease.TopicInterest{Topic: fmt.Sprintf("%0200d", i), Partitions: 1})
	}
	for _, n := range []string{"a", "b"} {
		s.write(n, lease.Record{Kind: lease.KindJoin, Join: lease.Join{
			Client: n, TTL: time.Second, MaxVersion: 2, Interests: []lease.Interest{{Topics: topics}}}})
	}
	s.log.Own(id("a"))
	s.announce("a")
	records := s.log.TakeSnapshot()
	require.Greater(t, len(records), 2)
	for i, r := range records {
		assert.LessOrEqual(t, len(r.Snapshot.Chunk), 500<<10)
		assert.Equal(t, uint32(i), r.Snapshot.Index)
		assert.Equal(t, uint32(len(records)), r.Snapshot.Count)
		s.append(r)
		assert.Equal(t, Fine, s.outcome)
	}
	b, ok := s.scan(1).Base()
	require.True(t, ok)
	equal(t, s.log, s.follow(b))
}

func TestTheOthersCompareTheHash(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.claim("a", 1)
	wrong := func(change func(payload []byte) []byte) Outcome {
		s.log.Own(id("a"))
		s.announce("a")
		rec := s.log.TakeSnapshot()[0]
		rec.Snapshot.Chunk = change(append([]byte(nil), rec.Snapshot.Chunk...))
		s.append(rec)
		return s.outcome
	}
	assert.Equal(t, Fine, wrong(func(p []byte) []byte { return p }))
	assert.Equal(t, SnapshotWrong, wrong(func(p []byte) []byte { p[0]++; return p }), "another rolling hash")
	assert.Equal(t, SnapshotWrong, wrong(func(p []byte) []byte { return p[:len(p)-1] }), "unreadable")
	assert.Equal(t, SnapshotWrong, wrong(func([]byte) []byte {
		return appendPayload(nil, s.log.hash, lease.NewWorld(coordination))
	}), "another world")
	assert.Equal(t, SnapshotWrong, wrong(func([]byte) []byte {
		w := s.log.World().Clone()
		w.Apply(&lease.Record{Kind: lease.Foreign, Offset: s.next}, nil)
		return appendPayload(nil, s.log.hash, w)
	}), "a world of another offset")
	assert.Equal(t, Fine, wrong(func(p []byte) []byte { return p }))
	s.append(lease.Record{Kind: lease.KindSnapshot, Snapshot: lease.Snapshot{Upto: 1, Author: id("a"), Count: 1, Chunk: []byte("x")}})
	assert.Equal(t, Fine, s.outcome, "what was not announced is compared with nothing")
}

func TestASnapshotIsDueAfter20000RecordsOrFourPerKey(t *testing.T) {
	s := newShard(t)
	s.join("a")
	for range snapshotRecords - 2 {
		s.foreign()
	}
	assert.False(t, s.log.SnapshotDue(0))
	assert.Equal(t, -1, s.log.SnapshotOverdue(0, time.Second))
	s.foreign()
	assert.True(t, s.log.SnapshotDue(0))
	s.snapshot("a", 1<<20)
	assert.False(t, s.log.SnapshotDue(0))
	for range snapshotRecords - 2 {
		s.foreign()
	}
	assert.False(t, s.log.SnapshotDue(0), "the snapshot's own record counts, its heartbeat does not")
	s.foreign()
	assert.True(t, s.log.SnapshotDue(0))
	s.write("a", lease.Record{Kind: lease.KindJoin, Join: lease.Join{Client: "a", TTL: time.Second, MaxVersion: 2,
		Interests: []lease.Interest{{Topics: []lease.TopicInterest{{Topic: "t", Partitions: 6000}}}}}})
	var parts []int32
	for p := range int32(6000) {
		parts = append(parts, p)
	}
	s.claim("a", parts...)
	assert.False(t, s.log.SnapshotDue(0), "four records for each of 6,000 keys")
}

func TestASnapshotIsDueAfterFourRecordsForEachKey(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.snapshot("a", 1<<20)
	s.write("a", lease.Record{Kind: lease.KindJoin, Join: lease.Join{Client: "a", TTL: 10 * time.Second, MaxVersion: 2,
		Interests: []lease.Interest{{Topics: []lease.TopicInterest{{Topic: "t", Partitions: 5001}}}}}})
	var parts []int32
	for p := range int32(5001) {
		parts = append(parts, p)
	}
	s.claim("a", parts...)
	require.Equal(t, int64(5001), s.log.keys())
	for s.log.snapshots.records-s.log.snapshots.since < 4*5001-1 {
		s.foreign()
	}
	assert.False(t, s.log.SnapshotDue(0))
	s.foreign()
	assert.True(t, s.log.SnapshotDue(0))
}

func TestASnapshotIsDueWhenTheLastIs10MinutesOld(t *testing.T) {
	s := newShard(t)
	s.join("a")
	const start = time.Hour
	assert.False(t, s.log.SnapshotDue(start))
	assert.False(t, s.log.SnapshotDue(start+10*time.Minute-1))
	assert.True(t, s.log.SnapshotDue(start+10*time.Minute))
	s.snapshot("a", 1<<20)
	assert.False(t, s.log.SnapshotDue(start+11*time.Minute))
	assert.False(t, s.log.SnapshotDue(start+21*time.Minute-1))
	assert.True(t, s.log.SnapshotDue(start+21*time.Minute))
}

func TestASnapshotIsDueWhenAProbeWantsOne(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.append(lease.Record{Kind: lease.KindProbe})
	assert.False(t, s.log.SnapshotDue(0))
	s.probe()
	assert.True(t, s.log.SnapshotDue(0))
	s.snapshot("a", 1<<20)
	assert.False(t, s.log.SnapshotDue(time.Second))
	old := s.entries[len(s.entries)-1].rec
	s.probe()
	s.append(old)
	assert.True(t, s.log.SnapshotDue(time.Second), "the old one once more is not a new one")
}

func TestTheKthAnnouncesKHeartbeatsLaterIfNoCompleteOneCame(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.probe()
	const beat = 2 * time.Second
	assert.Equal(t, 0, s.log.SnapshotOverdue(time.Minute, beat))
	assert.Equal(t, 0, s.log.SnapshotOverdue(time.Minute+beat-1, beat))
	assert.Equal(t, 1, s.log.SnapshotOverdue(time.Minute+beat, beat))
	s.announce("a")
	assert.Equal(t, -1, s.log.SnapshotOverdue(time.Minute+beat, beat), "one was announced: it is waited for")
	assert.Equal(t, -1, s.log.SnapshotOverdue(time.Minute+beat+patience-1, beat))
	assert.Equal(t, int((beat+patience)/beat), s.log.SnapshotOverdue(time.Minute+beat+patience, beat), "it did not come")
	s.snapshot("a", 1<<20)
	assert.Equal(t, -1, s.log.SnapshotOverdue(2*time.Minute, beat))
}

func TestABaseForgetsWhatWasAnnounced(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.log.Own(id("a"))
	s.probe()
	s.announce("a")
	s.base(s.next - 1)
	require.Equal(t, lease.Rebased, s.events[0].Kind)
	assert.Empty(t, s.log.TakeSnapshot())
	assert.False(t, s.log.SnapshotDue(0))
}

func TestABaseCountsAsASnapshot(t *testing.T) {
	s := newShard(t)
	s.join("a")
	assert.False(t, s.log.SnapshotDue(0))
	for range snapshotRecords - 2 {
		s.foreign()
	}
	s.announce("a") // it is waited for in vain
	s.base(s.next - 1)
	require.Equal(t, lease.Rebased, s.events[0].Kind)
	assert.False(t, s.log.SnapshotDue(9*time.Minute), "the records before it do not count")
	assert.False(t, s.log.SnapshotDue(19*time.Minute-1), "nor does their age")
	assert.True(t, s.log.SnapshotDue(19*time.Minute), "nor what was announced before it")
	assert.Empty(t, s.log.snapshots.chunks.open)
}

func TestWhatABaseCutsOffIsKeptNoLonger(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.log.Own(id("a"))
	s.announce("a")
	s.append(smaller(s.log.TakeSnapshot(), 40)[0])
	require.NotZero(t, s.log.snapshots.chunks.pending)
	s.base(s.next - 1)
	assert.Zero(t, s.log.snapshots.chunks.pending)
}

// The k-th announces k heartbeats after a snapshot became due, whether it asked how overdue it is or only whether it is due.
func TestASnapshotIsOverdueFromWhenItWasFirstSeenToBeDue(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.probe()
	require.True(t, s.log.SnapshotDue(time.Minute))
	assert.Equal(t, 2, s.log.SnapshotOverdue(time.Minute+2*time.Second, time.Second))
}

// A heartbeat of one who has ended, or never joined, announces nothing.
func TestAVoidHeartbeatAnnouncesNothing(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.log.Own(id("stranger"))
	s.announce("stranger")
	assert.Empty(t, s.log.TakeSnapshot())
	s.beat("a")
	assert.Empty(t, s.log.snapshots.notes, "and one that does not announce neither")
}

func TestSixteenAnnouncedSnapshotsAreRemembered(t *testing.T) {
	s := newShard(t)
	s.join("a")
	for range 20 {
		s.announce("a")
	}
	require.Len(t, s.log.snapshots.notes, 16)
	assert.Equal(t, s.next-16, s.log.snapshots.notes[0].offset, "the newest of them")
	assert.Equal(t, s.next-1, s.log.snapshots.notes[15].offset)
}

func TestASnapshotIsCutInto480KiB(t *testing.T) {
	for size, want := range map[int][]int{1: {1}, 480 << 10: {480 << 10}, 480<<10 + 1: {480 << 10, 1}, 960 << 10: {480 << 10, 480 << 10}, 960<<10 - 1: {480 << 10, 480<<10 - 1}} {
		records := cut(&lease.Record{Offset: 5, Instance: id("a")}, coordination, make([]byte, size))
		var sizes []int
		for i, r := range records {
			sizes = append(sizes, len(r.Snapshot.Chunk))
			assert.Equal(t, uint32(i), r.Snapshot.Index)
			assert.Equal(t, uint32(len(want)), r.Snapshot.Count)
		}
		assert.Equal(t, want, sizes)
	}
}

// The memory that pieces of snapshots take is bounded, whatever is written.
func TestPiecesTakeBoundedMemory(t *testing.T) {
	var a assembler
	chunk := make([]byte, 1<<20)
	for i := range int64(500) {
		rec := lease.Record{Kind: lease.KindSnapshot, Offset: 1000, Snapshot: lease.Snapshot{
			Upto: i % 3, Index: uint32(i/3) % 200, Count: 200 + uint32(i%3), Chunk: chunk}}
		_, ok := a.add(&rec)
		require.False(t, ok)
		sum := 0
		for _, p := range a.open {
			sum += p.size
		}
		require.Equal(t, sum, a.pending)
		require.LessOrEqual(t, a.pending, maxPending)
	}
	for i := range int64(100) {
		rec := lease.Record{Kind: lease.KindSnapshot, Offset: 1000, Snapshot: lease.Snapshot{Upto: i, Count: maxChunks, Chunk: []byte{1}}}
		a.add(&rec)
		require.LessOrEqual(t, len(a.open), maxOpen)
	}
}
