package marshal

import (
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
)

// What readers of both isolation levels see of transactions, and that positions pass what they do not see.

// transaction is one that is open.
type transaction struct {
	t testing.TB
	p sarama.SyncProducer
}

// begin opens a transaction of a producer of its own.
func (b *bench) begin(id string) *transaction {
	b.t.Helper()
	cfg := b.Config("transactor-" + id)
	cfg.Version = sarama.V2_8_0_0
	cfg.Producer.Idempotent, cfg.Producer.RequiredAcks, cfg.Net.MaxOpenRequests = true, sarama.WaitForAll, 1
	cfg.Producer.Transaction.ID, cfg.Producer.Return.Successes = id, true
	cfg.Producer.Partitioner = sarama.NewManualPartitioner
	p, err := sarama.NewSyncProducer(b.Addrs(), cfg)
	require.NoError(b.t, err)
	require.NoError(b.t, p.BeginTxn())
	return &transaction{b.t, p}
}

func (x *transaction) write(topic string, partition int32, values ...string) {
	x.t.Helper()
	for _, v := range values {
		_, _, err := x.p.SendMessage(&sarama.ProducerMessage{Topic: topic, Partition: partition, Value: sarama.StringEncoder(v)})
		require.NoError(x.t, err)
	}
}

func (x *transaction) commit() { x.t.Helper(); require.NoError(x.t, x.p.CommitTxn()); x.close() }
func (x *transaction) abort()  { x.t.Helper(); require.NoError(x.t, x.p.AbortTxn()); x.close() }
func (x *transaction) close()  { x.t.Helper(); require.NoError(x.t, x.p.Close()) }

// values reads n messages of a consumer, commits them, and gives their values.
func values(t testing.TB, c *Consumer, n int) (vs []string) {
	t.Helper()
	ctx := within(t, patience)
	for len(vs) < n {
		m, err := c.FetchMessage(ctx)
		require.NoError(t, err, "%v so far", vs)
		require.NoError(t, m.Commit())
		vs = append(vs, string(m.Value))
	}
	return vs
}

func isolated(level sarama.IsolationLevel, whole bool) ConsumerOptions {
	return ConsumerOptions{IsolationLevel: level, ClaimEntireTopic: whole, CommitInterval: 20 * time.Millisecond, MaxWait: 50 * time.Millisecond}
}

// end waits until a consumer stands at the end of a log, in its own eyes and in Kafka.
func (b *bench) end(c *Consumer, group, topic string) {
	b.t.Helper()
	_, end, err := b.Offsets(topic, 0)
	require.NoError(b.t, err)
	eventually(b.t, "the position behind the last marker", func() bool { at, _ := c.Position(topic, 0); return at == end })
	eventually(b.t, "no lag", func() bool { return c.Lag() == 0 })
	eventually(b.t, "the same in Kafka", func() bool { at, _, _ := b.Committed(group, topic, 0); return at == end })
}

func TestInterleavedTransactionsAtBothIsolationLevels(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 1, nil))
		one, two, three := b.begin("one"), b.begin("two"), b.begin("three")
		one.write("t", 0, "one a")
		two.write("t", 0, "two a")
		_, err := b.Produce("t", 0, testutil.Text("plain a"))
		require.NoError(t, err)
		one.write("t", 0, "one b")
		two.write("t", 0, "two b")
		two.abort()
		one.commit()
		three.write("t", 0, "three a") // stays open
		_, err = b.Produce("t", 0, testutil.Text("plain b"))
		require.NoError(t, err)

		committed := b.consumer(b.marshaler("a"), isolated(sarama.ReadCommitted, whole), "t")
		assert.Equal(t, []string{"one a", "plain a", "one b"}, values(t, committed, 3))
		m, err := NewMarshaler("b", "other", b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(t)))
		require.NoError(t, err)
		t.Cleanup(m.Terminate)
		all := b.consumer(m, isolated(sarama.ReadUncommitted, whole), "t")
		assert.Equal(t, []string{"one a", "two a", "plain a", "one b", "two b", "three a", "plain b"}, values(t, all, 7))
		b.end(all, "other", "t")

		eventually(t, "the position behind the markers", func() bool { at, _ := committed.Position("t", 0); return at == 7 })
		_, err = committed.FetchMessage(within(t, 150*time.Millisecond))
		require.Error(t, err, "the last stable offset is in front of the open transaction")
		assert.Zero(t, committed.Lag(), "nothing that could be read")
		three.abort()
		assert.Equal(t, []string{"plain b"}, values(t, committed, 1))
		b.end(committed, testGroup, "t")
		b.end(all, "other", "t")
	})
}

func TestALogOfNothingButAbortedTransactionsIsPassed(t *testing.T) {
	t.Parallel()
	inBothModes(t, func(t *testing.T, whole bool) {
		b := newBench(t)
		require.NoError(t, b.CreateTopic("t", 1, nil))
		for i := range 3 {
			x := b.begin(fmt.Sprint(i))
			x.write("t", 0, "never", "seen")
			x.abort()
		}
		c := b.consumer(b.marshaler("a"), isolated(sarama.ReadCommitted, whole), "t")
		b.end(c, testGroup, "t")
		x := b.begin("last")
		x.write("t", 0, "seen")
		x.commit()
		assert.Equal(t, []string{"seen"}, values(t, c, 1))
		b.end(c, testGroup, "t")
	})
}

func TestManyTransactionsOverManyFetches(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	var want []string
	for round := range 6 { // three at a time, their batches mixed, of which the fetches cut out what they can hold
		var xs []*transaction
		for i := range 3 {
			xs = append(xs, b.begin(fmt.Sprint(i)))
		}
		for i := range 9 {
			v := fmt.Sprintf("%d/%d %0300d", round, i, 0)
			xs[i%3].write("t", 0, v)
			if (i%3+round)%2 == 0 {
				want = append(want, v)
			}
		}
		for i, x := range xs {
			if (i+round)%2 == 0 {
				x.commit()
			} else {
				x.abort()
			}
		}
	}
	o := isolated(sarama.ReadCommitted, false)
	o.MaxBytes, o.MaxBufferedBytes = 1<<10, 1<<10
	c := b.consumer(b.marshaler("a"), o, "t")
	assert.Equal(t, want, values(t, c, len(want)))
	b.end(c, testGroup, "t")
}

func TestAPositionInTheMiddleOfAnAbortedTransaction(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 1, nil))
	x, y := b.begin("x"), b.begin("y")
	x.write("t", 0, "x 0", "x 1")
	y.write("t", 0, "y 2")
	x.write("t", 0, "x 3")
	x.abort()
	y.write("t", 0, "y 5")
	y.commit()
	m := b.marshaler("a")
	b.set(m, "t", 0, 1)
	c := b.consumer(m, isolated(sarama.ReadCommitted, false), "t")
	assert.Equal(t, []string{"y 2", "y 5"}, values(t, c, 2))
	b.end(c, testGroup, "t")
}
