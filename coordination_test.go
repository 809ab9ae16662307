package marshal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
)

// alive is how many members a process knows of.
func alive(m *Marshaler) int { return len(m.State().Instances) }

// share waits until the processes hold all n keys among them, each at least one, and know of each other and nobody else.
func share(t testing.TB, n int, ms ...*Marshaler) {
	t.Helper()
	eventually(t, "a share for each", func() bool {
		sum := 0
		for _, m := range ms {
			h := holds(m)
			if h == 0 || alive(m) != len(ms) {
				return false
			}
			sum += h
		}
		return sum == n
	})
}

func TestACoordinationTopicThatIsDeletedAndMadeAgainHeals(t *testing.T) {
	for _, pause := range []bool{false, true} {
		b := newBench(t, "t")
		b.fill("t", 4, 0, 50)
		var ms []*Marshaler
		var ks []*collector
		count := func() (n int) {
			for _, k := range ks {
				n += k.count()
			}
			return n
		}
		for _, name := range []string{"a", "b", "c"} {
			m := b.marshaler(name)
			ms = append(ms, m)
			ks = append(ks, collect(t, b.consumer(m, ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t")))
		}
		share(t, 4, ms...)
		eventually(t, "all messages", func() bool { return count() >= 200 })
		eventually(t, "offsets in kafka", func() bool { return b.committed("t", 4) == 200 })
		before := count()

		require.NoError(t, b.DeleteTopic(MarshalTopic))
		if pause {
			eventually(t, "claims that end", func() bool { return ms[0].State().Offset < 0 })
		}
		require.NoError(t, b.CreateTopic(MarshalTopic, 32, nil))
		eventually(t, "claims that end", func() bool { return ms[0].State().Offset < 0 || len(ms[0].State().Instances) < 3 })
		share(t, 4, ms...)
		b.fill("t", 4, 50, 10)
		eventually(t, "what is new", func() bool { return count() >= before+40 })
		assert.Equal(t, before+40, count(), "positions were kept")
		last := b.marshaler("d")
		b.consumer(last, ConsumerOptions{}, "t")
		share(t, 4, append(ms, last)...)
	}
}

// committed sums up the group's offsets in Kafka of the first partitions of a topic.
func (b *bench) committed(topic string, partitions int32) (sum int64) {
	b.t.Helper()
	for p := range partitions {
		at, _, err := b.Committed(testGroup, topic, p)
		require.NoError(b.t, err)
		sum += max(at, 0)
	}
	return sum
}

var _ = testutil.Text
