package policy

import (
	"iter"
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// member is a joined instance.
type member struct {
	id       lease.InstanceID
	client   string
	shadowed bool  // it attracts nothing: see shadow and readHeirs
	from, to int32 // its users
}

// user is one interest of a member.
type user struct {
	member, kind int32
	held         int32 // keys that count for its maximum, if it has one
	aside        int32 // of these, how many are set apart from the shares
}

type pin struct {
	member int32
	key    lease.Key
}

// readMembers reads who is joined and what they want.
func (r *reading) readMembers() {
	p, w := r.Plan, r.w
	if r.old != nil {
		p.layout = r.old.layout
		p.members, p.users = make([]member, 0, len(r.old.members)+1), make([]user, 0, len(r.old.users)+1)
	}
	p.index = make(map[lease.InstanceID]int32, cap(p.members))
	all := wishes{at: map[*lease.Interest]int32{}, like: map[likeness][]int32{}}
	var of []int32
	for in := range w.Instances() {
		if in.Status != lease.Alive {
			continue
		}
		m := int32(len(p.members))
		from := int32(len(p.users))
		of = append(of, all.number(in.Interests))
		for range in.Interests {
			p.users = append(p.users, user{member: m})
		}
		p.members = append(p.members, member{id: in.ID, client: in.Client, from: from, to: int32(len(p.users))})
		p.index[in.ID] = m
		for _, k := range in.Pinned {
			if p.pins == nil {
				p.pins = make(map[pin]struct{})
			}
			p.pins[pin{m, k}] = struct{}{}
		}
	}
	if !p.layout.of(all.list) {
		p.layout = newLayout(all.list)
	}
	count := make([]int32, len(p.kinds))
	for m := range p.members {
		for u := p.members[m].from; u < p.members[m].to; u++ {
			k := p.wishes[of[m]].kind + u - p.members[m].from
			p.users[u].kind = k
			count[k]++
		}
	}
	block := make([]int32, len(p.users))
	p.mates = make([][]int32, len(p.kinds))
	for k, n := range count {
		p.mates[k], block = block[:0:n], block[n:]
	}
	for u := range p.users {
		k := p.users[u].kind
		p.mates[k] = append(p.mates[k], int32(u))
	}
	p.shadow(w)
}

// shadow finds the members that attract nothing: until an older instance of the same client id is heard of after one's
// first Join, one may be its next run in a crash loop.
func (p *Plan) shadow(w *lease.World) {
	byClient := make(map[string]int32, len(p.members)) // the last one so far
	before := make([]int32, len(p.members))            // the one before it
	for i := range p.members {
		m := &p.members[i]
		last, ok := byClient[m.client]
		if before[i] = -1; ok {
			before[i] = last
			first := w.Instance(m.id).FirstJoin
			for o := last; o >= 0; o = before[o] {
				older := w.Instance(p.members[o].id)
				m.shadowed = m.shadowed || older.FirstJoin < first && older.Renewed < first
			}
		}
		byClient[m.client] = int32(i)
	}
}

// room is how many keys more a user may have at this moment.
func (p *Plan) room(u int32) int32 {
	most := p.kinds[p.users[u].kind].max
	if most == noLimit {
		return noLimit
	}
	return max(0, most-p.users[u].held)
}

// rooms are those of all users, for somebody who uses them up.
func (p *Plan) rooms() []int32 {
	rooms := make([]int32, len(p.users))
	for u := range rooms {
		rooms[u] = p.room(int32(u))
	}
	return rooms
}

// wanting yields the users that want what is in a pool.
func (p *Plan) wanting(j int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for _, k := range p.wanted[j] {
			for _, u := range p.mates[k] {
				if !yield(u) {
					return
				}
			}
		}
	}
}

// userIn finds the user of a member that wants what is in a pool.
func (p *Plan) userIn(j, m int32) (int32, bool) {
	for u := p.members[m].from; u < p.members[m].to; u++ {
		if _, ok := slices.BinarySearch(p.kinds[p.users[u].kind].pools, j); ok {
			return u, true
		}
	}
	return 0, false
}

// userOf finds the user of a member that wants a key.
func (p *Plan) userOf(m int32, k lease.Key) (int32, bool) {
	if j, ok := p.poolAt(k); ok {
		return p.userIn(j, m)
	}
	return 0, false
}

func (p *Plan) isPinned(m int32, k lease.Key) bool {
	if len(p.pins) == 0 {
		return false
	}
	_, ok := p.pins[pin{m, k}]
	return ok
}
