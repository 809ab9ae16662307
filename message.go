package marshal

import (
	"bytes"
	"context"

	"github.com/IBM/sarama"
)

// Message is one message of a claimed partition. Its key, value and headers share memory with the batch that it came in:
// holding one message keeps its whole batch alive (up to some MiB). Use Clone to keep a few of many.
type Message struct {
	sarama.ConsumerMessage
	from *partition
}

// Token is the fencing token of the claim under which the message was handed out. Tokens of one partition only grow from
// owner to owner, so a store that remembers the largest token it has seen can refuse a former owner's writes. 0 for a message that
// did not come from this library.
func (m *Message) Token() int64 {
	if m.from == nil {
		return 0
	}
	return m.from.token
}

// Context is cancelled when the claim is over, with the cause that Commit gives from then on (context.Cause tells): ErrClaimLost
// where it was lost or handed over, ErrTerminated after Terminate(false). While a hand-over waits for the message, or hand-out is
// suspended for a while, it is not cancelled.
func (m *Message) Context() context.Context {
	if m.from == nil {
		return context.Background()
	}
	return m.from.ctx
}

// Commit says that the message is finished: what Consumer.Commit does, with its errors. It does not block and does no I/O.
func (m *Message) Commit() error {
	if m == nil || m.from == nil {
		return ErrNotHandedOut
	}
	return m.from.commit(m.Offset)
}

// Clone makes a copy that shares no memory with the batch. It can be committed in place of the original.
func (m *Message) Clone() *Message {
	c := *m
	c.Key, c.Value = bytes.Clone(m.Key), bytes.Clone(m.Value)
	if m.Headers != nil {
		c.Headers = make([]*sarama.RecordHeader, len(m.Headers))
		for i, h := range m.Headers {
			c.Headers[i] = &sarama.RecordHeader{Key: bytes.Clone(h.Key), Value: bytes.Clone(h.Value)}
		}
	}
	return &c
}

// Batch is a run of messages of one partition, 1 to 1,024, handed out together under one claim.
type Batch struct {
	Messages []Message
}

// Topic is that of all its messages.
func (b *Batch) Topic() string { return b.Messages[0].Topic }

// Partition is that of all its messages.
func (b *Batch) Partition() int32 { return b.Messages[0].Partition }

// Token is the fencing token of all its messages; see Message.Token.
func (b *Batch) Token() int64 { return b.Messages[0].Token() }

// Context is that of all its messages; see Message.Context.
func (b *Batch) Context() context.Context { return b.Messages[0].Context() }

// Commit says that all its messages are finished. It does not block and does no I/O. Single messages of it may have been
// committed before. Its errors are those of Consumer.Commit.
func (b *Batch) Commit() error {
	if b == nil || len(b.Messages) == 0 || b.Messages[0].from == nil {
		return ErrNotHandedOut
	}
	return b.Messages[0].from.commitAll(b.Messages)
}
