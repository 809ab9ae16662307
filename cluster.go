package marshal

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
)

// KafkaCluster is one process's connection to a cluster and its coordination topic. It replays the shards of the groups
// that its Marshalers are members of. Safe for concurrent use.
type KafkaCluster struct {
	name    string
	set     settings
	clock   clock
	client  *kafka.Client
	topicID lease.TopicID
	report  *reporter

	ctx    context.Context // ends with the cluster
	cancel context.CancelFunc
	wg     sync.WaitGroup // every goroutine of the cluster and of what belongs to it

	mu         sync.Mutex
	shards     map[int32]*rationalizer
	marshalers map[*Marshaler]struct{}
	closing    bool
	closed     chan struct{} // closed when Close has finished
}

// Dial is DialContext with a limit of 30 s.
func Dial(name string, brokers []string, options ...Option) (*KafkaCluster, error) {
	ctx, cancel := context.WithTimeout(context.Background(), dialLimit)
	defer cancel()
	return DialContext(ctx, name, brokers, options...)
}

// DialContext connects to a cluster by its bootstrap addresses ("host:port") and makes or checks the coordination topic.
// name appears in log lines and is the client.id of the connections. It blocks until that is done or ctx ends; an error
// names what was tried, and leaves nothing behind. It comes at once where an argument is bad, the topic is not as it has to be, or the brokers
// do not accept us (ErrAuthentication), and when ctx ends where nobody answers. ErrAuthorization: a right is missing.
func DialContext(ctx context.Context, name string, brokers []string, options ...Option) (*KafkaCluster, error) {
	set, err := newSettings(options)
	if err != nil {
		return nil, err
	}
	if len(brokers) == 0 {
		return nil, errors.New("marshal: no broker address given")
	}
	if err := checkName("name", name); err != nil {
		return nil, err
	}
	client, err := reach(ctx, name, brokers, set)
	if err != nil {
		return nil, fmt.Errorf("marshal: %w", err)
	}
	c := &KafkaCluster{
		name: name, set: set, clock: newClock(), client: client,
		shards: map[int32]*rationalizer{}, marshalers: map[*Marshaler]struct{}{}, closed: make(chan struct{}),
	}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.report = newReporter(set.log.WithField("process", name))
	topic, err := c.ensureTopic(ctx)
	if err != nil {
		c.cancel()
		c.report.close()
		return nil, errors.Join(fmt.Errorf("marshal: %w", err), client.Close())
	}
	c.topicID = topic.ID
	if set.observes {
		if err := c.observe(ctx); err != nil {
			return nil, errors.Join(fmt.Errorf("marshal: %w", err), c.Close(ctx))
		}
	}
	return c, nil
}

// ensureTopic makes or checks the coordination topic.
func (c *KafkaCluster) ensureTopic(ctx context.Context) (kafka.Topic, error) {
	topic, warnings, err := c.client.EnsureTopic(ctx, kafka.TopicSpec{
		Name: c.set.topic, Partitions: shards, Retention: logRetention, MayCreate: c.set.makesTopic,
	}, func(t kafka.Topic) error { return c.mayGrow(ctx, t) })
	for _, w := range warnings {
		c.report.warn(nil, "marshal: coordination topic "+c.set.topic+": "+w)
	}
	return topic, err
}

// reach connects, and says so in the log when that takes long.
func reach(ctx context.Context, name string, brokers []string, set settings) (*kafka.Client, error) {
	soon, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	client, err := kafka.Dial(soon, name, brokers, set.sarama)
	if soon.Err() == nil || ctx.Err() != nil || err == nil {
		return client, err
	}
	set.log.WithField("process", name).WithError(err).Warnf("marshal: no broker of %v reached yet, still trying", brokers)
	return kafka.Dial(ctx, name, brokers, set.sarama)
}

// shardOf is the shard of a group: a constant of the protocol.
func shardOf(group string) int32 { return lease.ShardOf(group) }

// mayGrow refuses to grow a topic that is used for something else, or that the original Marshal is using: its processes end
// when the count changes.
func (c *KafkaCluster) mayGrow(ctx context.Context, t kafka.Topic) error {
	since := time.Now().Add(-time.Hour)
	for p := range t.Partitions {
		tl := newTail(c, int32(p))
		u, err := tl.useSince(ctx, since)
		tl.close()
		switch {
		case err != nil:
			return fmt.Errorf("cannot tell what its partition %d is used for: %w", p, err)
		case u.foreign:
			return fmt.Errorf("it has %d partitions and holds records that are not marshal's; name a topic that is for marshal alone (WithTopic)", len(t.Partitions))
		case u.original:
			return fmt.Errorf("it has %d partitions and holds records of the original marshal younger than an hour, whose processes end when "+
				"the count changes; stop them for an hour first, or use another topic (WithTopic)", len(t.Partitions))
		}
	}
	return nil
}

// NewMarshaler is NewMarshalerContext with a limit of 40 s.
func (c *KafkaCluster) NewMarshaler(clientID, groupID string) (*Marshaler, error) {
	ctx, cancel := context.WithTimeout(context.Background(), joinLimit)
	defer cancel()
	return c.NewMarshalerContext(ctx, clientID, groupID)
}

// NewMarshalerContext makes a member of a group. clientID names the process across its restarts (and must not be that of
// another living process of the group); groupID is the group's name, which no other kind of consumer may use. It blocks until
// the group's history has been replayed and the new member has been read back from the log, or ctx ends: milliseconds, but 30 s where
// the group was stopped for so long that the coordination topic has forgotten it (the log says so then). Both names are 1 to 1,024
// bytes of UTF-8.
//
// It gives ErrTerminated after Terminate, and ErrUpgradeNeeded where a member writes a newer version of the protocol.
func (c *KafkaCluster) NewMarshalerContext(ctx context.Context, clientID, groupID string) (*Marshaler, error) {
	if err := errors.Join(checkName("client id", clientID), checkName("group id", groupID)); err != nil {
		return nil, err
	}
	if c.set.observes {
		return nil, errors.New("marshal: a cluster that was dialed WithAllGroups only observes; dial another for members")
	}
	m := newMarshaler(c, clientID, groupID)
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		return nil, ErrTerminated
	}
	c.marshalers[m] = struct{}{}
	m.g = c.rationalizer(shardOf(groupID)).group(groupID)
	c.mu.Unlock()
	if err := m.begin(ctx); err != nil {
		short, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		return nil, errors.Join(fmt.Errorf("marshal: joining group %s: %w", printable(groupID), err), m.Close(short))
	}
	return m, nil
}

// rationalizer finds or starts that of a shard. Called with c.mu held.
func (c *KafkaCluster) rationalizer(shard int32) *rationalizer {
	r := c.shards[shard]
	if r == nil {
		r = newRationalizer(c, shard)
		c.shards[shard] = r
		c.wg.Go(func() { r.run(c.ctx) })
	}
	return r
}

func (c *KafkaCluster) forget(m *Marshaler) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.marshalers, m)
}

// Terminated tells whether Terminate or Close was called.
func (c *KafkaCluster) Terminated() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

// Terminate is Close with a limit of 10 s; an error goes to the log.
func (c *KafkaCluster) Terminate() {
	ctx, cancel := context.WithTimeout(context.Background(), callLimit)
	defer cancel()
	if err := c.Close(ctx); err != nil {
		c.report.last(logrus.WarnLevel, nil, "marshal: terminated without confirmation: "+err.Error())
	}
}

// Close ends every Marshaler (see Marshaler.Close) and then the connections. It returns when ctx ends at the latest, and
// nothing is left running then; the error says what was not confirmed. A second call waits for the first and gives nil.
func (c *KafkaCluster) Close(ctx context.Context) error {
	c.mu.Lock()
	if c.closing {
		c.mu.Unlock()
		select {
		case <-c.closed:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	c.closing = true
	members := make([]*Marshaler, 0, len(c.marshalers))
	for m := range c.marshalers {
		members = append(members, m)
	}
	c.mu.Unlock()

	errs := make([]error, len(members)+1)
	var wg sync.WaitGroup
	for i, m := range members {
		wg.Go(func() { errs[i] = m.Close(ctx) })
	}
	wg.Wait()
	c.cancel()
	errs[len(members)] = c.client.Close()
	c.wg.Wait()
	c.report.close()
	close(c.closed)
	return errors.Join(errs...)
}
