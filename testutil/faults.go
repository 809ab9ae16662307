package testutil

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// Effect is what a Fault does to the requests that it matches, or to their answers.
type Effect uint8

// The effects. TCP never loses one message out of a stream: a connection that loses a request loses all that follow
// it, one that loses an answer all later answers, and the client has to notice and to give the connection up.
const (
	// Cut closes the connection where a request comes in; the broker does not act on it. Connections on which such a
	// request waits for its answer are closed when the fault is added.
	Cut Effect = iota + 1
	// Drop lets the request vanish: the broker does not act, the connection stays, no answer comes.
	Drop
	// Freeze holds requests and answers back until the fault is removed; then they go on in order. So does a broker,
	// or a network, that stands still and comes back.
	Freeze
	// LoseAnswers lets the broker act; the answer never comes and the connection stays.
	LoseAnswers
	// CutAnswers lets the broker act and closes the connection in place of the answer.
	CutAnswers
	// DelayRequests holds each request back for Delay, those behind it too.
	DelayRequests
	// DelayAnswers lets the broker act at once and holds each answer back for Delay, those behind it too.
	DelayAnswers
)

func (e Effect) String() string {
	names := [...]string{"none", "cut", "drop", "freeze", "lose answers", "cut answers", "delay requests", "delay answers"}
	if int(e) < len(names) {
		return names[e]
	}
	return fmt.Sprintf("effect %d", uint8(e))
}

// Reads and Writes are the requests by which a client reads the log, and by which it writes it: for faults that let
// only one of the two through.
var (
	Reads  = []kmsg.Key{kmsg.Fetch}
	Writes = []kmsg.Key{kmsg.Produce}
)

// Fault says what is done to whom. The first fault added that matches decides.
type Fault struct {
	Client string     // the client.id; "abc*" matches all that begin with abc, "" and "*" everybody
	Nodes  []int32    // the brokers. Defaults to all
	Keys   []kmsg.Key // the kinds of request. Defaults to all
	Do     Effect
	Delay  time.Duration // of DelayRequests and DelayAnswers
	Count  int           // how often it strikes. Defaults to: until it is removed
}

// Faults puts faults between the clients and the brokers of a Cluster. The helpers of Cluster (Produce ...) are exempt.
type Faults struct {
	base   func(network, addr string) (net.Listener, error)
	server *tls.Config

	mu      sync.Mutex
	active  []*ActiveFault
	onFetch []*onFetch
	conns   map[*faultConn]struct{}
	next    int32 // the node whose listener is opened next; -1: not known
	opened  int32
}

// ActiveFault is a Fault in force.
type ActiveFault struct {
	f       *Faults
	fault   Fault
	removed chan struct{}

	hits    int           // under f.mu, as are:
	changed chan struct{} // closed and renewed with each hit
	gone    bool
}

func newFaults(base func(string, string) (net.Listener, error), server *tls.Config) *Faults {
	return &Faults{base: base, server: server, conns: make(map[*faultConn]struct{}), next: -1}
}

// Add puts a fault in force.
func (f *Faults) Add(fault Fault) *ActiveFault {
	a := &ActiveFault{f: f, fault: fault, removed: make(chan struct{}), changed: make(chan struct{})}
	var cut []*faultConn
	f.mu.Lock()
	f.active = append(f.active, a)
	if fault.Do == Cut && fault.Count == 0 {
		for c := range f.conns {
			if c.awaits(&a.fault) {
				cut = append(cut, c)
			}
		}
	}
	f.mu.Unlock()
	for _, c := range cut {
		c.Close()
	}
	return a
}

// Clear removes every fault.
func (f *Faults) Clear() {
	f.mu.Lock()
	active := slices.Clone(f.active)
	f.mu.Unlock()
	for _, a := range active {
		a.Remove()
	}
}

// Kill closes the connections that a client has now ("abc*": of all whose client.id begins with abc; "*": of
// everybody) and says how many. The client may connect again.
func (f *Faults) Kill(client string) int {
	return f.closeIf(func(c *faultConn) bool {
		id := c.clientID()
		return id != harness && matchClient(client, id)
	})
}

func (f *Faults) closeNode(node int32) { f.closeIf(func(c *faultConn) bool { return c.node == node }) }

func (f *Faults) closeAll() { f.closeIf(func(*faultConn) bool { return true }) }

func (f *Faults) closeIf(match func(*faultConn) bool) int {
	var hit []*faultConn
	f.mu.Lock()
	for c := range f.conns {
		if match(c) {
			hit = append(hit, c)
		}
	}
	f.mu.Unlock()
	for _, c := range hit {
		c.Close()
	}
	return len(hit)
}

// Remove takes the fault back; what it holds goes on. Connections that lost something stay lost.
func (a *ActiveFault) Remove() {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	if a.gone {
		return
	}
	a.gone = true
	close(a.removed)
	a.f.active = slices.DeleteFunc(a.f.active, func(o *ActiveFault) bool { return o == a })
}

// Hits tells how often the fault has struck: a request, or an answer (Freeze counts both).
func (a *ActiveFault) Hits() int {
	a.f.mu.Lock()
	defer a.f.mu.Unlock()
	return a.hits
}

// Wait waits until the fault has struck n times.
func (a *ActiveFault) Wait(ctx context.Context, n int) error {
	for {
		a.f.mu.Lock()
		hits, changed := a.hits, a.changed
		a.f.mu.Unlock()
		if hits >= n {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return fmt.Errorf("fault %v struck %d times, not %d: %w", a.fault.Do, hits, n, ctx.Err())
		}
	}
}

// strike finds the fault that decides on a request (or on its answer), and counts the hit.
func (f *Faults) strike(node int32, r request, answer bool) *ActiveFault {
	if r.client == harness {
		return nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.active {
		if !a.fault.Do.acts(answer) || !a.fault.matches(node, r) {
			continue
		}
		if a.fault.Count > 0 && a.hits >= a.fault.Count {
			continue
		}
		a.hits++
		close(a.changed)
		a.changed = make(chan struct{})
		return a
	}
	return nil
}

// acts tells whether the effect touches requests, or answers.
func (e Effect) acts(answer bool) bool {
	switch e {
	case Cut, Drop, DelayRequests:
		return !answer
	case LoseAnswers, CutAnswers, DelayAnswers:
		return answer
	default:
		return e == Freeze
	}
}

func (f *Fault) matches(node int32, r request) bool {
	return matchClient(f.Client, r.client) &&
		(len(f.Nodes) == 0 || slices.Contains(f.Nodes, node)) &&
		(len(f.Keys) == 0 || slices.Contains(f.Keys, kmsg.Key(r.key)))
}

func matchClient(pattern, client string) bool {
	if prefix, ok := strings.CutSuffix(pattern, "*"); ok {
		return strings.HasPrefix(client, prefix)
	}
	return pattern == "" || pattern == client
}

// listen is what kfake opens its ports with. It opens them in the order of its nodes.
func (f *Faults) listen(network, addr string) (net.Listener, error) {
	l, err := f.base(network, addr)
	if err != nil {
		return nil, err
	}
	if f.server != nil {
		l = tls.NewListener(l, f.server)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	node := f.opened
	if f.next >= 0 {
		node, f.next = f.next, -1
	} else {
		f.opened++
	}
	return &faultListener{Listener: l, f: f, node: node}, nil
}

// expect says whose port is opened next.
func (f *Faults) expect(node int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.next = node
}

type faultListener struct {
	net.Listener
	f    *Faults
	node int32
}

func (l *faultListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &faultConn{Conn: conn, f: l.f, node: l.node, closed: make(chan struct{})}
	l.f.mu.Lock()
	l.f.conns[c] = struct{}{}
	l.f.mu.Unlock()
	return c, nil
}

// errCut is what the broker gets for a connection that a fault closed.
var errCut = errors.New("connection cut by a fault")
