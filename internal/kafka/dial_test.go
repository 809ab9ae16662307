package kafka

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
)

// Addresses that do not serve. badDialer gives the ones that a test must not try on a real network.
const (
	lost    = "lost.example:9092"    // does not resolve
	blackin = "blackin.example:9092" // SYNs vanish
)

type badDialer struct{}

func (badDialer) Dial(network, addr string) (net.Conn, error) {
	return badDialer{}.DialContext(context.Background(), network, addr)
}

func (badDialer) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	switch addr {
	case lost:
		return nil, &net.DNSError{Err: "no such host", Name: "lost.example", IsNotFound: true}
	case blackin:
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

func badConfig() *sarama.Config {
	c := sarama.NewConfig()
	c.Net.Proxy.Enable, c.Net.Proxy.Dialer = true, badDialer{}
	return c
}

// deadAddr is where nobody listens.
func deadAddr(t testing.TB) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	return l.Addr().String()
}

// serve answers each connection by f.
func serve(t testing.TB, f func(net.Conn)) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var wg sync.WaitGroup
	var mu sync.Mutex
	var open []net.Conn
	wg.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			mu.Lock()
			open = append(open, c)
			mu.Unlock()
			wg.Go(func() { f(c) })
		}
	})
	t.Cleanup(func() {
		l.Close()
		mu.Lock()
		for _, c := range open {
			c.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return l.Addr().String()
}

// silentAddr accepts and says nothing, like a broker that is stopped.
func silentAddr(t testing.TB) string {
	return serve(t, func(c net.Conn) { _, _ = io.Copy(io.Discard, c) })
}

func httpAddr(t testing.TB) string {
	return serve(t, func(c net.Conn) {
		_, _ = c.Read(make([]byte, 4096))
		fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\nConnection: close\r\n\r\n")
		c.Close()
	})
}

func hangUpAddr(t testing.TB) string {
	return serve(t, func(c net.Conn) { c.Close() })
}

func TestOneBadAddressAmongGoodOnesCostsAtMostASecond(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1))
	good := k.ListenAddrs()[0]
	for name, bad := range map[string]string{
		"dead": deadAddr(t), "silent": silentAddr(t), "http": httpAddr(t), "hangs up": hangUpAddr(t), "unresolved": lost, "blackhole": blackin,
	} {
		t.Run(name, func(t *testing.T) {
			for range 4 { // the order in which they are tried is random
				begin := time.Now()
				c, err := Dial(within(t, 5*time.Second), "test", []string{bad, good}, badConfig())
				require.NoError(t, err)
				assert.Less(t, time.Since(begin), time.Second)
				require.NoError(t, c.Close())
			}
		})
	}
}

func TestAllBadAddressesCostAtMostASecondTogether(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1))
	begin := time.Now()
	c, err := Dial(within(t, 5*time.Second), "test",
		[]string{silentAddr(t), blackin, lost, deadAddr(t), httpAddr(t), silentAddr(t), k.ListenAddrs()[0]}, badConfig())
	require.NoError(t, err)
	assert.Less(t, time.Since(begin), 1100*time.Millisecond)
	require.NoError(t, c.Close())
}

func TestWithoutAGoodAddressTheErrorNamesEachWithItsReason(t *testing.T) {
	dead, silent, http, hangs := deadAddr(t), silentAddr(t), httpAddr(t), hangUpAddr(t)
	begin := time.Now()
	_, err := Dial(within(t, 2600*time.Millisecond), "test", []string{dead, silent, http, hangs, lost, blackin}, badConfig())
	require.Error(t, err)
	assert.Less(t, time.Since(begin), 3*time.Second)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.True(t, Retriable(err))
	u, ok := errors.AsType[*UnreachableError](err)
	require.True(t, ok)
	reason := map[string]error{}
	for _, r := range u.Tried {
		assert.Contains(t, err.Error(), r.Addr)
		reason[r.Addr] = r
	}
	require.Len(t, reason, 6)
	assert.ErrorIs(t, reason[dead], syscall.ECONNREFUSED)
	assert.ErrorContains(t, reason[http], "HTTP")
	assert.ErrorContains(t, reason[hangs], "hung up")
	assert.ErrorContains(t, reason[lost], "no such host")
	assert.Regexp(t, "timeout|no answer", reason[silent].Error())
	assert.ErrorContains(t, reason[blackin], "deadline")
	t.Log(err)
}

func TestDialWaitsForBrokersThatComeLater(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	require.NoError(t, l.Close())
	var wg sync.WaitGroup
	wg.Go(func() {
		c, err := Dial(within(t, 5*time.Second), "test", []string{fmt.Sprintf("127.0.0.1:%d", port)}, nil)
		if assert.NoError(t, err) {
			assert.NoError(t, c.Close())
		}
	})
	<-time.After(300 * time.Millisecond) // it has failed a few times by now
	k, err := kfake.NewCluster(kfake.NumBrokers(1), kfake.Ports(port))
	require.NoError(t, err)
	wg.Wait()
	k.Close()
}

func TestDialEndsWithItsContextWhateverTheDialerDoes(t *testing.T) {
	release := make(chan struct{})
	cfg := sarama.NewConfig()
	cfg.Net.Proxy.Enable, cfg.Net.Proxy.Dialer = true, dialFunc(func(string, string) (net.Conn, error) {
		<-release
		return nil, errors.New("released")
	})
	begin := time.Now()
	_, err := Dial(within(t, 300*time.Millisecond), "test", []string{"somewhere:1"}, cfg)
	assert.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(begin), 600*time.Millisecond)
	close(release)
}

type dialFunc func(network, addr string) (net.Conn, error)

func (f dialFunc) Dial(network, addr string) (net.Conn, error) { return f(network, addr) }

func TestASilentAddressCostsTwoSeconds(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1))
	c := dial(t, nil, k.ListenAddrs()...)
	begin := time.Now()
	_, err := c.open(t.Context(), silentAddr(t))
	require.ErrorIs(t, err, os.ErrDeadlineExceeded)
	assert.True(t, Retriable(err))
	assert.InDelta(t, 2, time.Since(begin).Seconds(), 0.5)
}

func TestFailedDialsLeaveNothing(t *testing.T) {
	dead, hangs := deadAddr(t), hangUpAddr(t)
	before := runtime.NumGoroutine()
	for range 200 {
		_, err := Dial(within(t, 5*time.Millisecond), "test", []string{dead, hangs}, nil)
		require.Error(t, err)
	}
	assert.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+2 }, 5*time.Second, 10*time.Millisecond)
}

func TestDialWithoutAnAddressIsAnErrorAtOnce(t *testing.T) {
	for _, brokers := range [][]string{nil, {}, {" "}, {"noport"}} {
		_, err := Dial(t.Context(), "test", brokers, nil)
		assert.Error(t, err, "%q", brokers)
	}
}

func TestTheUsersSettingsAreCopied(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1))
	user := sarama.NewConfig()
	user.RackID = "r1"
	user.Net.DialTimeout = time.Hour
	user.Version = sarama.V1_0_0_0
	s, err := newSettings("name", user)
	require.NoError(t, err)
	assert.Equal(t, "name", s.clientID, "sarama's default is no choice of the user")
	user.ClientID = "mine"
	s, err = newSettings("name", user)
	require.NoError(t, err)
	assert.Equal(t, "mine", s.clientID)
	assert.Equal(t, "r1", s.rack)
	cfg := s.config(s.dialer())
	assert.Equal(t, sarama.MaxVersion, cfg.Version)
	assert.Equal(t, dialLimit, cfg.Net.DialTimeout)

	dialled := 0
	user.Net.Proxy.Enable, user.Net.Proxy.Dialer = true, dialFunc(func(network, addr string) (net.Conn, error) {
		dialled++
		return net.Dial(network, addr)
	})
	c := dial(t, user, k.ListenAddrs()...)
	user.Net.Proxy.Dialer = nil // no later change counts
	_, err = c.Topics(within(t, 5*time.Second))
	require.NoError(t, err)
	assert.Positive(t, dialled)

	user = sarama.NewConfig()
	user.Net.SASL.Enable = true // without a user
	_, err = Dial(t.Context(), "test", k.ListenAddrs(), user)
	assert.ErrorContains(t, err, "sarama configuration")
}

func TestCloseEndsCallsUnderWayWithErrClosed(t *testing.T) {
	w := &wire{}
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.ListenFn(w.Listen))
	c := dial(t, nil, k.ListenAddrs()...)
	ts, err := c.Topics(t.Context(), "t")
	require.NoError(t, err)
	f, err := c.OpenFetch(t.Context(), 0, fetchSettings)
	require.NoError(t, err)
	p := c.NewProducer("t", 0)
	_, err = p.Append(t.Context(), []Message{{nil, []byte("v")}})
	require.NoError(t, err)
	require.NoError(t, f.Send([]FetchPart{{Topic: "t", TopicID: ts["t"].ID, Offset: 1, LeaderEpoch: -1, LastEpoch: -1, MaxBytes: 1 << 20}}, 5*time.Second))
	asked := make(chan struct{}, 10)
	w.treat(func(net.Conn, int16, []byte) bool { asked <- struct{}{}; return true }) // no answers any more
	var wg sync.WaitGroup
	wg.Go(func() { _, err := f.Receive(); assert.ErrorIs(t, err, ErrClosed) })
	wg.Go(func() { _, err := c.Topics(t.Context(), "t"); assert.ErrorIs(t, err, ErrClosed) })
	wg.Go(func() {
		_, err := p.Append(t.Context(), []Message{{nil, []byte("v")}})
		assert.ErrorIs(t, err, ErrClosed)
		assert.False(t, Refused(err), "it was sent")
	})
	<-asked
	<-asked
	begin := time.Now()
	require.NoError(t, c.Close())
	wg.Wait()
	assert.Less(t, time.Since(begin), 1500*time.Millisecond)
	_, err = c.Topics(t.Context(), "t")
	assert.ErrorIs(t, err, ErrClosed)
	assert.ErrorIs(t, c.Offsets(t.Context(), []OffsetQuery{{"t", 0, -1}})[0].Err, ErrClosed)
	assert.ErrorIs(t, c.FetchOffsets(t.Context(), "g", []Committed{{Topic: "t"}}), ErrClosed)
	_, err = c.OpenFetch(t.Context(), 0, fetchSettings)
	assert.ErrorIs(t, err, ErrClosed)
	_, err = p.Append(t.Context(), []Message{{nil, []byte("v")}})
	assert.ErrorIs(t, err, ErrClosed)
	_, _, err = c.EnsureTopic(t.Context(), TopicSpec{Name: "x", Partitions: 1}, nil)
	assert.ErrorIs(t, err, ErrClosed)
}

var fetchSettings = FetchSettings{MaxWait: 500 * time.Millisecond, MinBytes: 1, MaxBytes: 1 << 20}

func TestAnAbandonedOpeningLeavesNothing(t *testing.T) { // or the check for leaked goroutines at the end would find it
	k := newCluster(t, kfake.NumBrokers(1))
	c := dial(t, nil, k.ListenAddrs()...)
	ready := make(chan *opening, 1)
	o := c.begin(t.Context(), k.ListenAddrs()[0], ready)
	<-ready
	ok, err := o.broker.Connected() // waits until sarama is done
	require.NoError(t, err)
	require.True(t, ok)
	o.abandon()
	ok, _ = o.broker.Connected()
	assert.False(t, ok)
}

func TestABrokerThatHasAnsweredBeforeHangsUpWithoutAHint(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1))
	addr := k.ListenAddrs()[0]
	c := dial(t, nil, addr)
	hint := func(addr string) string { return new(dialer).hint(io.EOF, c.standingOf(addr)) }
	for range manyHangUps - 1 {
		assert.Empty(t, hint(addr), "it is being restarted")
	}
	assert.Equal(t, hintHungUp, hint(addr), "it does not accept us any more")
	c.standingOf(addr).answered()
	assert.Empty(t, hint(addr))
	assert.Equal(t, hintHungUp, hint("other:1"), "the settings may be wrong")
	for _, proven := range []bool{true, false} {
		mine, peer := net.Pipe()
		require.NoError(t, peer.Close())
		n := &conn{addr: addr, raw: mine, nc: mine, broker: sarama.NewBroker(addr), past: new(standing), corr: 2}
		n.past.proven.Store(proven)
		err := n.broke("Metadata", io.EOF)
		if proven {
			assert.NotContains(t, err.Error(), hintHungUp)
		} else {
			assert.ErrorContains(t, err, hintHungUp)
		}
	}
}

// sarama makes room for as much as an answer says that it has, up to 4 GiB: whoever listens on the port must not decide that.
func TestWhoClaimsAnAbsurdAnswerWhileAConnectionIsOpenedCostsNoMemory(t *testing.T) {
	reply := func(size uint32, body int) func(net.Conn) {
		return func(c net.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			first := binary.BigEndian.AppendUint32(nil, 10) // what can be an answer, and is none: sarama asks again
			_, _ = c.Write(append(first, make([]byte, 10)...))
			_, _ = c.Read(make([]byte, 4096))
			_, _ = c.Write(append(binary.BigEndian.AppendUint32(nil, size), make([]byte, body)...))
			c.Close()
		}
	}
	for name, addr := range map[string]string{
		"1 GiB, later":              serve(t, reply(1<<30, 4)),
		"less than nothing":         serve(t, reply(1<<32-1, 4)),
		"less than a question has":  serve(t, reply(3, 4)),
		"nothing":                   serve(t, reply(0, 8)),
		"2 MiB, of which some come": serve(t, reply(2<<20, 100)),
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			_, err := Dial(within(t, 500*time.Millisecond), "test", []string{addr}, nil)
			runtime.ReadMemStats(&after)
			require.ErrorContains(t, err, addr)
			assert.Less(t, after.TotalAlloc-before.TotalAlloc, uint64(16<<20))
		})
	}
}
