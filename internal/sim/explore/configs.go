package explore

import (
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
)

var (
	p0    = lease.Key{Topic: "t", Partition: 0}
	p1    = lease.Key{Topic: "t", Partition: 1}
	whole = lease.Key{Topic: "t", Partition: lease.WholeTopic}
)

// partitions wants partitions of t, of which there are so many.
func partitions(n int32) member.Wanted {
	return member.Wanted{Interests: []lease.Interest{{Topics: []lease.TopicInterest{{Topic: "t", Partitions: n}}}}}
}

// topic wants all of t.
func topic(n int32) member.Wanted {
	w := partitions(n)
	w.Interests[0].Whole = true
	return w
}

func reclaiming(w member.Wanted) member.Wanted {
	w.FastReclaim = true
	return w
}

const (
	ms      = time.Millisecond
	quantum = 250 * ms // a quarter of the ttl: heartbeats are due at each
)

// Configs are what is explored. The time to live is a second in all of them, but where a base is looked for.
var Configs = []Config{
	{
		Name: "pens", About: "every sequence of a few records that three authors may write, right or wrong, about partitions and their topic",
		Authors: []Author{{"c", time.Second}, {"c", time.Second}, {"d", time.Second}}, Keys: []lease.Key{p0, whole, p1}, Quantum: quantum,
		Records: 6,
	},
	{
		Name: "one-key", About: "two members at rest with one key; a record may come twice",
		Procs: []Proc{{Name: "a", Wanted: partitions(1)}, {Name: "b", Wanted: partitions(1)}},
		Keys:  []lease.Key{p0}, Quantum: quantum,
		Setup:   "start a\nfair 250ms\nstart b\nfair 500ms",
		Records: 2, Written: 2, Copies: 1,
	},
	{
		Name: "joining", About: "two members that have not joined yet claim one key",
		Procs: []Proc{{Name: "a", Wanted: partitions(1), Written: -1}, {Name: "b", Wanted: partitions(1)}},
		Keys:  []lease.Key{p0}, Quantum: quantum,
		Setup:   "start a\nstart b\nappend a:1\nread a",
		Records: 3, Written: 3,
	},
	{
		Name: "crash", About: "a member whose records do not arrive, and another that is about to evict it and to claim",
		Procs: []Proc{{Name: "a", Wanted: partitions(1), Written: 1}, {Name: "b", Wanted: partitions(1)}},
		Keys:  []lease.Key{p0}, Quantum: quantum,
		Setup:   "start a\nfair 250ms\nstart b\nfair 500ms\nuntil evict hold a",
		Records: 2, Written: 2,
	},
	{
		Name: "drift", About: "the same, where the owner's clock is 5 % slow and the other's 5 % fast",
		Procs: []Proc{{Name: "a", Wanted: partitions(1), Rate: 950, Written: -1}, {Name: "b", Wanted: partitions(1), Rate: 1050}},
		Keys:  []lease.Key{p0}, Quantum: 50 * ms,
		Setup:   "start a\nfair 250ms\nstart b\nfair 500ms\nuntil evict hold a",
		Records: 2, Written: 1,
	},
	{
		Name: "topic", About: "a whole topic beside its partitions",
		Procs: []Proc{{Name: "a", Wanted: topic(2), Written: 1}, {Name: "b", Wanted: partitions(2)}},
		Keys:  []lease.Key{whole, p0, p1}, Quantum: quantum,
		Setup:   "start a\nappend a:1\nread a\nstart b\nappend b:1\nread b",
		Records: 2, Written: 2,
	},
	{
		Name: "balance", About: "one of two keys moves to a newcomer",
		Procs: []Proc{{Name: "a", Wanted: partitions(2)}, {Name: "b", Wanted: partitions(2), Written: 1}},
		Keys:  []lease.Key{p0, p1}, Quantum: quantum,
		Setup:   "start a\nfair 250ms\nstart b\nfair 250ms hold a",
		Records: 2, Written: 2,
	},
	{
		Name: "late", About: "an owner is evicted with a message in flight, and goes on with it",
		Procs: []Proc{{Name: "a", Wanted: partitions(1), Written: 1}, {Name: "b", Wanted: partitions(1), Written: 2}},
		Keys:  []lease.Key{p0}, Quantum: quantum,
		Setup:   "start a\nfair 250ms\nstart b\nfair 500ms\ntake a t/0\nuntil evict stop a",
		Records: 3, Messages: 2,
	},
	{
		Name: "unread", About: "an owner has not read its own last renewal, which another has, and goes on when that one is about to evict it",
		Procs: []Proc{{Name: "a", Wanted: partitions(1), Written: 1}, {Name: "b", Wanted: partitions(1), Written: 1}},
		Keys:  []lease.Key{p0}, Quantum: quantum,
		Setup:   "start a\nfair 250ms\nstart b\nfair 500ms\nadvance\ntick a\nappend a:6\nread b\nuntil evict stop a",
		Records: 3,
	},
	{
		Name: "namesake", About: "the next run of a client id, with fast reclaim, beside one that is alive or not",
		Procs: []Proc{{Name: "a", Client: "c", Wanted: partitions(1), Written: 1}, {Name: "b", Client: "c", Wanted: reclaiming(partitions(1)), Written: 2}},
		Keys:  []lease.Key{p0}, Quantum: quantum,
		Setup:   "start a\nfair 500ms\nstart b\nfair 750ms stop a",
		Records: 3, Batches: true,
	},
	{
		Name: "park", About: "a member parks; the next run of its client id comes, and another wants the key",
		Procs: []Proc{{Name: "a", Client: "c", Wanted: partitions(1), Written: 2}, {Name: "b", Client: "c", Wanted: partitions(1), Written: 2},
			{Name: "x", Wanted: partitions(1), Written: -1}},
		Keys: []lease.Key{p0}, Quantum: quantum,
		Setup:   "start a\nfair 250ms\nstart x\nfair 250ms",
		Records: 3, Written: 1,
		Wishes: []Wish{{Proc: "a", Kind: Park}, {Proc: "b", Kind: Start}},
	},
	{
		Name: "three", About: "two members that both evict a third and claim its key",
		Procs: []Proc{{Name: "a", Wanted: partitions(1), Written: -1}, {Name: "b", Wanted: partitions(1)}, {Name: "c", Wanted: partitions(1)}},
		Keys:  []lease.Key{p0}, Quantum: quantum,
		Setup:   "start a\nfair 250ms\nstart b\nstart c\nfair 500ms\nuntil evict stop a",
		Records: 2, Written: 1,
	},
	{
		Name: "newcomers", About: "an old member and two newcomers",
		Procs: []Proc{{Name: "a", Wanted: partitions(2)}, {Name: "b", Wanted: partitions(2)}, {Name: "c", Wanted: partitions(2)}},
		Keys:  []lease.Key{p0, p1}, Quantum: quantum,
		Setup:   "start a\nfair 250ms\nstart b\nstart c",
		Records: 2, Written: 1,
	},
	{
		Name: "seek", About: "somebody sets the position of a key under its owner",
		Procs: []Proc{{Name: "a", Wanted: partitions(1), Written: 1}, {Name: "b", Written: 2}},
		Keys:  []lease.Key{p0}, Quantum: quantum,
		Setup:   "start a\nfair 250ms\nstart b\nfair 500ms",
		Records: 3, Written: 2, Messages: 2,
		Wishes: []Wish{{Proc: "b", Kind: Seek, Key: p0, Next: 0}},
	},
	{
		Name: "successor", About: "an owner leaves while its successor is being evicted",
		Procs: []Proc{{Name: "a", Wanted: partitions(1)}, {Name: "b", Wanted: partitions(1), Written: -1}, {Name: "c", Written: -1}},
		Keys:  []lease.Key{p0}, Quantum: quantum,
		Setup:   "start a\nfair 250ms\nstart b\nstart c\nfair 500ms\nuntil evict hold b",
		Records: 3, Written: 2,
		Wishes: []Wish{{Proc: "a", Kind: Leave}},
	},
	{
		Name: "leave", About: "an owner leaves, or is cut short",
		Procs: []Proc{{Name: "a", Wanted: partitions(1)}, {Name: "b", Wanted: partitions(1), Written: 1}},
		Keys:  []lease.Key{p0}, Quantum: quantum,
		Setup:   "start a\nfair 250ms\nstart b\nfair 500ms",
		Records: 3, Written: 3,
		Wishes: []Wish{{Proc: "a", Kind: Leave}, {Proc: "a", Kind: Abandon}},
	},
	{
		Name: "deaf", About: "members that hear of their acknowledged records, and may find out that they do not read",
		Procs: []Proc{{Name: "a", Wanted: partitions(1)}, {Name: "b", Wanted: partitions(1), Written: 1}},
		Keys:  []lease.Key{p0}, Quantum: quantum,
		Setup:   "start a\nfair 250ms\nstart b\nfair 500ms",
		Records: 2, Written: 2, Acks: true,
	},
	{
		Name: "base", About: "a newcomer finds no base and writes one, beside a member whose records do not arrive",
		Procs: []Proc{{Name: "a", Wanted: partitions(1), TTL: lease.MaxTTL, Written: -1},
			{Name: "n", Wanted: partitions(1), TTL: lease.MaxTTL, Newcomer: true, Written: 5}},
		Keys: []lease.Key{p0}, Quantum: 7 * time.Second,
		Setup:   "start a\nfair 14s\nstart n\nuntil base hold a",
		Records: 3, Own: true,
	},
	{
		Name: "snapshot", About: "a newcomer asks for a snapshot and starts from it",
		Procs: []Proc{{Name: "a", Wanted: partitions(2), TTL: lease.MaxTTL, Written: 1}, {Name: "n", Wanted: partitions(2), TTL: lease.MaxTTL, Newcomer: true}},
		Keys:  []lease.Key{p0, p1}, Quantum: 7 * time.Second,
		Setup:   "start a\nfair 14s\nstart n\nuntil snapshot",
		Records: 3, Written: 2, Own: true,
	},
}

// Named finds a Config; nil: there is none.
func Named(name string) *Config {
	for i := range Configs {
		if Configs[i].Name == name {
			return &Configs[i]
		}
	}
	return nil
}
