package marshal

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/kafka-marshal/marshal/internal/batch"
	"github.com/kafka-marshal/marshal/internal/kafka"
)

// request is one fetch under way.
type request struct {
	asked []asked
	parts []kafka.FetchPart
	wait  time.Duration
}

// asked is one partition of a request.
type asked struct {
	p       *partition
	offset  int64
	fetches int
	most    int  // bytes
	got     int  // messages, once the answer is queued
	told    bool // the answer says something of it
}

// void tells whether the answer is of no use: the partition does not stand, or does not stand any more, where it was asked for.
func (a *asked) void() bool {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	return a.p.over != nil || a.p.fetches != a.fetches || a.p.next != a.offset
}

// unchanged says that the broker has nothing new to tell: the log ends where it did.
func (a *asked) unchanged() {
	a.p.mu.Lock()
	defer a.p.mu.Unlock()
	if a.p.over == nil && a.p.fetches == a.fetches && a.p.next == a.offset && a.p.logEnd >= 0 {
		a.p.endAt = time.Now()
	}
}

// ahead is what an answer in hand is about to do to a partition.
type ahead struct {
	raw   int   // bytes, as they came
	next  int64 // -1: it stays
	epoch int32 // of the newest batch; -1: none
}

// run serves one of the two connections until the consumer ends.
func (b *fetchBroker) run(which int) {
	ctx, c := b.f.ctx, b.f.c
	var conn *kafka.FetchConn
	var decoder batch.Reader
	for ctx.Err() == nil {
		if b.wears(which) && conn != nil {
			_ = conn.Close()
			conn = nil
		}
		if conn == nil { // the second one too is opened in advance
			began := time.Now()
			var err error
			conn, err = c.m.c.client.OpenFetch(ctx, b.id, c.fetchSettings())
			if ctx.Err() == nil {
				c.counters.dialled(began, err)
			}
			if err != nil {
				if b.needed() {
					b.trouble(ctx, err)
				} else {
					b.await(ctx, which, time.Hour)
				}
				continue
			}
		}
		r, wake := b.pick(which, nil)
		if r == nil {
			b.await(ctx, which, wake)
			continue
		}
		open := conn // stop does not wait for whom it could not stop
		stop := context.AfterFunc(ctx, func() { _ = open.Close() })
		err := b.serve(which, conn, &decoder, r)
		stop()
		if err != nil {
			_ = conn.Close()
			conn = nil
			if ctx.Err() == nil {
				c.counters.broke(err)
			}
			b.trouble(ctx, err)
		}
	}
	if conn != nil {
		_ = conn.Close()
	}
}

// needed tells whether a partition is led there. A broker that nobody needs may be gone for good.
func (b *fetchBroker) needed() bool {
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	return len(b.parts) > 0
}

// await waits until one of the two connections may have something to do.
func (b *fetchBroker) await(ctx context.Context, which int, most time.Duration) {
	t := time.NewTimer(most)
	defer t.Stop()
	select {
	case <-b.kicks[which]:
	case <-t.C:
	case <-ctx.Done():
	}
}

// serve keeps asking while there is something to ask for. The next request is on the wire before the last answer is looked at.
func (b *fetchBroker) serve(which int, conn *kafka.FetchConn, decoder *batch.Reader, r *request) error {
	if err := conn.Send(r.parts, r.wait); err != nil {
		b.release(which, r, nil)
		return err
	}
	var last *kafka.FetchAnswer
	for {
		if which == longPoll {
			wakeUp(b.kicks[quickPoll])
		}
		answer, err := conn.Receive()
		runtime.KeepAlive(last) // a heap that falls to nothing between two answers is given back to the system, and faulted in again
		if err != nil {
			b.release(which, r, nil)
			return err
		}
		if b.troubled.Swap(false) {
			b.f.c.ailments.over(b.name())
		}
		order := r.match(answer)
		b.follow(answer, order)
		b.throttle(answer.Throttle)
		coming, plain := r.project(answer, order)
		next, _ := b.pick(which, coming)
		if next != nil {
			err = conn.Send(next.parts, next.wait)
		}
		messages := 0
		for i := range answer.Parts {
			b.deliver(decoder, order[i], &answer.Parts[i], answer.Bytes)
			messages += order[i].got
		}
		b.f.c.counters.answered(answer, messages)
		if !plain {
			answer.Recycle()
		}
		last = answer
		b.release(which, r, next)
		if err != nil {
			b.release(which, next, nil)
			return err
		}
		if next == nil {
			return nil
		}
		r = next
	}
}

// match finds for each part of an answer what was asked. What only news are told of and is not among them is as it was.
func (r *request) match(answer *kafka.FetchAnswer) []*asked {
	order := make([]*asked, len(answer.Parts))
	for i := range answer.Parts {
		order[i] = &r.asked[answer.Parts[i].At]
		order[i].told = true
	}
	if answer.News {
		for i := range r.asked {
			if !r.asked[i].told {
				r.asked[i].unchanged()
			}
		}
	}
	return order
}

// project tells where each partition will be when the answer is queued, from the headers of its batches; and whether
// messages will point into the answer. One whose answer is void stays where it is: what was projected for it did not come true.
func (r *request) project(answer *kafka.FetchAnswer, order []*asked) (m map[*partition]ahead, plain bool) {
	m = make(map[*partition]ahead, len(order))
	for i, a := range order {
		part := &answer.Parts[i]
		switch {
		case a.void():
			m[a.p] = ahead{next: -1, epoch: -1}
		case part.Err == nil && !part.Diverging:
			next, epoch, direct := lastBatch(part.Records)
			plain = plain || direct
			if next <= a.offset {
				next, epoch = a.offset, -1
			}
			m[a.p] = ahead{raw: len(part.Records), next: next, epoch: epoch}
		}
	}
	if answer.News { // or those that nothing is told of would be left to the other connection, over and over
		for i := range r.asked {
			if a := &r.asked[i]; !a.told {
				m[a.p] = ahead{next: -1, epoch: -1}
			}
		}
	}
	return m, plain
}

// pick chooses what to ask for now on one of the two connections, and marks it as asked; nil: nothing now, and how long to
// wait before looking again.
func (b *fetchBroker) pick(which int, coming map[*partition]ahead) (*request, time.Duration) {
	f := b.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if coming != nil && b.worn[which] {
		return nil, 0
	}
	if which == longPoll {
		b.polling = false
	} else if !b.polling || coming != nil && b.polls != b.guestPoll {
		return nil, time.Hour // the first connection takes everything along, and kicks
	}
	now := f.c.m.c.clock.now().Mono
	if b.quiet > now {
		return nil, b.quiet - now
	}
	r := &request{wait: f.c.options.MaxWait}
	again := time.Hour
	share := f.share()
	full := f.full()
	mayPass, wait := f.mayPass(now)
	b.unfollowOld(now)
	for i := range b.parts {
		p := b.parts[(b.turn[which]+i)%len(b.parts)]
		if p.fetch.retry > now {
			again = min(again, p.fetch.retry-now)
			continue
		}
		next, isComing := coming[p]
		if p.fetch.asked && !isComing || !p.open() || which == quickPoll && p.fetch.left == b.polls {
			continue
		}
		p.mu.Lock()
		a := asked{p: p, offset: p.next, fetches: p.fetches}
		epoch := p.lastEpoch
		expected := p.queued + int(float64(next.raw)*max(p.fetch.growth, 1))
		room := p.over == nil && expected < min(share, 2*partBytes) && !(p.stalled && p.queued == 0)
		p.mu.Unlock()
		if isComing && next.next >= 0 {
			a.offset = next.next
			if next.epoch >= 0 {
				epoch = next.epoch
			}
		}
		if !room {
			continue
		}
		if full && (!mayPass || expected > 0) {
			f.starved = true
			again = min(again, max(wait, time.Millisecond))
			continue
		}
		p.fetch.asked = true
		a.most = min(p.fetch.most(share), f.c.maxAnswer())
		r.asked = append(r.asked, a)
		r.parts = append(r.parts, kafka.FetchPart{
			Topic: p.topic, TopicID: p.topicID, Partition: p.id, Offset: a.offset, LeaderEpoch: p.fetch.epoch, LastEpoch: epoch,
			MaxBytes: int32(a.most),
		})
	}
	if len(r.asked) == 0 {
		return nil, again
	}
	b.turn[which]++
	if which == longPoll {
		b.polls++
		b.polling = true
		if b.guests > 0 {
			r.wait = min(r.wait, quickWait) // they come along with the next
		}
	} else {
		b.guests, b.guestPoll, r.wait = len(r.asked), b.polls, 0
		if coming != nil {
			r.wait = quickWait
		}
	}
	return r, 0
}

// most is how many bytes to ask for. The first request is a small one: its answer is what a hand-over waits for.
func (s *fetchState) most(share int) int {
	bytes := firstBytes
	if s.growth > 0 {
		bytes = min(max(int(float64(share)/max(s.growth, 1)), leastBytes), partBytes)
	}
	return max(bytes, min(s.least, share))
}

// release ends what r asked for, but for what next asks for again.
func (b *fetchBroker) release(which int, r, next *request) {
	f := b.f
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range r.asked {
		a.p.fetch.asked = false
		if to := a.p.fetch.broker; to != nil && to != b {
			to.kick() // it has moved, and was not to be asked for there as long as it was here
		}
	}
	if next != nil {
		for _, a := range next.asked {
			a.p.fetch.asked = true
		}
	}
	switch {
	case which == quickPoll && next == nil:
		b.guests = 0
		if b.polls != b.guestPoll { // else they only had no room: the long poll is parked still, and may be for long
			for _, a := range r.asked {
				a.p.fetch.left = b.polls
			}
		}
		wakeUp(b.kicks[longPoll])
	case which == quickPoll:
		b.guests = len(next.asked)
	case next == nil:
		b.polling = false
	}
}

// name is the key of the problems with this broker.
func (b *fetchBroker) name() string { return fmt.Sprintf("broker %d", b.id) }

// trouble waits before the next try, and has the leaders looked up: the broker may be gone.
func (b *fetchBroker) trouble(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	c := b.f.c
	if concerns := b.concerns(err); concerns != nil {
		err = concerns
	}
	b.troubled.Store(true)
	c.lasting(b.name(), callLimit, c.trouble(time.Now(), fmt.Sprintf("cannot fetch from broker %d", b.id), err))
	c.look()
	b.unfollowAll()
	pause(ctx, c.options.RetryBackoffMin)
}

// concerns names the partitions that an error of the broker is about; nil: there are none.
func (b *fetchBroker) concerns(err error) error {
	var failed causes
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	for _, p := range b.parts {
		failed.add(p.topic, p.id, err)
	}
	return failed.err()
}

func (c *Consumer) fetchSettings() kafka.FetchSettings {
	return kafka.FetchSettings{
		MaxWait: c.options.MaxWait, MinBytes: int32(c.options.MinBytes), MaxBytes: int32(c.maxAnswer()), ReadCommitted: c.readsCommitted(),
	}
}
