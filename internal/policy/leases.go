package policy

import (
	"cmp"
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// state is what a plan may do with a held key.
type state uint8

const (
	settled     state = iota // not part of the shares: parked, pinned, greedy, marked unfit
	shared                   // part of the shares
	unwanted                 // its holder does not want it
	overflowing              // its holder has more than its maximum, and this is not one of those it may run
)

// held is one lease.
type held struct {
	key    lease.Key
	epoch  int64
	member int32  // -1: its holder is parked
	client string // of the parked holder
	pool   int32  // -1: nobody wants such a key
	stake  int32  // -1: its holder does not want it
	state  state
}

// readLeases reads who holds what, and sets apart what the plan must not touch.
func (p *Plan) readLeases(w *lease.World) {
	over := p.readHeld(w)
	for _, u := range over {
		p.readOverflow(u)
	}
	p.readHeirs()
	for i := range p.leases {
		h := &p.leases[i]
		if h.pool >= 0 && h.member >= 0 {
			p.readMark(w, h.key, h.pool)
		}
		p.classify(h)
	}
	for i := range p.problem.stakes {
		s := &p.problem.stakes[i]
		u := &p.users[s.consumer]
		if u.greedy {
			s.most = 0
		} else if p.members[u.member].shadowed {
			s.most = s.held
		}
	}
}

// readHeld lists the leases and counts them for the maxima; it gives the users that are over theirs.
func (p *Plan) readHeld(w *lease.World) (over []int32) {
	for k, l := range w.Leases() {
		h := held{key: k, epoch: l.Epoch, member: -1, pool: -1, stake: -1}
		if j, ok := p.pools[poolOf(k)]; ok && p.exists(j, k) {
			h.pool = j
		}
		m, joined := p.index[l.Instance]
		if !joined {
			h.client = w.Instance(l.Instance).Client
			p.leases = append(p.leases, h)
			continue
		}
		h.member = m
		if p.pinned(m, k) {
			p.leases = append(p.leases, h)
			continue
		}
		h.state = unwanted
		if h.pool >= 0 {
			if s, ok := p.stakeIn(h.pool, m); ok {
				h.stake, h.state = s, shared
				u := &p.users[p.problem.stakes[s].consumer]
				u.held++
				if u.held == u.max+1 {
					over = append(over, p.problem.stakes[s].consumer)
				}
			}
		}
		p.leases = append(p.leases, h)
	}
	return over
}

// readHeirs finds the members that attract nothing for a moment: what their last run has parked for them is about to be theirs.
// Else they would be given a share of the rest first, and hand it back.
func (p *Plan) readHeirs() {
	parked := make(map[string]bool)
	for i := range p.leases {
		if h := &p.leases[i]; h.member < 0 {
			parked[h.client] = true
		}
	}
	if len(parked) == 0 {
		return
	}
	for i := range p.members {
		m := &p.members[i]
		m.shadowed = m.shadowed || parked[m.client] && len(p.Parked(m.id)) > 0
	}
}

// readOverflow finds what a user holds over its maximum: the leases with the largest (epoch, key).
func (p *Plan) readOverflow(user int32) {
	var mine []*held
	for i := range p.leases {
		if h := &p.leases[i]; h.state == shared && p.problem.stakes[h.stake].consumer == user {
			mine = append(mine, h)
		}
	}
	slices.SortFunc(mine, func(a, b *held) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), compareKeys(a.key, b.key))
	})
	for _, h := range mine[p.users[user].max:] {
		h.state = overflowing
	}
}

// readMark notes who is unfit for a key, if that counts: somebody who wants it is not.
func (p *Plan) readMark(w *lease.World, k lease.Key, j int32) {
	if !w.HasMark(k) {
		return
	}
	var unfit []int32
	stakes := p.problem.stakesOf(int(j))
	for i := range stakes {
		if m := p.users[stakes[i].consumer].member; w.Unfit(p.members[m].id, k) {
			unfit = append(unfit, m)
		}
	}
	if len(unfit) == len(stakes) || len(unfit) == 0 {
		return
	}
	if p.marks == nil {
		p.marks = make(map[lease.Key][]int32)
	}
	p.marks[k] = unfit
}

func (p *Plan) marked(k lease.Key) bool {
	return len(p.marks) > 0 && p.marks[k] != nil
}

func (p *Plan) unfit(m int32, k lease.Key) bool {
	return len(p.marks) > 0 && slices.Contains(p.marks[k], m)
}

// classify counts a lease into the shares, or sets it apart.
func (p *Plan) classify(h *held) {
	pr := &p.problem
	switch h.state {
	case shared:
		s := &pr.stakes[h.stake]
		if p.users[s.consumer].greedy {
			h.state = settled
			return
		}
		if p.marked(h.key) {
			h.state = settled
			if c := &pr.consumers[s.consumer]; c.limit != noLimit {
				c.limit--
			}
			return
		}
		s.held++
		pr.pools[h.pool].units++
	case unwanted, overflowing:
		if h.pool >= 0 && !p.marked(h.key) && p.sharers(h.pool) {
			pr.pools[h.pool].units++
		}
	}
}

// sharers tells whether anybody takes part in the shares of a pool.
func (p *Plan) sharers(j int32) bool {
	for _, s := range p.problem.stakesOf(int(j)) {
		if !p.users[s.consumer].greedy {
			return true
		}
	}
	return false
}
