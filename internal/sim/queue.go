package sim

import "time"

// event is something that happens at a moment of real (virtual) time. seq orders those of one moment.
type event struct {
	at  time.Duration
	seq uint64
	fn  func()
}

func (e event) before(o event) bool {
	if e.at != o.at {
		return e.at < o.at
	}
	return e.seq < o.seq
}

// queue is a binary heap of events.
type queue struct {
	heap []event
	seq  uint64
}

func (q *queue) push(at time.Duration, fn func()) {
	q.seq++
	h := append(q.heap, event{at: at, seq: q.seq, fn: fn})
	for i := len(h) - 1; i > 0; {
		up := (i - 1) / 2
		if !h[i].before(h[up]) {
			break
		}
		h[i], h[up] = h[up], h[i]
		i = up
	}
	q.heap = h
}

func (q *queue) pop() (event, bool) {
	h := q.heap
	if len(h) == 0 {
		return event{}, false
	}
	first := h[0]
	last := len(h) - 1
	h[0], h[last] = h[last], event{}
	h = h[:last]
	for i := 0; ; {
		down := 2*i + 1
		if down >= last {
			break
		}
		if down+1 < last && h[down+1].before(h[down]) {
			down++
		}
		if !h[down].before(h[i]) {
			break
		}
		h[i], h[down] = h[down], h[i]
		i = down
	}
	q.heap = h
	return first, true
}
