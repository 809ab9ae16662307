package marshal

import (
	"fmt"
	"time"

	"github.com/sirupsen/logrus"
)

// stall is how long the position of a partition has stood at a message that is in hand. It is the loop's own but for since,
// which others read.
type stall struct {
	at    int64         // the position as last seen
	from  time.Duration // Mono since when it was seen there
	until time.Duration // Mono before which it is not told of again

	full   bool // it was at MaxInFlight when it was last seen
	fullAt int64
}

// watchStall notes since when the oldest message in hand is the oldest and not finished, where that is StallTimeout or longer.
// Called by the loop alone.
func (p *partition) watchStall(limit, now time.Duration) {
	n, since := p.inHand()
	s := &p.stall
	if at := p.position(); at != s.at || n == 0 {
		s.at, s.from = at, now
	}
	since = max(since, s.from)
	if n == 0 || now-since < limit {
		p.stalledSince.Store(0)
		return
	}
	p.stalledSince.Store(int64(since))
}

// stalledFor is for how long the oldest message in hand is unfinished, where that is StallTimeout or longer; else 0.
func (p *partition) stalledFor() time.Duration {
	if since := p.stalledSince.Load(); since > 0 {
		return p.claim.m.c.clock.now().Mono - time.Duration(since)
	}
	return 0
}

// ease gives a claim of which a partition is stalled to somebody fitter, or keeps it and says so. Called with the group's lock held.
func (m *Marshaler) ease(c *claim, now time.Duration) {
	if c.consumer == nil || c.consumer.options.StallTimeout == 0 || c.draining.Load() || !c.open.Load() {
		return
	}
	for _, p := range c.partitions() {
		since := time.Duration(p.stalledSince.Load())
		if since == 0 {
			continue
		}
		to := m.member.Fitter(c.key)
		kept := to.IsZero()
		if kept && now < p.stall.until {
			continue
		}
		e := Event{Kind: ClaimGivenUp, Topic: p.topic, Partition: p.id, Offset: p.position(), Token: c.token}
		e.Text = fmt.Sprintf("%s/%d: the message at %d is not finished after %v", p.topic, p.id, e.Offset, (now - since).Round(time.Millisecond))
		if kept {
			e.Kind = ClaimStalled
			e.Text += "; nobody else can take it at present, so it stays and goes on"
			e.Err = fmt.Errorf("%w: %s", ErrStalled, e.Text)
			p.stall.until = now + reportEvery
			m.emit(logrus.WarnLevel, e)
			continue
		}
		e.Instance = to.String()
		if i := m.g.log.World().Instance(to); i != nil {
			e.Client = i.Client
		}
		e.Text += "; it is given up to " + m.nameOf(to)
		m.emit(logrus.WarnLevel, e)
		m.handle(m.member.GiveUp(c.key, c.epoch, m.c.clock.now()))
		return
	}
}
