package lease

import "github.com/kafka-marshal/marshal/internal/rule"

// heartbeat moves the progress of what its author holds.
func (a *application) heartbeat() {
	h := &a.rec.Heartbeat
	for i := range h.Topics {
		tp := &h.Topics[i]
		t := a.w.topics.find(tp.Topic)
		for n, p := range tp.Partitions {
			epoch := tp.Epochs[n]
			held := t.cover(p)
			switch {
			case !held.heldBy(a.author) && !(rule.Broken(rule.Holder) && held != nil):
				a.skipped(Key{tp.Topic, p}, NotHeld)
			case held.epoch != epoch && !rule.Broken(rule.Epoch) && !(rule.Broken(rule.Holder) && held.owner != a.author):
				a.skipped(Key{tp.Topic, p}, OldEpoch)
			default:
				a.report(held, p, tp.TopicID, tp.Next[n], epoch)
			}
		}
	}
	if h.Announces {
		a.event(Announced, a.author.ID)
	}
}

// report moves the progress of partition p up to next. held is what the author holds: the partition, or its topic.
func (a *application) report(held *slot, p int32, id TopicID, next, epoch int64) {
	t, s := held.topic, held
	if held.partition == WholeTopic {
		s = t.slots.at(p)
	}
	switch reason := a.unreportable(t, s, p, id, next); {
	case reason != NoReason:
		a.skipped(Key{t.name, p}, reason)
		return
	case s == nil:
		s = a.w.makeSlot(t, p)
	}
	a.w.setProgress(s, id, next)
	a.keyEvent(Progressed, a.author.ID, s.key(), epoch).Next = next
}

// unreportable says why an entry is skipped. s is the partition's slot, nil if nothing is known of it.
func (a *application) unreportable(t *topic, s *slot, p int32, id TopicID, next int64) Reason {
	switch {
	case p < 0 || next < 0 || !a.names(t, id):
		return Malformed
	case s == nil && a.w.full():
		return TooMany
	case s != nil && s.life.replaces(id):
		return OldTopic
	case s != nil && next < s.next && id.Same(s.life.topicID()) && !(rule.Broken(rule.ReleaseLowers) && a.rec.Kind != KindHeartbeat):
		return Behind
	}
	return NoReason
}

// names tells whether the record may name this id for the topic: one record names one id per topic.
func (a *application) names(t *topic, id TopicID) bool {
	w := a.w
	if n := int(t.named); n >= len(w.named) || w.named[n].topic != t {
		t.named = int32(len(w.named))
		w.named = append(w.named, naming{t, id})
	}
	named := &w.named[t.named].id
	if named.IsZero() {
		*named = id
	}
	return id.Same(*named)
}

// setProgress sets progress and topic id. Another id than the known one replaces it: the topic was recreated.
func (w *World) setProgress(s *slot, id TopicID, next int64) {
	h := s.lifeHash()
	w.restSum -= s.progressSum(h)
	if !id.IsZero() && id != s.life.topicID() {
		s.life = s.topic.live(id, s.life.newest(MaxReplaced))
		h = s.lifeHash()
	}
	s.next = next
	w.restSum += s.progressSum(h)
}
