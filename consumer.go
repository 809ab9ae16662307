package marshal

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
)

// Consumer reads what its process claims of some topics. Safe for concurrent use.
type Consumer struct {
	*reading
	m       *Marshaler
	names   []string
	options ConsumerOptions
	fetcher *fetcher
	topics  *topicClaims

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	closed chan struct{} // closed when it is over

	ailments ailments
	counters counters

	// guarded by the group's lock
	phase     phase
	claims    map[*claim]struct{}
	kept      []lease.Key        // after Terminate(false)
	keepUntil time.Duration      // Mono
	drainBy   time.Duration      // Mono; when who terminates it must have drained at the latest; 0: no limit
	gone      chan struct{}      // closed when the last claim has ended, once it is terminating
	pins      map[lease.Key]bool // of the one that lives by claims made by hand, see hands; else nil

	looks, starts chan struct{} // wake the watcher and the starter

	knownMu sync.Mutex
	known   map[string]kafka.Topic
	pauses  map[string]*pauses
	first   map[string]int32     // partitions that were there when the group first ran; for StartLatest
	broken  map[*partition]int64 // whose offset the log does not have, and where the log is another one from; -1: it is not

	committing chan struct{}     // holds one token while offsets are committed to Kafka
	finals     []kafka.Committed // of claims that were released; guarded by knownMu
}

// phase of a consumer's life.
type phase int

const (
	consuming phase = iota
	releasing       // terminating with release: its keys drain and are handed over
	keeping         // terminated without: its keys stay leased, unread
	over
)

// NewConsumer makes a consumer of the given topics: the group's partitions of them (or whole topics, with
// ClaimEntireTopic) are shared out among all consumers of the group. A topic need not exist yet. It returns once the topics have been
// asked for, within 10 s; claims follow as the group agrees on them.
//
// It gives ErrAlreadyConsuming for a topic that another Consumer of this Marshaler has, ErrTerminated after Terminate, and
// what Validate finds.
func (m *Marshaler) NewConsumer(topics []string, options ConsumerOptions) (*Consumer, error) {
	if m.Terminated() {
		return nil, ErrTerminated
	}
	if err := errors.Join(m.checkTopics(topics), options.Validate()); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(m.ctx, callLimit)
	defer cancel()
	c := newConsumer(m, topics, options)
	if c.options.StrictOrdering {
		c.options.MaxInFlight = 1
	}
	known, err := m.c.client.Topics(ctx, topics...)
	if m.ctx.Err() != nil {
		return nil, ErrTerminated
	}
	if err != nil {
		return nil, fmt.Errorf("marshal: asking for topics: %w", err)
	}
	c.known = known
	if c.first, err = c.firstCounts(ctx); m.ctx.Err() != nil {
		return nil, ErrTerminated
	} else if err != nil {
		return nil, err
	}
	c.ctx, c.cancel = context.WithCancel(m.ctx)
	c.fetcher = newFetcher(c.ctx, c)
	if err := c.enlist(); err != nil {
		c.cancel()
		return nil, err
	}
	return c, nil
}

func newConsumer(m *Marshaler, topics []string, options ConsumerOptions) *Consumer {
	return &Consumer{
		reading: newReading(m, new(life)), m: m, names: slices.Clone(topics), options: options.withDefaults(), closed: make(chan struct{}),
		claims: map[*claim]struct{}{}, gone: make(chan struct{}), pauses: map[string]*pauses{},
		broken: map[*partition]int64{}, looks: make(chan struct{}, 1), starts: make(chan struct{}, 1),
		committing: make(chan struct{}, 1), topics: newTopicClaims(),
	}
}

func (m *Marshaler) checkTopics(topics []string) error {
	if len(topics) == 0 {
		return errors.New("marshal: no topic given")
	}
	seen := map[string]bool{}
	for _, t := range topics {
		if err := checkTopicName(t); err != nil {
			return fmt.Errorf("marshal: %w", err)
		}
		if t == m.c.set.topic {
			return fmt.Errorf("marshal: %s is the coordination topic, it cannot be consumed", t)
		}
		if seen[t] {
			return fmt.Errorf("marshal: topic %s is given twice", t)
		}
		seen[t] = true
	}
	return nil
}

// enlist makes the consumer one of the Marshaler's.
func (c *Consumer) enlist() error {
	m := c.m
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	if m.Terminated() { // asked under the lock: Close takes the consumers that are there, and no other may come
		return ErrTerminated
	}
	for _, o := range m.consumers {
		for _, t := range c.names {
			switch {
			case !slices.Contains(o.names, t):
			case o.phase == consuming || o.phase == releasing || o.phase == keeping && o.keepUntil == 0:
				return fmt.Errorf("%w: %s", ErrAlreadyConsuming, t)
			case o.phase == keeping:
				o.kept = slices.DeleteFunc(o.kept, func(k lease.Key) bool { return k.Topic == t })
			}
		}
	}
	m.consumers = append(m.consumers, c)
	m.gatherAt = min(m.gatherAt, m.c.clock.now().Mono+c.options.CommitInterval)
	for _, name := range c.names {
		switch known := c.known[name]; {
		case known.Err != nil && !errors.Is(known.Err, kafka.ErrUnknownTopic):
			c.unanswered(name, known.Err)
			c.look()
		case len(known.Partitions) == 0:
			c.tellMissing(name)
		}
	}
	c.fetcher.prepare(c.known)
	c.run()
	m.gatherAt = min(m.gatherAt, m.c.clock.now().Mono+m.commitInterval()) // it may be in more of a hurry than those before
	m.want()
	wakeUp(m.kick)
	return nil
}

func (c *Consumer) run() {
	c.wg.Go(func() { c.watch(c.ctx) })
	c.wg.Go(func() { c.starter(c.ctx) })
	c.wg.Go(func() { c.committer(c.ctx) })
	c.wg.Go(func() { c.endWatcher(c.ctx) })
}

// consumerOf finds who reads a topic. Called with the group's lock held.
func (m *Marshaler) consumerOf(topic string) *Consumer {
	for _, c := range m.consumers {
		if c.phase == consuming && slices.Contains(c.names, topic) {
			return c
		}
	}
	return nil
}

// interest is what goes into the Join.
func (c *Consumer) interest() lease.Interest {
	c.knownMu.Lock()
	defer c.knownMu.Unlock()
	i := lease.Interest{
		Whole: c.options.ClaimEntireTopic, Max: int32(c.options.MaximumClaims), Weight: int32(c.options.Weight), Greedy: c.options.GreedyClaims,
	}
	for _, name := range c.names {
		i.Topics = append(i.Topics, lease.TopicInterest{Topic: name, Partitions: int32(len(c.known[name].Partitions))})
	}
	return i
}

func (c *Consumer) readsCommitted() bool { return c.options.IsolationLevel == sarama.ReadCommitted }

// maxAnswer is how many bytes an answer is asked to have at most: no more than may be buffered.
func (c *Consumer) maxAnswer() int { return min(c.options.MaxBytes, c.options.MaxBufferedBytes) }

// look has the topics asked for soon: something is not where it was.
func (c *Consumer) look() { wakeUp(c.looks) }

// leaderlessFor is how long at most nobody asks whether a partition that has lost its leader has a new one.
const leaderlessFor = 200 * time.Millisecond

// watch asks for the topics each WatchInterval, and when something is not where it was.
func (c *Consumer) watch(ctx context.Context) {
	timer := time.NewTimer(c.options.WatchInterval)
	defer timer.Stop()
	backoff := c.options.RetryBackoffMin
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		case <-c.looks:
		}
		began, next := time.Now(), c.options.WatchInterval
		soon, cancel := context.WithTimeout(ctx, callLimit)
		topics, err := c.m.c.client.Topics(soon, c.watched()...)
		cancel()
		if err != nil && ctx.Err() == nil {
			c.lasting("watch", callLimit+c.options.WatchInterval, c.trouble(began, "cannot ask for the topics", err))
		} else if err == nil {
			c.ailments.over("watch")
		}
		if err != nil || !c.learn(topics) {
			next = min(next, c.options.RetryBackoffMax)
		}
		pause(ctx, backoff)
		backoff = min(2*backoff, c.options.RetryBackoffMax, max(c.options.RetryBackoffMin, leaderlessFor))
		if len(c.looks) == 0 { // nobody misses anything any more
			backoff = c.options.RetryBackoffMin
		}
		timer.Reset(next)
	}
}

// learn takes what the cluster says of the topics: they grow, vanish, come back, and move. It gives false where it says nothing
// of one of them.
func (c *Consumer) learn(topics map[string]kafka.Topic) (all bool) {
	changed := false
	all = true
	var recreated []string
	c.knownMu.Lock()
	for name, now := range topics {
		if now.Err != nil && !errors.Is(now.Err, kafka.ErrUnknownTopic) {
			all = false // not an answer about the topic: what was known stays
			c.unanswered(name, now.Err)
			continue
		}
		c.ailments.over(unansweredFor + name)
		was, asked := c.known[name]
		if asked && len(was.Partitions) != len(now.Partitions) {
			changed = true
			c.tellTopic(name, len(was.Partitions), len(now.Partitions))
		} else if asked && len(now.Partitions) == 0 {
			c.tellMissing(name)
		}
		if was.ID != now.ID && was.ID != [16]byte{} && now.ID != [16]byte{} {
			recreated = append(recreated, name)
			c.first[name] = 0
		}
		if now.ID == [16]byte{} {
			now.ID = was.ID // gone for now: whoever comes back under the name is compared with it
		}
		c.known[name] = now
	}
	c.knownMu.Unlock()
	if changed || recreated != nil {
		c.m.g.mu.Lock()
		if c.phase == consuming {
			c.m.want()
		}
		c.m.g.mu.Unlock()
	}
	for _, name := range recreated {
		c.m.emit(logrus.WarnLevel, Event{
			Kind: TopicChanged, Topic: name, Partition: lease.WholeTopic, Text: "topic " + name + " was recreated; its partitions begin anew",
		})
		for _, cl := range c.running() {
			if cl.key.Topic == name {
				if cl.restart(fmt.Errorf("%w: topic %s was recreated", ErrClaimLost, name)) {
					c.unpin(cl.key)
				}
			}
		}
	}
	wakeUp(c.starts)
	c.fetcher.reassign()
	return all
}

// running lists the claims that have not ended.
func (c *Consumer) running() []*claim {
	c.m.g.mu.Lock()
	defer c.m.g.mu.Unlock()
	return slices.Collect(maps.Keys(c.claims))
}

// start begins a claim. Called with the group's lock held.
func (c *Consumer) start(cl *claim) {
	c.claims[cl] = struct{}{}
	c.tellTopics()
	wakeUp(c.starts)
}

// ended forgets a claim. Called with the group's lock held.
func (c *Consumer) ended(cl *claim) {
	if _, ok := c.claims[cl]; !ok {
		return
	}
	delete(c.claims, cl)
	c.tellTopics()
	c.unlist(cl)
	if c.pins[cl.key] && cl.isGiven() { // who has it is to know that it has ended
		delete(c.pins, cl.key)
		c.m.unpinned = true
	}
	if errors.Is(cl.over, errReleased) {
		c.finish(cl)
	}
	if len(c.claims) == 0 && c.phase == releasing {
		close(c.gone)
	}
}

// reopen goes on with a claim whose drain came to nothing. Called with the group's lock held.
func (c *Consumer) reopen(cl *claim) {
	for _, p := range cl.partitions() {
		p.ready()
		c.fetcher.freed(p)
	}
}

// positions collects the positions that moved, and the load.
func (c *Consumer) positions(ps []member.Position, load *lease.Load) []member.Position {
	now := c.m.c.clock.now().Mono
	for _, cl := range c.running() {
		for _, p := range cl.partitions() {
			if limit := c.options.StallTimeout; limit > 0 {
				p.watchStall(limit, now)
			}
			if p.moved.Swap(false) {
				ps = append(ps, p.report())
			}
			c.tellStalled(p)
			load.Lag += max(p.lag(), 0)
			load.InFlight += int64(p.inFlight())
		}
	}
	return ps
}

// Options gives the options with their defaults filled in, after Terminate too.
func (c *Consumer) Options() ConsumerOptions { return c.options }

// Terminated tells whether Terminate or Close was called, here or above.
func (c *Consumer) Terminated() bool {
	c.m.g.mu.Lock()
	defer c.m.g.mu.Unlock()
	return c.phase != consuming
}

// Terminate ends the consumer within 10 s. With release it drains (ConsumeChannel is closed at once, commits of messages in
// flight are waited for up to DrainTimeout), and hands each key to its planned successor. Without, it stops, and its keys stay
// leased and unread for RestartGrace, for the next run of this client id. Finish what is in hand before that: it is not waited for, its
// commits are refused from then on (ErrTerminated), and it comes again at the next run, of which a DrainCut tells. It gives true when the log has confirmed that; why it has not
// goes to the log. A second call waits for the first and gives true.
func (c *Consumer) Terminate(release bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	if err := c.terminate(ctx, release); err != nil {
		c.m.emit(logrus.WarnLevel, c.trouble(time.Now(), "consumer terminated without confirmation", err))
		return false
	}
	return true
}

// Close is Terminate(true) with a context: it returns when ctx ends at the latest, and nothing of the consumer is left running then.
// The error says what was not confirmed; it is given back all the same. A second call waits for the first and gives nil.
func (c *Consumer) Close(ctx context.Context) error { return c.terminate(ctx, true) }

func (c *Consumer) terminate(ctx context.Context, release bool) error {
	m := c.m
	m.g.mu.Lock()
	if c.phase != consuming {
		m.g.mu.Unlock()
		select {
		case <-c.closed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.phase = releasing
	if !release {
		c.phase = keeping
	}
	if release {
		if len(c.claims) == 0 {
			close(c.gone)
		}
		if end, ok := ctx.Deadline(); ok { // leave time to release
			left := time.Until(end)
			c.drainBy = m.c.clock.now().Mono + left - min(left/5, time.Second)
		}
		m.want()
	}
	m.g.mu.Unlock()
	c.stop()
	if !release {
		for _, cl := range c.running() { // after that: no other is given to the application
			cl.stopGiven()
		}
	}
	wakeUp(m.kick)
	var err error
	if release {
		err = c.release(ctx)
	} else {
		err = c.keep(ctx)
	}
	c.fetcher.close(c.cancel) // an application may be about to read a claim by hand
	c.wg.Wait()
	m.g.mu.Lock()
	if release {
		c.phase = over
		for cl := range c.claims { // not confirmed: they are given back without waiting any longer
			cl.abandon()
		}
		clear(c.claims)
		c.tellTopics()
		m.consumers = slices.DeleteFunc(m.consumers, func(o *Consumer) bool { return o == c })
	}
	close(c.topics.channel)
	m.g.mu.Unlock()
	close(c.closed)
	c.m.hearers.end(c)
	return err
}

// release waits until every claim has been handed over.
func (c *Consumer) release(ctx context.Context) error {
	var err error
	select {
	case <-c.gone:
	case <-ctx.Done():
		err = fmt.Errorf("marshal: %d claims were not released in time: %w", len(c.running()), errors.Join(ctx.Err(), c.m.troubled()))
	case <-c.m.ctx.Done():
		return ErrTerminated
	}
	return errors.Join(err, c.commitOffsets(ctx, false))
}

// keep makes the positions durable and turns the keys into kept ones.
func (c *Consumer) keep(ctx context.Context) error {
	err := c.flush(ctx)
	m := c.m
	m.g.mu.Lock()
	for cl := range c.claims {
		if busy := cl.inFlight(); busy > 0 {
			cl.tellCut(fmt.Sprintf("keeping %s with %d messages unfinished, Terminate(false) does not wait for them: they come again at the next run", nameOfKey(cl.key), busy))
		}
		cl.leave()
	}
	m.g.mu.Unlock()
	err = errors.Join(err, c.flush(ctx)) // commits were accepted until now: what they moved while the first one went out
	for _, p := range c.begun() {
		p.moved.Store(true) // the loop may be about to tell
	}
	var load lease.Load
	last := c.positions(nil, &load) // what the log does not have yet: who goes on with the keys in this process begins there
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	now := m.c.clock.now()
	c.keepUntil = now.Mono + c.options.RestartGrace
	for cl := range c.claims {
		c.kept = append(c.kept, cl.key)
	}
	slices.SortFunc(c.kept, compareKeys)
	if m.member != nil {
		m.handle(m.member.Positions(last, load, now))
	}
	m.want()
	return err
}
