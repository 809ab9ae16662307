package testutil

import (
	"testing"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestWhatClientsAreToldOfALogCanBeChanged(t *testing.T) {
	c := NewCluster(t, WithTopic("t", 2))
	for p := range int32(2) {
		_, err := c.Produce("t", p, Text("0"), Text("1"), Text("2"))
		require.NoError(t, err)
		_, err = c.Produce("t", p, Text("3"), Text("4"))
		require.NoError(t, err)
	}
	offsets := func(ms []*sarama.ConsumerMessage) (all []int64) {
		for _, m := range ms {
			all = append(all, m.Offset)
		}
		return all
	}
	removeBatch := c.OnBatch("t", 1, func(b []byte) []byte { return Compact(b, func(offset int64) bool { return offset%2 == 0 }) })
	told := make(chan int64, 100)
	remove := c.OnFetch("t", 1, func(p *kmsg.FetchResponseTopicPartition) { told <- p.HighWatermark })
	assert.Equal(t, []int64{0, 1, 2, 3, 4}, offsets(read(t, client(t, c), "t", 0, 5)), "another partition")
	assert.Empty(t, told)
	assert.Equal(t, []int64{0, 2, 4}, offsets(read(t, client(t, c), "t", 1, 3)))
	assert.EqualValues(t, 5, <-told)
	removeBatch()
	remove()
	assert.Equal(t, []int64{0, 1, 2, 3, 4}, offsets(read(t, client(t, c), "t", 1, 5)))
}

func TestCompactLeavesAloneWhatItCannotRead(t *testing.T) {
	none := func(int64) bool { return false }
	for _, b := range [][]byte{nil, {1, 2, 3}, make([]byte, batchHeader)} {
		assert.Equal(t, b, Compact(b, none))
	}
	compressed := encode([]Message{Text("x")})
	compressed[attributesAt+1] |= 1
	assert.Equal(t, compressed, Compact(compressed, none))
}

func TestAFullAnswerNamesTheAbortedTransactions(t *testing.T) {
	c := NewCluster(t, WithTopic("t", 1))
	txn := client(t, c, func(cfg *sarama.Config) {
		cfg.Producer.Idempotent, cfg.Producer.RequiredAcks, cfg.Net.MaxOpenRequests = true, sarama.WaitForAll, 1
		cfg.Producer.Transaction.ID = "x"
	})
	p, err := sarama.NewSyncProducerFromClient(txn)
	require.NoError(t, err)
	require.NoError(t, p.BeginTxn())
	for range 4 {
		_, _, err = p.SendMessage(&sarama.ProducerMessage{Topic: "t", Value: sarama.ByteEncoder(make([]byte, 400))})
		require.NoError(t, err)
	}
	require.NoError(t, p.AbortTxn())
	require.NoError(t, p.Close())
	_, err = c.Produce("t", 0, Text("seen"))
	require.NoError(t, err)

	r := kmsg.NewFetchRequest()
	r.Version, r.MaxBytes, r.IsolationLevel = 12, 1000, 1
	fp := kmsg.NewFetchRequestTopicPartition()
	fp.PartitionMaxBytes = 1 << 20
	ft := kmsg.NewFetchRequestTopic()
	ft.Topic, ft.Partitions = "t", append(ft.Partitions, fp)
	r.Topics = append(r.Topics, ft)
	resp, err := c.ask(c.Addrs()[0], &r)
	require.NoError(t, err)
	got := resp.(*kmsg.FetchResponse).Topics[0].Partitions[0]
	assert.Len(t, got.AbortedTransactions, 1)
	assert.NotEmpty(t, got.RecordBatches)
	assert.LessOrEqual(t, len(got.RecordBatches), 1000)
}
