package marshal

import (
	"fmt"
	"strings"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// own adds what this process knows of a claim of its own. Called with g.mu held.
func (k *KeyState) own(cl *claim) {
	c := cl.consumer
	if c == nil {
		return
	}
	k.Draining = !cl.open.Load()
	for _, p := range cl.partitions() {
		k.Paused = k.Paused || p.paused.Load()
		k.Stalled = max(k.Stalled, p.stalledFor())
		if err := c.ailments.of(p.failure(), time.Now()); err != nil && k.Failed == "" {
			k.Failed = err.Error()
		}
	}
	k.Pending = c.pending(cl)
}

// pending tells why a claim, or a part of it, has not begun; "" where it has.
func (c *Consumer) pending(cl *claim) string {
	c.knownMu.Lock()
	defer c.knownMu.Unlock()
	topic := c.known[cl.key.Topic]
	n := int32(len(topic.Partitions))
	switch {
	case topic.Err != nil:
		return topic.Err.Error()
	case cl.key.Partition >= n:
		return fmt.Sprintf("the topic has %d partitions, as far as this process sees", n)
	}
	begun := len(cl.partitions())
	if cl.key.Partition != lease.WholeTopic {
		n = 1
	}
	if begun >= int(n) {
		return ""
	}
	if err := c.ailments.of("start", time.Now()); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("where %d of %d begin is being found out", int(n)-begun, n)
}

// String describes a key in one line.
func (k KeyState) String() string {
	name, at := fmt.Sprintf("%s/%d", k.Topic, k.Partition), fmt.Sprintf("next %d", k.Next)
	if k.Partition == lease.WholeTopic && k.Instance == "" {
		return k.Topic + ": " + k.Why
	}
	if k.Partition == lease.WholeTopic {
		name, at = k.Topic+" (whole)", fmt.Sprintf("next %d", k.Parts)
	}
	if k.Instance == "" {
		return fmt.Sprintf("%s %s: %s", name, at, k.Why)
	}
	notes := []string{fmt.Sprintf("%s %s: %s (%s) epoch %d token %d", name, at, printable(k.Client), k.Instance, k.Epoch, k.Token)}
	for _, note := range []struct {
		is   bool
		text string
	}{
		{k.Why != "", k.Why}, {k.Pending != "", "not begun: " + k.Pending}, {k.Paused, "paused"}, {k.Draining, "draining"},
		{k.Stalled > 0, fmt.Sprintf("stalled for %v", k.Stalled.Round(time.Second))}, {k.Failed != "", k.Failed},
	} {
		if note.is {
			notes = append(notes, note.text)
		}
	}
	return strings.Join(notes, ", ")
}
