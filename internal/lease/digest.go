package lease

import "encoding/binary"

// The digest of a world is a sum of one hash per fact, so a change of one fact costs one subtraction and one addition
// whatever the world's size. It finds bugs and foreign writers, it does not resist somebody who looks for collisions.
// Two sums are kept: of what a plan depends on, and of all the rest, which every heartbeat changes.

const (
	tagPresent uint64 = iota + 1
	tagEnded
	tagLease
	tagLastOwner
	tagMark
	tagProgress
	tagRenewal
	tagQuiet
)

const golden = 0x9E3779B97F4A7C15

// mix takes one more word into a hash.
func mix(h, v uint64) uint64 {
	h = (h ^ v) * golden
	return h ^ h>>32
}

// finish spreads what the last multiplication left in the high bits, so that sums of hashes keep no structure.
func finish(h uint64) uint64 {
	h *= 0xBF58476D1CE4E5B9
	h ^= h >> 29
	return h * 0x94D049BB133111EB
}

func hashString(s string) uint64 {
	h := mix(golden, uint64(len(s)))
	for ; len(s) >= 8; s = s[8:] {
		h = mix(h, uint64(s[0])|uint64(s[1])<<8|uint64(s[2])<<16|uint64(s[3])<<24|
			uint64(s[4])<<32|uint64(s[5])<<40|uint64(s[6])<<48|uint64(s[7])<<56)
	}
	var rest uint64
	for i := range len(s) {
		rest |= uint64(s[i]) << (8 * i)
	}
	return mix(h, rest)
}

// hashID makes no string of an id: it is asked for with every position.
func hashID(id [16]byte) uint64 {
	return mix(mix(golden, binary.LittleEndian.Uint64(id[:8])), binary.LittleEndian.Uint64(id[8:]))
}

// Digest is a hash of the world's value, kept up incrementally: equal worlds have equal digests. The id of the
// coordination topic is no part of it, since one process may know it where another does not.
func (w *World) Digest() uint64 {
	return finish(mix(mix(mix(golden, w.planSum+w.restSum), uint64(w.last)), uint64(w.tokenBase)))
}

// Version changes whenever membership, interests, leases or unfit marks change, or an instance is heard of again for
// the first time since a namesake joined: what a plan depends on. It is a hash of just that, so two worlds with the same
// version have the same plan, whatever their histories.
func (w *World) Version() uint64 { return finish(mix(golden, w.planSum+w.quietSum)) }

func replaceSum(total, part *uint64, now uint64) {
	*total += now - *part
	*part = now
}

// sumInstance brings what an alive or parked instance adds to the plan's sum up to date.
func (w *World) sumInstance(in *instance) {
	h := mix(mix(mix(tagPresent, in.hash), hashString(in.Client)), hashString(in.Host))
	h = mix(mix(mix(mix(h, uint64(in.TTL)), uint64(in.MaxVersion)), uint64(in.Status)), uint64(in.FirstJoin))
	h = mix(h, hashInterests(in.Interests))
	for _, k := range in.Pinned {
		h = mix(mix(h, hashString(k.Topic)), uint64(uint32(k.Partition)))
	}
	replaceSum(&w.planSum, &in.planSum, finish(h))
}

func hashInterests(interests []Interest) uint64 {
	h := mix(golden, uint64(len(interests)))
	for i := range interests {
		it := &interests[i]
		h = mix(mix(mix(mix(h, flags(it.Whole, it.Greedy)), uint64(it.Max)), uint64(it.Weight)), uint64(len(it.Topics)))
		for _, t := range it.Topics {
			h = mix(mix(h, hashString(t.Topic)), uint64(t.Partitions))
		}
	}
	return h
}

// sumRenewal brings what an instance's newest renewal adds up to date.
func (w *World) sumRenewal(in *instance) {
	h := mix(mix(mix(tagRenewal, in.hash), in.Seq), uint64(in.Renewed))
	replaceSum(&w.restSum, &in.restSum, finish(mix(mix(h, uint64(in.Load.InFlight)), uint64(in.Load.Lag))))
}

// sumQuiet brings up to date, for the alive instances of one client id, which of them have not been heard of since a
// namesake joined: a plan gives nothing to that namesake (PROTOCOL.md §6 "Balance"), until the older one is heard of.
func (w *World) sumQuiet(client string) {
	namesakes := w.clients[client]
	for _, in := range namesakes {
		var sum uint64
		if namesakes[len(namesakes)-1].FirstJoin > in.Renewed {
			sum = finish(mix(mix(tagQuiet, in.hash), uint64(in.Renewed))) | 1
		}
		replaceSum(&w.quietSum, &in.quietSum, sum)
	}
}

// sumEnded leaves of an instance only the memory that it has ended, on which no plan depends.
func (w *World) sumEnded(in *instance) {
	replaceSum(&w.planSum, &in.planSum, 0)
	h := mix(mix(mix(mix(tagEnded, in.hash), hashString(in.Client)), uint64(in.FirstJoin)), uint64(in.EndedAt))
	replaceSum(&w.restSum, &in.restSum, finish(h))
}

// hash is that of the key.
func (s *slot) hash() uint64 { return mix(hashString(s.topic.name), uint64(uint32(s.partition))) }

// leaseSums is what a key's lease adds to the plan's sum, or the memory of its last owner to the other. It is told anew
// when it is taken out, rather than kept in every slot.
func (s *slot) leaseSums() (plan, rest uint64) {
	switch {
	case s.held():
		return finish(mix(mix(mix(tagLease, s.hash()), s.owner.hash), uint64(s.epoch))), 0
	case s.epoch != NoEpoch:
		return 0, finish(mix(mix(mix(tagLastOwner, s.hash()), hashString(s.owner.Client)), uint64(s.epoch)))
	}
	return 0, 0
}

// discount takes what a key's lease adds out of the sums, before it changes.
func (w *World) discount(s *slot) {
	plan, rest := s.leaseSums()
	w.planSum -= plan
	w.restSum -= rest
}

// count brings it in again.
func (w *World) count(s *slot) {
	plan, rest := s.leaseSums()
	w.planSum += plan
	w.restSum += rest
}

func markSum(s *slot, in *instance) uint64 { return finish(mix(mix(tagMark, s.hash()), in.hash)) }

// lifeHash is the hash of all of a partition's progress but next.
func (s *slot) lifeHash() uint64 {
	h := mix(tagProgress, s.hash())
	for l := s.life; l != nil; l = l.before {
		h = mix(h, hashID(l.id))
	}
	return h
}

// progressSum is what a partition's progress adds; h is its lifeHash.
func (s *slot) progressSum(h uint64) uint64 {
	if s.next == NoProgress {
		return 0
	}
	return finish(mix(h, uint64(s.next)))
}
