package marshal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// Two runs of one client id, and claims that come in another way than by a Claim.

// Instances are told apart by an id that each run makes, so two live processes with one client id are two members, with FastReclaim too: the
// older answers the newer's Join, nobody takes anything from it, and both share as any two would. Each says so, once.
func TestC14TwoLiveProcessesWithOneClientIDAreTwoMembers(t *testing.T) {
	t.Parallel()
	r := newTrial(t, newBench(t, "t"))
	logP, saidP := logged(t)
	logQ, saidQ := logged(t)
	o := ConsumerOptions{FastReclaim: true, CommitInterval: 50 * time.Millisecond}
	p := r.marshaler("c1", WithLogger(logP))
	heardP := listen(t, p)
	cp := r.consumer(p, o, "t")
	r.produce("t", 4, 1)
	var held []*Message
	for len(held) < 4 {
		msg, err := cp.FetchMessage(within(t, patience))
		require.NoError(t, err)
		require.NoError(t, msg.Commit())
		held = append(held, msg)
	}
	wp := r.watch("p", cp, 500*time.Microsecond)
	wp.log.Note(testutil.Started)
	for _, msg := range held { // it was handed these before the witness came
		wp.mu.Lock()
		wp.seen[testutil.Place{Topic: "t", Partition: msg.Partition}] = map[int64]bool{0: true}
		wp.mu.Unlock()
		wp.log.Handout(testutil.Now(), testutil.Now(), "t", msg.Partition, msg.Token(), 0)
		wp.log.Finished("t", msg.Partition, msg.Token(), 0, 0)
	}
	q := r.marshaler("c1", WithLogger(logQ))
	heardQ := listen(t, q)
	r.watch("q", r.consumer(q, o, "t"), 500*time.Microsecond)
	instances := func() map[string]int {
		n := map[string]int{}
		for _, k := range p.State().Keys {
			n[k.Instance]++
		}
		return n
	}
	tick := time.NewTicker(20 * time.Millisecond) // 400 records a second
	defer tick.Stop()
	for i := 0; i < 100 || len(instances()) != 2; i++ {
		<-tick.C
		r.produce("t", 4, 2)
	}
	eventually(t, "a share for each", func() bool { n := instances(); return len(n) == 2 && n[""] == 0 })
	moved := 0
	for _, msg := range held {
		if keyOf(p, "t", msg.Partition).Token != msg.Token() {
			require.ErrorIs(t, msg.Commit(), ErrClaimLost)
			moved++
		}
	}
	assert.Equal(t, 2, moved)
	r.judge()
	const says = "uses this client id"
	eventually(t, "each says it", func() bool { return saidP.times("warning", says) == 1 && saidQ.times("warning", says) == 1 })
	assert.Len(t, heardP.of(ClientIDInUse), 1)
	assert.LessOrEqual(t, len(heardQ.of(ClientIDInUse)), 1, "it may have been said before somebody listened")
	assert.Empty(t, append(heardP.of(MemberEvicted, ClaimLost), heardQ.of(MemberEvicted, ClaimLost)...))
}

// A heartbeat renews its author, so whatever that holds, however it came to it. Claims that were taken over by FastReclaim, handed over by
// another, kept for this run, or made by hand live as long as any.
func TestC16ClaimsAreKeptAliveHoweverTheyCameToBe(t *testing.T) {
	t.Parallel()
	for name, come := range map[string]func(b *bench) *Marshaler{
		"by fast reclaim": func(b *bench) *Marshaler {
			first := b.puppet(puppetry{Client: "p", TTL: 10 * time.Second, Topics: map[string]string{"t": "messages"}})
			eventually(b.t, "all messages", func() bool { return len(first.said(0, "commit", "t")) == 40 })
			first.kill()
			p := b.marshaler("p")
			b.consumer(p, ConsumerOptions{FastReclaim: true, GreedyClaims: true}, "t")
			return p
		},
		"from who left": func(b *bench) *Marshaler {
			first := b.marshaler("first")
			b.consumer(first, ConsumerOptions{}, "t")
			eventually(b.t, "all", func() bool { return holds(first) == 4 })
			p := b.marshaler("p")
			b.consumer(p, ConsumerOptions{GreedyClaims: true}, "t")
			first.Terminate()
			return p
		},
		"from the run before": func(b *bench) *Marshaler {
			first := b.marshaler("p")
			c := b.consumer(first, ConsumerOptions{RestartGrace: time.Minute}, "t")
			eventually(b.t, "all", func() bool { return holds(first) == 4 })
			require.True(b.t, c.Terminate(false))
			first.Terminate()
			p := b.marshaler("p")
			b.consumer(p, ConsumerOptions{GreedyClaims: true}, "t")
			return p
		},
		"by hand": func(b *bench) *Marshaler {
			p := b.marshaler("p")
			for id := range 4 {
				require.True(b.t, p.ClaimPartition("t", id))
			}
			return p
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, "t")
			b.fill("t", 4, 0, 10)
			p := come(b)
			heard := listen(t, p)
			held := func() bool {
				for id := range int32(4) {
					if keyOf(p, "t", id).Instance != p.instance.String() {
						return false
					}
				}
				return true
			}
			eventually(t, "all", held)
			q := b.marshaler("q")
			kq := collect(t, b.consumer(q, ConsumerOptions{GreedyClaims: true}, "t"))
			before := p.State().Keys
			begun := time.Now()
			beats := b.Faults().Add(testutil.Fault{Client: "p", Keys: testutil.Writes, Do: testutil.DelayAnswers, Delay: time.Nanosecond})
			require.NoError(t, beats.Wait(within(t, patience), 11)) // a fifth of the lease apart: more than two leases
			assert.Greater(t, time.Since(begun), testTTL)
			for i, k := range q.State().Keys {
				assert.Equal(t, before[i].Epoch, k.Epoch, "%s/%d", k.Topic, k.Partition)
			}
			assert.Zero(t, kq.count())
			assert.Empty(t, heard.of(HandOutSuspended, ClaimLost))
			for r, err := range p.c.Log(within(t, patience), testGroup) {
				require.NoError(t, err)
				for _, c := range r.Changes {
					assert.NotEqual(t, "held", c.Kind, "it claims what it holds: %s", r.Text)
				}
			}
		})
	}
}

// A topic that is claimed as a whole is one key with one lease, so none of its partitions can be lost, or claimed, without the others.
func TestC17AWholeTopicIsLostAsAWhole(t *testing.T) {
	t.Parallel()
	start := func(t *testing.T) (b *bench) {
		b = newBench(t)
		require.NoError(t, b.CreateTopic("t", 6, nil))
		b.fill("t", 6, 0, 10)
		return b
	}
	whole := ConsumerOptions{ClaimEntireTopic: true, CommitInterval: 20 * time.Millisecond}
	// one checks that what was read was read under one token by one process at a time.
	one := func(t *testing.T, ks ...*collector) {
		owner := map[int64]int{}
		for i, k := range ks {
			k.mu.Lock()
			for _, tokens := range k.tokens {
				for _, token := range tokens {
					if was, known := owner[token]; known {
						require.Equal(t, was, i, "token %d", token)
					}
					owner[token] = i
				}
			}
			k.mu.Unlock()
		}
		assert.LessOrEqual(t, len(owner), len(ks), "a token for each who had the topic")
	}
	t.Run("a claim of one partition by somebody else", func(t *testing.T) {
		t.Parallel()
		b := start(t)
		p := b.marshaler("p")
		c := b.consumer(p, whole, "t")
		k := collect(t, c)
		eventually(t, "all messages", func() bool { return k.count() == 60 })
		held := keyOf(p, "t", -1)
		x := b.forge(3)
		x.join("x")
		for id := range int32(6) {
			x.claim(lease.Key{Topic: "t", Partition: id})
		}
		b.fill("t", 6, 10, 10)
		eventually(t, "all of what is new", func() bool { return k.count() == 120 })
		assert.Equal(t, held.Epoch, keyOf(p, "t", -1).Epoch)
		assert.Equal(t, 1, holds(p))
		for _, i := range p.State().Instances {
			assert.Equal(t, map[string]int{"p": 1, "x": 0}[i.Client], i.Claims, i.Client)
		}
		one(t, k)
	})
	t.Run("its lease is lost", func(t *testing.T) {
		t.Parallel()
		b := start(t)
		p, q := b.marshaler("p"), b.marshaler("q")
		c := b.consumer(p, whole, "t")
		heard := listen(t, c)
		kp := collect(t, c)
		eventually(t, "all messages", func() bool { return kp.count() == 60 })
		told := c.TopicClaims()
		require.Equal(t, map[string]bool{"t": true}, <-told)
		kq := collect(t, b.consumer(q, whole, "t"))
		require.NoError(t, c.Flush(within(t, patience)))
		b.Faults().Add(testutil.Fault{Client: "p", Keys: testutil.Writes, Do: testutil.Drop})
		b.fill("t", 6, 10, 10)
		eventually(t, "the topic at the other", func() bool { return keyOf(q, "t", -1).Client == "q" })
		eventually(t, "the rest", func() bool { return kp.count()+kq.count() >= 120 && len(heard.of(ClaimLost)) > 0 })
		require.Equal(t, map[string]bool{}, <-told, "one map tells it")
		b.Faults().Clear()
		b.fill("t", 6, 20, 10)
		eventually(t, "what is new", func() bool {
			for id := range int32(6) {
				if at := kq.offsets("t", id); len(at) == 0 || at[len(at)-1] != 29 {
					return false
				}
			}
			return true
		})
		lost := heard.of(ClaimLost)
		require.Len(t, lost, 1, "one event tells it")
		assert.Equal(t, []any{"t", int32(-1)}, []any{lost[0].Topic, lost[0].Partition})
		one(t, kp, kq)
	})
	t.Run("an earlier run had a part of it", func(t *testing.T) {
		t.Parallel()
		b := start(t)
		first := b.puppet(puppetry{Client: "p", TTL: 10 * time.Second, Topics: map[string]string{"t": "fetch"}, Options: ConsumerOptions{MaximumClaims: 5}})
		eventually(t, "all of five", func() bool { return len(first.said(0, "commit", "t")) == 50 })
		first.kill()
		p := b.marshaler("p")
		o := whole
		o.FastReclaim = true
		k := collect(t, b.consumer(p, o, "t"))
		eventually(t, "the sixth", func() bool { return k.count() >= 10 })
		b.fill("t", 6, 10, 10)
		eventually(t, "all of it", func() bool { return k.count() == 70 && holds(p) == 1 })
		one(t, k)
		assert.Equal(t, "p", keyOf(p, "t", -1).Client)
	})
}
