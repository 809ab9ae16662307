//go:build integration

package integration

import (
	"bytes"
	"crypto/tls"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
	"github.com/kafka-marshal/marshal/testutil/secure"
)

// TestSecurity runs on a real broker what the tests of the library run on the embedded one. kafka.sh gives it the listeners.
func TestSecurity(t *testing.T) {
	on(t, oneBroker)
	secured(t)
	secure.Run(t, openSecure)
}

// TestSessionsAreRenewed takes longer than a session does.
func TestSessionsAreRenewed(t *testing.T) {
	on(t, oneBroker)
	apart(t)
	secured(t)
	secure.Renewals(t, openSecure)
}

// secured skips a test where the broker has no listeners for it.
func secured(t *testing.T) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(os.Getenv("KAFKA_LAB"), "tls")); err != nil {
		t.Skip("the broker was started without KAFKA_SECURITY=1")
	}
}

func openSecure(t *testing.T, kind secure.Kind) *secure.Brokers {
	dir := filepath.Join(os.Getenv("KAFKA_LAB"), "tls")
	a, err := testutil.LoadAuthority(dir)
	require.NoError(t, err)
	b := &secure.Brokers{
		Addrs:      strings.Split(strings.TrimSpace(kafkaScript(t, "addrs", string(kind))), ","),
		AdminAddrs: real(), Admin: sarama.NewConfig(), Authority: a, Session: 3 * time.Second, Renewable: 30 * time.Second, TTL: 3 * time.Second, Tokens: true,
	}
	b.Admin.Version = sarama.V3_6_0_0
	serve := func(c tls.Certificate) { serveCertificate(t, b, dir, kind, c) }
	b.Serve = func(c tls.Certificate) {
		t.Cleanup(func() { // for the tests that follow
			usual, err := a.Issue("broker", time.Now().Add(time.Hour))
			require.NoError(t, err)
			serve(usual)
		})
		serve(c)
	}
	return b
}

// serveCertificate has one listener take another certificate while it runs.
func serveCertificate(t *testing.T, b *secure.Brokers, dir string, kind secure.Kind, c tls.Certificate) {
	t.Helper()
	f, err := os.CreateTemp(dir, string(kind)+"-*.pem")
	require.NoError(t, err)
	require.NoError(t, f.Close())
	require.NoError(t, testutil.SaveCertificate(f.Name(), c))
	admin, err := sarama.NewClusterAdmin(b.AdminAddrs, b.Admin)
	require.NoError(t, err)
	defer admin.Close()
	name := f.Name()
	require.NoError(t, admin.IncrementalAlterConfig(sarama.BrokerResource, "1", map[string]sarama.IncrementalAlterConfigsEntry{
		"listener.name." + string(kind) + ".ssl.keystore.location": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &name},
	}, false))
	require.Eventually(t, func() bool { // the broker takes it up a little later
		conn, err := tls.Dial("tcp", b.Addrs[0], &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			return false
		}
		defer conn.Close()
		return bytes.Equal(conn.ConnectionState().PeerCertificates[0].Raw, c.Certificate[0])
	}, patience, 50*time.Millisecond, "the broker shows the certificate")
}
