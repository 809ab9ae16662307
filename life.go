package marshal

import (
	"fmt"
	"sync/atomic"
	"time"
)

// life tells whether the application of a consumer still works, after a partition at which it hung has gone elsewhere: nothing that stands
// still is left here then. All readings of a consumer share one.
type life struct {
	hung   atomic.Pointer[hang] // nil: it has shown life since, or never hung
	asking atomic.Int32         // how many calls of the application wait for a message
}

// hang is a message that was not finished in time when the claim of its partition ended.
type hang struct {
	topic string
	id    int32
	at    int64
	since time.Duration // Mono
}

// shown notes a sign of life: the application asks for a message, has received one, or finishes one.
func (l *life) shown() {
	if l.hung.Load() != nil {
		l.hung.Store(nil)
	}
}

// ails is nil where the application has shown life since it hung.
func (l *life) ails(now time.Duration) error {
	h := l.hung.Load()
	switch {
	case h == nil:
		return nil
	case l.asking.Load() > 0:
		l.hung.CompareAndSwap(h, nil)
		return nil
	}
	return fmt.Errorf("%w: the one at %d of %s/%d, in hand for %v, was not when its claim ended, and the application has asked for nothing since",
		ErrStalled, h.at, h.topic, h.id, (now - h.since).Round(time.Millisecond))
}

// hangs gives the message of p that is in hand for StallTimeout or longer; nil: none is.
func (p *partition) hangs() *hang {
	stalled := p.stalledSince.Load()
	if stalled == 0 {
		return nil
	}
	n, since := p.inHand()
	if n == 0 || p.claim.m.c.clock.now().Mono-since < p.claim.consumer.options.StallTimeout { // it was finished just now
		return nil
	}
	return &hang{topic: p.topic, id: p.id, at: p.position(), since: time.Duration(stalled)}
}
