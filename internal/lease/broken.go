package lease

import (
	"slices"

	"github.com/kafka-marshal/marshal/internal/rule"
)

// What the world does where a rule is broken and that takes more than leaving out a comparison. No build for use has it in it.

// remember takes the ended of before a Base into the world after it.
func (w *World) remember(ended []*instance) {
	w.ended = ended
	for _, in := range ended {
		in.restSum = 0
		w.instances[in.ID] = in
		w.sumEnded(in)
	}
}

// unremember forgets that an instance has ended.
func (w *World) unremember(in *instance) {
	replaceSum(&w.restSum, &in.restSum, 0)
	delete(w.instances, in.ID)
	w.ended = slices.DeleteFunc(slices.Clone(w.ended), func(o *instance) bool { return o == in })
}

// overlooks tells whether a lease in the way of a key, to be claimed, is not seen to be.
func (a *application) overlooks(h *slot, partition int32) bool {
	return rule.Broken(rule.TopicConflict) && h.partition != partition ||
		rule.Broken(rule.AtomicBefore) && a.rec.Claim.Atomic && h.owner == a.author && h.epoch == a.rec.Offset
}
