package marshal

import (
	"fmt"
	"testing"
	"time"

	"github.com/IBM/sarama"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// What can be wrong with the coordination topic itself: missing, forbidden, compacted, newer.

// Whoever may makes the topic with the documented settings; whoever may not says so. No metadata request has a broker make a topic its
// own way, neither this one nor one of data.
func TestC75AMissingTopicIsMadeOnPurposeOrNotAtAll(t *testing.T) {
	for _, auto := range []bool{false, true} {
		t.Run(fmt.Sprint("auto creation ", auto), func(t *testing.T) {
			options := []kfake.Opt{kfake.DefaultNumPartitions(10)}
			if auto {
				options = append(options, kfake.AllowAutoTopicCreation())
			}
			b := newBenchOn(t, testutil.WithKfake(options...))
			for range 2 {
				begin := time.Now()
				_, err := Dial("a", b.Addrs(), WithoutTopicCreation(), WithLogger(testutil.Logger(t)))
				require.ErrorContains(t, err, MarshalTopic)
				require.ErrorContains(t, err, "32 partitions, replication factor 3, cleanup.policy=delete", "how to make it")
				assert.Less(t, time.Since(begin), bound)
				assert.Empty(t, b.Kfake().PartitionInfos(MarshalTopic), "it does not exist afterwards")
			}
			_, err := Dial("observer", b.Addrs(), WithAllGroups(), WithLogger(testutil.Logger(t)))
			require.ErrorContains(t, err, MarshalTopic)
			assert.Empty(t, b.Kfake().PartitionInfos(MarshalTopic))

			m := b.marshaler("b")
			assert.Len(t, b.Kfake().PartitionInfos(MarshalTopic), 32)
			settings := b.Kfake().TopicInfo(MarshalTopic).Configs
			for name, want := range map[string]string{
				"cleanup.policy": "delete", "message.timestamp.type": "LogAppendTime", "retention.ms": fmt.Sprint(logRetention.Milliseconds()),
			} {
				if assert.NotNil(t, settings[name], name) {
					assert.Equal(t, want, *settings[name], name)
				}
			}
			c, err := Dial("a", b.Addrs(), WithoutTopicCreation(), WithLogger(testutil.Logger(t)))
			require.NoError(t, err, "once it is there")
			c.Terminate()

			cons := b.consumer(m, ConsumerOptions{WatchInterval: 20 * time.Millisecond}, "data")
			k := collect(t, cons)
			eventually(t, "it is said", func() bool {
				return keyOf(m, "data", -1).Why != "" || len(m.State().Keys) == 1 && m.State().Keys[0].Why != ""
			})
			_, err = m.GetPartitionOffsets("data", 0)
			require.Error(t, err)
			assert.Zero(t, m.Partitions("data"))
			beats := b.Faults().Add(testutil.Fault{Client: "b", Keys: []kmsg.Key{kmsg.Metadata}, Do: testutil.DelayAnswers, Delay: time.Nanosecond})
			require.NoError(t, beats.Wait(within(t, patience), 3), "it is asked for")
			assert.Nil(t, b.Kfake().TopicInfo("data"), "nobody has made it by asking")
			require.NoError(t, b.CreateTopic("data", 2, nil))
			b.fill("data", 2, 0, 5)
			eventually(t, "its messages", func() bool { return k.count() == 10 })
		})
	}
}

// acls is a bench where a user may do what is granted.
type acls struct {
	*bench
	admin sarama.ClusterAdmin
}

func newACLs(t *testing.T) *acls {
	b := newBenchOn(t, testutil.WithUser(sarama.SASLTypePlaintext, "worker", "w"),
		testutil.WithKfake(kfake.User(sarama.SASLTypePlaintext, "limited", "l"), kfake.EnableACLs()))
	cfg := b.Config("admin")
	cfg.Version = sarama.V3_6_0_0
	admin, err := sarama.NewClusterAdmin(b.Addrs(), cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = admin.Close() })
	require.NoError(t, b.CreateTopic("t", 4, nil))
	c, err := Dial("maker", b.Addrs(), WithSaramaConfig(b.Config("maker")), WithLogger(testutil.Logger(t)))
	require.NoError(t, err)
	c.Terminate()
	return &acls{bench: b, admin: admin}
}

type acl struct {
	of   sarama.AclResourceType
	name string
	op   sarama.AclOperation
}

var (
	readLog   = acl{sarama.AclResourceTopic, MarshalTopic, sarama.AclOperationRead}
	writeLog  = acl{sarama.AclResourceTopic, MarshalTopic, sarama.AclOperationWrite}
	readData  = acl{sarama.AclResourceTopic, "t", sarama.AclOperationRead}
	readGroup = acl{sarama.AclResourceGroup, testGroup, sarama.AclOperationRead}
)

func (a *acls) grant(rights ...acl) {
	a.t.Helper()
	for _, r := range rights {
		require.NoError(a.t, a.admin.CreateACLs([]*sarama.ResourceAcls{{
			Resource: sarama.Resource{ResourceType: r.of, ResourceName: r.name, ResourcePatternType: sarama.AclPatternLiteral},
			Acls:     []*sarama.Acl{{Principal: "User:limited", Host: "*", Operation: r.op, PermissionType: sarama.AclPermissionAllow}},
		}}))
	}
}

func (a *acls) revoke(r acl) {
	a.t.Helper()
	who, host := "User:limited", "*"
	gone, err := a.admin.DeleteACL(sarama.AclFilter{
		ResourceType: r.of, ResourceName: &r.name, ResourcePatternTypeFilter: sarama.AclPatternLiteral, Principal: &who, Host: &host,
		Operation: r.op, PermissionType: sarama.AclPermissionAllow,
	}, false)
	require.NoError(a.t, err)
	require.NotEmpty(a.t, gone)
}

func (a *acls) limited() Option {
	cfg := a.Config("a")
	cfg.Net.SASL.User, cfg.Net.SASL.Password = "limited", "l"
	return WithSaramaConfig(cfg)
}

// What a right is missing for is said by name, tried seldom, logged more seldom, and goes on when it is granted. (What is said in
// each case, and that an observer needs less, is in testutil/secure.)
func TestC87AMissingRightIsSaidByNameAndTriedSeldom(t *testing.T) {
	const span = 3 * time.Second
	// seldom lets a while pass and looks at how often the client asks for what it may not, and what it logs.
	seldom := func(t *testing.T, a *acls, seen *lines, keys ...kmsg.Key) {
		asked := a.Faults().Add(testutil.Fault{Client: "a", Keys: keys, Do: testutil.DelayAnswers, Delay: time.Nanosecond})
		before, begin := seen.count(), time.Now()
		letPass(t, 1, span)
		eventually(t, "another try", func() bool { return asked.Hits() > 0 })
		n, said, s := asked.Hits(), seen.count()-before, time.Since(begin).Seconds()
		asked.Remove()
		t.Logf("%d requests and %d lines in %.1f s", n, said, s)
		assert.LessOrEqual(t, float64(n), 10*s)
		assert.LessOrEqual(t, float64(said), 2*s)
	}
	for name, c := range map[string]struct {
		has   []acl
		lacks acl
		says  string
	}{
		"to write the log": {[]acl{readLog, readData, readGroup}, writeLog, "Write on topic " + MarshalTopic},
		"to read the log":  {[]acl{writeLog, readData, readGroup}, readLog, "Read on topic " + MarshalTopic},
	} {
		t.Run("start without the right "+name, func(t *testing.T) {
			t.Parallel()
			a := newACLs(t)
			a.grant(c.has...)
			log, seen := logged(t)
			begin := time.Now()
			ctx := within(t, 2*time.Second)
			cluster, err := DialContext(ctx, "a", a.Addrs(), a.limited(), WithLease(testTTL, 0), WithLogger(log))
			if err == nil {
				asked := a.Faults().Add(testutil.Fault{Client: "a", Keys: testutil.Writes, Do: testutil.DelayAnswers, Delay: time.Nanosecond})
				_, err = cluster.NewMarshalerContext(ctx, "a", testGroup)
				cluster.Terminate()
				assert.LessOrEqual(t, float64(asked.Hits()), 10*time.Since(begin).Seconds())
				asked.Remove()
			}
			require.ErrorIs(t, err, ErrAuthorization)
			assert.ErrorContains(t, err, c.says)
			assert.Less(t, time.Since(begin), 2*time.Second+bound)
			assert.LessOrEqual(t, seen.count(), 6)
			a.grant(c.lacks)
			m := a.marshaler("a", a.limited(), WithLogger(log))
			k := collect(t, a.consumer(m, ConsumerOptions{}, "t"))
			a.fill("t", 4, 0, 5)
			eventually(t, "all messages", func() bool { return k.count() == 20 })
		})
	}
	for name, c := range map[string]struct {
		lacks acl
		keys  []kmsg.Key
		stops bool
		says  string
	}{
		"to write the log":      {writeLog, []kmsg.Key{kmsg.Produce}, true, "Write on topic " + MarshalTopic},
		"to read the log":       {readLog, []kmsg.Key{kmsg.Fetch}, true, "Read on topic " + MarshalTopic},
		"to commit its offsets": {readGroup, []kmsg.Key{kmsg.OffsetCommit, kmsg.FindCoordinator}, false, "Read on group " + testGroup},
	} {
		t.Run("running, without the right "+name+" any more", func(t *testing.T) {
			t.Parallel()
			a := newACLs(t)
			a.grant(readLog, writeLog, readData, readGroup)
			log, seen := logged(t)
			m := a.marshaler("a", a.limited(), WithLogger(log))
			cons := a.consumer(m, ConsumerOptions{CommitInterval: 50 * time.Millisecond, MaxWait: 5 * time.Second}, "t")
			k := collect(t, cons)
			a.fill("t", 4, 0, 5)
			eventually(t, "all messages", func() bool { return k.count() == 20 && a.committed("t", 4) == 20 })
			a.revoke(c.lacks)
			if c.stops {
				eventually(t, "hand-out stops", func() bool { return !m.trusted() })
			} else {
				a.fill("t", 4, 5, 5)
				eventually(t, "it goes on", func() bool { return k.count() == 40 })
			}
			seldom(t, a, seen, c.keys...)
			assert.True(t, seen.soon("warning", c.says))
			assert.ErrorIs(t, m.Healthy(), ErrAuthorization)
			a.grant(c.lacks)
			a.fill("t", 4, 10, 5)
			eventually(t, "all, and its offsets", func() bool { return keyOf(m, "t", 3).Next == cap15(c.stops) && a.committed("t", 4) == 4*cap15(c.stops) })
		})
	}
}

// cap15 is where a partition of the test above ends.
func cap15(stopped bool) int64 {
	if stopped {
		return 10
	}
	return 15
}

// A later version adds fields and contents: what it does not understand it skips, and the key that the author holds is not free for that.
// A record of a newer wire version is another matter (TestANewerVersionOfAMemberIsHeardAndEndsTheClaims): who cannot know what it did
// ends its claims.
func TestC91RecordsWithMoreThanIsKnownKeepTheirAuthorsClaims(t *testing.T) {
	extra := func(v []byte) []byte {
		return protowire.AppendBytes(protowire.AppendTag(v, 1000, protowire.BytesType), []byte("of a later version"))
	}
	id := lease.InstanceID{9}
	join := lease.Record{Kind: lease.KindJoin, Version: 2, Instance: id, Seq: 1,
		Join: lease.Join{Client: "later", TTL: lease.MaxTTL, MaxVersion: 2, Pinned: []lease.Key{{Topic: "t", Partition: 0}, {Topic: "t", Partition: 1}}}}
	claim := lease.Record{Kind: lease.KindClaim, Version: 2, Instance: id, Seq: 2, Claim: lease.Claim{Keys: join.Join.Pinned}}
	unknown := protowire.AppendBytes(protowire.AppendTag(
		appendRecord(nil, &lease.Record{Kind: lease.KindHeartbeat, Version: 2, Instance: id, Seq: 3, Heartbeat: lease.Heartbeat{P: -1}}), 99, protowire.BytesType), []byte("a kind"))
	b := newBench(t, "t")
	m := b.marshaler("a")
	b.scribble(extra(appendRecord(nil, &join)), extra(appendRecord(nil, &claim)), unknown)
	b.consumer(m, ConsumerOptions{GreedyClaims: true}, "t")
	late := b.marshaler("b")
	b.consumer(late, ConsumerOptions{GreedyClaims: true}, "t")
	for _, of := range []*Marshaler{m, late} {
		eventually(t, "the others are held", func() bool { return holderOf(of, "t", 2) != "" && holderOf(of, "t", 3) != "" })
		letPass(t, 1, testTTL/5)
		assert.Equal(t, "later", holderOf(of, "t", 0))
		assert.Equal(t, "later", holderOf(of, "t", 1))
	}
}

// A log from which records were removed in the middle tells another history, so a compacted topic is refused.
func TestC93ACompactedCoordinationTopicIsRefused(t *testing.T) {
	for _, policy := range []string{"compact", "compact,delete", "delete,compact"} {
		b := newBench(t)
		b.remains.torn = "it is refused"
		require.NoError(t, b.CreateTopic(MarshalTopic, 32, map[string]string{"cleanup.policy": policy}))
		for _, o := range []Option{func(*settings) {}, WithoutTopicCreation(), WithAllGroups()} {
			begin := time.Now()
			_, err := Dial("a", b.Addrs(), o, WithLogger(testutil.Logger(t)))
			require.ErrorContains(t, err, "cleanup.policy is "+policy)
			require.ErrorContains(t, err, "set it to delete")
			assert.Less(t, time.Since(begin), bound)
		}
		_, end, err := b.Offsets(MarshalTopic, shardOf(testGroup))
		require.NoError(t, err)
		assert.Zero(t, end, "nothing was written")
	}
}

// Should it be compacted all the same, by somebody who changes the policy of a running fleet, nobody goes on as if nothing were: the
// newcomer's history is not that of the others, all of them notice by its hash, and agree anew. (Until then owners may overlap, as after
// any loss of records: exception 2 of PROTOCOL.md.)
func TestC93AFleetWhoseLogIsCompactedNoticesAndAgreesAnew(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	b.remains.torn = "the cleaner has been at it"
	b.fill("t", 4, 0, 10)
	m1, m2 := b.marshaler("a"), b.marshaler("b")
	o := ConsumerOptions{CommitInterval: 20 * time.Millisecond}
	k1, k2 := collect(t, b.consumer(m1, o, "t")), collect(t, b.consumer(m2, o, "t"))
	share(t, 4, m1, m2)
	eventually(t, "all messages", func() bool { return k1.count()+k2.count() >= 40 && b.committed("t", 4) == 40 })
	_, end, err := b.Offsets(MarshalTopic, shardOf(testGroup))
	require.NoError(t, err)
	t.Cleanup(b.OnBatch(MarshalTopic, shardOf(testGroup), func(raw []byte) []byte {
		return testutil.Compact(raw, func(offset int64) bool { return offset >= end-1 }) // the last of each key
	}))
	heard := listen(t, m1)
	m3 := b.marshaler("c")
	k3 := collect(t, b.consumer(m3, o, "t"))
	heard.wait(t, HistoryDiffers)
	eventually(t, "one world again", func() bool { return alive(m1) == 3 && alive(m2) == 3 && alive(m3) == 3 })
	share(t, 4, m1, m2, m3)
	b.fill("t", 4, 10, 10)
	eventually(t, "what is new", func() bool {
		n := map[string]bool{}
		for _, k := range []*collector{k1, k2, k3} {
			for p := range int32(4) {
				for _, at := range k.offsets("t", p) {
					n[fmt.Sprint(p, at)] = true
				}
			}
		}
		return len(n) == 80
	})
}
