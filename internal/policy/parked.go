package policy

import "github.com/kafka-marshal/marshal/internal/lease"

// parkedTopic is what parked instances of one client id hold of one topic.
type parkedTopic struct {
	keys []lease.Key
	all  bool // nobody else holds any of it
}

// park notes a lease of a parked instance.
func (r *reading) park(k lease.Key, client string) {
	if r.parked == nil {
		r.parked = make(map[string][]parkedTopic)
	}
	of := r.parked[client]
	if n := len(of); n == 0 || of[n-1].keys[0].Topic != k.Topic {
		of = append(of, parkedTopic{})
		r.parked[client] = of
	}
	t := &of[len(of)-1]
	t.keys = append(t.keys, k)
	r.client = client
}

// parkAll notes whether a topic that has been read is one client's: all of so many leases.
func (r *reading) parkAll(topic string, leases int) {
	if of := r.parked[r.client]; len(of) > 0 {
		if t := &of[len(of)-1]; t.keys[0].Topic == topic {
			t.all = len(t.keys) == leases
		}
	}
}

// readHeirs finds the members that attract nothing for a moment: what their last run has parked for them is about to be theirs.
// Else they would be given a share of the rest first, and hand it back.
func (r *reading) readHeirs() {
	if len(r.parked) == 0 {
		return
	}
	for i := range r.members {
		m := &r.members[i]
		r.shadowed[i] = r.shadowed[i] || r.parked[m.client] != nil && len(r.Parked(m.id)) > 0
	}
}

// Parked lists the keys of id's parked namesakes that it wants and may claim over them, as many as it has room for, in
// order.
func (p *Plan) Parked(id lease.InstanceID) []lease.Key {
	m, ok := p.index[id]
	if !ok {
		return nil
	}
	var keys []lease.Key
	room := make(map[int32]int32)
	take := func(k lease.Key) {
		if p.isPinned(m, k) {
			keys = append(keys, k)
			return
		}
		u, ok := p.userOf(m, k)
		if !ok {
			return
		}
		if _, known := room[u]; !known {
			room[u] = p.room(u)
		}
		if room[u] > 0 {
			room[u]--
			keys = append(keys, k)
		}
	}
	for _, t := range p.parked[p.members[m].client] {
		whole := lease.Key{Topic: t.keys[0].Topic, Partition: lease.WholeTopic}
		_, wants := p.userOf(m, whole)
		switch {
		case t.all && (wants || p.isPinned(m, whole)):
			take(whole)
		case t.keys[0] == whole:
			if j, wanted := p.poolNamed(poolName{whole.Topic, false}); wanted {
				for part := range p.parts[j] {
					take(lease.Key{Topic: whole.Topic, Partition: part})
				}
			}
		default:
			for _, k := range t.keys {
				take(k)
			}
		}
	}
	return keys
}
