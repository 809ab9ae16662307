package history

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// Limits of what is kept of snapshots that are not complete. Whoever can write to the topic can make readers keep that
// much, and no more.
const (
	maxChunks  = 1024
	maxOpen    = 8         // snapshots begun and not complete
	maxPending = 128 << 20 // bytes of their chunks together
)

// assembler puts snapshots together from their chunks, which may be of several authors at a time, repeated, missing or
// garbage. The snapshot that got no chunk for the longest time gives way to a new one.
type assembler struct {
	open    []*pending // the one that got a chunk last is last
	pending int        // bytes of all
}

// pending is a snapshot of which some chunks are there.
type pending struct {
	id     snapshotID
	chunks [][]byte
	left   uint32
	size   int
}

type snapshotID struct {
	author lease.InstanceID
	upto   int64
	count  uint32
}

func (a *assembler) clone() assembler {
	c := *a
	c.open = make([]*pending, len(a.open))
	for i, p := range a.open {
		q := *p
		q.chunks = slices.Clone(p.chunks)
		c.open[i] = &q
	}
	return c
}

// add takes one chunk; where it is the last missing one it gives the whole.
func (a *assembler) add(rec *lease.Record) (payload []byte, complete bool) {
	s := &rec.Snapshot
	if s.Count == 0 || s.Count > maxChunks || s.Index >= s.Count || len(s.Chunk) == 0 || len(s.Chunk) > maxPending ||
		s.Upto < 0 || s.Upto >= rec.Offset {
		return nil, false
	}
	p := a.get(snapshotID{s.Author, s.Upto, s.Count})
	if p.chunks[s.Index] == nil {
		p.chunks[s.Index] = bytes.Clone(s.Chunk)
		p.size += len(s.Chunk)
		a.pending += len(s.Chunk)
		p.left--
	}
	for a.pending > maxPending {
		a.drop(0) // perhaps p itself
	}
	if p.left > 0 || len(a.open) == 0 {
		return nil, false
	}
	a.drop(len(a.open) - 1)
	return slices.Concat(p.chunks...), true
}

// get finds a snapshot that was begun, or begins it, and moves it to the end.
func (a *assembler) get(id snapshotID) *pending {
	i := slices.IndexFunc(a.open, func(p *pending) bool { return p.id == id })
	var p *pending
	if i >= 0 {
		p = a.open[i]
		a.open = slices.Delete(a.open, i, i+1)
	} else {
		if len(a.open) == maxOpen {
			a.drop(0)
		}
		p = &pending{id: id, chunks: make([][]byte, id.count), left: id.count}
	}
	a.open = append(a.open, p)
	return p
}

func (a *assembler) drop(i int) {
	a.pending -= a.open[i].size
	a.open = slices.Delete(a.open, i, i+1)
}

// The payload of a snapshot is the rolling hash at its upto, 8 bytes little-endian, then the world's canonical bytes.
const hashSize = 8

func appendPayload(b []byte, hash uint64, w *lease.World) []byte {
	return w.AppendBinary(binary.LittleEndian.AppendUint64(b, hash))
}

func parsePayload(payload []byte) (hash uint64, w *lease.World, err error) {
	if len(payload) < hashSize {
		return 0, nil, errors.New("a snapshot without a hash")
	}
	w, err = lease.ParseWorld(payload[hashSize:])
	return binary.LittleEndian.Uint64(payload), w, err
}
