package testutil

import (
	"encoding/binary"
	"math"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// maxMetadata is offset.metadata.max.bytes of a broker, by default.
const maxMetadata = 4096

// mender makes kfake answer as Apache Kafka does where the two are known to differ. Its methods are kfake controls: the
// broker runs one at a time, before it acts on the request, and they may ask it things.
type mender struct {
	k    *kfake.Cluster
	last int64 // the newest append time given out, Unix ms

	// refused are faults that answer for one request. kfake drops one that strikes; another fault may have answered in
	// its place, so what is left over goes with the next request.
	refused []*kfake.FaultHandle
}

func (m *mender) install(k *kfake.Cluster) {
	m.k = k
	watch := func(key kmsg.Key, look func(kmsg.Request)) {
		k.ControlKey(int16(key), func(r kmsg.Request) (kmsg.Response, error, bool) {
			for _, h := range m.refused {
				h.Remove()
			}
			m.refused = m.refused[:0]
			look(r)
			return nil, nil, false
		})
	}
	watch(kmsg.Produce, m.produce)
	watch(kmsg.Fetch, m.fetch)
	watch(kmsg.OffsetCommit, m.offsetCommit)
	watch(kmsg.CreateTopics, m.createTopics)
	watch(kmsg.CreatePartitions, m.createPartitions)
	watch(kmsg.AlterConfigs, m.alterConfigs)
	watch(kmsg.IncrementalAlterConfigs, m.incrementalAlterConfigs)
	k.ControlKey(int16(kmsg.OffsetFetch), m.offsetFetch)
}

// refuse makes the broker answer e for what f selects of request r, and of no other.
func (m *mender) refuse(r kmsg.Request, f kfake.Fault, e *kerr.Error) {
	f.Keys, f.Err, f.Count = []kmsg.Key{kmsg.Key(r.Key())}, e, 1
	f.When = func(o kmsg.Request) bool { return o == r }
	m.refused = append(m.refused, m.k.Fault(f))
}

// topic finds a topic by name, or by id where the request has no name.
func (m *mender) topic(name string, id [16]byte) *kfake.TopicInfo {
	if name == "" {
		return m.k.TopicIDInfo(id)
	}
	return m.k.TopicInfo(name)
}

// produce restamps what goes to a LogAppendTime topic, and refuses timestamps too far ahead elsewhere.
func (m *mender) produce(kr kmsg.Request) {
	r := kr.(*kmsg.ProduceRequest)
	now := time.Now().UnixMilli()
	for i := range r.Topics {
		t := &r.Topics[i]
		info := m.topic(t.Topic, t.TopicID)
		if info == nil {
			continue
		}
		if v := info.Configs["message.timestamp.type"]; v != nil && *v == "LogAppendTime" {
			m.last = max(m.last, now)
			for j := range t.Partitions {
				t.Partitions[j].Records = restamp(t.Partitions[j].Records, m.last)
			}
			continue
		}
		ahead := time.Hour.Milliseconds()
		if v := info.Configs["message.timestamp.after.max.ms"]; v != nil {
			if n, err := strconv.ParseInt(*v, 10, 64); err == nil {
				ahead = n
			}
		}
		var late []int32
		for _, p := range t.Partitions {
			if len(p.Records) >= batchHeader && int64(binary.BigEndian.Uint64(p.Records[maxTimestampAt:]))-now > ahead {
				late = append(late, p.Partition)
			}
		}
		if late != nil {
			m.refuse(r, kfake.Fault{Topic: t.Topic, TopicID: t.TopicID, Partitions: late}, kerr.InvalidTimestamp)
		}
	}
}

// fetch has an answer at read committed end at what may be had of a partition, not of all together: kfake leaves the aborted
// transactions out where an answer ends at its largest size.
func (m *mender) fetch(kr kmsg.Request) {
	r := kr.(*kmsg.FetchRequest)
	if r.IsolationLevel == 0 {
		return
	}
	for i := range r.Topics {
		for j := range r.Topics[i].Partitions {
			p := &r.Topics[i].Partitions[j]
			p.PartitionMaxBytes = min(p.PartitionMaxBytes, r.MaxBytes)
		}
	}
	r.MaxBytes = math.MaxInt32
}

// offsetCommit refuses metadata that is too large, partition by partition.
func (m *mender) offsetCommit(kr kmsg.Request) {
	r := kr.(*kmsg.OffsetCommitRequest)
	for _, t := range r.Topics {
		var large []int32
		for _, p := range t.Partitions {
			if p.Metadata != nil && len(*p.Metadata) > maxMetadata {
				large = append(large, p.Partition)
			}
		}
		if info := m.topic(t.Topic, t.TopicID); large != nil && info != nil {
			m.refuse(r, kfake.Fault{Group: r.Group, Topic: info.Topic, Partitions: large}, kerr.OffsetMetadataTooLarge)
		}
	}
}

// createTopics refuses settings that no broker would take.
func (m *mender) createTopics(kr kmsg.Request) {
	r := kr.(*kmsg.CreateTopicsRequest)
	for _, t := range r.Topics {
		for _, c := range t.Configs {
			if c.Value != nil && checkConfig(c.Name, *c.Value) != nil {
				m.refuse(r, kfake.Fault{Topic: t.Topic}, kerr.InvalidConfig)
				break
			}
		}
	}
}

// createPartitions refuses the count that the topic has already.
func (m *mender) createPartitions(kr kmsg.Request) {
	r := kr.(*kmsg.CreatePartitionsRequest)
	for _, t := range r.Topics {
		if int(t.Count) == len(m.k.PartitionInfos(t.Topic)) {
			m.refuse(r, kfake.Fault{Topic: t.Topic}, kerr.InvalidPartitions)
		}
	}
}

func (m *mender) alterConfigs(kr kmsg.Request) {
	r := kr.(*kmsg.AlterConfigsRequest)
	for _, e := range r.Resources {
		for _, c := range e.Configs {
			if e.ResourceType == kmsg.ConfigResourceTypeTopic && c.Value != nil && checkConfig(c.Name, *c.Value) != nil {
				m.refuse(r, kfake.Fault{Resource: e.ResourceName}, kerr.InvalidConfig)
				break
			}
		}
	}
}

func (m *mender) incrementalAlterConfigs(kr kmsg.Request) {
	r := kr.(*kmsg.IncrementalAlterConfigsRequest)
	for _, e := range r.Resources {
		for _, c := range e.Configs {
			set := c.Op == kmsg.IncrementalAlterConfigOpSet && c.Value != nil
			if e.ResourceType == kmsg.ConfigResourceTypeTopic && set && checkConfig(c.Name, *c.Value) != nil {
				m.refuse(r, kfake.Fault{Resource: e.ResourceName}, kerr.InvalidConfig)
				break
			}
		}
	}
}

// offsetFetch answers for groups that never committed: offset -1 without an error. It answers for the whole request
// where one of its groups is unknown, so faults do not see such a request.
func (m *mender) offsetFetch(kr kmsg.Request) (kmsg.Response, error, bool) {
	r := kr.(*kmsg.OffsetFetchRequest)
	single := r.Version < 8
	groups := r.Groups
	if single {
		g := kmsg.NewOffsetFetchRequestGroup()
		g.Group = r.Group
		for _, t := range r.Topics {
			gt := kmsg.NewOffsetFetchRequestGroupTopic()
			gt.Topic, gt.Partitions = t.Topic, t.Partitions
			g.Topics = append(g.Topics, gt)
		}
		groups = []kmsg.OffsetFetchRequestGroup{g}
	}
	unknown := false
	commits := make([]map[string]map[int32]kfake.GroupCommit, len(groups))
	for i, g := range groups {
		if m.k.CoordinatorFor(g.Group) != m.k.CurrentNode() {
			return nil, nil, false // the broker refuses
		}
		if info := m.k.GroupInfo(g.Group); info == nil {
			unknown = true
		} else {
			commits[i] = info.Commits
		}
	}
	if !unknown {
		return nil, nil, false
	}
	m.k.KeepControl()
	resp := r.ResponseKind().(*kmsg.OffsetFetchResponse)
	for i, g := range groups {
		resp.Groups = append(resp.Groups, m.offsets(g, commits[i]))
	}
	if single {
		for _, t := range resp.Groups[0].Topics {
			rt := kmsg.NewOffsetFetchResponseTopic()
			rt.Topic = t.Topic
			for _, p := range t.Partitions {
				rp := kmsg.NewOffsetFetchResponseTopicPartition()
				rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p.Partition, p.Offset, p.LeaderEpoch, p.Metadata
				rt.Partitions = append(rt.Partitions, rp)
			}
			resp.Topics = append(resp.Topics, rt)
		}
	}
	return resp, nil, true
}

// offsets is one group's part of an answer. A request without topics asks for all that is committed.
func (m *mender) offsets(g kmsg.OffsetFetchRequestGroup, commits map[string]map[int32]kfake.GroupCommit) kmsg.OffsetFetchResponseGroup {
	rg := kmsg.NewOffsetFetchResponseGroup()
	rg.Group = g.Group
	if g.Topics == nil {
		for _, name := range sortedKeys(commits) {
			t := kmsg.NewOffsetFetchRequestGroupTopic()
			t.Topic, t.Partitions = name, sortedKeys(commits[name])
			g.Topics = append(g.Topics, t)
		}
	}
	for _, t := range g.Topics {
		name := t.Topic
		if info := m.topic(t.Topic, t.TopicID); info != nil {
			name = info.Topic
		}
		rt := kmsg.NewOffsetFetchResponseGroupTopic()
		rt.Topic, rt.TopicID = t.Topic, t.TopicID
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
			rp.Partition, rp.Offset, rp.LeaderEpoch, rp.Metadata = p, -1, -1, kmsg.StringPtr("")
			if c, ok := commits[name][p]; ok {
				rp.Offset, rp.LeaderEpoch, rp.Metadata = c.Offset, c.LeaderEpoch, kmsg.StringPtr(c.Metadata)
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		rg.Topics = append(rg.Topics, rt)
	}
	return rg
}
