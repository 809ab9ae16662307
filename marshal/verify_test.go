package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kafka-marshal/marshal"
	"github.com/kafka-marshal/marshal/testutil"
)

func TestMain(m *testing.M) { testutil.VerifyNoLeaks(m) }

const (
	fleetTTL = 1500 * time.Millisecond
	patience = 20 * time.Second // for what takes milliseconds on a quiet machine
)

// fleet is an embedded broker with members of the group "orders" that share the topic "orders".
type fleet struct {
	t *testing.T
	*testutil.Cluster
}

func newFleet(t *testing.T, opts ...testutil.Option) *fleet {
	t.Helper()
	f := &fleet{t, testutil.NewCluster(t, opts...)}
	require.NoError(t, f.CreateTopic("orders", 6, nil))
	for p := range int32(6) {
		_, err := f.Fill("orders", p, 20, 10)
		require.NoError(t, err)
	}
	return f
}

// reader is a consumer that reads, and commits what it reads.
type reader struct {
	*marshal.Consumer
	read atomic.Int64
}

// member joins and reads.
func (f *fleet) member(client string) (*marshal.Marshaler, *reader) {
	f.t.Helper()
	m, err := marshal.NewMarshaler(client, "orders", f.Addrs(), marshal.WithLease(fleetTTL, 0), marshal.WithLogger(testutil.Logger(f.t)))
	require.NoError(f.t, err)
	f.t.Cleanup(m.Terminate)
	c, err := m.NewConsumer([]string{"orders"}, marshal.ConsumerOptions{CommitInterval: 20 * time.Millisecond, DrainTimeout: time.Second, FastReclaim: true})
	require.NoError(f.t, err)
	r := &reader{Consumer: c}
	ctx, cancel := context.WithCancel(context.Background())
	var reading sync.WaitGroup
	reading.Go(func() {
		for msg, err := range c.Messages(ctx) {
			if err == nil {
				r.read.Add(1)
				_ = msg.Commit() // a claim that was lost is another's now
			}
		}
	})
	f.t.Cleanup(func() { cancel(); reading.Wait() })
	return m, r
}

// waits until a condition holds; the text says which.
func (f *fleet) waits(what string, ok func() bool) {
	f.t.Helper()
	require.Eventually(f.t, ok, patience, 5*time.Millisecond, what)
}

// shared waits until members hold all partitions among them, evenly, and have read everything that is there.
func (f *fleet) shared(m *marshal.Marshaler, members int) {
	f.t.Helper()
	f.waits(fmt.Sprintf("%d members share everything", members), func() bool {
		held := map[string]int{}
		s := m.State()
		if slices.ContainsFunc(s.Instances, func(i marshal.InstanceState) bool { return i.Parked && i.Claims > 0 }) {
			return false
		}
		for _, k := range s.Keys {
			_, end, err := f.Offsets(k.Topic, max(k.Partition, 0))
			if err != nil || k.Instance == "" || k.Next != end {
				return false
			}
			held[k.Instance]++
		}
		for _, n := range held {
			if n != 6/members {
				return false
			}
		}
		return len(held) == members
	})
}

// command runs the command with the brokers of the fleet.
func (f *fleet) command(args ...string) (code int, stdout, stderr string) {
	f.t.Helper()
	return runs(append(args, "-brokers", strings.Join(f.Addrs(), ","))...)
}

func runs(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	code = run(ctx, args, &out, &errs)
	return code, out.String(), errs.String()
}

// shard is the one of the group "orders".
func (f *fleet) shard() int32 {
	f.t.Helper()
	for s := range int32(32) {
		if _, next, err := f.Offsets(marshal.MarshalTopic, s); err == nil && next > 0 {
			return s
		}
	}
	require.Fail(f.t, "no shard is written")
	return -1
}

// written reads what stands in a shard.
func (f *fleet) written(shard int32) (all []testutil.Message) {
	f.t.Helper()
	first, next, err := f.Offsets(marshal.MarshalTopic, shard)
	require.NoError(f.t, err)
	require.Zero(f.t, first)
	c, err := sarama.NewConsumer(f.Addrs(), f.Config("copy"))
	require.NoError(f.t, err)
	defer c.Close()
	p, err := c.ConsumePartition(marshal.MarshalTopic, shard, 0)
	require.NoError(f.t, err)
	defer p.Close()
	for int64(len(all)) < next {
		m := <-p.Messages()
		require.EqualValues(f.t, len(all), m.Offset, "no hole: a copy has the same offsets")
		all = append(all, testutil.Message{Key: m.Key, Value: m.Value, Time: m.Timestamp})
	}
	return all
}

// copyTo writes messages to a shard of another coordination topic.
func (f *fleet) copyTo(topic string, shard int32, ms []testutil.Message) {
	f.t.Helper()
	require.NoError(f.t, f.CreateTopic(topic, 32, nil))
	_, err := f.Produce(topic, shard, ms...)
	require.NoError(f.t, err)
}

// heartbeat is a heartbeat with one position, as record.proto has it.
func heartbeat(instance []byte, seq uint64, topic string, partition int32, epoch, next int64) []byte {
	field := func(b []byte, n protowire.Number, v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(b, n, protowire.BytesType), v)
	}
	packed := func(b []byte, n protowire.Number, v int64) []byte {
		return field(b, n, protowire.AppendVarint(nil, uint64(v)))
	}
	progress := field(nil, 1, []byte(topic))
	progress = packed(packed(packed(progress, 3, int64(partition)), 4, epoch), 5, next)
	b := field([]byte{0, 2}, 1, instance)
	b = protowire.AppendVarint(protowire.AppendTag(b, 2, protowire.VarintType), seq)
	return field(b, 4, field(nil, 1, progress))
}

// authors finds the newest seq of each instance, by the short form of its id.
func authors(ms []testutil.Message) (ids map[string][]byte, seqs map[string]uint64) {
	ids, seqs = map[string][]byte{}, map[string]uint64{}
	for _, m := range ms {
		b := m.Value[2:]
		if n, kind, size := protowire.ConsumeTag(b); n != 1 || kind != protowire.BytesType {
			continue
		} else if b = b[size:]; len(b) < 17 {
			continue
		}
		id, size := protowire.ConsumeBytes(b)
		b = b[size:]
		if n, _, size := protowire.ConsumeTag(b); n == 2 {
			seq, _ := protowire.ConsumeVarint(b[size:])
			name := hex.EncodeToString(id[:4])
			ids[name], seqs[name] = id, max(seqs[name], seq)
		}
	}
	return ids, seqs
}

func TestVerifyFindsWhatIsPlantedInACopyOfALog(t *testing.T) {
	f := newFleet(t)
	m1, _ := f.member("w1")
	f.shared(m1, 1)
	m2, _ := f.member("w2")
	f.shared(m1, 2)
	m3, c3 := f.member("w3") // joins, parks its keys, comes back for them, and leaves
	f.shared(m1, 3)
	require.True(t, c3.Terminate(false))
	m3.Terminate()
	m3, _ = f.member("w3")
	f.shared(m1, 3)
	m3.Terminate()
	f.shared(m1, 2)
	cut := f.Faults().Add(testutil.Fault{Client: "w2", Do: testutil.Cut}) // is declared dead, and joins again
	f.waits("w2 is evicted", func() bool {
		return !slices.ContainsFunc(m1.State().Keys, func(k marshal.KeyState) bool { return k.Client == "w2" })
	})
	cut.Remove()
	f.shared(m1, 2)

	code, out, errs := f.command("verify")
	require.Zero(t, code, out+errs)
	require.Regexp(t, `^1 group, \d+ records, \d+ of them replayed: 0 findings\n$`, out)

	shard := f.shard()
	state := m2.State() // before the copy: nothing is handed over any more
	log := f.written(shard)
	f.copyTo("clean", shard, log)
	code, out, errs = f.command("verify", "-log-topic", "clean", "-group", "orders", "-o", "json")
	require.Zero(t, code, out+errs)
	var clean report
	require.NoError(t, json.Unmarshal([]byte(out), &clean))
	require.EqualValues(t, len(log), clean.Records)
	require.EqualValues(t, len(log), clean.Replayed)

	ids, seqs := authors(log)
	held := state.Keys[slices.IndexFunc(state.Keys, func(k marshal.KeyState) bool { return k.Client == "w1" })]
	other := state.Keys[slices.IndexFunc(state.Keys, func(k marshal.KeyState) bool { return k.Client == "w2" })]
	nobody := bytes.Repeat([]byte{0xee}, 16)
	at := binary.BigEndian.Uint32(nobody)
	for i, planted := range []struct {
		name, finding string
		value         []byte
	}{
		{"a double owner", "two owners: w2 (" + other.Instance + ") acts as the owner of " + fmt.Sprintf("%s/%d under epoch %d, which it was never granted; w1 (%s) holds", held.Topic, held.Partition, held.Epoch, held.Instance),
			heartbeat(ids[other.Instance], seqs[other.Instance]+1, held.Topic, held.Partition, held.Epoch, held.Next+1)},
		{"a regression", fmt.Sprintf("regression: %s/%d goes back to %d under epoch %d, it stands at %d", held.Topic, held.Partition, held.Next-1, held.Epoch, held.Next),
			heartbeat(ids[held.Instance], seqs[held.Instance]+1, held.Topic, held.Partition, held.Epoch, held.Next-1)},
		{"a foreign writer", fmt.Sprintf("foreign: %08x has never joined", at), heartbeat(nobody, 5, held.Topic, held.Partition, held.Epoch, held.Next+1)},
		{"an impossible seq", fmt.Sprintf("foreign: seq jumps from %d to", seqs[held.Instance]), heartbeat(ids[held.Instance], seqs[held.Instance]+1<<33, held.Topic, held.Partition, held.Epoch, held.Next)},
		{"the original marshal", "foreign: a text record of the original marshal", []byte("Heartbeat/1/2/3")},
		{"garbage", "foreign: a message of 3 bytes that cannot be read", []byte("???")},
	} {
		t.Run(planted.name, func(t *testing.T) {
			topic := fmt.Sprint("copy-", i)
			f.copyTo(topic, shard, append(slices.Clone(log), testutil.Message{Key: []byte("orders"), Value: planted.value, Time: time.Now()}))
			code, out, errs := f.command("verify", "-log-topic", topic)
			assert.Equal(t, 1, code, errs)
			assert.Contains(t, out, fmt.Sprintf("  %s", planted.finding))
			assert.Contains(t, out, fmt.Sprintf("%d  ", len(log)), "its offset")
			assert.Contains(t, out, ": 1 finding in 1 record\n", "and nothing else")
			assert.Contains(t, errs, "something is wrong: 1 finding in 1 record")
			code, out, _ = f.command("log", "-log-topic", topic, "-group", "orders", "-from", fmt.Sprint(len(log)))
			assert.Zero(t, code)
			assert.Contains(t, out, "WRONG, "+planted.finding)
		})
	}
}
