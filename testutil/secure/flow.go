package secure

import (
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Run tests all there is to security on brokers that open gives.
func Run(t *testing.T, open func(*testing.T, Kind) *Brokers) {
	t.Run("flow", func(t *testing.T) { flows(t, open) })
	t.Run("refused", func(t *testing.T) { refusals(t, open) })
	t.Run("midlife", func(t *testing.T) { midlife(t, open) })
	t.Run("rights", func(t *testing.T) { rights(t, open) })
}

// flows: over each kind of connection a group consumes, commits, and hands over.
func flows(t *testing.T, open func(*testing.T, Kind) *Brokers) {
	for _, c := range []struct {
		kind      Kind
		mechanism sarama.SASLMechanism
	}{
		{TLS, ""}, {MutualTLS, ""}, {SASL, sarama.SASLTypePlaintext}, {SASL, sarama.SASLTypeSCRAMSHA256}, {SASL, sarama.SASLTypeSCRAMSHA512},
		{SASLTLS, sarama.SASLTypePlaintext}, {SASLTLS, sarama.SASLTypeSCRAMSHA256}, {SASLTLS, sarama.SASLTypeSCRAMSHA512},
	} {
		t.Run(string(c.kind)+" "+string(c.mechanism), func(t *testing.T) {
			l := newLab(t, open, c.kind)
			who := login{}
			if c.mechanism != "" {
				who = as(c.mechanism, Worker)
			}
			topic, group := l.names(4)
			l.produce(topic, 4, 5)
			a := l.mustJoin("a", group, who).consume(topic)
			eventually(t, "a reads all", func() bool { return a.count() == 20 })
			b := l.mustJoin("b", group, who).consume(topic)
			eventually(t, "each has a half", func() bool { return a.holds() == 2 && b.holds() == 2 })
			a.end()
			eventually(t, "b has all", func() bool { return b.holds() == 4 })
			l.produce(topic, 4, 5)
			eventually(t, "b reads the rest", func() bool { return b.count() >= 20 })
			b.end()
			assert.Equal(t, 40, a.count()+b.count(), "nothing came twice")
			l.committed(group, topic, 4, 10)
		})
	}
}

// holds is how many partitions a process has.
func (p *process) holds() int {
	n := 0
	for _, k := range p.m.State().Keys {
		if k.Instance != "" && k.Client == p.m.ClientID() {
			n++
		}
	}
	return n
}

// committed waits until a group's offset of each partition is next.
func (l *lab) committed(group, topic string, partitions int32, next int64) {
	l.t.Helper()
	all := make([]int32, partitions)
	for i := range all {
		all[i] = int32(i)
	}
	require.Eventually(l.t, func() bool {
		r, err := l.admin.ListConsumerGroupOffsets(group, map[string][]int32{topic: all})
		if err != nil {
			return false
		}
		for _, id := range all {
			if b := r.GetBlock(topic, id); b == nil || b.Offset != next {
				return false
			}
		}
		return true
	}, patience, 100*time.Millisecond, "committed offsets of %s", topic)
}
