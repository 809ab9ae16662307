package marshal

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/audit"
	"github.com/kafka-marshal/marshal/testutil"
)

// Whatever a test of this package looks at: when it ends, what all groups have left in the coordination topics of its broker must keep
// the rules that `marshal verify` goes by. newBenchOn sees to it, and internal/house that every test has its broker from there.

// remains is what a test says about the logs that it leaves. The exceptions have a reason.
type remains struct {
	mu      sync.Mutex
	topics  map[string]bool // coordination topics
	strange string          // why there is what no member has written
	torn    string          // why the log breaks the rules, and is not verified: records were taken out of it
	remade  bool            // the topic was deleted, or made again: whoever has not noticed yet writes to the new one
}

// strangers says that the test writes to the log what no member would: findings of the kind "foreign" are none.
func (b *bench) strangers(why string) { b.remains.strange = why }

// RecreateTopic and DeleteTopic are the cluster's. Of a coordination topic they are exception 2 of PROTOCOL.md.
func (b *bench) RecreateTopic(name string, partitions int32, configs map[string]string) error {
	b.remains.remade = b.remains.remade || b.remains.topics[name]
	return b.Cluster.RecreateTopic(name, partitions, configs)
}

func (b *bench) DeleteTopic(name string) error {
	b.remains.remade = b.remains.remade || b.remains.topics[name]
	return b.Cluster.DeleteTopic(name)
}

// uses notes a coordination topic.
func (r *remains) uses(topic string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.topics[topic] = true
}

// problems replays the logs, and says what is wrong.
func (b *bench) problems() (wrong []string) {
	b.Faults().Clear()
	if b.remains.torn != "" {
		return nil
	}
	records, strange := 0, 0
	for topic := range b.remains.topics {
		if _, _, err := b.Offsets(topic, shards-1); err != nil {
			continue // nobody has dialled
		}
		c, err := DialContext(within(b.t, patience), "verify", b.Addrs(), WithTopic(topic), WithoutTopicCreation(),
			WithSaramaConfig(b.Config("verify")), WithLogger(testutil.Logger(b.t)))
		if err != nil {
			return append(wrong, err.Error())
		}
		defer c.Terminate()
		for r, err := range c.Log(within(b.t, patience), "") {
			if err != nil {
				return append(wrong, err.Error())
			}
			records++
			for _, f := range r.Findings {
				switch {
				case b.remains.remade && strings.HasSuffix(f, "has never joined"):
				case b.remains.strange != "" && strings.HasPrefix(f, audit.Foreign.String()):
					strange++
				default:
					wrong = append(wrong, fmt.Sprintf("group %s, offset %d: %s (%s)", r.Group, r.Offset, f, r.Text))
				}
			}
		}
	}
	if strange > 0 {
		b.t.Logf("verify: %d records, %d findings that are wanted: %s", records, strange, b.remains.strange)
	} else if b.remains.strange != "" {
		wrong = append(wrong, "nothing strange was found: "+b.remains.strange)
	}
	return wrong
}

// A record by nobody, and one by a member that acts as the owner of what it was never granted, are found at the end of a test.
func TestABadLogIsFoundAtTheEndOfATest(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	b.consumer(m, ConsumerOptions{}, "t")
	eventually(t, "claims", func() bool { return holds(m) == 4 })
	require.Empty(t, b.problems())
	b.scribble([]byte("nonsense"))
	wrong := b.problems()
	require.Len(t, wrong, 1)
	assert.Contains(t, wrong[0], "foreign: a message of 8 bytes that cannot be read")
	b.strangers("the test has written nonsense")
	require.Empty(t, b.problems())

	other := newBench(t)
	other.strangers("nobody writes anything strange")
	assert.Len(t, other.problems(), 1, "an exception without a need is one too many")
	other.remains.strange = ""
}
