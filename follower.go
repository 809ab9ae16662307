package marshal

import (
	"time"

	"github.com/kafka-marshal/marshal/internal/kafka"
)

// A leader may name a replica that is nearer to us (KIP-392), by the rack of the connection's settings. It gives no records then, so
// the partition is fetched from that replica, until something is wrong there, or for followFor at most: then the leader is asked
// again, which may name another one.

// followFor is how long a named replica is fetched from; the same as in Java's client.
const followFor = 5 * time.Minute

// following is the replica that a partition's leader has named; its zero value: none. It is guarded by the fetcher's lock.
type following struct {
	replica int32
	until   time.Duration // Mono
}

// at tells whether it is this broker.
func (w *following) at(broker int32) bool { return w.until != 0 && w.replica == broker }

// follow moves the partitions of an answer to the replicas that are named there.
func (b *fetchBroker) follow(answer *kafka.FetchAnswer, order []*asked) {
	for i, a := range order {
		if part := &answer.Parts[i]; b.sends(part) {
			b.followTo(a.p, part.PreferredReplica)
		}
	}
}

// sends tells whether the answer names another broker.
func (b *fetchBroker) sends(part *kafka.FetchedPart) bool {
	return part.PreferredReplica >= 0 && part.PreferredReplica != b.id && part.Err == nil
}

func (b *fetchBroker) followTo(p *partition, replica int32) {
	f := b.f
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, ok := f.parts[p]; ok && p.fetch.broker == b && !p.fetch.following.at(b.id) {
		p.fetch.following = following{replica: replica, until: f.c.m.c.clock.now().Mono + followFor}
		f.assign(p)
	}
}

// unfollow goes back to the leader of p where it is fetched here as from a replica. It gives false where it is not.
func (b *fetchBroker) unfollow(p *partition) bool {
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	return b.unfollowLocked(func(q *partition) bool { return q == p })
}

// unfollowAll does it for all: the broker is not to be had.
func (b *fetchBroker) unfollowAll() {
	b.f.mu.Lock()
	defer b.f.mu.Unlock()
	b.unfollowLocked(func(*partition) bool { return true })
}

// unfollowOld does it for those that have been here for long enough. Called with f.mu held.
func (b *fetchBroker) unfollowOld(now time.Duration) {
	b.unfollowLocked(func(p *partition) bool { return now >= p.fetch.following.until })
}

func (b *fetchBroker) unfollowLocked(which func(*partition) bool) bool {
	var back []*partition // assign changes b.parts
	for _, p := range b.parts {
		if p.fetch.following.at(b.id) && which(p) {
			back = append(back, p)
		}
	}
	for _, p := range back {
		p.fetch.following = following{}
		b.f.assign(p)
	}
	return len(back) > 0
}
