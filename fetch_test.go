package marshal

import (
	"context"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/batch"
	"github.com/kafka-marshal/marshal/internal/kafka"
	"github.com/kafka-marshal/marshal/internal/lease"
)

// newFetchBroker gives a broker that leads n partitions of which nothing is fetched yet.
func newFetchBroker(n int) *fetchBroker {
	c := &Consumer{m: &Marshaler{c: &KafkaCluster{clock: newClock()}}, options: NewConsumerOptions()}
	c.reading = newReading(c.m, new(life))
	f := newFetcher(context.Background(), c)
	c.fetcher = f
	b := &fetchBroker{f: f, kicks: [2]chan struct{}{make(chan struct{}, 1), make(chan struct{}, 1)}}
	for i := range n {
		cl := &claim{m: c.m, consumer: c, key: lease.Key{Topic: "topic", Partition: int32(i)}}
		cl.open.Store(true)
		p := newPartition(cl, int32(i), lease.TopicID{}, 0, 10)
		p.fetch.broker = b
		b.parts = append(b.parts, p)
		f.parts[p] = struct{}{}
	}
	return b
}

// A broker gives a batch that is larger than asked for only to the first partition of a request.
func TestEachPartitionIsTheFirstOfARequestInTurn(t *testing.T) {
	b := newFetchBroker(8)
	var first []int32
	for range 8 {
		r, _ := b.pick(longPoll, nil)
		require.NotNil(t, r)
		require.Len(t, r.asked, 8)
		first = append(first, r.parts[0].Partition)
		none, _ := b.pick(quickPoll, nil)
		require.Nil(t, none, "all are asked for already")
		b.release(longPoll, r, nil)
	}
	assert.ElementsMatch(t, []int32{0, 1, 2, 3, 4, 5, 6, 7}, first)
}

func TestABatchLargerThanWhatWasAskedForIsAskedForWithMore(t *testing.T) {
	b := newFetchBroker(8)
	ask := func(bytes int, got kafka.FetchedPart) int32 {
		r, _ := b.pick(longPoll, nil)
		require.NotNil(t, r)
		require.Empty(t, got.Records)
		b.deliver(&batch.Reader{}, &r.asked[0], &got, bytes)
		b.release(longPoll, r, nil)
		b.turn[longPoll] = 0 // the same again
		return r.parts[0].MaxBytes
	}
	waits := kafka.FetchedPart{HighWatermark: 5}
	assert.EqualValues(t, firstBytes, ask(100, kafka.FetchedPart{}))
	assert.EqualValues(t, firstBytes, ask(100, waits), "there was nothing to give")
	assert.EqualValues(t, 4*firstBytes, ask(b.f.c.options.MaxBytes, waits))
	assert.EqualValues(t, 4*firstBytes, ask(100, waits), "the answer was full")
	assert.EqualValues(t, 16*firstBytes, ask(100, waits))
	assert.EqualValues(t, 4<<20, ask(100, waits), "its share at most")
	assert.EqualValues(t, 4<<20, ask(100, waits))
}

// A broker that remembers what it is asked for says nothing of partitions where nothing is new: their ends are known all the same.
func TestNoNewsOfAPartitionIsThatItsLogEndsWhereItDid(t *testing.T) {
	b := newFetchBroker(5)
	r, _ := b.pick(longPoll, nil)
	require.NotNil(t, r)
	for i := range 4 { // the last has never been told of
		b.parts[i].logEnd = 0
	}
	b.parts[2].fetches++                                                                  // moved meanwhile
	b.parts[3].over = ErrTerminated                                                       // ended meanwhile
	order := r.match(&kafka.FetchAnswer{News: true, Parts: []kafka.FetchedPart{{At: 1}}}) // of the second something is told
	assert.Equal(t, []*asked{&r.asked[1]}, order)
	for i, want := range []bool{true, false, false, false, false} {
		assert.Equal(t, want, !b.parts[i].endAt.IsZero(), i)
	}

	b = newFetchBroker(1)
	r, _ = b.pick(longPoll, nil)
	b.parts[0].logEnd = 0
	r.match(&kafka.FetchAnswer{})
	assert.Zero(t, b.parts[0].endAt, "an empty answer that is not news says nothing")
}

// Whoever asked for them goes on asking for all of them: left to the other connection they would be polled without a rest.
func TestPartitionsWithoutNewsAreAskedForAgainOnTheSameConnection(t *testing.T) {
	for _, which := range []int{longPoll, quickPoll} {
		for name, parts := range map[string][]kafka.FetchedPart{"nothing": nil, "one": {{At: 1, HighWatermark: 7}}, "one that fails": {{At: 1, Err: kafka.ErrNotLeader}}} {
			b := newFetchBroker(20)
			b.polls, b.polling = 1, true
			r, _ := b.pick(which, nil)
			require.Len(t, r.asked, 20)
			answer := &kafka.FetchAnswer{News: true, Parts: parts}
			coming, _ := r.project(answer, r.match(answer))
			next, _ := b.pick(which, coming)
			require.NotNil(t, next, name)
			want := 20
			if len(parts) > 0 && parts[0].Err != nil {
				want = 19
			}
			assert.Len(t, next.asked, want, name)
			for _, a := range next.asked {
				assert.Zero(t, a.offset)
			}
			if which == quickPoll {
				assert.Equal(t, quickWait, next.wait, name)
			}
			b.release(which, r, next)
			other := longPoll + quickPoll - which
			b.polling = true
			left, _ := b.pick(other, nil)
			if want == 20 {
				assert.Nil(t, left, name)
			} else {
				assert.Len(t, left.asked, 1, name)
			}
		}
	}
}

// The second connection gives up a partition that has no room, while the first is parked for long with another one that has no data.
// Once it has room again, it is asked for at once.
func TestAPartitionThatHasRoomAgainDoesNotWaitForAParkedPoll(t *testing.T) {
	b := newFetchBroker(2)
	idle, busy := b.parts[0], b.parts[1]
	busy.queued = 1 << 30
	parked, _ := b.pick(longPoll, nil)
	require.Len(t, parked.asked, 1)
	require.Same(t, idle, parked.asked[0].p)
	for range 3 {
		busy.queued = 0
		r, _ := b.pick(quickPoll, nil)
		require.NotNil(t, r)
		require.Same(t, busy, r.asked[0].p)
		next, _ := b.pick(quickPoll, map[*partition]ahead{busy: {raw: 1 << 30, next: r.asked[0].offset + 1}})
		require.Nil(t, next, "what comes fills it")
		b.release(quickPoll, r, nil)
	}

	busy.queued = 0
	r, _ := b.pick(quickPoll, nil)
	b.release(longPoll, parked, nil)
	parked, _ = b.pick(longPoll, nil)
	require.Len(t, parked.asked, 1, "the other one is still asked for")
	assert.LessOrEqual(t, parked.wait, quickWait)
	next, _ := b.pick(quickPoll, map[*partition]ahead{busy: {next: -1}})
	require.Nil(t, next, "the first connection has begun anew: it takes it along soon")
	b.release(quickPoll, r, nil)
	none, _ := b.pick(quickPoll, nil)
	assert.Nil(t, none)
	b.release(longPoll, parked, nil)
	parked, _ = b.pick(longPoll, nil)
	assert.Len(t, parked.asked, 2)
}
