package lease

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// topic is the index of one topic: its keys, which of them are held, and how many partitions the alive state.
type topic struct {
	name   string
	hash   uint64
	whole  *slot    // of the whole topic; nil: nothing is known of it
	slots  index    // of its partitions
	known  int32    // how many those are
	leased int32    // how many of all are held: a whole topic alone, or partitions
	life   *life    // the newest that a partition's progress belongs to
	stated []stated // by rising count

	// "One record names one id per topic": the id that the record at offset namedAt named. Of no meaning afterwards.
	namedAt int64
	named   TopicID
}

// stated is how many times a partition count is stated by the interests of the alive.
type stated struct{ count, times int32 }

func (w *World) topic(name string) *topic {
	t := w.topics[name]
	if t == nil {
		name = strings.Clone(name)
		t = &topic{name: name, hash: hashString(name), namedAt: -1}
		w.topics[name] = t
		w.topicOrder = nil
	}
	return t
}

// prune forgets a topic of which nothing is known.
func (w *World) prune(t *topic) {
	if t.whole == nil && t.known == 0 && len(t.stated) == 0 {
		delete(w.topics, t.name)
		w.topicOrder = nil
	}
}

// orderedTopics gives all topics by name.
func (w *World) orderedTopics() []*topic {
	if w.topicOrder == nil {
		w.topicOrder = make([]*topic, 0, len(w.topics))
		for _, t := range w.topics {
			w.topicOrder = append(w.topicOrder, t)
		}
		slices.SortFunc(w.topicOrder, func(a, b *topic) int { return cmp.Compare(a.name, b.name) })
	}
	return w.topicOrder
}

// find gives the slot of a key of the topic, if there is one. t may be nil.
func (t *topic) find(partition int32) *slot {
	switch {
	case t == nil:
		return nil
	case partition == WholeTopic:
		return t.whole
	default:
		return t.slots.at(partition)
	}
}

// cover gives the held slot that covers a partition: its own, or its topic's. t may be nil.
func (t *topic) cover(partition int32) *slot {
	if t == nil {
		return nil
	}
	if t.whole != nil && t.whole.held() {
		return t.whole
	}
	if s := t.slots.at(partition); s != nil && s.held() {
		return s
	}
	return nil
}

// inTheWay yields the held slots on the key or on one that conflicts with it, in order. t may be nil.
func (t *topic) inTheWay(partition int32) iter.Seq[*slot] {
	return func(yield func(*slot) bool) {
		if s := t.cover(partition); s != nil {
			yield(s)
		} else if partition == WholeTopic {
			t.leases()(yield)
		}
	}
}

// leases yields the held slots, in order, without a walk where there are none. t may be nil.
func (t *topic) leases() iter.Seq[*slot] {
	return func(yield func(*slot) bool) {
		if t == nil || t.leased == 0 {
			return
		}
		left := t.leased
		if s := t.cover(WholeTopic); s != nil {
			if left--; !yield(s) || left == 0 { // it is alone, unless a rule is broken
				return
			}
		}
		for s := range t.slots.all() {
			if s.held() {
				if left--; !yield(s) || left == 0 {
					return
				}
			}
		}
	}
}

// full tells whether there is no room for another slot.
func (w *World) full() bool { return w.keys >= MaxKeys }

// makeSlot gives the slot of a key, a new one if there is none. The caller has seen to the limit.
func (w *World) makeSlot(t *topic, partition int32) *slot {
	if s := t.find(partition); s != nil {
		return s
	}
	s := new(slot)
	w.place(s, t, partition)
	return s
}

// place makes a slot that of a key which has none.
func (w *World) place(s *slot, t *topic, partition int32) {
	*s = slot{topic: t, partition: partition, at: free, epoch: NoEpoch, next: NoProgress}
	w.keys++
	if partition == WholeTopic {
		t.whole = s
		return
	}
	t.slots.put(s, int(t.known))
	t.known++
}

// dropSlot forgets a slot that is empty (an atomic Claim that is undone makes them).
func (w *World) dropSlot(s *slot) {
	t := s.topic
	w.keys--
	if s.partition == WholeTopic {
		t.whole = nil
	} else {
		t.slots.drop(s.partition)
		t.known--
	}
	w.prune(t)
}

// partitions is the largest count stated.
func (t *topic) partitions() int32 {
	if t == nil || len(t.stated) == 0 {
		return 0
	}
	return t.stated[len(t.stated)-1].count
}

func (t *topic) state(count, times int32) {
	i, found := slices.BinarySearchFunc(t.stated, count, func(s stated, c int32) int { return cmp.Compare(s.count, c) })
	if !found {
		t.stated = slices.Insert(t.stated, i, stated{count: count})
	}
	if t.stated[i].times += times; t.stated[i].times == 0 {
		t.stated = slices.Delete(t.stated, i, i+1)
	}
}

// state counts the interests of an alive instance in (times 1) or out (times -1).
func (w *World) state(interests []Interest, times int32) {
	for i := range interests {
		for _, ti := range interests[i].Topics {
			t := w.topic(ti.Topic)
			w.partitions -= int64(t.partitions())
			t.state(ti.Partitions, times)
			w.partitions += int64(t.partitions())
			w.prune(t)
		}
	}
}

// restate counts one set of interests out and another in, unless too many partitions came of it.
func (w *World) restate(old, now []Interest) bool {
	w.state(old, -1)
	w.state(now, 1)
	if w.partitions <= MaxPartitions {
		return true
	}
	w.state(now, -1)
	w.state(old, 1)
	return false
}
