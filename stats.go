package marshal

import (
	"errors"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/kafka-marshal/marshal/internal/kafka"
)

// Stats are the figures of a Consumer since it was made. They are never reset: take the difference of two of them.
type Stats struct {
	Dials    int64 // tries to open a connection to fetch over, those that failed too; two connections to each broker are in use
	Fetches  int64 // answers to fetches; the empty ones too, with which a broker answers when nothing came for MaxWait
	Messages int64 // messages that were fetched and queued to be handed out. What is fetched again, after a Seek say, counts again
	Bytes    int64 // of the batches that they came in, decompressed, whole where a batch is taken in part
	Timeouts int64 // dials and fetches that failed because no answer came in time (fetches: 2 s after MaxWait). They are Errors too
	Errors   int64 // dials and fetches that failed, and partitions of an answer that have an error, a moved leader among them
	Claims   int64 // claims that began: partitions, topics with ClaimEntireTopic. Going on after a Seek is a new one
	Releases int64 // claims that ended as wanted: handed over, given back, or kept by Terminate(false)
	Losses   int64 // claims that ended against our will: others may have begun while messages were in hand

	DialTime      Summary[time.Duration] // of the dials that succeeded: TCP, TLS, SASL, and the question for versions
	WaitTime      Summary[time.Duration] // of each answer: from the request on the wire to the answer's first bytes
	ReadTime      Summary[time.Duration] // of each answer: from its first bytes until its batches are queued: the rest of it read, checked and decompressed
	FetchBytes    Summary[int64]         // of each answer: its size on the wire
	FetchMessages Summary[int64]         // of each answer: how many Messages it brought

	// Partitions are those that are held and have begun, in the order of topic and number; none after Terminate.
	Partitions []PartitionStats
}

// PartitionStats are the figures of one partition at one moment.
type PartitionStats struct {
	Topic         string
	Partition     int32
	Token         int64         // of its claim
	Position      int64         // the next offset to read: all below is finished
	Committed     int64         // the position last committed to Kafka under this claim; -1: none yet
	End           int64         // of its log (with ReadCommitted of what is stable) as last seen; -1: not yet, or not any more (see Consumer.Lag)
	Lag           int64         // as Consumer.Lag counts it; -1: End is not known
	Paused        bool          // by Consumer.Pause: nothing of it is handed out or fetched
	InFlight      int           // messages that are handed out and not finished; the one that ConsumeChannel offers counts
	BufferedBytes int           // of batches that were fetched and not yet handed out whole, decompressed
	OldestAge     time.Duration // for how long the oldest of those in flight has been so, to 10 ms; 0: none is
}

// Summary sums up some values. The zero value is of none.
type Summary[T ~int64] struct {
	Count         int64
	Sum, Min, Max T
}

func (s *Summary[T]) add(v T) {
	if s.Count == 0 || v < s.Min {
		s.Min = v
	}
	s.Max = max(s.Max, v)
	s.Sum += v
	s.Count++
}

// counters are what Stats counts. A leaf: its lock may be taken under any other. It is taken for a batch of messages, not for one.
type counters struct {
	mu sync.Mutex
	s  Stats
}

// Stats gives the figures of this consumer. It does not touch the network, and goes on giving the counters after Terminate.
func (c *Consumer) Stats() Stats {
	c.counters.mu.Lock()
	s := c.counters.s
	c.counters.mu.Unlock()
	for _, p := range c.begun() {
		s.Partitions = append(s.Partitions, p.stats())
	}
	slices.SortFunc(s.Partitions, func(a, b PartitionStats) int {
		if n := strings.Compare(a.Topic, b.Topic); n != 0 {
			return n
		}
		return int(a.Partition) - int(b.Partition)
	})
	return s
}

func (p *partition) stats() PartitionStats {
	s := PartitionStats{Topic: p.topic, Partition: p.id, Token: p.token, Paused: p.paused.Load()}
	var since time.Duration
	if s.InFlight, since = p.inHand(); s.InFlight > 0 {
		s.OldestAge = p.claim.m.c.clock.now().Mono - since
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	s.Position, s.Committed, s.End, s.BufferedBytes = p.win.Position(), p.committed, p.knownEnd(), p.queued
	s.Lag = p.lagTo(s.End)
	return s
}

// dialled counts a try to open a connection that began then.
func (c *counters) dialled(began time.Time, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if errors.Is(err, kafka.ErrUnknownBroker) {
		return // there was nothing to dial
	}
	c.s.Dials++
	if err == nil {
		c.s.DialTime.add(time.Since(began))
		return
	}
	c.failed(err)
}

// broke counts a fetch that came to nothing.
func (c *counters) broke(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.failed(err)
}

func (c *counters) failed(err error) {
	c.s.Errors++
	if errors.Is(err, os.ErrDeadlineExceeded) {
		c.s.Timeouts++
	}
}

// queued counts messages.
func (c *counters) queued(messages, bytes int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Messages += int64(messages)
	c.s.Bytes += int64(bytes)
}

// answered counts an answer whose messages are queued.
func (c *counters) answered(a *kafka.FetchAnswer, messages int) {
	wrong := int64(0)
	for i := range a.Parts {
		if a.Parts[i].Err != nil {
			wrong++
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.s.Fetches++
	c.s.Errors += wrong
	c.s.WaitTime.add(a.Began.Sub(a.Asked))
	c.s.ReadTime.add(time.Since(a.Began))
	c.s.FetchBytes.add(int64(a.Bytes))
	c.s.FetchMessages.add(int64(messages))
}

// count counts the beginning or the end of a claim.
func (c *counters) count(which *int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	*which++
}
