package secure

import (
	"context"
	"crypto/tls"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/testutil"
)

// refusals: who is not accepted hears so at once, and why; who cannot be told hears within the limit of the call what to check.
func refusals(t *testing.T, open func(*testing.T, Kind) *Brokers) {
	wrong := func(mechanism sarama.SASLMechanism) login {
		return login{mechanism: mechanism, user: Worker, password: func() string { return "wrong" }}
	}
	for _, c := range []struct {
		name  string
		kind  Kind
		who   login
		spoil func(*lab, *sarama.Config)
		typed bool     // ErrAuthentication, at once
		says  []string // one of them
	}{
		{name: "wrong password of PLAIN", kind: SASL, who: wrong(sarama.SASLTypePlaintext), typed: true, says: []string{"authentication failed"}},
		{name: "wrong password of SCRAM-SHA-256", kind: SASL, who: wrong(sarama.SASLTypeSCRAMSHA256), typed: true, says: []string{"authentication failed", "credentials"}},
		{name: "wrong password of SCRAM-SHA-512", kind: SASLTLS, who: wrong(sarama.SASLTypeSCRAMSHA512), typed: true, says: []string{"authentication failed", "credentials"}},
		{name: "a user whom nobody knows", kind: SASL, who: as(sarama.SASLTypeSCRAMSHA256, "stranger"), typed: true, says: []string{"authentication failed", "credentials"}},
		{name: "no credentials", kind: SASL, says: []string{"SASL"}},
		{name: "a mechanism that is not there", kind: SASL, who: as(sarama.SASLTypeOAuth, Worker), typed: true, says: []string{"mechanism"}, spoil: func(_ *lab, c *sarama.Config) {
			c.Net.SASL.TokenProvider = noToken{}
		}},
		{name: "an authority that is not trusted", kind: TLS, typed: true, says: []string{"certificate"}, spoil: func(l *lab, c *sarama.Config) {
			other, err := testutil.NewAuthority()
			require.NoError(l.t, err)
			c.Net.TLS.Config.RootCAs = other.Pool()
		}},
		{name: "an expired certificate", kind: TLS, typed: true, says: []string{"expired"}, spoil: func(_ *lab, c *sarama.Config) {
			c.Net.TLS.Config.Time = func() time.Time { return time.Now().AddDate(0, 0, 30) } // Apache Kafka takes up none that has expired
		}},
		{name: "no client certificate", kind: MutualTLS, typed: true, says: []string{"client certificate"}, spoil: func(_ *lab, c *sarama.Config) {
			c.Net.TLS.Config.Certificates = nil
		}},
		{name: "a client certificate of a stranger", kind: MutualTLS, typed: true, says: []string{"client certificate"}, spoil: func(l *lab, c *sarama.Config) {
			other, err := testutil.NewAuthority()
			require.NoError(l.t, err)
			strange, err := other.Issue(Worker, time.Now().Add(time.Hour))
			require.NoError(l.t, err)
			c.Net.TLS.Config.Certificates = []tls.Certificate{strange}
			c.Net.TLS.Config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &strange, nil }
		}},
		{name: "plain where TLS is spoken", kind: TLS, says: []string{"TLS"}, spoil: func(_ *lab, c *sarama.Config) {
			c.Net.TLS.Enable = false
		}},
		{name: "TLS where none is spoken", kind: Plain, says: []string{"TLS"}, spoil: func(_ *lab, c *sarama.Config) {
			c.Net.TLS.Enable = true
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLab(t, open, c.kind)
			cfg, _ := l.config(c.who)
			if c.spoil != nil {
				c.spoil(l, cfg)
			}
			scrams := c.who.mechanism == sarama.SASLTypeSCRAMSHA256 || c.who.mechanism == sarama.SASLTypeSCRAMSHA512
			typed := c.typed && !(l.Silent && scrams)
			most := 2500 * time.Millisecond // to wait until it is over
			if typed {
				most = 10 * time.Second
			}
			ctx, cancel := context.WithTimeout(context.Background(), most)
			defer cancel()
			begin := time.Now()
			_, err := marshal.DialContext(ctx, "refused", l.Addrs, marshal.WithSaramaConfig(cfg), marshal.WithLogger(testutil.Logger(t)))
			took := time.Since(begin)
			require.Error(t, err)
			t.Logf("after %v: %v", took.Round(time.Millisecond), err)
			assert.Less(t, took, most+time.Second, "in bounded time")
			said := false
			for _, s := range c.says {
				said = said || contains(err, s)
			}
			assert.True(t, said, "says what to check: %v", c.says)
			if typed {
				assert.ErrorIs(t, err, marshal.ErrAuthentication)
				assert.NoError(t, ctx.Err(), "at once, not when the time was over")
			}
		})
	}
}

type noToken struct{}

// Token is what a provider of tokens gives.
func (noToken) Token() (*sarama.AccessToken, error) { return &sarama.AccessToken{Token: "t"}, nil }

// serve has the brokers show a certificate of a, that ends in d.
func (l *lab) serve(a *testutil.Authority, d time.Duration) {
	l.t.Helper()
	c, err := a.Issue("broker", time.Now().Add(d))
	require.NoError(l.t, err)
	l.Serve(c)
}
