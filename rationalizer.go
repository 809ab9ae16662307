package marshal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// rationalizer follows one shard of the coordination topic: it decodes each record, applies it to its group's world and
// steps the group's members. Nobody else writes world state.
type rationalizer struct {
	c       *KafkaCluster
	shard   int32
	reopen  atomic.Bool           // a member is deaf: open the reading side anew
	trouble atomic.Pointer[error] // the last error of reading, nil after a poll that went through
	watch   *watch                // of an observer; else nil

	mu      sync.Mutex
	groups  map[string]*group
	topicID lease.TopicID // of the log that is followed; zero: to be asked for
	next    int64         // the next offset to be applied; -1: not known yet
	known   chan struct{} // closed when next is known
	newest  int64         // largest timestamp seen, Unix ms

	ailments ailments
	hurried  atomic.Bool // somebody waits for a heartbeat to be read, or did a moment ago

	// of the goroutine that follows
	heard time.Time // when the newest answer came
	calm  calm
}

// group is what this process knows of one group: its world, and its members that live here.
type group struct {
	r    *rationalizer
	name string

	// mu guards the world and the local members: the rationalizer steps them, their timers tick them. Only floor 1 code runs
	// under it; no I/O, no channel, no callback.
	mu         sync.Mutex
	log        *history.Log
	planner    *policy.Planner
	members    []*Marshaler
	live       bool // the log is up to date and followed
	collecting bool // it is being built: what the shard brings meanwhile waits
	waiting    []entry
	reading    recordReader
	events     []lease.Event
	unreadable string // why an observer cannot build it
	wrong      int64  // snapshots that differ from our world: a bug or a foreign writer
	foreign    foreign

	stillUntil   time.Duration // Mono; after another log was found: until all leases of before are over
	recheckAfter time.Duration // Mono; who writes to the topic can ask for a second reading, so not too often

	building chan struct{} // holds one token while somebody builds the log
	ailments ailments
}

const (
	recheckEvery = 10 * time.Second
	never        = time.Duration(1<<63 - 1)
)

// recordReader decodes messages one after another into one record.
type recordReader struct {
	decoder decoder
	record  lease.Record
}

func (r *recordReader) decode(e *entry) {
	r.decoder.decode(e.value, &r.record)
	r.record.Offset, r.record.Timestamp = e.offset, e.timestamp
}

func newRationalizer(c *KafkaCluster, shard int32) *rationalizer {
	return &rationalizer{
		c: c, shard: shard, groups: map[string]*group{}, topicID: c.topicID, next: -1, known: make(chan struct{}), calm: calm{beat: c.set.beat},
	}
}

func (r *rationalizer) fields() logrus.Fields {
	return logrus.Fields{"topic": r.c.set.topic, "shard": r.shard}
}

// run follows the shard until ctx ends.
func (r *rationalizer) run(ctx context.Context) {
	t := newTail(r.c, r.shard)
	defer t.close()
	r.heard = time.Now()
	for ctx.Err() == nil {
		err := r.follow(ctx, t)
		switch {
		case ctx.Err() != nil:
			return
		case errors.Is(err, errOtherLog):
			r.restart(err)
			pause(ctx, retryPause())
		default:
			r.trouble.Store(&err)
			r.troubled(err)
			pause(ctx, retryAfter(err))
		}
	}
}

// troubled tells that the shard cannot be read: one line, and whoever listens to one of its groups.
func (r *rationalizer) troubled(err error) {
	e := Event{
		Kind: Trouble, Err: fmt.Errorf("marshal: cannot read %s/%d: %w", r.c.set.topic, r.shard, err),
		Text: fmt.Sprintf("cannot read the coordination topic (%s/%d): %v", r.c.set.topic, r.shard, err),
	}
	if !r.ailments.again("read", e.Err, callLimit, r.heard, time.Now()) {
		return
	}
	r.c.report.warn(r.fields(), "marshal: "+e.Text)
	r.mu.Lock()
	groups := slices.Collect(maps.Values(r.groups))
	r.mu.Unlock()
	for _, g := range groups {
		g.mu.Lock()
		for _, m := range g.members {
			m.hear(e)
		}
		g.mu.Unlock()
	}
}

// retryPause is the time between two tries against a broker, with jitter.
func retryPause() time.Duration { return 50*time.Millisecond + rand.N(50*time.Millisecond) }

// retryAfter is the same after an error: a right that is missing is granted by a person, and asked for more seldom.
func retryAfter(err error) time.Duration {
	if kafka.Unauthorized(err) {
		return time.Second + retryPause()
	}
	return retryPause()
}

// pause waits for d or the end of ctx.
func pause(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// follow polls until something is wrong.
func (r *rationalizer) follow(ctx context.Context, t *tail) error {
	if r.position() < 0 {
		if err := r.identify(ctx, t); err != nil {
			return err
		}
		_, end, err := t.bounds(ctx)
		if err != nil {
			return err
		}
		t.seek(end)
		r.setPosition(end)
		if r.watch != nil {
			r.watch.search()
		}
	}
	wait := time.Duration(0) // the first poll only opens the way
	for {
		if r.reopen.Swap(false) {
			t.close()
		}
		batch := pass{r: r}
		err := t.poll(ctx, wait, batch.take)
		batch.end(t.next)
		if err != nil {
			return err
		}
		r.trouble.Store(nil)
		r.heard = time.Now()
		r.ailments.over("read")
		wait, t.least = shardWait, 1
		if d := r.calm.gather(batch.records, batch.stirs || r.hurried.Swap(false), r.heard); d > 0 {
			wait, t.least = d, gatherBytes
		}
	}
}

// identify asks which log there is under the topic's name, after the one that was followed turned out to be another.
func (r *rationalizer) identify(ctx context.Context, t *tail) error {
	if r.log() != (lease.TopicID{}) {
		return nil
	}
	topics, err := r.c.client.Topics(ctx, r.c.set.topic)
	if err != nil {
		return err
	}
	topic := topics[r.c.set.topic]
	if errors.Is(topic.Err, kafka.ErrUnknownTopic) && r.c.set.makesTopic { // deleted: it is made again as it was at the start
		soon, cancel := context.WithTimeout(ctx, callLimit)
		topic, err = r.c.ensureTopic(soon)
		cancel()
		if err != nil {
			return err
		}
	}
	if topic.Err != nil {
		return topic.Err
	}
	t.topicID = topic.ID
	r.mu.Lock()
	defer r.mu.Unlock()
	r.topicID = topic.ID
	return nil
}

// tail reads the log that is followed a second time.
func (r *rationalizer) tail() *tail {
	t := newTail(r.c, r.shard)
	t.topicID = r.log()
	return t
}

// log is the id of the log that is followed.
func (r *rationalizer) log() lease.TopicID {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.topicID
}

// reached waits until the position is known.
func (r *rationalizer) reached(ctx context.Context) error {
	r.mu.Lock()
	known := r.known
	r.mu.Unlock()
	select {
	case <-known:
		return nil
	case <-ctx.Done():
		err := ctx.Err()
		if p := r.trouble.Load(); p != nil {
			err = fmt.Errorf("%w: %w", err, *p)
		}
		return fmt.Errorf("shard %d of topic %s cannot be read yet: %w", r.shard, r.c.set.topic, err)
	}
}

// group finds or makes the group.
func (r *rationalizer) group(name string) *group {
	r.mu.Lock()
	defer r.mu.Unlock()
	g := r.groups[name]
	if g == nil {
		g = &group{r: r, name: name, planner: new(policy.Planner), building: make(chan struct{}, 1)}
		r.groups[name] = g
	}
	return g
}

func (r *rationalizer) position() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.next
}

func (r *rationalizer) setPosition(next int64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.next < 0 {
		close(r.known)
	}
	r.next = next
}

// pass applies the records of one answer: each group that has any is locked once.
type pass struct {
	r       *rationalizer
	touched []*group
	records int
	stirs   bool // some are of groups of ours, and more than heartbeats
}

func (p *pass) take(e *entry) {
	r := p.r
	r.mu.Lock()
	r.newest = max(r.newest, e.timestamp)
	r.next = e.offset + 1
	g := r.groups[string(e.key)]
	r.mu.Unlock()
	p.records++
	if g == nil {
		if r.watch != nil {
			r.watch.meet(string(e.key))
		}
		return
	}
	if !slices.Contains(p.touched, g) {
		g.mu.Lock()
		p.touched = append(p.touched, g)
		g.events = g.events[:0]
	}
	switch {
	case g.live:
		g.apply(e)
		p.stirs = p.stirs || g.reading.record.Kind != lease.KindHeartbeat
	case g.collecting:
		g.waiting = append(g.waiting, e.copy())
		p.stirs = true
	case r.watch != nil:
		r.watch.retry(g, e)
	}
}

// end steps the members of every group that had records, and lets go of the groups.
func (p *pass) end(next int64) {
	if len(p.touched) > 0 {
		now := p.r.c.clock.now()
		for _, g := range p.touched {
			g.step(now)
			g.mu.Unlock()
		}
	}
	p.r.setPosition(next)
}

func (e *entry) copy() entry {
	c := *e
	c.key, c.value = bytes.Clone(e.key), bytes.Clone(e.value)
	return c
}

// apply takes one record into the world. Called with g.mu held.
func (g *group) apply(e *entry) {
	g.reading.decode(e)
	var outcome history.Outcome
	before := len(g.events)
	g.events, outcome = g.log.Take(&g.reading.record, e.value, g.events)
	g.meet(e, g.events[before:])
	switch outcome {
	case history.SnapshotWrong:
		g.wrong++
		g.emit(logrus.ErrorLevel, Event{Kind: HistoryDiffers, Text: fmt.Sprintf(
			"the snapshot at offset %d differs from the world as this process has it: a bug, or somebody else writes to the coordination topic", e.offset)})
	case history.HashDiffers:
		if now := g.r.c.clock.now().Mono; now >= g.recheckAfter {
			g.recheckAfter = never
			g.log.Doubt(true)
			g.emit(logrus.WarnLevel, Event{Kind: HistoryDiffers, Text: fmt.Sprintf(
				"a member has read another history of the group (it says so at offset %d); reading it again", e.offset)})
			g.r.c.wg.Go(func() { g.recheck(g.r.c.ctx) })
		}
	case history.Rewound:
		g.reset(fmt.Sprintf("handed offset %d again", e.offset))
	}
}

// step tells the members what happened and takes a snapshot that one of them announced. Called with g.mu held.
func (g *group) step(now member.Now) {
	if !g.live || len(g.events) == 0 {
		return
	}
	if g.r.watch != nil {
		g.outdate()
	}
	for _, m := range g.members {
		m.step(g.events, now)
	}
	if records := g.log.TakeSnapshot(); len(records) > 0 {
		g.r.c.wg.Go(func() { g.appendSnapshot(records) })
	}
}

// appendSnapshot writes a snapshot through a producer of its own, so that its chunks never delay a heartbeat. One that
// does not get through in time is left: somebody else writes the next.
func (g *group) appendSnapshot(records []lease.Record) {
	r := g.r
	ctx, cancel := context.WithTimeout(r.c.ctx, time.Minute)
	defer cancel()
	p := r.c.client.NewProducer(r.c.set.topic, r.shard)
	defer p.Close()
	for i := range records {
		message := []kafka.Message{{Key: []byte(g.name), Value: appendRecord(nil, &records[i])}}
		for {
			_, err := p.Append(ctx, message)
			if err == nil {
				break
			}
			if ctx.Err() != nil || kafka.Refused(err) && !kafka.LookAgain(err) {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.emit(logrus.WarnLevel, Event{Kind: Trouble, Err: err, Text: "a snapshot could not be written: " + err.Error()})
				return
			}
			pause(ctx, retryAfter(err))
		}
	}
}

// restart drops every group of the shard: the log is another one. Reading goes on at the new log's end.
func (r *rationalizer) restart(cause error) {
	r.mu.Lock()
	r.topicID = lease.TopicID{}
	if r.next >= 0 {
		r.next, r.known = -1, make(chan struct{})
	}
	groups := make([]*group, 0, len(r.groups))
	for _, g := range r.groups {
		groups = append(groups, g)
	}
	r.mu.Unlock()
	for _, g := range groups {
		g.mu.Lock()
		g.reset(cause.Error())
		g.mu.Unlock()
	}
}
