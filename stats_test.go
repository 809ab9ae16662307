package marshal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
)

func TestASummary(t *testing.T) {
	var s Summary[time.Duration]
	for _, v := range []time.Duration{3, 1, 2} {
		s.add(v * time.Second)
	}
	assert.Equal(t, Summary[time.Duration]{Count: 3, Sum: 6 * time.Second, Min: time.Second, Max: 3 * time.Second}, s)
}

func TestStatsCountWhatWasFetched(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 2500) // single digits to four
	begin := time.Now()
	c := b.consumer(b.marshaler("a"), ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t")
	k := collect(t, c)
	eventually(t, "all", func() bool { return k.count() == 10_000 })
	var s Stats
	eventually(t, "everything committed", func() bool {
		s = c.Stats()
		return len(s.Partitions) == 4 && s.Partitions[0].Committed == 2500 && s.Partitions[3].Committed == 2500 && s.FetchMessages.Sum == 10_000
	})
	took := time.Since(begin)
	assert.EqualValues(t, 10_000, s.Messages)
	assert.Greater(t, s.Bytes, int64(4*(10+2*90+3*900+4*1500)), "the values alone")
	assert.Less(t, s.Bytes, int64(10_000*40))
	assert.GreaterOrEqual(t, s.FetchBytes.Sum, s.Bytes)
	assert.Equal(t, s.Fetches, s.FetchBytes.Count)
	assert.Equal(t, s.Fetches, s.WaitTime.Count)
	assert.Equal(t, s.Fetches, s.ReadTime.Count)
	assert.GreaterOrEqual(t, s.FetchMessages.Max, int64(2500))
	assert.EqualValues(t, 2, s.Dials, "two to the one broker")
	assert.Equal(t, s.Dials, s.DialTime.Count)
	assert.EqualValues(t, 4, s.Claims)
	assert.Zero(t, s.Errors+s.Timeouts+s.Releases+s.Losses)
	for _, d := range []Summary[time.Duration]{s.DialTime, s.WaitTime, s.ReadTime} {
		assert.Positive(t, d.Min)
		assert.LessOrEqual(t, d.Min, d.Max)
		assert.LessOrEqual(t, d.Max, d.Sum)
		assert.LessOrEqual(t, d.Max, took)
	}
	for i, p := range s.Partitions {
		assert.Equal(t, PartitionStats{Topic: "t", Partition: int32(i), Token: p.Token, Position: 2500, Committed: 2500, End: 2500}, p)
		assert.Positive(t, p.Token)
	}
	require.True(t, c.Terminate(true))
	after := c.Stats()
	assert.EqualValues(t, 4, after.Releases)
	assert.EqualValues(t, 10_000, after.Messages)
	assert.Empty(t, after.Partitions)
}

func TestStatsOfAPartitionThatIsBehind(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 1, 0, 100)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t")
	held := hold(t, c, 3)
	begin := time.Now()
	second := held[1]
	require.NoError(t, held[0].Commit())
	part := func() PartitionStats { return c.Stats().Partitions[0] }
	eventually(t, "some age", func() bool { return part().OldestAge > 200*time.Millisecond })
	p := part()
	assert.Less(t, p.OldestAge, time.Since(begin)+time.Second)
	assert.EqualValues(t, 1, p.Position)
	assert.EqualValues(t, 100, p.End)
	assert.EqualValues(t, 99, p.Lag)
	assert.Equal(t, 2, p.InFlight, "not those that are only reserved")
	eventually(t, "the position in Kafka", func() bool { return part().Committed == 1 })
	require.NoError(t, second.Commit())
	require.NoError(t, held[2].Commit())
	assert.Zero(t, part().OldestAge)
	assert.Zero(t, part().InFlight)
	fresh := hold(t, c, 1)
	assert.Less(t, part().OldestAge, 200*time.Millisecond, "it is not as old as its neighbours that were reserved with it")
	require.NoError(t, fresh[0].Commit())
}

func TestBufferedBytesAreThoseThatAreNotHandedOut(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 1, 0, 100)
	c := b.consumer(b.marshaler("a"), ConsumerOptions{}, "t")
	eventually(t, "a full buffer", func() bool {
		s := c.Stats()
		return len(s.Partitions) > 0 && s.Partitions[0].BufferedBytes > 100*len("0")
	})
	for _, m := range hold(t, c, 100) {
		require.NoError(t, m.Commit())
	}
	assert.Zero(t, c.Stats().Partitions[0].BufferedBytes)
}

func TestStatsCountErrorsTimeoutsAndLosses(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a", WithLease(time.Second, 0))
	c := b.consumer(m, ConsumerOptions{MaxWait: 10 * time.Millisecond}, "t")
	k := collect(t, c)
	eventually(t, "all", func() bool { return k.count() == 40 })
	b.marshaler("b", WithLease(time.Second, 0)) // who evicts it
	f := b.Faults().Add(testutil.Fault{Client: "a", Do: testutil.Freeze})
	eventually(t, "timeouts", func() bool { s := c.Stats(); return s.Timeouts > 0 && s.Errors >= s.Timeouts })
	f.Remove()
	eventually(t, "losses, and new claims", func() bool { s := c.Stats(); return s.Losses == 4 && s.Claims == 8 })
	assert.Greater(t, c.Stats().Dials, c.Stats().DialTime.Count-1)
}
