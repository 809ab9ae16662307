package marshal

import (
	"context"
	"errors"
)

// ConsumeChannel gives the channel of messages; it is the same at each call. It is unbuffered, and it is closed when the consumer
// terminates. Problems of a partition are not seen on it: they are in the log. Reading it beside FetchMessage, Messages or
// Batches shares the messages out among them.
func (c *Consumer) ConsumeChannel() <-chan *Message {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.pumping {
		c.pumping = true
		c.wg.Go(c.pump)
	}
	return c.channel
}

// pump offers messages on the channel, one at a time, by a plain send.
func (r *reading) pump() {
	defer close(r.channel)
	for {
		m, err := r.offer()
		if errors.Is(err, ErrTerminated) {
			return
		}
		if err != nil {
			continue // a problem of one partition: it was logged where it arose
		}
		r.channel <- m
		if r.life.hung.Load() != nil && r.wanted.Load() != m { // one that was wanted back may have been taken back; if not, what is done with it shows life
			r.life.shown()
		}
	}
}

// offer gives what the pump offers next; what it offered before was received.
func (r *reading) offer() (*Message, error) {
	r.mu.Lock()
	r.offered = nil
	if r.taking {
		wakeUp(r.offerDone)
	}
	if !r.stopped && len(r.problems) == 0 { // the usual case
		r.offered = r.next()
	}
	m := r.offered
	r.mu.Unlock()
	if m != nil {
		return m, nil
	}
	err := r.get(context.Background(), false, func() bool {
		m = r.next()
		r.offered = m
		return m != nil
	})
	return m, err
}

// recall takes the message back that the pump offers, if it may not be handed out (any more).
func (r *reading) recall() {
	r.takeMu.Lock()
	defer r.takeMu.Unlock()
	select {
	case <-r.offerDone:
	default:
	}
	m := r.take(true)
	defer r.take(false)
	if m == nil || r.allowed(m) {
		return
	}
	r.wanted.Store(m)
	select {
	case m, open := <-r.channel:
		if !open {
			return // the application was faster, and the pump has ended since
		}
		p := m.from
		now := p.claim.lockReading() // another than r, if the claim was given to the application meanwhile
		if now.current == p {
			now.putAside()
		}
		p.unsent = append([]*Message{m}, p.unsent...)
		now.first(p)
		now.mu.Unlock()
	case <-r.offerDone:
	}
}

// take begins or ends taking back, and gives what the pump offers, if it was not received before the last one was asked for.
func (r *reading) take(now bool) *Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.taking = now
	return r.offered
}

func (r *reading) allowed(m *Message) bool {
	r.mu.Lock()
	stopped := r.stopped
	r.mu.Unlock()
	return !stopped && m.from.open() && m.from.claim.reading.Load() == r && r.m.trusted()
}
