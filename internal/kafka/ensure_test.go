package kafka

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

var spec = TopicSpec{Name: "__marshal", Partitions: 32, Retention: 7 * 24 * time.Hour, MayCreate: true}

func mayNotGrow(t *testing.T) func(Topic) error {
	return func(Topic) error { t.Error("asked whether it may grow"); return nil }
}

func TestAMissingTopicIsMadeWithOurSettings(t *testing.T) {
	for brokers, want := range map[int]string{1: "1", 2: "1", 3: "2", 5: "2"} {
		k := newCluster(t, kfake.NumBrokers(brokers), kfake.AllowAutoTopicCreation())
		c := dial(t, nil, k.ListenAddrs()...)
		topic, warnings, err := c.EnsureTopic(within(t, 2*time.Second), spec, mayNotGrow(t))
		require.NoError(t, err)
		require.Len(t, topic.Partitions, 32)
		assert.NotZero(t, topic.ID)
		for _, p := range topic.Partitions {
			assert.GreaterOrEqual(t, p.Leader, int32(0))
			assert.Equal(t, min(3, brokers), p.Replicas)
		}
		cfg, err := (&ensure{c: c, spec: spec}).describe(t.Context())
		require.NoError(t, err)
		assert.Equal(t, "delete", cfg["cleanup.policy"])
		assert.Equal(t, "LogAppendTime", cfg["message.timestamp.type"])
		assert.Equal(t, want, cfg["min.insync.replicas"], "%d brokers", brokers)
		assert.Equal(t, "604800000", *k.TopicInfo("__marshal").Configs["retention.ms"])
		if brokers == 1 {
			require.Len(t, warnings, 1)
			assert.Contains(t, warnings[0], "replication factor 1")
		} else if brokers > 2 {
			assert.Empty(t, warnings)
		}
	}
}

func TestMakingItCanBeSwitchedOff(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.AllowAutoTopicCreation())
	c := dial(t, nil, k.ListenAddrs()...)
	s := spec
	s.MayCreate = false
	_, _, err := c.EnsureTopic(within(t, 5*time.Second), s, nil)
	require.ErrorIs(t, err, ErrUnknownTopic)
	assert.ErrorContains(t, err, "32 partitions, replication factor 3, cleanup.policy=delete, message.timestamp.type=LogAppendTime, retention.ms=604800000, min.insync.replicas=2")
	assert.Nil(t, k.TopicInfo("__marshal"))
	require.NoError(t, k.CreateTopic("__marshal", 8, nil))
	_, _, err = c.EnsureTopic(within(t, 5*time.Second), s, mayNotGrow(t))
	assert.ErrorContains(t, err, "it has 8 partitions and needs 32")
	assert.Len(t, k.PartitionInfos("__marshal"), 8)
}

func TestManyProcessesMakeItAtOnce(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(3))
	var wg sync.WaitGroup
	for range 8 {
		c := dial(t, nil, k.ListenAddrs()...)
		wg.Go(func() {
			topic, _, err := c.EnsureTopic(within(t, 5*time.Second), spec, nil)
			assert.NoError(t, err)
			assert.Len(t, topic.Partitions, 32)
		})
	}
	wg.Wait()
}

func TestASmallerTopicGrowsWhenItMay(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(3))
	require.NoError(t, k.CreateTopic("__marshal", 8, nil))
	c := dial(t, nil, k.ListenAddrs()...)
	no := errors.New("the original is at work")
	_, _, err := c.EnsureTopic(within(t, 5*time.Second), spec, func(topic Topic) error {
		assert.Len(t, topic.Partitions, 8)
		return no
	})
	require.ErrorIs(t, err, no)
	assert.Len(t, k.PartitionInfos("__marshal"), 8)
	asked := 0
	topic, _, err := c.EnsureTopic(within(t, 5*time.Second), spec, func(Topic) error { asked++; return nil })
	require.NoError(t, err)
	assert.Len(t, topic.Partitions, 32)
	assert.Equal(t, 1, asked)
}

func TestALargerTopicIsLeftAsItIs(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(3))
	require.NoError(t, k.CreateTopic("__marshal", 40, nil))
	c := dial(t, nil, k.ListenAddrs()...)
	topic, _, err := c.EnsureTopic(within(t, 5*time.Second), spec, mayNotGrow(t))
	require.NoError(t, err)
	assert.Len(t, topic.Partitions, 40)
}

func TestSettingsThatBreakTheLogAreRefusedBeforeItGrows(t *testing.T) {
	for name, value := range map[string]string{"cleanup.policy": "compact", "unclean.leader.election.enable": "true"} {
		k := newCluster(t, kfake.NumBrokers(3))
		require.NoError(t, k.CreateTopic("__marshal", 8, map[string]string{name: value}))
		c := dial(t, nil, k.ListenAddrs()...)
		begin := time.Now()
		_, _, err := c.EnsureTopic(within(t, 5*time.Second), spec, mayNotGrow(t))
		require.ErrorContains(t, err, name+" is "+value)
		assert.Less(t, time.Since(begin), time.Second)
		assert.Len(t, k.PartitionInfos("__marshal"), 8)
	}
	k := newCluster(t, kfake.NumBrokers(3))
	require.NoError(t, k.CreateTopic("__marshal", 32, map[string]string{"cleanup.policy": "compact,delete"}))
	_, _, err := dial(t, nil, k.ListenAddrs()...).EnsureTopic(within(t, 5*time.Second), spec, nil)
	assert.ErrorContains(t, err, "cleanup.policy")
}

func TestWeakerSettingsAreWarnings(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(3))
	require.NoError(t, k.CreateTopic("__marshal", 32, map[string]string{"message.timestamp.type": "CreateTime", "min.insync.replicas": "1"}))
	_, warnings, err := dial(t, nil, k.ListenAddrs()...).EnsureTopic(within(t, 5*time.Second), spec, nil)
	require.NoError(t, err)
	require.Len(t, warnings, 2)
	assert.Contains(t, warnings[0], "message.timestamp.type is CreateTime")
	assert.Contains(t, warnings[1], "min.insync.replicas is 1")
}

func TestWhoMayNotDescribeTheSettingsIsWarned(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(3))
	require.NoError(t, k.CreateTopic("__marshal", 32, map[string]string{"cleanup.policy": "compact"}))
	control(k, kmsg.DescribeConfigs, func(req kmsg.Request) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.DescribeConfigsResponse)
		r := kmsg.NewDescribeConfigsResponseResource()
		r.ResourceName, r.ErrorCode = "__marshal", 29
		resp.Resources = append(resp.Resources, r)
		return resp
	})
	topic, warnings, err := dial(t, nil, k.ListenAddrs()...).EnsureTopic(within(t, 5*time.Second), spec, nil)
	require.NoError(t, err)
	assert.Len(t, topic.Partitions, 32)
	require.Len(t, warnings, 1)
	assert.Contains(t, warnings[0], "could not be checked")
}

func TestWhoMayNotMakeItIsToldWhatToDo(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(3), kfake.EnableSASL(), kfake.EnableACLs(),
		kfake.User("SCRAM-SHA-256", "u", "pw", kfake.ACL{Resource: kmsg.ACLResourceTypeTopic, Name: "__marshal",
			Pattern: kmsg.ACLResourcePatternTypeLiteral, Operation: kmsg.ACLOperationDescribe, Allow: true}))
	_, _, err := dial(t, scramConfig("pw"), k.ListenAddrs()...).EnsureTopic(within(t, 5*time.Second), spec, nil)
	require.True(t, Unauthorized(err), "%v", err)
	assert.ErrorContains(t, err, "grant Create")
	assert.ErrorContains(t, err, "32 partitions")
}

// headless answers metadata questions about __marshal, one partition of which has no leader for the first n times.
func headless(k *kfake.Cluster, controller int32, n int) *int {
	asked := 0
	control(k, kmsg.Metadata, func(req kmsg.Request) kmsg.Response {
		if len(req.(*kmsg.MetadataRequest).Topics) == 0 {
			return nil
		}
		asked++
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		resp.ControllerID = controller
		rt := kmsg.NewMetadataResponseTopic()
		rt.Topic = kmsg.StringPtr("__marshal")
		for p := range int32(32) {
			rp := kmsg.NewMetadataResponseTopicPartition()
			rp.Partition, rp.Leader, rp.Replicas = p, 0, []int32{0, 1, 2}
			if asked <= n && p == 5 {
				rp.Leader, rp.ErrorCode = -1, 5
			}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
		if asked == 1 && n > 0 {
			resp.Topics[0].ErrorCode, resp.Topics[0].Partitions = 3, nil
		}
		return resp
	})
	return &asked
}

func TestItWaitsUntilEachPartitionOfANewTopicHasALeader(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(3))
	c := dial(t, nil, k.ListenAddrs()...)
	asked := headless(k, c.controller, 4)
	topic, warnings, err := c.EnsureTopic(within(t, 2*time.Second), spec, nil)
	require.NoError(t, err)
	assert.Equal(t, 5, *asked)
	assert.EqualValues(t, 0, topic.Partitions[5].Leader)
	assert.Empty(t, warnings)

	k = newCluster(t, kfake.NumBrokers(3))
	c = dial(t, nil, k.ListenAddrs()...)
	headless(k, c.controller, 1000)
	_, _, err = c.EnsureTopic(within(t, 300*time.Millisecond), spec, nil)
	assert.ErrorIs(t, err, ErrNotLeader)
}

func TestAnOldTopicWithAPartitionWithoutLeaderServesWithAWarning(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(3))
	require.NoError(t, k.CreateTopic("__marshal", 32, nil))
	c := dial(t, nil, k.ListenAddrs()...)
	control(k, kmsg.Metadata, func(req kmsg.Request) kmsg.Response {
		resp := req.ResponseKind().(*kmsg.MetadataResponse)
		rt := kmsg.NewMetadataResponseTopic()
		rt.Topic = kmsg.StringPtr("__marshal")
		for p := range int32(32) {
			rp := kmsg.NewMetadataResponseTopicPartition()
			rp.Partition, rp.Leader, rp.Replicas = p, -1+min(p, 1), []int32{0, 1, 2}
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
		return resp
	})
	_, warnings, err := c.EnsureTopic(within(t, 5*time.Second), spec, nil)
	require.NoError(t, err)
	require.NotEmpty(t, warnings)
	assert.Contains(t, warnings[len(warnings)-1], "1 partitions have no leader")
}

func TestErrorsOfMakingATopic(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(3))
	c := dial(t, nil, k.ListenAddrs()...)
	var codes []int16
	control(k, kmsg.CreateTopics, func(req kmsg.Request) kmsg.Response {
		if len(codes) == 0 {
			return nil
		}
		resp := req.ResponseKind().(*kmsg.CreateTopicsResponse)
		if codes[0] != 0 {
			rt := kmsg.NewCreateTopicsResponseTopic()
			rt.Topic, rt.ErrorCode, rt.ErrorMessage = "__marshal", codes[0], kmsg.StringPtr("text of the broker")
			resp.Topics = append(resp.Topics, rt)
		}
		codes = codes[1:]
		return resp
	})
	codes = []int16{44}
	_, _, err := c.EnsureTopic(within(t, 5*time.Second), spec, nil)
	assert.ErrorContains(t, err, "text of the broker")
	codes = []int16{41, 7, 38, 36, 0} // not the controller, timed out, too few brokers alive, somebody else made it, no answer
	_, _, err = c.EnsureTopic(within(t, 2*time.Second), spec, nil)
	require.NoError(t, err)
	assert.Empty(t, codes)
}

func TestErrorsOfAddingPartitions(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(3))
	require.NoError(t, k.CreateTopic("__marshal", 8, nil))
	c := dial(t, nil, k.ListenAddrs()...)
	var codes []int16
	control(k, kmsg.CreatePartitions, func(req kmsg.Request) kmsg.Response {
		if len(codes) == 0 {
			return nil
		}
		resp := req.ResponseKind().(*kmsg.CreatePartitionsResponse)
		if codes[0] != 0 {
			rt := kmsg.NewCreatePartitionsResponseTopic()
			rt.Topic, rt.ErrorCode = "__marshal", codes[0]
			resp.Topics = append(resp.Topics, rt)
		}
		codes = codes[1:]
		return resp
	})
	codes = []int16{29}
	_, _, err := c.EnsureTopic(within(t, 5*time.Second), spec, nil)
	require.True(t, Unauthorized(err))
	assert.ErrorContains(t, err, "kafka-topics.sh --alter --topic __marshal --partitions 32")
	codes = []int16{41, 60, 37, 0}
	topic, _, err := c.EnsureTopic(within(t, 2*time.Second), spec, nil)
	require.NoError(t, err)
	assert.Len(t, topic.Partitions, 32)
	assert.Empty(t, codes)
}
