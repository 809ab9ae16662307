//go:build integration

package integration

import (
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/kafka"
)

// cutLog deletes every record of the stage's own coordination topic.
func (s *stage) cutLog() {
	s.t.Helper()
	topics, err := s.client.Topics(s.within(patience), s.coordination)
	require.NoError(s.t, err)
	var queries []kafka.OffsetQuery
	for p := range topics[s.coordination].Partitions {
		queries = append(queries, kafka.OffsetQuery{Topic: s.coordination, Partition: int32(p), At: sarama.OffsetNewest})
	}
	ends := map[int32]int64{}
	for i, a := range s.client.Offsets(s.within(patience), queries) {
		require.NoError(s.t, a.Err)
		if a.Offset > 0 {
			ends[int32(i)] = a.Offset
		}
	}
	require.NotEmpty(s.t, ends)
	require.NoError(s.t, s.admin.DeleteRecords(s.coordination, ends))
}

// The start of the coordination log goes away while members live: they go on, and who comes later begins at their snapshot.
func TestCoordinationLogCutBeforeLivingMembers(t *testing.T) {
	apart(t)
	s := open(t, ttl(3*time.Second), apartLog)
	const partitions = 6
	topic := s.topic("t", partitions, nil)
	s.load(topic, partitions, steady)
	s.start(s.worker("a", []string{topic}))
	s.start(s.worker("b", []string{topic}))
	s.balanced(2, partitions)
	for _, name := range []string{"c", "d"} {
		s.rest(time.Second)
		before := s.look()
		s.cutLog()
		s.rest(time.Second)
		assert.Zero(t, moved(before, s.look()), "nobody noticed")
		begun := time.Now()
		s.start(s.worker(name, []string{topic}))
		s.balanced(len(before.holds)+1, partitions)
		figure(t, "a newcomer to a log without its beginning has its share %v after its start", time.Since(begun).Round(time.Millisecond))
	}
	s.finish()
	v := s.judge()
	assert.Zero(t, v.Duplicates)
	assert.Zero(t, s.said(declaredDead))
}

// The whole coordination log goes away while nobody lives: the group goes on at its offsets in Kafka.
func TestCoordinationLogCutWhileNobodyLives(t *testing.T) {
	apart(t)
	s := open(t, ttl(2*time.Second), apartLog)
	const partitions = 4
	topic := s.topic("t", partitions, nil)
	s.load(topic, partitions, steady)
	a := s.start(s.worker("a", []string{topic}))
	b := s.start(s.worker("b", []string{topic}))
	s.balanced(2, partitions)
	s.rest(time.Second)
	s.term(a)
	s.term(b)
	s.watcher.Terminate()
	s.cutLog()
	begun := time.Now()
	s.watcher = s.marshaler("watcher")
	figure(t, "a group whose log is gone begins afresh after %v (it waits for the largest lease once)", time.Since(begun).Round(time.Millisecond))
	s.start(s.worker("a2", []string{topic}, as("a")))
	s.start(s.worker("c", []string{topic}))
	s.balanced(2, partitions)
	s.finish()
	v := s.judge()
	assert.Zero(t, v.Duplicates)
}
