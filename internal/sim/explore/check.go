package explore

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// checkHands: no two processes hand out one key, or a whole topic and one of its partitions, at one moment (S3). Where a
// namesake took over by fast reclaim, who lost the key may go on until it reads that (PROTOCOL.md §9, exception 1).
func (sp *space) checkHands(s *state) string {
	for p := range sp.cfg.Procs {
		if s.local[p] < 0 {
			continue
		}
		mine := sp.handing(p, s.local[p], s.age[p])
		if mine == 0 {
			continue
		}
		if text := sp.checkOwn(p, s.local[p], mine); text != "" {
			return text
		}
		for q := p + 1; q < len(sp.cfg.Procs); q++ {
			if s.local[q] < 0 {
				continue
			}
			if theirs := sp.handing(q, s.local[q], s.age[q]); sp.clash(mine)&theirs != 0 && !sp.excepted(s, p, q) {
				return fmt.Sprintf("S3: %s and %s both hand out %s", sp.cfg.Procs[p].Name, sp.cfg.Procs[q].Name, sp.keys(sp.clash(mine)&theirs))
			}
		}
	}
	return ""
}

// checkOwn: nobody hands out what it does not hold by its own world.
func (sp *space) checkOwn(p int, id int32, hands mask) string {
	l := sp.locals[id]
	for i, k := range sp.cfg.Keys {
		if hands&(1<<i) == 0 {
			continue
		}
		if held, ok := l.shared.Log.World().Lease(k); !ok || held.Instance != l.m.Instance() {
			return fmt.Sprintf("S3: %s hands out %s, which by its own world it does not hold", sp.cfg.Procs[p].Name, keyName(k))
		}
	}
	return ""
}

func (sp *space) excepted(s *state, p, q int) bool {
	gone := sp.nodes[s.tip].takenOver // of two that hand out, neither is without a member
	return slices.Contains(gone, sp.locals[s.local[p]].m.Instance()) || slices.Contains(gone, sp.locals[s.local[q]].m.Instance())
}

// clash gives the keys that conflict with some of these.
func (sp *space) clash(hands mask) (m mask) {
	for i := range sp.cfg.Keys {
		if hands&(1<<i) != 0 {
			m |= sp.conflicts[i]
		}
	}
	return m
}

func (sp *space) keys(hands mask) string {
	var names []string
	for i, k := range sp.cfg.Keys {
		if hands&(1<<i) != 0 {
			names = append(names, keyName(k))
		}
	}
	return fmt.Sprint(names)
}

// conflicting tells whether two keys may not be held by two.
func conflicting(a, b lease.Key) bool {
	return a.Topic == b.Topic && (a.Partition == b.Partition || a.Partition == lease.WholeTopic || b.Partition == lease.WholeTopic)
}

// checkRecord looks at what one record has done to the world, by rules of its own: it does not know how Apply works. All
// worlds here are small.
func (sp *space) checkRecord(before *lease.World, rec *lease.Record, after *lease.World) string {
	c := check{rec: rec, before: look(before), after: look(after)}
	c.author = c.before.instance(rec.Instance)
	in := before.Instance(rec.Instance)
	c.ended = in != nil && in.Status == lease.Ended
	c.echo()
	c.owners()
	c.leases()
	c.progress()
	c.instances()
	c.same(before, after)
	return c.wrong
}

// view is a world, copied out of it.
type view struct {
	leases    []heldKey
	progress  []progressed
	instances []lease.Instance
	tokenBase int64
	last      int64
}

type heldKey struct {
	key   lease.Key
	lease lease.Lease
}

type progressed struct {
	key lease.Key
	at  lease.Progress
}

func (p progressed) equal(o progressed) bool {
	return p.key == o.key && p.at.Next == o.at.Next && p.at.TopicID == o.at.TopicID
}

func look(w *lease.World) view {
	v := view{tokenBase: w.TokenBase(), last: w.Last()}
	for k, l := range w.Leases() {
		v.leases = append(v.leases, heldKey{k, l})
	}
	for k, p := range w.AllProgress() {
		v.progress = append(v.progress, progressed{k, p})
	}
	for in := range w.Instances() {
		v.instances = append(v.instances, *in)
	}
	return v
}

func (v *view) instance(id lease.InstanceID) *lease.Instance {
	i := slices.IndexFunc(v.instances, func(in lease.Instance) bool { return in.ID == id })
	if i < 0 {
		return nil
	}
	return &v.instances[i]
}

func (v *view) lease(k lease.Key) (lease.Lease, bool) {
	i := slices.IndexFunc(v.leases, func(h heldKey) bool { return h.key == k })
	if i < 0 {
		return lease.Lease{}, false
	}
	return v.leases[i].lease, true
}

func (v *view) at(k lease.Key) lease.Progress {
	i := slices.IndexFunc(v.progress, func(p progressed) bool { return p.key == k })
	if i < 0 {
		return lease.Progress{Next: lease.NoProgress}
	}
	return v.progress[i].at
}

// check is the look at one record.
type check struct {
	rec           *lease.Record
	before, after view
	author        *lease.Instance // as it was; nil: not there
	ended         bool            // it was there once
	wrong         string
}

func (c *check) fail(format string, args ...any) {
	if c.wrong == "" {
		c.wrong = fmt.Sprintf("%s (a %s at %d)", fmt.Sprintf(format, args...), kindNames[c.rec.Kind], c.rec.Offset)
	}
}

// counts tells whether the record may do anything: its author is there, and has said nothing later; a Base's has seen everything.
func (c *check) counts() bool {
	switch c.rec.Kind {
	case lease.KindSnapshot, lease.KindProbe:
		return false
	case lease.KindBase:
		return c.rec.Base.Seen >= c.before.last && c.rec.Base.Seen < c.rec.Offset
	}
	if c.author == nil {
		return c.rec.Kind == lease.KindJoin && c.rec.Seq == 1 && !c.ended
	}
	return c.author.Status == lease.Alive && c.rec.Seq > c.author.Seq
}

// echo: copies, and records of those that are not there, change nothing (S6, S7).
func (c *check) echo() {
	if c.counts() {
		return
	}
	same := slices.Equal(c.before.leases, c.after.leases) && slices.EqualFunc(c.before.progress, c.after.progress, progressed.equal) &&
		len(c.before.instances) == len(c.after.instances)
	for i := range c.before.instances {
		if b := &c.before.instances[i]; same {
			a := &c.after.instances[i]
			same = a.ID == b.ID && a.Status == b.Status && a.Seq == b.Seq && a.Renewed == b.Renewed && len(a.Interests) == len(b.Interests)
		}
	}
	if !same {
		c.fail("S7: a copy, or a record of one that is not there, changed the world")
	}
}

// owners: never a whole topic beside one of its partitions, and nobody holds anything who is not there (S2).
func (c *check) owners() {
	for i, h := range c.after.leases {
		if c.after.instance(h.lease.Instance) == nil {
			c.fail("S2: %s is held by one that is not there", keyName(h.key))
		}
		for _, o := range c.after.leases[i+1:] {
			if conflicting(h.key, o.key) {
				c.fail("S2: %s and %s are both held", keyName(h.key), keyName(o.key))
			}
		}
	}
}

// leases: a lease ends by its holder's own word, by the holder's end, or because the holder is parked and its client's next
// run asks; it begins with an epoch that never was (S2, S5, S6).
func (c *check) leases() {
	for _, h := range c.before.leases {
		is, ok := c.after.lease(h.key)
		if ok && is == h.lease {
			continue
		}
		if !c.mayEnd(h, is, ok) {
			c.fail("S2: %s is lost", keyName(h.key))
		}
	}
	for _, h := range c.after.leases {
		was, ok := c.before.lease(h.key)
		if ok && was == h.lease {
			continue
		}
		if h.lease.Epoch != c.rec.Offset {
			c.fail("S5: %s has epoch %d", keyName(h.key), h.lease.Epoch)
		}
		if !ok && c.rec.Kind != lease.KindClaim {
			c.fail("S2: %s is granted", keyName(h.key))
		}
		if in := c.after.instance(h.lease.Instance); was.Instance != h.lease.Instance && in != nil && in.Status != lease.Alive {
			c.fail("S2: %s goes to one that is parked", keyName(h.key))
		}
	}
	if c.rec.Kind == lease.KindClaim && c.rec.Claim.Atomic && c.author != nil {
		got := 0
		for _, k := range c.rec.Claim.Keys {
			if l, ok := c.after.lease(k); ok && l.Instance == c.rec.Instance {
				got++
			}
		}
		granted := slices.ContainsFunc(c.after.leases, func(h heldKey) bool { return h.lease.Epoch == c.rec.Offset })
		if granted && got != len(c.rec.Claim.Keys) {
			c.fail("S2: an atomic claim got a part")
		}
	}
}

func (c *check) mayEnd(h heldKey, is lease.Lease, held bool) bool {
	holder := c.before.instance(h.lease.Instance)
	mine := h.lease.Instance == c.rec.Instance
	switch c.rec.Kind {
	case lease.KindBase:
		return !held
	case lease.KindDirective:
		return held && is.Instance == h.lease.Instance
	case lease.KindRelease:
		named := slices.ContainsFunc(c.rec.Release.Keys, func(k lease.ReleasedKey) bool { return k.Key == h.key && k.Epoch == h.lease.Epoch })
		return mine && named && (!held || is.Instance == c.rec.Release.Successor && is.Instance != c.rec.Instance)
	case lease.KindLeave:
		return mine && !held
	case lease.KindEvict:
		i := slices.IndexFunc(c.rec.Evict.Targets, func(t lease.Target) bool { return t.Instance == h.lease.Instance })
		if i < 0 || c.rec.Evict.Targets[i].Renewed != holder.Renewed {
			return false
		}
		if !c.rec.Evict.Takeover {
			return !held
		}
		return holder.Client == c.author.Client && holder.Renewed < c.author.FirstJoin && is.Instance == c.rec.Instance
	case lease.KindClaim:
		return holder.Status == lease.IsParked && c.author != nil && holder.Client == c.author.Client
	}
	return false
}

// progress: it goes down by a Seek alone, and is moved by a holder under its epoch (S4, S6).
func (c *check) progress() {
	if c.rec.Kind == lease.KindBase || c.rec.Kind == lease.KindDirective {
		return
	}
	for _, p := range c.after.progress {
		was := c.before.at(p.key)
		if p.equal(progressed{p.key, was}) || p.at.Next == lease.NoProgress {
			continue
		}
		if p.at.Next < was.Next && p.at.TopicID.Same(was.TopicID) {
			c.fail("S4: the progress of %s goes down", keyName(p.key))
		}
		if !c.names(p.key) {
			c.fail("S6: the progress of %s is moved by one that does not hold it, or under another epoch", keyName(p.key))
		}
	}
}

// names tells whether the record speaks of k under the epoch with which its author holds it.
func (c *check) names(k lease.Key) bool {
	epochs := map[int64]bool{}
	for _, t := range c.rec.Heartbeat.Topics {
		for i, p := range t.Partitions {
			if c.rec.Kind == lease.KindHeartbeat && t.Topic == k.Topic && p == k.Partition {
				epochs[t.Epochs[i]] = true
			}
		}
	}
	if c.rec.Kind == lease.KindRelease || c.rec.Kind == lease.KindLeave {
		for _, r := range c.rec.Release.Keys {
			if conflicting(r.Key, k) {
				epochs[r.Epoch] = true
			}
		}
	}
	for _, h := range c.before.leases {
		if conflicting(h.key, k) && h.lease.Instance == c.rec.Instance && epochs[h.lease.Epoch] {
			return true
		}
	}
	return false
}

// instances: who ends is the author, or a target whose renewal is the one that was named; who comes is the author of a first
// Join; nobody else is renewed; a ttl and the token base stay what they are (S5, S6, S7).
func (c *check) instances() {
	base := c.rec.Kind == lease.KindBase
	for _, in := range c.before.instances {
		is := c.after.instance(in.ID)
		mine := in.ID == c.rec.Instance
		switch {
		case base:
		case is == nil && !mine:
			named := c.rec.Kind == lease.KindEvict && slices.Contains(c.rec.Evict.Targets, lease.Target{Instance: in.ID, Renewed: in.Renewed})
			if !named {
				c.fail("S6: %v has ended", in.ID)
			}
			if c.rec.Evict.Takeover && !c.mayTake(in) {
				c.fail("S2: %v is taken over by one that may not", in.ID)
			}
		case is != nil && !mine && (is.Renewed != in.Renewed || is.Seq != in.Seq || is.Status != in.Status):
			c.fail("S6: %v is renewed by another", in.ID)
		case is != nil && is.TTL != in.TTL && is.Status == in.Status:
			c.fail("S3: the ttl of %v changes", in.ID)
		}
	}
	for _, in := range c.after.instances {
		if c.before.instance(in.ID) == nil && (in.ID != c.rec.Instance || c.rec.Kind != lease.KindJoin || c.rec.Seq != 1) {
			c.fail("S6: %v is there", in.ID)
		}
	}
	if c.before.tokenBase != 0 && c.after.tokenBase != c.before.tokenBase && !base {
		c.fail("S5: the token base changes")
	}
}

func (c *check) mayTake(t lease.Instance) bool {
	namesakes := 0
	for _, in := range c.before.instances {
		if in.Client == c.author.Client && in.Status == lease.Alive {
			namesakes++
		}
	}
	return t.Client == c.author.Client && t.Status == lease.Alive && t.Renewed < c.author.FirstJoin && namesakes == 2
}

// same: a world that was written down and read again takes the record as the other did (S1).
func (c *check) same(before, after *lease.World) {
	read, err := lease.ParseWorld(before.AppendBinary(nil))
	if err != nil {
		c.fail("S1: a world cannot be read again: %v", err)
		return
	}
	read.Apply(c.rec, nil)
	if c.rec.Kind == lease.KindBase && c.counts() { // then it does not matter what was there
		read = lease.NewWorld(before.TopicID())
		read.Apply(c.rec, nil)
	}
	if !bytes.Equal(read.AppendBinary(nil), after.AppendBinary(nil)) {
		c.fail("S1: a world that was written down takes the record otherwise")
	}
}
