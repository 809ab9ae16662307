package lease

import (
	"cmp"
	"encoding/binary"
	"slices"

	"github.com/kafka-marshal/marshal/internal/rule"
)

// The canonical bytes of a world, all numbers unsigned varints unless said, every text preceded by its length:
//
//	format (1 byte), topic id (16 bytes), last + 1, token base
//	number of instances, each, in the order of FirstJoin:
//	    id (16 bytes), client, host, ttl in ns, wire version, 1 if parked, seq, FirstJoin, Renewed, load (2 signed varints),
//	    number of interests, each: flags, maximum, weight, number of topics, each: name, partitions
//	    number of pinned keys, each: topic, partition + 1
//	number of ended instances, each, in the order of EndedAt and FirstJoin: id, client, FirstJoin, EndedAt
//	number of topics of which a key is known, each, by name: name, number of keys, each, the whole topic first:
//	    partition + 1, flags, and what they announce:
//	    held: number of the owner among the instances, epoch; owned: client of the last owner, epoch
//	    progress: next; identified: topic id; replaced: number, ids; marked: number, numbers of instances, rising
const format = 1

const (
	keyHeld = 1 << iota
	keyOwned
	keyProgress
	keyIdentified
	keyReplaced
	keyMarked
	keyFlags = 1<<iota - 1
)

const (
	interestWhole = 1 << iota
	interestGreedy
)

func flags(whole, greedy bool) (f uint64) {
	if whole {
		f |= interestWhole
	}
	if greedy {
		f |= interestGreedy
	}
	return f
}

// AppendBinary appends the canonical bytes of the world: equal worlds give equal bytes.
func (w *World) AppendBinary(b []byte) []byte {
	b = slices.Grow(b, w.sizeGuess())
	b = append(b, format)
	b = append(b, w.topicID[:]...)
	b = appendInt(b, w.last+1)
	b = appendInt(b, w.tokenBase)
	b = appendInt(b, int64(len(w.present)))
	for i, in := range w.present {
		in.index = i
		b = in.append(b)
	}
	b = w.appendEnded(b)
	topics := w.orderedTopics()
	known := 0
	for _, t := range topics {
		if t.keys() > 0 {
			known++
		}
	}
	b = appendInt(b, int64(known))
	for _, t := range topics {
		if t.keys() > 0 {
			b = w.appendTopic(b, t)
		}
	}
	return b
}

// sizeGuess is about how many bytes there will be: a large world is not to be copied again and again while they grow.
func (w *World) sizeGuess() int {
	const perKey, perTopic, perInstance = 36, 32, 64
	return perKey*w.keys + perTopic*w.topics.count + perInstance*(len(w.present)+len(w.ended)) + w.joins
}

func appendInt(b []byte, n int64) []byte { return binary.AppendUvarint(b, uint64(n)) }

func appendString(b []byte, s string) []byte { return append(appendInt(b, int64(len(s))), s...) }

func (in *instance) append(b []byte) []byte {
	b = append(b, in.ID[:]...)
	b = appendString(b, in.Client)
	b = appendString(b, in.Host)
	b = appendInt(b, int64(in.TTL))
	b = appendInt(b, int64(in.MaxVersion))
	if in.Status == IsParked {
		b = append(b, 1)
	} else {
		b = append(b, 0)
	}
	b = binary.AppendUvarint(b, in.Seq)
	b = appendInt(b, in.FirstJoin)
	b = appendInt(b, in.Renewed)
	b = binary.AppendVarint(b, in.Load.InFlight)
	b = binary.AppendVarint(b, in.Load.Lag)
	b = appendInt(b, int64(len(in.Interests)))
	for i := range in.Interests {
		it := &in.Interests[i]
		b = binary.AppendUvarint(b, flags(it.Whole, it.Greedy))
		b = appendInt(b, int64(it.Max))
		b = appendInt(b, int64(it.Weight))
		b = appendInt(b, int64(len(it.Topics)))
		for _, t := range it.Topics {
			b = appendString(b, t.Topic)
			b = appendInt(b, int64(t.Partitions))
		}
	}
	b = appendInt(b, int64(len(in.Pinned)))
	for _, k := range in.Pinned {
		b = appendString(b, k.Topic)
		b = appendInt(b, int64(k.Partition)+1)
	}
	return b
}

func (w *World) appendEnded(b []byte) []byte {
	if rule.Broken(rule.EndedMemory) {
		return appendInt(b, 0)
	}
	ended := slices.Clone(w.ended)
	slices.SortFunc(ended, compareEnded)
	b = appendInt(b, int64(len(ended)))
	for _, in := range ended {
		b = append(b, in.ID[:]...)
		b = appendString(b, in.Client)
		b = appendInt(b, in.FirstJoin)
		b = appendInt(b, in.EndedAt)
	}
	return b
}

func compareEnded(a, b *instance) int {
	return cmp.Or(cmp.Compare(a.EndedAt, b.EndedAt), cmp.Compare(a.FirstJoin, b.FirstJoin))
}

// keys is of how many keys of the topic something is known.
func (t *topic) keys() int {
	if t.slots.whole() != nil {
		return int(t.known) + 1
	}
	return int(t.known)
}

func (w *World) appendTopic(b []byte, t *topic) []byte {
	b = appendString(b, t.name)
	b = appendInt(b, int64(t.keys()))
	if whole := t.slots.whole(); whole != nil {
		b = w.appendSlot(b, whole)
	}
	for s := range t.slots.partitions() {
		b = w.appendSlot(b, s)
	}
	return b
}

func (w *World) appendSlot(b []byte, s *slot) []byte {
	b = appendInt(b, int64(s.partition)+1)
	at := len(b)
	b = append(b, 0)
	var is byte
	switch {
	case s.held():
		is |= keyHeld
		b = appendInt(b, int64(s.owner.index))
		b = appendInt(b, s.epoch)
	case s.epoch != NoEpoch:
		is |= keyOwned
		b = appendString(b, s.owner.Client)
		b = appendInt(b, s.epoch)
	}
	if s.next != NoProgress {
		is |= keyProgress
		b = appendInt(b, s.next)
	}
	if s.life != nil {
		is |= keyIdentified
		b = append(b, s.life.id[:]...)
		if replaced := s.life.replaced(); len(replaced) > 0 {
			is |= keyReplaced
			b = appendInt(b, int64(len(replaced)))
			for _, id := range replaced {
				b = append(b, id[:]...)
			}
		}
	}
	if w.marked > 0 && len(w.marks[s]) > 0 {
		is |= keyMarked
		b = appendInt(b, int64(len(w.marks[s])))
		for _, in := range w.marks[s] {
			b = appendInt(b, int64(in.index))
		}
	}
	b[at] = is
	return b
}
