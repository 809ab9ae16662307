package kafka

import (
	"encoding/binary"
	"net"
	"sync"
)

// wire listens for an embedded broker (kfake.ListenFn(w.Listen)) and lets a test treat its answers on the way. The
// broker writes each answer with one Write, after it has acted on the request.
type wire struct {
	mu     sync.Mutex
	answer func(c net.Conn, key int16, frame []byte) (treated bool)
	conns  map[net.Conn]struct{}
	opened int
}

// treat sets what happens to answers: true means that f has done what there is to do.
func (w *wire) treat(f func(c net.Conn, key int16, frame []byte) bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.answer = f
}

func (w *wire) Listen(network, addr string) (net.Listener, error) {
	l, err := net.Listen(network, addr)
	return &wireListener{l, w}, err
}

// cut closes every connection.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Close()
	}
}

// count of connections that were ever opened.
func (w *wire) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.opened
}

type wireListener struct {
	net.Listener
	w *wire
}

func (l *wireListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.w.mu.Lock()
	defer l.w.mu.Unlock()
	if l.w.conns == nil {
		l.w.conns = map[net.Conn]struct{}{}
	}
	l.w.conns[c] = struct{}{}
	l.w.opened++
	return &wireConn{Conn: c, w: l.w, keys: map[int32]int16{}}, nil
}

type wireConn struct {
	net.Conn
	w    *wire
	mu   sync.Mutex
	head []byte // of the request that is being read
	left int
	keys map[int32]int16 // of the requests under way
}

func (c *wireConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range p[:n] {
		if len(c.head) < 12 {
			c.head = append(c.head, b)
			switch len(c.head) {
			case 4:
				c.left = int(binary.BigEndian.Uint32(c.head))
				continue
			case 12:
				c.keys[int32(binary.BigEndian.Uint32(c.head[8:]))] = int16(binary.BigEndian.Uint16(c.head[4:]))
			}
		}
		if len(c.head) > 4 {
			if c.left--; c.left == 0 {
				c.head = c.head[:0]
			}
		}
	}
	return n, err
}

func (c *wireConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	key, ok := c.keys[int32(binary.BigEndian.Uint32(p[4:]))]
	c.mu.Unlock()
	c.w.mu.Lock()
	f := c.w.answer
	c.w.mu.Unlock()
	if ok && f != nil && f(c.Conn, key, p) {
		return len(p), nil
	}
	return c.Conn.Write(p)
}
