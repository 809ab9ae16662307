package policy

import (
	"cmp"
	"encoding/binary"
	"hash/crc32"
	"math/bits"
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// member is a joined instance.
type member struct {
	id       lease.InstanceID
	client   string
	shadowed bool // it attracts nothing: see shadow and readHeirs
	users    []int32
}

// user is one interest of a member, the part that a problem's consumer does not need.
type user struct {
	member int32
	greedy bool
	max    int32 // noLimit: none
	weight int32
	held   int32 // keys that count for its maximum
}

// room is how many keys more it may have at this moment.
func (u *user) room() int32 {
	if u.max == noLimit {
		return noLimit
	}
	return max(0, u.max-u.held)
}

// poolName names what is shared out together.
type poolName struct {
	topic string
	whole bool
}

func poolOf(k lease.Key) poolName { return poolName{k.Topic, k.Partition == lease.WholeTopic} }

type pin struct {
	member int32
	key    lease.Key
}

// readMembers reads who is joined and what they want.
func (p *Plan) readMembers(w *lease.World) {
	p.index = make(map[lease.InstanceID]int32)
	var wants []want
	ids := make(map[string]int32)
	var names []string
	var lastWanted []int32 // of each topic, the last member that named it
	for in := range w.Instances() {
		if in.Status != lease.Alive {
			continue
		}
		m := int32(len(p.members))
		p.members = append(p.members, member{id: in.ID, client: in.Client})
		p.index[in.ID] = m
		for _, k := range in.Pinned {
			if p.pins == nil {
				p.pins = make(map[pin]struct{})
			}
			p.pins[pin{m, k}] = struct{}{}
		}
		for i := range in.Interests {
			want := &in.Interests[i]
			u := int32(len(p.users))
			p.users = append(p.users, newUser(m, want))
			p.members[m].users = append(p.members[m].users, u)
			for n, t := range want.Topics {
				id := int32(n) // a guess: most members want what the first one wants, in the same order
				if n >= len(names) || names[n] != t.Topic {
					known, ok := ids[t.Topic]
					if id = known; !ok {
						id = int32(len(names))
						ids[t.Topic] = id
						names, lastWanted = append(names, t.Topic), append(lastWanted, -1)
					}
				}
				if lastWanted[id] == m {
					continue // the first consumer that names a topic has it
				}
				lastWanted[id] = m
				wants = append(wants, newWant(id, u, want.Whole))
			}
		}
	}
	p.shadow(w)
	p.readStakes(w, names, wants)
}

func newUser(m int32, in *lease.Interest) user {
	u := user{member: m, greedy: in.Greedy, max: noLimit, weight: max(1, in.Weight)}
	if in.Max > 0 {
		u.max = in.Max
	}
	return u
}

// want is one topic that a user wants.
type want struct {
	topic int32
	whole bool
	user  int32
}

func newWant(topic, user int32, whole bool) want { return want{topic: topic, whole: whole, user: user} }

// shadow finds the members that attract nothing: until an older instance of the same client id is heard of after one's
// first Join, one may be its next run in a crash loop.
func (p *Plan) shadow(w *lease.World) {
	byClient := make(map[string][]int32, len(p.members))
	for i := range p.members {
		m := &p.members[i]
		first := w.Instance(m.id).FirstJoin
		for _, o := range byClient[m.client] {
			older := w.Instance(p.members[o].id)
			if older.FirstJoin < first && older.Renewed < first {
				m.shadowed = true
			}
		}
		byClient[m.client] = append(byClient[m.client], int32(i))
	}
}

// readStakes makes the pools, in the order of topics, whole before partitions, and everybody's stakes in them.
func (p *Plan) readStakes(w *lease.World, names []string, wants []want) {
	order := make([]int32, len(names))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(names[a], names[b]) })
	place := make([]int32, len(names))
	for i, t := range order {
		place[t] = int32(i)
	}
	// wants come in the order of members; a stable distribution keeps that within each pool
	count := make([]int32, 2*len(names)+1)
	at := func(wt want) int32 {
		if wt.whole {
			return 2 * place[wt.topic]
		}
		return 2*place[wt.topic] + 1
	}
	for _, wt := range wants {
		count[at(wt)+1]++
	}
	for i := 1; i < len(count); i++ {
		count[i] += count[i-1]
	}
	pr := &p.problem
	pr.members = len(p.members)
	pr.stakes = make([]stake, len(wants))
	poolAt := make([]int32, 2*len(names))
	p.pools = make(map[poolName]int32, len(names))
	for i, t := range order {
		partitions := w.Partitions(names[t])
		for j, whole := range []bool{true, false} {
			if from, to := count[2*i+j], count[2*i+j+1]; from < to {
				poolAt[2*i+j] = int32(len(pr.pools))
				p.pools[poolName{names[t], whole}] = int32(len(pr.pools))
				p.names = append(p.names, poolName{names[t], whole})
				p.parts = append(p.parts, partitions)
				pr.pools = append(pr.pools, pool{from: from, to: to})
			}
		}
	}
	seeds := make([]uint64, len(p.members))
	for i := range seeds {
		id := p.members[i].id
		seeds[i] = binary.LittleEndian.Uint64(id[:8]) ^ bits.RotateLeft64(binary.LittleEndian.Uint64(id[8:]), 29)
	}
	next := count
	topicSeeds := make([]uint64, len(names))
	for i, name := range names {
		topicSeeds[i] = uint64(crc32.ChecksumIEEE([]byte(name)))
	}
	for _, wt := range wants {
		a := at(wt)
		u := &p.users[wt.user]
		pr.stakes[next[a]] = stake{
			consumer: wt.user, pool: poolAt[a], weight: u.weight, most: noLimit,
			tie: tieNumber(topicSeeds[wt.topic], seeds[u.member]),
		}
		next[a]++
	}
	pr.consumers = make([]consumer, len(p.users))
	for i := range p.users {
		pr.consumers[i] = consumer{member: p.users[i].member, limit: p.users[i].max}
	}
}

// tieNumber decides between answers that are equally good. It only has to differ between members and topics, and to
// be the same for everybody: a rendezvous hash without the cost of SHA-256 for every pair.
func tieNumber(topic, member uint64) uint32 {
	h := (topic*0x9e3779b97f4a7c15 ^ member) * 0xd6e8feb86659fd93
	h = (h ^ h>>32) * 0xd6e8feb86659fd93
	return uint32(h >> 32)
}

// exists tells whether there is such a key of pool j: a topic that has no partitions, because it was deleted, is none either.
func (p *Plan) exists(j int32, k lease.Key) bool {
	return k.Partition >= lease.WholeTopic && max(k.Partition, 0) < p.parts[j]
}

// stakeOf finds a member's stake that covers k.
func (p *Plan) stakeOf(m int32, k lease.Key) (int32, bool) {
	j, ok := p.pools[poolOf(k)]
	if !ok || !p.exists(j, k) {
		return 0, false
	}
	return p.stakeIn(j, m)
}

// stakeIn finds a member's stake in a pool.
func (p *Plan) stakeIn(j, m int32) (int32, bool) {
	pl := &p.problem.pools[j]
	i, ok := slices.BinarySearchFunc(p.problem.stakes[pl.from:pl.to], m, func(s stake, m int32) int {
		return cmp.Compare(p.users[s.consumer].member, m)
	})
	return pl.from + int32(i), ok
}

func (p *Plan) pinned(m int32, k lease.Key) bool {
	if len(p.pins) == 0 {
		return false
	}
	_, ok := p.pins[pin{m, k}]
	return ok
}
