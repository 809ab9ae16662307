package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// FuzzFetchAnswer: whatever a broker answers to a fetch, it is an error or it is about what was asked.
func FuzzFetchAnswer(f *testing.F) {
	id := [16]byte{1}
	for _, v := range []int16{4, 12, 13, 18} {
		r := kmsg.NewPtrFetchResponse()
		r.SetVersion(v)
		rt := kmsg.NewFetchResponseTopic()
		rt.Topic, rt.TopicID = "t", id
		for p := range int32(3) {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition, rp.RecordBatches = p, []byte("abc")
			rp.DivergingEpoch.Epoch, rp.CurrentLeader.LeaderID = 2, 3
			rp.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 1}}
			rt.Partitions = append(rt.Partitions, rp)
		}
		r.Topics = append(r.Topics, rt)
		r.Brokers = []kmsg.FetchResponseBroker{{NodeID: 1, Host: "h", Port: 1}}
		head := []byte{0, 0, 0, 7}
		if r.IsFlexible() {
			head = append(head, 0)
		}
		f.Add(r.AppendTo(head), v)
	}
	f.Fuzz(func(t *testing.T, frame []byte, version int16) {
		if len(frame) < 4 || version < 4 || version > 18 {
			return
		}
		fc := &FetchConn{c: &Client{brokers: map[int32]string{}, topics: map[string]Topic{}}, conn: &conn{}}
		fc.note([]FetchPart{{Topic: "t", TopicID: id}, {Topic: "t", TopicID: id, Partition: 1}, {Topic: "t", TopicID: id, Partition: 2}})
		fc.sent.SetVersion(version)
		fc.resp.SetVersion(version)
		if fc.conn.decode(frame, 7, &fc.resp) != nil {
			return
		}
		a := &FetchAnswer{buf: frame}
		fc.fillAnswer(a)
		require.LessOrEqual(t, len(a.Parts), 3)
		seen := map[int32]bool{}
		for _, p := range a.Parts {
			require.Equal(t, "t", p.Topic)
			require.False(t, seen[p.Partition])
			require.True(t, p.Partition >= 0 && p.Partition < 3)
			seen[p.Partition] = true
		}
	})
}
