package marshal

import (
	"sync"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/kafka-marshal/marshal/testutil"
)

// near is a cluster of two brokers whose leader of t/0 names the other one to who tells its rack.
type near struct {
	*bench
	leader, replica int32

	mu     sync.Mutex
	racks  map[string]bool // of requests to the leader
	named  int             // how often the replica was named
	asked  map[int32]int   // fetches of t/0 that came to each
	refuse int16           // what the replica answers; 0: nothing special
	name   int32           // which replica is named
}

func newNear(t *testing.T) *near {
	n := &near{bench: newBenchOn(t, testutil.WithBrokers(2)), racks: map[string]bool{}, asked: map[int32]int{}}
	require.NoError(t, n.CreateTopic("t", 1, nil))
	k := n.Kfake()
	n.leader = k.LeaderFor("t", 0)
	n.replica = 1 - n.leader
	n.name = n.replica
	k.SetFollowers("t", 0, []int32{n.replica})
	id := k.TopicInfo("t").TopicID
	k.ControlKey(int16(kmsg.Fetch), func(req kmsg.Request) (kmsg.Response, error, bool) {
		k.KeepControl()
		r := req.(*kmsg.FetchRequest)
		if len(r.Topics) != 1 || r.Topics[0].TopicID != id {
			return nil, nil, false
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		at := k.CurrentNode()
		n.asked[at]++
		resp := r.ResponseKind().(*kmsg.FetchResponse)
		p := kmsg.NewFetchResponseTopicPartition()
		switch {
		case at == n.leader && r.Rack != "" && n.name >= 0:
			n.racks[r.Rack] = true
			n.named++
			p.PreferredReadReplica, p.HighWatermark = n.name, 10
		case at == n.replica && n.refuse != 0:
			p.ErrorCode = n.refuse
		default:
			return nil, nil, false
		}
		rt := kmsg.NewFetchResponseTopic()
		rt.TopicID, rt.Partitions = id, append(rt.Partitions, p)
		resp.Topics = append(resp.Topics, rt)
		return resp, nil, true
	})
	return n
}

func (n *near) set(f func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f()
}

func (n *near) fetches(broker int32) (count int) {
	n.set(func() { count = n.asked[broker] })
	return count
}

func (n *near) timesNamed() (count int) {
	n.set(func() { count = n.named })
	return count
}

func (n *near) read(t *testing.T, rack string) (*Consumer, *collector) {
	config := sarama.NewConfig()
	config.RackID = rack
	c := n.consumer(n.marshaler("a", WithSaramaConfig(config)), ConsumerOptions{MaxWait: 20 * time.Millisecond, RetryBackoffMax: 50 * time.Millisecond}, "t")
	return c, collect(t, c)
}

func TestAPartitionIsFetchedFromTheReplicaThatItsLeaderNames(t *testing.T) {
	t.Parallel()
	n := newNear(t)
	n.fill("t", 1, 0, 10)
	c, k := n.read(t, "here")
	eventually(t, "all is read", func() bool { return len(k.offsets("t", 0)) == 10 })
	n.set(func() { assert.Equal(t, map[string]bool{"here": true}, n.racks) })
	before, from := n.fetches(n.leader), n.fetches(n.replica)
	require.Positive(t, from)
	n.fill("t", 1, 10, 10)
	eventually(t, "and what is new", func() bool { return len(k.offsets("t", 0)) == 20 })
	eventually(t, "the replica is asked on", func() bool { return n.fetches(n.replica) >= from+5 })
	assert.Equal(t, before, n.fetches(n.leader), "the leader is left in peace")

	named := n.timesNamed()
	p := c.begun()[0]
	c.fetcher.mu.Lock()
	p.fetch.following.until = 1 // five minutes later
	c.fetcher.mu.Unlock()
	eventually(t, "the leader is asked again after a while", func() bool { return n.timesNamed() > named })
	n.fill("t", 1, 20, 1)
	eventually(t, "and the replica that it names", func() bool { return len(k.offsets("t", 0)) == 21 })
	assert.Equal(t, upTo(21), k.offsets("t", 0))
}

func TestWhoHasNoRackFetchesFromTheLeader(t *testing.T) {
	t.Parallel()
	n := newNear(t)
	n.fill("t", 1, 0, 10)
	_, k := n.read(t, "")
	eventually(t, "all is read", func() bool { return len(k.offsets("t", 0)) == 10 })
	assert.Zero(t, n.fetches(n.replica))
}

// Whatever is wrong at a replica is for the leader to judge: also an offset that the replica does not have (yet).
func TestFromAReplicaThatRefusesItGoesBackToTheLeader(t *testing.T) {
	t.Parallel()
	for name, code := range map[string]int16{"out of range": 1, "not leader or follower": 6, "fenced epoch": 74, "offset not available": 78, "not authorized": 29} {
		n := newNear(t)
		n.fill("t", 1, 0, 10)
		n.refuse = code
		_, k := n.read(t, "here")
		eventually(t, name+": it goes back and forth", func() bool { return n.timesNamed() >= 3 })
		assert.Empty(t, k.offsets("t", 0))
		n.set(func() { n.name = -1 }) // the leader gives the records itself
		eventually(t, name+": all is read", func() bool { return len(k.offsets("t", 0)) == 10 })
		assert.Equal(t, upTo(10), k.offsets("t", 0), "%s: nothing was reset", name)
	}
}

func TestFromAReplicaThatIsGoneItGoesBackToTheLeader(t *testing.T) {
	t.Parallel()
	n := newNear(t)
	n.fill("t", 1, 0, 10)
	n.name = 77 // nobody knows it
	_, k := n.read(t, "here")
	eventually(t, "it comes back to the leader", func() bool { return n.timesNamed() >= 2 })
	n.set(func() { n.name = n.replica })
	eventually(t, "all is read", func() bool { return len(k.offsets("t", 0)) == 10 })
	n.set(func() { n.name = -1 })
	require.NoError(t, n.StopBroker(n.replica))
	n.fill("t", 1, 10, 10)
	eventually(t, "without the replica too", func() bool { return len(k.offsets("t", 0)) == 20 })
	assert.Equal(t, upTo(20), k.offsets("t", 0))
}
