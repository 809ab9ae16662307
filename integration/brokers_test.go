//go:build integration

package integration

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/testutil"
	"github.com/kafka-marshal/marshal/testutil/workers"
)

// shard is where the group's log is: a constant of the protocol.
func (s *stage) shard() int32 {
	sum := sha256.Sum256([]byte(s.group))
	return int32(binary.BigEndian.Uint64(sum[:8]) % 32)
}

// leader asks which broker leads a partition.
func (s *stage) leader(topic string, partition int32) int32 {
	s.t.Helper()
	var id int32
	s.wait("a leader of "+topic, func() bool {
		topics, err := s.client.Topics(s.within(patience), topic)
		if err != nil || len(topics[topic].Partitions) <= int(partition) {
			return false
		}
		id = topics[topic].Partitions[partition].Leader
		return id > 0
	})
	return id
}

// outage has three processes read a topic with replicas while something happens to a broker, and looks at what it cost. There are
// always messages to read: that nobody can write any is not what is looked at.
func outage(t *testing.T, choose func(s *stage, topic string) int32, act func(s *stage, broker string)) {
	on(t, threeBrokers)
	s := open(t)
	const partitions = 6
	topic := s.topic("t", partitions, nil)
	s.fillBy(topic, partitions, 5_000, 40)
	for i := range 3 {
		s.start(s.worker(fmt.Sprint("w", i), []string{topic}, func(w *workers.Worker) {
			w.Readers, w.Pace, w.Options.StrictOrdering, w.Options.MaxBufferedBytes = 4, steady, true, 64<<10
		}))
	}
	s.balanced(3, partitions)
	s.rest(3 * time.Second)
	before, begun := s.look(), testutil.Now()
	broker := choose(s, topic)
	led := map[int32]bool{}
	for p := range int32(partitions) {
		led[p] = s.leader(topic, p) == broker
	}
	act(s, fmt.Sprint(broker))
	s.wait("messages again", func() bool { return s.flowing(topic, partitions) })
	s.rest(3 * time.Second)
	s.balanced(3, partitions)
	assert.Zero(t, moved(before, s.look()), "everybody has what it had")
	s.finish()
	s.judge()
	evicted := s.said(declaredDead) + s.said(died)
	figure(t, "hand-out paused, longest of each partition: of those that the broker led %s, of the others %s; evictions of anyone alive: %d",
		spread(s.pauses(topic, begun, func(p int32) bool { return led[p] })), spread(s.pauses(topic, begun, func(p int32) bool { return !led[p] })), evicted)
	assert.Zero(t, evicted)
}

// flowing tells whether every partition had a message in the last second.
func (s *stage) flowing(topic string, partitions int) bool {
	s.t.Helper()
	logs, err := testutil.ReadHandoutLogs(s.dir)
	require.NoError(s.t, err)
	fresh := map[int32]bool{}
	for _, l := range logs {
		for _, h := range l.Handouts {
			if h.Topic == topic && h.After > testutil.Now()-time.Second.Nanoseconds() {
				fresh[h.Partition] = true
			}
		}
	}
	return len(fresh) == partitions
}

// pauses gives for each partition the longest time between two messages, of those that ended after a moment.
func (s *stage) pauses(topic string, since int64, of func(partition int32) bool) []time.Duration {
	s.t.Helper()
	logs, err := testutil.ReadHandoutLogs(s.dir)
	require.NoError(s.t, err)
	at := map[int32][]int64{}
	for _, l := range logs {
		for _, h := range l.Handouts {
			if h.Topic == topic && of(h.Partition) {
				at[h.Partition] = append(at[h.Partition], h.After)
			}
		}
	}
	var took []time.Duration
	for _, times := range at {
		slices.SortFunc(times, cmp.Compare[int64])
		longest := int64(0)
		for i := 1; i < len(times); i++ {
			if times[i] > since {
				longest = max(longest, times[i]-times[i-1])
			}
		}
		took = append(took, time.Duration(longest))
	}
	return took
}

func shardLeader(s *stage, _ string) int32 { return s.leader(marshal.MarshalTopic, s.shard()) }

// dataLeader leads data, and not the shard.
func dataLeader(s *stage, topic string) int32 {
	shard := shardLeader(s, topic)
	for p := range int32(6) {
		if id := s.leader(topic, p); id != shard {
			return id
		}
	}
	s.t.Fatal("one broker leads everything")
	return 0
}

func kill(s *stage, broker string) {
	begun := time.Now()
	kafkaScript(s.t, "kill", broker)
	s.wait("an election", func() bool { return fmt.Sprint(s.leader(marshal.MarshalTopic, s.shard())) != broker })
	figure(s.t, "Kafka had a leader of the shard %v after the kill", time.Since(begun).Round(time.Millisecond))
	s.wait("messages again", func() bool { return s.flowing(s.topics()[0], 6) })
	kafkaScript(s.t, "up", broker)
}

func TestShardLeaderKilled(t *testing.T) { outage(t, shardLeader, kill) }

func TestDataLeaderKilled(t *testing.T) { outage(t, dataLeader, kill) }

func TestShardLeaderFrozen(t *testing.T) {
	outage(t, shardLeader, func(s *stage, broker string) {
		kafkaScript(s.t, "freeze", broker)
		s.rest(15 * time.Second)
		kafkaScript(s.t, "thaw", broker)
	})
}

func TestRollingBrokerRestart(t *testing.T) {
	outage(t, shardLeader, func(s *stage, _ string) {
		for i := range 3 {
			kafkaScript(s.t, "restart", fmt.Sprint(i+1))
			s.wait("messages again", func() bool { return s.flowing(s.topics()[0], 6) })
			s.rest(2 * time.Second)
		}
	})
}
