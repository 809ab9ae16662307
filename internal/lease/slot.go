package lease

import "cmp"

// slot is all that the world knows of one key, but for the marks against it: its lease or its last owner and, of a
// partition, its progress. It is made by the first grant, Seek or progress of its key and stays: progress outlives
// leases. A world has as many as there are keys, so what can be told from elsewhere is not here.
type slot struct {
	topic *topic
	owner *instance // who holds it, or held it last, then perhaps no instance of the world any more; nil: nobody ever did
	life  *life     // of the topic, that its progress belongs to; nil: none is known
	epoch int64     // of the lease, or the last owner's; NoEpoch: never held
	next  int64

	partition int32
	at        int32 // its place in what the owner holds; free: nowhere
}

// free is where a slot is that nobody holds.
const free = -1

func (s *slot) key() Key { return Key{Topic: s.topic.name, Partition: s.partition} }

func (s *slot) held() bool { return s.at != free }

// heldBy tells whether an instance holds the key. s may be nil.
func (s *slot) heldBy(in *instance) bool { return s != nil && s.held() && s.owner == in }

// lease is the lease on a key that is held.
func (s *slot) lease() Lease { return Lease{Instance: s.owner.ID, Epoch: s.epoch} }

// client is the owner's, or the last one's; empty: nobody ever held the key.
func (s *slot) client() string {
	if s.owner == nil {
		return ""
	}
	return s.owner.Client
}

// empty tells whether nothing is known of the key any more.
func (s *slot) empty() bool { return s.epoch == NoEpoch && s.next == NoProgress }

func compareSlots(a, b *slot) int {
	if a.topic != b.topic {
		return cmp.Compare(a.topic.name, b.topic.name)
	}
	return cmp.Compare(a.partition, b.partition)
}
