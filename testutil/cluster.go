package testutil

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kfake"
)

// ErrClosed is what a Cluster says after Close.
var ErrClosed = errors.New("testutil: the cluster is closed")

// Cluster is an embedded Kafka cluster. Safe for concurrent use.
type Cluster struct {
	k         *kfake.Cluster
	faults    *Faults
	set       settings
	tls       *tls.Config // of a client; nil: plain
	authority *Authority
	own       user // with which the helpers of this package log in
	closed    atomic.Bool
	mend      mender

	mu    sync.Mutex
	addrs []string           // by node; a stopped broker keeps its own
	idle  map[string][]*wire // connections of the helpers, by address
}

// NewCluster starts a cluster that is closed when the test ends. It fails the test where it cannot.
func NewCluster(t testing.TB, opts ...Option) *Cluster {
	t.Helper()
	c, err := Start(opts...)
	if err != nil {
		t.Fatalf("start the embedded cluster: %v", err)
	}
	t.Cleanup(c.Close)
	return c
}

// Start starts a cluster outside of a test. The caller closes it.
func Start(opts ...Option) (*Cluster, error) {
	c := &Cluster{set: settings{brokers: 1}, idle: make(map[string][]*wire)}
	for _, o := range opts {
		o(&c.set)
	}
	base, ports := net.Listen, c.set.ports
	if c.set.virtual != nil {
		base = c.set.virtual.Listen
		for i := len(ports); i < c.set.brokers; i++ {
			ports = append(ports, 9092+i)
		}
	}
	if len(ports) > 0 && len(ports) != c.set.brokers {
		return nil, fmt.Errorf("%d ports for %d brokers", len(ports), c.set.brokers)
	}
	var server *tls.Config
	if c.set.tls {
		var err error
		if server, err = c.secure(); err != nil {
			return nil, err
		}
	}
	c.faults = newFaults(base, server)

	ko := []kfake.Opt{kfake.NumBrokers(c.set.brokers), kfake.ListenFn(c.faults.listen)}
	if len(ports) > 0 {
		ko = append(ko, kfake.Ports(ports...))
	}
	if c.set.dataDir != "" {
		ko = append(ko, kfake.DataDir(c.set.dataDir))
	}
	if len(c.set.users) > 0 {
		c.own = user{sarama.SASLTypePlaintext, harness, rand.Text()}
		ko = append(ko, kfake.EnableSASL())
		for _, u := range append(c.set.users, c.own) {
			ko = append(ko, kfake.Superuser(u.mechanism, u.name, u.password))
		}
	}
	for _, s := range c.set.topics {
		ko = append(ko, kfake.SeedTopics(s.partitions, s.name))
	}
	k, err := kfake.NewCluster(append(ko, c.set.kfake...)...)
	if err != nil {
		return nil, fmt.Errorf("start kfake: %w", err)
	}
	c.k = k
	c.addrs = k.ListenAddrs()
	c.mend.install(k)
	return c, nil
}

// secure makes the TLS settings of both sides.
func (c *Cluster) secure() (server *tls.Config, err error) {
	if c.authority, err = NewAuthority(); err != nil {
		return nil, err
	}
	end := time.Now().Add(day / 2)
	broker, err := c.authority.Issue("broker", end)
	if err != nil {
		return nil, err
	}
	client, err := c.authority.Issue("client", end)
	if err != nil {
		return nil, err
	}
	c.tls = &tls.Config{RootCAs: c.authority.Pool(), ServerName: "localhost", Certificates: []tls.Certificate{client}}
	server = &tls.Config{Certificates: []tls.Certificate{broker}, ClientCAs: c.authority.Pool()}
	for _, change := range c.set.changeTLS {
		change(server, c.authority)
	}
	return server, nil
}

// Close ends the cluster and every connection to it. Once is enough; more do nothing.
func (c *Cluster) Close() {
	if c.closed.Swap(true) {
		return
	}
	c.mu.Lock()
	for _, ws := range c.idle {
		for _, w := range ws {
			w.conn.Close()
		}
	}
	clear(c.idle)
	c.mu.Unlock()
	c.k.Close()
	c.faults.closeAll()
}

// Addrs lists the brokers as host:port, by node.
func (c *Cluster) Addrs() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]string(nil), c.addrs...)
}

// Faults is where network faults are put in.
func (c *Cluster) Faults() *Faults { return c.faults }

// Kfake is the broker itself: leader moves, its own faults and controls, group details. Its methods block for ever
// once the cluster is closed.
func (c *Cluster) Kfake() *kfake.Cluster { return c.k }

// ClientTLS is what a client needs to trust the brokers; nil where they do not speak TLS.
func (c *Cluster) ClientTLS() *tls.Config {
	if c.tls == nil {
		return nil
	}
	return c.tls.Clone()
}

// Authority signs the brokers' certificates; nil where they do not speak TLS.
func (c *Cluster) Authority() *Authority { return c.authority }

// DialContext connects to a broker over whatever network the cluster is on, below TLS.
func (c *Cluster) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if c.set.virtual != nil {
		return c.set.virtual.DialContext(ctx, network, addr)
	}
	var d net.Dialer
	return d.DialContext(ctx, network, addr)
}

// dialer lets sarama dial on the network in memory.
type dialer struct{ c *Cluster }

func (d dialer) Dial(network, addr string) (net.Conn, error) {
	return d.c.DialContext(context.Background(), network, addr)
}

// Config is a sarama configuration that reaches this cluster: TLS, SASL PLAIN (the first such user) and the network in
// memory are filled in. For SCRAM the caller adds the mechanism.
func (c *Cluster) Config(clientID string) *sarama.Config {
	cfg := sarama.NewConfig()
	cfg.ClientID = clientID
	if c.tls != nil {
		cfg.Net.TLS.Enable, cfg.Net.TLS.Config = true, c.ClientTLS()
	}
	for _, u := range c.set.users {
		if u.mechanism == sarama.SASLTypePlaintext {
			cfg.Net.SASL.Enable, cfg.Net.SASL.User, cfg.Net.SASL.Password = true, u.name, u.password
			break
		}
	}
	if c.set.virtual != nil {
		cfg.Net.Proxy.Enable, cfg.Net.Proxy.Dialer = true, dialer{c}
	}
	return cfg
}

// StopBroker takes a broker away: its port refuses, its connections end, its partitions move to the others. The last
// one cannot be stopped; Cut everybody instead.
func (c *Cluster) StopBroker(node int32) error {
	if c.closed.Load() {
		return ErrClosed
	}
	if err := c.k.RemoveNode(node); err != nil {
		return fmt.Errorf("stop broker %d: %w", node, err)
	}
	c.faults.closeNode(node)
	return nil
}

// StartBroker brings a stopped broker back on its old port.
func (c *Cluster) StartBroker(node int32) error {
	if c.closed.Load() {
		return ErrClosed
	}
	addrs := c.Addrs()
	if int(node) >= len(addrs) {
		return fmt.Errorf("start broker %d: there never was one", node)
	}
	_, p, err := net.SplitHostPort(addrs[node])
	if err != nil {
		return fmt.Errorf("start broker %d: %w", node, err)
	}
	port, err := strconv.Atoi(p)
	if err != nil {
		return fmt.Errorf("start broker %d: %w", node, err)
	}
	c.faults.expect(node)
	if _, _, err = c.k.AddNode(node, port); err != nil {
		return fmt.Errorf("start broker %d: %w", node, err)
	}
	return nil
}
