package marshal

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// alive is how many members a process knows of.
func alive(m *Marshaler) int { return len(m.State().Instances) }

// share waits until the processes hold all n keys among them, evenly, and know of each other and nobody else.
func share(t testing.TB, n int, ms ...*Marshaler) {
	t.Helper()
	eventually(t, "a share for each", func() bool {
		sum := 0
		for _, m := range ms {
			h := holds(m)
			if h < n/len(ms) || h > (n+len(ms)-1)/len(ms) || alive(m) != len(ms) {
				return false
			}
			sum += h
		}
		return sum == n
	})
}

// Whoever was there notices by the topic's id, ends its claims, and begins anew on the new topic; positions are kept by Kafka. That
// two owners overlap for a ttl at most is exception 2 of PROTOCOL.md: nobody can say of a log that is gone what was in it.
func TestC86ACoordinationTopicThatIsDeletedAndMadeAgainHeals(t *testing.T) {
	t.Parallel()
	for _, pause := range []bool{false, true} {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 9, nil))
		b.fill("t", 9, 0, 50)
		var ms []*Marshaler
		var ks []*collector
		count := func() (n int) {
			for _, k := range ks {
				n += k.count()
			}
			return n
		}
		for _, name := range []string{"a", "b", "c"} {
			m := b.marshaler(name)
			ms = append(ms, m)
			ks = append(ks, collect(t, b.consumer(m, ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t")))
		}
		share(t, 9, ms...)
		eventually(t, "all messages", func() bool { return count() >= 450 })
		eventually(t, "offsets in kafka", func() bool { return b.committed("t", 9) == 450 })
		before := count()

		require.NoError(t, b.DeleteTopic(MarshalTopic))
		if pause {
			eventually(t, "claims that end", func() bool { return ms[0].State().Offset < 0 })
		}
		require.NoError(t, b.CreateTopic(MarshalTopic, 32, nil))
		eventually(t, "claims that end", func() bool { return ms[0].State().Offset < 0 || len(ms[0].State().Instances) < 3 })
		share(t, 9, ms...)
		b.fill("t", 9, 50, 10)
		eventually(t, "what is new", func() bool { return count() >= before+90 })
		assert.Equal(t, before+90, count(), "positions were kept")
		last := b.marshaler("d") // who has never seen the old one
		b.consumer(last, ConsumerOptions{}, "t")
		share(t, 9, append(ms, last)...)
		eventually(t, "one world", func() bool {
			for _, m := range ms {
				if !reflect.DeepEqual(m.State().Keys, last.State().Keys) {
					return false
				}
			}
			return true
		})
	}
}

// committed sums up the group's offsets in Kafka of the first partitions of a topic.
func (b *bench) committed(topic string, partitions int32) (sum int64) {
	b.t.Helper()
	for p := range partitions {
		at, _, err := b.Committed(testGroup, topic, p)
		require.NoError(b.t, err)
		sum += max(at, 0)
	}
	return sum
}

// scribble appends to the group's shard under the group's name.
func (b *bench) scribble(values ...[]byte) {
	b.t.Helper()
	for _, v := range values {
		_, err := b.Produce(MarshalTopic, shardOf(testGroup), testutil.Message{Key: []byte(testGroup), Value: v})
		require.NoError(b.t, err)
	}
}

// written gives the values of all records of the group so far.
func (b *bench) written(m *Marshaler) (values [][]byte) {
	b.t.Helper()
	tl := newTail(m.c, shardOf(testGroup))
	defer tl.close()
	ctx := within(b.t, patience)
	start, end, err := tl.bounds(ctx)
	require.NoError(b.t, err)
	tl.seek(start)
	require.NoError(b.t, tl.through(ctx, end, func(e *entry) {
		if string(e.key) == testGroup {
			values = append(values, bytes.Clone(e.value))
		}
	}))
	return values
}

// garbage is what nobody of ours writes.
func garbage() [][]byte {
	random := make([]byte, 5000)
	for i := range random {
		random[i] = byte(i * i >> 3)
	}
	more := appendRecord(nil, &lease.Record{Kind: lease.KindHeartbeat, Version: lease.WireVersion, Instance: lease.InstanceID{1}, Seq: 7, Heartbeat: lease.Heartbeat{P: -1}})
	for i := range protowire.Number(20) {
		more = protowire.AppendVarint(protowire.AppendTag(more, 1000+i, protowire.VarintType), 1)
	}
	unknown := protowire.AppendBytes(protowire.AppendTag(strangersHeartbeat(), 99, protowire.BytesType), []byte("a content that nobody knows"))
	return [][]byte{
		more, unknown, {0, 2, 0xc3, 0x28, 0xa0, 0xa1},
		nil, {}, {0}, {0, 2}, {0, 99}, {0xff}, bytes.Repeat([]byte("/"), 900_000), random, append([]byte{0, 2}, random...),
		append([]byte{0, 2}, bytes.Repeat([]byte{0xff}, 10)...), []byte("Heartbeat/1/2/3"), {0, 2, 0x0a, 0xff, 0xff, 0xff, 0xff, 0x7f},
	}
}

func TestC79GarbageInTheCoordinationTopicChangesNothingForAnybody(t *testing.T) {
	b := newBench(t, "t")
	require.NoError(t, b.CreateTopic(MarshalTopic, 32, map[string]string{"message.timestamp.type": "LogAppendTime"}))
	b.strangers("garbage is what this is about")
	b.scribble(garbage()...) // as the first records
	everywhere := func() {   // in every shard, under the group's name and under none
		for shard := range int32(32) {
			for _, v := range garbage()[:8] {
				_, err := b.Produce(MarshalTopic, shard, testutil.Message{Key: []byte(testGroup), Value: v}, testutil.Message{Key: bytes.Repeat([]byte{0xff}, 9), Value: v})
				require.NoError(t, err)
			}
		}
	}
	everywhere()
	log, seen := logged(t)
	m1, m2 := b.marshaler("a", WithLogger(log)), b.marshaler("b")
	b.consumer(m1, ConsumerOptions{}, "t")
	b.consumer(m2, ConsumerOptions{}, "t")
	share(t, 4, m1, m2)
	for _, v := range b.written(m1)[len(garbage())+8:] {
		b.scribble(v, v[:len(v)/2], v[:len(v)-1], append(bytes.Clone(v), 0xff)) // in the middle, truncated and longer; and the record again
	}
	b.scribble(garbage()...) // and as the last
	_, err := b.Produce(MarshalTopic, shardOf(testGroup), testutil.Message{}, testutil.Message{Headers: []kmsg.Header{{Key: "h"}}}, testutil.Text("no key"))
	require.NoError(t, err)
	everywhere()
	begin := time.Now()
	m3 := b.marshaler("c")
	assert.Less(t, time.Since(begin), bound, "garbage at the end is an end like any other")
	b.consumer(m3, ConsumerOptions{}, "t")
	share(t, 4, m1, m2, m3)
	eventually(t, "one world", func() bool {
		s := m3.State()
		return reflect.DeepEqual(m1.State().Keys, s.Keys) && reflect.DeepEqual(m2.State().Keys, s.Keys)
	})
	eventually(t, "a line", func() bool { return seen.has("warning", "somebody else writes") })
	assert.Equal(t, 1, seen.times("warning", "somebody else writes"), "and a minute until the next")
}

// The shard of a group follows from its name alone, so whoever sees more partitions looks where everybody looks. A topic that is too small
// is grown at the start, before anybody works on it.
func TestC77MorePartitionsOfTheCoordinationTopicChangeNothing(t *testing.T) {
	t.Parallel()
	r := newTrial(t, newBench(t))
	require.NoError(t, r.CreateTopic("t", 12, nil))
	require.NoError(t, r.CreateTopic(MarshalTopic, 4, map[string]string{"message.timestamp.type": "LogAppendTime"}))
	m1, m2 := r.marshaler("a"), r.marshaler("b")
	assert.Len(t, r.Kfake().PartitionInfos(MarshalTopic), 32)
	r.watch("a", r.consumer(m1, ConsumerOptions{}, "t"), time.Microsecond)
	r.watch("b", r.consumer(m2, ConsumerOptions{}, "t"), time.Microsecond)
	share(t, 12, m1, m2)
	r.produce("t", 12, 50)
	r.read()
	before := m1.State().Keys
	r.grow(MarshalTopic, 48)
	m3 := r.marshaler("c")
	r.watch("c", r.consumer(m3, ConsumerOptions{}, "t"), time.Microsecond)
	share(t, 12, m1, m2, m3)
	moved := 0
	for i, k := range m3.State().Keys {
		if k.Epoch != before[i].Epoch {
			moved++
		}
	}
	assert.Equal(t, 4, moved, "only what went to the newcomer")
	r.produce("t", 12, 50)
	r.judge()
}

func TestC82ATailOfTheShardThatNobodySeesKeepsNobodyWaiting(t *testing.T) {
	shard := shardOf(testGroup)
	for name, hide := range map[string]func(b *bench){
		"a commit marker": func(b *bench) {
			b.transact(MarshalTopic, shard, true, "foreign")
			b.strangers("they come with the marker")
		},
		"an abort marker": func(b *bench) {
			b.transact(MarshalTopic, shard, false, "foreign")
			b.strangers("they come with the marker")
		},
		"nothing":     func(*bench) {},
		"a cut start": func(b *bench) { require.NoError(b.t, b.DeleteRecords(MarshalTopic, shard, -1)) },
		"a batch of which the cleaner has left nothing": func(b *bench) {
			b.strangers("the cleaner's work is their records")
			first, err := b.Produce(MarshalTopic, shard, testutil.Text("of nobody"), testutil.Text("of nobody"))
			require.NoError(b.t, err)
			b.t.Cleanup(b.OnBatch(MarshalTopic, shard, func(raw []byte) []byte {
				return testutil.Compact(raw, func(offset int64) bool { return offset != first && offset != first+1 })
			}))
		},
		"a batch that is gone": func(b *bench) {
			b.strangers("they write what is gone then")
			first, err := b.Produce(MarshalTopic, shard, testutil.Text("of nobody"))
			require.NoError(b.t, err)
			b.t.Cleanup(b.OnBatch(MarshalTopic, shard, func(raw []byte) []byte {
				if int64(binary.BigEndian.Uint64(raw)) == first {
					return nil
				}
				return raw
			}))
		},
		"records that never end": func(b *bench) {
			b.strangers("another group's records are no records of ours here")
			ctx, cancel := context.WithCancel(context.Background())
			var wg sync.WaitGroup
			b.t.Cleanup(func() { cancel(); wg.Wait() })
			wg.Go(func() {
				for ctx.Err() == nil { // 2,000 a second
					_, _ = b.Produce(MarshalTopic, shard, slices.Repeat([]testutil.Message{testutil.Text("of another group")}, 20)...)
					pause(ctx, 10*time.Millisecond)
				}
			})
		},
	} {
		for _, alone := range []bool{false, true} { // nobody lives whose next record would come after what nobody sees
			if alone && name == "a cut start" {
				continue // it waits for the largest lease: TestANewcomerToAShardWhoseBeginningIsGoneAndWhereNobodyIsBeginsAfresh
			}
			t.Run(fmt.Sprintf("%s, alone %t", name, alone), func(t *testing.T) {
				b := newBench(t, "t")
				m := b.marshaler("a")
				b.consumer(m, ConsumerOptions{}, "t")
				eventually(t, "all", func() bool { return holds(m) == 4 })
				if alone {
					m.Terminate()
				}
				hide(b)
				begin := time.Now()
				m2 := b.marshaler("b")
				b.consumer(m2, ConsumerOptions{}, "t")
				if alone {
					share(t, 4, m2)
				} else {
					share(t, 4, m, m2)
				}
				assert.Less(t, time.Since(begin), 5*time.Second)
			})
		}
	}
}

// The log is cut, by an election that loses records, after a newcomer has asked for its end: it does not wait for what is not there. It
// has lost nothing that it had read, so there is nothing to warn of, unless it lasts.
func TestC82ALogThatIsCutWhileItIsReplayedIsReplayedAnew(t *testing.T) {
	for name, beyond := range map[string]int64{"of what the newcomer is reading": 50, "of nothing that it needs": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "t")
			m := b.marshaler("a")
			b.consumer(m, ConsumerOptions{}, "t")
			eventually(t, "all", func() bool { return holds(m) == 4 })
			m.Terminate()
			var ended atomic.Bool
			b.Kfake().ControlKey(int16(kmsg.ListOffsets), func(kr kmsg.Request) (kmsg.Response, error, bool) {
				b.Kfake().KeepControl()
				r := kr.(*kmsg.ListOffsetsRequest)
				if len(r.Topics) != 1 || r.Topics[0].Topic != MarshalTopic || len(r.Topics[0].Partitions) != 1 ||
					r.Topics[0].Partitions[0].Timestamp != -1 || ended.Swap(true) {
					return nil, nil, false
				}
				resp := r.ResponseKind().(*kmsg.ListOffsetsResponse)
				rt, rp := kmsg.NewListOffsetsResponseTopic(), kmsg.NewListOffsetsResponseTopicPartition()
				rt.Topic, rp.Partition = MarshalTopic, r.Topics[0].Partitions[0].Partition
				rp.Offset, rp.LeaderEpoch = b.Kfake().PartitionInfo(MarshalTopic, rp.Partition).HighWatermark+beyond, 0
				rt.Partitions = append(rt.Partitions, rp)
				resp.Topics = append(resp.Topics, rt)
				return resp, nil, true
			})
			begin := time.Now()
			next := b.marshaler("b")
			assert.Less(t, time.Since(begin), 5*time.Second)
			require.True(t, ended.Load(), "it was told another end")
			b.consumer(next, ConsumerOptions{}, "t")
			eventually(t, "all", func() bool { return holds(next) == 4 })
		})
	}
}

// transact writes one transaction.
func (b *bench) transact(topic string, partition int32, commit bool, values ...string) {
	b.t.Helper()
	cfg := b.Config("transactor")
	cfg.Version = sarama.V2_8_0_0
	cfg.Producer.Idempotent, cfg.Producer.RequiredAcks, cfg.Net.MaxOpenRequests = true, sarama.WaitForAll, 1
	cfg.Producer.Transaction.ID = "transaction"
	cfg.Producer.Return.Successes = true
	cfg.Producer.Partitioner = sarama.NewManualPartitioner
	p, err := sarama.NewSyncProducer(b.Addrs(), cfg)
	require.NoError(b.t, err)
	defer p.Close()
	require.NoError(b.t, p.BeginTxn())
	for _, v := range values {
		_, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: topic, Partition: partition, Value: sarama.StringEncoder(v)})
		require.NoError(b.t, err)
	}
	if commit {
		require.NoError(b.t, p.CommitTxn())
	} else {
		require.NoError(b.t, p.AbortTxn())
	}
}

func TestC84WhoFallsOffTheStartOfTheShardDropsItsWorldAndJoinsAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	b.fill("t", 4, 0, 50)
	m1, m2 := b.marshaler("a"), b.marshaler("b")
	c1 := b.consumer(m1, ConsumerOptions{}, "t")
	k1, k2 := collect(t, c1), collect(t, b.consumer(m2, ConsumerOptions{}, "t"))
	share(t, 4, m1, m2)
	at := slices.IndexFunc(m1.State().Instances, func(i InstanceState) bool { return i.Client == "a" })
	before := m1.State().Instances[at].Instance
	eventually(t, "all messages", func() bool { return k1.count()+k2.count() >= 200 })
	f := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Reads, Do: testutil.Cut})
	eventually(t, "all at the other", func() bool { return holds(m2) == 4 })
	_, end, err := b.Offsets(MarshalTopic, shardOf(testGroup))
	require.NoError(t, err)
	require.NoError(t, b.DeleteRecords(MarshalTopic, shardOf(testGroup), end))
	was := k1.count()
	b.fill("t", 4, 50, 10)
	eventually(t, "what is new at the other", func() bool { return k2.count()+was >= 240 })
	f.Remove()
	eventually(t, "a new life", func() bool { return alive(m1) == 2 && alive(m2) == 2 })
	assert.Equal(t, was, k1.count(), "nothing by the old world")
	for _, r := range b.log(b.looker(), testGroup) {
		assert.NotEqual(t, before, r.Instance, "nothing was written by the old world: %s", r.Text)
	}
	share(t, 4, m1, m2)
	b.fill("t", 4, 60, 10)
	eventually(t, "it competes again", func() bool { return k1.count() > was && k1.count()+k2.count() >= 280 })
}

func TestANewcomerToAShardWhoseBeginningIsGoneStartsFromASnapshotOfThoseWhoAreThere(t *testing.T) {
	b := newBench(t, "t")
	m1 := b.marshaler("a")
	b.consumer(m1, ConsumerOptions{}, "t")
	eventually(t, "all", func() bool { return holds(m1) == 4 })
	require.NoError(t, b.DeleteRecords(MarshalTopic, shardOf(testGroup), -1))
	m2 := b.marshaler("b")
	b.consumer(m2, ConsumerOptions{}, "t")
	share(t, 4, m1, m2)
	m3 := b.marshaler("c")
	b.consumer(m3, ConsumerOptions{}, "t")
	share(t, 4, m1, m2, m3)
}

func TestANewcomerToAShardWhoseBeginningIsGoneAndWhereNobodyIsBeginsAfresh(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the largest ttl, 30 s")
	}
	t.Parallel()
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m1 := b.marshaler("a")
	k1 := collect(t, b.consumer(m1, ConsumerOptions{}, "t"))
	eventually(t, "all messages", func() bool { return k1.count() == 40 })
	m1.Terminate()
	require.NoError(t, b.DeleteRecords(MarshalTopic, shardOf(testGroup), -1))
	c, err := Dial("b", b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(t)))
	require.NoError(t, err)
	defer c.Terminate()
	m2, err := c.NewMarshaler("b", testGroup) // without a context too
	require.NoError(t, err)
	k2 := collect(t, b.consumer(m2, ConsumerOptions{}, "t"))
	b.fill("t", 4, 10, 1)
	eventually(t, "what is new", func() bool { return k2.count() >= 4 })
	assert.Equal(t, []int64{10}, k2.offsets("t", 0), "the position was kept by Kafka")
}

func TestC89GroupsTouchEachOtherNowhere(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 25)
	groups := []string{"g1", "g", "g2", "g10", shardMate("g1")}
	require.Equal(t, shardOf(groups[0]), shardOf(groups[4]))
	var ms [][2]*Marshaler
	var ks [][2]*collector
	var cs [][2]*Consumer
	for _, g := range groups {
		var m [2]*Marshaler
		var k [2]*collector
		var c [2]*Consumer
		for i, client := range []string{"same", "other"} {
			var err error
			m[i], err = NewMarshaler(client, g, b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(t)))
			require.NoError(t, err)
			t.Cleanup(m[i].Terminate)
			c[i] = b.consumer(m[i], ConsumerOptions{}, "t")
			k[i] = collect(t, c[i])
		}
		ms, ks, cs = append(ms, m), append(ks, k), append(cs, c)
	}
	count := func(i int) int { return ks[i][0].count() + ks[i][1].count() }
	for i := range groups {
		share(t, 4, ms[i][:]...)
		eventually(t, "all messages for each", func() bool { return count(i) >= 100 })
	}
	epochs := func() (all [][]int64) {
		for _, m := range ms[1:] {
			var es []int64
			for _, k := range m[0].State().Keys {
				es = append(es, k.Epoch)
			}
			all = append(all, es)
		}
		return all
	}
	seen, before := make([]int, len(groups)), epochs()
	for i := range groups {
		seen[i] = count(i)
	}
	cs[0][0].Pause("t") // one group pauses,
	cs[0][1].Pause("t")
	require.True(t, cs[0][1].Terminate(true)) // releases,
	eventually(t, "all at the other of it", func() bool { return holds(ms[0][0]) == 4 })
	ms[0][0].cancel() // and dies
	eventually(t, "nobody", func() bool { return alive(ms[0][1]) == 1 })
	_ = ms[0][0].Close(within(t, 10*time.Millisecond)) // what is left of it
	b.fill("t", 4, 25, 5)
	for i := 1; i < len(groups); i++ {
		eventually(t, "the new ones for the others", func() bool { return count(i) >= seen[i]+20 })
		assert.Equal(t, seen[i]+20, count(i), "each once")
		assert.Equal(t, 2, alive(ms[i][0]))
		s := ms[i][0].State()
		assert.Equal(t, groups[i], s.Group)
		assert.Contains(t, s.String(), "group "+groups[i])
		for _, other := range ms {
			for _, in := range other[0].State().Instances {
				assert.Equal(t, other[0] == ms[i][0], slices.ContainsFunc(s.Instances, func(n InstanceState) bool { return n.Instance == in.Instance }))
			}
		}
	}
	assert.Equal(t, before, epochs(), "no claim of theirs moved")
	assert.Equal(t, seen[0], count(0), "it is paused, gone and dead")
}

// shardMate is another group of the same shard.
func shardMate(group string) string {
	for i := 0; ; i++ {
		if name := fmt.Sprint("mate", i); shardOf(name) == shardOf(group) {
			return name
		}
	}
}

func TestC91RecordsOfANewerVersionByStrangersAreNeitherHeedNorHarm(t *testing.T) {
	b := newBench(t, "t")
	m1 := b.marshaler("a")
	b.consumer(m1, ConsumerOptions{}, "t")
	eventually(t, "all", func() bool { return holds(m1) == 4 })
	before := m1.State().Keys
	b.strangers("strangers write in a newer version")
	for _, v := range b.written(m1) {
		if len(v) > 20 {
			v[1]++ // of a newer version
			for i := range 16 {
				v[6+i] ^= 0x55 // and somewhere in it another instance
			}
			b.scribble(v)
		}
	}
	m2 := b.marshaler("b")
	b.consumer(m2, ConsumerOptions{MaximumClaims: 1}, "t")
	eventually(t, "three and one", func() bool { return holds(m1) == 3 && holds(m2) == 1 })
	kept := 0
	for i, k := range m2.State().Keys {
		if k.Epoch == before[i].Epoch {
			kept++
		}
	}
	assert.Equal(t, 3, kept)
}

func TestWhoCanWriteButNotReadIsSilentAndLosesItsKeys(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m1, m2 := b.marshaler("a"), b.marshaler("b")
	k1, k2 := collect(t, b.consumer(m1, ConsumerOptions{}, "t")), collect(t, b.consumer(m2, ConsumerOptions{}, "t"))
	share(t, 4, m1, m2)
	f := b.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Reads, Do: testutil.Drop})
	eventually(t, "trust that ends", func() bool { return !m1.trusted() })
	eventually(t, "all at the other", func() bool { return holds(m2) == 4 })
	b.fill("t", 4, 10, 10)
	eventually(t, "all messages", func() bool { return k1.count()+k2.count() >= 80 })
	f.Remove()
	eventually(t, "a new life", func() bool { return alive(m1) == 2 && alive(m2) == 2 && m1.trusted() })
}

func TestADeletedCoordinationTopicIsMadeAgain(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 10)
	m := b.marshaler("a", WithLease(500*time.Millisecond, 0))
	k := collect(t, b.consumer(m, ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t"))
	eventually(t, "all messages, and their offsets in Kafka", func() bool {
		offset, _, err := b.Committed(testGroup, "t", 3)
		return err == nil && offset == 10 && k.count() == 40
	})
	require.NoError(t, b.DeleteTopic(MarshalTopic))
	b.fill("t", 4, 10, 5)
	eventually(t, "the new messages", func() bool { return k.count() >= 60 })
	eventually(t, "the topic", func() bool { return b.Kfake().TopicInfo(MarshalTopic) != nil }) // trust may last until then
}
