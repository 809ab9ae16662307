package kafka

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestCommittedOffsetsAreReadBack(t *testing.T) {
	for name, most := range map[string]int16{"one group per request": 7, "many": 8} {
		t.Run(name, func(t *testing.T) {
			k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(200, "t"), kfake.SeedTopics(2, "u"))
			c := dial(t, nil, k.ListenAddrs()...)
			c.link(k.ListenAddrs()[0]).conn.versions[int16(kmsg.OffsetFetch)] = versions{0, most}
			ctx := within(t, 5*time.Second)
			var cs, back []Committed
			for i := range int32(200) {
				cs = append(cs, Committed{Topic: "t", Partition: i, Offset: int64(i) * 10, Metadata: strings.Repeat("m", int(i))})
				back = append(back, Committed{Topic: "t", Partition: i, Offset: 99, Metadata: "old", Err: ErrClosed})
			}
			cs = append(cs, Committed{Topic: "u", Partition: 1, Offset: 3})
			back = append(back, Committed{Topic: "u", Partition: 1}, Committed{Topic: "u", Partition: 0})
			require.NoError(t, c.CommitOffsets(ctx, "g", cs))
			require.NoError(t, c.FetchOffsets(ctx, "g", back))
			assert.Equal(t, append(cs, Committed{Topic: "u", Partition: 0, Offset: -1}), back)
		})
	}
}

func TestAGroupThatNeverCommittedHasNone(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t")) // says GROUP_ID_NOT_FOUND
	c := dial(t, nil, k.ListenAddrs()...)
	cs := []Committed{{Topic: "t", Offset: 5, Metadata: "old"}}
	require.NoError(t, c.FetchOffsets(within(t, 5*time.Second), "g", cs))
	assert.Equal(t, []Committed{{Topic: "t", Offset: -1}}, cs)
	control(k, kmsg.OffsetFetch, func(req kmsg.Request) kmsg.Response { return offsetFetch(req, 0, -1, 0) }) // a real broker
	cs = []Committed{{Topic: "t", Offset: 5, Metadata: "old"}}
	require.NoError(t, c.FetchOffsets(within(t, 5*time.Second), "g", cs))
	assert.Equal(t, []Committed{{Topic: "t", Offset: -1}}, cs)
}

// offsetFetch answers for t/0.
func offsetFetch(req kmsg.Request, group int16, offset int64, code int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetFetchResponse)
	g := kmsg.NewOffsetFetchResponseGroup()
	g.Group, g.ErrorCode = req.(*kmsg.OffsetFetchRequest).Groups[0].Group, group
	rt := kmsg.NewOffsetFetchResponseGroupTopic()
	rt.Topic = "t"
	rp := kmsg.NewOffsetFetchResponseGroupTopicPartition()
	rp.Offset, rp.ErrorCode = offset, code
	rt.Partitions = append(rt.Partitions, rp)
	g.Topics = append(g.Topics, rt)
	resp.Groups = append(resp.Groups, g)
	return resp
}

func TestOnlyAnAnswerThatCanBeTrustedCountsAsNone(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	require.NoError(t, c.CommitOffsets(within(t, 5*time.Second), "g", []Committed{{Topic: "t", Offset: 700}}))
	step := 0
	control(k, kmsg.OffsetFetch, func(req kmsg.Request) kmsg.Response {
		step++
		switch empty := req.ResponseKind(); step {
		case 1:
			return offsetFetch(req, 14, -1, 0) // COORDINATOR_LOAD_IN_PROGRESS
		case 2:
			return offsetFetch(req, 16, -1, 0) // NOT_COORDINATOR
		case 3:
			return empty
		case 4:
			r := offsetFetch(req, 0, -1, 0).(*kmsg.OffsetFetchResponse)
			r.Groups[0].Topics[0].Partitions = nil
			return r
		case 5:
			return offsetFetch(req, 0, -1, 88) // UNSTABLE_OFFSET_COMMIT
		case 6:
			return offsetFetch(req, 0, -1, 14)
		}
		return nil
	})
	cs := []Committed{{Topic: "t"}}
	require.NoError(t, c.FetchOffsets(within(t, 2*time.Second), "g", cs))
	assert.EqualValues(t, 700, cs[0].Offset)
	assert.Equal(t, 7, step)
}

func TestAnAnswerThatNeverBecomesTrustworthyIsAnErrorWithinTheContext(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	control(k, kmsg.OffsetFetch, func(req kmsg.Request) kmsg.Response { return req.ResponseKind() })
	cs := []Committed{{Topic: "t"}}
	begin := time.Now()
	err := c.FetchOffsets(within(t, 300*time.Millisecond), "g", cs)
	require.ErrorIs(t, err, ErrIncomplete)
	assert.ErrorIs(t, cs[0].Err, ErrIncomplete, "each entry says so too")
	assert.Less(t, time.Since(begin), time.Second)
}

func TestTheErrorOfOnePartitionIsItsOwn(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	cs := []Committed{{Topic: "t", Offset: 1}, {Topic: "t", Partition: 9, Offset: 1}, {Topic: "none", Offset: 1}}
	require.NoError(t, c.CommitOffsets(within(t, 5*time.Second), "g", cs))
	assert.NoError(t, cs[0].Err)
	assert.ErrorIs(t, cs[1].Err, ErrUnknownTopic)
	assert.ErrorContains(t, cs[1].Err, "g in t/9")
	assert.ErrorIs(t, cs[2].Err, ErrUnknownTopic)
}

// commitAnswer gives every entry the same code.
func commitAnswer(req kmsg.Request, code int16) kmsg.Response {
	resp := req.ResponseKind().(*kmsg.OffsetCommitResponse)
	for _, t := range req.(*kmsg.OffsetCommitRequest).Topics {
		rt := kmsg.NewOffsetCommitResponseTopic()
		rt.Topic = t.Topic
		for _, p := range t.Partitions {
			rp := kmsg.NewOffsetCommitResponseTopicPartition()
			rp.Partition, rp.ErrorCode = p.Partition, code
			rt.Partitions = append(rt.Partitions, rp)
		}
		resp.Topics = append(resp.Topics, rt)
	}
	return resp
}

func TestErrorsAboutTheGroupAreErrorsOfTheWholeCommit(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	var code int16
	control(k, kmsg.OffsetCommit, func(req kmsg.Request) kmsg.Response { return commitAnswer(req, code) })
	for _, e := range []struct {
		code int16
		is   error
	}{{25, ErrUnknownMember}, {22, ErrUnknownMember}, {30, ErrGroupAuthorization}} {
		code = e.code
		cs := []Committed{{Topic: "t"}}
		begin := time.Now()
		err := c.CommitOffsets(within(t, 10*time.Second), "g", cs)
		assert.ErrorIs(t, err, e.is)
		assert.ErrorIs(t, cs[0].Err, e.is)
		assert.Less(t, time.Since(begin), 1500*time.Millisecond, "it is not tried again")
	}
	for _, code = range []int16{14, 15, 16} {
		assert.ErrorIs(t, c.CommitOffsets(within(t, 200*time.Millisecond), "g", []Committed{{Topic: "t"}}), ErrCoordinator)
	}
	code = 12
	cs := []Committed{{Topic: "t"}}
	require.NoError(t, c.CommitOffsets(within(t, 5*time.Second), "g", cs))
	assert.ErrorIs(t, cs[0].Err, ErrTooLarge)
}

func TestTheCoordinatorIsLookedForAgain(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	moved := 0
	for i := range int64(20) {
		was := k.CoordinatorFor("g")
		require.NoError(t, c.CommitOffsets(within(t, 2*time.Second), "g", []Committed{{Topic: "t", Offset: i}}))
		k.RehashCoordinators()
		if k.CoordinatorFor("g") != was {
			moved++
		}
	}
	assert.Positive(t, moved)
}

func TestTheCoordinatorIsLookedForAgainWhenItDies(t *testing.T) {
	w := &wire{}
	k := newCluster(t, kfake.NumBrokers(3), kfake.SeedTopics(1, "t"), kfake.ListenFn(w.Listen))
	c := dial(t, nil, k.ListenAddrs()...)
	require.NoError(t, c.CommitOffsets(within(t, 2*time.Second), "g", []Committed{{Topic: "t", Offset: 1}}))
	require.NoError(t, k.RemoveNode(k.CoordinatorFor("g")))
	w.cut()
	require.NoError(t, c.CommitOffsets(within(t, 2*time.Second), "g", []Committed{{Topic: "t", Offset: 2}}))
}

func TestErrorsOfLookingForTheCoordinator(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	var codes []int16
	control(k, kmsg.FindCoordinator, func(req kmsg.Request) kmsg.Response {
		if len(codes) == 0 {
			return nil
		}
		resp := req.ResponseKind().(*kmsg.FindCoordinatorResponse)
		resp.ErrorCode, codes = codes[0], codes[1:]
		return resp
	})
	codes = []int16{15, 15, 14}
	require.NoError(t, c.CommitOffsets(within(t, 2*time.Second), "g", []Committed{{Topic: "t"}}))
	assert.Empty(t, codes)
	codes = []int16{30}
	assert.ErrorIs(t, c.CommitOffsets(within(t, 2*time.Second), "other", []Committed{{Topic: "t"}}), ErrGroupAuthorization)
}

func TestAMemberOfAnotherKindBlocksSimpleCommits(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(1, "t"))
	c := dial(t, nil, k.ListenAddrs()...)
	ctx := within(t, 5*time.Second)
	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.ProtocolType, join.SessionTimeoutMillis, join.RebalanceTimeoutMillis = "g", "consumer", 10000, 1000
	join.Protocols = []kmsg.JoinGroupRequestProtocol{{Name: "range"}}
	_, err := c.ask(ctx, k.ListenAddrs()[0], join, 2, 2, 3*time.Second)
	require.NoError(t, err)
	err = c.CommitOffsets(ctx, "g", []Committed{{Topic: "t", Offset: 1}})
	require.ErrorIs(t, err, ErrUnknownMember)
	assert.ErrorContains(t, err, "another kind of consumer is using this group name")
}
