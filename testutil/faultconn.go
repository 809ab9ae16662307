package testutil

import (
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// maxFrame is the largest request taken from a client (a broker's socket.request.max.bytes).
const maxFrame = 100 << 20

// request is what the header of a request tells.
type request struct {
	key     int16
	version int16
	corr    int32
	client  string
}

// faultConn is the broker's side of a connection. It reads whole requests and writes whole answers (kfake writes each
// answer with one Write), so a fault never tears one. The broker answers in order, one at a time.
type faultConn struct {
	net.Conn
	f      *Faults
	node   int32
	once   sync.Once
	closed chan struct{}

	frame []byte // the request being handed to the broker; only Read touches these
	rest  []byte
	deaf  bool // a request was lost: so are all after it
	mute  bool // an answer was lost: so are all after it; only Write touches it

	mu      sync.Mutex
	client  string
	pending []request // handed to the broker, not answered
}

// Read gives the broker the next bytes of a request that no fault withholds.
func (c *faultConn) Read(p []byte) (int, error) {
	for len(c.rest) == 0 {
		r, err := c.readFrame()
		if err != nil {
			return 0, err
		}
		ok, err := c.admit(r)
		if err != nil {
			return 0, err
		}
		if ok {
			c.mu.Lock()
			c.pending = append(c.pending, r)
			c.mu.Unlock()
			c.rest = c.frame
		}
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
}

// readFrame reads one request, size included, into c.frame.
func (c *faultConn) readFrame() (request, error) {
	c.frame = append(c.frame[:0], 0, 0, 0, 0)
	if _, err := io.ReadFull(c.Conn, c.frame); err != nil {
		return request{}, err
	}
	size := binary.BigEndian.Uint32(c.frame)
	if size > maxFrame {
		c.Close()
		return request{}, fmt.Errorf("request of %d bytes", size)
	}
	if need := 4 + int(size); cap(c.frame) < need {
		c.frame = append(make([]byte, 0, need), c.frame...)
	}
	c.frame = c.frame[:4+size]
	if _, err := io.ReadFull(c.Conn, c.frame[4:]); err != nil {
		return request{}, err
	}
	r := parseRequest(c.frame[4:])
	c.mu.Lock()
	c.client = r.client
	c.mu.Unlock()
	return r, nil
}

// parseRequest reads the header that all requests share: key, version, correlation id, client id. What is too short
// for it is nobody's request; the broker will see that for itself.
func parseRequest(b []byte) request {
	if len(b) < 8 {
		return request{key: -1}
	}
	be := binary.BigEndian
	r := request{key: int16(be.Uint16(b)), version: int16(be.Uint16(b[2:])), corr: int32(be.Uint32(b[4:]))}
	if len(b) >= 10 {
		if n := int(int16(binary.BigEndian.Uint16(b[8:]))); n > 0 && len(b) >= 10+n {
			r.client = string(b[10 : 10+n])
		}
	}
	return r
}

// admit tells whether the broker gets the request. It may take its time.
func (c *faultConn) admit(r request) (bool, error) {
	if c.deaf {
		return false, nil
	}
	for {
		a := c.f.strike(c.node, r, false)
		if a == nil {
			return true, nil
		}
		switch a.fault.Do {
		case Cut:
			c.Close()
			return false, errCut
		case Drop:
			c.deaf = true
			return false, nil
		case DelayRequests:
			return true, c.hold(a, a.fault.Delay)
		case Freeze:
			if err := c.hold(a, 0); err != nil {
				return false, err
			}
		}
	}
}

// Write sends the client an answer, if no fault withholds it. The broker is told that it was sent either way.
func (c *faultConn) Write(p []byte) (int, error) {
	r := c.answered(p)
	for !c.mute {
		a := c.f.strike(c.node, r, true)
		if a == nil {
			return c.send(r, p)
		}
		switch a.fault.Do {
		case LoseAnswers:
			c.mute = true
		case CutAnswers:
			c.Close()
			return 0, errCut
		case DelayAnswers:
			if err := c.hold(a, a.fault.Delay); err != nil {
				return 0, err
			}
			return c.send(r, p)
		case Freeze:
			if err := c.hold(a, 0); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// send writes an answer, or what OnFetch makes of it. The broker is told that its own was written.
func (c *faultConn) send(r request, p []byte) (int, error) {
	if _, err := c.Conn.Write(c.f.changed(r, p)); err != nil {
		return 0, err
	}
	return len(p), nil
}

// answered finds the request that p answers, and forgets it and those before it (which want no answer: acks=0).
func (c *faultConn) answered(p []byte) request {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(p) >= 8 {
		corr := int32(binary.BigEndian.Uint32(p[4:]))
		for i, r := range c.pending {
			if r.corr == corr {
				c.pending = c.pending[i+1:]
				return r
			}
		}
	}
	return request{key: -1, client: c.client}
}

// hold waits for d, or until the fault is removed; d 0 waits for that alone. It ends early with the connection.
func (c *faultConn) hold(a *ActiveFault, d time.Duration) error {
	var late <-chan time.Time
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		late = t.C
	}
	select {
	case <-late:
	case <-a.removed:
	case <-c.closed:
		return net.ErrClosed
	}
	return nil
}

// Close ends the connection and whatever it holds back.
func (c *faultConn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		close(c.closed)
		c.f.mu.Lock()
		delete(c.f.conns, c)
		c.f.mu.Unlock()
		err = c.Conn.Close()
	})
	return err
}

func (c *faultConn) clientID() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.client
}

// awaits tells whether a request that f matches has been handed to the broker and not been answered.
func (c *faultConn) awaits(f *Fault) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.pending {
		if r.client != harness && f.matches(c.node, r) {
			return true
		}
	}
	return false
}
