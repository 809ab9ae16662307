package explore

import (
	"crypto/sha256"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// pens is the search of a Config without processes: its Authors write whatever they like, right or wrong, and every sequence
// of Records of it is applied. Members would never write most of that; a bug of theirs, a copy that arrives late or somebody
// else with a producer may.
func pens(cfg *Config, o Options, r *Result) {
	sp := newSpace(cfg)
	seen := map[[16]byte]bool{}
	level, next := []int32{0}, []int32(nil)
	r.Complete = true
	for depth := 0; depth < cfg.Records; depth++ {
		for _, at := range level {
			w := sp.nodes[at].log().World()
			for _, rec := range sp.menu(w) {
				id, violation := sp.grow(at, sp.write(0, rec))
				r.Transitions++
				if violation != "" {
					r.Violation, r.Script = violation, sp.story(id)
					r.Complete = false
					return
				}
				n := sp.nodes[id]
				sp.countEvents(n.events, r.Events)
				n.events = nil
				sp.buf = n.log().World().AppendBinary(sp.buf[:0])
				sum := sha256.Sum256(sp.buf)
				key := [16]byte(sum[:16])
				if seen[key] || depth == cfg.Records-1 {
					sp.nodes[id] = nil // nothing comes after it, and there are many
				} else {
					next = append(next, id)
				}
				seen[key] = true
			}
			sp.nodes[at].shared, sp.nodes[at].children = nil, nil
			if o.States > 0 && len(seen) >= o.States {
				r.Complete = false
				r.States = len(seen)
				return
			}
		}
		level, next = next, level[:0]
		r.Depth++
		r.States, r.Nodes = len(seen), len(sp.nodes)
	}
}

// story prints the records of a log.
func (sp *space) story(at int32) string {
	text := ""
	for ; at > 0; at = sp.nodes[at].parent {
		rec := sp.place(sp.nodes[at].rec, int64(sp.nodes[at].depth-1))
		text = sp.nameOf(&rec) + text
	}
	return text
}

// menu is what anybody may write next.
func (sp *space) menu(w *lease.World) []lease.Record {
	var all []lease.Record
	v := look(w)
	for i := range sp.cfg.Authors {
		m := pen{sp: sp, v: &v, id: instanceOf(i, 1), author: &sp.cfg.Authors[i]}
		m.seq = 1
		if in := v.instance(m.id); in != nil {
			m.seq = in.Seq + 1
		}
		m.joins()
		if m.seq == 1 {
			m.seq = 2 // one that never joined, or has ended
		}
		m.heartbeats()
		m.claims()
		m.releases()
		m.evicts()
		m.seeks()
		all = append(all, m.out...)
	}
	for _, seen := range []int64{w.Last() - 1, w.Last(), w.Last() + 1} {
		all = append(all, lease.Record{Kind: lease.KindBase, Base: lease.Base{Seen: seen, TokenBase: 3 << 20}})
	}
	return all
}

// pen is one author at a moment.
type pen struct {
	sp     *space
	v      *view
	id     lease.InstanceID
	author *Author
	seq    uint64
	out    []lease.Record
}

// Author is one that writes in a Config without processes.
type Author struct {
	Client string
	TTL    time.Duration
}

// put adds a record under the author's next seq.
func (m *pen) put(rec lease.Record) {
	rec.Instance, rec.Version = m.id, lease.WireVersion
	rec.Seq = m.seq
	m.out = append(m.out, rec)
}

// stale adds one under its last seq: an echo.
func (m *pen) stale(rec lease.Record) {
	rec.Instance, rec.Version = m.id, lease.WireVersion
	if rec.Seq = m.seq - 1; rec.Seq > 0 {
		m.out = append(m.out, rec)
	}
}

func (m *pen) joins() {
	first := lease.Record{Kind: lease.KindJoin, Join: lease.Join{Client: m.author.Client, TTL: m.author.TTL, TokenBase: 1 << 20}}
	m.put(first)
	first.Seq = 1
	if m.seq > 1 { // once more under its first seq, and one that says something else
		first.Instance, first.Version = m.id, lease.WireVersion
		m.out = append(m.out, first)
		m.put(lease.Record{Kind: lease.KindJoin, Join: lease.Join{Client: m.author.Client, TTL: 2 * m.author.TTL, TokenBase: 2 << 20}})
	}
}

// epochs are those under which something is said of a key: that of its lease, and one that it has not.
func (m *pen) epochs(k lease.Key) []int64 {
	if l, ok := m.v.lease(k); ok {
		return []int64{l.Epoch, l.Epoch + 1}
	}
	return []int64{0}
}

func (m *pen) heartbeats() {
	m.put(lease.Record{Kind: lease.KindHeartbeat})
	k := m.sp.cfg.Keys[0]
	for _, e := range m.epochs(k) {
		for _, next := range []int64{0, 2} {
			m.put(lease.Record{Kind: lease.KindHeartbeat, Heartbeat: lease.Heartbeat{Topics: []lease.TopicProgress{{
				Topic: k.Topic, Partitions: []int32{k.Partition}, Epochs: []int64{e}, Next: []int64{next}}}}})
		}
	}
}

func (m *pen) claims() {
	for _, k := range m.sp.cfg.Keys {
		claim := lease.Record{Kind: lease.KindClaim, Claim: lease.Claim{Keys: []lease.Key{k}}}
		m.put(claim)
		m.stale(claim)
	}
	if keys := m.sp.cfg.Keys; len(keys) > 1 {
		m.put(lease.Record{Kind: lease.KindClaim, Claim: lease.Claim{Keys: keys}})
		last := keys[len(keys)-1]
		m.put(lease.Record{Kind: lease.KindClaim, Claim: lease.Claim{Keys: keys[:2], Atomic: true}})
		m.put(lease.Record{Kind: lease.KindClaim, Claim: lease.Claim{Keys: []lease.Key{keys[0], last}, Atomic: true}})
		m.put(lease.Record{Kind: lease.KindClaim, Claim: lease.Claim{Keys: []lease.Key{last, keys[0]}, Atomic: true}})
	}
}

func (m *pen) releases() {
	k := m.sp.cfg.Keys[0]
	for _, e := range m.epochs(k) {
		for to := range len(m.sp.cfg.Authors) + 1 {
			rec := lease.Record{Kind: lease.KindRelease, Release: lease.Release{Keys: []lease.ReleasedKey{{Key: k, Epoch: e, Next: []int64{1}}}}}
			if k.Partition >= 0 {
				rec.Release.Keys[0].Partitions = []int32{k.Partition}
			} else {
				rec.Release.Keys[0].Partitions = []int32{0}
			}
			if to > 0 {
				rec.Release.Successor = instanceOf(to-1, 1)
			}
			m.put(rec)
		}
		m.put(lease.Record{Kind: lease.KindRelease, Release: lease.Release{Keys: []lease.ReleasedKey{{Key: k, Epoch: e}}, Unfit: true}})
	}
	m.put(lease.Record{Kind: lease.KindLeave})
	m.put(lease.Record{Kind: lease.KindLeave, Leave: lease.Leave{Keep: true, Grace: time.Minute}})
	m.stale(lease.Record{Kind: lease.KindLeave})
}

func (m *pen) evicts() {
	for _, in := range m.v.instances {
		for _, renewed := range []int64{in.Renewed, in.Renewed - 1} {
			rec := lease.Record{Kind: lease.KindEvict, Evict: lease.Evict{Targets: []lease.Target{{Instance: in.ID, Renewed: renewed}}}}
			m.put(rec)
			rec.Evict.Takeover = true
			m.put(rec)
		}
	}
}

func (m *pen) seeks() {
	k := m.sp.cfg.Keys[0]
	for _, e := range append(m.epochs(k), lease.NoEpoch) {
		m.put(lease.Record{Kind: lease.KindDirective, Directive: lease.Directive{Kind: lease.Seek, Key: k, Next: 1, Epoch: e}})
	}
}
