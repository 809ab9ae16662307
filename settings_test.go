package marshal

import (
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/sirupsen/logrus"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
)

// The options of a process.

func TestTheDefaultsOfAProcess(t *testing.T) {
	s, err := newSettings(nil)
	require.NoError(t, err)
	assert.Equal(t, LeaseTTL, s.ttl)
	assert.Equal(t, HeartbeatInterval, s.beat)
	assert.Equal(t, MarshalTopic, s.topic)
	assert.Same(t, logrus.StandardLogger(), s.log)
	assert.Equal(t, "__marshal", MarshalTopic)
	for _, c := range []struct{ ttl, beat, want time.Duration }{
		{5 * time.Second, 0, time.Second}, {30 * time.Second, 0, HeartbeatInterval}, {30 * time.Second, 6 * time.Second, 6 * time.Second},
		{300 * time.Millisecond, 0, 60 * time.Millisecond}, {0, time.Second, time.Second},
	} {
		s, err := newSettings([]Option{WithLease(c.ttl, c.beat)})
		require.NoError(t, err)
		assert.Equal(t, c.want, s.beat)
	}
	for _, bad := range []Option{
		WithLease(299*time.Millisecond, 0), WithLease(30*time.Second+1, 0), WithLease(10*time.Second, 2*time.Second+1), WithLease(0, -1), WithLogger(nil),
	} {
		_, err := newSettings([]Option{bad})
		assert.Error(t, err)
	}
}

func TestALeaseIsAsLongAsTheOptionSaysAndRenewedEachHeartbeat(t *testing.T) {
	b := newBench(t)
	m := b.marshaler("a", WithLease(10*time.Second, 30*time.Millisecond))
	last := m.State().Instances[0].LastHeartbeat
	assert.Equal(t, 10*time.Second, m.State().Instances[0].TTL)
	began := time.Now()
	for range 10 {
		eventually(t, "a heartbeat", func() bool { return m.State().Instances[0].LastHeartbeat.After(last) })
		last = m.State().Instances[0].LastHeartbeat
	}
	assert.Less(t, time.Since(began), HeartbeatInterval+time.Second, "ten of them")
}

func TestAnotherCoordinationTopicIsAnotherWorld(t *testing.T) {
	b := newBench(t, "t")
	m1 := b.marshaler("a")
	m2 := b.marshaler("a", WithTopic("other"))
	b.consumer(m1, ConsumerOptions{}, "t")
	b.consumer(m2, ConsumerOptions{}, "t")
	eventually(t, "all partitions in both", func() bool { return holds(m1) == 4 && holds(m2) == 4 })
	assert.Len(t, m1.State().Instances, 1)
	assert.ElementsMatch(t, []string{MarshalTopic, "t"}, m2.Topics(), "its own coordination topic is none of them")
	assert.Len(t, b.Kfake().PartitionInfos("other"), 32)
}

func TestWithoutTopicCreationNothingIsMadeOrGrown(t *testing.T) {
	b := newBench(t)
	_, err := DialContext(within(t, patience), "a", b.Addrs(), WithoutTopicCreation(), WithLogger(testutil.Logger(t)))
	require.ErrorContains(t, err, MarshalTopic)
	assert.Empty(t, b.Kfake().PartitionInfos(MarshalTopic))
	require.NoError(t, b.CreateTopic(MarshalTopic, 3, nil))
	_, err = DialContext(within(t, patience), "a", b.Addrs(), WithoutTopicCreation(), WithLogger(testutil.Logger(t)))
	require.ErrorContains(t, err, "3 partitions")
	assert.Len(t, b.Kfake().PartitionInfos(MarshalTopic), 3)
	require.NoError(t, b.DeleteTopic(MarshalTopic))
	require.NoError(t, b.CreateTopic(MarshalTopic, 32, nil))
	c, err := DialContext(within(t, patience), "a", b.Addrs(), WithoutTopicCreation(), WithLogger(testutil.Logger(t)))
	require.NoError(t, err)
	c.Terminate()
}

func TestTheConfigurationIsTakenFromAndNotChanged(t *testing.T) {
	b := newBench(t, "t")
	own := sarama.NewConfig()
	own.ClientID, own.RackID = "mine", "r1"
	before := *own
	name := b.Faults().Add(testutil.Fault{Client: "a", Do: testutil.Cut})
	m := b.marshaler("a", WithSaramaConfig(own))
	assert.Equal(t, 4, m.Partitions("t"))
	assert.Zero(t, name.Hits(), "its ClientID is that of the connections")
	assert.Equal(t, before.ClientID, own.ClientID)
	assert.Equal(t, before.Version, own.Version)
	assert.Equal(t, before.Net.DialTimeout, own.Net.DialTimeout)
	assert.Equal(t, "a", m.ClientID(), "that of the group is another thing")
}

func TestTerminatingAClusterHandsOverWhatItsMarshalersHold(t *testing.T) {
	b := newBench(t, "t", "u")
	long := WithLease(30*time.Second, 0) // which nobody waits for
	c, err := Dial("a", b.Addrs(), long, WithLogger(testutil.Logger(t)))
	require.NoError(t, err)
	others := map[string]*Marshaler{}
	for group, topic := range map[string]string{"one": "t", "two": "u"} {
		m, err := c.NewMarshaler("a", group)
		require.NoError(t, err)
		b.consumer(m, ConsumerOptions{}, topic)
		eventually(t, "claims", func() bool { return holds(m) == 4 })
		others[group] = b.member("b", group, topic)
	}
	c.Terminate()
	assert.True(t, c.Terminated())
	for _, m := range others {
		eventually(t, "all at the other", func() bool { return holds(m) == 4 })
	}
}
