package marshal

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
)

// ensure builds the group's log if nobody did: from a base to where the rationalizer is, and makes it live.
func (g *group) ensure(ctx context.Context) error {
	select {
	case g.building <- struct{}{}:
		defer func() { <-g.building }()
	case <-ctx.Done():
		return ctx.Err()
	}
	var before error // why the last try failed
	for {
		g.mu.Lock()
		live, still := g.live, g.stillUntil
		g.mu.Unlock()
		if live {
			g.ailments.over("replay")
			g.ailments.over("probe")
			return nil
		}
		pause(ctx, g.r.c.clock.until(still))
		err := g.build(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil, errors.Is(err, ErrUpgradeNeeded), errors.Is(err, errNoBase):
			return errors.Join(ctx.Err(), err, before)
		default: // the log was cut under our hands, or a broker is away: from the beginning
			g.lasting("replay", callLimit, Event{Kind: Trouble, Err: fmt.Errorf("marshal: cannot read the group's history: %w", err), Text: "cannot read the group's history: " + err.Error()})
			before = err
			pause(ctx, retryAfter(err))
		}
	}
}

func (g *group) build(ctx context.Context) error {
	if err := g.r.reached(ctx); err != nil {
		return err
	}
	t := g.r.tail()
	defer t.close()
	if t.topicID == (lease.TopicID{}) {
		return fmt.Errorf("%w: it is asked for anew", errOtherLog)
	}
	found, err := g.find(ctx, t, g.collect())
	if err != nil {
		return err
	}
	base, ok := found.scan.Base()
	if !ok {
		if g.r.watch != nil {
			return errNoBase
		}
		if base, err = g.await(ctx, t, found); err != nil {
			return err
		}
	}
	log := history.NewLog(base)
	joint := g.collect()
	if joint < 0 || g.r.log() != t.topicID {
		return fmt.Errorf("%w: while it was read", errOtherLog)
	}
	var reading recordReader
	var events []lease.Event
	newer := false
	t.seek(base.From)
	err = t.through(ctx, joint, func(e *entry) {
		g.r.saw(e.timestamp)
		if string(e.key) == g.name && e.offset < joint {
			reading.decode(e)
			events, _ = log.Take(&reading.record, e.value, events[:0])
			newer = newer || slices.ContainsFunc(events, func(e lease.Event) bool { return e.Kind == lease.Newer })
		}
	})
	if err != nil {
		return err
	}
	if newer { // what it did is not known: the world would not be that of the others
		return ErrUpgradeNeeded
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.collecting {
		return fmt.Errorf("%w: while it was read", errOtherLog)
	}
	g.log, g.events = log, g.events[:0]
	g.live, g.collecting, g.unreadable = true, false, ""
	waiting := g.waiting
	g.waiting = nil
	for i := range waiting {
		if waiting[i].offset >= joint && g.live {
			g.apply(&waiting[i])
		}
	}
	return nil
}

// collect has the rationalizer keep the group's records from now on, and tells from which offset on.
func (g *group) collect() int64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.collecting, g.waiting = true, nil
	return g.r.position()
}

// found is a stretch of the shard that was read in search of a base.
type found struct {
	scan *history.Scan
	seen bool // a record of the group is in it
}

// find looks for a base in what lies before end, further and further back, down to the log's start.
func (g *group) find(ctx context.Context, t *tail, end int64) (found, error) {
	start, _, err := t.bounds(ctx)
	if err != nil {
		return found{}, err
	}
	now := time.Now()
	for _, ago := range history.Lookbacks() {
		from, err := t.at(ctx, now.Add(-ago).UnixMilli(), end)
		if err != nil {
			return found{}, err
		}
		if from <= start {
			break
		}
		f, err := g.scan(ctx, t, from, end)
		if err != nil {
			return found{}, err
		}
		if _, ok := f.scan.Base(); ok {
			return f, nil
		}
	}
	return g.scan(ctx, t, start, end)
}

// scan reads what lies between two offsets.
func (g *group) scan(ctx context.Context, t *tail, from, end int64) (found, error) {
	f := found{scan: history.NewScan(t.topicID, from)}
	var reading recordReader
	t.seek(from)
	err := t.through(ctx, end, func(e *entry) {
		g.r.saw(e.timestamp)
		if string(e.key) == g.name && e.offset < end {
			reading.decode(e)
			f.scan.Add(&reading.record, e.value)
			f.seen = f.seen || reading.record.Kind != lease.KindProbe
		}
	})
	return f, err
}

// await goes on reading, probes, and writes a Base when it may (PROTOCOL.md §7).
func (g *group) await(ctx context.Context, t *tail, f found) (history.Base, error) {
	c := g.r.c
	var nonce [8]byte
	_, _ = rand.Read(nonce[:]) // never fails
	p := c.client.NewProducer(c.set.topic, g.r.shard)
	defer p.Close()
	b := history.NewBeginner(t.topicID, f.scan, t.next-1, f.seen, binary.BigEndian.Uint64(nonce[:]), c.clock.now().Mono)
	if err := g.oldest(ctx, b); err != nil {
		return history.Base{}, err
	}
	g.mu.Lock()
	g.emit(logrus.InfoLevel, Event{Kind: Trouble, Text: "the group's history does not reach back to its beginning; waiting for a snapshot, or until nobody else is there"})
	g.mu.Unlock()
	var reading recordReader
	for {
		records, wake := b.Tick(c.clock.now().Mono, g.r.tokenBase())
		if err := g.appendAll(ctx, p, records); err != nil {
			return history.Base{}, err
		}
		wait := min(c.clock.until(wake), shardWait)
		if err := t.poll(ctx, wait, func(e *entry) {
			if string(e.key) == g.name {
				reading.decode(e)
				b.Add(&reading.record, e.value, c.clock.now().Mono)
			}
		}); err != nil {
			return history.Base{}, err
		}
		b.Read(t.next-1, c.clock.now().Mono)
		if base, ok := b.Base(); ok {
			return base, nil
		}
	}
}

// oldest tells the beginner how old the shard's oldest record is.
func (g *group) oldest(ctx context.Context, b *history.Beginner) error {
	t := g.r.tail()
	defer t.close()
	start, end, err := t.bounds(ctx)
	if err != nil || start >= end {
		return err
	}
	t.seek(start)
	first := true
	return t.poll(ctx, 0, func(e *entry) {
		if first {
			b.Oldest(e.timestamp, e.brokerTime)
			first = false
		}
	})
}

func (g *group) appendAll(ctx context.Context, p *kafka.Producer, records []lease.Record) error {
	for i := range records {
		if _, err := p.Append(ctx, []kafka.Message{{Key: []byte(g.name), Value: appendRecord(nil, &records[i])}}); err != nil {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if kafka.Unauthorized(err) {
				return err
			}
			g.lasting("probe", callLimit, Event{Kind: Trouble, Err: fmt.Errorf("marshal: cannot write to the coordination topic: %w", err), Text: "cannot write to the coordination topic: " + err.Error()})
		}
	}
	return nil
}

// tokenBase is a proposal for what the group's tokens start from.
func (r *rationalizer) tokenBase() int64 {
	return lease.ProposeTokenBase(time.Now().UnixMilli(), r.largest())
}

func (r *rationalizer) saw(timestamp int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.newest = max(r.newest, timestamp)
}

func (r *rationalizer) largest() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.newest
}

// recheck reads the group's history again from its base, beside the running claims, and drops the world if it is another.
func (g *group) recheck(ctx context.Context) {
	same, err := g.reread(ctx)
	for err != nil && !errors.Is(err, errNothingLeft) && ctx.Err() == nil { // the log is in doubt until it could be read
		g.lasting("recheck", callLimit, Event{
			Kind: Trouble, Err: fmt.Errorf("marshal: cannot read the group's history again: %w", err), Text: "cannot read the group's history again: " + err.Error(),
		})
		pause(ctx, retryAfter(err))
		same, err = g.reread(ctx)
	}
	g.ailments.over("recheck")
	g.mu.Lock()
	defer g.mu.Unlock()
	g.recheckAfter = g.r.c.clock.now().Mono + recheckEvery
	g.log.Doubt(false)
	switch {
	case err != nil:
		g.emit(logrus.WarnLevel, Event{Kind: Trouble, Err: err, Text: "cannot read the group's history again: " + err.Error()})
	case same:
		g.emit(logrus.InfoLevel, Event{Kind: HistoryDiffers, Text: "the history is what this process had read; the other member will find its fault"})
	default:
		g.reset("the log is not the one that was read")
	}
}

func (g *group) reread(ctx context.Context) (same bool, err error) {
	t := g.r.tail()
	defer t.close()
	f, err := g.find(ctx, t, g.r.position())
	if err != nil {
		return false, err
	}
	start, _, err := t.bounds(ctx)
	if err != nil {
		return false, err
	}
	check, from, err := g.beginRecheck(f, start)
	if check == nil {
		return err == nil, err
	}
	var reading recordReader
	t.seek(from)
	if err := t.through(ctx, g.r.position(), func(e *entry) {
		if string(e.key) == g.name {
			reading.decode(e)
			g.mu.Lock()
			check.Add(&reading.record, e.value)
			g.mu.Unlock()
		}
	}); err != nil {
		return false, err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	same, reached := check.Same()
	return same && reached, nil
}

// beginRecheck begins a second reading at the base that was found, or, where none is left, at what this process remembers.
// nil without an error: another reset came first.
func (g *group) beginRecheck(f found, start int64) (check *history.Recheck, from int64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.live {
		return nil, 0, nil
	}
	if base, ok := f.scan.Base(); ok {
		return g.log.Recheck(base), base.From, nil
	}
	check, from, ok := g.log.RecheckFrom(start)
	if !ok {
		return nil, 0, errNothingLeft
	}
	return check, from, nil
}

var errNothingLeft = errors.New("no base is left to read from")

// reset drops the world: the members' claims end now, and they join again when the leases of everybody who may have
// read the old log are over. Called with g.mu held.
func (g *group) reset(reason string) {
	if !g.live {
		g.collecting, g.waiting = false, nil // who builds it begins anew
		return
	}
	wait := time.Duration(0)
	for i := range g.log.World().Instances() {
		if i.Status == lease.Alive {
			wait = max(wait, i.TTL)
		}
	}
	g.live, g.collecting, g.waiting, g.events = false, false, nil, g.events[:0]
	g.stillUntil = g.r.c.clock.now().Mono + wait
	for _, m := range g.members {
		m.end(reason)
	}
	if g.r.watch != nil {
		g.stillUntil = 0
		g.r.watch.add(g)
		return
	}
	g.emit(logrus.ErrorLevel, Event{Kind: HistoryDiffers, Text: fmt.Sprintf(
		"%s: claims end, and this process joins again when all leases of before are over, in %v", reason, wait)})
	g.r.c.wg.Go(func() {
		if err := g.ensure(g.r.c.ctx); err != nil {
			return // the cluster was terminated
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		for _, m := range g.members {
			m.rejoin()
		}
	})
}
