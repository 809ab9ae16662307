package marshal

import (
	"errors"
	"maps"
	"sync"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// topicClaims tells an application which topics its consumer holds as a whole.
type topicClaims struct {
	mu      sync.Mutex
	held    map[string]bool
	channel chan map[string]bool // with room for one; only who has mu sends, so that it never blocks
}

func newTopicClaims() *topicClaims {
	return &topicClaims{held: map[string]bool{}, channel: make(chan map[string]bool, 1)}
}

// set takes the topics that are held; a change replaces what was not read yet.
func (t *topicClaims) set(held map[string]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if maps.Equal(t.held, held) {
		return
	}
	t.held = held
	select {
	case <-t.channel:
	default:
	}
	t.channel <- maps.Clone(held)
}

func (t *topicClaims) get() map[string]bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return maps.Clone(t.held)
}

// tellTopics says which topics are held now. After Terminate(false) they stay what they were: nobody else gets them for now.
// Called with the group's lock held.
func (c *Consumer) tellTopics() {
	if !c.options.ClaimEntireTopic || c.phase == keeping && c.keepUntil > 0 {
		return
	}
	held := map[string]bool{}
	for cl := range c.claims {
		if cl.key.Partition == lease.WholeTopic {
			held[cl.key.Topic] = true
		}
	}
	c.topics.set(held)
}

// TopicClaims gives the channel on which a consumer with ClaimEntireTopic says which topics it holds, at each change all of
// them: every key is true. It has room for one map, and the newest replaces one that was not read. It is the same channel at each call,
// and is closed once the consumer has ended; the last map is empty after Terminate(true) and Close, and after Terminate(false) it
// names the topics that are kept for RestartGrace. Without ClaimEntireTopic nothing comes before it is closed.
func (c *Consumer) TopicClaims() <-chan map[string]bool { return c.topics.channel }

// GetCurrentTopicClaims gives the topics that the consumer holds as a whole: every key is true. After Terminate it is the last
// map of TopicClaims. It does not block. Without ClaimEntireTopic it gives an error.
func (c *Consumer) GetCurrentTopicClaims() (map[string]bool, error) {
	if !c.options.ClaimEntireTopic {
		return nil, errors.New("marshal: topics are claimed as a whole with ClaimEntireTopic alone")
	}
	return c.topics.get(), nil
}
