package marshal

import "time"

// What is buffered is bounded in two ways. In the usual case each partition stops asking at its even share of half of
// MaxBufferedBytes, so that a slow one takes no room of others. A batch may be larger than a share, and with many partitions such
// batches are more than all may have: then everybody waits until something is read, but one partition at a time, which has nothing,
// is let past. When what it got cannot be handed out, or is not read for a while, it is discarded (it is fetched again later) for the
// next: a partition that stands still must not hold up the others.

// passFor is how long a partition that was let past may keep what it got from the next one.
const passFor = time.Second

// full tells whether as much is buffered as may be.
func (f *fetcher) full() bool { return f.buffered.Load() >= int64(f.c.options.MaxBufferedBytes) }

// mayPass tells whether the next partition may be let past now, and else how long it is until then. Called with f.mu held.
func (f *fetcher) mayPass(now time.Duration) (bool, time.Duration) {
	if f.passed == nil || f.passed.idle() || now-f.passedAt >= passFor {
		return true, 0
	}
	return false, passFor - (now - f.passedAt)
}

// admit tells whether what was fetched of p may be buffered.
func (f *fetcher) admit(p *partition) bool {
	if !f.full() {
		return true
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.starved = true
	now := f.c.m.c.clock.now().Mono
	if ok, _ := f.mayPass(now); !ok || !p.isEmpty() {
		return false
	}
	if f.passed != nil && f.passed != p {
		f.passed.discard()
	}
	f.passed, f.passedAt = p, now
	return true
}

// roomier has everybody look again who found no room. Called with f.mu held.
func (f *fetcher) roomier() {
	if !f.starved {
		return
	}
	f.starved = false
	for _, b := range f.brokers {
		b.kick()
	}
}

// idle tells whether nothing of p will be read now.
func (p *partition) idle() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queued == 0 || p.stalled || !p.open()
}

// isEmpty tells whether nothing of p is buffered.
func (p *partition) isEmpty() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.queued == 0
}

// buffer counts what is put into the queue, or taken out of it. Called with p.mu held.
func (p *partition) buffer(bytes int) {
	p.queued += bytes
	p.claim.consumer.fetcher.buffered.Add(int64(bytes))
}

// empty forgets what is buffered. Called with p.mu held.
func (p *partition) empty() {
	p.queue = nil
	p.buffer(-p.queued)
}

// discard gives up what is buffered; it is fetched again.
func (p *partition) discard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.queue) > 0 {
		p.refetch(p.queue[0].Next())
	}
}

// refetch forgets what is buffered, and fetches from next on. Called with p.mu held.
func (p *partition) refetch(next int64) {
	p.next, p.lastEpoch = next, -1
	p.fetches++
	p.empty()
}
