package marshal

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/testutil"
)

// Brokers: leaders and coordinators that move, partitions that appear or have no leader. The numbers of the tests are those of docs/failures.md.

// epochs are the epochs of all keys: as long as they stay the same nobody has released, lost or claimed anything.
func epochs(m *Marshaler) map[string]int64 {
	all := map[string]int64{}
	for _, k := range m.State().Keys {
		all[fmt.Sprintf("%s/%d", k.Topic, k.Partition)] = k.Epoch
	}
	return all
}

// The recipe moves leaders each second for a minute; here they move as soon as what was written around the last move has been read, which
// says the same in less time. The rows below the first are other ways in which who leads is not who led.
func TestC94LeadersThatMoveCostNoClaimAndNoMessage(t *testing.T) {
	t.Parallel()
	shard := shardOf(testGroup)
	move := func(r *trial, to int32) {
		for p := range int32(4) {
			require.NoError(r.t, r.Kfake().MoveTopicPartition("t", p, (to+p)%3))
		}
		require.NoError(r.t, r.Kfake().MoveTopicPartition(MarshalTopic, shard, to%3))
	}
	for name, disturb := range map[string]func(r *trial, i int32){
		"leaders move": move,
		"each broker stops, and comes back": func(r *trial, i int32) {
			if i > 0 {
				require.NoError(r.t, r.StartBroker((i-1)%3))
			}
			require.NoError(r.t, r.StopBroker(i%3))
		},
		"leaders move, and nobody tells where for a while": func(r *trial, i int32) {
			r.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "t", Err: kerr.LeaderNotAvailable, Count: 10},
				kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: MarshalTopic, Err: kerr.LeaderNotAvailable, Count: 10})
			move(r, i)
		},
		"leaders move, and brokers do not know their own epoch yet": func(r *trial, i int32) {
			move(r, i)
			r.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Err: kerr.UnknownLeaderEpoch, Count: 10},
				kfake.Fault{Keys: []kmsg.Key{kmsg.Fetch}, Topic: "t", Err: kerr.FencedLeaderEpoch, Count: 10})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTrial(t, newBenchOn(t, testutil.WithBrokers(3)))
			require.NoError(t, r.CreateTopic("t", 4, nil))
			o := ConsumerOptions{WatchInterval: time.Minute, RetryBackoffMax: 100 * time.Millisecond}
			m1, m2 := r.marshaler("a", WithLease(10*time.Second, 0)), r.marshaler("b", WithLease(10*time.Second, 0))
			r.watch("a", r.consumer(m1, o, "t"), time.Microsecond)
			r.watch("b", r.consumer(m2, o, "t"), time.Microsecond)
			share(t, 4, m1, m2)
			eventually(t, "all claims, as this one sees them", func() bool {
				seen := epochs(m1)
				return len(seen) == 4 && !slices.Contains(slices.Collect(maps.Values(seen)), 0)
			})
			before := epochs(m1)
			var longest time.Duration
			for i := range int32(9) {
				r.produce("t", 4, 20)
				disturb(r, i)
				begin := time.Now()
				r.produce("t", 4, 20)
				r.read()
				longest = max(longest, time.Since(begin))
			}
			t.Logf("the longest pause: %v", longest)
			assert.LessOrEqual(t, longest, 2*time.Second)
			assert.Equal(t, before, epochs(m1), "no claim was released because of a move")
			r.judge()
		})
	}
}

// Topics grow while two processes run, with each way of claiming, while the partitions are paused, and although a broker lags behind.
func TestC98NewPartitionsAreReadFromTheirFirstRecordByTheMembersThatAreThere(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]struct {
		o      ConsumerOptions
		before func(b *bench, cs ...*Consumer)
		after  func(b *bench, cs ...*Consumer)
	}{
		"partitions": {},
		"topics":     {o: ConsumerOptions{ClaimEntireTopic: true}},
		"greedy":     {o: ConsumerOptions{GreedyClaims: true}},
		"a paused topic": {
			before: func(_ *bench, cs ...*Consumer) {
				for _, c := range cs {
					c.Pause("t")
				}
			},
			after: func(b *bench, cs ...*Consumer) {
				eventually(b.t, "claims of all", func() bool { return holds(cs[0].m)+holds(cs[1].m) == 6 })
				for _, c := range cs {
					c.Resume("t")
				}
			},
		},
		"an answer that knows fewer partitions comes after one that knows all": {
			before: func(b *bench, _ ...*Consumer) {
				var odd atomic.Int64
				b.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Metadata}, Topic: "t", Partitions: []int32{2, 3, 4, 5}, Err: kerr.LeaderNotAvailable, Count: 20,
					When: func(kmsg.Request) bool { return odd.Add(1)%2 == 1 }})
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			require.NoError(t, b.CreateTopic("t", 2, nil))
			s.o.StartOffset = StartLatest // which must not apply to what appears later
			m1, m2 := b.marshaler("a"), b.marshaler("b")
			c1, c2 := b.consumer(m1, s.o, "t"), b.consumer(m2, s.o, "t")
			k1, k2 := collect(t, c1), collect(t, c2)
			keys := 2
			if s.o.ClaimEntireTopic {
				keys = 1
			}
			eventually(t, "what is there", func() bool { return holds(m1)+holds(m2) == keys && alive(m1) == 2 && alive(m2) == 2 })
			before := epochs(m1)
			if s.before != nil {
				s.before(b, c1, c2)
			}
			b.grow("t", 6)
			for p := int32(2); p < 6; p++ {
				_, err := b.Fill("t", p, 100, 10)
				require.NoError(t, err)
			}
			begin := time.Now()
			if s.after != nil {
				s.after(b, c1, c2)
			}
			eventually(t, "all of the new ones", func() bool { return k1.count()+k2.count() >= 400 })
			t.Logf("all after %v", time.Since(begin))
			for p := int32(2); p < 6; p++ {
				assert.Subset(t, append(k1.offsets("t", p), k2.offsets("t", p)...), upTo(100), "t/%d from its first record on", p)
			}
			if s.o.ClaimEntireTopic {
				assert.Equal(t, before, epochs(m1), "the topic was not given up")
				assert.Equal(t, 400, k1.count()+k2.count())
			}
		})
	}
}

// A partition of the data without a leader from the start on holds nobody up, whatever has to be asked about it.
func TestC100APartitionWithoutALeaderHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	for name, whole := range map[string]bool{"partitions": false, "topics": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "t")
			b.fill("t", 4, 0, 10)
			h := b.leaderless("t", 2)
			log, seen := logged(t)
			m := b.marshaler("a", WithLogger(log))
			c := b.consumer(m, ConsumerOptions{ClaimEntireTopic: whole}, "t")
			k := collect(t, c)
			eventually(t, "the others", func() bool { return k.count() == 30 })
			eventually(t, "the reader of the log knows", func() bool { return seen.has("warning", "t/2") })
			assert.Empty(t, k.offsets("t", 2))
			assert.Error(t, c.Healthy())
			b.fill("t", 2, 10, 5)
			eventually(t, "the others go on", func() bool { return k.count() == 40 })
			h.Remove()
			eventually(t, "all", func() bool { return k.count() == 50 })
			assert.Equal(t, upTo(10), k.offsets("t", 2))
			healthy(t, c)
		})
	}
}

// leaderless takes the leader of some partitions away until the handle is removed.
func (b *bench) leaderless(topic string, partitions ...int32) *kfake.FaultHandle {
	return b.Kfake().Fault(
		kfake.Fault{Topic: topic, Partitions: partitions, Keys: []kmsg.Key{kmsg.Metadata}, Err: kerr.LeaderNotAvailable, Count: -1},
		kfake.Fault{Topic: topic, Partitions: partitions, Keys: []kmsg.Key{kmsg.Fetch, kmsg.Produce, kmsg.ListOffsets}, Err: kerr.NotLeaderForPartition, Count: -1},
	)
}

// A group is in one partition of the coordination topic: it alone stops when that one has no leader, and goes on where it was. A process
// can start meanwhile, whose group is elsewhere; one of this group says what it waits for.
func TestC100AShardWithoutALeaderStopsItsOwnGroupsAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	m := b.marshaler("a")
	other, err := NewMarshaler("b", "elsewhere", b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(t)))
	require.NoError(t, err)
	t.Cleanup(other.Terminate)
	require.NotEqual(t, shardOf(testGroup), shardOf("elsewhere"))
	k, kOther := collect(t, b.consumer(m, ConsumerOptions{}, "t")), collect(t, b.consumer(other, ConsumerOptions{}, "t"))
	b.fill("t", 4, 0, 10)
	eventually(t, "all messages", func() bool { return k.count() == 40 && kOther.count() == 40 })
	before, beforeOther := epochs(m), epochs(other)

	h := b.leaderless(MarshalTopic, shardOf(testGroup))
	eventually(t, "trust ends", func() bool { return !m.trusted() })
	assert.ErrorIs(t, m.Healthy(), ErrSuspended)
	b.fill("t", 4, 10, 10)
	eventually(t, "the other group goes on", func() bool { return kOther.count() == 80 })
	assert.True(t, other.trusted())
	assert.Equal(t, 40, k.count(), "nothing is handed out without a lease")
	late, err := NewMarshaler("c", "elsewhere", b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(t)))
	require.NoError(t, err, "who starts needs its own shard alone")
	late.Terminate()
	cluster, err := Dial("d", b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(t)))
	require.NoError(t, err)
	t.Cleanup(cluster.Terminate)
	_, err = cluster.NewMarshalerContext(within(t, 300*time.Millisecond), "d", testGroup)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.ErrorContains(t, err, fmt.Sprintf("%s/%d", MarshalTopic, shardOf(testGroup)))

	h.Remove()
	eventually(t, "it goes on", func() bool { return k.count() == 80 })
	assert.Equal(t, before, epochs(m), "its claims were its own all the time")
	assert.Equal(t, beforeOther, epochs(other))
}

// Coordinators move each 100 ms, and one broker goes. Then one that answers for the group with each error there is, and, since
// agreement does not need it, no coordinator at all.
func TestC106ACoordinatorThatMovesCostsNoOffset(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]struct {
		disturb func(r *trial, i int)
		after   func(r *trial)
	}{
		"it moves, and a broker goes": {disturb: func(r *trial, i int) {
			if i == 5 {
				require.NoError(r.t, r.StopBroker(r.Kfake().CoordinatorFor(testGroup)))
			}
			r.Kfake().RehashCoordinators()
		}},
		"it refuses": {disturb: func(r *trial, i int) {
			errs := []*kerr.Error{kerr.NotCoordinator, kerr.CoordinatorNotAvailable, kerr.CoordinatorLoadInProgress, kerr.RequestTimedOut}
			r.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: errs[i%len(errs)], Count: 3})
		}},
		"there is none": {
			disturb: func(r *trial, i int) {
				if i == 0 {
					r.Kfake().Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.FindCoordinator}, Err: kerr.CoordinatorNotAvailable, Count: 15},
						kfake.Fault{Keys: []kmsg.Key{kmsg.OffsetCommit}, Err: kerr.NotCoordinator, Count: 15})
				}
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newTrial(t, newBenchOn(t, testutil.WithBrokers(3)))
			require.NoError(t, r.CreateTopic("t", 4, nil))
			m := r.marshaler("a")
			r.watch("a", r.consumer(m, ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t"), time.Microsecond)
			eventually(t, "all", func() bool { return holds(m) == 4 })
			before := epochs(m)
			tick := time.NewTicker(100 * time.Millisecond)
			defer tick.Stop()
			for i := range 10 {
				<-tick.C
				s.disturb(r, i)
				r.produce("t", 4, 5)
			}
			r.read() // no commit error stops delivery
			eventually(t, "offsets in kafka", func() bool { return r.committed("t", 4) == 200 })
			assert.Equal(t, before, epochs(m))
			r.judge()
		})
	}
}
