package testutil

import (
	"encoding/binary"
	"slices"

	"github.com/twmb/franz-go/pkg/kbin"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// onFetch is a change to what fetch answers say of one partition.
type onFetch struct {
	topic     string
	id        [16]byte
	partition int32
	change    func(*kmsg.FetchResponseTopicPartition)
}

// OnFetch changes what clients are told of a partition by fetch answers, until remove is called: what a broken disk, an
// election, or the log cleaner makes of a log, and kfake cannot. change is called for one answer at a time. The topic is the one
// that has the name now.
func (c *Cluster) OnFetch(topic string, partition int32, change func(*kmsg.FetchResponseTopicPartition)) (remove func()) {
	o := &onFetch{topic: topic, partition: partition, change: change}
	if info := c.k.TopicInfo(topic); info != nil {
		o.id = info.TopicID
	}
	f := c.faults
	f.mu.Lock()
	defer f.mu.Unlock()
	f.onFetch = append(f.onFetch, o)
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.onFetch = slices.DeleteFunc(f.onFetch, func(other *onFetch) bool { return other == o })
	}
}

// OnBatch is OnFetch for each record batch: change gives what is sent in its place, nil to leave it out. It may change
// what it is given.
func (c *Cluster) OnBatch(topic string, partition int32, change func(batch []byte) []byte) (remove func()) {
	return c.OnFetch(topic, partition, func(p *kmsg.FetchResponseTopicPartition) {
		raw := p.RecordBatches
		out := make([]byte, 0, len(raw))
		for len(raw) >= batchHeader {
			n := min(int(binary.BigEndian.Uint32(raw[lengthAt:]))+lengthAt+4, len(raw))
			out = append(out, change(slices.Clone(raw[:n]))...)
			raw = raw[n:]
		}
		p.RecordBatches = out
	})
}

// Compact is what the log cleaner makes of an uncompressed batch: it has the records that keep wants, and its first and last
// offset as before. What is no such batch comes back as it is.
func Compact(batch []byte, keep func(offset int64) bool) []byte {
	var b kmsg.RecordBatch
	if len(batch) < batchHeader || b.ReadFrom(batch) != nil || b.Attributes&codecBits != 0 {
		return batch
	}
	var kept []byte
	n := int32(0)
	for in := b.Records; len(in) > 0; {
		l, head := binary.Varint(in)
		if head <= 0 || l < 0 || l > int64(len(in)-head) {
			return batch
		}
		record := in[:head+int(l)]
		in = in[len(record):]
		var r kmsg.Record
		if r.ReadFrom(record) != nil {
			return batch
		}
		if keep(b.FirstOffset + int64(r.OffsetDelta)) {
			kept = append(kept, record...)
			n++
		}
	}
	b.Records, b.NumRecords = kept, n
	return seal(b.AppendTo(nil))
}

// changed gives what is sent in place of a fetch answer. What cannot be read is sent as it is.
func (f *Faults) changed(r request, answer []byte) []byte {
	const fetchKey, head, flexible = 1, 8, 12 // the size and the correlation id; tags follow from version 12 on
	if r.key != fetchKey || r.client == harness || len(answer) < head {
		return answer
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.onFetch) == 0 {
		return answer
	}
	resp := kmsg.NewPtrFetchResponse()
	resp.Version = r.version
	in := kbin.Reader{Src: answer[head:]}
	if r.version >= flexible {
		kmsg.SkipTags(&in)
	}
	if !in.Ok() || resp.ReadFrom(in.Src) != nil {
		return answer
	}
	for i := range resp.Topics {
		t := &resp.Topics[i]
		for j := range t.Partitions {
			for _, o := range f.onFetch {
				named := t.Topic == o.topic || t.Topic == "" && t.TopicID == o.id
				if named && t.Partitions[j].Partition == o.partition {
					o.change(&t.Partitions[j])
				}
			}
		}
	}
	out := append(make([]byte, 0, len(answer)+64), answer[:head]...)
	if r.version >= flexible {
		out = append(out, 0)
	}
	out = resp.AppendTo(out)
	binary.BigEndian.PutUint32(out, uint32(len(out)-4))
	return out
}
