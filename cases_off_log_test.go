package marshal

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/testutil"
)

// Offsets: the log is not what the positions are about. It was cut, is another, has holes, or offsets that nobody sees.

// The log is cut beyond a consumer that stands still. It goes on at what is left, keeps its claim, and says once what is lost; the other
// way, ResetToLatest, and FailOutOfRange, are in TestAPositionOutOfRange.
func TestC33FallingBehindRetentionIsToldOnceAndGoesOn(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"channel", "fetch"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			require.NoError(t, b.CreateTopic("t", 1, nil))
			for range 100 { // batches of ten, of which few fit into what is fetched ahead
				_, err := b.Fill("t", 0, 10, 100)
				require.NoError(t, err)
			}
			log, seen := logged(t)
			p, q := b.marshaler("p", WithLogger(log)), b.marshaler("q")
			o := ConsumerOptions{MaxBytes: 1 << 10, MaxBufferedBytes: 2 << 10, MaxInFlight: 10, CommitInterval: 20 * time.Millisecond}
			c := b.consumer(p, o, "t")
			heard := listen(t, c)
			eventually(t, "the partition", func() bool { return holds(p) == 1 })
			idle := collect(t, b.consumer(q, o, "t"))
			ch := make(<-chan *Message)
			if way == "channel" {
				ch = c.ConsumeChannel()
			}
			read := func() *Message {
				if way == "channel" {
					msg, open := <-ch
					require.True(t, open)
					require.NotNil(t, msg)
					return msg
				}
				msg, err := c.FetchMessage(within(t, patience))
				require.NoError(t, err)
				return msg
			}
			var held []*Message
			for range 10 { // and there it is stuck
				held = append(held, read())
			}
			epoch := keyOf(p, "t", 0).Epoch
			require.NoError(t, b.DeleteRecords("t", 0, 500))
			for _, msg := range held {
				require.NoError(t, msg.Commit())
			}
			last := int64(9)
			var gaps [][2]int64
			begun := time.Now()
			for last < 999 {
				msg := read()
				if msg.Offset != last+1 {
					gaps = append(gaps, [2]int64{last + 1, msg.Offset})
					assert.Less(t, time.Since(begun), 2*time.Second)
				}
				last = msg.Offset
				require.NoError(t, msg.Commit())
			}
			require.Len(t, gaps, 1)
			assert.EqualValues(t, 500, gaps[0][1])
			changed := heard.of(OffsetChanged)
			require.Len(t, changed, 1, "told once")
			assert.EqualValues(t, 500, changed[0].Offset)
			text := fmt.Sprintf("the position %d of t/0 is no longer in the log; going on behind it at 500", gaps[0][0])
			assert.Contains(t, changed[0].Text, text, "with both ends")
			eventually(t, "a line", func() bool { return seen.times("warning", text) == 1 })
			assert.Equal(t, epoch, keyOf(p, "t", 0).Epoch, "it keeps its claim")
			assert.Empty(t, heard.of(ClaimLost, ClaimReleased, PartitionFailed))
			assert.Zero(t, idle.count())
			b.committedAt("t", 0, 1000)
			assert.Zero(t, c.Lag())
		})
	}
}

// A topic that was made again has another id, and with that the positions of the old one say nothing, whatever its offsets are: not when the
// new one is short, and not when it has grown longer than the old one was.
func TestC35ARecreatedTopicIsReadFromItsBeginning(t *testing.T) {
	t.Parallel()
	for name, down := range map[string]bool{"while it is read": false, "while nobody reads it": true} {
		for _, first := range []int{10, 2010} {
			t.Run(fmt.Sprintf("%s, %d records", name, first), func(t *testing.T) {
				t.Parallel()
				inBothModes(t, func(t *testing.T, whole bool) {
					b := newBench(t)
					b.one("t", 1000)
					o := ConsumerOptions{ClaimEntireTopic: whole, CommitInterval: 20 * time.Millisecond, LagInterval: 100 * time.Millisecond}
					m := b.marshaler("a")
					c := b.consumer(m, o, "t")
					k := collect(t, c)
					eventually(t, "the first life", func() bool { return k.count() == 1000 })
					b.committedAt("t", 0, 1000)
					negative := false
					watch := func(c *Consumer) {
						for _, p := range c.Stats().Partitions {
							negative = negative || p.Lag < -1 // that is: not known
						}
						negative = negative || c.Lag() < 0 || c.GetCurrentLag() < 0
					}
					heard := listen(t, m)
					if down {
						m.Terminate()
					}
					require.NoError(t, b.RecreateTopic("t", 1, nil))
					b.fill("t", 1, 0, first)
					was := 1000
					if down {
						was = 0
						m = b.marshaler("b")
						c = b.consumer(m, o, "t")
						k = collect(t, c)
					}
					eventually(t, "the second life", func() bool { watch(c); return k.count() >= was+first })
					eventually(t, "its position", func() bool {
						watch(c)
						at, held := c.Position("t", 0)
						return held && at == int64(first)
					})
					b.fill("t", 1, first, 2000)
					eventually(t, "what comes later", func() bool { watch(c); return k.count() >= was+first+2000 })
					assert.Equal(t, upTo(int64(first)+2000), k.offsets("t", 0)[was:], "each once")
					b.committedAt("t", 0, int64(first)+2000)
					assert.False(t, negative, "lag")
					if !down {
						eventually(t, "told", func() bool {
							return slices.ContainsFunc(heard.of(TopicChanged), func(e Event) bool { return strings.Contains(e.Text, "was recreated") })
						})
					}
				})
			})
		}
	}
}

// hollow makes the log of t/0 one batch of 0 to 199,999 of which 0 to 4 are left, and what comes behind it. asked counts the fetches.
func (b *bench) hollow() (asked func() int) {
	b.t.Helper()
	require.NoError(b.t, b.CreateTopic("t", 1, nil))
	for range 200 {
		_, err := b.Fill("t", 0, 1000, 1)
		require.NoError(b.t, err)
	}
	b.OnBatch("t", 0, func(batch []byte) []byte {
		switch first := binary.BigEndian.Uint64(batch); {
		case first == 0:
			batch = testutil.Compact(batch, func(offset int64) bool { return offset < 5 })
			binary.BigEndian.PutUint32(batch[23:], 199_999)
			return reseal(batch)
		case first < 200_000:
			return nil
		}
		return batch
	})
	return b.asked(kmsg.Fetch, "t")
}

// What the log cleaner has left of a batch still says where it ended, so a hole is crossed in one step, however wide it is.
func TestC38AHoleAtTheTailOfABatchIsCrossedInOneStep(t *testing.T) {
	t.Parallel()
	for name, behind := range map[string]bool{"a batch behind it": true, "nothing behind it": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			asked := b.hollow()
			if behind {
				b.fill("t", 1, 200_000, 1)
			}
			m := b.marshaler("a")
			const poll = 300 * time.Millisecond
			c := b.consumer(m, ConsumerOptions{CommitInterval: 20 * time.Millisecond, StallTimeout: time.Second, MaxBytes: 64 << 10, MaxWait: poll}, "t")
			heard := listen(t, c)
			begun := time.Now()
			want := upTo(5)
			if behind {
				want = append(want, 200_000)
			}
			for i, offset := range want {
				msg, err := c.FetchMessage(within(t, patience))
				require.NoError(t, err)
				require.Equal(t, offset, msg.Offset)
				if i < 4 {
					require.NoError(t, msg.Commit())
					continue
				}
				require.NoError(t, c.CommitMessages(within(t, patience), msg))
			}
			assert.Less(t, time.Since(begun), 5*time.Second)
			_, end, err := b.Offsets("t", 0)
			require.NoError(t, err)
			b.committedAt("t", 0, end)
			eventually(t, "no lag", func() bool { return c.Lag() == 0 })
			assert.NoError(t, c.Healthy())
			before, at := asked(), time.Now()
			assert.Less(t, before, 30, "fetches to cross it")
			eventually(t, "polls at the end", func() bool { return asked() >= before+3 })
			assert.Greater(t, time.Since(at), poll, "no fetch storm")
			assert.Empty(t, heard.of(ClaimLost, ClaimReleased, ClaimGivenUp, ClaimStalled))
		})
	}
}

// Lag is counted in offsets, and the position passes the offsets that nobody is handed, so behind a transaction's marker it is 0.
func TestC40BehindATransactionMarkerTheLagIsZero(t *testing.T) {
	t.Parallel()
	for name, level := range map[string]sarama.IsolationLevel{"committed": sarama.ReadCommitted, "uncommitted": sarama.ReadUncommitted} {
		for ending, aborted := range map[string]bool{"": false, ", then an aborted one": true} {
			t.Run(name+ending, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				require.NoError(t, b.CreateTopic("t", 1, nil))
				x := b.begin("x")
				for i := range 10 {
					x.write("t", 0, fmt.Sprint(i))
				}
				x.commit()
				n := 10
				if aborted {
					y := b.begin("y")
					y.write("t", 0, "never meant")
					y.abort()
					if level == sarama.ReadUncommitted {
						n++
					}
				}
				o := isolated(level, false)
				o.StallTimeout = 100 * time.Millisecond
				m := b.marshaler("a", WithLease(600*time.Millisecond, 0))
				c := b.consumer(m, o, "t")
				heard := listen(t, c)
				values(t, c, n)
				b.end(c, testGroup, "t")
				beats := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.DelayAnswers, Delay: time.Nanosecond})
				require.NoError(t, beats.Wait(within(t, patience), 8), "one and a half leases")
				assert.Zero(t, c.Lag())
				assert.NoError(t, c.Healthy())
				assert.Empty(t, heard.of(ClaimLost, ClaimReleased, ClaimStalled, ClaimGivenUp))
				m.Terminate()
				c = b.consumer(b.marshaler("b"), o, "t")
				eventually(t, "it stands there", func() bool { _, held := c.Position("t", 0); return held })
				b.end(c, testGroup, "t")
				_, err := b.Produce("t", 0, testutil.Text("next"))
				require.NoError(t, err)
				assert.Equal(t, []string{"next"}, values(t, c, 1), "nothing twice")
				b.end(c, testGroup, "t")
			})
		}
	}
}
