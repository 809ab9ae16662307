package secure

import (
	"bytes"
	"crypto/tls"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/testutil"
)

var mechanisms = []sarama.SASLMechanism{sarama.SASLTypePlaintext, sarama.SASLTypeSCRAMSHA256, sarama.SASLTypeSCRAMSHA512}

// Embedded opens an embedded broker of a kind, for a test that runs beside others from then on.
func Embedded(t *testing.T, kind Kind) *Brokers {
	t.Helper()
	t.Parallel()
	b := &Brokers{Silent: true, Session: 2 * time.Second, TTL: 1500 * time.Millisecond}
	var options []testutil.Option
	if kind.tls() {
		var now atomic.Pointer[tls.Certificate]
		b.Serve = func(c tls.Certificate) { now.Store(&c) }
		options = append(options, testutil.WithTLS(func(server *tls.Config, _ *testutil.Authority) {
			now.Store(&server.Certificates[0])
			server.Certificates = nil
			server.GetCertificate = func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return now.Load(), nil }
			if kind == MutualTLS {
				server.ClientAuth = tls.RequireAndVerifyClientCert
			}
		}))
	}
	if kind.sasl() {
		for _, m := range mechanisms {
			options = append(options, testutil.WithUser(string(m), Worker, Secret(Worker)),
				testutil.WithKfake(kfake.User(string(m), Limited, Secret(Limited))))
		}
		options = append(options, testutil.WithKfake(kfake.EnableACLs(),
			kfake.BrokerConfigs(map[string]string{"connections.max.reauth.ms": "2000"})))
	}
	c := testutil.NewCluster(t, options...)
	if kind.sasl() {
		sayWhy(c.Kfake())
	}
	b.Addrs, b.AdminAddrs, b.Authority = c.Addrs(), c.Addrs(), c.Authority()
	b.Admin = c.Config("admin")
	require.NotNil(t, b.Admin)
	return b
}

// sayWhy has kfake answer wrong passwords of PLAIN as Apache Kafka does. By itself it hangs up, as it still does with SCRAM.
func sayWhy(k *kfake.Cluster) {
	known := map[string]string{Worker: Secret(Worker), Limited: Secret(Limited)}
	k.ControlKey(int16(kmsg.SASLAuthenticate), func(kr kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		parts := bytes.Split(kr.(*kmsg.SASLAuthenticateRequest).SASLAuthBytes, []byte{0})
		if len(parts) != 3 {
			return nil, nil, false
		}
		if want, ours := known[string(parts[1])]; !ours || want == string(parts[2]) {
			return nil, nil, false
		}
		resp := kr.ResponseKind().(*kmsg.SASLAuthenticateResponse)
		resp.ErrorCode, resp.ErrorMessage = 58, kmsg.StringPtr("Authentication failed: Invalid username or password")
		return resp, nil, true
	})
}
