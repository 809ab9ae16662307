package marshal

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/lease"
)

const (
	lastsAfter  = 2 * time.Second  // what is over sooner is not told: leaders move, connections are cut
	reportEvery = 10 * time.Second // a problem that lasts is told again
	remindEvery = time.Minute      // and what only a person can mend
	isNewAfter  = 5 * time.Second  // without it for so long (and its period) a problem is over
)

// ailments are what is wrong with one owner: a cluster, a shard, a group, a Marshaler or a Consumer. A leaf: its lock may be taken
// under any other. The zero value is ready.
type ailments struct {
	mu  sync.Mutex
	all map[string]*ailment
}

// ailment is one that came before, and may last.
type ailment struct {
	err                 error
	first, newest, told time.Time
	grace               time.Duration // it counts when it has lasted for so long
	every               time.Duration // and is told again
	expires             time.Duration // it is over when it did not come again for so long; 0: when somebody says so
}

func (p *ailment) over(now time.Time) bool { return p.expires > 0 && now.Sub(p.newest) > p.expires }
func (p *ailment) lasts() bool             { return p.newest.Sub(p.first) >= p.grace }

// again notes a problem that comes each period while it lasts, and says whether it is to be told now. began is when the try began
// that failed now.
func (ps *ailments) again(key string, err error, period time.Duration, began, now time.Time) bool {
	return ps.note(key, err, now, ailment{first: began, grace: lastsAfter, every: reportEvery, expires: isNewAfter + period})
}

// remind notes what is wrong until somebody says that it is over, and says whether it is to be told now: at once, and each minute.
func (ps *ailments) remind(key string, err error, now time.Time) bool {
	return ps.note(key, err, now, ailment{first: now, every: remindEvery})
}

func (ps *ailments) note(key string, err error, now time.Time, like ailment) bool {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	p := ps.all[key]
	if p == nil || p.over(now) {
		if ps.all == nil {
			ps.all = map[string]*ailment{}
		}
		maps.DeleteFunc(ps.all, func(_ string, p *ailment) bool { return p.over(now) })
		p = &like
		ps.all[key] = p
	}
	p.err, p.newest = err, now
	if !p.lasts() || now.Sub(p.told) < p.every {
		return false
	}
	p.told = now
	return true
}

// of gives the problem that has this key, nil where there is none.
func (ps *ailments) of(key string, now time.Time) error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if p := ps.all[key]; p != nil && !p.over(now) {
		return p.err
	}
	return nil
}

// over says that a problem is over.
func (ps *ailments) over(key string) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	delete(ps.all, key)
}

// lasting lists what lasts, in the order of the keys.
func (ps *ailments) lasting(now time.Time) []error {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	var errs []error
	for _, key := range slices.Sorted(maps.Keys(ps.all)) {
		if p := ps.all[key]; p.lasts() && !p.over(now) {
			errs = append(errs, p.err)
		}
	}
	return errs
}

// problem is the event as an error.
func (e *Event) problem() error {
	if e.Err != nil {
		return e.Err
	}
	return errors.New("marshal: " + e.Text)
}

func (e *Event) began() time.Time {
	if e.Time.IsZero() {
		return time.Now()
	}
	return e.Time
}

// Healthy is nil while the process takes part in its group as it should, and else says all that is wrong, in one error whose parts
// errors.Is and errors.As find. It does not touch the network.
//
//	errors.Is, errors.As    what it means                                    a restart
//	ErrTerminated           it was terminated, and never works again         helps: fail a liveness probe
//	ErrStalled              the application does not finish its messages     helps if it hangs: fail a liveness probe
//	ErrSuspended            not joined (yet, or again), or its lease is not  does not help: it goes on by itself; readiness alone
//	                        confirmed: nothing is handed out
//	ErrUpgradeNeeded        a newer version is in use in the group           does not help: deploy that version
//	*PartitionError         a partition cannot be read                       does not help: see its cause
//	anything else           another process has its client id; a topic       does not help
//	                        does not exist; brokers refuse or do not answer
//
// ErrStalled stays when the partition is given to another member (StallTimeout), or its claim ends otherwise, until the application shows
// life: a call asks or waits for a message, one is received from ConsumeChannel, or one is committed.
//
// What may pass by itself counts when it has lasted for 2 s. It is gone when the cause is: at once, or, of what is noticed by
// trying, 5 s and one period of trying later (CommitInterval, WatchInterval, RetryBackoffMax, or a broker's silence of up to 10 s).
// The problems of the Marshaler's Consumers are among its own.
func (m *Marshaler) Healthy() error {
	if m.Terminated() {
		return ErrTerminated
	}
	errs := m.membership()
	m.g.mu.Lock()
	consumers := slices.Clone(m.consumers)
	m.g.mu.Unlock()
	for _, c := range consumers {
		errs = append(errs, c.ails()...)
	}
	return errors.Join(errs...)
}

// Healthy is Marshaler.Healthy for what concerns this consumer: its topics, its partitions, and the membership. ErrTerminated
// after Terminate or Close.
func (c *Consumer) Healthy() error {
	if c.Terminated() {
		return ErrTerminated
	}
	return errors.Join(append(c.m.membership(), c.ails()...)...)
}

// membership is what is wrong with the lease, and with the ways to the coordination topic.
func (m *Marshaler) membership() []error {
	var errs []error
	m.g.mu.Lock()
	switch {
	case m.outdated:
		errs = append(errs, ErrUpgradeNeeded)
	case !m.g.live:
		errs = append(errs, fmt.Errorf("%w: the group's history is being read", ErrSuspended))
	case m.member == nil || m.g.log.World().Instance(m.instance) == nil:
		errs = append(errs, fmt.Errorf("%w: joining the group", ErrSuspended))
	case !m.trusted():
		errs = append(errs, fmt.Errorf("%w: the lease was not confirmed in time", ErrSuspended))
	}
	m.g.mu.Unlock()
	if err := m.troubled(); len(errs) > 0 && err != nil && !errors.Is(err, ErrUpgradeNeeded) {
		errs[0] = fmt.Errorf("%w: %w", errs[0], err)
	}
	now := time.Now()
	for _, ps := range []*ailments{&m.c.report.ailments, &m.g.r.ailments, &m.g.ailments, &m.ailments} {
		errs = append(errs, ps.lasting(now)...)
	}
	return errs
}

// ails is what is wrong with a consumer alone.
func (c *Consumer) ails() []error {
	errs := c.ailments.lasting(time.Now())
	if err := c.life.ails(c.m.c.clock.now().Mono); err != nil {
		errs = append(errs, err)
	}
	for _, p := range c.begun() {
		if d := p.stalledFor(); d > 0 {
			errs = append(errs, fmt.Errorf("%w: %s/%d stands at %d for %v", ErrStalled, p.topic, p.id, p.position(), d.Round(time.Millisecond)))
		}
	}
	return errs
}

// tellNamesakes warns, each minute, of other living processes with our client id. Called with g.mu held.
func (m *Marshaler) tellNamesakes() {
	if len(m.namesakes) == 0 {
		return
	}
	w := m.g.log.World()
	var names []lease.InstanceID
	for id := range m.namesakes {
		if i := w.Instance(id); i != nil && i.Status == lease.Alive {
			names = append(names, id)
		} else {
			delete(m.namesakes, id)
		}
	}
	const key = "client id"
	if len(names) == 0 || m.leaving {
		m.ailments.over(key)
		return
	}
	slices.SortFunc(names, func(a, b lease.InstanceID) int { return bytes.Compare(a[:], b[:]) })
	e := Event{
		Kind: ClientIDInUse, Client: m.clientID, Instance: names[0].String(),
		Text: fmt.Sprintf("another living process uses this client id, %s; each should have its own", m.nameOf(names[0])),
	}
	if m.ailments.remind(key, e.problem(), time.Now()) {
		m.emit(logrus.WarnLevel, e)
	}
}
