package policy

import (
	"cmp"
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// poolName names what is shared out together.
type poolName struct {
	topic string
	whole bool
}

func poolOf(k lease.Key) poolName { return poolName{k.Topic, k.Partition == lease.WholeTopic} }

// compare orders pools by topic, whole before partitions.
func (n poolName) compare(o poolName) int {
	switch {
	case n.topic != o.topic:
		return cmp.Compare(n.topic, o.topic)
	case n.whole == o.whole:
		return 0
	case n.whole:
		return -1
	}
	return 1
}

// layout is what the members of a group want, sorted out. It depends on nothing but the distinct wishes and their order,
// so a planner keeps it while they stay: members come and go more often than what they want changes.
type layout struct {
	wishes []wish
	kinds  []kind
	names  []poolName // of the pools, in order
	parts  []int32    // partition counts of their topics
	wanted [][]int32  // of each pool, the kinds that want it
	shared []bool     // of each pool, whether one of them takes part in the shares
}

// wish is all that some members want, the same interests in the same order. The kinds of its interests follow each other.
type wish struct {
	interests []lease.Interest
	kind      int32 // that of the first
}

// kind is one interest of a wish. Its users are alike in all but what they hold.
type kind struct {
	greedy bool
	max    int32 // noLimit: none
	weight int32
	pools  []int32 // in order; what an earlier interest of the wish names is not among them
}

// wishes tells the members' wishes apart. Those who share the memory of their interests need no second look.
type wishes struct {
	list []wish
	at   map[*lease.Interest]int32
	like map[likeness][]int32
}

// likeness is what equal wishes have in common and few others.
type likeness struct {
	interests, topics int
	first             string
}

// number gives the number of a wish, a new one where nobody had it before.
func (s *wishes) number(in []lease.Interest) int32 {
	n, ok := s.at[first(in)]
	if !ok {
		n = s.find(in)
		s.at[first(in)] = n
	}
	return n
}

func (s *wishes) find(in []lease.Interest) int32 {
	like := likeness{interests: len(in)}
	if len(in) > 0 {
		if like.topics = len(in[0].Topics); like.topics > 0 {
			like.first = in[0].Topics[0].Topic
		}
	}
	for _, n := range s.like[like] {
		if sameInterests(s.list[n].interests, in) {
			return n
		}
	}
	n := int32(len(s.list))
	s.list = append(s.list, wish{interests: in})
	s.like[like] = append(s.like[like], n)
	return n
}

func sameInterests(a, b []lease.Interest) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0] || slices.EqualFunc(a, b, func(a, b lease.Interest) bool {
		return a.Whole == b.Whole && a.Greedy == b.Greedy && a.Max == b.Max && a.Weight == b.Weight && slices.Equal(a.Topics, b.Topics)
	}))
}

// of tells whether a layout is of these wishes.
func (l *layout) of(list []wish) bool {
	return l != nil && slices.EqualFunc(l.wishes, list, func(a, b wish) bool { return sameInterests(a.interests, b.interests) })
}

// newLayout sorts out wishes.
func newLayout(list []wish) *layout {
	l := &layout{wishes: list}
	ids := make(map[string]int32)
	var topics []string
	var counts, lastWish []int32 // of each topic: its partitions, the last wish that named it
	type want struct {
		topic, kind int32
		whole       bool
	}
	var wants []want
	for n := range list {
		list[n].kind = int32(len(l.kinds))
		for i := range list[n].interests {
			in := &list[n].interests[i]
			k := kind{greedy: in.Greedy, max: noLimit, weight: max(1, in.Weight)}
			if in.Max > 0 {
				k.max = in.Max
			}
			for _, t := range in.Topics {
				id, ok := ids[t.Topic]
				if !ok {
					id = int32(len(topics))
					ids[t.Topic] = id
					topics, counts, lastWish = append(topics, t.Topic), append(counts, 0), append(lastWish, -1)
				}
				counts[id] = max(counts[id], t.Partitions)
				if lastWish[id] == int32(n) {
					continue // the first consumer that names a topic has it
				}
				lastWish[id] = int32(n)
				wants = append(wants, want{id, int32(len(l.kinds)), in.Whole})
			}
			l.kinds = append(l.kinds, k)
		}
	}
	slices.SortStableFunc(wants, func(a, b want) int {
		return poolName{topics[a.topic], a.whole}.compare(poolName{topics[b.topic], b.whole})
	})
	wanted := make([]int32, len(wants))
	for i, w := range wants {
		name := poolName{topics[w.topic], w.whole}
		if len(l.names) == 0 || l.names[len(l.names)-1] != name {
			l.names, l.parts = append(l.names, name), append(l.parts, counts[w.topic])
			l.wanted, l.shared = append(l.wanted, wanted[i:i]), append(l.shared, false)
		}
		j := len(l.names) - 1
		l.wanted[j] = append(l.wanted[j], w.kind)
		l.shared[j] = l.shared[j] || !l.kinds[w.kind].greedy
		l.kinds[w.kind].pools = append(l.kinds[w.kind].pools, int32(j))
	}
	return l
}

func (l *layout) poolNamed(name poolName) (int32, bool) {
	j, ok := slices.BinarySearchFunc(l.names, name, poolName.compare)
	return int32(j), ok
}

// poolAt finds the pool that a key belongs to.
func (l *layout) poolAt(k lease.Key) (int32, bool) {
	j, ok := l.poolNamed(poolOf(k))
	return j, ok && l.exists(j, k)
}

// exists tells whether there is such a key of pool j: a topic that has no partitions, because it was deleted, is none either.
func (l *layout) exists(j int32, k lease.Key) bool {
	return k.Partition >= lease.WholeTopic && max(k.Partition, 0) < l.parts[j]
}
