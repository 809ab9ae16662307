package marshal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// Claim is one partition, or one whole topic, that is ours for now: what Consumer.Claims yields, and what Marshaler.Claim makes by
// hand. It ends when it is lost, handed over or given back; then its Context says why, and a later claim of the same key is another
// Claim with a larger Token; the same Token where a Consumer of this Marshaler goes on with what was claimed by hand, or kept by
// Terminate(false). Safe for concurrent use.
type Claim struct {
	Topic     string
	Partition int32 // -1: the whole topic
	// Start is the offset of the first message that it reads: everything below is finished. -1 for a whole topic.
	Start int64

	claim   *claim
	reading *reading
	ctx     context.Context
	cancel  context.CancelCauseFunc

	draining chan struct{} // guarded by the claim's lock
	isClosed bool          // so is this: draining is closed
}

// Token is the fencing token; see Message.Token.
func (c *Claim) Token() int64 { return c.claim.token }

// Context is cancelled when the claim is over. context.Cause tells why: ErrClaimLost where it was lost, handed over or given back,
// or its topic was recreated or its position was set by a Seek; ErrTerminated after Terminate(false).
func (c *Claim) Context() context.Context { return c.ctx }

// Draining is closed when the claim is to be handed over or given back: by balance, Terminate or Release, and at its end. From then on
// Messages hands out nothing more, and what is in flight is waited for up to DrainTimeout: commit it, or call Progress, or Release,
// which does not wait. A drain may come to nothing: then messages go on, and Draining gives a new channel, so ask for it again.
func (c *Claim) Draining() <-chan struct{} {
	c.claim.mu.Lock()
	defer c.claim.mu.Unlock()
	return c.draining
}

// Messages yields the messages of this claim alone, in order for each partition. It waits for more until the claim ends, ctx ends, or
// the loop is left; it ends without an error. A *PartitionError is yielded with a nil message, and it goes on. Of a claim made by
// hand nothing is fetched before the first call.
func (c *Claim) Messages(ctx context.Context) iter.Seq2[*Message, error] {
	c.claim.startFetching()
	return sequence(ctx, c.reading.fetch)
}

// Progress says that everything below the offset next is finished, handed out by Messages or not, and waits until that is in the
// coordination topic and was read back: then no restart reads it again. Messages goes on at next if it is not there yet. It blocks
// until ctx ends at the latest. It gives the cause of Context when the claim is over, and an error when next is below what is finished
// already (Consumer.Seek goes back), or when the claim is of a whole topic: there, commit the messages.
func (c *Claim) Progress(ctx context.Context, next int64) error {
	p, err := c.only()
	if err != nil {
		return err
	}
	return c.claim.progress(ctx, p, next)
}

// only is the partition of a claim that has one.
func (c *Claim) only() (*partition, error) {
	if c.Partition == lease.WholeTopic {
		return nil, fmt.Errorf("marshal: topic %s is claimed as a whole and has no one position: commit its messages instead", c.Topic)
	}
	if parts := c.claim.partitions(); c.ctx.Err() == nil && len(parts) > 0 {
		return parts[0], nil
	}
	return nil, cmp.Or(context.Cause(c.ctx), ErrClaimLost)
}

// progress finishes a partition up to next and waits until that is durable.
func (c *claim) progress(ctx context.Context, p *partition, next int64) error {
	if err := p.advance(next); err != nil {
		return err
	}
	return c.consumer.durable(ctx, map[*partition]int64{p: next})
}

// Release gives the claim back: at the offset next, below which everything is finished, or as committed where next is -1 (the only way
// for a whole topic). What is in flight is not waited for; it is handed out again where it is not below that offset. It blocks until the
// coordination topic has confirmed it, or ctx ends: then it is given back later. Where the claim is over already it gives the
// cause of Context.
//
// A Consumer's claim goes to the member that the plan names, and comes back to this one no sooner than after a second, longer
// each time in a row, unless nobody else wants it. While a hand-over is under way Release completes it at once. A claim made
// by hand is free then.
func (c *Claim) Release(ctx context.Context, next int64) error {
	cl := c.claim
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	if next != lease.NoProgress {
		p, err := c.only()
		if err == nil {
			err = p.advance(next)
		}
		if err != nil {
			return err
		}
	}
	if err := cl.settleForHeir(ctx); err != nil {
		return err
	}
	for {
		changed, err := cl.giveBack(c)
		if err != nil {
			return err
		}
		wakeUp(cl.m.kick)
		select {
		case <-c.ctx.Done():
			if cause := context.Cause(c.ctx); !errors.Is(cause, errReleased) {
				return cause
			}
			return nil
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("marshal: the release of %s is not confirmed: %w", nameOfKey(cl.key), errors.Join(ctx.Err(), cl.m.troubled()))
		}
	}
}

// Claims yields each claim of the consumer once, as it begins, and those that are there already. From then on the messages of a claim come
// from its own Messages alone; FetchMessage, Messages, Batches and ConsumeChannel give those of claims that were not yielded. A
// *PartitionError of such a claim goes to whoever waits first, here with a nil claim. The loop is to start a goroutine for each
// claim: while it reads one itself, the next waits. A key that was lost, or whose topic was recreated, or whose position was set by
// a Seek, is yielded anew when it begins again. It ends, without an error, when ctx ends or the consumer is terminated; claims that
// were yielded end on their own.
func (c *Consumer) Claims(ctx context.Context) iter.Seq2[*Claim, error] {
	return sequence(ctx, c.nextClaim)
}

func (c *Consumer) nextClaim(ctx context.Context) (*Claim, error) {
	var given *Claim
	if err := c.get(ctx, false, func() bool { given = c.nextBegun(); return given != nil }); err != nil {
		return nil, err
	}
	c.recall() // what the channel offers of it
	for _, p := range given.claim.partitions() {
		p.ready()
	}
	return given, nil
}

// nextBegun takes a claim that nobody was given yet; nil: there is none. Called with the reading lock held.
func (r *reading) nextBegun() *Claim {
	for i, cl := range r.begun {
		if given := cl.give(newReading(r.m, r.life)); given != nil {
			r.begun = slices.Delete(r.begun, i, i+1)
			cl.moveTo(given.reading)
			return given
		}
	}
	return nil
}

// list notes a claim whose first partition has begun.
func (r *reading) list(c *claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.stopped || slices.Contains(r.begun, c) || c.isGiven() || c.isOver() { // one that ends from now on is taken out again
		return
	}
	r.begun = append(r.begun, c)
	r.wakeAll()
}

// unlist is for a claim that has ended.
func (r *reading) unlist(c *claim) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.begun = slices.DeleteFunc(r.begun, func(o *claim) bool { return o == c })
}

// give makes what the application gets of a claim; nil: it has ended, or drains, or has not begun.
func (c *claim) give(r *reading) *Claim {
	parts := c.partitions()
	if len(parts) == 0 && c.key.Partition != lease.WholeTopic {
		return nil
	}
	g := &Claim{
		Topic: c.key.Topic, Partition: c.key.Partition, Start: lease.NoProgress, claim: c, reading: r, draining: make(chan struct{}),
	}
	if c.key.Partition != lease.WholeTopic {
		g.Start = parts[0].position()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over != nil || c.given != nil || !c.open.Load() {
		return nil
	}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	c.given = g
	return g
}

func (c *claim) isGiven() bool { return c.gave() != nil }

// gave is what the application has of a claim; nil: nothing.
func (c *claim) gave() *Claim {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.given
}

// tellGiven tells who has the claim that it drains, or does not any more.
func (c *claim) tellGiven(drains bool) {
	if g := c.gave(); g != nil {
		g.tell(drains)
	}
}

// endGiven ends what the application was given of the claim, if it was.
func (c *claim) endGiven(err error) {
	if g := c.gave(); g != nil {
		g.end(err)
	}
}

// stopGiven hands nothing more out to who has the claim, for good.
func (c *claim) stopGiven() {
	if g := c.gave(); g != nil {
		g.tell(true)
		g.reading.stop()
	}
}

// wakeAllReaders makes all those look again who wait for its messages. Called with the group's lock held.
func (c *Consumer) wakeAllReaders() {
	c.wakeReaders()
	for cl := range c.claims {
		if g := cl.gave(); g != nil {
			g.reading.wakeReaders()
		}
	}
}

// tell closes what Draining gives, or makes it anew.
func (c *Claim) tell(drains bool) {
	c.claim.mu.Lock()
	defer c.claim.mu.Unlock()
	switch {
	case c.isClosed == drains:
	case drains:
		close(c.draining)
		c.isClosed = true
	default:
		c.draining, c.isClosed = make(chan struct{}), false
	}
}

func (c *Claim) end(err error) {
	c.tell(true)
	c.cancel(err)
	c.reading.stop()
}

// startFetching begins to fetch what a claim by hand has.
func (c *claim) startFetching() {
	c.mu.Lock()
	fetched := c.fetched
	c.fetched = true
	parts := slices.Clone(c.parts)
	c.mu.Unlock()
	if !fetched {
		for _, p := range parts {
			c.consumer.fetcher.add(p)
		}
	}
}

// settleForHeir makes the positions of a claim by hand durable where a Consumer of the same Marshaler takes the key over as soon as
// it is let go: nothing else would tell it.
func (c *claim) settleForHeir(ctx context.Context) error {
	m := c.m
	m.g.mu.Lock()
	inherited := c.consumer.pins != nil && m.consumerOf(c.key.Topic) != nil
	m.g.mu.Unlock()
	if !inherited {
		return nil
	}
	want := map[*partition]int64{}
	for _, p := range c.partitions() {
		want[p] = p.position()
	}
	return c.consumer.durable(ctx, want)
}

// giveBack asks for the end of a claim, and gives what is closed when something of ours has changed.
func (c *claim) giveBack(g *Claim) (changed <-chan struct{}, err error) {
	m := c.m
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	switch {
	case g.ctx.Err() != nil:
	case m.member == nil || m.claims[c.key] != c:
		return nil, ErrClaimLost
	case c.deadline > 0: // it is being handed over
		c.hasty = true
	case c.consumer.pins != nil:
		c.hasty = true
		delete(c.consumer.pins, c.key)
		m.want()
	default:
		c.hasty = true
		m.handle(m.member.LetGo(c.key, c.epoch, m.c.clock.now()))
	}
	return m.changed, nil
}

// advance finishes everything below next, handed out or not, and has reading go on there.
func (p *partition) advance(next int64) error {
	p.life.shown()
	r := p.claim.lockReading()
	p.mu.Lock()
	at, over := p.win.Position(), p.over
	if over != nil || next < at {
		p.mu.Unlock()
		r.mu.Unlock()
		if over == nil {
			over = fmt.Errorf("marshal: %s/%d is finished up to %d, it cannot go back to %d but by a Seek", p.topic, p.id, at, next)
		}
		return over
	}
	if r.current == p {
		r.putBack()
	}
	p.unsent = slices.DeleteFunc(p.unsent, func(m *Message) bool { return m.Offset < next })
	p.win.DoneBelow(next)
	p.passQueued(next)
	r.mu.Unlock()
	p.finished()
	p.claim.consumer.fetcher.freed(p)
	return nil
}

// passQueued drops what is fetched below next. Called with p.mu held.
func (p *partition) passQueued(next int64) {
	for len(p.queue) > 0 {
		if p.queue[0].Pass(next); p.queue[0].Left() > 0 {
			return
		}
		p.pop()
	}
	if p.next < next {
		p.refetch(next)
	}
}
