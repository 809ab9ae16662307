package secure

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/internal/scram"
	"github.com/kafka-marshal/marshal/testutil"
	"github.com/kafka-marshal/marshal/testutil/replay"
)

// Kind is what a listener demands.
type Kind string

// The kinds of listeners.
const (
	Plain     Kind = "plain"   // nothing
	TLS       Kind = "tls"     // TLS
	MutualTLS Kind = "mtls"    // a certificate of the client too
	SASL      Kind = "sasl"    // a name and a password
	SASLTLS   Kind = "sasltls" // the same over TLS
)

func (k Kind) tls() bool  { return k == TLS || k == MutualTLS || k == SASLTLS }
func (k Kind) sasl() bool { return k == SASL || k == SASLTLS }

// Users of every lab with SASL, by each mechanism.
const (
	Worker  = "worker"  // may do everything
	Limited = "limited" // may do what an ACL grants
)

// Secret is a user's password at the beginning.
func Secret(user string) string { return user + "-secret" }

// Brokers are what a test runs on.
type Brokers struct {
	Addrs      []string       // of a listener of the kind asked for
	Admin      *sarama.Config // of somebody who may do everything, at AdminAddrs
	AdminAddrs []string
	Authority  *testutil.Authority   // that the brokers trust, and who trusts whom they are to; nil without TLS
	Serve      func(tls.Certificate) // has new connections see another certificate; nil without TLS
	Silent     bool                  // they hang up on wrong credentials, where Apache Kafka says why
	Session    time.Duration         // how long a session of SCRAM-SHA-256 lasts over SASL: too short to be renewed in time
	Renewable  time.Duration         // how long a session of PLAIN lasts over SASLTLS; 0: for ever
	Tokens     bool                  // SASLTLS takes OAUTHBEARER, with tokens that nobody has signed
	TTL        time.Duration         // a lease that is short for them
}

// lab is brokers and what a test does with them.
type lab struct {
	*Brokers
	t        *testing.T
	kind     Kind
	admin    sarama.ClusterAdmin
	producer sarama.SyncProducer
	logs     map[string]string // coordination topics, by group
}

func newLab(t *testing.T, open func(*testing.T, Kind) *Brokers, kind Kind) *lab {
	t.Helper()
	l := &lab{Brokers: open(t, kind), t: t, kind: kind, logs: map[string]string{}}
	l.Admin.Version = sarama.V3_6_0_0
	var err error
	l.admin, err = sarama.NewClusterAdmin(l.AdminAddrs, l.Admin)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.admin.Close() })
	cfg := *l.Admin
	cfg.Producer.Return.Successes, cfg.Producer.Partitioner, cfg.Producer.Retry.Max = true, sarama.NewManualPartitioner, 30
	l.producer, err = sarama.NewSyncProducer(l.AdminAddrs, &cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = l.producer.Close() })
	t.Cleanup(l.verify)
	return l
}

// verify replays at the end of a test what its groups have left in the log. Who was refused has left nothing.
func (l *lab) verify() {
	for group, topic := range l.logs {
		if ts, err := l.admin.DescribeTopics([]string{topic}); err == nil && len(ts) == 1 && ts[0].Err == sarama.ErrUnknownTopicOrPartition {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		c, err := marshal.DialContext(ctx, "verify", l.AdminAddrs, marshal.WithSaramaConfig(l.Admin), marshal.WithTopic(topic),
			marshal.WithoutTopicCreation(), marshal.WithLogger(testutil.Logger(l.t)))
		if !assert.NoError(l.t, err, "verifying the log") {
			return
		}
		defer c.Terminate()
		r, err := replay.Log(ctx, c, group)
		assert.NoError(l.t, err)
		if r.Records > 0 {
			assert.NoError(l.t, r.Err())
		}
		l.t.Logf("verify: %d records, %d replayed, %d findings", r.Records, r.Replayed, len(r.Findings))
	}
}

// names that no other test uses: a topic's, which exists, and a group's.
func (l *lab) names(partitions int32) (topic, group string) {
	l.t.Helper()
	name := strings.Map(func(r rune) rune {
		if strings.ContainsRune("/ ,*#", r) {
			return '-'
		}
		return r
	}, l.t.Name()) + "-" + unique()
	require.NoError(l.t, l.admin.CreateTopic(name, &sarama.TopicDetail{NumPartitions: partitions, ReplicationFactor: 1}, false))
	eventually(l.t, "the topic has leaders", func() bool {
		ts, err := l.admin.DescribeTopics([]string{name})
		return err == nil && len(ts) == 1 && ts[0].Err == sarama.ErrNoError && !slices.ContainsFunc(ts[0].Partitions, func(p *sarama.PartitionMetadata) bool { return p.Leader < 0 })
	})
	l.logs["g-"+name] = marshal.MarshalTopic
	return name, "g-" + name
}

// produce writes n messages to each partition.
func (l *lab) produce(topic string, partitions int32, n int) {
	l.t.Helper()
	for id := range partitions {
		for range n {
			_, _, err := l.producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Partition: id, Value: sarama.StringEncoder("v")})
			require.NoError(l.t, err)
		}
	}
}

// login is how a process proves who it is.
type login struct {
	mechanism sarama.SASLMechanism // "": not by SASL
	user      string
	password  func() string              // asked at each log-in of SCRAM
	tokens    sarama.AccessTokenProvider // of OAUTHBEARER
}

func as(mechanism sarama.SASLMechanism, user string) login {
	return login{mechanism: mechanism, user: user, password: func() string { return Secret(user) }}
}

// config is a user's configuration, through a wire that the test can cut.
func (l *lab) config(who login) (*sarama.Config, *wire) {
	l.t.Helper()
	cfg, w := sarama.NewConfig(), &wire{}
	cfg.Net.Proxy.Enable, cfg.Net.Proxy.Dialer = true, w
	if l.kind.tls() {
		cfg.Net.TLS.Enable, cfg.Net.TLS.Config = true, &tls.Config{RootCAs: l.Authority.Pool()}
	}
	if l.kind == MutualTLS {
		c, err := l.Authority.Issue(Worker, time.Now().Add(time.Hour))
		require.NoError(l.t, err)
		cfg.Net.TLS.Config.Certificates = []tls.Certificate{c}
	}
	if who.mechanism != "" {
		cfg.Net.SASL.Enable, cfg.Net.SASL.Mechanism = true, who.mechanism
		if cfg.Net.SASL.TokenProvider = who.tokens; who.tokens == nil {
			cfg.Net.SASL.User, cfg.Net.SASL.Password = who.user, who.password()
		}
		cfg.Net.SASL.SCRAMClientGeneratorFunc = scram.Generator(who.mechanism, who.password)
	}
	return cfg, w
}

// wire is the way of a process to the brokers.
type wire struct {
	mu    sync.Mutex
	conns []net.Conn
	dials atomic.Int32
}

// Dial is what sarama's configuration wants of a proxy.
func (w *wire) Dial(network, addr string) (net.Conn, error) {
	w.dials.Add(1)
	nc, err := net.DialTimeout(network, addr, time.Second)
	if err == nil {
		w.mu.Lock()
		w.conns = append(w.conns, nc)
		w.mu.Unlock()
	}
	return nc, err
}

// cut ends all connections. New ones may be made.
func (w *wire) cut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.conns {
		_ = c.Close() // it may be closed
	}
	w.conns = nil
}

// process is a member of a group with a consumer that is read and committed in the background.
type process struct {
	l       *lab
	m       *marshal.Marshaler
	c       *marshal.Consumer
	w       *wire
	told    *lines
	dialled int32 // connections, when all were open
	cancel  context.CancelFunc
	wg      sync.WaitGroup

	mu       sync.Mutex
	total    int
	problems []error
	newest   time.Time     // when the newest message was handed out
	gap      time.Duration // the longest time between two
}

// join makes a member. options come after those of the lab.
func (l *lab) join(client, group string, who login, options ...marshal.Option) (*process, error) {
	l.t.Helper()
	cfg, w := l.config(who)
	log, told := testutil.Logger(l.t), &lines{}
	log.AddHook(told)
	options = append([]marshal.Option{marshal.WithSaramaConfig(cfg), marshal.WithLease(l.TTL, 0), marshal.WithLogger(log)}, options...)
	m, err := marshal.NewMarshaler(client, group, l.Addrs, options...)
	if err != nil {
		return nil, err
	}
	p := &process{l: l, m: m, w: w, told: told}
	l.t.Cleanup(p.end)
	return p, nil
}

func (l *lab) mustJoin(client, group string, who login, options ...marshal.Option) *process {
	l.t.Helper()
	p, err := l.join(client, group, who, options...)
	require.NoError(l.t, err)
	return p
}

// consume begins to read a topic.
func (p *process) consume(topic string) *process {
	p.l.t.Helper()
	var err error
	p.c, err = p.m.NewConsumer([]string{topic}, marshal.ConsumerOptions{WatchInterval: 200 * time.Millisecond, CommitInterval: 200 * time.Millisecond})
	require.NoError(p.l.t, err)
	var ctx context.Context
	ctx, p.cancel = context.WithCancel(context.Background())
	p.wg.Go(func() {
		for m, err := range p.c.Messages(ctx) {
			p.took(err)
			if err == nil {
				_ = m.Commit() // where the claim is lost it comes again
			}
		}
	})
	return p
}

func (p *process) took(err error) {
	now := time.Now()
	p.mu.Lock()
	defer p.mu.Unlock()
	if err != nil {
		p.problems = append(p.problems, err)
		return
	}
	if p.total > 0 {
		p.gap = max(p.gap, now.Sub(p.newest))
	}
	p.total++
	p.newest = now
}

func (p *process) count() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.total
}

// problem finds an error that reading gave.
func (p *process) problem(is func(error) bool) (found error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, err := range p.problems {
		if is(err) {
			return err
		}
	}
	return nil
}

// end terminates it.
func (p *process) end() {
	p.m.Terminate()
	if p.cancel != nil {
		p.cancel()
	}
	p.wg.Wait()
}

// lines remembers what was logged.
type lines struct {
	mu    sync.Mutex
	texts []string
}

// Levels is all of them.
func (l *lines) Levels() []logrus.Level { return logrus.AllLevels }

// Fire notes a line.
func (l *lines) Fire(e *logrus.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.texts = append(l.texts, e.Level.String()+": "+e.Message)
	return nil
}

func (l *lines) has(parts ...string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, text := range l.texts {
		all := true
		for _, part := range parts {
			all = all && strings.Contains(text, part)
		}
		if all {
			return true
		}
	}
	return false
}

// patience is for what takes milliseconds on a quiet machine.
const patience = 40 * time.Second

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	require.Eventually(t, ok, patience, 10*time.Millisecond, what)
}

func unique() string { return strings.ToLower(rand.Text()[:8]) }
