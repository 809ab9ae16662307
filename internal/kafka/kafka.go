// Package kafka is the only user of sarama's client: it opens connections with the user's settings and gives plain
// values and typed errors. It starts no goroutine of its own; everything takes a ctx or a deadline.
package kafka

import (
	"context"
	"time"

	"github.com/IBM/sarama"

	"github.com/kafka-marshal/marshal/internal/batch"
)

// Client knows a cluster: its brokers, its topics, who leads what. Safe for concurrent use.
type Client struct{}

// Dial reaches one of brokers within ctx. user may be nil; what is taken from it is a copy of ClientID, RackID, Net.TLS,
// Net.SASL, Net.Proxy, Net.LocalAddr (Version is raised). name is the client.id where user sets none.
// The error names the addresses tried, each with its reason.
func Dial(ctx context.Context, name string, brokers []string, user *sarama.Config) (*Client, error) {
	panic("todo")
}

// Close closes every connection. Calls under way end with ErrClosed.
func (c *Client) Close() error { panic("todo") }

// Topic is what the cluster says of a topic.
type Topic struct {
	Name       string
	ID         [16]byte
	Partitions []Partition // by number; one without a leader has Leader -1
	Err        error       // of this topic alone: ErrUnknownTopic, authorization …
}

// Partition is what the cluster says of a partition.
type Partition struct {
	Leader      int32
	LeaderEpoch int32
}

// Topics asks the cluster anew. It never creates a topic.
func (c *Client) Topics(ctx context.Context, names ...string) (map[string]Topic, error) { panic("todo") }

// Leader gives what is known of a partition without asking, if anything is.
func (c *Client) Leader(topic string, partition int32) (Partition, bool) { panic("todo") }

// Time asks: at which offset (Latest, Earliest, or of the first record at or after a time).
type OffsetQuery struct {
	Topic     string
	Partition int32
	At        int64 // Unix ms, or sarama.OffsetNewest, sarama.OffsetOldest
}

// OffsetAnswer is one answer; Err belongs to this partition alone. Offset -1: no record at or after the time.
type OffsetAnswer struct {
	Offset int64
	Err    error
}

// Offsets asks the leaders for log offsets, in parallel requests per leader, in the order of qs.
func (c *Client) Offsets(ctx context.Context, qs []OffsetQuery) []OffsetAnswer { panic("todo") }

// Committed is a group's offset of a partition.
type Committed struct {
	Topic     string
	Partition int32
	Offset    int64 // -1: none
	Metadata  string
	Err       error
}

// CommitOffsets writes all in one request, as a "simple" commit. Each entry's Err is set; error is that of the whole.
func (c *Client) CommitOffsets(ctx context.Context, group string, cs []Committed) error { panic("todo") }

// FetchOffsets reads them (Topic, Partition given). Only an answer that can be trusted counts as "none" (CASES C47).
func (c *Client) FetchOffsets(ctx context.Context, group string, cs []Committed) error { panic("todo") }

// TopicSpec is how the coordination topic is made.
type TopicSpec struct {
	Name       string
	Partitions int32
	Retention  time.Duration
	MayCreate  bool
}

// EnsureTopic makes the coordination topic where it is missing, grows it to Partitions where it is smaller, and checks
// its settings (PROTOCOL.md §3). Warnings are for the log. mayGrow is asked before it grows (never grow a topic that
// holds text records of the original younger than an hour).
func (c *Client) EnsureTopic(ctx context.Context, s TopicSpec, mayGrow func(Topic) error) (Topic, []string, error) {
	panic("todo")
}

// Message is what is appended.
type Message struct{ Key, Value []byte }

// Producer appends to one partition with acks=all on a connection of its own. One call at a time.
type Producer struct{}

// NewProducer makes one; it connects when it is first used, and again after an error.
func (c *Client) NewProducer(topic string, partition int32) *Producer { panic("todo") }

// Append writes the messages as one batch and gives the offset of the first. It tries once, within ctx and its own time
// limit (2 s); after an error it is unknown whether they were written, unless the error says so (Refused).
func (p *Producer) Append(ctx context.Context, ms []Message) (first int64, err error) { panic("todo") }

// Close drops its connection.
func (p *Producer) Close() error { panic("todo") }

// FetchSettings are what a fetch connection asks for.
type FetchSettings struct {
	MaxWait       time.Duration
	MinBytes      int32
	MaxBytes      int32 // of an answer
	ReadCommitted bool
	Rack          string
}

// FetchPart is one partition of a fetch.
type FetchPart struct {
	Topic       string
	TopicID     [16]byte
	Partition   int32
	Offset      int64
	LeaderEpoch int32 // that we believe in; -1: unknown
	LastEpoch   int32 // of the last batch read; -1: unknown
	MaxBytes    int32
}

// FetchConn is one connection to one broker that does nothing but fetch. Send and Receive alternate freely: the next
// Send may go out before the last answer is decoded. One goroutine at a time; Close from anywhere.
type FetchConn struct{}

// OpenFetch opens one.
func (c *Client) OpenFetch(ctx context.Context, broker int32, s FetchSettings) (*FetchConn, error) {
	panic("todo")
}

// Send writes a fetch request; wait overrides the settings' MaxWait (0: answer at once). parts is not kept.
func (f *FetchConn) Send(parts []FetchPart, wait time.Duration) error { panic("todo") }

// Receive reads the next answer, within the wait of its request and 2 s. It blocks; Close ends it.
func (f *FetchConn) Receive() (*FetchAnswer, error) { panic("todo") }

// Close closes the connection.
func (f *FetchConn) Close() error { panic("todo") }

// FetchAnswer is one answer. Its Records live in one buffer.
type FetchAnswer struct {
	Parts    []FetchedPart
	Throttle time.Duration
	Bytes    int
}

// FetchedPart is one partition of an answer.
type FetchedPart struct {
	Topic            string
	Partition        int32
	Err              error // see the errors of this package; nil: fine
	HighWatermark    int64
	LastStable       int64
	LogStart         int64
	Records          []byte
	Aborted          []batch.Aborted
	Diverging        bool  // the log was truncated below our offset
	PreferredReplica int32 // -1: none
}
