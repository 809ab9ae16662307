package testutil

import (
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// harness is the client.id of this package's own requests: no fault touches them.
const harness = "testutil-harness"

// patience is how long one of our own requests may take.
const patience = 30 * time.Second

// wire is one connection to a broker, for one request at a time.
type wire struct {
	conn   net.Conn
	client string
	corr   int32
	buf    []byte
}

// ask sends a request to a broker and reads the answer.
func (c *Cluster) ask(addr string, r kmsg.Request) (kmsg.Response, error) {
	w, err := c.take(addr)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", addr, err)
	}
	resp, err := w.ask(r)
	if err != nil {
		w.conn.Close()
		return nil, fmt.Errorf("%s at %s: %w", kmsg.Key(r.Key()).Name(), addr, err)
	}
	c.giveBack(addr, w)
	return resp, nil
}

// take finds an idle connection or opens one.
func (c *Cluster) take(addr string) (*wire, error) {
	if c.closed.Load() {
		return nil, ErrClosed
	}
	c.mu.Lock()
	if idle := c.idle[addr]; len(idle) > 0 {
		w := idle[len(idle)-1]
		c.idle[addr] = idle[:len(idle)-1]
		c.mu.Unlock()
		return w, nil
	}
	c.mu.Unlock()

	return c.connect(addr, harness)
}

// connect opens a connection and logs in where that is wanted.
func (c *Cluster) connect(addr, client string) (*wire, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	conn, err := c.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	if c.tls != nil {
		conn = tls.Client(conn, c.ClientTLS())
	}
	w := &wire{conn: conn, client: client}
	if c.own.name != "" {
		if err := w.login(c.own); err != nil {
			conn.Close()
			return nil, fmt.Errorf("log in: %w", err)
		}
	}
	return w, nil
}

func (c *Cluster) giveBack(addr string, w *wire) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed.Load() {
		w.conn.Close()
		return
	}
	c.idle[addr] = append(c.idle[addr], w)
}

func (w *wire) login(u user) error {
	h := kmsg.NewSASLHandshakeRequest()
	h.Version, h.Mechanism = 1, u.mechanism
	if _, err := w.ask(&h); err != nil {
		return err
	}
	a := kmsg.NewSASLAuthenticateRequest()
	a.Version = 1
	a.SASLAuthBytes = []byte("\x00" + u.name + "\x00" + u.password)
	resp, err := w.ask(&a)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(resp.(*kmsg.SASLAuthenticateResponse).ErrorCode)
}

func (w *wire) ask(r kmsg.Request) (kmsg.Response, error) {
	if err := w.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	w.corr++
	w.buf = kmsg.NewRequestFormatter(kmsg.FormatterClientID(w.client)).AppendRequest(w.buf[:0], r, w.corr)
	if _, err := w.conn.Write(w.buf); err != nil {
		return nil, err
	}
	var size [4]byte
	if _, err := io.ReadFull(w.conn, size[:]); err != nil {
		return nil, err
	}
	body := make([]byte, binary.BigEndian.Uint32(size[:]))
	if _, err := io.ReadFull(w.conn, body); err != nil {
		return nil, err
	}
	in := kbin.Reader{Src: body}
	if corr := in.Int32(); corr != w.corr {
		return nil, fmt.Errorf("answer %d to request %d", corr, w.corr)
	}
	resp := r.ResponseKind()
	if resp.IsFlexible() {
		kmsg.SkipTags(&in)
	}
	return resp, resp.ReadFrom(in.Src)
}
