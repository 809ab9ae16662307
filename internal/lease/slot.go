package lease

import (
	"cmp"
	"slices"
)

// slot is all that the world knows of one key: its lease or its last owner, the marks against it and, of a partition,
// its progress. It is made by the first grant, Seek or progress of its key and stays: progress outlives leases.
type slot struct {
	topic     *topic
	partition int32
	pos       [2]int32 // where it is in the leased keys of its topic, and in those of its owner
	hash      uint64   // of the key

	owner  *instance // nil: free
	epoch  int64     // of the lease, or the last owner's; NoEpoch: never held
	client string    // of the owner, or the last one

	next     int64
	topicID  TopicID
	replaced []TopicID // oldest first; never changed in place

	marks []*instance // unfit for it, in the order of FirstJoin

	leaseSum, lastSum, progressSum uint64 // what it adds to the digest
	progressBase                   uint64 // hash of all of its progress but next
}

func (s *slot) key() Key { return Key{Topic: s.topic.name, Partition: s.partition} }

func (s *slot) lease() Lease { return Lease{Instance: s.owner.ID, Epoch: s.epoch} }

// empty tells whether nothing is known of the key any more.
func (s *slot) empty() bool { return s.epoch == NoEpoch && s.next == NoProgress && len(s.marks) == 0 }

func compareSlots(a, b *slot) int {
	if a.topic != b.topic {
		return cmp.Compare(a.topic.name, b.topic.name)
	}
	return cmp.Compare(a.partition, b.partition)
}

// Which list a slotList is: the index into slot.pos.
const (
	ofTopic = iota
	ofOwner
)

// slotList is a set of held slots with constant time changes that is put in order when it is walked.
type slotList struct {
	which    uint8
	unsorted bool
	slots    []*slot
}

func (l *slotList) add(s *slot) {
	n := len(l.slots)
	if n > 0 && compareSlots(l.slots[n-1], s) > 0 {
		l.unsorted = true
	}
	s.pos[l.which] = int32(n)
	l.slots = append(l.slots, s)
}

func (l *slotList) remove(s *slot) {
	i, last := s.pos[l.which], len(l.slots)-1
	if int(i) != last {
		moved := l.slots[last]
		l.slots[i], moved.pos[l.which] = moved, i
		l.unsorted = true
	}
	l.slots[last] = nil
	l.slots = l.slots[:last]
	if last == 0 {
		l.unsorted = false
	}
}

// ordered gives the slots in the order of topic and partition. The slice is valid until the list changes.
func (l *slotList) ordered() []*slot {
	if l.unsorted {
		slices.SortFunc(l.slots, compareSlots)
		for i, s := range l.slots {
			s.pos[l.which] = int32(i)
		}
		l.unsorted = false
	}
	return l.slots
}
