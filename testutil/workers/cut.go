package workers

import (
	"errors"
	"net"
	"os"
	"sync"
	"time"
)

// network is a process's way to the brokers. While it is cut nothing gets through and nothing is refused, as where packets are dropped.
type network struct {
	mu    sync.Mutex
	whole chan struct{} // closed while it is
}

func newNetwork() *network {
	n := &network{whole: make(chan struct{})}
	close(n.whole)
	return n
}

// toggle cuts it, or makes it whole.
func (n *network) toggle() {
	n.mu.Lock()
	defer n.mu.Unlock()
	select {
	case <-n.whole:
		n.whole = make(chan struct{})
	default:
		close(n.whole)
	}
}

func (n *network) state() chan struct{} {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.whole
}

const (
	dialTimeout = 10 * time.Second
	lookAgain   = 20 * time.Millisecond // whether a deadline has come
)

// Dial makes it sarama's Net.Proxy.Dialer.
func (n *network) Dial(kind, addr string) (net.Conn, error) {
	limit := time.NewTimer(dialTimeout)
	defer limit.Stop()
	select {
	case <-n.state():
	case <-limit.C:
		return nil, &net.OpError{Op: "dial", Net: kind, Err: os.ErrDeadlineExceeded}
	}
	c, err := net.DialTimeout(kind, addr, dialTimeout)
	if err != nil {
		return nil, err
	}
	return &wire{Conn: c, n: n, closed: make(chan struct{})}, nil
}

// wire is one connection over it.
type wire struct {
	net.Conn
	n      *network
	once   sync.Once
	closed chan struct{}

	mu              sync.Mutex
	readBy, writeBy time.Time
}

// Read gives what has come through. What comes while the network is cut is kept back.
func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Conn.Read(p)
	if late := w.await(&w.readBy); late != nil {
		return 0, late
	}
	return n, err
}

func (w *wire) Write(p []byte) (int, error) {
	if err := w.await(&w.writeBy); err != nil {
		return 0, err
	}
	return w.Conn.Write(p)
}

// await waits until the network is whole, the connection is closed, or a deadline has come.
func (w *wire) await(by *time.Time) error {
	select {
	case <-w.n.state():
		return nil
	default:
	}
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		select {
		case <-w.n.state():
			return nil
		case <-w.closed:
			return net.ErrClosed
		case <-again.C:
		}
		w.mu.Lock()
		late := !by.IsZero() && time.Now().After(*by)
		w.mu.Unlock()
		if late {
			return os.ErrDeadlineExceeded
		}
	}
}

func (w *wire) SetDeadline(t time.Time) error {
	return errors.Join(w.SetReadDeadline(t), w.SetWriteDeadline(t))
}

func (w *wire) SetReadDeadline(t time.Time) error {
	w.mu.Lock()
	w.readBy = t
	w.mu.Unlock()
	return w.Conn.SetReadDeadline(t)
}

func (w *wire) SetWriteDeadline(t time.Time) error {
	w.mu.Lock()
	w.writeBy = t
	w.mu.Unlock()
	return w.Conn.SetWriteDeadline(t)
}

func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return w.Conn.Close()
}
