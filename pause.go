package marshal

import (
	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// pauses says which partitions of a topic are paused: those listed, or all but those. nil: none.
type pauses struct {
	all    bool
	except map[int32]bool
}

func (ps *pauses) has(partition int32) bool { return ps != nil && ps.all != ps.except[partition] }

// set pauses (or resumes) partitions, or all of the topic where none are given, and gives those that were not so before;
// lease.WholeTopic: the topic.
func (ps *pauses) set(paused bool, partitions []int32) (changed []int32) {
	if len(partitions) == 0 {
		if paused != ps.all || len(ps.except) > 0 {
			changed = []int32{lease.WholeTopic}
		}
		ps.all, ps.except = paused, map[int32]bool{}
	}
	for _, id := range partitions {
		if ps.has(id) == paused {
			continue
		}
		changed = append(changed, id)
		if paused == ps.all {
			delete(ps.except, id)
		} else {
			ps.except[id] = true
		}
	}
	return changed
}

// Pause stops hand-out of partitions of a topic in this process, or of all of them, those that come later too, where none is
// given. It is local: their claims are kept, nothing is written, and the group knows nothing of it. From its return on no message of
// theirs is handed out (one that is being received at that moment may still be); what is in flight goes on, and may be committed.
// Nothing more is fetched of them; what is buffered stays. It holds until Resume, in this process also over the end and a
// later claim of a partition. A topic that the Consumer does not have is ignored. It blocks on nothing; after Terminate it does
// nothing.
func (c *Consumer) Pause(topic string, partitions ...int32) {
	c.setPaused(true, topic, partitions)
	c.recall()
}

// Resume ends a Pause: of the given partitions, or of the whole topic with all that was paused of it where none is given. Messages
// go on where they were. After Terminate it does nothing.
func (c *Consumer) Resume(topic string, partitions ...int32) { c.setPaused(false, topic, partitions) }

func (c *Consumer) setPaused(paused bool, topic string, partitions []int32) {
	if c.Terminated() {
		return
	}
	c.knownMu.Lock()
	if _, ours := c.known[topic]; !ours {
		c.knownMu.Unlock()
		return
	}
	ps := c.pauses[topic]
	if ps == nil {
		ps = &pauses{except: map[int32]bool{}}
		c.pauses[topic] = ps
	}
	c.tellPaused(paused, topic, ps.set(paused, partitions))
	c.knownMu.Unlock()
	for _, cl := range c.running() {
		if cl.key.Topic != topic {
			continue
		}
		for _, p := range cl.partitions() {
			c.pauseAsSaid(p)
		}
	}
}

// tellPaused tells of partitions (lease.WholeTopic: of a topic) that were paused or resumed. Called with c.knownMu held, so that it is told
// in the order in which it was done.
func (c *Consumer) tellPaused(paused bool, topic string, partitions []int32) {
	kind, what := PartitionResumed, " is resumed by the application"
	if paused {
		kind, what = PartitionPaused, " is paused by the application: nothing of it is handed out here, until Resume"
	}
	for _, id := range partitions {
		c.m.emit(logrus.InfoLevel, Event{Kind: kind, Topic: topic, Partition: id, Text: nameOfKey(lease.Key{Topic: topic, Partition: id}) + what})
	}
}

// pauseAsSaid makes a partition what the newest Pause or Resume says.
func (c *Consumer) pauseAsSaid(p *partition) {
	c.knownMu.Lock()
	paused := c.pauses[p.topic].has(p.id)
	was := p.paused.Swap(paused)
	c.knownMu.Unlock()
	if was && !paused {
		p.ready()
		c.fetcher.freed(p)
	}
}

// paused tells whether a partition is paused here.
func (c *Consumer) paused(topic string, partition int32) bool {
	c.knownMu.Lock()
	defer c.knownMu.Unlock()
	return c.pauses[topic].has(partition)
}

// Position is the next offset to read of a partition, as far as everything below it is finished: what is committed when it is
// next written. It gives false where the partition is not held here, or has not begun yet, and after Terminate. It does not block.
func (c *Consumer) Position(topic string, partition int32) (int64, bool) {
	for _, cl := range c.running() {
		if cl.key.Topic != topic {
			continue
		}
		for _, p := range cl.partitions() {
			if p.id == partition && !p.ended() {
				return p.position(), true
			}
		}
	}
	return 0, false
}
