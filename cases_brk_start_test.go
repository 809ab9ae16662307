package marshal

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/testutil"
)

// Brokers: those that are not there at the start, that throttle, and that do not let us in any more.

// badNet dials what a test must not dial on a real network: "lost" does not resolve, SYNs to "hole" vanish.
type badNet struct{}

func (badNet) Dial(network, addr string) (net.Conn, error) {
	return badNet{}.DialContext(context.Background(), network, addr)
}

func (badNet) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	switch host, _, _ := strings.Cut(addr, ":"); host {
	case "lost":
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	case "hole":
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return new(net.Dialer).DialContext(ctx, network, addr)
}

// badAddrs are addresses where no broker is, by what is there.
func badAddrs(t *testing.T) map[string]string {
	serve := func(each func(net.Conn)) string {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		var wg sync.WaitGroup
		wg.Go(func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				wg.Go(func() { each(c); c.Close() })
			}
		})
		t.Cleanup(func() { l.Close(); wg.Wait() })
		return l.Addr().String()
	}
	return map[string]string{
		"nobody":              "127.0.0.1:1", // which no test beside this one can be given
		"a name without host": "lost:9092",
		"a black hole":        "hole:9092",
		"silence":             serve(func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }),
		"a web server": serve(func(c net.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			fmt.Fprint(c, "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
		}),
		"one that hangs up": serve(func(net.Conn) {}),
		"nonsense": serve(func(c net.Conn) {
			_, _ = c.Read(make([]byte, 4096))
			fmt.Fprint(c, strings.Repeat("\x00\x00\x01\x00nonsense", 50))
		}),
		"a TLS server's end": serve(func(c net.Conn) { _, _ = c.Read(make([]byte, 5)); _, _ = c.Write([]byte{21, 3, 3, 0, 2, 2, 10}) }),
	}
}

func TestC96AmongAddressesOneThatIsABrokerIsEnoughAndNoneIsAnErrorThatNamesThem(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	config := sarama.NewConfig()
	config.Net.Proxy.Enable, config.Net.Proxy.Dialer = true, badNet{}
	bad := badAddrs(t)
	var all []string
	for name, addr := range bad {
		all = append(all, addr)
		t.Run(name+" and a broker", func(t *testing.T) {
			t.Parallel()
			begin := time.Now()
			m, err := NewMarshaler("a", "group of "+name, append([]string{addr}, b.Addrs()...), WithSaramaConfig(config), WithLogger(testutil.Logger(t)))
			require.NoError(t, err)
			assert.Less(t, time.Since(begin), 5*time.Second)
			m.Terminate()
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		var wg sync.WaitGroup
		for name, addr := range bad {
			wg.Go(func() {
				begin := time.Now()
				_, err := DialContext(within(t, 2500*time.Millisecond), "a", []string{addr}, WithSaramaConfig(config), WithLogger(testutil.Logger(t)))
				took := time.Since(begin)
				t.Logf("%s, after %v: %v", name, took, err)
				assert.ErrorContains(t, err, addr)
				assert.Less(t, took, 5*time.Second)
			})
		}
		wg.Wait()
	})
	t.Run("only bad ones", func(t *testing.T) {
		t.Parallel()
		_, err := DialContext(within(t, 2500*time.Millisecond), "a", all, WithSaramaConfig(config), WithLogger(testutil.Logger(t)))
		for _, addr := range all {
			require.ErrorContains(t, err, addr)
		}
	})
	t.Run("a broker that comes later", func(t *testing.T) {
		t.Parallel()
		free, err := net.Listen("tcp", "127.0.0.1:0") // of its own: the others want nobody to be there
		require.NoError(t, err)
		require.NoError(t, free.Close())
		addr, port := free.Addr().String(), free.Addr().(*net.TCPAddr).Port
		log, seen := logged(t)
		var wg sync.WaitGroup
		wg.Go(func() {
			c, err := DialContext(within(t, patience), "a", []string{addr}, WithLogger(log))
			if assert.NoError(t, err) {
				c.Terminate()
			}
		})
		eventually(t, "whoever reads the log knows what it waits for", func() bool { return seen.has("warning", "no broker of ["+addr+"] reached yet") })
		later := newBenchOn(t, testutil.WithPorts(port))
		defer later.Close()
		wg.Wait()
	})
	t.Run("a broker that tells of an address where nobody is", func(t *testing.T) {
		t.Parallel()
		liar := newBench(t)
		liar.Kfake().ControlKey(int16(kmsg.Metadata), func(req kmsg.Request) (kmsg.Response, error, bool) {
			liar.Kfake().KeepControl()
			resp := req.ResponseKind().(*kmsg.MetadataResponse)
			at := kmsg.NewMetadataResponseBroker()
			at.Host, at.Port = "hole", 9092
			resp.ControllerID = at.NodeID
			resp.Brokers = append(resp.Brokers, at)
			for _, of := range req.(*kmsg.MetadataRequest).Topics {
				topic := kmsg.NewMetadataResponseTopic()
				topic.Topic, topic.ErrorCode = of.Topic, kerr.UnknownTopicOrPartition.Code
				resp.Topics = append(resp.Topics, topic)
			}
			return resp, nil, true
		})
		_, err := DialContext(within(t, 6*time.Second), "a", liar.Addrs(), WithSaramaConfig(config), WithLogger(testutil.Logger(t)))
		require.ErrorIs(t, err, context.DeadlineExceeded)
		assert.ErrorContains(t, err, "hole:9092")
	})
}

// throttled answers the next n requests of a kind that f takes with a throttle time and nothing else; -1: all of them.
func (b *bench) throttled(key kmsg.Key, n int64, millis int32, f func(kmsg.Request) bool) *atomic.Int64 {
	left := new(atomic.Int64)
	left.Store(n)
	b.Kfake().ControlKey(int16(key), func(req kmsg.Request) (kmsg.Response, error, bool) {
		b.Kfake().KeepControl()
		if left.Load() == 0 || !f(req) {
			return nil, nil, false
		}
		left.Add(-1)
		resp := req.ResponseKind()
		resp.(kmsg.SetThrottleResponse).SetThrottle(millis)
		return resp, nil, true
	})
	return left
}

// fetches tells requests for the data of a topic from others.
func (b *bench) fetchesOf(topic string) func(kmsg.Request) bool {
	id := b.Kfake().TopicInfo(topic).TopicID
	return func(req kmsg.Request) bool {
		return slices.ContainsFunc(req.(*kmsg.FetchRequest).Topics, func(t kmsg.FetchRequestTopic) bool { return t.Topic == topic || t.TopicID == id })
	}
}

// A throttled answer is empty and comes at once. It is kept to, and is neither an answer that lacks something nor a broker that is lost. In the
// coordination topic it may come as often as it likes, as long as heartbeats come back within the lease.
func TestC101AThrottledFetchIsKeptToAndIsNoFailure(t *testing.T) {
	t.Parallel()
	const times, millis = 20, 100
	for _, name := range []string{"data", "coordination"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "t")
			log, seen := logged(t)
			m := b.marshaler("a", WithLogger(log), WithLease(10*time.Second, 0))
			c := b.consumer(m, ConsumerOptions{}, "t")
			k := collect(t, c)
			b.fill("t", 4, 0, 10)
			eventually(t, "all messages", func() bool { return k.count() == 40 })
			before, dials, quietly := epochs(m), c.Stats().Dials, seen.count()
			topic := "t"
			if name == "coordination" {
				topic = MarshalTopic
			}
			left := b.throttled(kmsg.Fetch, times, millis, b.fetchesOf(topic))
			begin := time.Now()
			b.fill("t", 4, 10, 10)
			trusted := true
			eventually(t, "the end of it", func() bool {
				trusted = trusted && m.trusted()
				return left.Load() == 0 && k.count() == 80
			})
			assert.True(t, trusted)
			took := time.Since(begin)
			assert.GreaterOrEqual(t, took, times/2*millis*time.Millisecond, "either connection keeps to what it was told")
			assert.Equal(t, before, epochs(m), "nothing was released")
			assert.LessOrEqual(t, c.Stats().Dials-dials, int64(took/time.Second), "no reconnecting")
			assert.Zero(t, c.Stats().Losses)
			assert.Zero(t, seen.times("warning", "fetch")+seen.times("error", ""))
			healthy(t, c)
			if name == "data" {
				assert.Equal(t, 1, seen.times("info", "throttles what is fetched"))
			}
			assert.LessOrEqual(t, seen.count()-quietly, 1+int(took/(millis*time.Millisecond)), "a line for each period at most")
		})
	}
}

// A throttled producer is one whose next request is not read for a while; of old brokers, one that is answered late. The recipe has the answer come at
// once and say "twice the heartbeat interval", which nothing waits for.
func TestC101AThrottledHeartbeatIsInTime(t *testing.T) {
	t.Parallel()
	for _, effect := range []testutil.Effect{testutil.DelayRequests, testutil.DelayAnswers} {
		t.Run(effect.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "t")
			log, seen := logged(t)
			m := b.marshaler("a", WithLogger(log))
			k := collect(t, b.consumer(m, ConsumerOptions{CommitInterval: 50 * time.Millisecond}, "t"))
			eventually(t, "all", func() bool { return holds(m) == 4 })
			before := epochs(m)
			f := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: effect, Delay: testTTL / 4})
			trusted := true
			for i := 0; f.Hits() < 6; i++ {
				b.fill("t", 4, i*5, 5)
				eventually(t, "messages", func() bool { trusted = trusted && m.trusted(); return k.count() >= 20*(i+1) })
			}
			assert.True(t, trusted)
			f.Remove()
			assert.Equal(t, before, epochs(m))
			assert.Zero(t, seen.times("warning", "append")+seen.times("error", ""))
		})
	}
}

// Credentials that worked stop working, the connections end, and later they work again. Each is refused at the start too.
func TestC103CredentialsThatStopWorkingEndTheLeaseAreToldAndHealByThemselves(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]struct {
		open   func(t *testing.T) (b *bench, refuse func(bool))
		reason string
	}{
		"a password that was changed": {openPassword, "authentication failed"},
		"a certificate nobody trusts": {openCertificate(func(t *testing.T, _ *testutil.Authority) tls.Certificate {
			other, err := testutil.NewAuthority()
			require.NoError(t, err)
			return issue(t, other, time.Now().Add(time.Hour))
		}), "certificate"},
		"a certificate that has expired": {openCertificate(func(t *testing.T, a *testutil.Authority) tls.Certificate {
			return issue(t, a, time.Now().Add(-time.Hour))
		}), "certificate"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, refuse := s.open(t)
			require.NoError(t, b.CreateTopic("t", 4, nil))
			log, seen := logged(t)
			m := b.marshaler("a", WithSaramaConfig(b.Config("a")), WithLogger(log))
			c := b.consumer(m, ConsumerOptions{}, "t")
			k := collect(t, c)
			b.fill("t", 4, 0, 10)
			eventually(t, "all messages", func() bool { return k.count() == 40 })

			refuse(true)
			begin := time.Now()
			_, err := DialContext(within(t, 3*time.Second), "new", b.Addrs(), WithSaramaConfig(b.Config("new")), WithLogger(testutil.Logger(t)))
			require.ErrorContains(t, err, s.reason, "at the start it is an error")
			require.ErrorIs(t, err, ErrAuthentication)
			assert.Less(t, time.Since(begin), 5*time.Second)

			b.Faults().Kill("a")
			begin = time.Now()
			lines := seen.count()
			eventually(t, "trust that ends", func() bool { return !m.trusted() })
			eventually(t, "a line that says why", func() bool { return seen.has("warning", s.reason) || seen.has("error", s.reason) })
			assert.ErrorIs(t, m.Healthy(), ErrAuthentication)
			assert.ErrorIs(t, c.Healthy(), ErrSuspended)
			assert.LessOrEqual(t, seen.count()-lines, 10+int(time.Since(begin)/time.Second), "however often it is tried")
			refuse(false)
			b.fill("t", 4, 10, 10)
			eventually(t, "it goes on by itself", func() bool { return k.count() >= 80 })
			healthy(t, m)
		})
	}
}

func openPassword(t *testing.T) (*bench, func(bool)) {
	b := newBenchOn(t, testutil.WithUser(sarama.SASLTypePlaintext, "user", "right"))
	var refuses atomic.Bool
	b.Kfake().ControlKey(int16(kmsg.SASLAuthenticate), func(kr kmsg.Request) (kmsg.Response, error, bool) {
		b.Kfake().KeepControl()
		if !refuses.Load() {
			return nil, nil, false
		}
		resp := kr.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode, resp.ErrorMessage = kerr.SaslAuthenticationFailed.Code, kmsg.StringPtr("changed")
		return resp, nil, true
	})
	return b, refuses.Store
}

// openCertificate is a broker that shows another certificate while it refuses.
func openCertificate(bad func(*testing.T, *testutil.Authority) tls.Certificate) func(t *testing.T) (*bench, func(bool)) {
	return func(t *testing.T) (*bench, func(bool)) {
		var now atomic.Pointer[tls.Certificate]
		var good, wrong tls.Certificate
		b := newBenchOn(t, testutil.WithTLS(func(server *tls.Config, a *testutil.Authority) {
			good, wrong = server.Certificates[0], bad(t, a)
			now.Store(&good)
			server.Certificates = nil
			server.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return now.Load(), nil }
		}))
		return b, func(refuse bool) {
			if refuse {
				now.Store(&wrong)
			} else {
				now.Store(&good)
			}
		}
	}
}

func issue(t *testing.T, a *testutil.Authority, end time.Time) tls.Certificate {
	c, err := a.Issue("broker", end)
	require.NoError(t, err)
	return c
}
