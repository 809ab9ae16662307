package testutil

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// client is a sarama client of the cluster.
func client(t *testing.T, c *Cluster, change ...func(*sarama.Config)) sarama.Client {
	t.Helper()
	cfg := c.Config("client")
	cfg.Version = sarama.MaxVersion
	cfg.Producer.Return.Successes = true
	for _, f := range change {
		f(cfg)
	}
	cl, err := sarama.NewClient(c.Addrs(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, cl.Close()) })
	return cl
}

// read gives n messages of a partition from the start.
func read(t *testing.T, cl sarama.Client, topic string, partition int32, n int) []*sarama.ConsumerMessage {
	t.Helper()
	c, err := sarama.NewConsumerFromClient(cl)
	require.NoError(t, err)
	defer func() { assert.NoError(t, c.Close()) }()
	pc, err := c.ConsumePartition(topic, partition, sarama.OffsetOldest)
	require.NoError(t, err)
	defer func() { assert.NoError(t, pc.Close()) }()
	var got []*sarama.ConsumerMessage
	for late := time.After(10 * time.Second); len(got) < n; {
		select {
		case m := <-pc.Messages():
			got = append(got, m)
		case <-late:
			require.Failf(t, "too few messages", "%d of %d", len(got), n)
		}
	}
	return got
}

func TestProducedMessagesArriveAsTheyAre(t *testing.T) {
	c := NewCluster(t, WithBrokers(2), WithTopic("t", 3))
	at := time.UnixMilli(time.Now().Add(-48 * time.Hour).UnixMilli())
	first, err := c.Produce("t", 2,
		Message{Key: []byte("k"), Value: []byte("v"), Time: at, Headers: []kmsg.Header{{Key: "h", Value: []byte("x")}}},
		Message{Value: []byte{}, Time: at.Add(time.Second)}, Message{Time: at.Add(-time.Second)})
	require.NoError(t, err)
	require.Zero(t, first)
	first, err = c.Produce("t", 2, Text("more"))
	require.NoError(t, err)
	require.EqualValues(t, 3, first)

	got := read(t, client(t, c), "t", 2, 4)
	assert.Equal(t, "k", string(got[0].Key))
	assert.Equal(t, "v", string(got[0].Value))
	assert.Equal(t, at, got[0].Timestamp)
	require.Len(t, got[0].Headers, 1)
	assert.Equal(t, sarama.RecordHeader{Key: []byte("h"), Value: []byte("x")}, *got[0].Headers[0])
	assert.Nil(t, got[1].Key)
	assert.Equal(t, []byte{}, got[1].Value)
	assert.Equal(t, at.Add(time.Second), got[1].Timestamp)
	assert.Nil(t, got[2].Value)
	assert.Equal(t, at.Add(-time.Second), got[2].Timestamp)
	assert.Equal(t, "more", string(got[3].Value))
}

func TestFillWritesNumberedMessages(t *testing.T) {
	c := NewCluster(t, WithTopic("t", 1))
	const n = 20_000 // more than one batch
	first, err := c.Fill("t", 0, n, 100)
	require.NoError(t, err)
	assert.Zero(t, first)
	_, next, err := c.Offsets("t", 0)
	require.NoError(t, err)
	require.EqualValues(t, n, next)
	for i, m := range read(t, client(t, c), "t", 0, n) {
		require.Len(t, m.Value, 100)
		require.True(t, strings.HasPrefix(string(m.Value), fmt.Sprint(i, " ")), "%s", m.Value)
	}
}

// TestLogAppendTime covers each codec, each with one record in a batch and with several: the time is the broker's.
func TestLogAppendTime(t *testing.T) {
	c := NewCluster(t)
	require.NoError(t, c.CreateTopic("log", 1, map[string]string{"message.timestamp.type": "LogAppendTime"}))
	require.NoError(t, c.CreateTopic("create", 1, nil))
	old := time.UnixMilli(time.Now().Add(-48 * time.Hour).UnixMilli())
	start := time.Now().Truncate(time.Millisecond)
	n := 0
	for _, codec := range []sarama.CompressionCodec{sarama.CompressionNone, sarama.CompressionGZIP,
		sarama.CompressionSnappy, sarama.CompressionLZ4, sarama.CompressionZSTD} {
		for _, idempotent := range []bool{false, true} {
			cl := client(t, c, func(cfg *sarama.Config) {
				cfg.Producer.Compression = codec
				cfg.Producer.RequiredAcks = sarama.WaitForAll
				if cfg.Producer.Idempotent = idempotent; idempotent {
					cfg.Net.MaxOpenRequests = 1
				}
			})
			p, err := sarama.NewSyncProducerFromClient(cl)
			require.NoError(t, err)
			var batch []*sarama.ProducerMessage
			for i := range 5 {
				batch = append(batch, &sarama.ProducerMessage{Topic: "log", Timestamp: old.Add(time.Duration(i) * time.Second),
					Key: sarama.StringEncoder("k"), Value: sarama.StringEncoder("several"),
					Headers: []sarama.RecordHeader{{Key: []byte("h"), Value: []byte("x")}}})
			}
			require.NoError(t, p.SendMessages(batch))
			for _, topic := range []string{"log", "create"} {
				_, _, err = p.SendMessage(&sarama.ProducerMessage{Topic: topic, Timestamp: old, Value: sarama.StringEncoder("one")})
				require.NoError(t, err)
			}
			n += 6
			require.NoError(t, p.Close())
		}
	}
	end := time.Now()
	cl := client(t, c)
	last := start
	for _, m := range read(t, cl, "log", 0, n) {
		require.False(t, m.Timestamp.Before(last), "offset %d: %v before %v", m.Offset, m.Timestamp, last)
		require.False(t, m.Timestamp.After(end))
		last = m.Timestamp
		if string(m.Value) == "several" {
			require.Equal(t, "k", string(m.Key))
			require.Equal(t, "x", string(m.Headers[0].Value))
		}
	}
	for _, m := range read(t, cl, "create", 0, n/6) {
		assert.Equal(t, old, m.Timestamp, "a CreateTime topic keeps the producer's time")
	}
}

func TestRestampLeavesNonsenseToTheBroker(t *testing.T) {
	good := encode([]Message{Text("a"), Text("b")})
	for name, b := range map[string][]byte{"empty": {}, "short": good[:50], "cut": good[:len(good)-1]} {
		assert.Equal(t, b, restamp(b, 1), name)
	}
	bad := append([]byte(nil), good...)
	bad[batchHeader] = 0xff // a record longer than the batch
	bad[batchHeader+1] = 0xff
	bad[batchHeader+2] = 0x7f
	assert.Equal(t, bad, restamp(bad, 1))
}

func TestOffsetsOfAGroupThatNeverCommitted(t *testing.T) {
	c := NewCluster(t, WithBrokers(3), WithTopic("t", 2))
	cl := client(t, c)
	for version := int16(1); version <= 7; version++ {
		group := fmt.Sprint("never-", version)
		b, err := cl.Coordinator(group)
		require.NoError(t, err)
		r := sarama.NewOffsetFetchRequest(sarama.V0_10_2_0, group, map[string][]int32{"t": {0, 1}})
		r.Version = version
		resp, err := b.FetchOffset(r)
		require.NoError(t, err, "version %d", version)
		require.Equal(t, sarama.ErrNoError, resp.Err)
		for p := range int32(2) {
			block := resp.GetBlock("t", p)
			require.NotNil(t, block, "version %d", version)
			assert.Equal(t, sarama.ErrNoError, block.Err)
			assert.EqualValues(t, -1, block.Offset)
		}
	}
	om, err := sarama.NewOffsetManagerFromClient("never", cl)
	require.NoError(t, err)
	pom, err := om.ManagePartition("t", 0)
	require.NoError(t, err)
	pom.AsyncClose()
	require.NoError(t, om.Close())

	for _, b := range cl.Brokers() {
		at, err := cl.Coordinator("never")
		require.NoError(t, err)
		if b.ID() == at.ID() {
			continue
		}
		_ = b.Open(cl.Config())
		r := sarama.NewOffsetFetchRequest(sarama.V0_10_2_0, "never", map[string][]int32{"t": {0}})
		r.Version = 6
		resp, err := b.FetchOffset(r)
		require.NoError(t, err)
		assert.Equal(t, sarama.ErrNotCoordinatorForConsumer, resp.Err, "another broker still refuses")
	}
}

func TestOneRequestForAKnownAndAnUnknownGroup(t *testing.T) {
	c := NewCluster(t, WithTopic("t", 2))
	commit(t, c, "known", 1, "here")
	r := kmsg.NewOffsetFetchRequest()
	r.Version = 8
	for _, g := range []string{"known", "unknown"} {
		rg := kmsg.NewOffsetFetchRequestGroup()
		rg.Group = g // no topics: all
		r.Groups = append(r.Groups, rg)
	}
	resp, err := c.ask(c.Addrs()[0], &r)
	require.NoError(t, err)
	groups := resp.(*kmsg.OffsetFetchResponse).Groups
	require.Len(t, groups, 2)
	require.Len(t, groups[0].Topics, 1)
	require.Len(t, groups[0].Topics[0].Partitions, 1)
	assert.EqualValues(t, 42, groups[0].Topics[0].Partitions[0].Offset)
	assert.Equal(t, "here", *groups[0].Topics[0].Partitions[0].Metadata)
	assert.Zero(t, groups[1].ErrorCode)
	assert.Empty(t, groups[1].Topics)

	offset, metadata, err := c.Committed("known", "t", 1)
	require.NoError(t, err)
	assert.EqualValues(t, 42, offset)
	assert.Equal(t, "here", metadata)
	offset, _, err = c.Committed("known", "t", 0)
	require.NoError(t, err)
	assert.EqualValues(t, -1, offset)
}

// commit commits offset 42 and gives the error of each partition.
func commit(t *testing.T, c *Cluster, group string, partition int32, metadata ...string) []error {
	t.Helper()
	r := kmsg.NewOffsetCommitRequest()
	r.Version, r.Group, r.Generation = 7, group, -1
	rt := kmsg.NewOffsetCommitRequestTopic()
	rt.Topic = "t"
	for i, m := range metadata {
		p := kmsg.NewOffsetCommitRequestTopicPartition()
		p.Partition, p.Offset, p.Metadata = partition+int32(i), 42, &m
		rt.Partitions = append(rt.Partitions, p)
	}
	r.Topics = append(r.Topics, rt)
	resp, err := c.ask(c.Addrs()[0], &r)
	require.NoError(t, err)
	var errs []error
	for _, p := range resp.(*kmsg.OffsetCommitResponse).Topics[0].Partitions {
		errs = append(errs, kerr.ErrorForCode(p.ErrorCode))
	}
	return errs
}

func TestCommitMetadataIsLimitedPartitionByPartition(t *testing.T) {
	c := NewCluster(t, WithTopic("t", 2))
	errs := commit(t, c, "g", 0, strings.Repeat("x", 4096), strings.Repeat("x", 4097))
	assert.Equal(t, []error{nil, kerr.OffsetMetadataTooLarge}, errs)
	// What was refused once is not refused for ever.
	assert.Equal(t, []error{nil, nil}, commit(t, c, "g", 0, "", ""))
}

func TestTopicSettingsAreChecked(t *testing.T) {
	c := NewCluster(t)
	admin, err := sarama.NewClusterAdminFromClient(client(t, c))
	require.NoError(t, err)
	for name, cfg := range map[string][2]string{
		"unknown name":   {"no.such", "1"},
		"unknown word":   {"cleanup.policy", "shred"},
		"no number":      {"retention.ms", "week"},
		"number too low": {"segment.bytes", "1000"},
		"no ratio":       {"min.cleanable.dirty.ratio", "1.5"},
	} {
		err := admin.CreateTopic("t", &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1,
			ConfigEntries: map[string]*string{cfg[0]: &cfg[1]}}, false)
		assert.ErrorIs(t, err, sarama.ErrInvalidConfig, name)
		assert.Error(t, c.CreateTopic("t", 1, map[string]string{cfg[0]: cfg[1]}), name)
	}
	policy, week := "compact,delete", "604800000"
	require.NoError(t, admin.CreateTopic("t", &sarama.TopicDetail{NumPartitions: 1, ReplicationFactor: 1,
		ConfigEntries: map[string]*string{"cleanup.policy": &policy, "retention.ms": &week}}, false))

	bad := "shred"
	set := map[string]sarama.IncrementalAlterConfigsEntry{"cleanup.policy": {Operation: sarama.IncrementalAlterConfigsOperationSet, Value: &bad}}
	assert.ErrorIs(t, admin.IncrementalAlterConfig(sarama.TopicResource, "t", set, false), sarama.ErrInvalidConfig)
	assert.ErrorIs(t, admin.AlterConfig(sarama.TopicResource, "t", map[string]*string{"cleanup.policy": &bad}, false), sarama.ErrInvalidConfig)
	assert.NoError(t, admin.AlterConfig(sarama.TopicResource, "t", map[string]*string{"cleanup.policy": &policy}, false))
}

func TestPartitionsOnlyGrow(t *testing.T) {
	c := NewCluster(t, WithTopic("t", 4))
	admin, err := sarama.NewClusterAdminFromClient(client(t, c))
	require.NoError(t, err)
	assert.ErrorIs(t, admin.CreatePartitions("t", 4, nil, false), sarama.ErrInvalidPartitions)
	require.NoError(t, admin.CreatePartitions("t", 6, nil, false))
	_, _, err = c.Offsets("t", 5)
	assert.NoError(t, err)
}

func TestTimestampsTooFarAheadAreRefused(t *testing.T) {
	c := NewCluster(t, WithTopic("t", 1))
	require.NoError(t, c.CreateTopic("far", 1, map[string]string{"message.timestamp.after.max.ms": "9999999999"}))
	m := Message{Value: []byte("x"), Time: time.Now().Add(2 * time.Hour)}
	_, err := c.Produce("t", 0, m)
	assert.ErrorIs(t, err, kerr.InvalidTimestamp)
	_, err = c.Produce("far", 0, m)
	assert.NoError(t, err)
	m.Time = time.Now().Add(50 * time.Minute)
	_, err = c.Produce("t", 0, m)
	assert.NoError(t, err)
}

func TestARecreatedTopicHasAnotherID(t *testing.T) {
	c := NewCluster(t, WithTopic("t", 1))
	_, err := c.Produce("t", 0, Text("a"), Text("b"))
	require.NoError(t, err)
	id := c.Kfake().TopicInfo("t").TopicID
	require.NoError(t, c.RecreateTopic("t", 2, nil))
	assert.NotEqual(t, id, c.Kfake().TopicInfo("t").TopicID)
	first, next, err := c.Offsets("t", 0)
	require.NoError(t, err)
	assert.Zero(t, first)
	assert.Zero(t, next)
	assert.Error(t, c.RecreateTopic("no such topic", 1, nil))
}

func TestDeleteRecordsMovesTheLogStart(t *testing.T) {
	c := NewCluster(t, WithTopic("t", 1))
	_, err := c.Produce("t", 0, Text("a"), Text("b"), Text("c"))
	require.NoError(t, err)
	require.NoError(t, c.DeleteRecords("t", 0, 2))
	first, next, err := c.Offsets("t", 0)
	require.NoError(t, err)
	assert.EqualValues(t, 2, first)
	assert.EqualValues(t, 3, next)
	assert.Error(t, c.DeleteRecords("t", 9, 0))
}

func TestAStoppedBrokerIsGoneAndComesBackOnItsPort(t *testing.T) {
	c := NewCluster(t, WithBrokers(2), WithTopic("t", 4))
	w, err := c.connect(c.Addrs()[1], "w")
	require.NoError(t, err)
	defer w.conn.Close()
	_, err = w.ask(kmsg.NewPtrMetadataRequest())
	require.NoError(t, err)

	require.NoError(t, c.StopBroker(1))
	_, err = w.ask(kmsg.NewPtrMetadataRequest())
	assert.Error(t, err, "its connections end")
	_, err = net.Dial("tcp", c.Addrs()[1])
	assert.Error(t, err, "its port refuses")
	for p := range int32(4) {
		_, err = c.Produce("t", p, Text("x"))
		assert.NoError(t, err, "its partitions have moved")
	}
	assert.Error(t, c.StopBroker(0), "the last one stays")

	require.NoError(t, c.StartBroker(1))
	f := c.Faults().Add(Fault{Nodes: []int32{1}, Do: Cut})
	w, err = c.connect(c.Addrs()[1], "w")
	require.NoError(t, err)
	defer w.conn.Close()
	_, err = w.ask(kmsg.NewPtrMetadataRequest())
	assert.Error(t, err, "a broker that came back is still node 1 to the faults")
	f.Remove()
	assert.Error(t, c.StartBroker(7))
}

func TestDataDirKeepsTheLog(t *testing.T) {
	dir := t.TempDir()
	c, err := Start(WithDataDir(dir), WithTopic("t", 1))
	require.NoError(t, err)
	_, err = c.Produce("t", 0, Text("a"))
	require.NoError(t, err)
	c.Close()
	c = NewCluster(t, WithDataDir(dir))
	assert.Equal(t, "a", string(read(t, client(t, c), "t", 0, 1)[0].Value))
}

func TestTLSAndSASL(t *testing.T) {
	c := NewCluster(t, WithTLS(), WithUser(sarama.SASLTypePlaintext, "user", "secret"), WithTopic("t", 1))
	_, err := c.Produce("t", 0, Text("a"))
	require.NoError(t, err)
	assert.Equal(t, "a", string(read(t, client(t, c), "t", 0, 1)[0].Value))

	f := c.Faults().Add(Fault{Client: "client", Keys: Reads, Do: Cut})
	cl := client(t, c)
	b, err := cl.Leader("t", 0)
	require.NoError(t, err)
	_, err = b.Fetch(&sarama.FetchRequest{Version: 4, MaxBytes: 1 << 20})
	assert.Error(t, err, "faults see through TLS")
	assert.Equal(t, 1, f.Hits())

	cfg := c.Config("client")
	cfg.Net.SASL.Password = "wrong"
	_, err = sarama.NewClient(c.Addrs(), cfg)
	assert.Error(t, err)
}

// TestNetworkInMemory lets a fake hour pass over a parked fetch.
func TestNetworkInMemory(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var v kfake.VirtualNetwork
		c, err := Start(WithNetwork(&v), WithTopic("t", 1))
		require.NoError(t, err)
		defer c.Close()
		assert.Equal(t, []string{"localhost:9092"}, c.Addrs())
		_, err = c.Produce("t", 0, Text("a"))
		require.NoError(t, err)

		f := c.Faults().Add(Fault{Client: "w", Do: DelayAnswers, Delay: 20 * time.Second})
		w, err := c.connect(c.Addrs()[0], "w")
		require.NoError(t, err)
		defer w.conn.Close()
		start := time.Now()
		_, err = w.ask(kmsg.NewPtrMetadataRequest())
		require.NoError(t, err)
		assert.Equal(t, 20*time.Second, time.Since(start), "to the nanosecond: the clock is fake")
		f.Remove()
		assert.NotNil(t, c.Config("x").Net.Proxy.Dialer)
	})
}

func TestAClosedClusterSaysSo(t *testing.T) {
	c, err := Start(WithTopic("t", 1))
	require.NoError(t, err)
	c.Close()
	c.Close()
	_, err = c.Produce("t", 0, Text("a"))
	assert.ErrorIs(t, err, ErrClosed)
	_, _, err = c.Offsets("t", 0)
	assert.ErrorIs(t, err, ErrClosed)
	_, _, err = c.Committed("g", "t", 0)
	assert.ErrorIs(t, err, ErrClosed)
	assert.ErrorIs(t, c.CreateTopic("u", 1, nil), ErrClosed)
	assert.ErrorIs(t, c.DeleteTopic("t"), ErrClosed)
	assert.ErrorIs(t, c.DeleteRecords("t", 0, 0), ErrClosed)
	assert.ErrorIs(t, c.StopBroker(0), ErrClosed)
	assert.ErrorIs(t, c.StartBroker(0), ErrClosed)
	assert.Len(t, c.Addrs(), 1)
}

func TestStartRefusesPortsThatDoNotMatch(t *testing.T) {
	_, err := Start(WithBrokers(2), WithPorts(1234))
	assert.ErrorContains(t, err, "1 ports for 2 brokers")
}

func BenchmarkFill(b *testing.B) {
	c := NewCluster(b, WithTopic("t", 1))
	b.SetBytes(100)
	_, err := c.Fill("t", 0, b.N, 100)
	require.NoError(b, err)
}
