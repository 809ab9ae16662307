package marshal

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/testutil"
)

// Who gets what several want at the same time, and that who loses it is told.

// Eight that begin at the same moment, as processes of their own and as members of one, all want one partition: one of them has it, by the
// first Claim in the log, and the others are idle.
func TestC06OfManyWhoClaimAtOnceTheFirstInTheLogHasIt(t *testing.T) {
	t.Parallel()
	const members, rounds = 8, 50
	for name, greedy := range map[string]bool{"greedy": true, "by the plan": false} {
		for where, together := range map[string]bool{"in processes": false, "in one process": true} {
			t.Run(name+" "+where, func(t *testing.T) {
				t.Parallel()
				b := newBench(t)
				var ms []*Marshaler
				shared, err := Dial("all", b.Addrs(), WithLease(10*time.Second, 0), WithLogger(testutil.Logger(t)))
				require.NoError(t, err)
				t.Cleanup(shared.Terminate)
				for i := range members {
					if together {
						m, err := shared.NewMarshaler(fmt.Sprint(i), testGroup)
						require.NoError(t, err)
						ms = append(ms, m)
					} else {
						ms = append(ms, b.marshaler(fmt.Sprint(i), WithLease(10*time.Second, 0)))
					}
				}
				for round := range rounds {
					topic := fmt.Sprint("t", round)
					b.one(topic, 1)
					ctx, cancel := context.WithCancel(within(t, patience))
					begin := make(chan struct{})
					cs := make([]*Consumer, members)
					got := make([]int, members)
					var wg sync.WaitGroup
					for i, m := range ms {
						wg.Go(func() {
							<-begin
							cs[i] = b.consumer(m, ConsumerOptions{GreedyClaims: greedy}, topic)
							for msg, err := range cs[i].Messages(ctx) {
								if !assert.NoError(t, err) || !assert.NoError(t, cs[i].CommitMessages(ctx, msg)) {
									return
								}
								if got[i]++; msg.Offset == 1 {
									cancel() // nobody has anything more to wait for
								}
							}
						})
					}
					close(begin)
					eventually(t, "the first message", func() bool { return keyOf(ms[0], topic, 0).Next == 1 })
					b.fill(topic, 1, 1, 1)
					wg.Wait()
					cancel()
					winners := 0
					for i, n := range got {
						if n > 0 {
							winners++
							assert.Equal(t, ms[i].ClientID(), keyOf(ms[0], topic, 0).Client)
						}
					}
					require.Equal(t, 1, winners, "%v", got)
					for _, c := range cs {
						c.m.wg.Go(func() { c.Terminate(true) })
					}
					for _, c := range cs {
						<-c.closed
					}
				}
				first := map[string]bool{}
				for r, err := range shared.Log(within(t, patience), testGroup) {
					require.NoError(t, err)
					if r.Kind != "claim" {
						continue
					}
					for _, c := range r.Changes { // those of one record are of one key
						if !first[c.Topic] {
							assert.Equal(t, "granted", c.Kind, "the first of %s: %s", c.Topic, r.Text)
						}
						first[c.Topic] = true
					}
				}
				assert.Len(t, first, rounds)
			})
		}
	}
}

// There is no renewal of a single partition, so a process loses one of two only where the log gives it to somebody else: here by a
// Release that is in its name, with somebody else as the successor. Everything that tells of a claim tells so at once, and the other
// partition goes on.
func TestC08WhoLosesOnePartitionIsToldAtOnceAndGoesOnWithTheOther(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	require.NoError(t, b.CreateTopic("t", 2, nil))
	b.fill("t", 2, 0, 10)
	m := b.marshaler("p", WithLease(10*time.Second, 0))
	c := b.consumer(m, ConsumerOptions{CommitInterval: 10 * time.Second}, "t")
	heard := listen(t, c)
	claims := map[int32]*Claim{}
	for claim, err := range c.Claims(within(t, patience)) {
		require.NoError(t, err)
		if claims[claim.Partition] = claim; len(claims) == 2 {
			break
		}
	}
	mine, lost := take(t, claims[0], 3), take(t, claims[1], 3)
	require.NoError(t, mine[0].Commit())
	eventually(t, "nothing on its way", func() bool { m.out.mu.Lock(); defer m.out.mu.Unlock(); return len(m.out.items) == 0 })
	m.g.mu.Lock()
	world := m.g.log.World().Instance(m.instance)
	x := &forged{b: b, id: m.instance, seq: world.Seq, ttl: 10 * time.Second}
	m.g.mu.Unlock()
	other := b.forge(7)
	other.ttl = lease.MaxTTL
	other.join("q")
	k := lease.Key{Topic: "t", Partition: 1}
	begun := time.Now()
	x.write(lease.Record{Kind: lease.KindRelease, Release: lease.Release{Successor: other.id, Keys: []lease.ReleasedKey{
		{Key: k, Epoch: keyOf(m, "t", 1).Epoch, Partitions: []int32{1}, Next: []int64{7}},
	}}})
	e := heard.wait(t, ClaimLost)
	assert.Less(t, time.Since(begun), time.Second, "no lease has to end before")
	assert.Equal(t, []any{"t", int32(1), lost[0].Token()}, []any{e.Topic, e.Partition, e.Token})
	for _, msg := range lost {
		require.ErrorIs(t, msg.Commit(), ErrClaimLost)
		require.ErrorIs(t, context.Cause(msg.Context()), ErrClaimLost)
	}
	require.ErrorIs(t, context.Cause(claims[1].Context()), ErrClaimLost)
	require.ErrorIs(t, claims[1].Progress(within(t, patience), 5), ErrClaimLost)
	require.ErrorIs(t, c.CommitMessages(within(t, patience), lost[1]), ErrClaimLost)
	for msg, err := range claims[1].Messages(within(t, patience)) {
		require.Error(t, err, "%v", msg)
	}
	_, held := c.Position("t", 1)
	assert.False(t, held)
	assert.Equal(t, 1, c.GetCurrentLoad())
	assert.EqualValues(t, 1, c.Stats().Losses)
	assert.Equal(t, "q", keyOf(m, "t", 1).Client)

	require.NoError(t, mine[1].Commit(), "the other goes on")
	take(t, claims[0], 7)
	require.NoError(t, claims[0].Context().Err())
	assert.Len(t, heard.of(ClaimLost), 1)
	assert.Equal(t, claims[0].Token(), keyOf(m, "t", 0).Token)
}

// Nobody compares clocks: a member lives as long as its records arrive, whatever they are stamped, and is dead a lease after the last one.
func TestC10StampsOfAClockThatIsWrongDecideNothing(t *testing.T) {
	t.Parallel()
	for name, skew := range map[string]time.Duration{
		"a second ahead": time.Second, "a minute ahead": time.Minute, "an hour ahead": 59 * time.Minute, // the broker takes no more
		"a second behind": -time.Second, "a week behind": -7 * 24 * time.Hour,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			require.NoError(t, b.CreateTopic(MarshalTopic, 32, map[string]string{"message.timestamp.type": "CreateTime"}))
			b.one("t", 10)
			a := b.forge(1)
			a.ttl, a.skew = 600*time.Millisecond, skew
			a.join("a", lease.Interest{Topics: []lease.TopicInterest{{Topic: "t", Partitions: 1}}})
			epoch := a.claim(lease.Key{Topic: "t"})
			q := b.marshaler("q")
			heard := listen(t, q)
			k := collect(t, b.consumer(q, ConsumerOptions{GreedyClaims: true}, "t"))
			tick := time.NewTicker(150 * time.Millisecond)
			defer tick.Stop()
			for range 12 { // three leases
				<-tick.C
				a.beat()
				require.Equal(t, epoch, keyOf(q, "t", 0).Epoch)
			}
			last := time.Now()
			eventually(t, "its messages", func() bool { return k.count() == 10 })
			took := time.Since(last)
			assert.GreaterOrEqual(t, took, a.ttl-50*time.Millisecond, "not before the lease is over, by the clock of who waits")
			assert.Less(t, took, a.ttl+2*time.Second)
			assert.Len(t, heard.of(MemberEvicted), 1)
		})
	}
}

// The wall clock of a process is set by an hour, back by an hour, and by a day, in mid-life. It ends trust, as a suspended machine would,
// until a heartbeat is read back; leases are counted by the clock that nobody can set, so nothing moves, and the dead are found as ever.
func TestC12AStepOfTheWallClockMovesNothing(t *testing.T) {
	t.Parallel()
	b := newBench(t, "t")
	const ttl = testTTL
	p, q := b.marshaler("p", WithLease(ttl, 0)), b.marshaler("q", WithLease(ttl, 0))
	cp := b.consumer(p, ConsumerOptions{CommitInterval: 50 * time.Millisecond}, "t")
	kp, kq := collect(t, cp), collect(t, b.consumer(q, ConsumerOptions{CommitInterval: 50 * time.Millisecond}, "t"))
	share(t, 4, p, q)
	before := p.State().Keys
	heard, other := listen(t, p), listen(t, q)
	beats := b.Faults().Add(testutil.Fault{Client: "p", Keys: testutil.Writes, Do: testutil.DelayAnswers, Delay: time.Nanosecond})
	n := 0
	for _, step := range []time.Duration{time.Hour, -2 * time.Hour, 25 * time.Hour, -24 * time.Hour} {
		wrote, begun := beats.Hits(), time.Now()
		p.c.clock.set.Add(int64(step))
		b.fill("t", 4, n, 10)
		n += 10
		eventually(t, "all messages", func() bool { return kp.count()+kq.count() == 4*n && p.trusted() })
		require.NoError(t, beats.Wait(within(t, patience), wrote+3))
		rate := time.Since(begun) / time.Duration(beats.Hits()-wrote)
		assert.Greater(t, rate, 10*time.Millisecond, "no busy loop")
		assert.Less(t, rate, 3*ttl/5/2, "no heartbeat is late")
	}
	for i, k := range p.State().Keys {
		assert.Equal(t, before[i].Epoch, k.Epoch, "%s/%d", k.Topic, k.Partition)
	}
	assert.Empty(t, append(heard.of(MemberEvicted, ClaimLost), other.of(MemberEvicted, ClaimLost)...))
	b.crash(q)
	begun := time.Now()
	eventually(t, "all at the one whose clock was set", func() bool { return holds(p) == 4 })
	assert.Less(t, time.Since(begun), ttl+2*time.Second)
	b.Faults().Clear() // it ends faster
}
