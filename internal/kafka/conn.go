package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// conn is a connection to a broker, used by one goroutine at a time; close may come from anywhere. After any error of
// reading or writing it is closed: what else may come over it belongs to a question that nobody waits for.
type conn struct {
	addr   string
	nc     net.Conn
	raw    net.Conn       // below TLS
	broker *sarama.Broker // opened it, keeps the SASL session, and has a goroutine to end
	forget func(*conn)
	past   *standing // of its address

	form     *kmsg.RequestFormatter
	versions map[int16]versions
	sasl     bool
	recheck  time.Duration
	checked  time.Time
	corr     int32
	out      []byte

	shut   sync.Once
	closed atomic.Bool
}

// versions of a request that a broker knows.
type versions struct{ min, max int16 }

// most is the largest answer read from a connection that does not fetch, in bytes.
const most = 100 << 20

// close closes it; calls under way end. The raw connection goes first: what TLS and sarama would still say is of no use
// to anybody and could wait for a dead peer.
func (n *conn) close() {
	n.shut.Do(func() {
		n.closed.Store(true)
		_ = n.raw.Close()
		_ = n.broker.Close()
		if n.forget != nil {
			n.forget(n)
		}
	})
}

// learnVersions asks what the broker knows. Version 0 of this question is known to all.
func (n *conn) learnVersions(ctx context.Context) error {
	resp, err := n.exchange(ctx, kmsg.NewPtrApiVersionsRequest(), 0)
	if c, ok := errors.AsType[*ConnError](err); ok {
		return c.Err // who opens names the address
	}
	if err != nil {
		return err
	}
	r := resp.(*kmsg.ApiVersionsResponse)
	if err := brokerError(r.ErrorCode, nil); err != nil {
		return err
	}
	n.versions = make(map[int16]versions, len(r.ApiKeys))
	for _, k := range r.ApiKeys {
		n.versions[k.ApiKey] = versions{k.MinVersion, k.MaxVersion}
	}
	return nil
}

// pick sets the newest version in lo..hi that the broker knows.
func (n *conn) pick(req kmsg.Request, lo, hi int16) error {
	v, ok := n.versions[req.Key()]
	if hi = min(hi, v.max); !ok || hi < max(lo, v.min) {
		return fmt.Errorf("%s at %s: %w (it knows %d to %d)", kmsg.NameForKey(req.Key()), n.addr, ErrUnsupportedVersion, v.min, v.max)
	}
	req.SetVersion(hi)
	return nil
}

// call asks in a version of lo..hi and reads the answer. wait is what the broker may take by order.
func (n *conn) call(ctx context.Context, req kmsg.Request, lo, hi int16, wait time.Duration) (kmsg.Response, error) {
	if err := n.pick(req, lo, hi); err != nil {
		return nil, err
	}
	return n.exchange(ctx, req, wait)
}

// exchange is call with a version that is set. Its error is Refused if nothing was sent.
func (n *conn) exchange(ctx context.Context, req kmsg.Request, wait time.Duration) (kmsg.Response, error) {
	if err := ctx.Err(); err != nil {
		return nil, refused{err}
	}
	stop := n.watch(ctx)
	until := limit(ctx, ioLimit+wait)
	var resp kmsg.Response
	err := n.authenticate()
	if err != nil {
		err = refused{err}
	} else if corr, sent := n.send(req, until); sent != nil {
		err = sent
	} else {
		resp, err = n.answer(req, corr, until)
	}
	if !stop() {
		n.close()
	}
	if err != nil && ctx.Err() != nil {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return resp, err
}

// watch closes the connection when ctx ends. stop tells whether it did not.
func (n *conn) watch(ctx context.Context) (stop func() bool) {
	if ctx.Done() == nil {
		return func() bool { return true }
	}
	return context.AfterFunc(ctx, n.close)
}

// limit is now + d, or the deadline of ctx if that is earlier.
func limit(ctx context.Context, d time.Duration) time.Time {
	until := time.Now().Add(d)
	if t, ok := ctx.Deadline(); ok && t.Before(until) {
		return t
	}
	return until
}

// send writes a request whose version is set, and gives the number that its answer will carry.
func (n *conn) send(req kmsg.Request, until time.Time) (corr int32, err error) {
	n.corr++
	n.out = n.form.AppendRequest(n.out[:0], req, n.corr)
	if err = n.nc.SetWriteDeadline(until); err == nil {
		_, err = n.nc.Write(n.out)
	}
	if err != nil {
		return 0, n.broke(kmsg.NameForKey(req.Key()), err)
	}
	return n.corr, nil
}

// authenticate, called while no answer is due, gives sarama the chance to authenticate again (KIP-368): it does so before a request of its own when
// the session is about to end, and it alone knows when. The question it asks for that costs next to nothing.
func (n *conn) authenticate() error {
	if !n.sasl || time.Since(n.checked) < n.recheck {
		return nil
	}
	n.checked = time.Now()
	if _, err := n.broker.ApiVersions(&sarama.ApiVersionsRequest{}); err != nil {
		hint := ""
		if hungUp(err) {
			hint = hintHungUp
		}
		return n.broke("authenticate", openError(n.addr, hint, err))
	}
	return nil
}

// answer reads and decodes the answer to req, which was sent as number corr.
func (n *conn) answer(req kmsg.Request, corr int32, until time.Time) (kmsg.Response, error) {
	op := kmsg.NameForKey(req.Key())
	size, err := n.size(until)
	if err == nil && size > most {
		err = fmt.Errorf("%w: an answer of %d bytes", ErrCorrupt, size)
	}
	if err != nil {
		return nil, n.broke(op, err)
	}
	buf := make([]byte, size)
	if err := n.fill(buf, until); err != nil {
		return nil, n.broke(op, err)
	}
	resp := req.ResponseKind()
	resp.SetVersion(req.GetVersion())
	if err := n.decode(buf, corr, resp); err != nil {
		return nil, n.broke(op, err)
	}
	if corr > 1 { // the first is the question for versions, which anybody may ask
		n.past.answered()
	}
	return resp, nil
}

// size reads how many bytes the next answer has.
func (n *conn) size(until time.Time) (int64, error) {
	var b [4]byte
	if err := n.fill(b[:], until); err != nil {
		return 0, err
	}
	size := int64(binary.BigEndian.Uint32(b[:]))
	if size < 4 || size > 1<<31-1 {
		return 0, fmt.Errorf("%w: an answer of %d bytes", ErrCorrupt, size)
	}
	return size, nil
}

func (n *conn) fill(b []byte, until time.Time) error {
	if err := n.nc.SetReadDeadline(until); err != nil {
		return err
	}
	_, err := io.ReadFull(n.nc, b)
	return err
}

// decode reads a whole answer, which must be to question corr. resp may point into buf.
func (n *conn) decode(buf []byte, corr int32, resp kmsg.Response) error {
	if got := int32(binary.BigEndian.Uint32(buf)); got != corr {
		return fmt.Errorf("%w: answer to question %d, not %d", ErrCorrupt, got, corr)
	}
	buf = buf[4:]
	if resp.IsFlexible() && resp.Key() != int16(kmsg.ApiVersions) {
		var err error
		if buf, err = skipTags(buf); err != nil {
			return err
		}
	}
	if err := resp.ReadFrom(buf); err != nil {
		return fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return nil
}

// skipTags skips the tagged fields of an answer's header.
func skipTags(b []byte) ([]byte, error) {
	uvarint := func() uint64 {
		v, w := binary.Uvarint(b)
		b = b[max(w, 0):]
		if w <= 0 {
			b = nil
		}
		return v
	}
	for left := uvarint(); left > 0; left-- {
		uvarint()
		size := uvarint()
		if size > uint64(len(b)) || b == nil {
			return nil, fmt.Errorf("%w: header of an answer", ErrCorrupt)
		}
		b = b[size:]
	}
	if b == nil {
		return nil, fmt.Errorf("%w: header of an answer", ErrCorrupt)
	}
	return b, nil
}

// broke closes the connection and says why.
func (n *conn) broke(op string, err error) error {
	n.close()
	if n.corr <= 2 && n.past.suspects(err) { // in the first words after the versions
		err = fmt.Errorf("%w (%s)", err, hintHungUp)
	}
	return &ConnError{Addr: n.addr, Op: op + " at", Err: err}
}

// flow fills b, which may be large, from a peer that has begun to answer: it may take its time as a whole, at minRate,
// but never pause for longer than a request may take.
func (n *conn) flow(b []byte) error {
	now := time.Now()
	end := now.Add(ioLimit + time.Duration(len(b))*time.Second/minRate)
	for len(b) > 0 {
		until := now.Add(ioLimit)
		if end.Before(until) {
			until = end
		}
		if err := n.nc.SetReadDeadline(until); err != nil {
			return err
		}
		k, err := n.nc.Read(b)
		b = b[k:]
		if err != nil && len(b) > 0 {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF
			}
			return err
		}
		now = time.Now()
	}
	return nil
}

// minRate is the least that a large answer must flow with, in bytes per second.
const minRate = 256 << 10
