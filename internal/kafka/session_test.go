package kafka

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/batch"
)

// talk is what the requests of a connection said.
type talk struct {
	*fetcher
	asked []kmsg.FetchRequest
	reply func(*kmsg.FetchRequest) kmsg.Response // instead of the broker, where it gives something
}

func newTalk(t *testing.T) *talk {
	k := &talk{fetcher: newFetcher(t, fetchSettings, kfake.SeedTopics(sessionFrom+4, "many"))}
	var err error
	k.ts, err = k.c.Topics(t.Context(), "many", "t")
	require.NoError(t, err)
	control(k.k, kmsg.Fetch, func(req kmsg.Request) kmsg.Response {
		r := req.(*kmsg.FetchRequest)
		k.asked = append(k.asked, *r)
		if k.reply != nil {
			return k.reply(r)
		}
		return nil
	})
	return k
}

// parts are those of the topic from first on, each at the offset given for it, or else at 0.
func (k *talk) parts(first, n int32, offsets ...int64) []FetchPart {
	var ps []FetchPart
	for i := range n {
		ps = append(ps, k.part("many", first+i, 0))
		if int(i) < len(offsets) {
			ps[i].Offset = offsets[i]
		}
	}
	return ps
}

// last says of the newest request: its session, how many partitions it names, and how many it forgets.
func (k *talk) last() (id, epoch int32, named, forgotten int) {
	r := &k.asked[len(k.asked)-1]
	for _, t := range r.Topics {
		named += len(t.Partitions)
	}
	for _, t := range r.ForgottenTopics {
		forgotten += len(t.Partitions)
	}
	return r.SessionID, r.SessionEpoch, named, forgotten
}

func (k *talk) said(id, epoch int32, named, forgotten int) {
	k.Helper()
	gotID, gotEpoch, gotNamed, gotForgotten := k.last()
	assert.Equal(k, []int32{id, epoch, int32(named), int32(forgotten)}, []int32{gotID, gotEpoch, int32(gotNamed), int32(gotForgotten)},
		"session, epoch, named, forgotten")
}

func TestOfManyPartitionsOnlyWhatHasChangedIsSaid(t *testing.T) {
	const n = sessionFrom
	k := newTalk(t)
	k.append("many", 3, 10, 2)
	a := k.fetch(0, k.parts(0, n)...)
	k.said(0, 0, n, 0)
	require.Len(t, a.Parts, n, "the first answer names all")
	assert.False(t, a.News)
	id := k.f.session.id
	require.NotZero(t, id)

	a = k.fetch(0, k.parts(0, n, 0, 0, 0, 2)...)
	k.said(id, 1, 1, 0)
	assert.True(t, a.News)
	assert.Empty(t, a.Parts, "nothing is new")

	k.append("many", 3, 10, 1)
	k.append("many", 5, 10, 1)
	a = k.fetch(0, k.parts(0, n, 0, 0, 0, 2)...)
	k.said(id, 2, 0, 0)
	require.Len(t, a.Parts, 2)
	for _, p := range a.Parts {
		require.NoError(t, p.Err)
		assert.Equal(t, int(p.Partition), p.At)
		assert.Len(t, records(t, p.Records), 1)
	}

	// Some go, some come, in another order, and the epoch of a leader changes.
	parts := append(k.parts(8, n-4), k.parts(0, 4, 0, 0, 0, 3)...)
	parts[0].LastEpoch = 0
	a = k.fetch(0, parts...)
	k.said(id, 3, 2+4, 4)
	for _, p := range a.Parts {
		require.Equal(t, parts[p.At].Partition, p.Partition)
	}
	k.append("many", 5, 10, 1) // is forgotten
	k.append("many", n+3, 10, 1)
	a = k.fetch(0, parts...)
	k.said(id, 4, 0, 0)
	require.Len(t, a.Parts, 1)
	assert.Equal(t, int32(n+3), a.Parts[0].Partition)

	a = k.fetch(0, k.part("many", n+3, 0))
	k.said(id, 5, 0, n-1)
	assert.Len(t, a.Parts, 1, "a session goes on when few are left")
}

func TestFewPartitionsAndOldBrokersHaveNoSession(t *testing.T) {
	k := newTalk(t)
	for range 2 {
		a := k.fetch(0, k.parts(0, sessionFrom-1)...)
		k.said(0, -1, sessionFrom-1, 0)
		assert.Len(t, a.Parts, sessionFrom-1)
		assert.False(t, a.News)
	}
	k.f.conn.versions[int16(kmsg.Fetch)] = versions{4, bySession - 1}
	for range 2 {
		k.fetch(0, k.parts(0, sessionFrom)...)
		_, _, named, _ := k.last()
		assert.Equal(t, sessionFrom, named)
	}
}

func TestABrokerWithoutRoomForASessionIsAskedForEverythingEachTime(t *testing.T) {
	k := newTalk(t)
	k.reply = func(r *kmsg.FetchRequest) kmsg.Response {
		set := make([]setPart, sessionFrom)
		for i := range set {
			set[i] = func(*kmsg.FetchResponseTopicPartition) {}
		}
		return answer(r, 0, set...) // session 0
	}
	for range 3 {
		a := k.fetch(0, k.parts(0, sessionFrom)...)
		k.said(0, 0, sessionFrom, 0)
		assert.Len(t, a.Parts, sessionFrom)
	}
}

func TestALostSessionIsBegunAgain(t *testing.T) {
	for name, code := range map[string]int16{"evicted": 70, "epoch": 71, "ids": 106, "another id": 103} {
		t.Run(name, func(t *testing.T) {
			k := newTalk(t)
			k.append("many", 2, 10, 1)
			parts := k.parts(0, sessionFrom)
			k.fetch(0, parts...)
			k.fetch(0, parts...)
			k.reply = func(r *kmsg.FetchRequest) kmsg.Response { return answer(r, code) }
			a := k.fetch(0, parts...)
			assert.Empty(t, a.Parts, "no partition has failed")
			assert.False(t, a.News, "and nothing is known of them")
			k.reply = nil
			a = k.fetch(0, parts...)
			k.said(0, 0, sessionFrom, 0)
			require.Len(t, a.Parts, sessionFrom)
			assert.Len(t, records(t, a.Parts[2].Records), 1)
			k.fetch(0, parts...)
			_, epoch, _, _ := k.last()
			assert.Equal(t, int32(1), epoch)

			k.f.session = session{}
			k.reply = func(r *kmsg.FetchRequest) kmsg.Response { return answer(r, code) }
			a = k.fetch(0, parts...)
			require.Len(t, a.Parts, sessionFrom, "to who asks for all of them it is an error of each")
			require.Error(t, a.Parts[0].Err)
		})
	}
}

func TestAnotherErrorOfTheWholeAnswerEndsTheSessionToo(t *testing.T) {
	k := newTalk(t)
	parts := k.parts(0, sessionFrom)
	k.fetch(0, parts...)
	k.reply = func(r *kmsg.FetchRequest) kmsg.Response { return answer(r, 56) } // KAFKA_STORAGE_ERROR
	a := k.fetch(0, parts...)
	require.Len(t, a.Parts, sessionFrom)
	require.Error(t, a.Parts[1].Err)
	k.reply = nil
	a = k.fetch(0, parts...)
	k.said(0, 0, sessionFrom, 0)
	require.NoError(t, a.Parts[1].Err)
}

func TestASessionEndsWhenTopicsAreNamedInAnotherWay(t *testing.T) {
	k := newTalk(t)
	parts := k.parts(0, sessionFrom)
	k.fetch(0, parts...)
	id := k.f.session.id
	parts[0].TopicID = [16]byte{}
	a := k.fetch(0, parts...)
	k.said(id, 0, sessionFrom, 0) // which ends the one that there was
	assert.Len(t, a.Parts, sessionFrom)
}

func TestASessionIsOfOneConnection(t *testing.T) {
	k := newTalk(t)
	parts := k.parts(0, sessionFrom)
	k.fetch(0, parts...)
	require.NoError(t, k.f.Close())
	var err error
	k.f, err = k.c.OpenFetch(t.Context(), 0, fetchSettings)
	require.NoError(t, err)
	a := k.fetch(0, parts...)
	k.said(0, 0, sessionFrom, 0)
	assert.Len(t, a.Parts, sessionFrom)
}

func TestEpochsOfASessionBeginAgainBehindTheLargest(t *testing.T) {
	s := session{id: 7, kept: true, epoch: math.MaxInt32 - 1}
	for _, want := range []int32{math.MaxInt32, 1, 2} {
		require.False(t, s.answered(7, nil))
		assert.Equal(t, want, s.epoch)
	}
}

// A throttled broker says nothing of any partition: that is no news.
func TestAThrottledAnswerOfASessionIsNoNews(t *testing.T) {
	k := newTalk(t)
	parts := k.parts(0, sessionFrom)
	k.fetch(0, parts...)
	id := k.f.session.id
	k.reply = func(r *kmsg.FetchRequest) kmsg.Response {
		resp := answer(r, 0)
		resp.ThrottleMillis, resp.SessionID = 100, id
		return resp
	}
	a := k.fetch(0, parts...)
	assert.False(t, a.News)
	assert.Empty(t, a.Parts)
	k.fetch(0, parts...)
	k.said(id, 2, 0, 0)
}

// Whatever is asked for in which order, and however often the session is lost, each partition is read without a gap.
func TestNothingIsLeftOutInASession(t *testing.T) {
	const n = sessionFrom + 4
	k := newTalk(t)
	r := rand.New(rand.NewPCG(1, 1))
	var next, end [n]int64
	lost := false
	k.reply = func(req *kmsg.FetchRequest) kmsg.Response {
		if lost = req.SessionEpoch > 0 && r.IntN(10) == 0; lost {
			return answer(req, 70+int16(r.IntN(2)))
		}
		return nil
	}
	for round := 0; round < 150 || next != end; round++ {
		require.Less(t, round, 1000)
		if round < 100 {
			p := r.IntN(n)
			k.append("many", int32(p), 10, 1)
			end[p]++
		}
		var parts []FetchPart
		for _, p := range r.Perm(n) {
			if r.IntN(5) > 0 {
				parts = append(parts, k.part("many", int32(p), next[p]))
			}
		}
		a := k.fetch(0, parts...)
		if lost {
			require.Empty(t, a.Parts)
		}
		for _, p := range a.Parts {
			require.NoError(t, p.Err)
			require.Equal(t, parts[p.At].Partition, p.Partition)
			require.Equal(t, end[p.Partition], p.HighWatermark)
			var reader batch.Reader
			reader.Reset(p.Records, batch.Options{From: next[p.Partition]})
			for _, ok := reader.NextBatch(); ok; _, ok = reader.NextBatch() {
			}
			require.NoError(t, reader.Err())
			next[p.Partition] = reader.Next()
		}
	}
	ids := map[int32]bool{}
	for _, req := range k.asked {
		ids[req.SessionID] = true
	}
	assert.Greater(t, len(ids), 3)
}
