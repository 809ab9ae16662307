package lease

import (
	"iter"
	"slices"
)

// Last is the offset of the group's newest record applied; -1: none.
func (w *World) Last() int64 { return w.last }

// TokenBase is what every token of the group starts from; 0: not set yet.
func (w *World) TokenBase() int64 { return w.tokenBase }

// TopicID is that of the coordination topic, as given to NewWorld.
func (w *World) TopicID() TopicID { return w.topicID }

// WireVersion is the highest version that everybody joined can read (at least 2).
func (w *World) WireVersion() uint8 {
	for v, n := range w.versions {
		if n > 0 {
			return max(uint8(v), WireVersion)
		}
	}
	return WireVersion
}

// Instance finds an instance, ended ones too while they are remembered; nil: unknown.
func (w *World) Instance(id InstanceID) *Instance {
	if in := w.instances[id]; in != nil {
		return &in.Instance
	}
	return nil
}

// HasClient tells whether an instance of this client id is alive.
func (w *World) HasClient(client string) bool { return len(w.clients[client]) > 0 }

// Instances yields those that have not ended (alive and parked), in the order of FirstJoin.
func (w *World) Instances() iter.Seq[*Instance] {
	return func(yield func(*Instance) bool) {
		for _, in := range w.present {
			if !yield(&in.Instance) {
				return
			}
		}
	}
}

// Lease finds the lease on exactly this key.
func (w *World) Lease(k Key) (Lease, bool) {
	if s := w.topics.find(k.Topic).find(k.Partition); s != nil && s.held() {
		return s.lease(), true
	}
	return Lease{}, false
}

// Owner finds the lease that covers a partition: its own or its topic's.
func (w *World) Owner(topic string, partition int32) (Key, Lease, bool) {
	if s := w.topics.find(topic).cover(partition); s != nil {
		return s.key(), s.lease(), true
	}
	return Key{}, Lease{}, false
}

// Conflict finds a lease on k or on a key that conflicts with it: of several the lowest partition's.
func (w *World) Conflict(k Key) (Key, Lease, bool) {
	for s := range w.topics.find(k.Topic).inTheWay(k.Partition) {
		return s.key(), s.lease(), true
	}
	return Key{}, Lease{}, false
}

// Conflicts yields the leases on k and on the keys that conflict with it, in the order of partitions.
func (w *World) Conflicts(k Key) iter.Seq2[Key, Lease] {
	return func(yield func(Key, Lease) bool) {
		for s := range w.topics.find(k.Topic).inTheWay(k.Partition) {
			if !yield(s.key(), s.lease()) {
				return
			}
		}
	}
}

// Leases yields every lease, in the order of topic and partition.
func (w *World) Leases() iter.Seq2[Key, Lease] {
	return func(yield func(Key, Lease) bool) {
		for _, t := range w.orderedTopics() {
			for s := range t.leases() {
				if !yield(s.key(), s.lease()) {
					return
				}
			}
		}
	}
}

// HeldBy yields the leases of one instance, in the order of topic and partition, without walking those of others.
func (w *World) HeldBy(id InstanceID) iter.Seq2[Key, Lease] {
	return func(yield func(Key, Lease) bool) {
		in := w.instances[id]
		if in == nil {
			return
		}
		for _, s := range in.held.ordered() {
			if !yield(s.key(), s.lease()) {
				return
			}
		}
	}
}

// HeldCount is how many leases an instance has.
func (w *World) HeldCount(id InstanceID) int {
	if in := w.instances[id]; in != nil {
		return in.held.len()
	}
	return 0
}

// Partitions is the world's partition count of a topic: the largest that an alive instance's newest Join states.
func (w *World) Partitions(topic string) int32 { return w.topics.find(topic).partitions() }

// Progress finds what is known of a partition.
func (w *World) Progress(topic string, partition int32) (Progress, bool) {
	if t := w.topics.find(topic); t != nil && partition != WholeTopic {
		if s := t.slots.at(partition); s != nil {
			return s.progress(), true
		}
	}
	return Progress{}, false
}

func (s *slot) progress() Progress {
	p := Progress{TopicID: s.life.topicID(), Next: s.next, Replaced: s.life.replaced(), Client: s.client(), Epoch: s.epoch}
	if whole := s.topic.slots.whole(); whole != nil && whole.epoch > p.Epoch {
		p.Client, p.Epoch = whole.client(), whole.epoch
	}
	return p
}

// AllProgress yields every partition of which something is known, in the order of topic and partition.
func (w *World) AllProgress() iter.Seq2[Key, Progress] {
	return func(yield func(Key, Progress) bool) {
		for _, t := range w.orderedTopics() {
			for s := range t.slots.partitions() {
				if !yield(s.key(), s.progress()) {
					return
				}
			}
		}
	}
}

// Unfit tells whether (instance, key) is marked.
func (w *World) Unfit(id InstanceID, k Key) bool {
	return slices.ContainsFunc(w.unfit(k), func(in *instance) bool { return in.ID == id })
}

// HasMark tells whether anybody is marked unfit for the key.
func (w *World) HasMark(k Key) bool { return len(w.unfit(k)) > 0 }

// unfit gives the instances that are marked unfit for a key.
func (w *World) unfit(k Key) []*instance {
	if w.marked == 0 {
		return nil
	}
	return w.marks[w.topics.find(k.Topic).find(k.Partition)]
}

// HasMarks tells whether anybody is marked unfit for anything.
func (w *World) HasMarks() bool { return w.marked > 0 }
