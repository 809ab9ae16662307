package marshal

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// buffered sums up what is decoded and not handed out, and tells of how many partitions there is something.
func buffered(c *Consumer) (bytes, of int) {
	for _, cl := range c.running() {
		for _, p := range cl.partitions() {
			p.mu.Lock()
			bytes += p.queued
			if p.queued > 0 {
				of++
			}
			p.mu.Unlock()
		}
	}
	return bytes, of
}

func TestMemoryIsBoundedWhenNobodyReadsHoweverManyPartitions(t *testing.T) {
	const partitions, limit = 32, 4 << 20
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", partitions, nil))
	for p := range int32(partitions) {
		_, err := b.Fill("t", p, 2000, 1000) // four batches of half a MiB
		require.NoError(t, err)
	}
	before := heap()
	c := b.consumer(b.marshaler("a"), ConsumerOptions{MaxBufferedBytes: limit, MaxWait: 50 * time.Millisecond, DrainTimeout: time.Millisecond}, "t")
	most := 0
	var quiet time.Time
	eventually(t, "a buffer that is full", func() bool {
		now, _ := buffered(c)
		if now > most || now == 0 {
			most, quiet = now, time.Now()
		}
		return time.Since(quiet) > time.Second
	})
	bytes, of := buffered(c)
	grown := heap() - before
	t.Logf("%d bytes buffered of %d partitions, heap grown by %d", bytes, of, grown)
	batch := 530 * (1000 + nodeBytes)
	assert.LessOrEqual(t, bytes, limit+3*batch, "one of each of the two connections, and one that was let past")
	assert.LessOrEqual(t, grown, int64(limit+3*batch+otherHeap))
	k, _ := readAll(t, c)
	eventually(t, "all, once somebody reads", func() bool { return k.count() == 2000*partitions })
}

func TestPartitionsThatStandStillWithAFullBufferDoNotStarveTheOthers(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 16, nil))
		for p := range int32(16) {
			_, err := b.Fill("t", p, 2000, 1000)
			require.NoError(t, err)
		}
		const limit = 2 << 20
		c := b.consumer(b.marshaler("a"), ConsumerOptions{ClaimEntireTopic: whole, MaxInFlight: 600, MaxBufferedBytes: limit, MaxWait: 50 * time.Millisecond, DrainTimeout: time.Millisecond}, "t")
		var held []*Message
		var mu sync.Mutex
		k := collectBut(t, c, func(m *Message) bool {
			mu.Lock()
			defer mu.Unlock()
			if m.Partition < 12 {
				held = append(held, m)
			}
			return m.Partition < 12
		})
		eventually(t, "the others", func() bool { return k.count() >= 12*600+4*2000 })
		bytes, _ := buffered(c)
		assert.LessOrEqual(t, bytes, limit+3*530*(1000+nodeBytes))
		mu.Lock()
		for _, m := range held {
			require.NoError(t, m.Commit())
		}
		mu.Unlock()
		eventually(t, "some of those that stood still", func() bool { return k.count() >= 12*1200+4*2000 })
		for p := range int32(16) {
			got := k.offsets("t", p)
			assert.Equal(t, upTo(int64(len(got))), got, "in order, without a gap")
		}
	})
}
