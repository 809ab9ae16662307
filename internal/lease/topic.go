package lease

import (
	"cmp"
	"iter"
	"slices"
	"strings"
)

// topic is the index of one topic: its keys, how many of them are held, and how many partitions the alive state. There may
// be as many as there are keys, so it is kept small.
type topic struct {
	name   string
	slots  index
	known  int32  // slots of partitions
	leased int32  // how many of all are held: a whole topic alone, or partitions
	stated stated // where the alive state no more than one count; else index.rare.several
	life   *life  // the newest that a partition's progress belongs to
	named  int32  // where in World.named the id may be that the record being applied named
}

// stated is how many times a partition count is stated by the interests of the alive.
type stated struct{ count, times int32 }

func (w *World) topic(name string) *topic {
	t := w.topics.find(name)
	if t == nil {
		t = &topic{name: strings.Clone(name)}
		w.topics.add(t)
		w.topicOrder = nil
	}
	return t
}

// prune forgets a topic of which nothing is known.
func (w *World) prune(t *topic) {
	if t.known == 0 && t.slots.whole() == nil && t.stated.times == 0 && (t.slots.rare == nil || t.slots.rare.several == nil) {
		w.topics.remove(t)
		w.topicOrder = nil
	}
}

// orderedTopics gives all topics by name.
func (w *World) orderedTopics() []*topic {
	if w.topicOrder == nil {
		w.topicOrder = slices.AppendSeq(make([]*topic, 0, w.topics.count), w.topics.all())
		slices.SortFunc(w.topicOrder, func(a, b *topic) int { return cmp.Compare(a.name, b.name) })
	}
	return w.topicOrder
}

// find gives the slot of a key of the topic, if there is one. t may be nil.
func (t *topic) find(partition int32) *slot {
	if t == nil {
		return nil
	}
	return t.slots.at(partition)
}

// cover gives the held slot that covers a partition: its own, or its topic's. t may be nil.
func (t *topic) cover(partition int32) *slot {
	if t == nil {
		return nil
	}
	if whole := t.slots.whole(); whole != nil && whole.held() {
		return whole
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
		for s := range t.slots.partitions() {
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
		t.slots.needRare().whole = s
		return
	}
	t.slots.put(s, int(t.known))
	t.known++
}

// dropSlot forgets a slot that is empty (an atomic Claim that is undone makes them).
func (w *World) dropSlot(s *slot) {
	t := s.topic
	w.keys--
	t.slots.drop(s.partition)
	if s.partition != WholeTopic {
		t.known--
	}
	w.prune(t)
}

// partitions is the largest count stated.
func (t *topic) partitions() int32 {
	switch {
	case t == nil:
		return 0
	case t.slots.rare != nil && t.slots.rare.several != nil:
		return t.slots.rare.several[len(t.slots.rare.several)-1].count
	case t.stated.times == 0:
		return 0
	}
	return t.stated.count
}

func (t *topic) state(count, times int32) {
	var several []stated
	if t.slots.rare != nil {
		several = t.slots.rare.several
	}
	if several == nil {
		if t.stated.times == 0 || t.stated.count == count {
			t.stated = stated{count, t.stated.times + times}
			return
		}
		several = []stated{t.stated}
	}
	i, found := slices.BinarySearchFunc(several, count, func(s stated, c int32) int { return cmp.Compare(s.count, c) })
	if !found {
		several = slices.Insert(several, i, stated{count: count})
	}
	if several[i].times += times; several[i].times == 0 {
		several = slices.Delete(several, i, i+1)
	}
	t.stated = stated{}
	if len(several) == 1 {
		t.stated, several = several[0], nil
	}
	t.slots.needRare().several = several
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
