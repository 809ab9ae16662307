//go:build integration

package integration

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/testutil"
	"github.com/kafka-marshal/marshal/testutil/workers"
)

// handed gives what was handed out of a place by claims whose token is larger than one, as a list in the order of time.
func (s *stage) handed(p testutil.Place, after int64) (offsets []int64, token int64) {
	s.t.Helper()
	logs, err := testutil.ReadHandoutLogs(s.dir)
	require.NoError(s.t, err)
	for _, l := range logs {
		for _, h := range l.Handouts {
			if h.Place != p || h.Token <= after {
				continue
			}
			token = max(token, h.Token)
			for o := h.First; o <= h.Last; o++ {
				offsets = append(offsets, o)
			}
		}
	}
	return offsets, token
}

// firstAt is when the first message came out of a place under a token larger than one.
func (s *stage) firstAt(p testutil.Place, after int64) time.Duration {
	s.t.Helper()
	logs, err := testutil.ReadHandoutLogs(s.dir)
	require.NoError(s.t, err)
	first := int64(math.MaxInt64)
	for _, l := range logs {
		for _, h := range l.Handouts {
			if h.Place == p && h.Token > after {
				first = min(first, h.After)
			}
		}
	}
	return time.Duration(first)
}

func from(first, end int64) []int64 {
	var all []int64
	for o := first; o < end; o++ {
		all = append(all, o)
	}
	return all
}

// Seek and SeekTime while processes read, by one of them that does not hold the partitions.
func TestSeekOnARunningGroup(t *testing.T) {
	on(t, oneBroker|embedded)
	s := open(t, ttl(3*time.Second))
	const partitions, n = 4, 300
	topic := s.topic("t", partitions, nil)
	s.fill(topic, partitions, n)
	s.start(s.worker("a", []string{topic}))
	s.start(s.worker("b", []string{topic}))
	operator := s.join(s.worker("operator", []string{topic}, func(w *workers.Worker) { w.Options.Weight = 1 }))
	s.balanced(3, partitions)
	s.settle()
	tokens := map[testutil.Place]int64{}
	var took []time.Duration
	for p := range int32(partitions) {
		place := testutil.Place{Topic: topic, Partition: p}
		_, tokens[place] = s.handed(place, 0)
		begun := testutil.Now()
		require.NoError(t, operator.Consumer.Seek(s.within(patience), topic, p, int64(100+p)))
		s.wait("the first message after a seek", func() bool { got, _ := s.handed(place, tokens[place]); return len(got) > 0 })
		took = append(took, s.firstAt(place, tokens[place])-time.Duration(begun))
	}
	for p := range int32(partitions) {
		place := testutil.Place{Topic: topic, Partition: p}
		s.wait("everything from there", func() bool { got, _ := s.handed(place, tokens[place]); return len(got) >= n-100-int(p) })
		got, _ := s.handed(place, tokens[place])
		require.Equal(t, from(int64(100+p), n), got, "%v", place)
		_, tokens[place] = s.handed(place, 0)
	}
	figure(t, "Seek to the first message at the holder, in this process or another: %s", spread(took))

	s.rest(50 * time.Millisecond) // the clock of the broker goes on
	since := time.Now()
	s.rest(50 * time.Millisecond)
	s.fill(topic, partitions, 10)
	s.settle()
	for p := range int32(partitions) {
		place := testutil.Place{Topic: topic, Partition: p}
		s.wait("what was new", func() bool {
			_, now := s.handed(place, 0)
			got, _ := s.handed(place, tokens[place]-1)
			return now >= tokens[place] && len(got) >= 10
		})
		_, tokens[place] = s.handed(place, 0)
	}
	require.NoError(t, operator.Consumer.SeekTime(s.within(patience), topic, since))
	for p := range int32(partitions) {
		place := testutil.Place{Topic: topic, Partition: p}
		s.wait("all since then again", func() bool { got, _ := s.handed(place, tokens[place]); return len(got) >= 10 })
		got, _ := s.handed(place, tokens[place])
		require.Equal(t, from(n, n+10), got, "%v", place)
	}
	s.finish()
}

// A stopped group is set back with Kafka's own tool.
func TestOffsetsSetFromOutside(t *testing.T) {
	apart(t)
	s := open(t, ttl(3*time.Second))
	const partitions, n, back = 4, 200, 50
	topic := s.topic("t", partitions, nil)
	s.fill(topic, partitions, n)
	s.start(s.worker("a", []string{topic}))
	s.start(s.worker("b", []string{topic}))
	s.balanced(2, partitions)
	s.finish()
	tokens := map[testutil.Place]int64{}
	for p := range int32(partitions) {
		place := testutil.Place{Topic: topic, Partition: p}
		_, tokens[place] = s.handed(place, 0)
	}
	if s.own == nil {
		kafkaScript(t, "reset-offsets", s.group, "--topic", topic, "--to-offset", fmt.Sprint(back))
	} else {
		var cs []kafka.Committed
		for p := range int32(partitions) {
			cs = append(cs, kafka.Committed{Topic: topic, Partition: p, Offset: back})
		}
		require.NoError(t, s.client.CommitOffsets(s.within(patience), s.group, cs))
	}
	s.start(s.worker("a2", []string{topic}, as("a")))
	s.start(s.worker("c", []string{topic}))
	for p := range int32(partitions) {
		place := testutil.Place{Topic: topic, Partition: p}
		s.wait("everything from there", func() bool { got, _ := s.handed(place, tokens[place]); return len(got) >= n-back })
		got, _ := s.handed(place, tokens[place])
		require.Equal(t, from(back, n), got, "%v", place)
	}
	s.balanced(2, partitions)
	s.finish()
	figure(t, "set back to %d of %d by Kafka's tool while stopped: each partition went on there, told %d times", back, n, s.said("set from outside"))
	assert.GreaterOrEqual(t, s.said("set from outside"), partitions)
}

// Flush makes positions durable in both places.
func TestFlush(t *testing.T) {
	on(t, oneBroker|embedded)
	s := open(t)
	const partitions, n = 4, 500
	topic := s.topic("t", partitions, nil)
	m := s.join(s.worker("a", []string{topic}, func(w *workers.Worker) { w.Options.CommitInterval = time.Minute }))
	s.start(s.worker("b", []string{topic}, func(w *workers.Worker) { w.Options.MaximumClaims = 1 }))
	s.until("three here", func(v view) bool { return v.holds["a"] == 3 })
	var took []time.Duration
	for round := range 10 {
		s.fill(topic, partitions, n/10)
		s.wait("all finished", func() bool {
			v := s.look()
			for p := range int32(partitions) {
				place := testutil.Place{Topic: topic, Partition: p}
				if got, _ := s.handed(place, 0); v.owner[place] == "a" && len(got) < (round+1)*n/10 {
					return false
				}
			}
			return m.Consumer.Lag() == 0
		})
		begun := time.Now()
		require.NoError(t, m.Consumer.Flush(s.within(patience)))
		took = append(took, time.Since(begun))
		v := s.look()
		for p := range int32(partitions) {
			place := testutil.Place{Topic: topic, Partition: p}
			if v.owner[place] != "a" {
				continue
			}
			cs := []kafka.Committed{{Topic: topic, Partition: p}}
			require.NoError(t, s.client.FetchOffsets(s.within(patience), s.group, cs))
			assert.EqualValues(t, (round+1)*n/10, cs[0].Offset, "%v in Kafka", place)
			s.until("the watcher to have read it", func(v view) bool { return v.next[place] == int64((round+1)*n/10) })
		}
	}
	figure(t, "Flush of three partitions: %s", spread(took))
	s.finish()
	s.judge()
}

// The start of the log goes away below the position of a stopped group.
func TestLogStartCut(t *testing.T) {
	apart(t)
	const partitions, n, more, cut = 2, 100, 400, 300
	for name, c := range map[string]struct {
		policy marshal.OutOfRange
		begins int64
	}{"earliest": {marshal.ResetToEarliest, cut}, "latest": {marshal.ResetToLatest, n + more}, "fail": {marshal.FailOutOfRange, -1}} {
		t.Run(name, func(t *testing.T) {
			apart(t)
			s := open(t, ttl(2*time.Second))
			topic := s.topic("t", partitions, nil)
			s.fill(topic, partitions, n)
			s.start(s.worker("a", []string{topic}))
			s.balanced(1, partitions)
			s.finish()
			s.fill(topic, partitions, more)
			require.NoError(t, s.admin.DeleteRecords(topic, map[int32]int64{0: cut, 1: cut}))
			tokens := map[int32]int64{}
			for p := range int32(partitions) {
				_, tokens[p] = s.handed(testutil.Place{Topic: topic, Partition: p}, 0)
			}
			s.start(s.worker("b", []string{topic}, func(w *workers.Worker) { w.Options.OnOutOfRange = c.policy }))
			s.balanced(1, partitions)
			if c.begins < 0 {
				s.wait("both to fail", func() bool { return s.said("partition failed") >= 2 })
				for p := range int32(partitions) {
					got, _ := s.handed(testutil.Place{Topic: topic, Partition: p}, tokens[p])
					assert.Empty(t, got)
				}
				return
			}
			if c.policy == marshal.ResetToLatest {
				s.wait("both to go on at the end", func() bool { return s.said("no longer in the log") >= partitions })
			}
			s.fill(topic, partitions, 10)
			for p := range int32(partitions) {
				place := testutil.Place{Topic: topic, Partition: p}
				s.wait("everything from there", func() bool { got, _ := s.handed(place, tokens[p]); return len(got) >= int(n+more+10-c.begins) })
				got, _ := s.handed(place, tokens[p])
				assert.Equal(t, from(c.begins, n+more+10), got, "%v", place)
			}
			s.finish()
		})
	}
}

// Transactions, committed and aborted, of a producer that ends them one after the other.
func TestTransactions(t *testing.T) {
	apart(t)
	s := open(t, ttl(3*time.Second))
	const partitions, transactions = 2, 20
	topic := s.topic("t", partitions, nil)
	committed := func(w *workers.Worker) { w.Options.IsolationLevel = sarama.ReadCommitted }
	s.start(s.worker("a", []string{topic}, committed))
	s.start(s.worker("b", []string{topic}, committed, func(w *workers.Worker) { w.Read = workers.Batches }))
	s.balanced(2, partitions)
	cfg := sarama.NewConfig()
	cfg.Version = sarama.V2_8_0_0
	cfg.Producer.Idempotent, cfg.Producer.RequiredAcks, cfg.Net.MaxOpenRequests = true, sarama.WaitForAll, 1
	cfg.Producer.Transaction.ID, cfg.Producer.Return.Successes = "transaction-"+s.run, true
	cfg.Producer.Retry.Max, cfg.Producer.Transaction.Retry.Max = 50, 100
	cfg.Producer.Partitioner = sarama.NewManualPartitioner
	producer, err := sarama.NewSyncProducer(s.addrs, cfg)
	require.NoError(t, err)
	defer producer.Close()
	aborted := 0
	for i := range transactions {
		abort := i%3 == 1
		require.NoError(t, producer.BeginTxn())
		for p := range int32(partitions) {
			for range 5 {
				_, at, err := producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Partition: p, Value: sarama.StringEncoder(fmt.Sprint(i))})
				require.NoError(t, err)
				if !abort {
					s.wrote(testutil.Place{Topic: topic, Partition: p}, at, at+1)
				}
			}
		}
		if abort {
			aborted++
			require.NoError(t, producer.AbortTxn())
		} else {
			require.NoError(t, producer.CommitTxn())
		}
	}
	s.finish()
	v := s.judge() // it finds what was handed out and is not in the books
	assert.Zero(t, v.Duplicates)
	figure(t, "%d transactions, %d aborted: %d messages handed out, none of an aborted one", transactions, aborted, v.Delivered)
}
