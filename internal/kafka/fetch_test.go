package kafka

import (
	"encoding/binary"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/batch"
)

// fetcher is a client with a fetch connection to the one broker, and what is needed to ask for its topics.
type fetcher struct {
	testing.TB
	k  *kfake.Cluster
	c  *Client
	f  *FetchConn
	ts map[string]Topic
}

func newFetcher(t testing.TB, s FetchSettings, opts ...kfake.Opt) *fetcher {
	k := newCluster(t, append([]kfake.Opt{kfake.NumBrokers(1), kfake.SeedTopics(4, "t", "u")}, opts...)...)
	c := dial(t, nil, k.ListenAddrs()...)
	ts, err := c.Topics(within(t, 5*time.Second), "t", "u")
	require.NoError(t, err)
	f, err := c.OpenFetch(within(t, 5*time.Second), 0, s)
	require.NoError(t, err)
	t.Cleanup(func() { f.Close() })
	return &fetcher{t, k, c, f, ts}
}

func (f *fetcher) part(topic string, partition int32, offset int64) FetchPart {
	return FetchPart{Topic: topic, TopicID: f.ts[topic].ID, Partition: partition, Offset: offset,
		LeaderEpoch: f.ts[topic].Partitions[partition].LeaderEpoch, LastEpoch: -1, MaxBytes: 1 << 20}
}

func (f *fetcher) append(topic string, partition int32, size, n int) {
	f.Helper()
	p := f.c.NewProducer(topic, partition)
	for range n {
		_, err := p.Append(within(f, time.Second), []Message{{nil, make([]byte, size)}})
		require.NoError(f, err)
	}
	require.NoError(f, p.Close())
}

func (f *fetcher) fetch(wait time.Duration, parts ...FetchPart) *FetchAnswer {
	f.Helper()
	require.NoError(f, f.f.Send(parts, wait))
	a, err := f.f.Receive()
	require.NoError(f, err)
	return a
}

func TestAFetchAsksByIDWhereTheBrokerHasItAndElseByName(t *testing.T) {
	f := newFetcher(t, fetchSettings)
	var version int16
	control(f.k, kmsg.Fetch, func(req kmsg.Request) kmsg.Response { version = req.GetVersion(); return nil })
	f.append("t", 1, 10, 2)
	f.append("u", 3, 10, 1)
	ask := []FetchPart{f.part("u", 3, 0), f.part("t", 1, 1), f.part("u", 0, 0), f.part("t", 9%4, 0)}
	for name, c := range map[string]struct {
		most int16
		id   bool
		want int16
	}{"new": {18, true, 18}, "first with ids": {13, true, 13}, "old": {12, true, 12}, "oldest": {4, true, 4}, "id unknown": {18, false, 12}} {
		t.Run(name, func(t *testing.T) {
			f.f.conn.versions[int16(kmsg.Fetch)] = versions{4, c.most}
			parts := append([]FetchPart(nil), ask...)
			if !c.id {
				parts[2].TopicID = [16]byte{}
			}
			a := f.fetch(0, parts[:3]...)
			assert.Equal(t, c.want, version)
			require.Len(t, a.Parts, 3)
			got := map[string][]string{}
			for _, p := range a.Parts {
				require.NoError(t, p.Err)
				got[p.Topic+string(rune('0'+p.Partition))] = records(t, p.Records)
				assert.False(t, p.Diverging)
				assert.EqualValues(t, -1, p.PreferredReplica)
				assert.EqualValues(t, -1, p.Leader)
			}
			ten := string(make([]byte, 10))
			assert.Equal(t, map[string][]string{"u3": {"0 =" + ten}, "t1": {"1 =" + ten}, "u0": nil}, got)
			assert.Positive(t, a.Bytes)
		})
	}
}

func TestARecreatedTopicIsToldByItsID(t *testing.T) {
	f := newFetcher(t, fetchSettings)
	f.append("t", 0, 10, 3)
	require.NoError(t, f.k.DeleteTopic("t"))
	require.NoError(t, f.k.CreateTopic("t", 4, nil))
	a := f.fetch(0, f.part("t", 0, 2), f.part("u", 0, 0))
	require.Len(t, a.Parts, 2)
	for _, p := range a.Parts {
		if p.Topic == "u" {
			require.NoError(t, p.Err)
			continue
		}
		require.ErrorIs(t, p.Err, ErrUnknownTopicID)
		assert.True(t, LookAgain(p.Err))
		assert.ErrorContains(t, p.Err, "fetch t/0 at 2")
	}
}

func TestEpochsOffsetsAndLeadersThatAreWrong(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(2), kfake.SeedTopics(1, "t"))
	require.NoError(t, k.MoveTopicPartition("t", 0, 0))
	c := dial(t, nil, k.ListenAddrs()...)
	ts, err := c.Topics(t.Context(), "t")
	require.NoError(t, err)
	f, err := c.OpenFetch(within(t, 5*time.Second), 0, fetchSettings)
	require.NoError(t, err)
	defer f.Close()
	ask := func(offset int64, epoch int32) error {
		require.NoError(t, f.Send([]FetchPart{{Topic: "t", TopicID: ts["t"].ID, Offset: offset, LeaderEpoch: epoch, LastEpoch: -1, MaxBytes: 1}}, 0))
		a, err := f.Receive()
		require.NoError(t, err)
		require.Len(t, a.Parts, 1)
		return a.Parts[0].Err
	}
	now := ts["t"].Partitions[0].LeaderEpoch
	assert.NoError(t, ask(0, now))
	assert.ErrorIs(t, ask(1, now), ErrOutOfRange)
	assert.ErrorIs(t, ask(0, now+1), ErrUnknownEpoch)
	assert.ErrorIs(t, ask(0, now-1), ErrFencedEpoch)
	require.NoError(t, k.MoveTopicPartition("t", 0, 1))
	assert.ErrorIs(t, ask(0, now), ErrNotLeader)
	p, ok := c.Leader("t", 0)
	require.True(t, ok)
	t.Log("after the broker's hint:", p)
}

// answer makes a fetch answer with the partitions as f sets them.
func answer(req kmsg.Request, top int16, set ...func(*kmsg.FetchResponseTopicPartition)) *kmsg.FetchResponse {
	r := req.(*kmsg.FetchRequest)
	resp := r.ResponseKind().(*kmsg.FetchResponse)
	resp.ErrorCode = top
	if len(set) == 0 {
		return resp
	}
	rt := kmsg.NewFetchResponseTopic()
	rt.TopicID = r.Topics[0].TopicID
	for i, f := range set {
		if f != nil {
			rp := kmsg.NewFetchResponseTopicPartition()
			rp.Partition = r.Topics[0].Partitions[i].Partition
			f(&rp)
			rt.Partitions = append(rt.Partitions, rp)
		}
	}
	resp.Topics = append(resp.Topics, rt)
	return resp
}

type setPart = func(*kmsg.FetchResponseTopicPartition)

func TestWhatAnAnswerTellsOfAPartition(t *testing.T) {
	f := newFetcher(t, fetchSettings)
	control(f.k, kmsg.Fetch, func(req kmsg.Request) kmsg.Response {
		r := answer(req, 0, func(p *kmsg.FetchResponseTopicPartition) {
			p.HighWatermark, p.LastStableOffset, p.LogStartOffset, p.PreferredReadReplica = 30, 20, 10, 2
			p.RecordBatches = []byte("abc")
			p.AbortedTransactions = []kmsg.FetchResponseTopicPartitionAbortedTransaction{{ProducerID: 4, FirstOffset: 11}, {ProducerID: 5, FirstOffset: 12}}
		}, func(p *kmsg.FetchResponseTopicPartition) {
			p.DivergingEpoch.Epoch, p.DivergingEpoch.EndOffset = 3, 7
		}, func(p *kmsg.FetchResponseTopicPartition) {
			p.ErrorCode, p.CurrentLeader.LeaderID, p.CurrentLeader.LeaderEpoch = 6, 9, 99
		})
		r.ThrottleMillis = 250
		r.Brokers = []kmsg.FetchResponseBroker{{NodeID: 9, Host: "nine", Port: 9092}}
		return r
	})
	a := f.fetch(0, f.part("t", 0, 10), f.part("t", 1, 8), f.part("t", 2, 0))
	assert.Equal(t, 250*time.Millisecond, a.Throttle)
	require.Len(t, a.Parts, 3)
	assert.Equal(t, FetchedPart{Topic: "t", HighWatermark: 30, LastStable: 20, LogStart: 10, PreferredReplica: 2, Records: []byte("abc"),
		Aborted: []batch.Aborted{{ProducerID: 4, FirstOffset: 11}, {ProducerID: 5, FirstOffset: 12}}, Leader: -1, LeaderEpoch: -1, DivergesAt: -1}, a.Parts[0])
	assert.True(t, a.Parts[1].Diverging)
	assert.EqualValues(t, 7, a.Parts[1].DivergesAt)
	assert.NoError(t, a.Parts[1].Err)
	assert.ErrorIs(t, a.Parts[2].Err, ErrNotLeader)
	assert.Equal(t, []int32{9, 99}, []int32{a.Parts[2].Leader, a.Parts[2].LeaderEpoch})
	p, _ := f.c.Leader("t", 2)
	assert.Equal(t, []int32{9, 99}, []int32{p.Leader, p.LeaderEpoch}, "the broker's hint is taken (KIP-951)")
	addr, _ := f.c.address(9)
	assert.Equal(t, "nine:9092", addr)
}

func TestARequestSaysWhatTheSettingsSay(t *testing.T) {
	f := newFetcher(t, FetchSettings{MaxWait: 321 * time.Millisecond, MinBytes: 5, MaxBytes: 7000, ReadCommitted: true, Rack: "r1"})
	var got *kmsg.FetchRequest
	control(f.k, kmsg.Fetch, func(req kmsg.Request) kmsg.Response {
		got = req.(*kmsg.FetchRequest)
		return answer(req, 0, func(*kmsg.FetchResponseTopicPartition) {})
	})
	p := f.part("t", 2, 77)
	p.LeaderEpoch, p.LastEpoch, p.MaxBytes = 8, 6, 4321
	f.fetch(-1, p)
	assert.Equal(t, []any{int32(321), int32(5), int32(7000), int8(1), "r1", int32(0), int32(-1)},
		[]any{got.MaxWaitMillis, got.MinBytes, got.MaxBytes, got.IsolationLevel, got.Rack, got.SessionID, got.SessionEpoch})
	rp := got.Topics[0].Partitions[0]
	assert.Equal(t, []int64{2, 77, 8, 6, 4321}, []int64{int64(rp.Partition), rp.FetchOffset, int64(rp.CurrentLeaderEpoch), int64(rp.LastFetchedEpoch), int64(rp.PartitionMaxBytes)})
	f.fetch(9*time.Millisecond, p)
	assert.EqualValues(t, 9, got.MaxWaitMillis)
	f.fetch(0, p)
	assert.EqualValues(t, 0, got.MaxWaitMillis)
}

func TestAPartitionThatTheAnswerLeavesOutHasAnError(t *testing.T) {
	f := newFetcher(t, fetchSettings)
	control(f.k, kmsg.Fetch, func(req kmsg.Request) kmsg.Response {
		ok := func(p *kmsg.FetchResponseTopicPartition) {}
		return answer(req, 0, ok, nil, ok)
	})
	a := f.fetch(0, f.part("t", 0, 0), f.part("t", 1, 5), f.part("t", 2, 0))
	require.Len(t, a.Parts, 3)
	for _, p := range a.Parts {
		if p.Partition == 1 {
			assert.ErrorIs(t, p.Err, ErrIncomplete)
			assert.EqualValues(t, -1, p.HighWatermark)
		} else {
			assert.NoError(t, p.Err)
		}
	}
}

func TestAFullAnswerMayLeavePartitionsOut(t *testing.T) {
	f := newFetcher(t, FetchSettings{MinBytes: 1, MaxBytes: 10_000})
	f.append("t", 0, 6_000, 1)
	f.append("t", 1, 6_000, 1)
	a := f.fetch(0, f.part("t", 0, 0), f.part("t", 1, 0), f.part("t", 2, 0))
	for _, p := range a.Parts {
		assert.NoError(t, p.Err)
	}
	assert.Less(t, len(a.Parts), 3)
	a = f.fetch(0, f.part("t", 1, 0), f.part("t", 2, 0), f.part("t", 0, 0))
	assert.Len(t, records(t, a.Parts[0].Records), 1)
}

func TestAPartitionThatWasNotAskedForOrComesTwiceIsLeftOut(t *testing.T) {
	f := newFetcher(t, fetchSettings)
	control(f.k, kmsg.Fetch, func(req kmsg.Request) kmsg.Response {
		to := func(n int32, hwm int64) setPart {
			return func(p *kmsg.FetchResponseTopicPartition) { p.Partition, p.HighWatermark = n, hwm }
		}
		req.(*kmsg.FetchRequest).Topics[0].Partitions = make([]kmsg.FetchRequestTopicPartition, 4)
		return answer(req, 0, to(3, 1), to(0, 2), to(0, 3), to(1, 4))
	})
	a := f.fetch(0, f.part("t", 1, 0), f.part("t", 0, 0))
	require.Len(t, a.Parts, 2)
	assert.EqualValues(t, 2, a.Parts[0].HighWatermark)
	assert.EqualValues(t, 4, a.Parts[1].HighWatermark)
}

func TestAThrottledEmptyAnswerIsNoError(t *testing.T) {
	f := newFetcher(t, fetchSettings)
	f.append("t", 0, 10, 1)
	times := 0
	control(f.k, kmsg.Fetch, func(req kmsg.Request) kmsg.Response {
		if times++; times > 3 {
			return nil
		}
		r := answer(req, 0)
		r.ThrottleMillis = 1000
		return r
	})
	for range 3 {
		a := f.fetch(0, f.part("t", 0, 0))
		assert.Empty(t, a.Parts)
		assert.Equal(t, time.Second, a.Throttle)
	}
	a := f.fetch(0, f.part("t", 0, 0))
	assert.Len(t, records(t, a.Parts[0].Records), 1)
}

func TestAnErrorOfTheWholeAnswerIsThatOfEachPart(t *testing.T) {
	f := newFetcher(t, fetchSettings)
	control(f.k, kmsg.Fetch, func(req kmsg.Request) kmsg.Response { return answer(req, 100) })
	a := f.fetch(0, f.part("t", 0, 0), f.part("t", 1, 0))
	require.Len(t, a.Parts, 2)
	for _, p := range a.Parts {
		assert.ErrorIs(t, p.Err, ErrUnknownTopicID)
	}
}

func TestABatchLargerThanAskedForIsTaken(t *testing.T) {
	f := newFetcher(t, FetchSettings{MinBytes: 1, MaxBytes: 100})
	f.append("t", 0, 200_000, 1)
	p := f.part("t", 0, 0)
	p.MaxBytes = 100
	a := f.fetch(0, p)
	require.NoError(t, a.Parts[0].Err)
	assert.Len(t, records(t, a.Parts[0].Records), 1)
	assert.Greater(t, a.Bytes, 200_000)
}

func TestAnAbsurdlyLargeAnswerEndsTheConnection(t *testing.T) {
	w := &wire{}
	f := newFetcher(t, fetchSettings, kfake.ListenFn(w.Listen))
	w.treat(func(c net.Conn, key int16, frame []byte) bool {
		if kmsg.Key(key) != kmsg.Fetch {
			return false
		}
		binary.BigEndian.PutUint32(frame, uint32(2*fetchSettings.MaxBytes+maxBatch+1))
		c.Write(frame)
		return true
	})
	require.NoError(t, f.f.Send([]FetchPart{f.part("t", 0, 0)}, 0))
	_, err := f.f.Receive()
	require.ErrorIs(t, err, ErrCorrupt)
	assert.ErrorContains(t, err, "bytes to a fetch of 1048576")
}

func TestALateReceiverStillGetsItsAnswer(t *testing.T) {
	f := newFetcher(t, fetchSettings)
	f.append("t", 0, 10, 1)
	require.NoError(t, f.f.Send([]FetchPart{f.part("t", 0, 0)}, 0))
	f.f.until = time.Now().Add(-time.Hour)
	a, err := f.f.Receive()
	require.NoError(t, err)
	assert.Len(t, records(t, a.Parts[0].Records), 1)
}

func TestTheNextRequestGoesOutBeforeTheLastAnswerIsRead(t *testing.T) {
	f := newFetcher(t, fetchSettings)
	f.append("t", 0, 10, 2)
	require.NoError(t, f.f.Send([]FetchPart{f.part("t", 0, 0)}, 0))
	first, err := f.f.Receive()
	require.NoError(t, err)
	require.NoError(t, f.f.Send([]FetchPart{f.part("t", 0, 1)}, 0))
	assert.Error(t, f.f.Send([]FetchPart{f.part("t", 0, 1)}, 0), "an answer is due")
	second, err := f.f.Receive()
	require.NoError(t, err)
	_, err = f.f.Receive()
	assert.Error(t, err, "no answer is due")
	ten := string(make([]byte, 10))
	assert.Equal(t, []string{"1 =" + ten}, records(t, second.Parts[0].Records))
	assert.Equal(t, []string{"0 =" + ten, "1 =" + ten}, records(t, first.Parts[0].Records))
}

func TestOnlyARecycledBufferIsUsedAgain(t *testing.T) {
	f := newFetcher(t, fetchSettings)
	f.append("t", 0, 10_000, 1)
	f.append("u", 0, 3_000, 1)
	f.append("u", 1, 100, 1)
	kept := f.fetch(0, f.part("t", 0, 0))
	copied := append([]byte(nil), kept.buf...)
	back := f.fetch(0, f.part("t", 0, 0))
	assert.NotSame(t, &kept.buf[0], &back.buf[0])
	array := &back.buf[0]
	back.Recycle()
	back.Recycle()
	again := f.fetch(0, f.part("u", 0, 0))
	assert.Same(t, array, &again.buf[0], "3 KB fit into 10")
	require.Len(t, again.Parts, 1)
	assert.Equal(t, "u", again.Parts[0].Topic)
	again.Recycle()
	small := f.fetch(0, f.part("u", 1, 0))
	assert.NotSame(t, array, &small.buf[0], "300 B would keep 10 KB alive")
	assert.Equal(t, copied, kept.buf)
}

func TestCloseFromElsewhereEndsReceive(t *testing.T) {
	f := newFetcher(t, fetchSettings)
	require.NoError(t, f.f.Send([]FetchPart{f.part("t", 0, 0)}, time.Minute))
	var wg sync.WaitGroup
	wg.Go(func() { _, err := f.f.Receive(); assert.ErrorIs(t, err, ErrClosed) })
	begin := time.Now()
	require.NoError(t, f.f.Close())
	wg.Wait()
	assert.Less(t, time.Since(begin), 1500*time.Millisecond)
	assert.ErrorIs(t, f.f.Send(nil, 0), ErrClosed)
}

func TestAParkedPollHoldsUpNothingElse(t *testing.T) {
	f := newFetcher(t, fetchSettings)
	require.NoError(t, f.f.Send([]FetchPart{f.part("t", 0, 0)}, 5*time.Second))
	begin := time.Now()
	require.NoError(t, f.c.CommitOffsets(within(t, 5*time.Second), "g", []Committed{{Topic: "t", Offset: 1}}))
	_, err := f.c.Topics(within(t, 5*time.Second), "t")
	require.NoError(t, err)
	f.append("u", 0, 10, 1)
	other, err := f.c.OpenFetch(within(t, 5*time.Second), 0, fetchSettings)
	require.NoError(t, err)
	defer other.Close()
	require.NoError(t, other.Send([]FetchPart{f.part("u", 0, 0)}, 0))
	_, err = other.Receive()
	require.NoError(t, err)
	assert.Less(t, time.Since(begin), 1500*time.Millisecond)
	f.append("t", 0, 10, 1)
	a, err := f.f.Receive()
	require.NoError(t, err)
	assert.Len(t, records(t, a.Parts[0].Records), 1)
}

func TestAFetchConnectionToAnUnknownBroker(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1))
	c := dial(t, nil, k.ListenAddrs()...)
	_, err := c.OpenFetch(within(t, 5*time.Second), 42, fetchSettings)
	require.ErrorIs(t, err, ErrUnknownBroker)
	assert.True(t, LookAgain(err))
}

func TestAnswersAboutManyPartitionsInAnyOrder(t *testing.T) {
	k := newCluster(t, kfake.NumBrokers(1), kfake.SeedTopics(200, "a", "b", "c"))
	c := dial(t, nil, k.ListenAddrs()...)
	ts, err := c.Topics(t.Context(), "a", "b", "c")
	require.NoError(t, err)
	f, err := c.OpenFetch(t.Context(), 0, fetchSettings)
	require.NoError(t, err)
	defer f.Close()
	for _, most := range []int16{18, 12} {
		f.conn.versions[int16(kmsg.Fetch)] = versions{4, most}
		for shift := range 3 {
			var parts []FetchPart
			for i := range int32(600) { // the topics are mixed
				topic := string(rune('a' + (int(i)+shift)%3))
				parts = append(parts, FetchPart{Topic: topic, TopicID: ts[topic].ID, Partition: i / 3, LeaderEpoch: -1, LastEpoch: -1, MaxBytes: 1})
			}
			f.session = session{} // or what is as it was would be left out
			require.NoError(t, f.Send(parts, 0))
			a, err := f.Receive()
			require.NoError(t, err)
			seen := map[topicPartition]bool{}
			for _, p := range a.Parts {
				require.NoError(t, p.Err)
				require.Equal(t, topicPartition{parts[p.At].Topic, parts[p.At].Partition}, topicPartition{p.Topic, p.Partition})
				seen[topicPartition{p.Topic, p.Partition}] = true
			}
			require.Len(t, a.Parts, 600)
			require.Len(t, seen, 600)
			a.Recycle()
		}
	}
}
