//go:build integration

package integration

import (
	"slices"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/testutil"
	"github.com/kafka-marshal/marshal/testutil/workers"
)

// A topic that is made while the group waits for it, and grows.
func TestTopicThatAppearsAndGrows(t *testing.T) {
	apart(t)
	s := open(t, ttl(3*time.Second))
	name := "later-" + s.run
	s.start(s.worker("a", []string{name}))
	s.start(s.worker("b", []string{name}))
	s.until("both", func(v view) bool { return v.members == 2 })
	s.create(name, 4, nil)
	begun := time.Now()
	s.balanced(2, 4)
	figure(t, "a new topic is shared %v after it had leaders (it is asked for each second)", time.Since(begun).Round(time.Millisecond))
	s.fill(name, 4, 100)
	require.NoError(t, s.admin.CreatePartitions(name, 10, nil, false))
	s.wait("leaders", func() bool { return s.partitions(name) == 10 })
	begun = time.Now()
	s.balanced(2, 10)
	figure(t, "6 more partitions are shared %v after", time.Since(begun).Round(time.Millisecond))
	s.fill(name, 10, 50) // they begin at 0, whoever wrote to them before they were claimed
	s.finish()
	v := s.judge()
	assert.Zero(t, v.Duplicates)
}

// A topic that is deleted and made again under its name is another one: its offsets begin at 0.
func TestRecreatedTopic(t *testing.T) {
	apart(t)
	s := open(t, ttl(3*time.Second))
	const partitions, n = 4, 100
	topic := s.topic("t", partitions, nil)
	s.fill(topic, partitions, n)
	s.start(s.worker("a", []string{topic}))
	s.start(s.worker("b", []string{topic}))
	s.balanced(2, partitions)
	s.settle()
	count := func() int {
		logs, err := testutil.ReadHandoutLogs(s.dir)
		require.NoError(t, err)
		n := 0
		for _, l := range logs {
			n += len(l.Handouts)
		}
		return n
	}
	require.Equal(t, partitions*n, count())
	s.recreated = true
	require.NoError(t, s.admin.DeleteTopic(topic))
	s.wait("it is gone", func() bool { return s.partitions(topic) == 0 })
	s.create(topic, partitions, nil)
	begun := time.Now()
	s.produced = map[testutil.Place][]testutil.Span{}
	s.fill(topic, partitions, n/2)
	s.wait("all of its new life", func() bool { return count() >= partitions*(n+n/2) })
	figure(t, "everything of a recreated topic was read %v after it had leaders", time.Since(begun).Round(time.Millisecond))
	s.balanced(2, partitions)
	s.rest(time.Second)
	assert.Equal(t, partitions*(n+n/2), count(), "each message of both lives once")
	s.finish()
}

// The broker's clock: the coordination topic has it, and a data topic may.
func TestLogAppendTime(t *testing.T) {
	apart(t)
	s := open(t)
	results, err := s.admin.DescribeConfigs([]*sarama.ConfigResource{{Type: sarama.TopicResource, Name: marshal.MarshalTopic}}, sarama.DescribeConfigsOptions{})
	require.NoError(t, err)
	require.Len(t, results, 1)
	entries := results[0].Configs
	at := slices.IndexFunc(entries, func(e sarama.ConfigEntry) bool { return e.Name == "message.timestamp.type" })
	require.GreaterOrEqual(t, at, 0)
	assert.Equal(t, "LogAppendTime", entries[at].Value)

	topic := s.topic("t", 1, map[string]string{"message.timestamp.type": "LogAppendTime"})
	s.fill(topic, 1, 10)
	s.rest(100 * time.Millisecond)
	since := time.Now()
	s.rest(100 * time.Millisecond)
	s.fill(topic, 1, 10)
	m := s.marshaler("reader")
	defer m.Terminate()
	c, err := m.NewConsumer([]string{topic}, marshal.ConsumerOptions{StartOffset: marshal.StartAt(since)})
	require.NoError(t, err)
	msg, err := c.FetchMessage(s.within(patience))
	require.NoError(t, err)
	assert.EqualValues(t, 10, msg.Offset, "the first that was appended since")
	assert.WithinDuration(t, time.Now(), msg.Timestamp, 30*time.Second)
	assert.False(t, msg.Timestamp.Before(since.Truncate(time.Millisecond)))
	require.NoError(t, msg.Commit())
}

// 1,000 partitions that nobody had before: one process, and ten that are started together.
func TestThousandPartitionsCold(t *testing.T) {
	on(t, oneBroker|embedded)
	const partitions = 1000
	var topic string
	for _, fleetSize := range []int{1, 10} {
		s := open(t)
		if topic == "" || s.own != nil {
			topic = s.topic("cold", partitions, nil)
		}
		w := func(i int) workers.Worker { return s.worker("w"+string(rune('0'+i)), []string{topic}) }
		begun := time.Now()
		for i := range fleetSize {
			s.start(w(i))
		}
		s.until("the first member", func(v view) bool { return v.members > 0 })
		joined := time.Since(begun)
		s.until("all held", func(v view) bool { return len(v.owner) == partitions && v.free() == 0 })
		held := time.Since(begun)
		s.balanced(fleetSize, partitions)
		figure(t, "%d process(es): the first has joined after %v, all 1,000 held after %v, balanced after %v",
			fleetSize, joined.Round(time.Millisecond), held.Round(time.Millisecond), time.Since(begun).Round(time.Millisecond))
		for _, p := range s.running() {
			s.term(p)
		}
		if fleetSize == 10 {
			require.NoError(t, s.admin.DeleteTopic(topic)) // so many logs keep a broker busy
		}
	}
}
