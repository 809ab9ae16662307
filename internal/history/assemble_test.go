package history

import (
	"bytes"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// piece is a chunk of the snapshot at upto.
func piece(upto int64, index, count uint32, chunk []byte) *lease.Record {
	return &lease.Record{Kind: lease.KindSnapshot, Offset: 100, Snapshot: lease.Snapshot{
		Author: id("a"), Upto: upto, Index: index, Count: count, Chunk: chunk}}
}

func TestAChunkHasToBePartOfSomethingPossible(t *testing.T) {
	for _, c := range []struct {
		name string
		rec  *lease.Record
		ok   bool
	}{
		{"the first offset of all", piece(0, 0, 1, []byte{1}), true},
		{"a heartbeat just before it", piece(99, 0, 1, []byte{1}), true},
		{"no offset", piece(-1, 0, 1, []byte{1}), false},
		{"its own offset", piece(100, 0, 1, []byte{1}), false},
		{"no chunks", piece(5, 0, 0, []byte{1}), false},
		{"beyond the last chunk", piece(5, 1, 1, []byte{1}), false},
		{"nothing in it", piece(5, 0, 1, nil), false},
		{"64 MiB", piece(5, 0, 1, make([]byte, 128<<20)), true},
		{"more than 128 MiB", piece(5, 0, 1, make([]byte, 128<<20+1)), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var a assembler
			payload, ok := a.add(c.rec)
			assert.Equal(t, c.ok, ok)
			assert.Equal(t, c.ok, bytes.Equal(payload, c.rec.Snapshot.Chunk) && len(payload) > 0)
			assert.Zero(t, a.pending)
			assert.Empty(t, a.open, "what is complete is kept no longer")
		})
	}
}

func TestASnapshotHasAtMost1024Chunks(t *testing.T) {
	var a assembler
	for i := range uint32(1024) {
		_, complete := a.add(piece(5, i, 1024, []byte{byte(i)}))
		assert.Equal(t, i == 1023, complete)
		a.add(piece(6, i, 1025, []byte{1}))
	}
	assert.Empty(t, a.open)
}

func TestEightSnapshotsAreAssembledAtATimeTheOneThatWaitedLongestGivesWay(t *testing.T) {
	var a assembler
	for upto := range int64(8) {
		a.add(piece(upto, 0, 3, []byte{byte(upto)}))
	}
	a.add(piece(0, 1, 3, []byte{0})) // it is the newest again
	a.add(piece(8, 0, 3, []byte{8})) // 1 gives way
	for upto := range int64(9) {
		a.add(piece(upto, 1, 3, []byte{byte(upto)}))
		payload, complete := a.add(piece(upto, 2, 3, []byte{byte(upto)}))
		require.Equal(t, upto != 1, complete, upto)
		if complete {
			assert.Equal(t, bytes.Repeat([]byte{byte(upto)}, 3), payload)
		}
	}
}

func TestSnapshotsThatAreNotCompleteTake128MiB(t *testing.T) {
	var a assembler
	chunk := make([]byte, 1<<20)
	for i := range uint32(128) {
		a.add(piece(5, i, 129, chunk))
	}
	assert.Equal(t, 128<<20, a.pending)
	_, complete := a.add(piece(6, 0, 2, []byte{1}))
	assert.False(t, complete)
	assert.Equal(t, 1, a.pending, "the larger gave way, since it waited longer")
}

func TestAnAssemblerGivesHashAndWorldOfEachSnapshotThatIsComplete(t *testing.T) {
	s := newShard(t)
	s.join("a")
	s.log.Own(id("a"))
	s.announce("a")
	want, hash := s.log.World().AppendBinary(nil), s.log.hash
	pieces := smaller(s.log.TakeSnapshot(), 40)
	var a Assembler
	for i := range pieces {
		pieces[i].Offset = s.next
		got, w, complete, err := a.Add(&pieces[i])
		require.NoError(t, err)
		require.Equal(t, i == len(pieces)-1, complete)
		if complete {
			assert.Equal(t, hash, got)
			assert.Equal(t, want, w.AppendBinary(nil))
		}
	}
	_, _, complete, err := a.Add(piece(5, 0, 1, []byte("garbage that is long enough")))
	assert.True(t, complete)
	assert.Error(t, err, "it is no world")
}
