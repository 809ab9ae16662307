package marshal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
)

// commitInterval is the shortest that a consumer has. Called with g.mu held.
func (m *Marshaler) commitInterval() time.Duration {
	d := time.Second
	for _, c := range m.consumers {
		d = min(d, c.options.CommitInterval)
	}
	return d
}

// wanted is what the consumers want now. Called with g.mu held.
func (m *Marshaler) wanted(now time.Duration) member.Wanted {
	var w member.Wanted
	m.consumers = slices.DeleteFunc(m.consumers, func(c *Consumer) bool { // nobody came back for its keys
		return c.phase == keeping && c.keepUntil > 0 && c.keepUntil <= now && len(c.claims) == 0
	})
	for _, c := range m.consumers {
		switch {
		case c.pins != nil:
			if c.phase == consuming {
				w.Pinned = slices.SortedFunc(maps.Keys(c.pins), compareKeys)
			}
		case c.phase == consuming, c.phase == keeping && c.keepUntil == 0: // not yet kept: it flushes
			w.Interests = append(w.Interests, c.interest())
			w.FastReclaim = w.FastReclaim || c.options.FastReclaim
		case c.phase == keeping:
			if c.keepUntil > now {
				w.Kept = append(w.Kept, c.kept...)
				w.KeptUntil = max(w.KeptUntil, c.keepUntil)
			}
		}
	}
	return w
}

// want tells the member that what the consumers want has changed. Called with g.mu held.
func (m *Marshaler) want() {
	if m.member != nil {
		now := m.c.clock.now()
		m.ailments.over(joinRefused)
		m.handle(m.member.Want(m.wanted(now.Mono), now))
	}
}

// step takes what the newest records did. Called by the rationalizer with g.mu held.
func (m *Marshaler) step(events []lease.Event, now member.Now) {
	if m.member == nil {
		return
	}
	ours := false
	for i := range events {
		e := &events[i]
		m.tell(e)
		switch {
		case e.Kind == lease.Sought:
			m.sought(e)
		case e.Kind == lease.Ignored && e.Record == lease.KindDirective && e.Author == m.instance:
			m.seekRefused(e)
		}
		if e.Instance != m.instance {
			continue
		}
		switch e.Kind {
		case lease.Renewed:
			ours = true
		case lease.HandedOver: // not TakenOver: its owner is gone, and somebody may have set offsets since
			m.handed[e.Key] = true
		}
	}
	m.handle(m.member.Step(events, now))
	clear(m.handed)
	clear(m.resought)
	m.tellHoldings()
	if !ours {
		if m.hand != nil { // who claims by hand waits for what becomes of others, too
			m.tellChanged()
		}
		return
	}
	if m.flushed != 0 {
		m.flushed = 0
		if m.flush {
			wakeUp(m.kick)
		}
	}
	if !m.isJoined && m.member != nil {
		m.isJoined = true
		close(m.joined)
	}
	m.tellChanged()
}

// tellChanged wakes those who wait for something of ours to be read back. Called with g.mu held.
func (m *Marshaler) tellChanged() {
	close(m.changed)
	m.changed = make(chan struct{})
}

// handle does what the member says. Called with g.mu held; it moves gates, queues records, and wakes goroutines.
func (m *Marshaler) handle(o member.Output) {
	for i := range o.Actions {
		m.act(&o.Actions[i])
	}
	for i := range o.Appends {
		m.seekWritten(&o.Appends[i].Record)
		m.out.add(&o.Appends[i].Record)
	}
	for _, n := range o.Notices {
		m.notice(n)
	}
	if o.Reopen {
		m.g.r.reopen.Store(true)
	}
	if o.Left {
		m.leftNow()
	}
	if o.Ended {
		m.end("its instance has ended")
		m.rejoin()
		return
	}
	if m.member != nil {
		m.trust(m.member.Trust())
		m.wake = o.Wake
		if m.wake < m.armed {
			wakeUp(m.kick)
		}
	}
	if m.unpinned {
		m.unpinned = false
		m.want()
	}
}

// leftNow tells who waits for it that there is nothing left to leave. Called with g.mu held.
func (m *Marshaler) leftNow() {
	if !m.hasLeft {
		m.hasLeft = true
		close(m.left)
	}
}

func (m *Marshaler) trust(until member.Now) {
	was := m.trusted()
	if until.Boot != 0 && until.Boot <= m.boot { // a suspended machine: only the boot clock has seen it
		until = member.Now{}
	}
	m.trustMono.Store(int64(until.Mono))
	m.trustWall.Store(int64(until.Wall))
	if !was {
		for _, c := range m.consumers {
			c.wakeAllReaders()
		}
	}
}

// trusted tells whether a message may be handed out now, as far as time is concerned.
func (m *Marshaler) trusted() bool {
	now := m.c.clock.now()
	return m.trustedAt(now.Mono, now.Wall)
}

func (m *Marshaler) trustedAt(mono, wall time.Duration) bool {
	return int64(mono) < m.trustMono.Load() && int64(wall) < m.trustWall.Load()
}

// act does one action. Called with g.mu held.
func (m *Marshaler) act(a *member.Action) {
	c := m.claims[a.Key]
	switch a.Kind {
	case member.Start:
		m.claimsChanged = true
		if c != nil {
			m.lose(a.Key, c, "superseded")
		}
		c = newClaim(m, a)
		m.claims[a.Key] = c
		c.begins()
		if c.consumer != nil {
			c.consumer.start(c)
		}
	case member.Drain:
		if c != nil {
			c.hear(ClaimDraining, "is to be handed over")
			c.drain()
			wakeUp(m.kick)
		}
	case member.Resume:
		if c != nil {
			c.hear(ClaimResumed, "goes on here, the hand-over came to nothing")
			c.resume()
		}
	case member.Stop:
		if c != nil {
			m.lose(a.Key, c, a.Reason)
		}
	case member.Finish:
		if c != nil {
			delete(m.claims, a.Key)
			m.claimsChanged = true
			c.released(m.whereItWent(a.Key))
			if c.cut {
				c.end(errCut)
			} else {
				c.end(errReleased)
			}
		}
	}
}

// errReleased ends a claim that was given back as wanted: nothing of it is in flight, or it timed out.
var errReleased = fmt.Errorf("%w: released", ErrClaimLost)

// errCut ends one whose drain was not waited for to its end.
var errCut = fmt.Errorf("%w when DrainTimeout was over", errReleased)

func (m *Marshaler) lose(key lease.Key, c *claim, reason string) {
	delete(m.claims, key)
	m.claimsChanged = true
	if c.sought {
		reason = "its position was set by a Seek"
	}
	switch {
	case c.unread:
	case c.sought:
		c.released("begins anew at the position that was set")
	default:
		c.lost()
		e := m.loss(key, c, reason)
		e.Err = fmt.Errorf("%w: %s", ErrClaimLost, reason)
		m.emit(logrus.WarnLevel, e)
	}
	c.end(fmt.Errorf("%w: %s", ErrClaimLost, reason))
	wakeUp(m.kick) // to take back what the channel still offers of it
}

// loss tells of a claim that is lost: why, where it stood, and who has the key now. Called with g.mu held.
func (m *Marshaler) loss(key lease.Key, c *claim, reason string) Event {
	e := c.event(ClaimLost, fmt.Sprintf("claim of %s lost: %s", nameOfKey(key), reason))
	e.Offset = -1
	if parts := c.partitions(); key.Partition != lease.WholeTopic && len(parts) == 1 {
		e.Offset = parts[0].position()
		e.Text += fmt.Sprintf("; it stood at %d", e.Offset)
	}
	w := m.g.log.World()
	if l, held := w.Lease(key); held && l.Instance != m.instance {
		e.Instance = l.Instance.String()
		if i := w.Instance(l.Instance); i != nil {
			e.Client = i.Client
		}
		e.Text += "; " + m.nameOf(l.Instance) + " holds it now"
	}
	return e
}

// joinRefused is a problem until something else is wanted.
const joinRefused = "join refused"

// notice tells what an operator should hear of. Called with g.mu held.
func (m *Marshaler) notice(n member.Notice) {
	e := Event{Kind: Trouble, Client: m.clientID, Instance: m.instance.String()}
	level := logrus.WarnLevel
	switch n.Kind {
	case member.ClientInUse:
		m.namesake(n.Other)
		return
	case member.UpgradeNeeded:
		m.outdated = true
		m.setTrouble(ErrUpgradeNeeded)
		level = logrus.ErrorLevel
		e.Kind, e.Err, e.Text = UpgradeNeeded, ErrUpgradeNeeded, strings.TrimPrefix(ErrUpgradeNeeded.Error(), "marshal: ")
	case member.JoinRefused:
		level = logrus.ErrorLevel
		e.Text = "what this process wants is too much for one record, or for the group's world: use fewer topics in one Marshaler"
		m.ailments.remind(joinRefused, e.problem(), time.Now())
	case member.Deaf:
		e.Text = "what this process wrote is not read back; reading the coordination topic anew"
	case member.Rejoining:
		switch {
		case m.leaving:
			return
		case n.Other.IsZero():
			e.Kind, e.Text = HistoryDiffers, "the group's history began anew; joining again as a new instance"
		default:
			e.Kind, e.Text = MemberEvicted, "declared dead by "+m.nameOf(n.Other)+"; joining again as a new instance"
		}
	}
	m.emit(level, e)
}

func (m *Marshaler) acked(seq uint64) {
	m.trouble.Store(nil)
	m.withMember(func(now member.Now) member.Output { return m.member.Acked(seq, now) })
}

func (m *Marshaler) rejected(seq uint64) {
	m.emit(logrus.ErrorLevel, Event{Kind: Trouble, Text: "a record was refused as too large; raise max.message.bytes of the coordination topic to 1 MiB"})
	m.withMember(func(now member.Now) member.Output { return m.member.Rejected(seq, now) })
}

func (m *Marshaler) withMember(f func(member.Now) member.Output) {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if m.member != nil {
		m.handle(f(m.c.clock.now()))
	}
}

// loop ticks the member, gathers positions and looks after drains, when one of them is due or somebody asks.
func (m *Marshaler) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-m.kick:
		}
		timer.Reset(m.c.clock.until(m.turn()))
	}
}

// tick lets the member do what time calls for. Called with g.mu held.
func (m *Marshaler) tick(now member.Now) {
	m.boot = now.Boot
	m.handle(m.member.Tick(now))
}

// turn does what is due and gives the time of the next turn.
func (m *Marshaler) turn() time.Duration {
	m.g.mu.Lock()
	consumers := slices.Clone(m.consumers)
	due := m.c.clock.now().Mono >= m.gatherAt
	collect := due || m.flush || m.c.clock.now().Mono >= m.wake
	m.g.mu.Unlock()
	var positions []member.Position
	var load lease.Load
	for _, c := range consumers {
		c.recall()
		if collect {
			positions = c.positions(positions, &load)
		}
	}
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	now := m.c.clock.tick()
	if due {
		m.gatherAt = now.Mono + m.commitInterval()
	}
	next := m.gatherAt
	if m.member == nil {
		m.armed = next
		return next
	}
	if len(positions) > 0 {
		m.handle(m.member.Positions(positions, load, now))
	}
	if m.member != nil {
		m.tick(now)
	}
	for _, c := range m.claims {
		if m.member == nil {
			break
		}
		if done, deadline := c.drained(now.Mono); done {
			m.handle(m.member.Drained(c.key, c.epoch, c.topicID(), c.finalPositions(), now))
		} else if deadline > 0 {
			next = min(next, deadline)
		}
		if m.member != nil && collect {
			m.ease(c, now.Mono)
		}
	}
	if m.member != nil && (m.flush && m.flushed == 0 || due && len(positions) > 0) {
		m.flush, m.flushed = false, now.Mono
		m.handle(m.member.Flush(now))
	}
	if until := time.Duration(m.trustMono.Load()); until > now.Mono {
		next = min(next, until) // what the channel offers is taken back then
	}
	m.tellTrust()
	m.tellHoldings()
	m.tellNamesakes()
	next = min(next, m.wake)
	m.armed = next
	return next
}
