package kafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"math/big"
	"net"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/scram"
)

// certificate signs itself for 127.0.0.1.
func certificate(t testing.TB) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "test"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	require.NoError(t, err)
	parsed, err := x509.ParseCertificate(der)
	require.NoError(t, err)
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func scramConfig(password string) *sarama.Config {
	c := sarama.NewConfig()
	c.Net.SASL.Enable, c.Net.SASL.Mechanism = true, sarama.SASLTypeSCRAMSHA256
	c.Net.SASL.User, c.Net.SASL.Password = "u", password
	c.Net.SASL.SCRAMClientGeneratorFunc = scram.Generator(sarama.SASLTypeSCRAMSHA256, nil)
	return c
}

// everything uses each kind of connection once.
func everything(t testing.TB, c *Client) {
	t.Helper()
	ctx := within(t, 5*time.Second)
	ts, err := c.Topics(ctx, "t")
	require.NoError(t, err)
	require.NoError(t, ts["t"].Err)
	p := c.NewProducer("t", 0)
	_, err = p.Append(ctx, []Message{{nil, []byte("v")}})
	require.NoError(t, err)
	require.NoError(t, p.Close())
	require.NoError(t, c.CommitOffsets(ctx, "g", []Committed{{Topic: "t", Offset: 1}}))
	l, ok := c.Leader("t", 0)
	require.True(t, ok)
	f, err := c.OpenFetch(ctx, l.Leader, fetchSettings)
	require.NoError(t, err)
	require.NoError(t, f.Send([]FetchPart{{Topic: "t", TopicID: ts["t"].ID, LeaderEpoch: l.LeaderEpoch, LastEpoch: -1, MaxBytes: 1 << 20}}, -1))
	a, err := f.Receive()
	require.NoError(t, err)
	require.NoError(t, a.Parts[0].Err)
	require.NotEmpty(t, a.Parts[0].Records)
	require.NoError(t, f.Close())
}

func TestTLSAndSCRAMServeAllKindsOfConnections(t *testing.T) {
	cert, pool := certificate(t)
	k := newCluster(t, kfake.NumBrokers(2), kfake.SeedTopics(1, "t"), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}),
		kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "u", "pw"))
	cfg := scramConfig("pw")
	cfg.Net.TLS.Enable, cfg.Net.TLS.Config = true, &tls.Config{RootCAs: pool}
	everything(t, dial(t, cfg, k.ListenAddrs()...))
}

func TestTLSGoesInsideTheUsersProxy(t *testing.T) {
	cert, pool := certificate(t)
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}))
	cfg := sarama.NewConfig()
	cfg.Net.TLS.Enable, cfg.Net.TLS.Config = true, &tls.Config{RootCAs: pool}
	var through atomic.Int32
	cfg.Net.Proxy.Enable, cfg.Net.Proxy.Dialer = true, dialFunc(func(network, addr string) (net.Conn, error) {
		through.Add(1)
		return net.Dial(network, addr)
	})
	everything(t, dial(t, cfg, k.ListenAddrs()...))
	assert.GreaterOrEqual(t, through.Load(), int32(3), "questions, produce, fetch")
}

func TestPlainSASL(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "pw"))
	cfg := sarama.NewConfig()
	cfg.Net.SASL.Enable, cfg.Net.SASL.User, cfg.Net.SASL.Password = true, "u", "pw"
	everything(t, dial(t, cfg, k.ListenAddrs()...))
}

// refuseSASL answers as a real broker does: kfake only hangs up.
func refuseSASL(k *kfake.Cluster) {
	k.ControlKey(int16(kmsg.SASLAuthenticate), func(req kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		resp := req.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode, resp.ErrorMessage = 58, kmsg.StringPtr("Authentication failed: wrong password")
		return resp, nil, true
	})
}

func TestRefusedCredentialsEndDialAtOnce(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "pw"))
	refuseSASL(k)
	cfg := sarama.NewConfig()
	cfg.Net.SASL.Enable, cfg.Net.SASL.User, cfg.Net.SASL.Password = true, "u", "wrong"
	begin := time.Now()
	_, err := Dial(within(t, 5*time.Second), "test", append(k.ListenAddrs(), deadAddr(t)), cfg)
	require.ErrorIs(t, err, ErrAuthentication)
	assert.Less(t, time.Since(begin), time.Second)
	assert.False(t, Retriable(err))
	assert.ErrorContains(t, err, "wrong password")
	assert.ErrorContains(t, err, k.ListenAddrs()[0])
}

func TestWithoutTheCredentialsThatABrokerWantsTheErrorSaysWhatToCheck(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "pw"))
	_, err := Dial(within(t, 3*time.Second), "test", k.ListenAddrs(), nil)
	assert.ErrorContains(t, err, "SASL")
	t.Log(err)
}

func TestUntrustedCertificateIsAnAuthenticationError(t *testing.T) {
	cert, _ := certificate(t)
	_, other := certificate(t)
	k := newCluster(t, kfake.NumBrokers(1), kfake.TLS(&tls.Config{Certificates: []tls.Certificate{cert}}))
	cfg := sarama.NewConfig()
	cfg.Net.TLS.Enable, cfg.Net.TLS.Config = true, &tls.Config{RootCAs: other}
	_, err := Dial(within(t, 5*time.Second), "test", k.ListenAddrs(), cfg)
	require.ErrorIs(t, err, ErrAuthentication)
	_, ok := errors.AsType[*tls.CertificateVerificationError](err)
	assert.True(t, ok)
	_, err = Dial(within(t, 3*time.Second), "test", k.ListenAddrs(), nil)
	require.Error(t, err)
	t.Log("without TLS:", err)
}

// TestSASLSessionsAreRenewedOnEachKindOfConnection holds KIP-368: the broker tells how long a session lives; sarama, which
// keeps the session, authenticates again in time over the connection on which our frames go.
func TestSASLSessionsAreRenewedOnEachKindOfConnection(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "u", "pw"),
		kfake.BrokerConfigs(map[string]string{"connections.max.reauth.ms": "400"}))
	w := map[kmsg.Key]*atomic.Int32{kmsg.SASLHandshake: {}}
	k.ControlKey(int16(kmsg.SASLHandshake), func(kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		w[kmsg.SASLHandshake].Add(1)
		return nil, nil, false
	})
	c := dial(t, scramConfig("pw"), k.ListenAddrs()...)
	c.recheck = 10 * time.Millisecond
	ts, err := c.Topics(t.Context(), "t")
	require.NoError(t, err)
	f, err := c.OpenFetch(t.Context(), 0, fetchSettings)
	require.NoError(t, err)
	p := c.NewProducer("t", 0)
	_, err = p.Append(t.Context(), []Message{{nil, []byte("v")}})
	require.NoError(t, err)
	first := w[kmsg.SASLHandshake].Load()
	require.EqualValues(t, 3, first, "three connections")
	for begin := time.Now(); time.Since(begin) < 600*time.Millisecond; {
		require.NoError(t, f.Send([]FetchPart{{Topic: "t", TopicID: ts["t"].ID, Offset: 1 << 40, LeaderEpoch: -1, LastEpoch: -1, MaxBytes: 1}}, 0))
		_, err := f.Receive()
		require.NoError(t, err)
		_, err = p.Append(t.Context(), []Message{{nil, []byte("v")}})
		require.NoError(t, err)
		<-time.After(20 * time.Millisecond)
	}
	assert.EqualValues(t, first+2, w[kmsg.SASLHandshake].Load(), "the two in use were renewed once")
	require.NoError(t, f.Close())
	require.NoError(t, p.Close())
}

func TestARevokedSessionEndsTheConnection(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"), kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", "u", "pw"),
		kfake.BrokerConfigs(map[string]string{"connections.max.reauth.ms": "100"}))
	c := dial(t, scramConfig("pw"), k.ListenAddrs()...)
	c.recheck = 10 * time.Millisecond
	p := c.NewProducer("t", 0)
	_, err := p.Append(t.Context(), []Message{{nil, []byte("v")}})
	require.NoError(t, err)
	refuseSASL(k)
	assert.Eventually(t, func() bool {
		_, err = p.Append(t.Context(), []Message{{nil, []byte("v")}})
		return errors.Is(err, ErrAuthentication)
	}, 2*time.Second, 20*time.Millisecond)
	t.Log(err)
	assert.True(t, Refused(err))
	assert.False(t, Retriable(err))
}
