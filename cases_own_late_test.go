package marshal

import (
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// What a former owner still writes: it is in the log, and does nothing.

// A heartbeat renews its author and moves the progress of keys that the author holds under the epoch that it names. So nothing that a
// former owner writes touches the claim of the next: neither its owner, nor its position, nor its lease.
func TestC03LateRecordsOfAFormerOwnerChangeNothing(t *testing.T) {
	t.Parallel()
	k := lease.Key{Topic: "t"}
	type late struct {
		a              *forged
		epochA, epochB int64
		renewedB       int64
		b              *forged
	}
	records := map[string]func(l late){
		"heartbeat":                        func(l late) { l.a.beat() },
		"heartbeat with its position":      func(l late) { l.a.beatAt(k, l.epochA, 120) },
		"heartbeat with a higher one":      func(l late) { l.a.beatAt(k, l.epochA, 900) },
		"heartbeat of what is not its own": func(l late) { l.a.beatAt(k, l.epochB, 900) },
		"claim":                            func(l late) { l.a.claim(k) },
		"claim of the topic":               func(l late) { l.a.claim(lease.Key{Topic: "t", Partition: lease.WholeTopic}) },
		"release":                          func(l late) { l.a.releaseAt(k, l.epochA, 120) },
		"release of what is not its own":   func(l late) { l.a.releaseAt(k, l.epochB, 900) },
		"leave": func(l late) {
			l.a.write(lease.Record{Kind: lease.KindLeave, Release: lease.Release{Keys: []lease.ReleasedKey{{Key: k, Epoch: l.epochA, Partitions: []int32{0}, Next: []int64{120}}}}})
		},
		"eviction": func(l late) {
			l.a.write(lease.Record{Kind: lease.KindEvict, Evict: lease.Evict{Targets: []lease.Target{{Instance: l.b.id, Renewed: l.renewedB - 1}}}})
		},
	}
	for _, how := range []string{"it was declared dead", "it had given the partition back"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.one("t", 10)
			p, q := b.marshaler("p"), b.marshaler("q")
			l := late{a: b.forge(1), b: b.forge(2)}
			l.a.ttl, l.b.ttl = lease.MaxTTL, lease.MaxTTL
			if how == "it was declared dead" {
				l.a.ttl = lease.MinTTL
			}
			l.a.join("a")
			l.epochA = l.a.claim(k)
			l.a.beatAt(k, l.epochA, 100)
			if how == "it was declared dead" {
				eventually(t, "its end", func() bool { return alive(p) == 2 && alive(q) == 2 && keyOf(p, "t", 0).Next == 100 })
			} else {
				l.a.releaseAt(k, l.epochA, 110)
			}
			l.b.join("b")
			l.epochB = l.b.claim(k)
			l.renewedB = l.b.beatAt(k, l.epochB, 250)
			see := func(m *Marshaler, upTo int64) (KeyState, InstanceState) {
				eventually(t, "all is read", func() bool { return m.State().Offset >= upTo })
				for _, i := range m.State().Instances {
					if i.Client == "b" {
						i.Silent = 0 // it grows
						return keyOf(m, "t", 0), i
					}
				}
				require.Fail(t, "b is gone")
				return KeyState{}, InstanceState{}
			}
			key, instance := see(p, l.renewedB)
			require.Equal(t, KeyState{Topic: "t", Instance: l.b.id.String(), Client: "b", Epoch: l.epochB, Token: key.Token, Next: 250}, key)
			for name, write := range records {
				if l.a.ttl == lease.MaxTTL && strings.HasSuffix(name, "not its own") {
					continue // of a living member `marshal verify` finds it, see TestABadLogIsFoundAtTheEndOfATest
				}
				write(l)
				_, end, err := b.Offsets(MarshalTopic, shardOf(testGroup))
				require.NoError(t, err)
				for _, m := range []*Marshaler{p, q} {
					nowKey, nowInstance := see(m, end-1)
					assert.Equal(t, key, nowKey, name)
					assert.Equal(t, instance, nowInstance, "%s, its lease", name)
				}
			}
			r := b.marshaler("r")
			nowKey, nowInstance := see(r, 0)
			assert.Equal(t, key, nowKey, "to who comes later")
			assert.Equal(t, instance.LastHeartbeat, nowInstance.LastHeartbeat)
		})
	}
}

// A process that was stopped is told to end in the moment in which it wakes up, when another has its partition: its releases free nothing.
// Terminate gives true, for the log has confirmed that nothing is left with it; that the claim was lost, and not released, is an event.
func TestC05ReleaseOfAFormerHolderFreesNothing(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]string{"another client": "q", "the same client id": "p"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.one("t", 100)
			x := b.puppet(puppetry{Client: "p", TTL: 600 * time.Millisecond, Pace: 10 * time.Millisecond, Topics: map[string]string{"t": "fetch"}})
			eventually(t, "messages at the first", func() bool { return len(x.said(0, "commit", "t")) >= 3 })
			x.signal(syscall.SIGSTOP)
			q := b.marshaler(next, WithLease(600*time.Millisecond, 0))
			kq := collect(t, b.consumer(q, ConsumerOptions{}, "t"))
			eventually(t, "all at the next", func() bool { n := len(kq.offsets("t", 0)); return n > 0 && kq.offsets("t", 0)[n-1] == 99 })
			r := b.marshaler("r", WithLease(600*time.Millisecond, 0))
			kr := collect(t, b.consumer(r, ConsumerOptions{GreedyClaims: true}, "t")) // it takes what is free at once
			eventually(t, "it waits", func() bool { return alive(r) == 2 })
			held := keyOf(q, "t", 0)
			require.NotEmpty(t, held.Instance)
			x.signal(syscall.SIGTERM) // it hears of it when it wakes up
			frozen := x.now()
			x.signal(syscall.SIGCONT)
			x.wg.Wait() // it has ended
			assert.Equal(t, [][]string{{"true"}}, x.said(frozen, "terminated", "t"))
			assert.Contains(t, x.said(frozen, "event", "t"), []string{ClaimLost.String()})
			assert.NotContains(t, x.said(frozen, "event", "t"), []string{ClaimReleased.String()})
			b.fill("t", 1, 100, 20)
			eventually(t, "what is new at the next", func() bool { n := len(kq.offsets("t", 0)); return kq.offsets("t", 0)[n-1] == 119 })
			now := keyOf(q, "t", 0)
			assert.Equal(t, []any{held.Instance, held.Epoch}, []any{now.Instance, now.Epoch}, "it has it all the time")
			assert.Zero(t, kr.count(), "nothing for the third")
		})
	}
}
