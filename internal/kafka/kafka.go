// Package kafka is the only user of sarama's client: it opens connections with the user's settings and gives plain
// values and typed errors. It starts no goroutine of its own; everything takes a ctx or a deadline.
//
// sarama opens each connection (proxy, TLS, SASL: what the user has configured) and keeps its SASL session. Over it go
// our own frames, made by kmsg, because sarama holds a broker's lock for a whole long poll, knows no ctx, and fetches
// neither by topic id nor with the last epoch read. Three kinds of connections never mix: one per broker for questions
// (metadata, offsets, commits, topics), one per Producer, one per FetchConn.
package kafka

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Client knows a cluster: its brokers, its topics, who leads what. Safe for concurrent use.
type Client struct {
	set     settings
	seeds   []string
	recheck time.Duration
	ctx     context.Context // ends at Close
	end     context.CancelFunc

	mu           sync.Mutex
	closed       bool
	conns        map[*conn]struct{}   // all that are open
	links        map[string]*link     // by address
	home         string               // the address that answered last
	brokers      map[int32]string     // addresses
	controller   int32                // -1: unknown
	topics       map[string]Topic     // as last heard
	coordinators map[string]string    // address by group
	standings    map[string]*standing // by address
	rests        map[string]rest      // addresses that have refused us just now
}

// Dial reaches one of brokers within ctx, trying for as long as ctx lasts; only refused credentials end it early. user
// may be nil; what is taken from it is a copy of ClientID, RackID, Net.TLS, Net.SASL, Net.Proxy, Net.LocalAddr,
// Net.KeepAlive (Version is raised). name is the client.id where user sets none. A token provider or proxy dialer that
// blocks without end blocks the call that needs it.
// The error names the addresses tried, each with its reason.
func Dial(ctx context.Context, name string, brokers []string, user *sarama.Config) (*Client, error) {
	seeds, err := seeds(brokers)
	if err != nil {
		return nil, err
	}
	set, err := newSettings(name, user)
	if err != nil {
		return nil, err
	}
	c := &Client{
		set: set, seeds: seeds, recheck: recheck, controller: -1,
		conns: map[*conn]struct{}{}, links: map[string]*link{}, brokers: map[int32]string{},
		topics: map[string]Topic{}, coordinators: map[string]string{}, standings: map[string]*standing{}, rests: map[string]rest{},
	}
	c.ctx, c.end = context.WithCancel(context.Background())
	if _, err := c.Topics(ctx); err != nil {
		_ = c.Close()
		return nil, err
	}
	return c, nil
}

// Close closes every connection. Calls under way end with ErrClosed.
func (c *Client) Close() error {
	c.end()
	c.mu.Lock()
	c.closed = true
	open := make([]*conn, 0, len(c.conns))
	for n := range c.conns {
		open = append(open, n)
	}
	c.mu.Unlock()
	for _, n := range open {
		n.close()
	}
	return nil
}

// keep counts n among the open connections; false: the client is closed.
func (c *Client) keep(n *conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.conns[n] = struct{}{}
	}
	return !c.closed
}

func (c *Client) forget(n *conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.conns, n)
}

// bound gives a ctx that Close ends too.
func (c *Client) bound(ctx context.Context) (context.Context, func()) {
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(c.ctx, cancel)
	return ctx, func() { stop(); cancel() }
}

// outcome turns whatever Close has caused into ErrClosed.
func (c *Client) outcome(err error) error {
	if err != nil && c.ctx.Err() != nil {
		return ErrClosed
	}
	return err
}

// candidates are the addresses where any broker may be asked: the last one that answered first, then the known brokers
// in an order of their own for each client, then the seeds.
func (c *Client) candidates() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := make([]string, 0, len(c.brokers)+len(c.seeds)+1)
	if c.home != "" {
		known = append(known, c.home)
	}
	ids := make([]int32, 0, len(c.brokers))
	for id := range c.brokers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	rand.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	for _, id := range ids {
		known = append(known, c.brokers[id])
	}
	seeds := slices.Clone(c.seeds)
	rand.Shuffle(len(seeds), func(i, j int) { seeds[i], seeds[j] = seeds[j], seeds[i] })
	all := make([]string, 0, cap(known))
	for _, a := range append(known, seeds...) {
		if !slices.Contains(all, a) {
			all = append(all, a)
		}
	}
	return all
}

// rest is for an address that does not accept us: each of many connections would ask it again at once, in each of many
// processes, and it takes somebody's doing to change its mind.
type rest struct {
	until time.Time
	err   error
}

func (c *Client) rest(addr string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rests[addr] = rest{time.Now().Add(restLimit), err}
}

// rested is nil where an address may be asked, else why it refused us.
func (c *Client) rested(addr string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	r, ok := c.rests[addr]
	if ok && time.Now().Before(r.until) {
		return r.err
	}
	delete(c.rests, addr)
	return nil
}

// address of a broker, as last heard.
func (c *Client) address(broker int32) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, ok := c.brokers[broker]
	return a, ok
}

// pause waits a little before another try; an error when ctx ends.
func pause(ctx context.Context) error {
	t := time.NewTimer(pauseMin + rand.N(pauseMax-pauseMin))
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func hostPort(host string, port int32) string {
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// link is the connection to one address for questions. Whoever has its turn may use and replace the connection.
type link struct {
	addr string
	turn chan struct{}
	conn *conn
}

func (c *Client) link(addr string) *link {
	c.mu.Lock()
	defer c.mu.Unlock()
	l := c.links[addr]
	if l == nil {
		l = &link{addr: addr, turn: make(chan struct{}, 1)}
		c.links[addr] = l
	}
	return l
}

func (l *link) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
	case <-ctx.Done():
		return &ConnError{Addr: l.addr, Op: "wait for", Err: ctx.Err()}
	}
	if l.conn != nil && l.conn.closed.Load() {
		l.conn = nil
	}
	return nil
}

func (l *link) give() { <-l.turn }

// ask puts a question to the broker at addr, once.
func (c *Client) ask(ctx context.Context, addr string, req kmsg.Request, lo, hi int16, wait time.Duration) (kmsg.Response, error) {
	l := c.link(addr)
	if err := l.take(ctx); err != nil {
		return nil, err
	}
	defer l.give()
	if l.conn == nil {
		n, err := c.open(ctx, addr)
		if err != nil {
			return nil, err
		}
		l.conn = n
	}
	return l.conn.call(ctx, req, lo, hi, wait)
}

// askAny puts a question to whichever broker answers, for as long as ctx lasts.
func (c *Client) askAny(ctx context.Context, req kmsg.Request, lo, hi int16) (kmsg.Response, error) {
	tried := &UnreachableError{}
	for {
		addr, err := c.reach(ctx, tried)
		if err == nil {
			var resp kmsg.Response
			if resp, err = c.ask(ctx, addr, req, lo, hi, 0); err == nil {
				return resp, nil
			}
			tried.add(addr, err)
			c.leave(addr)
			if !Retriable(err) && ctx.Err() == nil {
				return nil, err
			}
		} else if errors.Is(err, errNone) && errors.Is(tried, ErrAuthentication) {
			return nil, tried
		}
		if err := pause(ctx); err != nil {
			tried.Cause = err
			return nil, tried
		}
	}
}

// reach gives an address to which a connection is open, and opens one if there is none.
func (c *Client) reach(ctx context.Context, tried *UnreachableError) (string, error) {
	all := c.candidates()
	l := c.link(all[0])
	if err := l.take(ctx); err != nil {
		return "", err
	}
	alive := l.conn != nil
	l.give()
	if alive {
		return l.addr, nil
	}
	n, err := c.race(ctx, all, tried)
	if err != nil {
		return "", err
	}
	if l = c.link(n.addr); l.take(ctx) != nil {
		n.close()
		return "", ctx.Err()
	}
	defer l.give()
	if l.conn != nil {
		n.close() // somebody else has opened one
	} else {
		l.conn = n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.home = n.addr
	return n.addr, nil
}

// leave makes the next question go elsewhere first.
func (c *Client) leave(addr string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.home == addr {
		c.home = ""
	}
}
