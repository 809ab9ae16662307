package lease

import "github.com/kafka-marshal/marshal/internal/rule"

// ownSlot finds the key that its author gives up; nil, and an event, if it does not hold it with that epoch.
func (a *application) ownSlot(k Key, epoch int64) *slot {
	s := a.w.topics.find(k.Topic).find(k.Partition)
	switch {
	case !s.heldBy(a.author):
		a.skipped(k, NotHeld)
	case s.epoch != epoch && !rule.Broken(rule.ReleaseEpoch):
		a.skipped(k, OldEpoch)
	default:
		return s
	}
	return nil
}

// finalOffsets takes the next offsets of a key that is being given up.
func (a *application) finalOffsets(s *slot, k *ReleasedKey) {
	for i, p := range k.Partitions {
		if s.partition != WholeTopic && p != s.partition {
			a.skipped(Key{s.topic.name, p}, Malformed)
			continue
		}
		a.report(s, p, k.TopicID, k.Next[i], k.Epoch)
	}
}

// release frees keys of its author, or hands them to the successor.
func (a *application) release() {
	r := &a.rec.Release
	successor, fits := a.successor(r.Successor)
	for i := range r.Keys {
		k := &r.Keys[i]
		s := a.ownSlot(k.Key, k.Epoch)
		if s == nil {
			continue
		}
		a.finalOffsets(s, k)
		switch {
		case fits:
			a.w.assign(s, successor, a.rec.Offset)
			a.keyEvent(HandedOver, successor.ID, s.key(), s.epoch).By = a.author.ID
		default:
			if !r.Successor.IsZero() {
				a.skipped(s.key(), NotSuccessor)
			}
			a.w.free(s)
			a.keyEvent(Released, a.author.ID, s.key(), s.epoch)
		}
		if r.Unfit {
			a.mark(a.author, s)
		}
	}
}

func (a *application) successor(id InstanceID) (*instance, bool) {
	in := a.w.instances[id]
	return in, in != nil && (in.Status == Alive && in != a.author || rule.Broken(rule.Successor))
}
