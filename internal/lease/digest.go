package lease

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

func hashID(id [16]byte) uint64 { return hashString(string(id[:])) }

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
	h = mix(h, uint64(len(in.Interests)))
	for i := range in.Interests {
		it := &in.Interests[i]
		h = mix(mix(mix(mix(h, flags(it.Whole, it.Greedy)), uint64(it.Max)), uint64(it.Weight)), uint64(len(it.Topics)))
		for _, t := range it.Topics {
			h = mix(mix(h, hashString(t.Topic)), uint64(t.Partitions))
		}
	}
	for _, k := range in.Pinned {
		h = mix(mix(h, hashString(k.Topic)), uint64(uint32(k.Partition)))
	}
	replaceSum(&w.planSum, &in.planSum, finish(h))
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

// sumLease brings what a key's lease, or the memory of its last owner, adds up to date.
func (w *World) sumLease(s *slot) {
	var lease, last uint64
	switch {
	case s.owner != nil:
		lease = finish(mix(mix(mix(tagLease, s.hash), s.owner.hash), uint64(s.epoch)))
	case s.epoch != NoEpoch:
		last = finish(mix(mix(mix(tagLastOwner, s.hash), hashString(s.client)), uint64(s.epoch)))
	}
	replaceSum(&w.planSum, &s.leaseSum, lease)
	replaceSum(&w.restSum, &s.lastSum, last)
}

func markSum(s *slot, in *instance) uint64 { return finish(mix(mix(tagMark, s.hash), in.hash)) }

// sumTopicID brings what a partition's topic ids add up to date; sumProgress is to follow.
func (s *slot) sumTopicID() {
	h := mix(mix(tagProgress, s.hash), hashID(s.topicID))
	for _, id := range s.replaced {
		h = mix(h, hashID(id))
	}
	s.progressBase = h
}

// sumProgress brings what a partition's progress adds up to date.
func (w *World) sumProgress(s *slot) {
	replaceSum(&w.restSum, &s.progressSum, finish(mix(s.progressBase, uint64(s.next))))
}
