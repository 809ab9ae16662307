//go:build marshalbreak

package marshal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/rule"
	"github.com/kafka-marshal/marshal/testutil"
)

// With the margin of trust broken in the shipped code, an owner that is cut off hands out for longer than its lease lasts for others:
// porcupine finds it, and finds nothing where no rule is broken. (What else can be broken about hand-out binds the member alone: the
// runtime has a gate of its own.)
//
//	go test -tags marshalbreak -run TestABrokenMarginIsNotLinearizable .
func TestABrokenMarginIsNotLinearizable(t *testing.T) {
	require.NoError(t, cutOffInTheMiddle(t).Err())
	rule.Break(rule.Margin)
	defer rule.Break(rule.None)
	for range 5 { // on a busy machine the successor may be too slow to meet it
		if err := cutOffInTheMiddle(t).Err(); err != nil {
			assert.ErrorContains(t, err, "a is handed")
			t.Log(err)
			return
		}
	}
	assert.Fail(t, "nothing was found")
}

// cutOffInTheMiddle has one of two members cut off while it has enough to hand out for longer than its lease, and judges.
func cutOffInTheMiddle(t *testing.T) *testutil.Linearity {
	r := newTrial(t, newBench(t, "t"))
	m1, m2 := r.marshaler("a"), r.marshaler("b")
	o := ConsumerOptions{CommitInterval: 20 * time.Millisecond}
	w1 := r.watch("a", r.consumer(m1, o, "t"), time.Millisecond)
	r.watch("b", r.consumer(m2, o, "t"), 100*time.Microsecond)
	share(t, 4, m1, m2)
	r.produce("t", 4, 2000)
	eventually(t, "messages of both its partitions", func() bool {
		w1.mu.Lock()
		defer w1.mu.Unlock()
		return len(w1.seen) == 2
	})
	f := r.Faults().Add(testutil.Fault{Client: "a", Do: testutil.Freeze})
	eventually(t, "all at the other", func() bool { return holds(m2) == 4 })
	eventually(t, "the end of its trust", func() bool { return !m1.trusted() })
	f.Remove()
	r.cancel()
	r.wg.Wait()
	logs, err := testutil.ReadHandoutLogs(r.dir)
	require.NoError(t, err)
	l := testutil.Linearize(testutil.Evidence{Logs: logs})
	t.Logf("%d operations, %s", l.Operations, l.Line())
	return l
}
