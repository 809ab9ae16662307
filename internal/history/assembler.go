package history

import "github.com/kafka-marshal/marshal/internal/lease"

// Assembler puts snapshots together for who wants to look at each, announced or not. The zero value is ready.
type Assembler struct{ chunks assembler }

// Add takes one piece; where it is the last missing one, it gives the rolling hash and the world of the whole, or says why
// that is not a world.
func (a *Assembler) Add(rec *lease.Record) (hash uint64, w *lease.World, complete bool, err error) {
	payload, complete := a.chunks.add(rec)
	if !complete {
		return 0, nil, false, nil
	}
	hash, w, err = parsePayload(payload)
	return hash, w, true, err
}
