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

const (
	outboxBatch = 64      // records of one append at most
	outboxBytes = 900_000 // and bytes, below the broker's usual limit of 1 MiB
)

// outbox holds the records that a member wants appended, in order, until they are acknowledged.
type outbox struct {
	mu     sync.Mutex
	items  []outgoing
	flying int // the first so many are being appended
	life   int // counts the members that used it: what belongs to an earlier one is void
	kick   chan struct{}
}

type outgoing struct {
	seq       uint64
	heartbeat bool // and nothing more: a later one makes it superfluous
	value     []byte
}

func newOutbox() *outbox { return &outbox{kick: make(chan struct{}, 1)} }

// add queues a record. A heartbeat that was not tried yet gives way to the next: each carries all that was not read back.
func (o *outbox) add(r *lease.Record) {
	item := outgoing{seq: r.Seq, heartbeat: r.Kind == lease.KindHeartbeat && !r.Heartbeat.Announces, value: appendRecord(nil, r)}
	o.mu.Lock()
	if n := len(o.items); n > o.flying && o.items[n-1].heartbeat && r.Kind == lease.KindHeartbeat {
		o.items[n-1] = item
	} else {
		o.items = append(o.items, item)
	}
	o.mu.Unlock()
	wakeUp(o.kick)
}

// reset forgets everything: the member that wrote it is over.
func (o *outbox) reset() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.items, o.flying = nil, 0
	o.life++
}

// take marks the next records as flying, at most most of them.
func (o *outbox) take(most int) (items []outgoing, life int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	bytes, n := 0, 0
	for n < len(o.items) && n < most {
		bytes += len(o.items[n].value)
		if n > 0 && bytes > outboxBytes {
			break
		}
		n++
	}
	o.flying = n
	return o.items[:n:n], o.life
}

// done removes the first n, if they are still those of that life.
func (o *outbox) done(n, life int) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.flying = 0
	if life != o.life {
		return false
	}
	o.items = o.items[n:]
	return true
}

func wakeUp(kick chan struct{}) {
	select {
	case kick <- struct{}{}:
	default:
	}
}

// cannotWrite is a problem until a write goes through.
const (
	cannotWrite = "append"
	appendLimit = 5 * time.Second // a try takes so long at most
)

// carry appends what the member wants appended, in order, and tries until it is acknowledged: what became of a record is
// known when it is read back, an acknowledgement only tells that it is somewhere in the log.
func (m *Marshaler) carry(ctx context.Context) {
	p := m.c.client.NewProducer(m.c.set.topic, m.g.r.shard)
	defer p.Close()
	most := outboxBatch
	for ctx.Err() == nil {
		items, life := m.out.take(most)
		if len(items) == 0 {
			select {
			case <-m.out.kick:
			case <-ctx.Done():
			}
			continue
		}
		messages := make([]kafka.Message, len(items))
		for i := range items {
			messages[i] = kafka.Message{Key: []byte(m.groupID), Value: items[i].value}
		}
		_, err := p.Append(ctx, messages)
		switch {
		case err == nil:
			most = outboxBatch
			m.ailments.over(cannotWrite)
			if m.out.done(len(items), life) {
				m.acked(items[len(items)-1].seq)
			}
		case errors.Is(err, kafka.ErrTooLarge) && len(items) > 1:
			most = 1 // find out which
		case errors.Is(err, kafka.ErrTooLarge):
			most = outboxBatch
			if m.out.done(1, life) {
				m.rejected(items[0].seq)
			}
		case ctx.Err() == nil:
			m.setTrouble(err)
			m.lasting(cannotWrite, appendLimit, Event{
				Kind: Trouble, Client: m.clientID, Err: fmt.Errorf("marshal: cannot write to the coordination topic: %w", err),
				Text: "cannot write to the coordination topic, leases will end if it lasts: " + err.Error(),
			})
			pause(ctx, retryAfter(err))
		}
	}
}

func (m *Marshaler) fields() logrus.Fields {
	return logrus.Fields{"group": m.groupID, "client": m.clientID}
}
