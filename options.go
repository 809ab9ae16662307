package marshal

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"time"
	"unicode/utf8"

	"github.com/IBM/sarama"
	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/lease"
)

const (
	// MarshalTopic is the coordination topic, the group's only place of agreement.
	MarshalTopic = "__marshal"
	// HeartbeatInterval is the default period of an instance's heartbeats.
	HeartbeatInterval = 2 * time.Second
	// LeaseTTL is the default time after which an instance that is silent may be declared dead.
	LeaseTTL = 10 * time.Second

	shards       = lease.Shards       // PROTOCOL.md §3, a constant
	logRetention = 7 * 24 * time.Hour // of the coordination topic
	callLimit    = 10 * time.Second   // of a call without a context
	// joinLimit is that of joining a group without a context: where the beginning of its history is gone and nobody is left who
	// remembers it, a newcomer has to wait for the largest lease there may be (PROTOCOL.md §7).
	joinLimit = lease.MaxTTL + callLimit
	dialLimit = 30 * time.Second // of Dial
)

// Option changes how a process takes part; see Dial and NewMarshaler.
type Option func(*settings)

type settings struct {
	sarama     *sarama.Config
	log        logrus.FieldLogger
	ttl, beat  time.Duration
	topic      string
	makesTopic bool
	observes   bool
	recommit   time.Duration // how often unchanged offsets are committed to Kafka again
}

// WithSaramaConfig takes the connection's settings from a sarama configuration: ClientID, RackID, Net.TLS, Net.SASL,
// Net.Proxy and Net.LocalAddr, as they are when Dial is called. The rest of it is not looked at, and it is not changed. A ClientID that is
// not sarama's default is the client.id of the connections, in place of the name that Dial is given. With a RackID, partitions are
// fetched from the replica that their leader names for it, for 5 minutes at a time, where brokers have a replica.selector.class.
func WithSaramaConfig(c *sarama.Config) Option { return func(s *settings) { s.sarama = c } }

// WithLogger says where log lines go. Defaults to logrus.StandardLogger(); nil is an error of Dial.
func WithLogger(l logrus.FieldLogger) Option { return func(s *settings) { s.log = l } }

// WithLease sets the time after which this process, when silent, may be declared dead (300 ms to 30 s; defaults to
// LeaseTTL), and the period of its heartbeats (at most a fifth of ttl; 0: the smaller of that and HeartbeatInterval).
// A ttl below about 12 s means that a crash of the coordination topic's leader, which Kafka notices after 9 s by default, stops
// hand-out for some seconds; nobody is evicted by it.
func WithLease(ttl, heartbeat time.Duration) Option {
	return func(s *settings) { s.ttl, s.beat = ttl, heartbeat }
}

// WithTopic names another coordination topic, which isolates teams or environments: groups of one name in two topics know nothing of
// each other (but they share Kafka's offsets of that name). Defaults to MarshalTopic.
func WithTopic(name string) Option { return func(s *settings) { s.topic = name } }

// WithoutTopicCreation makes Dial fail where the coordination topic is missing or too small, instead of making or growing it.
func WithoutTopicCreation() Option { return func(s *settings) { s.makesTopic = false } }

// WithAllGroups makes an observer: it follows all groups in the coordination topic (KafkaCluster.State) and writes nothing
// at all, so it makes no topic either, and NewMarshaler gives an error: dial another cluster for members. Dial returns when everything
// that was there is replayed. A group whose history was cut, and of which no snapshot is left, is reported as
// unreadable until one of its members writes a snapshot, after ten minutes at the latest.
func WithAllGroups() Option { return func(s *settings) { s.observes, s.makesTopic = true, false } }

func newSettings(options []Option) (settings, error) {
	s := settings{log: logrus.StandardLogger(), topic: MarshalTopic, makesTopic: true, recommit: recommit}
	for _, o := range options {
		if o == nil {
			return s, errors.New("marshal: an Option is nil")
		}
		o(&s)
	}
	s.ttl = cmp.Or(s.ttl, LeaseTTL)
	if s.ttl < lease.MinTTL || s.ttl > lease.MaxTTL {
		return s, fmt.Errorf("marshal: a lease of %v is out of range (%v to %v)", s.ttl, lease.MinTTL, lease.MaxTTL)
	}
	s.beat = cmp.Or(s.beat, min(HeartbeatInterval, s.ttl/5))
	if s.beat < 0 || s.beat > s.ttl/5 {
		return s, fmt.Errorf("marshal: a heartbeat every %v is out of range (at most a fifth of the lease, %v)", s.beat, s.ttl/5)
	}
	if v := reflect.ValueOf(s.log); !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil() {
		return s, errors.New("marshal: WithLogger(nil)")
	}
	if err := checkTopicName(s.topic); err != nil {
		return s, fmt.Errorf("marshal: coordination topic: %w", err)
	}
	return s, nil
}

// StartOffset says where a partition begins that the group has no position for.
type StartOffset int64

const (
	// StartEarliest begins at the oldest record. It is the default.
	StartEarliest StartOffset = 0
	// StartLatest begins behind the newest record, for partitions that are there when the group first runs; a partition that
	// appears later begins at offset 0, or nothing would ever read its first records.
	StartLatest StartOffset = -1
)

// StartAt begins at the first record whose timestamp is not before t; behind the newest where there is none.
func StartAt(t time.Time) StartOffset { return StartOffset(max(t.UnixMilli(), 1)) }

// OutOfRange says what happens when the position of a partition is no longer in its log.
type OutOfRange int

const (
	// ResetToEarliest goes on at the oldest record. It is the default.
	ResetToEarliest OutOfRange = iota
	// ResetToLatest goes on behind the newest record.
	ResetToLatest
	// FailOutOfRange stops the partition with a *PartitionError, again and again, until its position is set: by Seek, or end all
	// processes of the group, set its offset in Kafka (kafka-consumer-groups --reset-offsets), and start them again.
	FailOutOfRange
)

// ConsumerOptions says what a Consumer wants and how it reads. The zero value works: each zero field stands for its default.
type ConsumerOptions struct {
	// FastReclaim lets a process take the keys of an earlier run with the same client id over as soon as it is clear that
	// that run is gone (about a second), without waiting for its lease to end. Defaults to off.
	FastReclaim bool
	// ClaimEntireTopic claims topics, not partitions. It must be the same in the whole group for one topic: a topic that is held as
	// partitions cannot be claimed as a whole, nor the other way round, so in a mix some get nothing of it. Defaults to off.
	ClaimEntireTopic bool
	// GreedyClaims claims everything free at once, up to MaximumClaims, instead of an even share; what it holds is not
	// balanced away. Defaults to off.
	GreedyClaims bool
	// StrictOrdering has at most one message of a partition in flight: the next is handed out when it is committed. It sets
	// MaxInFlight to 1. Defaults to off.
	StrictOrdering bool
	// MaximumClaims is how many partitions (topics with ClaimEntireTopic) are claimed at most, 0 or more. Defaults to 0, no limit.
	MaximumClaims int
	// Weight makes the share of this consumer larger in proportion, 1 to 1000. Defaults to 1.
	Weight int
	// StartOffset is where a partition without a position begins. Defaults to StartEarliest.
	StartOffset StartOffset
	// OnOutOfRange says what happens when the position is no longer in the log. Defaults to ResetToEarliest.
	OnOutOfRange OutOfRange
	// MaxInFlight is how many messages of a partition are handed out at or above its position, finished ones behind an unfinished
	// one too, 1 to 1,000,000. At the limit that partition pauses. Defaults to 10,000.
	MaxInFlight int
	// MaxBufferedBytes bounds what is fetched and not handed out, in bytes, decompressed, of all partitions together. One batch of
	// each answer under way may lie above it, and so a larger one passes alone. 1 KiB to 2 GiB. Defaults to 64 MiB.
	MaxBufferedBytes int
	// MaxBatchBytes is the largest record batch, decompressed, that is accepted, in bytes, 1 KiB to 2 GiB; a larger one stops its partition
	// with a *PartitionError. Defaults to 64 MiB.
	MaxBatchBytes int
	// MinBytes is how many bytes the broker waits for (up to MaxWait) before it answers, 1 to MaxBytes. Above 1 it delays messages.
	// Defaults to 1.
	MinBytes int
	// MaxBytes is the largest answer that is asked for, in bytes, 1 KiB to 2 GiB; a larger batch passes alone. Defaults to 8 MiB.
	MaxBytes int
	// MaxWait is a fetch's longest wait at the broker, 1 ms to 1 minute. Defaults to 500 ms.
	MaxWait time.Duration
	// IsolationLevel is sarama.ReadUncommitted or sarama.ReadCommitted. Defaults to ReadUncommitted.
	IsolationLevel sarama.IsolationLevel
	// CommitInterval is how long after it moved a position is at most in the coordination topic and in Kafka's own offsets,
	// 10 ms to 1 minute. Defaults to 1 s.
	CommitInterval time.Duration
	// DrainTimeout is how long a partition that is handed over waits for messages in flight; what is unfinished then is handed out
	// again by its next owner, and a Commit of it gives ErrClaimLost. Terminate and Close wait shorter where their own limit ends
	// sooner: Marshaler.Terminate for 8 s, so use Close with a context for longer ones. 1 ms to 1 hour. Defaults to 5 s.
	DrainTimeout time.Duration
	// RestartGrace is for how long keys are kept for the next run after Terminate(false), 1 ms to 1 hour; the lease's ttl if that is
	// longer. Defaults to 30 s.
	RestartGrace time.Duration
	// StallTimeout is how long the oldest message in hand of a partition may stay unfinished, 100 ms to 1 hour; 0: as long as it
	// likes. It counts from when that message was handed out, or from when the one before it was finished if that was later; of a Batch
	// that is committed in one that is the time for all of it. A partition (a topic with ClaimEntireTopic) that stands longer is given to a
	// member that has not given it up itself, drained within DrainTimeout as always. Where there is none it stays here and goes on;
	// events and log say so. Healthy gives ErrStalled while it stands, and after it was given away until the application asks for
	// a message or commits one. It is looked at each CommitInterval. Defaults to 0.
	StallTimeout time.Duration
	// WatchInterval is how often topics and their partition counts are asked for, 10 ms to 1 hour. Defaults to 10 s.
	WatchInterval time.Duration
	// LagInterval is how often the ends of the logs are asked for of partitions that are held and from which no fetch brings
	// news, since they are paused, full or failing, 100 ms to 1 hour. Of those that seem idle they are asked for each sixth time: one of
	// which nothing comes though its log goes on is told of at the second look (PartitionFailed), and its connections are opened anew. Defaults to
	// 10 s.
	LagInterval time.Duration
	// RetryBackoffMin and RetryBackoffMax bound the pause between tries of a fetch that fails, which doubles; 1 ms to 1 minute, the
	// first not above the second. Default to 50 ms and 1 s.
	RetryBackoffMin, RetryBackoffMax time.Duration
}

// NewConsumerOptions gives the defaults.
func NewConsumerOptions() ConsumerOptions { return ConsumerOptions{}.withDefaults() }

func (o ConsumerOptions) withDefaults() ConsumerOptions {
	o.Weight = cmp.Or(o.Weight, 1)
	o.MaxInFlight = cmp.Or(o.MaxInFlight, 10_000)
	o.MaxBufferedBytes = cmp.Or(o.MaxBufferedBytes, 64<<20)
	o.MaxBatchBytes = cmp.Or(o.MaxBatchBytes, 64<<20)
	o.MinBytes = cmp.Or(o.MinBytes, 1)
	o.MaxBytes = cmp.Or(o.MaxBytes, 8<<20)
	o.MaxWait = cmp.Or(o.MaxWait, 500*time.Millisecond)
	o.CommitInterval = cmp.Or(o.CommitInterval, time.Second)
	o.DrainTimeout = cmp.Or(o.DrainTimeout, 5*time.Second)
	o.RestartGrace = cmp.Or(o.RestartGrace, 30*time.Second)
	o.WatchInterval = cmp.Or(o.WatchInterval, 10*time.Second)
	o.LagInterval = cmp.Or(o.LagInterval, 10*time.Second)
	o.RetryBackoffMin = cmp.Or(o.RetryBackoffMin, 50*time.Millisecond)
	o.RetryBackoffMax = cmp.Or(o.RetryBackoffMax, time.Second)
	return o
}

// Validate says what is wrong with the options, all of it in one error; nil: nothing. Zero fields are taken as their defaults.
func (o ConsumerOptions) Validate() error {
	o = o.withDefaults()
	var errs []error
	check := func(name string, v, low, high int64) {
		if v < low || v > high {
			errs = append(errs, fmt.Errorf("marshal: %s is %d, must be %d to %d", name, v, low, high))
		}
	}
	span := func(name string, v, low, high time.Duration) {
		if v < low || v > high {
			errs = append(errs, fmt.Errorf("marshal: %s is %v, must be %v to %v", name, v, low, high))
		}
	}
	const most = 1<<31 - 1
	check("MaximumClaims", int64(o.MaximumClaims), 0, most)
	check("Weight", int64(o.Weight), 1, 1000)
	if o.StartOffset < StartLatest {
		errs = append(errs, fmt.Errorf("marshal: StartOffset is %d, use StartEarliest, StartLatest or StartAt(time)", o.StartOffset))
	}
	check("OnOutOfRange", int64(o.OnOutOfRange), int64(ResetToEarliest), int64(FailOutOfRange))
	check("MaxInFlight", int64(o.MaxInFlight), 1, 1_000_000)
	check("MaxBufferedBytes", int64(o.MaxBufferedBytes), 1<<10, most)
	check("MaxBatchBytes", int64(o.MaxBatchBytes), 1<<10, most)
	check("MinBytes", int64(o.MinBytes), 1, most)
	check("MaxBytes", int64(o.MaxBytes), max(1<<10, int64(o.MinBytes)), most)
	check("IsolationLevel", int64(o.IsolationLevel), int64(sarama.ReadUncommitted), int64(sarama.ReadCommitted))
	span("MaxWait", o.MaxWait, time.Millisecond, time.Minute)
	span("CommitInterval", o.CommitInterval, 10*time.Millisecond, time.Minute)
	span("DrainTimeout", o.DrainTimeout, time.Millisecond, time.Hour)
	span("RestartGrace", o.RestartGrace, time.Millisecond, lease.MaxGrace)
	if o.StallTimeout != 0 {
		span("StallTimeout", o.StallTimeout, 100*time.Millisecond, time.Hour)
	}
	span("WatchInterval", o.WatchInterval, 10*time.Millisecond, time.Hour)
	span("LagInterval", o.LagInterval, 100*time.Millisecond, time.Hour)
	span("RetryBackoffMin", o.RetryBackoffMin, time.Millisecond, time.Minute)
	if o.RetryBackoffMin <= time.Minute {
		span("RetryBackoffMax", o.RetryBackoffMax, o.RetryBackoffMin, time.Minute)
	}
	return errors.Join(errs...)
}

// checkTopicName holds a name against Kafka's rules.
func checkTopicName(name string) error {
	if name == "" || len(name) > 249 || name == "." || name == ".." {
		return fmt.Errorf("topic name %q must have 1 to 249 characters, and not be one or two dots", name)
	}
	for _, c := range []byte(name) {
		if !(c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '.' || c == '_' || c == '-') {
			return fmt.Errorf("topic name %q may have letters, digits, dots, underscores and dashes only", name)
		}
	}
	return nil
}

// checkName holds a client or group id against what a record can carry; any text will do.
func checkName(what, name string) error {
	if name == "" || len(name) > lease.MaxLabel || !utf8.ValidString(name) {
		return fmt.Errorf("marshal: %s %.40q must have 1 to %d bytes of UTF-8", what, name, lease.MaxLabel)
	}
	return nil
}
