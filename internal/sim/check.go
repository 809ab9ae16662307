package sim

import (
	"cmp"
	"iter"
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// state is what the checkers look at of a world, copied out of it.
type state struct {
	leases    []leaseRow
	progress  []progressRow
	instances []instanceRow
	tokenBase int64
}

type leaseRow struct {
	key   lease.Key
	owner lease.InstanceID
	epoch int64
}

type progressRow struct {
	key     lease.Key
	topicID lease.TopicID
	next    int64
}

type instanceRow struct {
	id        lease.InstanceID
	client    string
	status    lease.Status
	seq       uint64
	renewed   int64
	firstJoin int64
}

// read copies a world's state; leases and progress come in the order of topic and partition, instances in that of their
// first Join.
func (st *state) read(w *lease.World) {
	st.leases, st.progress, st.instances = st.leases[:0], st.progress[:0], st.instances[:0]
	for k, l := range w.Leases() {
		st.leases = append(st.leases, leaseRow{k, l.Instance, l.Epoch})
	}
	for k, p := range w.AllProgress() {
		st.progress = append(st.progress, progressRow{k, p.TopicID, p.Next})
	}
	for i := range w.Instances() {
		st.instances = append(st.instances, instanceRow{i.ID, i.Client, i.Status, i.Seq, i.Renewed, i.FirstJoin})
	}
	st.tokenBase = w.TokenBase()
}

// marked tells whether the instance is marked unfit for a key.
func (st *state) marked(w *lease.World, id lease.InstanceID, k lease.Key) bool { return w.Unfit(id, k) }

func (st *state) lease(k lease.Key) *leaseRow {
	i, ok := slices.BinarySearchFunc(st.leases, k, func(l leaseRow, k lease.Key) int { return compareKeys(l.key, k) })
	if !ok {
		return nil
	}
	return &st.leases[i]
}

func (st *state) instance(id lease.InstanceID) *instanceRow {
	for i := range st.instances {
		if st.instances[i].id == id {
			return &st.instances[i]
		}
	}
	return nil
}

// holds tells whether id holds k or its whole topic.
func (st *state) holds(id lease.InstanceID, k lease.Key) bool {
	for _, key := range [2]lease.Key{k, {Topic: k.Topic, Partition: lease.WholeTopic}} {
		if l := st.lease(key); l != nil && l.owner == id {
			return true
		}
	}
	return false
}

// changed gives the rows that two states do not have in common, each with the one in the same place of the other: nil
// where there is none. Both are in the order of compare.
func changed[R comparable](before, after []R, compare func(x, y *R) int) iter.Seq2[*R, *R] {
	return func(yield func(was, is *R) bool) {
		for i, j := 0, 0; i < len(before) || j < len(after); {
			var was, is *R
			if i < len(before) {
				was = &before[i]
			}
			if j < len(after) {
				is = &after[j]
			}
			if was != nil && is != nil {
				if *was == *is {
					i, j = i+1, j+1
					continue
				}
				switch c := compare(was, is); {
				case c < 0:
					is = nil
				case c > 0:
					was = nil
				}
			}
			if was != nil {
				i++
			}
			if is != nil {
				j++
			}
			if !yield(was, is) {
				return
			}
		}
	}
}

func (r *reference) changedLeases() iter.Seq2[*leaseRow, *leaseRow] {
	return changed(r.before.leases, r.after.leases, func(x, y *leaseRow) int { return compareKeys(x.key, y.key) })
}

func (r *reference) changedProgress() iter.Seq2[*progressRow, *progressRow] {
	return changed(r.before.progress, r.after.progress, func(x, y *progressRow) int { return compareKeys(x.key, y.key) })
}

func (r *reference) changedInstances() iter.Seq2[*instanceRow, *instanceRow] {
	return changed(r.before.instances, r.after.instances, func(x, y *instanceRow) int { return cmp.Compare(x.firstJoin, y.firstJoin) })
}

// checkRecord compares the reference before and after one record. None of this knows how Apply works.
func (s *simulation) checkRecord(e *entry) {
	s.checkHolders(e)
	s.checkLeases(e)
	s.checkProgress(e)
	s.checkInstances(e)
}

// checkHolders: at most one instance holds a key, never a whole topic beside one of its partitions, and whoever holds
// one has not ended (S2).
func (s *simulation) checkHolders(e *entry) {
	after := &s.ref.after
	if !s.ref.unchecked && slices.Equal(s.ref.before.leases, after.leases) && s.sameInstances() {
		return
	}
	s.ref.unchecked = false
	var whole *leaseRow
	for i := range after.leases {
		l := &after.leases[i]
		if l.key.Partition == lease.WholeTopic {
			whole = l
		} else if whole != nil && whole.key.Topic == l.key.Topic {
			s.fail("S2", "@%d: %s is held beside its whole topic", e.offset, keyString(l.key))
		}
		if i > 0 && after.leases[i-1].key == l.key {
			s.fail("S2", "@%d: %s is held twice", e.offset, keyString(l.key))
		}
		if after.instance(l.owner) == nil {
			s.fail("S2", "@%d: %s is held by %s, which is not there", e.offset, keyString(l.key), s.names[l.owner])
		}
	}
}

// sameInstances tells whether those who have not ended are the same as before.
func (s *simulation) sameInstances() bool {
	return slices.EqualFunc(s.ref.before.instances, s.ref.after.instances, func(x, y instanceRow) bool { return x.id == y.id })
}

// checkLeases: a lease passes on only by its holder's own record, by the holder's end, or from the parked to their
// client's next run (S2); with an epoch that was never there (S5); and not by a copy, a foreigner or one that has ended
// (S6, S7).
func (s *simulation) checkLeases(e *entry) {
	r := &s.ref
	for was, is := range r.changedLeases() {
		if was != nil && (is == nil || is.owner != was.owner) {
			s.checkLost(e, was, is)
		}
		if is == nil {
			continue
		}
		s.checkNothingBy(e, "the lease of "+keyString(is.key))
		if is.epoch <= r.lastEpoch[is.key] || is.epoch != e.offset {
			s.fail("S5", "@%d: epoch %d of %s after %d", e.offset, is.epoch, keyString(is.key), r.lastEpoch[is.key])
		}
		if was == nil && e.rec.Kind != lease.KindClaim {
			s.checkGrantWithoutClaim(e, is)
		}
		r.lastEpoch[is.key] = is.epoch
	}
}

// checkGrantWithoutClaim: a free key is granted by a Claim alone; a parked whole topic may give way to a partition.
func (s *simulation) checkGrantWithoutClaim(e *entry, is *leaseRow) {
	s.fail("S2", "@%d: free %s is granted to %s by a %s", e.offset, keyString(is.key), s.names[is.owner], kindNames[e.rec.Kind])
}

func (s *simulation) checkLost(e *entry, was, is *leaseRow) {
	r := &s.ref
	s.checkNothingBy(e, "the lease of "+keyString(was.key))
	holder := r.before.instance(was.owner)
	author := r.before.instance(e.rec.Instance)
	ok := false
	switch e.rec.Kind {
	case lease.KindBase:
		ok = is == nil
	case lease.KindRelease:
		ok = was.owner == e.rec.Instance
	case lease.KindLeave:
		ok = was.owner == e.rec.Instance && is == nil
	case lease.KindEvict:
		gone := r.after.instance(was.owner) == nil
		ok = gone && (is == nil || e.rec.Evict.Takeover && is.owner == e.rec.Instance && author != nil && author.client == holder.client)
	case lease.KindClaim:
		ok = holder != nil && author != nil && holder.status == lease.IsParked && holder.client == author.client
	}
	if !ok {
		s.fail("S2", "@%d: %s loses %s by a %s of %s", e.offset, s.names[was.owner], keyString(was.key), kindNames[e.rec.Kind], s.authorOf(e))
	}
}

// checkNothingBy fails where a record that must not change anything has changed something.
func (s *simulation) checkNothingBy(e *entry, what string) {
	switch {
	case e.copyOf:
		s.fail("S7", "@%d: a copy of a record changed %s", e.offset, what)
	case harmless[e.origin.raw] && !(e.origin.raw == rawEnded && e.anew):
		// One that had ended may be forgotten when its record comes, or comes back: to the world it is somebody new then.
		s.fail("S7", "@%d: a foreign record (%s) changed %s", e.offset, e.origin.raw, what)
	case e.rec.Kind == lease.KindBase || e.rec.Kind == lease.KindSnapshot || e.rec.Kind == lease.KindProbe || e.rec.Kind == lease.Foreign:
		if e.rec.Kind != lease.KindBase {
			s.fail("S7", "@%d: a %s changed %s", e.offset, kindNames[e.rec.Kind], what)
		}
	default:
		author := s.ref.before.instance(e.rec.Instance)
		if e.rec.Kind == lease.KindJoin && e.rec.Seq == 1 && author == nil {
			return
		}
		if author == nil || author.status != lease.Alive {
			s.fail("S6", "@%d: %s, which has ended, changed %s by a %s", e.offset, s.authorOf(e), what, kindNames[e.rec.Kind])
		}
	}
}

// checkProgress: progress goes down by a Seek alone, passes no unfinished message, and is moved only by a holder that has
// read the newest Seek (S4, S6).
func (s *simulation) checkProgress(e *entry) {
	r := &s.ref
	if e.rec.Kind == lease.KindBase && r.baseAt == e.offset {
		return
	}
	for was, is := range r.changedProgress() {
		if is == nil {
			if was.next != lease.NoProgress {
				s.fail("S4", "@%d: progress of %s is gone", e.offset, keyString(was.key))
			}
			continue
		}
		if is.next == lease.NoProgress {
			continue
		}
		s.checkNothingBy(e, "the progress of "+keyString(is.key))
		if e.rec.Kind == lease.KindDirective {
			s.checkSeek(e, is.key)
			continue
		}
		s.checkMoved(e, was, is)
	}
}

// checkSeek: the Seek of an owner counts only while it is the owner, under the epoch that it names.
func (s *simulation) checkSeek(e *entry, k lease.Key) {
	d := &e.rec.Directive
	if d.Epoch == lease.NoEpoch || d.Key.Partition == lease.WholeTopic {
		return
	}
	for _, key := range []lease.Key{k, {Topic: k.Topic, Partition: lease.WholeTopic}} {
		if l := s.ref.before.lease(key); l != nil && l.epoch == d.Epoch {
			return
		}
	}
	s.fail("S6", "@%d: a Seek of %s under e%d, which it does not have any more, moved its progress", e.offset, keyString(k), d.Epoch)
}

func (s *simulation) checkMoved(e *entry, was, is *progressRow) {
	r := &s.ref
	if !r.before.holds(e.rec.Instance, is.key) {
		s.fail("S6", "@%d: %s, which does not hold %s, moved its progress", e.offset, s.authorOf(e), keyString(is.key))
	}
	t := s.data[is.key.Topic]
	if t == nil || e.origin.by == nil || s.lost && e.origin.strange { // it knows another progress
		return
	}
	part := t.parts[is.key.Partition]
	if e.origin.readTo < part.sought {
		s.fail("S4", "@%d: progress of %s by %s, which had read up to %d, not the Seek at %d", e.offset, keyString(is.key),
			s.authorOf(e), e.origin.readTo, part.sought)
	}
	from := int64(0)
	switch {
	case was != nil && was.next != lease.NoProgress && was.topicID.Same(is.topicID):
		from = was.next
		if is.next < was.next {
			s.fail("S4", "@%d: progress of %s goes from %d down to %d", e.offset, keyString(is.key), was.next, is.next)
		}
	default:
		from = part.start(is.topicID, is.next)
	}
	done := part.finished(is.topicID)
	for o := from; o < is.next; o++ {
		if by := done.by(o); by < part.sought {
			s.fail("S4", "@%d: progress of %s passes %d, which is not finished (last under epoch %d, Seek at %d)", e.offset,
				keyString(is.key), o, by, part.sought)
			return
		}
	}
}

// checkInstances: nobody is kept alive, revived or ended by another's record, an Evict apart (S6, S7).
func (s *simulation) checkInstances(e *entry) {
	r := &s.ref
	if e.rec.Kind == lease.KindBase && r.baseAt == e.offset {
		return
	}
	for was, is := range r.changedInstances() {
		switch {
		case is == nil:
			s.checkNothingBy(e, "that "+s.names[was.id]+" is there")
			if was.id != e.rec.Instance && e.rec.Kind != lease.KindEvict {
				s.fail("S6", "@%d: a %s of %s ended %s", e.offset, kindNames[e.rec.Kind], s.authorOf(e), s.names[was.id])
			}
		case was == nil:
			s.checkNothingBy(e, "who is there")
			if is.id != e.rec.Instance || e.rec.Kind != lease.KindJoin || e.rec.Seq != 1 {
				s.fail("S6", "@%d: %s is there by a %s", e.offset, s.names[is.id], kindNames[e.rec.Kind])
			}
			if first, ok := r.firstJoin[is.id]; ok && first != e.offset && first > r.baseAt {
				s.fail("S6", "@%d: %s, which has ended, is there again", e.offset, s.names[is.id])
			}
		default:
			s.checkNothingBy(e, "the liveness of "+s.names[is.id])
			if is.id != e.rec.Instance {
				s.fail("S6", "@%d: a record of %s renewed %s", e.offset, s.authorOf(e), s.names[is.id])
			}
		}
	}
}

// checkTakeover: a namesake loses its keys by fast reclaim only if it could append nothing since the newcomer joined (the
// first exception of S3).
func (s *simulation) checkTakeover(e *entry, t lease.InstanceID) {
	first, ok := s.ref.firstJoin[e.rec.Instance]
	if !ok {
		return
	}
	for _, x := range s.log.between(first+1, e.offset) {
		if x.group && x.rec.Instance == t && x.took {
			s.fail("S3", "@%d: takeover from %s, which wrote @%d after the newcomer's Join @%d", e.offset, s.names[t], x.offset, first)
			return
		}
	}
}

// checkEviction: nobody is evicted whom no fault has troubled, whatever happened to the log and to the others (L3).
func (s *simulation) checkEviction(e *entry, t lease.InstanceID) {
	if !e.rec.Evict.Takeover && e.origin.by != nil && s.untroubled(t) {
		s.fail("L3", "@%d: %s evicts %s, which no fault has troubled for %s", e.offset, s.authorOf(e), s.names[t], s.now-s.byID[t].p.touched)
	}
}

// checkProof: who evicts has read a record of its own a ttl, by its own clock, after it read the target's newest renewal: only that
// proves that the log was there (L3). A time that is short of a ttl altogether is a matter of S3.
func (a *agent) checkProof(rec *lease.Record) {
	s, p, w := a.sim, a.p, a.p.log.World()
	me := w.Instance(a.id)
	if rec.Evict.Takeover || me == nil {
		return
	}
	proved, known := p.readAt(me.Renewed)
	for _, target := range rec.Evict.Targets {
		t := w.Instance(target.Instance)
		heard, remembered := p.readAt(target.Renewed)
		if t == nil || !known || !remembered {
			continue
		}
		heard = max(heard, a.made)
		if now := p.nowClocks().Mono; now-heard >= t.TTL && proved-heard < t.TTL {
			s.fail("L3", "%s evicts %s, of whose silence for %s its own records prove %s", a.name, s.names[t.ID], now-heard, proved-heard)
		}
	}
}

// checkBase: a Base begins a new history only where the old one has nobody left whom no fault has troubled (L3).
func (s *simulation) checkBase(e *entry) {
	for i := range s.ref.before.instances {
		if t := s.ref.before.instances[i].id; s.untroubled(t) {
			s.fail("L3", "@%d: a Base ends %s, which no fault has troubled for %s", e.offset, s.names[t], s.now-s.byID[t].p.touched)
		}
	}
}

// untroubled tells whether an instance is a running member's, and its process could reach the log all the time, unless
// nobody could, for so long that it must have renewed.
func (s *simulation) untroubled(t lease.InstanceID) bool {
	a := s.byID[t]
	if a == nil || a.id != t || a.over || a.leaving || s.lost || s.upgrade || a.p.frozen || a.p.phase != following {
		return false
	}
	since := max(a.p.touched, a.joinedAt)
	return s.now-since-s.downSince(since) >= a.plan.ttl*5/2
}
