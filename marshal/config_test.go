package main

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
)

// file writes a properties file.
func file(t *testing.T, lines ...string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "client.properties")
	require.NoError(t, os.WriteFile(name, []byte(strings.Join(lines, "\n")), 0o600))
	return name
}

// TestTheConfigFileSecuresEveryConnection runs a command that writes and one that reads against brokers that demand TLS and a password.
func TestTheConfigFileSecuresEveryConnection(t *testing.T) {
	for _, mechanism := range []string{sarama.SASLTypePlaintext, sarama.SASLTypeSCRAMSHA256, sarama.SASLTypeSCRAMSHA512} {
		t.Run(mechanism, func(t *testing.T) {
			f := &fleet{t, testutil.NewCluster(t, testutil.WithTLS(), testutil.WithUser(mechanism, "user", `pass"word`), testutil.WithTopic("orders", 2), testutil.WithTopic("__marshal", 32))}
			ca := t.TempDir()
			require.NoError(t, f.Authority().Save(ca))
			pem := filepath.Join(ca, "ca.pem")
			config := func(password string) string {
				return file(t, "# a comment", "security.protocol=SASL_SSL", "sasl.mechanism = "+mechanism, "ssl.ca.location="+pem, `sasl.jaas.config=org.apache.kafka.common.security.Module required \`,
					`   username="user" password="`+password+`";`, "request.timeout.ms=1000", "bootstrap.servers="+strings.Join(f.Addrs(), ", "))
			}
			code, out, errs := f.with("state", "-config", config(`pass\"word`))
			assert.Zero(t, code, errs)
			assert.Contains(t, out, "no group has ever been in __marshal")
			code, out, errs = f.with("seek", "-config", config(`pass\"word`), "-group", "g", "-topic", "orders", "-latest", "-force")
			assert.Zero(t, code, errs)
			assert.Contains(t, out, "orders  1          unknown  0")
			code, _, errs = f.with("verify", "-config", config("wrong"), "-timeout", "2s")
			assert.Equal(t, 3, code)
			assert.Contains(t, strings.ToLower(errs), "sasl", "the reason")
			assert.Contains(t, errs, "no broker could be used: "+f.Addrs()[0], "it was reached")
			assert.NotRegexp(t, "reached|answered|cannot reach", errs)
		})
	}
}

// with runs the command without naming brokers.
func (f *fleet) with(args ...string) (code int, stdout, stderr string) {
	f.t.Setenv("MARSHAL_BROKERS", "")
	return runs(args...)
}

func TestMutualTLSByAFile(t *testing.T) {
	f := &fleet{t, testutil.NewCluster(t, testutil.WithTopic("__marshal", 32), testutil.WithTLS(func(server *tls.Config, a *testutil.Authority) {
		server.ClientAuth, server.ClientCAs = tls.RequireAndVerifyClientCert, a.Pool()
	}))}
	dir := t.TempDir()
	require.NoError(t, f.Authority().Save(dir))
	own, err := f.Authority().Issue("operator", time.Now().Add(time.Hour))
	require.NoError(t, err)
	cert := filepath.Join(t.TempDir(), "operator.pem")
	require.NoError(t, testutil.SaveCertificate(cert, own))
	brokers := strings.Join(f.Addrs(), ",")
	trust := "ssl.truststore.location=" + filepath.Join(dir, "ca.pem")
	code, _, errs := f.with("state", "-brokers", brokers, "-config", file(t, "security.protocol=ssl", "ssl.truststore.type=PEM", trust, "ssl.keystore.type=PEM", "ssl.keystore.location="+cert))
	assert.Zero(t, code, errs)
	code, _, errs = f.with("state", "-brokers", brokers, "-timeout", "2s", "-config", file(t, "security.protocol=SSL", "ssl.truststore.type=PEM", trust))
	assert.Equal(t, 3, code)
	assert.NotEmpty(t, errs)
}

func TestPropertiesThatCannotBeHeededAreRefused(t *testing.T) {
	empty := file(t)
	for _, c := range []struct{ lines, says string }{
		{"nonsense", "line 1: no = in it"},
		{"security.protocol=HTTPS", "security.protocol=HTTPS: use PLAINTEXT"},
		{"security.protocol=SASL_PLAINTEXT", "use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512"},
		{"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=GSSAPI", "sasl.mechanism=GSSAPI: use PLAIN"},
		{"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN", "no user"},
		{"security.protocol=SSL\nssl.truststore.location=/x.jks", "ssl.truststore.type=JKS: only PEM can be read"},
		{"security.protocol=SSL\nssl.ca.location=/does/not/exist", "certificate authority: open /does/not/exist"},
		{"security.protocol=SSL\nssl.ca.location=" + empty, "there is no certificate in"},
		{"security.protocol=SSL\nssl.certificate.location=" + empty, "certificate of this client"},
		{"sasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=p", "sasl.username is set and security.protocol is not, so it would go unheeded and the connection in plain text: set security.protocol=SASL_SSL or SASL_PLAINTEXT"},
		{"ssl.ca.location=" + empty, "ssl.ca.location is set and security.protocol is not, so it would go unheeded and the connection in plain text: set security.protocol=SSL or SASL_SSL"},
		{"bootstrap.servers=x:1\nssl.endpoint.identification.algorithm=", "security.protocol is not"},
		{"ssl.cipher.suites=x", "ssl.cipher.suites is not supported"},
		{"sasl.oauthbearer.token.endpoint.url=x", "sasl.oauthbearer.token.endpoint.url is not supported"},
	} {
		code, _, errs := runs("state", "-brokers", "127.0.0.1:1", "-config", file(t, c.lines))
		assert.Equal(t, 2, code, c.lines)
		assert.Contains(t, errs, c.says, c.lines)
	}
}

func TestWhatTheFileSays(t *testing.T) {
	p, err := readProperties(strings.NewReader("a=1\n\n! no\nb = x=y \nclient.rack=r1\nsecurity.protocol=SASL_SSL\nsasl.mechanism=PLAIN\nsasl.username=u\nsasl.password=p\nssl.endpoint.identification.algorithm="))
	require.NoError(t, err)
	assert.Equal(t, "x=y", p["b"])
	c, err := p.config()
	require.NoError(t, err)
	assert.Equal(t, "r1", c.RackID)
	assert.True(t, c.Net.TLS.Enable && c.Net.SASL.Enable)
	assert.Equal(t, "u", c.Net.SASL.User)
	assert.Equal(t, "p", c.Net.SASL.Password)
	assert.NotNil(t, c.Net.TLS.Config.VerifyConnection, "the name is not looked at, who signed it is")
}
