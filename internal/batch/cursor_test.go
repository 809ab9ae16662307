package batch

import (
	"testing"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rest reads what a cursor still has.
func rest(c *Cursor) (out []int64) {
	for m := (sarama.ConsumerMessage{}); c.Record(&m); m = (sarama.ConsumerMessage{}) {
		out = append(out, m.Offset)
	}
	return out
}

func TestADetachedBatchIsReadLaterAndTheReaderGoesOnBehindIt(t *testing.T) {
	for name, pack := range packers {
		first, second := plan{records: numbered(5), packer: pack}, plan{records: numbered(3), packer: pack}
		first.LastOffsetDelta = 9
		second.FirstOffset = 10
		var r Reader
		o := opts
		o.From = 2
		r.Reset(append(first.build(), second.build()...), o)
		n, ok := r.NextBatch()
		require.True(t, ok, name)
		require.Equal(t, 5, n, "offsets may have holes, so that how many are below From is not known")
		c := r.Detach()
		assert.Equal(t, int64(10), r.Next())
		assert.Zero(t, r.Size())
		var m sarama.ConsumerMessage
		assert.False(t, r.Record(&m), "it has gone")
		_, ok = r.NextBatch()
		require.True(t, ok)
		d := r.Detach()
		_, ok = r.NextBatch()
		require.False(t, ok)
		require.NoError(t, r.Err())
		r.Reset(nil, opts)

		assert.Equal(t, int64(2), c.Next(), name)
		require.True(t, c.Record(&m))
		assert.Equal(t, int64(2), m.Offset)
		assert.Equal(t, []byte{0, 2}, m.Value, name)
		assert.Equal(t, 2, c.Left())
		assert.Equal(t, span(3, 5), rest(&c))
		assert.Equal(t, int64(10), c.Next(), "holes at the end count as read")
		assert.Zero(t, c.Left())
		require.NoError(t, c.Err())
		assert.Equal(t, span(10, 13), rest(&d))
	}
}

func TestACursorPassesWhatIsBelow(t *testing.T) {
	b := plan{records: numbered(10)}
	b.FirstOffset, b.LastOffsetDelta = 20, 14
	var r Reader
	r.Reset(b.build(), opts)
	_, ok := r.NextBatch()
	require.True(t, ok)
	begin := r.Detach()
	for next, want := range map[int64]struct {
		offsets []int64
		left    int
	}{0: {span(20, 30), 10}, 20: {span(20, 30), 10}, 25: {span(25, 30), 10}, 29: {span(29, 30), 6}, 30: {nil, 5}, 34: {nil, 1}, 35: {nil, 0}, 99: {nil, 0}} {
		c := begin
		c.Pass(next)
		assert.Equal(t, max(next, 0), c.Next())
		assert.Equal(t, want.left, c.Left(), "%d: at most", next)
		assert.Equal(t, want.offsets, rest(&c), next)
		assert.Equal(t, max(next, 35), c.Next())
		c.Pass(0)
		assert.Equal(t, max(next, 35), c.Next(), "it never moves back")
	}
}

func TestCheckFindsARecordThatCannotBeReadWithoutReading(t *testing.T) {
	good, bad := plan{records: numbered(4)}, plan{records: numbered(4)}
	bad.FirstOffset = 4
	bad.records[2].OffsetDelta = 1
	var r Reader
	r.Reset(append(good.build(), bad.build()...), opts)
	_, ok := r.NextBatch()
	require.True(t, ok)
	require.True(t, r.Check())
	c := r.Detach()
	assert.Equal(t, span(0, 4), rest(&c), "nothing was read")

	_, ok = r.NextBatch()
	require.True(t, ok)
	unchecked := r.current
	require.False(t, r.Check())
	assert.ErrorIs(t, r.Err(), ErrMalformed)
	assert.Equal(t, int64(4), r.Next())
	assert.Equal(t, span(4, 6), rest(&unchecked), "who does not check reads as far as it goes")
	assert.Equal(t, int64(6), unchecked.Next())
	assert.Equal(t, r.Err(), unchecked.Err())
	r.Skip()
	require.NoError(t, r.Err())
	assert.Equal(t, int64(8), r.Next())
}
