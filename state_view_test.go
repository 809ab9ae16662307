package marshal

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/testutil"
)

func TestStateTellsWhoHoldsWhatAndHowFarItIs(t *testing.T) {
	b := newBench(t)
	b.one("t", 10)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{CommitInterval: 20 * time.Millisecond}, "t")
	var msgs []*Message
	for range 5 {
		msg, err := c.FetchMessage(within(t, patience))
		require.NoError(t, err)
		msgs = append(msgs, msg)
	}
	for _, msg := range msgs[:3] {
		require.NoError(t, msg.Commit())
	}
	require.NoError(t, c.Flush(within(t, patience)))
	host, err := os.Hostname()
	require.NoError(t, err)
	var s State
	eventually(t, "its load", func() bool { s = m.State(); return s.Instances[0].Lag == 7 && s.Instances[0].InFlight == 2 })
	claim := m.GetPartitionClaim("t", 0)
	assert.Equal(t, testGroup, s.Group)
	assert.Positive(t, s.Offset)
	i := s.Instances[0]
	assert.WithinDuration(t, time.Now(), i.LastHeartbeat, patience)
	assert.Equal(t, InstanceState{
		Instance: claim.InstanceID, Client: "a", Host: host, TTL: testTTL, Status: "alive", LastHeartbeat: i.LastHeartbeat, Claims: 1, InFlight: 2, Lag: 7,
	}, i)
	assert.Equal(t, []KeyState{{
		Topic: "t", Instance: claim.InstanceID, Client: "a", Epoch: claim.Epoch, Token: msgs[0].Token(), Next: 3,
	}}, s.Keys)
	assert.Contains(t, s.String(), "\n  "+s.Keys[0].String())
	assert.Contains(t, s.Keys[0].String(), "t/0 next 3: a (")

	text, err := json.Marshal(s)
	require.NoError(t, err)
	var back State
	require.NoError(t, json.Unmarshal(text, &back))
	back.Instances[0].LastHeartbeat = i.LastHeartbeat // but for its time zone
	assert.Equal(t, s, back)
}

func TestStateOfAWholeTopicHasThePositionOfEachPartition(t *testing.T) {
	b := newBench(t, "t")
	b.fill("t", 4, 0, 3)
	m := b.marshaler("a")
	c := b.consumer(m, ConsumerOptions{ClaimEntireTopic: true}, "t")
	k := collectBut(t, c, func(msg *Message) bool { return msg.Partition == 2 })
	eventually(t, "all", func() bool { return k.count() == 12 })
	require.NoError(t, c.Flush(within(t, patience)))
	s := m.State()
	require.Len(t, s.Keys, 1)
	assert.EqualValues(t, -1, s.Keys[0].Partition)
	assert.EqualValues(t, -1, s.Keys[0].Next)
	assert.Equal(t, []int64{3, 3, 0, 3}, s.Keys[0].Parts)
	assert.Contains(t, s.Keys[0].String(), "t (whole) ")
}

func TestAMemberIsInTheLogOnceItIsThere(t *testing.T) {
	b := newBench(t)
	m1 := b.marshaler("a")
	require.Len(t, m1.State().Instances, 1)
	assert.Equal(t, "a", m1.State().Instances[0].Client)
	assert.Equal(t, "a", m1.ClientID())
	assert.Equal(t, testGroup, m1.GroupID())
	m2, err := m1.c.NewMarshalerContext(within(t, patience), "b", testGroup)
	require.NoError(t, err)
	clients := []string{m2.State().Instances[0].Client, m2.State().Instances[1].Client}
	assert.ElementsMatch(t, []string{"a", "b"}, clients)
}

func TestStateAfterTerminateIsWhatWasKnownLast(t *testing.T) {
	b := newBench(t, "t")
	m := b.marshaler("a")
	b.consumer(m, ConsumerOptions{}, "t")
	eventually(t, "claims", func() bool { return holds(m) == 4 })
	m.Terminate()
	s := m.State()
	assert.Empty(t, s.Instances)
	assert.Len(t, s.Keys, 4)
}

func TestStateTellsHowLongAnotherMemberIsSilent(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	m1, m2 := b.marshaler("a", WithLease(10*time.Second, 0)), b.marshaler("b", WithLease(10*time.Second, 0))
	of := func(client string) InstanceState {
		for _, i := range m1.State().Instances {
			if i.Client == client {
				return i
			}
		}
		return InstanceState{}
	}
	eventually(t, "both", func() bool { return of("b").Client == "b" })
	f := b.Faults().Add(testutil.Fault{Client: "b", Keys: testutil.Writes, Do: testutil.Drop})
	eventually(t, "a silence that grows", func() bool { return of("b").Silent > 3*time.Second })
	assert.Zero(t, of("a").Silent, "our own")
	f.Remove()
	eventually(t, "a sign of life", func() bool { return of("b").Silent < 2*time.Second })
	assert.False(t, m2.Terminated())
}
