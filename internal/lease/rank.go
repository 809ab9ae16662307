package lease

import (
	"bytes"
	"crypto/sha256"
	"slices"
)

// Place is where an instance stands in the rendezvous order of x: whose place is larger comes first.
func Place(x []byte, id InstanceID) [sha256.Size]byte {
	return sha256.Sum256(append(append(make([]byte, 0, 64), x...), id[:]...))
}

// Rank orders instances for x by SHA-256(x, instance), largest first: the rendezvous order of PROTOCOL.md §1.
// ids is sorted in place.
func Rank(x []byte, ids []InstanceID) {
	type ranked struct {
		sum [sha256.Size]byte
		id  InstanceID
	}
	all := make([]ranked, len(ids))
	text := append(make([]byte, 0, len(x)+len(InstanceID{})), x...)
	for i, id := range ids {
		all[i] = ranked{sha256.Sum256(append(text, id[:]...)), id}
	}
	slices.SortFunc(all, func(a, b ranked) int { return bytes.Compare(b.sum[:], a.sum[:]) })
	for i := range all {
		ids[i] = all[i].id
	}
}
