package marshal

import (
	"errors"
	"fmt"
	"time"
)

// A partition can fall silent while its neighbours run on: answers leave it out, or say that there is nothing new, although its log goes
// on. No error says so. What a broker is asked beside the fetches (lag.go) shows it, and then all that may have got stuck is begun anew.

// proveEach is after how many LagIntervals without a message the end of a log is asked for, though fetches say that they know it.
const proveEach = 6

// look is what was seen of a partition that nothing came of. It is the watcher's own.
type look struct {
	end int64 // of its log, as its leader said; 0: there was nothing to see
	at  time.Time
}

// unsure tells whether the end of the log is to be asked for.
func (p *partition) unsure(interval time.Duration) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return time.Since(p.endAt) >= interval || time.Since(p.provenAt) >= proveEach*interval || p.look.end > 0
}

// lacks tells whether something of p must come, and does not: from where on, and which end fetches and the leader have told last.
func (f *fetcher) lacks(p *partition) (next, told, end int64, ok bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.provenAt = time.Now()
	wanted := p.over == nil && p.open() && !p.outside && p.queued == 0 && !p.stalled && !f.full()
	asked := p.fetch.broker != nil && p.fetch.pause == 0 // else it is known what is wrong
	return p.next, p.toldEnd, p.logEnd, wanted && asked && p.next < p.logEnd
}

// compare looks at a partition whose log's end was just asked for. It is silent when a fetch has not told by the next time
// of what the leader had then.
func (c *Consumer) compare(p *partition) {
	next, told, end, ok := c.fetcher.lacks(p)
	key := "silence of " + nameOfKey(p.key())
	switch seen := p.look; {
	case !ok:
		p.look = look{}
		c.ailments.over(key)
	case seen.end == 0 || told >= seen.end:
		p.look = look{end, time.Now()}
	case time.Since(seen.at) >= c.options.MaxWait:
		c.fetcher.renew(p)
		p.claim.problem(p.id, next, errSilent)
		e := p.event(PartitionFailed, fmt.Sprintf("%s/%d: nothing is fetched from offset %d on, though its log ends at %d, %d further", p.topic, p.id, next, end, end-next))
		e.Time, e.Offset, e.Err = seen.at, next, &PartitionError{Topic: p.topic, Partition: p.id, Offset: next, Err: errSilent}
		c.lasting(key, c.options.LagInterval, e)
	}
}

var errSilent = errors.New("nothing is fetched of it, though its log goes on")

// renew has both connections to the broker of p opened anew, and asks its leader if that was a replica.
func (f *fetcher) renew(p *partition) {
	f.c.look()
	f.mu.Lock()
	defer f.mu.Unlock()
	if b := p.fetch.broker; b != nil {
		b.worn = [2]bool{true, true}
		b.unfollowLocked(func(q *partition) bool { return q == p })
		b.kick()
	}
}

// wears tells whether a connection is to be opened anew.
func (b *fetchBroker) wears(which int) bool {
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	worn := b.worn[which]
	b.worn[which] = false
	return worn
}
