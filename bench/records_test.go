package main

import (
	"encoding/binary"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestBatchesAreWhatIsSaid(t *testing.T) {
	for _, c := range []content{{Size: 100, N: 400_000}, {Size: 1024, N: 16_000}, {Size: 100, N: 4_000, Records: 100}} {
		w := newWriter(c, 3)
		var records int64
		for w.left > 0 {
			batch, n := w.batch(nil)
			if c.Records > 0 {
				assert.EqualValues(t, c.Records, n)
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
				require.Len(t, r.Value, c.Size)
				require.Len(t, r.Key, keyBytes)
				require.Empty(t, r.Headers)
			}
			require.Empty(t, batch)
		}
		assert.Equal(t, c.N/partitions, records)
	}
}
