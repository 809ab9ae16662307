package lease

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// model is a second, dumb version of World, written from PROTOCOL.md §5 and §8 with nothing but maps: no index, no cache,
// no digest, no undo (an atomic Claim is tried on a copy). It has no limits of size: the logs it is given are small.
type model struct {
	topicID         TopicID
	last, tokenBase int64
	instances       map[InstanceID]modelInstance
	leases          map[Key]Lease
	owners          map[Key]modelOwner // the last one, or the one that is
	progress        map[Key]modelProgress
	marks           map[modelMark]bool
}

type modelInstance struct {
	client, host string
	ttl          int64
	version      uint8
	status       Status
	seq          uint64
	first        int64
	renewed      int64
	ended        int64
	load         Load
	interests    string
	partitions   map[string]int32
}

type modelOwner struct {
	client string
	epoch  int64
}

type modelProgress struct {
	id       TopicID
	next     int64
	replaced []TopicID
}

type modelMark struct {
	id InstanceID
	k  Key
}

func newModel(topicID TopicID) *model {
	m := &model{topicID: topicID, last: -1}
	m.empty()
	return m
}

func (m *model) empty() {
	m.instances, m.leases = map[InstanceID]modelInstance{}, map[Key]Lease{}
	m.owners, m.progress, m.marks = map[Key]modelOwner{}, map[Key]modelProgress{}, map[modelMark]bool{}
}

func (m *model) clone() *model {
	c := *m
	c.instances, c.leases, c.owners = maps.Clone(m.instances), maps.Clone(m.leases), maps.Clone(m.owners)
	c.progress, c.marks = maps.Clone(m.progress), maps.Clone(m.marks)
	return &c
}

func (m *model) apply(r *Record) {
	if r.Kind == KindProbe || r.Offset <= m.last {
		return
	}
	o := r.Offset
	switch r.Kind {
	case KindBase:
		if m.last <= r.Base.Seen && r.Base.Seen < o && r.Base.TokenBase >= 0 && r.Base.TokenBase < 1<<62 {
			m.empty()
			m.tokenBase = r.Base.TokenBase
		}
	case KindJoin, KindHeartbeat, KindClaim, KindRelease, KindLeave, KindEvict, KindDirective:
		m.applyAuthored(r)
	}
	m.last = o
	for id, in := range m.instances {
		if in.status == Ended && o-in.ended > 65536 {
			delete(m.instances, id)
		}
	}
}

func (m *model) applyAuthored(r *Record) {
	o, me := r.Offset, r.Instance
	a, known := m.instances[me]
	if me == (InstanceID{}) || m.absurd(r) || known && a.status != Alive {
		return
	}
	if !known {
		if r.Kind != KindJoin || r.Seq != 1 || r.Join.TopicID != m.topicID && r.Join.TopicID != (TopicID{}) && m.topicID != (TopicID{}) {
			return
		}
		ttl := int64(r.Join.TTL)
		a = modelInstance{client: r.Join.Client, host: r.Join.Host, version: r.Join.MaxVersion, status: Alive, first: o}
		a.ttl = max(300e6, min(30e9, ttl))
		if m.tokenBase == 0 {
			m.tokenBase = r.Join.TokenBase
		}
	} else if r.Seq <= a.seq || r.Seq-a.seq > 1<<32 {
		return
	}
	a.seq, a.renewed = r.Seq, o
	switch r.Kind {
	case KindJoin:
		a.interests, a.partitions = fmt.Sprintf("%+v %+v", r.Join.Interests, r.Join.Pinned), map[string]int32{}
		for _, in := range r.Join.Interests {
			for _, t := range in.Topics {
				a.partitions[t.Topic] = max(a.partitions[t.Topic], t.Partitions)
			}
		}
		m.unmark(me)
	case KindHeartbeat:
		a.load = r.Heartbeat.Load
		ids := map[string]TopicID{}
		for _, tp := range r.Heartbeat.Topics {
			for i, p := range tp.Partitions {
				k := Key{tp.Topic, p}
				if m.covered(k, me, tp.Epochs[i]) {
					m.move(ids, k, tp.TopicID, tp.Next[i])
				}
			}
		}
	case KindClaim:
		trial := m.clone()
		all := true
		for _, k := range r.Claim.Keys {
			all = trial.grant(k, me, a.client, o) && all
		}
		if all || !r.Claim.Atomic {
			m.leases, m.owners = trial.leases, trial.owners
		}
	case KindRelease, KindLeave:
		ids := map[string]TopicID{}
		for _, rk := range r.Release.Keys {
			l, ok := m.leases[rk.Key]
			if !ok || l != (Lease{me, rk.Epoch}) {
				continue
			}
			for i, p := range rk.Partitions {
				if rk.Key.Partition == -1 || rk.Key.Partition == p {
					m.move(ids, Key{rk.Key.Topic, p}, rk.TopicID, rk.Next[i])
				}
			}
			if r.Kind == KindLeave {
				continue
			}
			delete(m.leases, rk.Key)
			if s, ok := m.instances[r.Release.Successor]; ok && s.status == Alive && r.Release.Successor != me {
				m.leases[rk.Key] = Lease{r.Release.Successor, o}
				m.owners[rk.Key] = modelOwner{s.client, o}
			}
			if r.Release.Unfit {
				m.marks[modelMark{me, rk.Key}] = true
			}
		}
		if r.Kind == KindLeave && r.Leave.Keep {
			a.status = IsParked
			a.ttl = max(a.ttl, min(3600e9, int64(r.Leave.Grace)))
			a.interests, a.partitions, a.load = "[] []", nil, Load{}
		} else if r.Kind == KindLeave {
			m.end(me, &a, o)
		}
	case KindEvict:
		m.instances[me] = a
		for _, t := range r.Evict.Targets {
			in, ok := m.instances[t.Instance]
			if !ok || t.Instance == me || in.status == Ended || in.renewed != t.Renewed {
				continue
			}
			if r.Evict.Takeover {
				third := false
				for id, n := range m.instances {
					third = third || id != me && id != t.Instance && n.status == Alive && n.client == a.client
				}
				if in.client != a.client || in.first >= a.first || in.status == IsParked || in.renewed >= a.first || third {
					continue
				}
				for k, l := range m.leases {
					if l.Instance == t.Instance {
						m.leases[k] = Lease{me, o}
						m.owners[k] = modelOwner{a.client, o}
					}
				}
			}
			m.end(t.Instance, &in, o)
			m.instances[t.Instance] = in
		}
	case KindDirective:
		m.seek(r)
	}
	m.instances[me] = a
}

// absurd values make a record one of nobody's.
func (m *model) absurd(r *Record) bool {
	bad := false
	switch r.Kind {
	case KindJoin:
		bad = r.Join.TokenBase < 0 || r.Join.TokenBase >= 1<<62
	case KindHeartbeat:
		for _, t := range r.Heartbeat.Topics {
			bad = bad || len(t.Partitions) != len(t.Epochs) || len(t.Partitions) != len(t.Next)
		}
	case KindRelease, KindLeave:
		for _, k := range r.Release.Keys {
			bad = bad || len(k.Partitions) != len(k.Next)
		}
	}
	return bad
}

func conflicts(a, b Key) bool {
	return a.Topic == b.Topic && (a.Partition == b.Partition || a.Partition == -1 || b.Partition == -1)
}

func (m *model) covered(k Key, id InstanceID, epoch int64) bool {
	return k.Partition >= 0 && (m.leases[k] == Lease{id, epoch} || m.leases[Key{k.Topic, -1}] == Lease{id, epoch})
}

func (m *model) grant(k Key, id InstanceID, client string, o int64) bool {
	if k.Topic == "" || k.Partition < -1 {
		return false
	}
	if l, ok := m.leases[k]; ok && l.Instance == id {
		return true
	}
	for other, l := range m.leases {
		if h := m.instances[l.Instance]; conflicts(k, other) && (h.status != IsParked || h.client != client) {
			return false
		}
	}
	maps.DeleteFunc(m.leases, func(other Key, _ Lease) bool { return conflicts(k, other) })
	m.leases[k] = Lease{id, o}
	m.owners[k] = modelOwner{client, o}
	return true
}

// move moves progress; ids are those that the record named already.
func (m *model) move(ids map[string]TopicID, k Key, id TopicID, next int64) {
	if named := ids[k.Topic]; k.Partition < 0 || next < 0 || id != (TopicID{}) && named != (TopicID{}) && named != id {
		return
	} else if named == (TopicID{}) {
		ids[k.Topic] = id
	}
	p, known := m.progress[k]
	switch {
	case id != TopicID{} && slices.Contains(p.replaced, id):
		return
	case known && (id == p.id || id == TopicID{} || p.id == TopicID{}) && next < p.next:
		return
	}
	m.set(k, id, next)
}

func (m *model) set(k Key, id TopicID, next int64) {
	p := m.progress[k]
	if id != (TopicID{}) && p.id != (TopicID{}) && id != p.id {
		p.replaced = append(slices.Clone(p.replaced), p.id)
		p.replaced = p.replaced[max(0, len(p.replaced)-4):]
	}
	if id != (TopicID{}) {
		p.id = id
	}
	p.next = next
	m.progress[k] = p
}

func (m *model) seek(r *Record) {
	d, o := &r.Directive, r.Offset
	if d.Kind != Seek || d.Key.Topic == "" || d.Key.Partition < -1 || d.Next < 0 {
		return
	}
	if d.Epoch != -1 {
		l, ok := m.leases[d.Key]
		if !ok && d.Key.Partition != -1 {
			l, ok = m.leases[Key{d.Key.Topic, -1}]
		}
		if !ok || l.Epoch != d.Epoch {
			return
		}
	}
	parts := map[Key]bool{}
	if d.Key.Partition == -1 {
		for k := range m.progress {
			parts[k] = k.Topic == d.Key.Topic
		}
		for k := range m.owners {
			parts[k] = k.Topic == d.Key.Topic && k.Partition >= 0
		}
		for p := range m.partitions(d.Key.Topic) {
			parts[Key{d.Key.Topic, p}] = true
		}
	} else {
		parts[d.Key] = true
	}
	for k, is := range parts {
		if is && d.TopicID != (TopicID{}) && slices.Contains(m.progress[k].replaced, d.TopicID) {
			return
		}
	}
	for k, is := range parts {
		if is {
			m.set(k, d.TopicID, d.Next)
		}
	}
	for k, l := range m.leases {
		if conflicts(k, d.Key) {
			m.leases[k] = Lease{l.Instance, o}
			m.owners[k] = modelOwner{m.instances[l.Instance].client, o}
		}
	}
}

func (m *model) partitions(topic string) (n int32) {
	for _, in := range m.instances {
		n = max(n, in.partitions[topic])
	}
	return n
}

func (m *model) unmark(id InstanceID) {
	maps.DeleteFunc(m.marks, func(k modelMark, _ bool) bool { return k.id == id })
}

func (m *model) end(id InstanceID, in *modelInstance, o int64) {
	maps.DeleteFunc(m.leases, func(_ Key, l Lease) bool { return l.Instance == id })
	m.unmark(id)
	*in = modelInstance{client: in.client, status: Ended, first: in.first, ended: o}
}

// dump is the model as sorted text; topics are those whose partition counts are told.
func (m *model) dump(topics []string) string {
	lines := []string{fmt.Sprintf("last %d, token base %d, wire version %d", m.last, m.tokenBase, m.wireVersion())}
	for id, in := range m.instances {
		if in.status == Ended {
			lines = append(lines, fmt.Sprintf("ended %x %q %d %d", id, in.client, in.first, in.ended))
			continue
		}
		lines = append(lines, fmt.Sprintf("instance %x %q %q ttl %d v%d status %d seq %d first %d renewed %d load %v wants %s",
			id, in.client, in.host, in.ttl, in.version, in.status, in.seq, in.first, in.renewed, in.load, in.interests))
	}
	for k, l := range m.leases {
		lines = append(lines, fmt.Sprintf("lease %v %x %d", k, l.Instance, l.Epoch))
	}
	known := map[Key]bool{}
	for k := range m.owners {
		known[k] = k.Partition >= 0
	}
	for k := range m.progress {
		known[k] = true
	}
	for k, is := range known {
		if !is {
			continue
		}
		p, isKnown := m.progress[k]
		if !isKnown {
			p.next = -1
		}
		owner := modelOwner{epoch: -1}
		for _, of := range []Key{k, {k.Topic, -1}} {
			if o, ok := m.owners[of]; ok && o.epoch > owner.epoch {
				owner = o
			}
		}
		lines = append(lines, fmt.Sprintf("progress %v %x %d %x owner %q %d", k, p.id, p.next, p.replaced, owner.client, owner.epoch))
	}
	for mark := range m.marks {
		lines = append(lines, fmt.Sprintf("unfit %x %v", mark.id, mark.k))
	}
	for _, t := range topics {
		lines = append(lines, fmt.Sprintf("topic %s %d", t, m.partitions(t)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}

func (m *model) wireVersion() uint8 {
	v := uint8(255)
	found := false
	for _, in := range m.instances {
		if in.status == Alive {
			v, found = min(v, in.version), true
		}
	}
	if !found {
		return 2
	}
	return max(v, 2)
}

// dumpWorld is a world as the same text, by what it tells of itself: about these instances, keys and topics.
func dumpWorld(w *World, ids []InstanceID, ks []Key, topics []string) string {
	lines := []string{fmt.Sprintf("last %d, token base %d, wire version %d", w.Last(), w.TokenBase(), w.WireVersion())}
	for _, id := range ids {
		in := w.Instance(id)
		switch {
		case in == nil:
		case in.Status == Ended:
			lines = append(lines, fmt.Sprintf("ended %x %q %d %d", id, in.Client, in.FirstJoin, in.EndedAt))
		default:
			lines = append(lines, fmt.Sprintf("instance %x %q %q ttl %d v%d status %d seq %d first %d renewed %d load %v wants %+v %+v",
				id, in.Client, in.Host, in.TTL, in.MaxVersion, in.Status, in.Seq, in.FirstJoin, in.Renewed, in.Load, in.Interests, in.Pinned))
		}
		for _, k := range ks {
			if w.Unfit(id, k) {
				lines = append(lines, fmt.Sprintf("unfit %x %v", id, k))
			}
		}
	}
	for k, l := range w.Leases() {
		lines = append(lines, fmt.Sprintf("lease %v %x %d", k, l.Instance, l.Epoch))
	}
	for k, p := range w.AllProgress() {
		lines = append(lines, fmt.Sprintf("progress %v %x %d %x owner %q %d", k, p.TopicID, p.Next, p.Replaced, p.Client, p.Epoch))
	}
	for _, t := range topics {
		lines = append(lines, fmt.Sprintf("topic %s %d", t, w.Partitions(t)))
	}
	slices.Sort(lines)
	return strings.Join(lines, "\n")
}
