package policy

import (
	"iter"
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// roster is who is joined and what they want. Leases and time are no part of it, so a planner keeps it while nobody
// joins, leaves, or changes what it wants.
type roster struct {
	*layout
	members   []member
	index     map[lease.InstanceID]int32
	users     []user
	mates     [][]int32 // users of each kind, in the order of members
	pins      map[pin]struct{}
	namesakes []int32 // members that are not the first of their client id
}

// member is a joined instance.
type member struct {
	id       lease.InstanceID
	client   string
	from, to int32           // its users
	before   int32           // the last older member with its client id; -1: none
	wants    *lease.Interest // the first
	pinned   *lease.Key      // the first
}

// user is one interest of a member.
type user struct{ member, kind int32 }

type pin struct {
	member int32
	key    lease.Key
}

// first points at the first of a list that is never changed in place.
func first[T any](list []T) *T {
	if len(list) == 0 {
		return nil
	}
	return &list[0]
}

// of tells whether a roster is still that of a world.
func (s *roster) of(w *lease.World) bool {
	m := 0
	for in := range w.Instances() {
		if in.Status != lease.Alive {
			continue
		}
		if m == len(s.members) || !s.members[m].is(in) {
			return false
		}
		m++
	}
	return m == len(s.members)
}

func (m *member) is(in *lease.Instance) bool {
	return m.id == in.ID && m.wants == first(in.Interests) && m.pinned == first(in.Pinned)
}

// newRoster reads who is joined and what they want. The layout of an old one is used again if it fits; nil: there is none.
func newRoster(w *lease.World, old *roster) *roster {
	s := &roster{index: make(map[lease.InstanceID]int32)}
	all := wishes{at: map[*lease.Interest]int32{}, like: map[likeness][]int32{}}
	newest := make(map[string]int32) // of each client id
	var of []int32
	for in := range w.Instances() {
		if in.Status != lease.Alive {
			continue
		}
		m, from := int32(len(s.members)), int32(len(s.users))
		of = append(of, all.number(in.Interests))
		for range in.Interests {
			s.users = append(s.users, user{member: m})
		}
		one := member{id: in.ID, client: in.Client, from: from, to: int32(len(s.users)), before: -1, wants: first(in.Interests), pinned: first(in.Pinned)}
		if o, ok := newest[in.Client]; ok {
			one.before = o
			s.namesakes = append(s.namesakes, m)
		}
		newest[in.Client] = m
		s.members, s.index[in.ID] = append(s.members, one), m
		for _, k := range in.Pinned {
			if s.pins == nil {
				s.pins = make(map[pin]struct{})
			}
			s.pins[pin{m, k}] = struct{}{}
		}
	}
	if old != nil && old.layout.of(all.list) {
		s.layout = old.layout
	} else {
		s.layout = newLayout(all.list)
	}
	s.mates = make([][]int32, len(s.kinds))
	for m := range s.members {
		for u := s.members[m].from; u < s.members[m].to; u++ {
			k := s.wishes[of[m]].kind + u - s.members[m].from
			s.users[u].kind = k
			s.mates[k] = append(s.mates[k], u)
		}
	}
	return s
}

// shadow finds the members that attract nothing: until an older instance of the same client id is heard of after one's
// first Join, one may be its next run in a crash loop.
func (r *reading) shadow() {
	r.shadowed = make([]bool, len(r.members))
	for _, i := range r.namesakes {
		first := r.w.Instance(r.members[i].id).FirstJoin
		for o := r.members[i].before; o >= 0 && !r.shadowed[i]; o = r.members[o].before {
			older := r.w.Instance(r.members[o].id)
			r.shadowed[i] = older.FirstJoin < first && older.Renewed < first
		}
	}
}

// room is how many keys more a user may have at this moment.
func (p *Plan) room(u int32) int32 {
	most := p.kinds[p.users[u].kind].max
	if most == noLimit {
		return noLimit
	}
	return max(0, most-p.held[u])
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
func (s *roster) wanting(j int32) iter.Seq[int32] {
	return func(yield func(int32) bool) {
		for _, k := range s.wanted[j] {
			for _, u := range s.mates[k] {
				if !yield(u) {
					return
				}
			}
		}
	}
}

// userIn finds the user of a member that wants what is in a pool.
func (s *roster) userIn(j, m int32) (int32, bool) {
	for u := s.members[m].from; u < s.members[m].to; u++ {
		if _, ok := slices.BinarySearch(s.kinds[s.users[u].kind].pools, j); ok {
			return u, true
		}
	}
	return 0, false
}

// userOf finds the user of a member that wants a key.
func (s *roster) userOf(m int32, k lease.Key) (int32, bool) {
	if j, ok := s.poolAt(k); ok {
		return s.userIn(j, m)
	}
	return 0, false
}

func (s *roster) isPinned(m int32, k lease.Key) bool {
	_, ok := s.pins[pin{m, k}]
	return ok
}
