package marshal

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// errNoBase is why an observer, which does not ask for a snapshot, cannot read a group.
var errNoBase = errors.New("the start of its history was cut, and no snapshot is left; its members write one every ten minutes")

// buildsAtOnce is how many groups an observer builds at the same time: each reading has an answer of its own in memory.
const buildsAtOnce = 4

// State gives what this process knows of each group that it follows, sorted by the groups' names: those of its Marshalers, and
// with WithAllGroups all that are in the coordination topic. It does not touch the network. After Terminate it gives none.
func (c *KafkaCluster) State() []State {
	c.mu.Lock()
	var followed []*rationalizer
	if !c.closing {
		for _, r := range c.shards {
			followed = append(followed, r)
		}
	}
	c.mu.Unlock()
	var groups []*group
	for _, r := range followed {
		r.mu.Lock()
		for _, g := range r.groups {
			groups = append(groups, g)
		}
		r.mu.Unlock()
	}
	slices.SortFunc(groups, func(a, b *group) int { return cmp.Compare(a.name, b.name) })
	states := []State{}
	for _, g := range groups {
		g.mu.Lock()
		switch {
		case len(g.members) > 0:
			states = append(states, g.state(g.members[0]))
		case c.set.observes:
			states = append(states, g.state(nil))
		}
		g.mu.Unlock()
	}
	return states
}

// watch finds the groups of a shard, for an observer, and builds their worlds; then the rationalizer has them follow the log.
type watch struct {
	r     *rationalizer
	turns chan struct{} // of the builds of all shards
	kick  chan struct{}
	first chan struct{} // closed when all that was there at first is built, or known not to be readable
	found bool          // the shard was searched

	mu        sync.Mutex
	searching bool     // the shard is to be searched for groups
	todo      []*group // to be built
}

// observe follows all shards, and waits until everything that is there is replayed.
func (c *KafkaCluster) observe(ctx context.Context) error {
	turns := make(chan struct{}, buildsAtOnce)
	watches := make([]*watch, shards)
	c.mu.Lock()
	for s := range watches {
		r := newRationalizer(c, int32(s))
		w := &watch{r: r, turns: turns, kick: make(chan struct{}, 1), first: make(chan struct{})}
		r.watch, watches[s], c.shards[r.shard] = w, w, r
		c.wg.Go(func() { r.run(c.ctx) })
		c.wg.Go(func() { w.run(c.ctx) })
	}
	c.mu.Unlock()
	for _, w := range watches {
		select {
		case <-w.first:
		case <-ctx.Done():
			return w.late(ctx)
		}
	}
	return nil
}

// late says why the shard is not replayed yet.
func (w *watch) late(ctx context.Context) error {
	if err := w.r.reached(ctx); err != nil {
		return err
	}
	return fmt.Errorf("shard %d of topic %s is not replayed yet: %w", w.r.shard, w.r.c.set.topic, ctx.Err())
}

// run searches and builds what it is asked for, until ctx ends.
func (w *watch) run(ctx context.Context) {
	for ctx.Err() == nil {
		searching, g := w.take()
		switch {
		case searching:
			err := w.find(ctx)
			w.found = w.found || err == nil
			if err != nil && ctx.Err() == nil {
				w.r.c.report.lasting(fmt.Sprint("search", w.r.shard), w.r.fields(), "marshal: cannot look for groups in the coordination topic: "+err.Error())
				pause(ctx, retryAfter(err))
				w.search()
			}
		case g != nil:
			w.build(ctx, g)
		default:
			w.settle()
			select {
			case <-w.kick:
			case <-ctx.Done():
			}
		}
	}
}

// settle says, once, that what was there at first is done.
func (w *watch) settle() {
	select {
	case <-w.first:
	default:
		if w.found {
			close(w.first)
		}
	}
}

// take gives what is to be done next.
func (w *watch) take() (searching bool, g *group) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.searching {
		w.searching = false
		return true, nil
	}
	if len(w.todo) > 0 {
		g = w.todo[0]
		w.todo = w.todo[1:]
	}
	return false, g
}

// search has the shard searched for groups: it is a log that was not read before.
func (w *watch) search() {
	w.mu.Lock()
	w.searching = true
	w.mu.Unlock()
	wakeUp(w.kick)
}

// add has a group built. It may be called with any lock held.
func (w *watch) add(g *group) {
	w.mu.Lock()
	if !slices.Contains(w.todo, g) {
		w.todo = append(w.todo, g)
	}
	w.mu.Unlock()
	wakeUp(w.kick)
}

// meet has a group built that was not known, if it can be one of this shard.
func (w *watch) meet(name string) {
	if checkName("group id", name) == nil && shardOf(name) == w.r.shard {
		w.add(w.r.group(name))
	}
}

// retry has a group built that could not be, when there is a new base for it. Called with g.mu held.
func (w *watch) retry(g *group, e *entry) {
	g.reading.decode(e)
	if k := g.reading.record.Kind; k == lease.KindSnapshot || k == lease.KindBase {
		w.add(g)
	}
}

// find searches what there is of the shard; of its messages only the keys are looked at.
func (w *watch) find(ctx context.Context) error {
	t := w.r.tail()
	defer t.close()
	start, _, err := t.bounds(ctx)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	t.seek(start)
	err = t.through(ctx, w.r.position(), func(e *entry) {
		w.r.saw(e.timestamp)
		if !seen[string(e.key)] {
			seen[string(e.key)] = true
		}
	})
	if err != nil {
		return err
	}
	for name := range seen {
		w.meet(name)
	}
	return nil
}

// build builds a group, or notes why that is not possible.
func (w *watch) build(ctx context.Context, g *group) {
	select {
	case w.turns <- struct{}{}:
		defer func() { <-w.turns }()
	case <-ctx.Done():
		return
	}
	err := g.ensure(ctx)
	if err == nil || ctx.Err() != nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unreadable = err.Error()
	waiting := g.waiting
	g.collecting, g.waiting = false, nil
	for i := range waiting { // what would have been enough may have come meanwhile
		w.retry(g, &waiting[i])
	}
}

// outdate gives a world up in which a member wrote in a newer version. Called with g.mu held, after records were applied.
func (g *group) outdate() {
	if slices.ContainsFunc(g.events, func(e lease.Event) bool { return e.Kind == lease.Newer }) {
		g.live, g.unreadable = false, ErrUpgradeNeeded.Error()
		g.emit(logrus.WarnLevel, Event{Kind: UpgradeNeeded, Err: ErrUpgradeNeeded, Text: strings.TrimPrefix(ErrUpgradeNeeded.Error(), "marshal: ")})
	}
}
