package main

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestBatchesAreWhatIsSaid(t *testing.T) {
	for _, c := range []content{{size: 100, n: 400_000}, {size: 1024, n: 16_000}, {size: 100, n: 4_000, records: 100}} {
		w := newWriter(c, 3)
		var records int64
		for w.left > 0 {
			batch, n := w.batch(nil)
			if c.records > 0 {
				assert.EqualValues(t, c.records, n)
			} else if w.left > 0 {
				assert.Greater(t, len(batch), batchBytes*99/100)
			}
			assert.LessOrEqual(t, len(batch), batchBytes)
			records += int64(n)
			for i := range n {
				length, at := binary.Varint(batch)
				var r kmsg.Record
				require.NoError(t, r.ReadFrom(batch[:at+int(length)]))
				batch = batch[at+int(length):]
				require.Equal(t, i, r.OffsetDelta)
				require.Len(t, r.Value, c.size)
				require.Len(t, r.Key, keyBytes)
				require.Empty(t, r.Headers)
			}
			require.Empty(t, batch)
		}
		assert.Equal(t, c.n/partitions, records)
	}
}
