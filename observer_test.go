package marshal

import (
	"context"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// observer dials one, and sees to it that nobody who has this name ever writes.
func (b *bench) observer(options ...Option) *KafkaCluster {
	b.t.Helper()
	writes := b.Faults().Add(testutil.Fault{Client: "observer", Keys: testutil.Writes, Do: testutil.Cut})
	c, err := DialContext(within(b.t, patience), "observer", b.Addrs(), append([]Option{WithAllGroups(), WithLogger(testutil.Logger(b.t))}, options...)...)
	require.NoError(b.t, err)
	b.t.Cleanup(func() {
		c.Terminate()
		assert.Zero(b.t, writes.Hits(), "an observer writes nothing")
	})
	return c
}

// member joins a group under a client id, with a consumer of topics.
func (b *bench) member(client, group string, topics ...string) *Marshaler {
	b.t.Helper()
	c, err := Dial(client, b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(b.t)))
	require.NoError(b.t, err)
	b.t.Cleanup(c.Terminate)
	m, err := c.NewMarshaler(client, group)
	require.NoError(b.t, err)
	b.consumer(m, ConsumerOptions{}, topics...)
	return m
}

// sees is what a cluster knows of a group; the zero State where it knows none of that name.
func sees(c *KafkaCluster, group string) State {
	for _, s := range c.State() {
		if s.Group == group {
			return s
		}
	}
	return State{}
}

// agrees tells whether an observer knows of a member's group what the member knows.
func agrees(c *KafkaCluster, m *Marshaler) bool {
	seen, known := sees(c, m.GroupID()), m.State()
	return len(seen.Instances) == len(known.Instances) && len(known.Keys) > 0 && reflect.DeepEqual(seen.Keys, known.Keys)
}

func TestAnObserverFollowsAllGroupsAndWritesNothing(t *testing.T) {
	b := newBench(t, "t", "u")
	first, second := b.member("a", "one", "t"), b.member("b", "two", "u")
	begun := func(m *Marshaler) bool {
		return holds(m) == 4 && !slices.ContainsFunc(m.State().Keys, func(k KeyState) bool { return k.Next < 0 })
	}
	eventually(t, "claims", func() bool { return begun(first) && begun(second) })
	known := []State{first.State(), second.State()}
	c := b.observer()
	for i, s := range c.State() { // what was there when Dial was called is there when it returns
		assert.Equal(t, known[i].Group, s.Group)
		for n := range s.Keys {
			s.Keys[n].Why = "" // on a busy machine its holder may be silent
		}
		assert.Equal(t, known[i].Keys, s.Keys)
		require.Len(t, s.Instances, 1)
		assert.GreaterOrEqual(t, s.Offset, known[i].Offset)
		assert.Empty(t, s.Unreadable)
		assert.EqualValues(t, -1, s.Instances[0].Silent, "it measures no silence")
		assert.WithinDuration(t, time.Now(), s.Instances[0].LastHeartbeat, patience)
	}
	require.Len(t, c.State(), 2)

	third := b.member("c", "three", "t") // appears afterwards
	fourth := b.member("d", "one", "t")
	eventually(t, "what came later", func() bool { return holds(third) == 4 && agrees(c, third) && holds(fourth) == 2 && agrees(c, first) })
	names := []string{}
	for _, s := range c.State() {
		names = append(names, s.Group)
	}
	assert.Equal(t, []string{"one", "three", "two"}, names)

	third.Terminate()
	eventually(t, "a group that everybody has left", func() bool { return len(sees(c, "three").Instances) == 0 })
	for _, k := range sees(c, "three").Keys {
		assert.Equal(t, "free, no member wants it", k.Why)
	}
	_, err := c.NewMarshaler("x", "one")
	assert.ErrorContains(t, err, "only observes")
	c.Terminate()
	assert.Empty(t, c.State())
}

func TestAnObserverShowsALeaseThatLooksExpired(t *testing.T) {
	b := newBench(t, "t")
	m := b.member("a", "one", "t")
	eventually(t, "claims", func() bool { return holds(m) == 4 })
	c := b.observer()
	require.False(t, sees(c, "one").Instances[0].Overdue)
	defer b.Faults().Add(testutil.Fault{Client: "a", Do: testutil.Cut}).Remove()
	eventually(t, "an expired lease", func() bool { return sees(c, "one").Instances[0].Overdue })
	assert.Contains(t, sees(c, "one").String(), "its lease looks expired")
	assert.Len(t, sees(c, "one").Keys, 4, "its keys are its own until somebody declares it dead")
}

func TestAnObserverMakesNoTopic(t *testing.T) {
	b := newBench(t)
	_, err := DialContext(within(t, patience), "observer", b.Addrs(), WithAllGroups(), WithLogger(testutil.Logger(t)))
	require.ErrorContains(t, err, MarshalTopic)
	_, _, err = b.Offsets(MarshalTopic, 0)
	assert.Error(t, err, "there is none")
}

func TestAnObserverReportsAGroupWhoseHistoryWasCutUntilASnapshotComes(t *testing.T) {
	b := newBench(t, "t")
	m := b.member("a", testGroup, "t")
	eventually(t, "claims", func() bool { return holds(m) == 4 })
	other := b.member("b", "other", "t")
	_, next, err := b.Offsets(MarshalTopic, shardOf(testGroup))
	require.NoError(t, err)
	require.NoError(t, b.DeleteRecords(MarshalTopic, shardOf(testGroup), next-1))
	c := b.observer()
	var s State
	eventually(t, "a group that cannot be read", func() bool { s = sees(c, testGroup); return s.Unreadable != "" })
	assert.Contains(t, s.Unreadable, "no snapshot is left")
	assert.EqualValues(t, -1, s.Offset)
	assert.Empty(t, s.Keys)
	assert.Contains(t, s.String(), "nothing is known of it yet")
	eventually(t, "the other group", func() bool { return agrees(c, other) })

	ask := lease.Record{Kind: lease.KindProbe, Probe: lease.Probe{Nonce: 1, WantsBase: true}}
	b.scribble(appendRecord(nil, &ask))
	eventually(t, "a snapshot", func() bool { return agrees(c, m) })
	assert.Empty(t, sees(c, testGroup).Unreadable)
}

func TestAnObserverGoesOnAfterTheTopicWasMadeAgain(t *testing.T) {
	b := newBench(t, "t")
	m := b.member("a", testGroup, "t")
	eventually(t, "claims", func() bool { return holds(m) == 4 })
	c := b.observer()
	require.NoError(t, b.RecreateTopic(MarshalTopic, 32, nil))
	later := b.member("b", "later", "t")
	eventually(t, "both groups in the new log", func() bool { return holds(m) == 4 && agrees(c, m) && agrees(c, later) })
}

func TestDialingAnObserverEndsWithItsContext(t *testing.T) {
	b := newBench(t, "t")
	b.member("a", testGroup, "t")
	defer b.Faults().Add(testutil.Fault{Client: "observer", Keys: testutil.Reads, Do: testutil.Drop}).Remove()
	ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond)
	defer cancel()
	begun := time.Now()
	_, err := DialContext(ctx, "observer", b.Addrs(), WithAllGroups(), WithLogger(testutil.Logger(t)))
	require.ErrorIs(t, err, context.DeadlineExceeded)
	assert.Less(t, time.Since(begun), patience)
}

func TestAClusterTellsTheStateOfItsOwnGroups(t *testing.T) {
	b := newBench(t, "t")
	b.member("a", "others", "t")
	c, err := Dial("mine", b.Addrs(), WithLease(testTTL, 0), WithLogger(testutil.Logger(t)))
	require.NoError(t, err)
	defer c.Terminate()
	require.Empty(t, c.State())
	for _, group := range []string{"two", "one"} {
		m, err := c.NewMarshaler("mine", group)
		require.NoError(t, err)
		b.consumer(m, ConsumerOptions{}, "t")
		eventually(t, "claims", func() bool { return holds(m) == 4 })
	}
	states := c.State()
	require.Len(t, states, 2)
	assert.Equal(t, "one", states[0].Group)
	assert.Equal(t, "two", states[1].Group)
	assert.Len(t, states[0].Keys, 4)
	assert.Zero(t, states[0].Instances[0].Silent, "our own")
}
