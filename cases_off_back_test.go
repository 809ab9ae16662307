package marshal

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// Offsets: positions go on from owner to owner, and never back.

// A position outlives the claims of its partition: one that comes to nothing leaves it as it is, whoever has read the log, from wherever.
func TestC21AClaimThatComesToNothingKeepsThePosition(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(f *forged, k lease.Key, epoch int64){
		"declared dead": func(*forged, lease.Key, int64) {},
		"gone": func(f *forged, _ lease.Key, _ int64) {
			f.write(lease.Record{Kind: lease.KindLeave})
		},
		"gone, without a word of its offset": func(f *forged, k lease.Key, epoch int64) {
			f.write(lease.Record{Kind: lease.KindLeave, Release: lease.Release{Keys: []lease.ReleasedKey{{Key: k, Epoch: epoch}}}})
		},
		"gone, at an offset below": func(f *forged, k lease.Key, epoch int64) {
			f.releaseAt(k, epoch, 0)
			f.write(lease.Record{Kind: lease.KindLeave})
		},
	} {
		for offset, missing := range map[string]bool{"": false, ", Kafka has no offset": true} {
			t.Run(name+offset, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.one("t", 1000)
				k := lease.Key{Topic: "t"}
				watcher := b.marshaler("watcher")
				if !missing {
					b.set(watcher, "t", 0, 500)
				}
				a, x := b.forge(1), b.forge(2)
				x.ttl = lease.MinTTL
				a.join("a")
				epoch := a.claim(k)
				a.beatAt(k, epoch, 500)
				a.releaseAt(k, epoch, 500)
				x.join("b")
				end(x, k, x.claim(k))
				eventually(t, "a free partition", func() bool { return keyOf(watcher, "t", 0).Instance == "" && keyOf(watcher, "t", 0).Client == "b" })
				p := b.marshaler("p") // it replays the log
				for _, m := range []*Marshaler{watcher, p} {
					assert.EqualValues(t, 500, keyOf(m, "t", 0).Next)
				}
				c := b.consumer(p, ConsumerOptions{}, "t")
				for want := int64(500); want < 510; want++ {
					msg, err := c.FetchMessage(within(t, patience))
					require.NoError(t, err)
					require.Equal(t, want, msg.Offset)
					require.NoError(t, msg.Commit())
				}
			})
		}
	}
}

// commits watches the offsets of a topic's partitions as OffsetCommit requests bring them to Kafka.
func (b *bench) commits(topic string) func() map[int32][]int64 {
	var mu sync.Mutex
	stored := map[int32][]int64{}
	h := b.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Observe: true, Count: -1, When: func(r kmsg.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		for _, t := range r.(*kmsg.OffsetCommitRequest).Topics {
			for _, p := range t.Partitions {
				if t.Topic == topic {
					stored[p.Partition] = append(stored[p.Partition], p.Offset)
				}
			}
		}
		return true
	}})
	b.t.Cleanup(h.Remove)
	return func() map[int32][]int64 {
		mu.Lock()
		defer mu.Unlock()
		all := map[int32][]int64{}
		for p, offsets := range stored {
			all[p] = slices.Clone(offsets)
		}
		return all
	}
}

// positions gives the positions of each partition in the order in which the log has them: of heartbeats, releases and ends.
func (b *bench) positions(m *Marshaler) map[int32][]int64 {
	b.t.Helper()
	all := map[int32][]int64{}
	var reader recordReader
	for _, v := range b.written(m) {
		reader.decode(&entry{value: v})
		switch reader.record.Kind {
		case lease.KindHeartbeat:
			for _, topic := range reader.record.Heartbeat.Topics {
				for i, p := range topic.Partitions {
					all[p] = append(all[p], topic.Next[i])
				}
			}
		case lease.KindRelease, lease.KindLeave:
			for _, k := range reader.record.Release.Keys {
				for i, p := range k.Partitions {
					all[p] = append(all[p], k.Next[i])
				}
			}
		}
	}
	return all
}

// One of two partitions goes to a member that comes, and back to the one that stays, ten times: each goes on exactly where the other has
// stopped, and what is written in both places never goes down. (Kafka's own offsets are not fenced, so a commit that was on its way while
// the partition moved may come late, for which a busy machine is allowed one.)
func TestC23APartitionThatGoesBackAndForthNeverGoesBack(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 2, nil))
	stored := b.commits("t")
	o := ConsumerOptions{CommitInterval: 10 * time.Millisecond}
	p := b.marshaler("p")
	kp := collect(t, b.consumer(p, o, "t"))
	eventually(t, "both", func() bool { return holds(p) == 2 })
	written, others := 0, 0
	for range 10 {
		q := b.marshaler("q")
		kq := collect(t, b.consumer(q, o, "t"))
		eventually(t, "one each", func() bool { return holds(p) == 1 && holds(q) == 1 })
		b.fill("t", 2, written, 100)
		written += 100
		eventually(t, "all messages", func() bool { return kp.count()+others+kq.count() == 2*written })
		q.Terminate()
		others += kq.count()
		eventually(t, "both at the first", func() bool { return holds(p) == 2 })
		b.fill("t", 2, written, 100)
		written += 100
		eventually(t, "all messages", func() bool { return kp.count()+others == 2*written })
	}
	assert.Equal(t, 1000, others)
	for id := range int32(2) {
		assert.True(t, slices.IsSorted(kp.offsets("t", id)), "of %d at the first: %v", id, kp.offsets("t", id))
	}
	p.Terminate()
	require.EqualValues(t, 2*written, b.committed("t", 2))
	for id, offsets := range b.positions(b.marshaler("reader")) {
		assert.True(t, slices.IsSorted(offsets), "of %d in the log: %v", id, offsets)
	}
	late := 0
	for _, offsets := range stored() {
		for i := 1; i < len(offsets); i++ {
			if offsets[i] < offsets[i-1] {
				late++
			}
		}
	}
	assert.LessOrEqual(t, late, 1, "of 20 hand-overs")
}

// The same where the first does not give it away, but is cut off: what it knew is void when it comes back.
func TestC23WhoLosesAPartitionAndGetsItBackGoesOnWhereTheOtherStopped(t *testing.T) {
	t.Parallel()
	for _, way := range []testutil.Effect{testutil.Freeze, testutil.Cut} {
		t.Run(way.String(), func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.one("t", 100)
			o := ConsumerOptions{CommitInterval: 10 * time.Millisecond}
			p := b.marshaler("p", WithLease(600*time.Millisecond, 0))
			cp := b.consumer(p, o, "t")
			kp := collect(t, cp)
			eventually(t, "all messages", func() bool { return kp.count() == 100 })
			require.NoError(t, cp.Flush(within(t, patience)))
			b.Faults().Add(testutil.Fault{Client: "p", Do: way})
			q := b.marshaler("q", WithLease(600*time.Millisecond, 0))
			kq := collect(t, b.consumer(q, o, "t"))
			b.fill("t", 1, 100, 100)
			eventually(t, "what is new at the other", func() bool { return kq.count() == 100 })
			b.Faults().Clear()
			eventually(t, "a new life", func() bool { return alive(q) == 2 })
			q.Terminate()
			b.fill("t", 1, 200, 100)
			eventually(t, "what is new at the first", func() bool { return kp.count() == 200 })
			assert.Equal(t, append(upTo(100), upTo(300)[200:]...), kp.offsets("t", 0))
			assert.Equal(t, upTo(200)[100:], kq.offsets("t", 0))
			b.committedAt("t", 0, 300)
		})
	}
}

// A message is of the claim under which it was handed out. When the same offset is handed out again under another, the old one is refused:
// the position passes it once, by the new one.
func TestC25TheCommitOfAFormerDeliveryIsRefused(t *testing.T) {
	t.Parallel()
	for how, again := range map[string]func(t *testing.T, b *bench, m *Marshaler, c *Consumer){
		"evicted": func(t *testing.T, b *bench, m *Marshaler, _ *Consumer) {
			b.marshaler("watcher")
			f := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.Drop})
			eventually(t, "its end", func() bool { return !m.trusted() && keyOf(m, "t", 0).Instance == "" })
			f.Remove()
		},
		"set back": func(t *testing.T, _ *bench, _ *Marshaler, c *Consumer) {
			require.NoError(t, c.Seek(within(t, patience), "t", 0, 10))
		},
		"released": func(t *testing.T, b *bench, m *Marshaler, _ *Consumer) { // by somebody in its name
			epoch := keyOf(m, "t", 0).Epoch
			eventually(t, "its release", func() bool { // which comes to nothing where the member's next record takes the number first
				m.g.mu.Lock()
				x := &forged{b: b, id: m.instance, seq: m.g.log.World().Instance(m.instance).Seq}
				m.g.mu.Unlock()
				x.releaseAt(lease.Key{Topic: "t"}, epoch, 10)
				return keyOf(m, "t", 0).Epoch != epoch
			})
		},
	} {
		for ordering, strict := range map[string]bool{"": false, " strict": true} {
			t.Run(how+ordering, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				b.one("t", 20)
				m := b.marshaler("a", WithLease(600*time.Millisecond, 0))
				c := b.consumer(m, ConsumerOptions{StrictOrdering: strict, CommitInterval: 10 * time.Second}, "t")
				ctx := within(t, patience)
				read := func() *Message {
					msg, err := c.FetchMessage(ctx)
					require.NoError(t, err)
					return msg
				}
				for range 10 {
					require.NoError(t, c.CommitMessages(ctx, read()))
				}
				old := read()
				require.EqualValues(t, 10, old.Offset)
				again(t, b, m, c)
				eventually(t, "the end of the old one", func() bool { return old.Context().Err() != nil })
				renewed := read()
				require.EqualValues(t, 10, renewed.Offset)
				require.Greater(t, renewed.Token(), old.Token())
				position := func() int64 { at, held := c.Position("t", 0); require.True(t, held); return at }
				inFlight := func() int { return c.Stats().Partitions[0].InFlight }
				for range 2 {
					require.ErrorIs(t, old.Commit(), ErrClaimLost)
					require.ErrorIs(t, c.CommitMessages(ctx, old), ErrClaimLost)
					require.EqualValues(t, 10, position(), "not by the old one")
					require.EqualValues(t, 1, inFlight())
				}
				if strict {
					_, err := c.FetchMessage(within(t, 20*time.Millisecond))
					require.ErrorIs(t, err, context.DeadlineExceeded, "the old one opens no permit")
				}
				require.NoError(t, renewed.Commit())
				require.EqualValues(t, 11, position())
				require.ErrorIs(t, old.Commit(), ErrClaimLost)
				require.NoError(t, renewed.Commit(), "again does no harm")
				require.EqualValues(t, 11, position())
				require.Zero(t, inFlight())
				for want := int64(11); want < 20; want++ {
					msg := read()
					require.Equal(t, want, msg.Offset)
					require.NoError(t, msg.Commit())
				}
				require.NoError(t, c.Flush(ctx))
				require.EqualValues(t, 20, keyOf(m, "t", 0).Next)
			})
		}
	}
}

// The position moves over finished messages without a gap, so a crash repeats what lies behind one that is not finished, and loses none.
func TestC26CommitsOutOfOrderNeverPassAHole(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.one("t", 10)
	ctx := within(t, patience)
	read := func(client string, but int64, from int64) (*Marshaler, []*Message) {
		m := b.marshaler(client, WithLease(600*time.Millisecond, 0))
		c := b.consumer(m, ConsumerOptions{DrainTimeout: 50 * time.Millisecond}, "t")
		var got []*Message
		for want := from; want < 10; want++ {
			msg, err := c.FetchMessage(ctx)
			require.NoError(t, err)
			require.Equal(t, want, msg.Offset)
			got = append(got, msg)
		}
		var last *Message
		for _, msg := range got {
			if msg.Offset != but {
				require.NoError(t, msg.Commit())
				last = msg
			}
		}
		require.NoError(t, c.Flush(ctx))
		if but >= 0 {
			assert.ErrorIs(t, c.CommitMessages(ctx, last), ErrCommitPending, "remembered, and not durable")
		}
		b.crash(m)
		return m, got
	}
	_, first := read("a", 2, 0)
	_, second := read("b", -1, 2)
	assert.Greater(t, second[0].Token(), first[2].Token())
	b.fill("t", 1, 10, 1)
	last := b.marshaler("c")
	msg, err := b.consumer(last, ConsumerOptions{}, "t").FetchMessage(ctx)
	require.NoError(t, err)
	assert.EqualValues(t, 10, msg.Offset)
	require.NoError(t, msg.Commit())
	b.Faults().Clear()
	eventually(t, "told to who was cut off, when it can read", func() bool { return errors.Is(first[2].Commit(), ErrClaimLost) })
}
