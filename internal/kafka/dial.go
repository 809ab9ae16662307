package kafka

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Opening a connection. sarama does it, with the user's SASL and through our dialer, on a goroutine of its own; that one
// is awaited, cannot be abandoned while it talks, and so is told to end by closing what it talks through. When it is
// done nothing of sarama reads or writes the connection any more, and our own frames go over it.

// opening is a connection on its way.
type opening struct {
	addr   string
	d      *dialer
	broker *sarama.Broker
	ctx    context.Context
	cancel context.CancelFunc
}

// begin starts to open addr. ready gets the opening once: when the peer has said something, nothing will come of it, or
// its time is over.
func (c *Client) begin(ctx context.Context, addr string, ready chan<- *opening) *opening {
	o := &opening{addr: addr, d: c.set.dialer(), broker: sarama.NewBroker(addr)}
	o.ctx, o.cancel = context.WithTimeout(ctx, openLimit)
	o.d.ctx = o.ctx
	o.d.ready = sync.OnceFunc(func() { ready <- o })
	context.AfterFunc(o.ctx, o.d.ready)
	if err := c.rested(addr); err != nil {
		o.d.fail(err)
	} else if err := o.broker.Open(c.set.config(o.d)); err != nil {
		o.d.fail(err)
	}
	return o
}

// finish waits for the end of the opening. Only what ready gave may be finished.
func (c *Client) finish(o *opening) (*conn, error) {
	if err := o.ctx.Err(); err != nil {
		o.abandon()
		return nil, openError(o.addr, "", noAnswer(err))
	}
	defer o.cancel()
	stop := context.AfterFunc(o.ctx, o.d.close)
	ok, err := o.broker.Connected()
	if !ok && err == nil {
		err = io.ErrUnexpectedEOF
	}
	if d := o.d.failed(); d != nil {
		err = d // what sarama makes of it says less
	}
	if err != nil {
		stop()
		o.d.close()
		_ = o.broker.Close()
		if ctx := o.ctx.Err(); ctx != nil {
			err = noAnswer(ctx)
		}
		refusal, rested := errors.AsType[*ConnError](err)
		if !rested {
			refusal = openError(o.addr, o.d.hint(err, c.standingOf(o.addr)), err)
		}
		if !rested && errors.Is(refusal, ErrAuthentication) {
			c.rest(o.addr, refusal)
		}
		return nil, refusal
	}
	n := &conn{
		addr: o.addr, past: c.standingOf(o.addr), nc: o.d.nc, raw: o.d.raw, broker: o.broker, forget: c.forget,
		form: kmsg.NewRequestFormatter(kmsg.FormatterClientID(c.set.clientID)),
		sasl: c.set.user.Net.SASL.Enable, recheck: c.recheck, checked: time.Now(),
	}
	if err := n.learnVersions(o.ctx); err != nil {
		stop()
		n.close()
		return nil, openError(o.addr, "", err)
	}
	if !stop() {
		n.close()
		return nil, openError(o.addr, "", noAnswer(o.ctx.Err()))
	}
	if !c.keep(n) {
		n.close()
		return nil, ErrClosed
	}
	return n, nil
}

// abandon ends an opening that is not wanted any more.
func (o *opening) abandon() {
	o.cancel()
	if o.d.close(); o.d.dialled() {
		_ = o.broker.Close() // waits for sarama's goroutines, which end as their connection is closed
	}
}

// open opens one connection, once.
func (c *Client) open(ctx context.Context, addr string) (*conn, error) {
	ready := make(chan *opening, 1)
	c.begin(ctx, addr, ready)
	return c.finish(<-ready)
}

// race opens the first of addrs that answers. Each gets a head start over the next, which falls away when it fails.
func (c *Client) race(ctx context.Context, addrs []string, tried *UnreachableError) (*conn, error) {
	ready := make(chan *opening, len(addrs))
	running := make([]*opening, 0, len(addrs))
	defer func() {
		for _, o := range running {
			o.abandon()
		}
	}()
	next := 0
	timer := time.NewTimer(0)
	defer timer.Stop()
	for next < len(addrs) || len(running) > 0 {
		select {
		case <-timer.C:
			if next < len(addrs) {
				running = append(running, c.begin(ctx, addrs[next], ready))
				next++
				timer.Reset(headStart)
			}
		case o := <-ready:
			for i := range running {
				if running[i] == o {
					running = append(running[:i], running[i+1:]...)
					break
				}
			}
			n, err := c.finish(o)
			if err == nil {
				return n, nil
			}
			tried.add(o.addr, err)
			timer.Reset(0)
		case <-ctx.Done():
			for _, o := range running {
				tried.add(o.addr, noAnswer(ctx.Err()))
			}
			return nil, ctx.Err()
		}
	}
	return nil, errNone
}

var errNone = errors.New("none of them could be used")

func noAnswer(err error) error { return fmt.Errorf("no answer: %w", err) }

// dialer is what sarama dials with, for one connection.
type dialer struct {
	net   net.Dialer
	proxy interface {
		Dial(network, addr string) (net.Conn, error)
	}
	tls   *tls.Config // nil: none
	bare  bool        // tokens come without a number of the question
	ctx   context.Context
	ready func()

	mu     sync.Mutex
	raw    net.Conn // what was dialled
	nc     net.Conn // with TLS over it, if wanted
	closed bool
	err    error
	head   []byte // the first bytes that the peer sent
}

// Dial connects, within ctx.
func (d *dialer) Dial(network, addr string) (net.Conn, error) {
	nc, err := d.dial(network, addr)
	if err != nil {
		d.fail(err)
		return nil, err
	}
	return &heard{Conn: nc, d: d}, nil
}

func (d *dialer) dial(network, addr string) (net.Conn, error) {
	raw, err := d.connect(network, addr)
	if err != nil {
		return nil, err
	}
	if err := d.hold(raw); err != nil {
		_ = raw.Close()
		return nil, err
	}
	nc := raw
	if d.tls != nil {
		cfg := d.tls
		if cfg.ServerName == "" {
			cfg = cfg.Clone()
			cfg.ServerName, _, _ = net.SplitHostPort(addr)
		}
		ctx, cancel := context.WithTimeout(d.ctx, ioLimit)
		defer cancel()
		t := tls.Client(raw, cfg)
		if err := t.HandshakeContext(ctx); err != nil {
			_ = raw.Close()
			return nil, err
		}
		nc = t
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.nc = nc
	return nc, nil
}

func (d *dialer) connect(network, addr string) (net.Conn, error) {
	switch p := d.proxy.(type) {
	case nil:
		return d.net.DialContext(d.ctx, network, addr)
	case interface {
		DialContext(ctx context.Context, network, addr string) (net.Conn, error)
	}:
		ctx, cancel := context.WithTimeout(d.ctx, dialLimit)
		defer cancel()
		return p.DialContext(ctx, network, addr)
	default:
		return p.Dial(network, addr)
	}
}

// hold notes the connection, so that close reaches it; an error if close was first.
func (d *dialer) hold(raw net.Conn) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return net.ErrClosed
	}
	d.raw = raw
	return nil
}

// close ends whatever is going on over the connection, or will be.
func (d *dialer) close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closed = true
	if d.raw != nil {
		_ = d.raw.Close()
	}
}

func (d *dialer) fail(err error) {
	d.mu.Lock()
	d.err = err
	d.mu.Unlock()
	d.ready()
}

func (d *dialer) begins(head []byte) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.head = append(d.head, head...)
}

// sentAlert tells whether the peer began with an alert of TLS.
func (d *dialer) sentAlert() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.head) > 1 && d.head[0] == 0x15 && d.head[1] == 3
}

func (d *dialer) failed() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.err
}

func (d *dialer) dialled() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.raw != nil
}

// hint guesses from the first bytes of the peer, or from their absence, what its user may have mixed up. One that has answered
// before and hangs up a few times is being restarted.
func (d *dialer) hint(err error, past *standing) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch h := string(d.head); {
	case h == "HTTP":
		return "this port speaks HTTP, not Kafka"
	case errors.As(err, new(tls.RecordHeaderError)):
		return "this port speaks no TLS"
	case isRemoteAlert(err):
		return "the broker ended TLS: check the client certificate"
	case errors.Is(err, errNotKafka):
		return fmt.Sprintf("it begins with %q", h)
	case past.suspects(err):
		return hintHungUp
	}
	return ""
}

const hintHungUp = "the broker hung up: check TLS, SASL and the credentials"

func hungUp(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET)
}

// heard tells the dialer of the first bytes that come. Where none come, or none that can be the size of an answer, that
// is the end: sarama would ask again in an older version, wait as long again, and take that for success.
//
// It also looks at the size of each answer: sarama makes room for as much as it is told, up to 4 GiB, before any of it comes.
type heard struct {
	net.Conn
	d    *dialer
	done bool
	err  error
	size [4]byte
	have int   // bytes of size
	left int64 // bytes of the answer that are still to come
}

// Answers while a connection is opened, or logs in again, have so many bytes: they tell of versions, and tokens.
const (
	leastOpening = 4 // the number of the question
	mostOpening  = 1 << 20
)

var (
	errNotKafka = errors.New("the answer is not Kafka's")
	errWantsTLS = errors.New("this port wants TLS")
)

func (h *heard) Read(b []byte) (int, error) {
	if h.err != nil {
		return 0, h.err
	}
	n, err := h.Conn.Read(b)
	first := !h.done
	if first {
		h.done = true
		h.d.begins(b[:min(n, 4)])
		defer h.d.ready()
	}
	if !h.follow(b[:n]) {
		n, err = 0, errNotKafka
		if first && h.d.sentAlert() {
			err = errWantsTLS
		}
		h.err = err
	} else if first && n == 0 {
		h.err = err
	}
	if h.err != nil {
		h.d.close()
		h.d.fail(h.err)
	}
	return n, err
}

// follow keeps track of where answers begin; false: one has a size that none has.
func (h *heard) follow(b []byte) bool {
	for len(b) > 0 {
		if h.left > 0 {
			n := min(int64(len(b)), h.left)
			h.left -= n
			b = b[n:]
			continue
		}
		h.size[h.have] = b[0]
		h.have++
		b = b[1:]
		if h.have < len(h.size) {
			continue
		}
		h.have, h.left = 0, int64(binary.BigEndian.Uint32(h.size[:]))
		if h.left > mostOpening || h.left < leastOpening && !h.d.bare {
			return false
		}
	}
	return h.have == 0 || h.size[0] == 0
}

func tlsConfig(c *tls.Config) *tls.Config {
	if c == nil {
		return &tls.Config{MinVersion: tls.VersionTLS12}
	}
	return c
}
