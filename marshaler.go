package marshal

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
)

// Marshaler is one member of a group. Its Consumers share its lease: one heartbeat keeps all that they hold.
// Safe for concurrent use.
type Marshaler struct {
	c                 *KafkaCluster
	clientID, groupID string
	ownsCluster       bool
	host              string

	ctx    context.Context
	cancel context.CancelFunc
	wg     sync.WaitGroup
	out    *outbox
	kick   chan struct{} // wakes the loop

	// Hand-out reads these two and nothing else of the member: until when it trusts its leases, on the monotonic clock (since the
	// cluster's origin) and on the wall clock, in ns.
	trustMono, trustWall atomic.Int64

	hearers  hearers
	ailments ailments
	trouble  atomic.Pointer[error] // the last error of an append, nil after one that went through

	mu      sync.Mutex // of what follows
	closing bool
	closed  chan struct{}

	g *group // set once, before anybody else knows of it

	// guarded by g.mu
	member        *member.Member // nil: before the first life, and between two
	instance      lease.InstanceID
	consumers     []*Consumer
	hand          *Consumer // lives by claims made by hand, see hands; nil: there was none yet. Among consumers too
	unpinned      bool      // a claim by hand has ended, and the member is to know
	claims        map[lease.Key]*claim
	handed        map[lease.Key]bool // keys that the newest records handed to us: nobody reset their offsets meanwhile
	resought      map[lease.Key]bool // of our keys, those that the newest records sought, or whose epoch they changed by that
	seeks         []*seeking         // that somebody waits for
	armed         time.Duration      // when the loop wakes by itself
	wake          time.Duration      // when the member wants its tick
	boot          time.Duration      // the boot clock at the newest tick
	gatherAt      time.Duration      // when positions that moved are due in the log
	joined        chan struct{}      // closed when the first Join was read back
	isJoined      bool
	left          chan struct{} // closed when the member has left
	hasLeft       bool
	leaving       bool
	outdated      bool                      // the group uses a version that this process cannot read: no life any more
	changed       chan struct{}             // closed and made anew when something of ours was read back
	mixed         map[string]bool           // topics that were warned of, see warnOfMix
	suspended     bool                      // told that hand-out is suspended
	namesakes     map[lease.InstanceID]bool // living processes with our client id, as long as they live
	parked        map[lease.InstanceID]bool // members that have left and whose keys are kept
	holds         string                    // what was told last of what is held
	claimsChanged bool                      // and not told yet
	flush         bool                      // somebody waits for a heartbeat
	flushed       time.Duration             // when the last such heartbeat was made; 0: it was read back
}

func newMarshaler(c *KafkaCluster, clientID, groupID string) *Marshaler {
	m := &Marshaler{
		c: c, clientID: clientID, groupID: groupID, out: newOutbox(), kick: make(chan struct{}, 1), closed: make(chan struct{}),
		claims: map[lease.Key]*claim{}, handed: map[lease.Key]bool{}, resought: map[lease.Key]bool{}, mixed: map[string]bool{}, parked: map[lease.InstanceID]bool{},
		namesakes: map[lease.InstanceID]bool{}, joined: make(chan struct{}), left: make(chan struct{}), changed: make(chan struct{}),
	}
	m.ctx, m.cancel = context.WithCancel(c.ctx)
	m.host, _ = os.Hostname() // a label for people; empty where there is none
	return m
}

// NewMarshaler dials a cluster of its own, which ends with the Marshaler, and makes a member of a group on it: Dial and
// KafkaCluster.NewMarshaler in one. It blocks for 70 s at most: 30 s until a broker is reached and the coordination topic is
// there, 40 s until the group is joined. Log lines go to logrus.StandardLogger(), which writes to stderr, unless WithLogger is given.
func NewMarshaler(clientID, groupID string, brokers []string, options ...Option) (*Marshaler, error) {
	if err := errors.Join(checkName("client id", clientID), checkName("group id", groupID)); err != nil {
		return nil, err
	}
	c, err := Dial(clientID, brokers, options...)
	if err != nil {
		return nil, err
	}
	m, err := c.NewMarshaler(clientID, groupID)
	if err != nil {
		c.Terminate()
		return nil, err
	}
	m.ownsCluster = true
	return m, nil
}

// begin joins the group and waits until the member is read back.
func (m *Marshaler) begin(ctx context.Context) error {
	building, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(m.ctx, cancel)()
	if err := m.g.ensure(building); err != nil {
		if m.ctx.Err() != nil {
			return ErrTerminated
		}
		return err
	}
	m.g.mu.Lock()
	if m.Terminated() { // asked under the lock: Close looks after what is there, and nothing may come later
		m.g.mu.Unlock()
		return ErrTerminated
	}
	m.wg.Go(func() { m.carry(m.ctx) })
	m.wg.Go(func() { m.loop(m.ctx) })
	m.g.members = append(m.g.members, m)
	m.rejoin()
	m.g.mu.Unlock()
	select {
	case <-m.joined:
		return nil
	case <-ctx.Done():
		return errors.Join(ctx.Err(), m.troubled())
	case <-m.ctx.Done():
		return ErrTerminated
	}
}

// rejoin begins a new life: a new instance with the same client id. Called with g.mu held.
func (m *Marshaler) rejoin() {
	if m.member != nil || m.Terminated() || m.outdated || !m.g.live {
		return
	}
	var id lease.InstanceID
	var seed [8]byte
	_, _ = rand.Read(id[:]) // never fails
	_, _ = rand.Read(seed[:])
	now := m.c.clock.tick()
	m.instance, m.flushed = id, 0
	clear(m.parked)
	for i := range m.g.log.World().Instances() {
		if i.Status == lease.IsParked {
			m.parked[i.ID] = true
		}
	}
	m.member = member.New(member.Config{
		Instance: id, Group: m.groupID, Client: m.clientID, Host: m.host,
		TTL: m.c.set.ttl, Heartbeat: m.c.set.beat, CommitInterval: m.commitInterval(),
		Seed: binary.BigEndian.Uint64(seed[:]), LargestSeen: m.g.r.largest(),
	}, &member.Shared{Log: m.g.log, Planner: m.g.planner}, now)
	m.handle(m.member.Want(m.wanted(now.Mono), now))
	if m.member != nil {
		m.tick(now)
	}
}

// end is the end of this life: every claim that is left is lost. Called with g.mu held.
func (m *Marshaler) end(reason string) {
	if m.member == nil {
		return
	}
	m.g.log.Disown(m.instance)
	m.member = nil
	m.trustMono.Store(0)
	m.trustWall.Store(0)
	m.out.reset()
	if m.leaving {
		m.leftNow()
	}
	for key, c := range m.claims {
		m.lose(key, c, reason)
	}
	m.tellChanged()
}

func (m *Marshaler) setTrouble(err error) { m.trouble.Store(&err) }

// troubled is the newest error of writing to the coordination topic, or of reading it; nil once that goes through again.
func (m *Marshaler) troubled() error {
	for _, t := range []*atomic.Pointer[error]{&m.trouble, &m.g.r.trouble} {
		if p := t.Load(); p != nil {
			return *p
		}
	}
	return nil
}

// ClientID is the name of this process across its restarts.
func (m *Marshaler) ClientID() string { return m.clientID }

// GroupID is the group's name.
func (m *Marshaler) GroupID() string { return m.groupID }

// Terminated tells whether Terminate or Close was called, here or on the cluster.
func (m *Marshaler) Terminated() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.closing
}

// Terminate is Close with a limit of 10 s; an error goes to the log.
func (m *Marshaler) Terminate() {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	if err := m.Close(ctx); err != nil {
		m.c.report.last(logrus.WarnLevel, m.fields(), "marshal: terminated without confirmation: "+err.Error())
	}
}

// Close ends the membership. Consumers still open are terminated with release: they drain and hand over. Keys of consumers
// that ended by Terminate(false) stay leased, unread, for their RestartGrace, for the next run of this client id; everything
// else is free. It returns when the log has confirmed that, or when ctx ends: then with an error, and the leases end by
// themselves. A second call waits for the first and gives nil.
func (m *Marshaler) Close(ctx context.Context) error {
	m.mu.Lock()
	if m.closing {
		m.mu.Unlock()
		select {
		case <-m.closed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	m.closing = true
	m.mu.Unlock()
	err := m.leave(ctx)
	m.cancel()
	m.wg.Wait()
	m.g.mu.Lock()
	m.end("terminated")
	m.g.members = slices.DeleteFunc(m.g.members, func(o *Marshaler) bool { return o == m })
	m.g.mu.Unlock()
	m.c.forget(m)
	close(m.closed)
	m.hearers.end(nil)
	if m.ownsCluster {
		err = errors.Join(err, m.c.Close(ctx))
	}
	return err
}

// leave terminates the consumers and then writes the Leave. Shortly before ctx ends it is written with what is known.
func (m *Marshaler) leave(ctx context.Context) error {
	patient, cancel := withoutTheEnd(ctx)
	defer cancel()
	m.g.mu.Lock()
	consumers := slices.Clone(m.consumers)
	m.g.mu.Unlock()
	errs := make([]error, len(consumers))
	var wg sync.WaitGroup
	for i, c := range consumers {
		wg.Go(func() { errs[i] = c.Close(patient) })
	}
	wg.Wait()
	m.g.mu.Lock()
	m.leaving = true
	now := m.c.clock.now()
	keep, grace := false, time.Duration(0)
	for _, c := range consumers {
		if c.phase == keeping && c.keepUntil > now.Mono && len(c.kept) > 0 {
			keep, grace = true, max(grace, c.options.RestartGrace)
		}
	}
	if m.member == nil {
		m.g.mu.Unlock()
		return errors.Join(errs...)
	}
	m.handle(m.member.Leave(keep, grace, now))
	m.g.mu.Unlock()
	select {
	case <-m.left:
		return errors.Join(errs...)
	case <-patient.Done():
		m.withMember(func(now member.Now) member.Output { return m.member.Abandon(now) })
	}
	select {
	case <-m.left:
	case <-ctx.Done():
		errs = append(errs, fmt.Errorf("marshal: leaving group %s was not confirmed: %w", printable(m.groupID), errors.Join(ctx.Err(), m.troubled())))
	}
	return errors.Join(errs...)
}

// withoutTheEnd ends a tenth before ctx does, at most a second: there is time left for a last record then.
func withoutTheEnd(ctx context.Context) (context.Context, context.CancelFunc) {
	end, ok := ctx.Deadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, end.Add(-min(time.Until(end)/10, time.Second)))
}
