package marshal

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// hung gives a consumer whose one goroutine hangs at a message, and whose partitions have all gone to another member because of that.
func hung(t *testing.T, take func(c *Consumer) *Message) (*Consumer, *Message) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("hung")
	c := b.consumer(m, stallOptions, "t")
	eventually(t, "begun", func() bool { return len(c.begun()) == 4 })
	heard := listen(t, c)
	msg := take(c)
	heard.wait(t, ClaimStalled)
	k := collect(t, b.consumer(b.marshaler("well"), stallOptions, "t"))
	eventually(t, "its claim has ended", func() bool { return c.life.hung.Load() != nil })
	eventually(t, "the other handles it", func() bool { return slices.Contains(k.offsets("t", msg.Partition), msg.Offset) })
	eventually(t, "nothing stands still here", func() bool {
		return !slices.ContainsFunc(c.begun(), func(p *partition) bool { return p.stalledFor() > 0 })
	})
	return c, msg
}

func fetchOne(t *testing.T) func(c *Consumer) *Message {
	return func(c *Consumer) *Message {
		msg, err := c.FetchMessage(within(t, patience))
		require.NoError(t, err)
		return msg
	}
}

func fromChannel(c *Consumer) *Message { return <-c.ConsumeChannel() }

func TestHealthyStaysStalledAfterAGiveUpUntilTheApplicationShowsLife(t *testing.T) {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	for name, s := range map[string]struct {
		take func(c *Consumer) *Message
		life func(c *Consumer, m *Message)
	}{
		"it asks for a message": {fetchOne(t), func(c *Consumer, _ *Message) { _, _ = c.FetchMessage(ended) }},
		"it commits":            {fetchOne(t), func(_ *Consumer, m *Message) { assert.ErrorIs(t, m.Commit(), ErrClaimLost) }},
		"it commits a batch":    {fetchOne(t), func(_ *Consumer, m *Message) { _ = (&Batch{Messages: []Message{*m}}).Commit() }},
		"it asks for batches": {fetchOne(t), func(c *Consumer, _ *Message) {
			for range c.Batches(ended) { // it asks once
			}
		}},
		"it finishes what came": {fromChannel, func(_ *Consumer, m *Message) { _ = m.Commit() }},
	} {
		t.Run(name, func(t *testing.T) {
			c, msg := hung(t, s.take)
			for range 3 {
				require.ErrorIs(t, c.Healthy(), ErrStalled)
				require.ErrorIs(t, c.m.Healthy(), ErrStalled)
				require.ErrorContains(t, c.Healthy(), "t/")
				letPass(t, 1, stallOptions.StallTimeout/4)
			}
			s.life(c, msg)
			eventually(t, "it has shown life", func() bool { return !errors.Is(c.Healthy(), ErrStalled) })
		})
	}
}

func TestWhoWaitsForAMessageIsAlive(t *testing.T) {
	c, _ := hung(t, fetchOne(t))
	require.ErrorIs(t, c.Healthy(), ErrStalled)
	c.Pause("t")
	k := collect(t, c)
	eventually(t, "it waits", func() bool { return c.life.asking.Load() == 1 })
	c.life.hung.Store(&hang{topic: "t"}) // whoever hung while it waited was another
	require.NotErrorIs(t, c.Healthy(), ErrStalled)
	k.stop()
	assert.Zero(t, c.life.asking.Load())
	require.NotErrorIs(t, c.Healthy(), ErrStalled)
}

func TestWhoWaitsForClaimsShowsNoLife(t *testing.T) {
	c, _ := hung(t, fetchOne(t))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	for range c.Claims(ctx) {
	}
	require.ErrorIs(t, c.Healthy(), ErrStalled)
}

// offer is what the pump offers, or has offered last; nil: nothing.
func offer(r *reading) *Message {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.offered
}

// offering is the offset of that; -1: nothing.
func (r *reading) offering() int64 {
	if m := offer(r); m != nil {
		return m.Offset
	}
	return -1
}

// Receiving from the channel shows life; that the pump offers, and that an offer is taken back, does not.
func TestWhoReceivesFromTheChannelIsAlive(t *testing.T) {
	b := newBench(t)
	b.one("t", 10)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	<-c.ConsumeChannel()
	eventually(t, "the next one is offered", func() bool { return c.offering() == 1 })
	c.life.hung.Store(&hang{topic: "t"})
	c.Pause("t")
	eventually(t, "it is taken back", func() bool { return c.offering() == -1 })
	c.Resume("t")
	eventually(t, "it is offered again", func() bool { return c.offering() == 1 })
	require.ErrorIs(t, c.Healthy(), ErrStalled)
	<-c.ConsumeChannel()
	<-c.ConsumeChannel() // the first may have been wanted back
	eventually(t, "it has shown life", func() bool { return c.Healthy() == nil })
}
