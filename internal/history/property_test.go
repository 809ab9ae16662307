package history

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// randomShard writes a log in which everything happens: duplicates, garbage, snapshots in pieces, some missing, Bases
// valid and not, Probes.
func randomShard(t *testing.T, seed uint64) *shard {
	r := rand.New(rand.NewPCG(seed, 7))
	s := newShard(t)
	names := []string{"a", "b", "c"}
	var pieces []lease.Record
	for range 20 + r.IntN(150) {
		n := names[r.IntN(len(names))]
		s.next += int64(r.IntN(3)) // other groups
		switch r.IntN(12) {
		case 0:
			s.join(n)
		case 1, 2:
			s.claim(n, int32(r.IntN(9)), int32(r.IntN(9)))
		case 3:
			s.beat(n)
		case 4:
			s.foreign()
		case 5:
			s.probe()
		case 6:
			if len(s.entries) > 0 {
				s.append(s.entries[r.IntN(len(s.entries))].rec) // once more, or late
			}
		case 7, 8:
			s.log.Own(id(n))
			s.announce(n)
			s.log.Disown(id(n))
			if made := s.log.TakeSnapshot(); len(made) > 0 {
				for _, p := range smaller(made, 1+r.IntN(120)) {
					if r.IntN(60) > 0 {
						pieces = append(pieces, p)
					}
				}
			}
		case 9:
			if r.IntN(8) == 0 {
				s.base(s.next - 1 - int64(r.IntN(4)))
			}
		case 10:
			s.append(lease.Record{Kind: lease.KindSnapshot, Snapshot: lease.Snapshot{
				Upto: int64(r.IntN(int(s.next) + 3)), Author: id(n), Count: 1 + uint32(r.IntN(2)), Chunk: []byte("garbage")}})
		case 11:
			s.write(n, lease.Record{Kind: lease.KindLeave})
			if in := s.log.World().Instance(id(n)); in == nil || in.Status == lease.Ended {
				names = append(names, n+"'")
			}
		}
		for range r.IntN(6) {
			if len(pieces) > 0 {
				i := r.IntN(min(len(pieces), 4))
				s.append(pieces[i])
				require.Equal(t, Fine, s.outcome, "seed %d", seed)
				pieces = append(pieces[:i], pieces[i+1:]...)
			}
		}
		require.Contains(t, []Outcome{Fine, HashDiffers}, s.outcome)
	}
	return s
}

// S1: an equal sequence of records gives an equal world and hash, through whatever snapshot or base it is read.
func TestAnyBaseGivesTheSameWorldAndHash(t *testing.T) {
	snapshots, bases, none := 0, 0, 0
	for seed := range uint64(40) {
		s := randomShard(t, seed)
		for from := range s.next {
			b, ok := s.scan(from).Base()
			if !ok {
				none++
				continue
			}
			if from > 0 {
				if b.World.Last() < 0 {
					bases++
				} else {
					snapshots++
				}
			}
			require.True(t, b.From >= from, "seed %d: everything from the base on can be read", seed)
			l := s.follow(b)
			require.Equal(t, s.log.World().AppendBinary(nil), l.World().AppendBinary(nil), "seed %d from %d", seed, from)
			require.Equal(t, s.log.hash, l.hash, "seed %d from %d", seed, from)
			b, _ = s.scan(from).Base()
			same, reached := s.second(s.log, b, asItIs).Same()
			require.True(t, same && reached, "seed %d from %d", seed, from)
		}
	}
	require.NotZero(t, snapshots)
	require.NotZero(t, bases)
	require.NotZero(t, none)
	t.Logf("through snapshots %d, through bases %d, without a base %d", snapshots, bases, none)
}

// A Scan takes exactly those Bases that Apply took, as far as it can know.
func TestAScanJudgesABaseAsApplyDoes(t *testing.T) {
	for seed := range uint64(300) {
		s := newShard(t)
		r := rand.New(rand.NewPCG(seed, 8))
		type taken struct{ offset, seen int64 }
		var valid []taken
		for range 30 {
			s.next += int64(r.IntN(2))
			switch r.IntN(4) {
			case 0:
				s.foreign()
			case 1:
				s.probe()
			default:
				seen := s.next - 1 - int64(r.IntN(5)) + int64(r.IntN(2))
				if o := s.base(seen); did(s.events, lease.Rebased) {
					valid = append(valid, taken{o, seen})
				}
			}
		}
		for from := int64(1); from < s.next; from++ {
			want := int64(-1)
			for _, v := range valid {
				if v.offset >= from && v.seen+1 >= from {
					want = v.offset
				}
			}
			b, ok := s.scan(from).Base()
			require.Equal(t, want >= 0, ok, "seed %d from %d", seed, from)
			if ok {
				require.Equal(t, want, b.From, "seed %d from %d", seed, from)
			}
		}
	}
}

// Whatever the pieces are, Take neither panics nor keeps more than it may, and a Scan of the same finds no base that does
// not parse.
func FuzzTake(f *testing.F) {
	f.Add([]byte{1, 2, 3, 4, 5, 6, 7, 8, 9})
	s := newShard(nil)
	s.join("a")
	s.log.Own(id("a"))
	s.announce("a")
	f.Add(append([]byte{0xff}, s.log.TakeSnapshot()[0].Snapshot.Chunk...))
	f.Fuzz(func(t *testing.T, data []byte) {
		s := newShard(nil)
		sc := NewScan(coordination, 1)
		s.join("a")
		s.log.Own(id("a"))
		n := func(limit int) int {
			if len(data) == 0 {
				return 0
			}
			b := data[0]
			data = data[1:]
			return int(b) % limit
		}
		for len(data) > 0 && s.next < 300 {
			rec := lease.Record{Kind: lease.KindSnapshot, Instance: id("a"), Seq: uint64(n(200))}
			switch n(5) {
			case 0:
				rec.Kind = lease.Kind(n(14))
				rec.Heartbeat = lease.Heartbeat{P: int64(n(256)) - 1, Hash: uint64(n(3)), Announces: true}
				rec.Base = lease.Base{Seen: int64(n(256)) - 2, TokenBase: int64(n(3)) - 1}
				rec.Probe.WantsBase = n(2) == 0
			case 1:
				s.announce("a")
				for _, made := range smaller(s.log.TakeSnapshot(), 1+n(200)) {
					s.append(made)
				}
				continue
			default:
				rec.Snapshot = lease.Snapshot{
					Upto: int64(n(256)) - 1, Author: id("a"), Index: uint32(n(8)), Count: uint32(n(256)),
				}
				size := n(60)
				size = min(size, len(data))
				rec.Snapshot.Chunk, data = data[:size], data[size:]
				if rec.Snapshot.Count == 255 {
					rec.Snapshot.Count = 1 << 31
				}
				if len(s.log.snapshots.notes) > 0 && size%3 == 0 {
					rec.Snapshot.Upto = s.log.snapshots.notes[0].offset
				}
			}
			s.append(rec)
			e := s.entries[len(s.entries)-1]
			sc.Add(&e.rec, e.value)
			for _, a := range []*assembler{&s.log.snapshots.chunks, &sc.chunks} {
				if a.pending > maxPending || len(a.open) > maxOpen || len(s.log.snapshots.notes) > maxNotes {
					t.Fatal("too much is kept")
				}
			}
			s.log.SnapshotOverdue(time.Duration(s.next)*time.Second, time.Second)
		}
		if b, ok := sc.Base(); ok && b.World == nil {
			t.Fatal("a base without a world")
		}
	})
}
