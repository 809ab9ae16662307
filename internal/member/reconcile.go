package member

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
	"github.com/kafka-marshal/marshal/internal/rule"
)

// phase of a claim.
type phase uint8

const (
	running  phase = iota + 1
	draining       // the process is to call Drained
	drained        // nothing is in flight: to be released
)

// claim is our running effort to live by a lease.
type claim struct {
	epoch int64
	phase phase

	unread   bool // started only to be kept
	pinned   bool // started as one claimed by hand
	idle     bool // never started: held, and to be released
	unfit    bool // given up: to be released as unfit
	letGo    bool // even if nobody else may have it
	lost     bool // stopped, but its Release is on its way
	released bool // its Release was read back

	release uint64 // seq of the Release on its way; 0: none
	topicID lease.TopicID
	offsets []Position // exact next offsets, once drained
}

// claims is what we run, and what decides on it.
type claims struct {
	run map[lease.Key]*claim

	want      Wanted
	subjects  map[subject]covered         // which interest wants a topic
	pinned    map[lease.Key]bool          // of want
	kept      map[lease.Key]bool          // of want: held, and KeptUntil is not past
	first     time.Duration               // Mono of our first interests; Never: none yet
	reclaimed map[lease.Key]bool          // got from a namesake, and perhaps not wanted yet
	since     map[lease.Key]time.Duration // Mono since when a move of ours is wanted

	plan    *policy.Plan // of version
	version uint64
	written uint64                    // version by whose plan the first of releasing was written
	moves   map[lease.Key]policy.Move // ours
	over    map[lease.Key]bool        // held over our maximum

	stale   bool          // something of our own changed since the last reconcile
	at      time.Duration // Mono at which time alone calls for another
	waiting bool          // some move waits for its successor to be heard of

	draining  int                  // claims in that phase
	ready     map[lease.Key]bool   // drained, and no Release on its way
	releasing map[lease.Key]uint64 // Releases on their way
	unsent    bool                 // ready is to be looked at
	linger    bool                 // not before the next Step or Tick: more may become ready at once
}

// subject is a topic as an interest wants it.
type subject struct {
	topic string
	whole bool
}

// covered is by which interest a topic is wanted, and how many partitions we see in it.
type covered struct {
	interest   int
	partitions int32
}

func (c *claims) init() {
	c.run = map[lease.Key]*claim{}
	c.subjects = map[subject]covered{}
	c.pinned, c.kept = map[lease.Key]bool{}, map[lease.Key]bool{}
	c.reclaimed = map[lease.Key]bool{}
	c.since = map[lease.Key]time.Duration{}
	c.moves, c.over = map[lease.Key]policy.Move{}, map[lease.Key]bool{}
	c.ready, c.releasing = map[lease.Key]bool{}, map[lease.Key]uint64{}
	c.first, c.at, c.stale = Never, Never, true
}

func compareKeys(a, b lease.Key) int {
	return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Partition, b.Partition))
}

// wants tells which of our interests covers a key. A partition that neither we nor anybody else sees is not wanted (the
// topic was made again with fewer), nor is a topic of which nobody sees any (it was deleted).
func (m *Member) wants(k lease.Key) (interest int, ok bool) {
	c, ok := m.claims.subjects[subject{k.Topic, k.Partition == lease.WholeTopic}]
	return c.interest, ok && max(k.Partition, 0) < max(c.partitions, m.world().Partitions(k.Topic))
}

// covering finds the claim that a partition belongs to: its own or its topic's.
func (c *claims) covering(k lease.Key) *claim { return c.run[c.cover(k)] }

func (c *claims) cover(k lease.Key) lease.Key {
	if c.run[k] == nil {
		if whole := (lease.Key{Topic: k.Topic, Partition: lease.WholeTopic}); c.run[whole] != nil {
			return whole
		}
	}
	return k
}

// Want changes what is wanted.
func (m *Member) Want(w Wanted, now Now) Output {
	if m.stage == over {
		return m.done()
	}
	m.clocks(now)
	c := &m.claims
	c.want = Wanted{FastReclaim: w.FastReclaim, Pinned: slices.Clone(w.Pinned), Kept: slices.Clone(w.Kept), KeptUntil: w.KeptUntil}
	clear(c.subjects)
	clear(c.pinned)
	for i, interest := range w.Interests {
		interest.Topics = slices.Clone(interest.Topics)
		c.want.Interests = append(c.want.Interests, interest)
		for _, t := range interest.Topics {
			if k := (subject{t.Topic, interest.Whole}); t.Topic != "" {
				if _, taken := c.subjects[k]; !taken {
					c.subjects[k] = covered{i, t.Partitions}
				}
			}
		}
	}
	for _, k := range w.Pinned {
		c.pinned[k] = true
	}
	if len(w.Interests) > 0 {
		c.first = min(c.first, m.now)
	}
	m.join.refused = false
	c.stale = true
	return m.settle(now)
}

// reconcileDue is when what we hold and what we run are to be compared: at once where the world or our own state has
// changed, else when time has decided something.
func (m *Member) reconcileDue() time.Duration {
	if m.claims.stale || m.claims.version != m.world().Version() {
		return m.now
	}
	return m.claims.at
}

// later asks for a reconcile at t.
func (m *Member) later(t time.Duration) { m.claims.at = min(m.claims.at, t) }

// reconcile compares what the world says we hold with what we run and want, and does what is to be done about it.
func (m *Member) reconcile(now Now) {
	if m.now >= m.reconcileDue() {
		m.claims.stale, m.claims.at, m.claims.waiting = false, Never, false
		m.consult()
		m.keep()
		m.announce(now)
		if !rule.Broken(rule.Reconcile) {
			m.stopLost()
		}
		for k, l := range m.world().HeldBy(m.cfg.Instance) {
			m.attend(k, l.Epoch)
		}
		m.claim(now)
		m.claims.unsent = true
	}
	m.seekAgain(now)
	if m.claims.unsent && !m.claims.linger {
		m.release(now)
	}
}

// consult asks for the plan of the world, and notes since when each move is wanted.
func (m *Member) consult() {
	c := &m.claims
	w := m.world()
	if c.plan != nil && c.version == w.Version() {
		return
	}
	c.plan, c.version = m.s.Planner.Plan(w), w.Version()
	clear(c.moves)
	clear(c.over)
	for _, mv := range c.plan.MovesOf(m.cfg.Instance) {
		c.moves[mv.Key] = mv
		if _, ok := c.since[mv.Key]; !ok {
			c.since[mv.Key] = m.now
		}
	}
	for k := range c.since {
		if _, ok := c.moves[k]; !ok {
			delete(c.since, k)
		}
	}
	for _, k := range c.plan.Overflow(m.cfg.Instance) {
		c.over[k] = true
	}
	m.survey()
}

// holds tells whether the world says that we hold the key of a claim, with its epoch.
func (m *Member) holds(k lease.Key, c *claim) bool {
	if rule.Broken(rule.Gate) {
		return true
	}
	l, ok := m.world().Lease(k)
	return ok && l.Instance == m.cfg.Instance && l.Epoch == c.epoch
}

// stopLost ends the claims whose lease is not ours any more, as wanted or not.
func (m *Member) stopLost() {
	var gone []lease.Key
	for k, c := range m.claims.run {
		if c.released || !c.lost && !m.holds(k, c) {
			gone = append(gone, k)
		}
	}
	slices.SortFunc(gone, compareKeys)
	for _, k := range gone {
		c := m.claims.run[k]
		switch {
		case c.released:
			if !c.lost {
				m.finish(k, c)
			}
			m.drop(k, c)
		case c.release != 0:
			m.stop(k, c, m.holder(k))
			m.forget(k)
			c.lost = true
		default:
			m.stop(k, c, m.holder(k))
			m.drop(k, c)
		}
	}
}

// holder says whose a key is.
func (m *Member) holder(k lease.Key) string {
	other, l, ok := m.world().Conflict(k)
	switch {
	case !ok:
		return "nobody holds it"
	case l.Instance == m.cfg.Instance:
		return fmt.Sprintf("ours with epoch %d", l.Epoch)
	case other != k:
		return fmt.Sprintf("%s holds %s/%d", m.nameOf(l.Instance), other.Topic, other.Partition)
	}
	return m.nameOf(l.Instance) + " holds it"
}

// nameOf names an instance for people: its client id, and the beginning of its instance id.
func (m *Member) nameOf(id lease.InstanceID) string {
	if i := m.world().Instance(id); i != nil {
		return fmt.Sprintf("%s (%v)", i.Client, id)
	}
	return id.String()
}

func (m *Member) stop(k lease.Key, c *claim, reason string) {
	if !c.idle && !c.lost {
		m.act(Action{Kind: Stop, Key: k, Epoch: c.epoch, Reason: reason})
	}
}

func (m *Member) finish(k lease.Key, c *claim) {
	if !c.idle {
		m.act(Action{Kind: Finish, Key: k, Epoch: c.epoch})
	}
}

// drop forgets a claim.
func (m *Member) drop(k lease.Key, c *claim) {
	if c.phase == draining {
		m.claims.draining--
	}
	delete(m.claims.run, k)
	delete(m.claims.ready, k)
	delete(m.claims.releasing, k)
	delete(m.claims.reclaimed, k)
	m.forget(k)
}

// verb is what is to become of a held key.
type verb uint8

const (
	run  verb = iota + 1
	keep      // hold it, unread
	rest      // hold it, not even started: it is over our maximum, and nobody else may have it
	move      // hand it on, for balance
	hand      // hand it on, or let it go
	park      // hold it, for the next run of us
)

// fate decides what is to become of a key that we hold.
func (m *Member) fate(k lease.Key) verb {
	c := &m.claims
	held := c.run[k]
	switch {
	case m.leaving.active && m.leaving.keep:
		return park
	case m.leaving.active, held != nil && held.unfit:
		return hand
	case c.pinned[k]:
		return run
	case c.kept[k]:
		return keep
	}
	if _, ok := m.wants(k); !ok {
		if c.reclaimed[k] && m.reclaimOpen() {
			return keep
		}
		return hand
	}
	mv, moving := c.moves[k]
	switch {
	case c.over[k]:
		if held != nil && !held.idle && !held.unread || !m.heir(k, false).IsZero() {
			return hand
		}
		if c.reclaimed[k] {
			return keep
		}
		return rest
	case !moving, !m.awake(mv.To):
		return run
	case mv.Forced:
		if m.settled() {
			return hand
		}
		return run
	case held != nil && !held.unread && held.phase != running, m.mayMove(mv):
		return move
	}
	return run
}

// attend makes a held key's claim what it is to be.
func (m *Member) attend(k lease.Key, epoch int64) {
	c := m.claims.run[k]
	if c != nil && (c.lost || c.release != 0 || rule.Broken(rule.Reconcile)) {
		return // until we know what became of the Release
	}
	if c != nil {
		c.unfit = m.givesUp(k, c)
	}
	switch m.fate(k) {
	case run:
		switch {
		case c == nil || c.idle:
			m.start(k, epoch, false)
		case c.unread, c.pinned != m.claims.pinned[k]: // another of us reads it from now on
			m.finish(k, c)
			m.start(k, epoch, false)
		case c.phase != running:
			m.resume(k, c)
		}
	case keep:
		switch {
		case c == nil || c.idle:
			m.start(k, epoch, true)
		case !c.unread:
			m.finish(k, c)
			m.start(k, epoch, true)
		case c.phase != running:
			m.undrain(k, c)
		}
	case rest:
		if c != nil && c.idle {
			delete(m.claims.run, k)
			delete(m.claims.ready, k)
		}
	case park:
		if c != nil && c.phase == running && !c.unread {
			m.drain(k, c)
		}
	case move, hand:
		switch {
		case c == nil:
			m.claims.run[k] = &claim{epoch: epoch, phase: drained, idle: true}
			m.claims.ready[k] = true
		case c.phase == running && c.unread:
			c.phase = drained
			m.claims.ready[k] = true
		case c.phase == running:
			m.drain(k, c)
		}
	}
}

func (m *Member) start(k lease.Key, epoch int64, unread bool) {
	if c := m.claims.run[k]; c != nil {
		m.undrain(k, c)
	}
	m.claims.run[k] = &claim{epoch: epoch, phase: running, unread: unread, pinned: !unread && m.claims.pinned[k]}
	if !unread {
		delete(m.claims.reclaimed, k) // a consumer has come for it
	}
	m.act(Action{Kind: Start, Key: k, Epoch: epoch, Unread: unread})
}

// trusts tells whether we may act on our leases now.
func (m *Member) trusts(now Now) bool {
	return m.started(now).before(m.own.trust) || rule.Broken(rule.Trust)
}

// HandsOut tells whether a message of k may be handed out now, and under which epoch: trust, the world's lease, no
// Release on its way, not draining, not only kept.
func (m *Member) HandsOut(k lease.Key, now Now) (epoch int64, ok bool) {
	c := m.claims.run[k]
	if m.stage != member || c == nil || c.idle || c.unread || c.lost || !m.trusts(now) || !m.holds(k, c) {
		return 0, false
	}
	if c.phase != running && !(rule.Broken(rule.ReleaseGate) && (c.release != 0 || m.leaving.seq != 0)) {
		return 0, false
	}
	return c.epoch, true
}

// Running lists the keys that the member has started and not stopped or finished, for displays and tests.
func (m *Member) Running() []lease.Key {
	var keys []lease.Key
	for k, c := range m.claims.run {
		if !c.idle && !c.lost {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, compareKeys)
	return keys
}
