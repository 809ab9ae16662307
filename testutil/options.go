package testutil

import (
	"crypto/tls"

	"github.com/twmb/franz-go/pkg/kfake"
)

// settings is what the options decide.
type settings struct {
	brokers   int
	dataDir   string
	ports     []int
	tls       bool
	changeTLS []func(*tls.Config, *Authority)
	users     []user
	virtual   *kfake.VirtualNetwork
	topics    []seed
	kfake     []kfake.Opt
}

type user struct{ mechanism, name, password string }

type seed struct {
	name       string
	partitions int32
}

// Option changes how a Cluster starts.
type Option func(*settings)

// WithBrokers sets how many brokers there are. Defaults to 1.
func WithBrokers(n int) Option { return func(s *settings) { s.brokers = n } }

// WithTopic makes a topic at the start, unless the data directory brings it. It is made without settings of its own.
func WithTopic(name string, partitions int32) Option {
	return func(s *settings) { s.topics = append(s.topics, seed{name, partitions}) }
}

// WithDataDir keeps records, topics and commits in dir, from which a later cluster takes them up. One cluster at a
// time: nothing locks the directory. Defaults to memory.
func WithDataDir(dir string) Option { return func(s *settings) { s.dataDir = dir } }

// WithPorts fixes the brokers' ports, one for each broker. Defaults to free ones.
func WithPorts(ports ...int) Option { return func(s *settings) { s.ports = ports } }

// WithTLS makes the brokers speak TLS with a certificate made for the occasion; Config and ClientTLS trust it, and have a
// client's certificate of the same Authority. change may say more for the brokers' side: another certificate, also one that
// is replaced while it runs, or that clients must have one.
func WithTLS(change ...func(server *tls.Config, a *Authority)) Option {
	return func(s *settings) { s.tls, s.changeTLS = true, change }
}

// WithUser demands SASL and lets this user in. mechanism is PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.
func WithUser(mechanism, name, password string) Option {
	return func(s *settings) { s.users = append(s.users, user{mechanism, name, password}) }
}

// WithNetwork puts the cluster on a network in memory, on which the fake clock of testing/synctest can move. Ports
// default to 9092 and those after it; clients dial with Cluster.DialContext.
func WithNetwork(v *kfake.VirtualNetwork) Option { return func(s *settings) { s.virtual = v } }

// WithKfake hands options to kfake itself (ACLs, broker settings, API versions). Do not replace its listener or TLS:
// the faults live there.
func WithKfake(opts ...kfake.Opt) Option {
	return func(s *settings) { s.kfake = append(s.kfake, opts...) }
}
