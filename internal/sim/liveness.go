package sim

import (
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// Liveness is how a run came to rest after the end of all faults, and how it had to at the latest.
type Liveness struct {
	Owned, OwnedBound       time.Duration // until every key that somebody wants was held by one who is there and wants it
	Balanced, BalancedBound time.Duration // until nothing moved any more, and each holder handed out
	Moves                   int64         // keys that one who lives handed to another although it wanted and might keep them
	MovesBound              int64         // what the plans needed, and what had been begun when a plan changed
}

// moveCount holds what is moved against what the plan needs. Open is how many moves the plan of the log's newest world has: a
// hand-over that the plan wants makes it one less, and only who comes, goes, or wants something else may make it more.
type moveCount struct {
	open    int64
	plan    *policy.Plan
	key     map[lease.Key]lease.InstanceID
	changes []change
	revived int64 // moves that the newest Release made wanted by its being a renewal
}

// change is a record after which the plan wants something else than before, but for what the record itself has moved.
type change struct {
	offset int64
	known  lease.InstanceID // who had to reckon with it before it read it: of a Release that did no more than to move, its author
	readTo int64            // by which offset that one decided it: what else was decided there, by the same plan, could not reckon with it
}

// since tells whether the plan was changed after an offset by what id could not know.
func (c *moveCount) since(offset int64, id lease.InstanceID) bool {
	for _, ch := range slices.Backward(c.changes) {
		if ch.offset <= offset {
			return false
		}
		if ch.known != id || ch.readTo == offset {
			return true
		}
	}
	return false
}

// read takes what a plan wants moved to somebody, and gives what of it the plan before did not want.
func (c *moveCount) read(plan *policy.Plan) (news []policy.Move) {
	before := c.key
	c.open, c.plan, c.key = 0, plan, map[lease.Key]lease.InstanceID{}
	for _, mv := range plan.Moves() {
		if !mv.To.IsZero() {
			c.open++
			c.key[mv.Key] = mv.To
			if before[mv.Key] != mv.To {
				news = append(news, mv)
			}
		}
	}
	return news
}

// beginMoves starts the count at the end of all faults.
func (s *simulation) beginMoves() {
	c := &s.ref.moved
	c.read(s.ref.planner.Plan(s.ref.world))
	s.live.MovesBound = c.open
	c.changes = []change{{offset: s.log.end() - 1}}
}

// beforeRelease finds out what a Release does to the plan beside what it moves: it shows that its author is alive, and so
// lets a newer namesake of it take part.
func (s *simulation) beforeRelease(rec *lease.Record) {
	c := &s.ref.moved
	w := s.ref.world.Clone()
	beat := lease.Record{Kind: lease.KindHeartbeat, Version: rec.Version, Instance: rec.Instance, Seq: rec.Seq, Offset: rec.Offset}
	w.Apply(&beat, nil)
	before := c.open
	after := moveCount{}
	after.read(policy.Compute(w))
	c.revived = max(0, after.open-before)
}

// haunted tells whether the world still has somebody who is not there, or two of one client id: a plan that gives shares to the dead,
// or to one namesake for as long as the other is there, may want more when some of it is done. Where all are there and each has
// a name of its own, what is done of a plan is done.
func (s *simulation) haunted() bool {
	clients := map[string]bool{}
	for i := range s.ref.world.Instances() {
		a := s.byID[i.ID]
		if a == nil || a.over || a.id != i.ID || clients[i.Client] {
			return true
		}
		clients[i.Client] = true
	}
	return false
}

// limited tells whether some interest of the agent has a maximum.
func (a *agent) limited() bool {
	return slices.ContainsFunc(a.plan.wanted.Interests, func(in lease.Interest) bool { return in.Max > 0 })
}

// noteMoves counts the moves of a record against the plan that it was decided by.
func (s *simulation) noteMoves(e *entry) {
	c := &s.ref.moved
	moved, pinned, planned := false, false, int64(0)
	for i := range s.ref.events {
		ev := &s.ref.events[i]
		if a := e.origin.by; ev.Kind != lease.HandedOver || a == nil || a.leaving || e.rec.Release.Unfit || !a.wantsKey(ev.Key) {
			continue // what is handed over otherwise is given up, not moved
		}
		if c.key[ev.Key] != ev.Instance && slices.Contains(c.plan.Overflow(e.rec.Instance), ev.Key) {
			continue // so is what its holder must not run, where the plan would rather have it wait until something else has gone
		}
		moved = true
		pinned = pinned || slices.Contains(s.ref.world.Instance(ev.Instance).Pinned, ev.Key)
		s.live.Moves++
		if c.key[ev.Key] == ev.Instance {
			planned++
		} else if c.since(e.origin.readTo, e.rec.Instance) {
			// Decided by a plan that had changed when the record came: it was for nothing, and is undone.
			s.live.MovesBound += 2
		}
	}
	plan := s.ref.planner.Plan(s.ref.world)
	if plan == c.plan {
		return
	}
	before := c.open
	news := c.read(plan)
	if len(news) > 0 || !moved {
		ch := change{offset: e.offset}
		if e.rec.Kind == lease.KindRelease && !pinned && c.revived == 0 && !s.haunted() {
			ch.known, ch.readTo = e.rec.Instance, e.origin.readTo
		}
		c.changes = append(c.changes, ch)
	}
	switch {
	case !moved:
		s.live.MovesBound += max(0, c.open-before)
	case pinned || s.haunted():
		// What came to somebody who claims it by hand is in nobody's share any more: the shares of the rest are others.
		s.live.MovesBound += max(0, c.open-(before-planned))
	default:
		s.live.MovesBound += c.revived
		for _, mv := range news {
			if a := e.origin.by; mv.To == a.id && a.limited() {
				s.live.MovesBound++ // it had no room for what it should have
			}
		}
	}
	if s.live.Moves > s.live.MovesBound && !s.lost && !s.upgrade {
		s.fail("L2", "@%d: since the end of all faults %d keys were moved, and the plans needed %d", e.offset, s.live.Moves, s.live.MovesBound)
	}
}

// slowly is how long a duration takes by the slowest clock there is.
func slowly(d time.Duration) time.Duration { return d * 100 / 95 }

// wishUntil notes that an application will want something else at a time to come.
func (s *simulation) wishUntil(t time.Duration) { s.lastWish = max(s.lastWish, t) }

// bounds is by when, from now on and without faults, every key is owned, and by when nothing moves any more. All that it is
// made of are numbers of the run and of the rules; where several things go on at once it takes them one after the other.
func (s *simulation) bounds() (owned, balanced time.Duration) {
	w := s.restWorld()
	trip, timeout := s.roundTrip()
	longest, shortest := s.maxTTL, s.maxTTL
	reclaims := false
	for i := range w.Instances() {
		longest = max(longest, i.TTL) // of the parked: their grace
		shortest = min(shortest, i.TTL)
	}
	for _, a := range s.agents {
		if a.leaving {
			longest = max(longest, 4*s.ttl) // it may park
		}
		reclaims = reclaims || a.plan.wanted.FastReclaim
	}

	// What was written before the end of the faults may arrive as late as the slowest link allows, and what was lost then is
	// written again when its time is over.
	owned = max(s.ttl*5/4, s.maxTTL) + timeout
	owned += s.readiness(longest) + s.backlog()
	// Who is dead is evicted when it was silent for its ttl. Where ttls differ, those whose heartbeats are too rare to tell
	// of a short one count only when those before them in its order are known to be dead themselves.
	death := slowly(longest)
	if shortest < longest {
		death *= 2
	}
	death += time.Duration(len(s.agents)) * 50 * time.Millisecond
	owned += max(death, s.lastWish-s.now)
	// Then what it held is claimed: at once by the first in turn, a turn later by each further one, a second later by one
	// who was refused; by a namesake that reclaims after its probe of a second. What was a namesake's, or is parked for one, is
	// kept for 5 s for consumers to come.
	turn := max(slowly(3*trip), 50*time.Millisecond)
	owned += time.Duration(len(s.agents))*turn + slowly(time.Second)
	if reclaims {
		owned += slowly(time.Second)
	}
	if reclaims || s.inherits(w) {
		owned += slowly(5 * time.Second)
	}
	// Who gave a key up takes it again a minute later at most.
	if s.marked(w) {
		owned += slowly(time.Minute)
	}
	// A leaver, and one who has to let go, drains first; each step is a record written and read.
	owned += s.drainTime() + 6*trip + s.look()

	// A move waits until membership was still, for four intervals at most, and for two heartbeats of its successor; a drain
	// is as long as it may be.
	interval := slowly(s.maxTTL / 5 * 11 / 10)
	balanced = owned + 4*interval + 2*interval + s.drainTime() + 4*trip + s.look()
	return owned, balanced
}

// roundTrip is how long it takes at most to write a record and read it back, behind others of the same burst, and how long
// until a lost request is made again.
func (s *simulation) roundTrip() (trip, timeout time.Duration) {
	var way time.Duration
	burst := 1
	for _, p := range s.procs {
		way = max(way, p.link.high+p.lateness())
		timeout = max(timeout, p.timeout)
		for i := range p.plan {
			if b := p.plan[i].maxBytes; b > 0 {
				burst = max(burst, 2+s.keys*60/b)
			}
		}
	}
	return time.Duration(2*burst+4) * way, timeout
}

// drainTime is how long a drain takes at most, and until its end is noticed.
func (s *simulation) drainTime() time.Duration {
	d := s.drainTimeout
	for _, p := range s.procs {
		d = max(d, s.drainTimeout+p.appEvery)
	}
	return d
}

// backlog is how long it takes the one who is furthest behind to read on.
func (s *simulation) backlog() (d time.Duration) {
	for _, p := range s.procs {
		if p.phase == following || p.phase == beginning {
			behind := len(s.log.entries) - s.log.index(p.cursor)
			d = max(d, time.Duration(behind/p.batch+1)*2*p.link.high)
		}
	}
	return d
}

// readiness is how long it takes those to have a world that have none: to look for a base, to wait for silence where there is
// none, and before both to wait a ttl where they dropped what they had.
func (s *simulation) readiness(longest time.Duration) (d time.Duration) {
	silence := time.Duration(0)
	if s.log.start > 0 {
		silence = slowly(lease.MaxTTL+2*time.Second) + s.slowAppend
	}
	nobody := true
	for _, p := range s.procs {
		scan := p.timeout + 12*p.link.high
		switch {
		case p.phase == dead:
			continue
		case p.phase == waiting:
			d = max(d, slowly(longest)+scan+silence)
		case p.phase == beginning:
			d = max(d, silence)
		case p.phase == scanning || !p.ready:
			d = max(d, scan+silence)
		}
		nobody = false
	}
	if nobody {
		d = time.Second + silence
	}
	if s.lost {
		d += 3*longest + slowly(lease.MaxTTL+10*time.Second) // who finds out that the log lost records drops its world
	}
	return d
}

// look is how often it is looked whether all have come to rest.
func (s *simulation) look() time.Duration { return s.ttl/8 + 20*time.Millisecond }

// rearm gives the run time anew: something that a fault had left behind has shown only now.
func (s *simulation) rearm() {
	if !s.quiet {
		return
	}
	owned, balanced := s.bounds()
	s.live.OwnedBound = max(s.live.OwnedBound, s.now-s.calmAt+owned)
	s.live.BalancedBound = max(s.live.BalancedBound, s.now-s.calmAt+balanced)
}

// rest looks again and again whether every key is owned (L1), whether everybody has come to rest (L2), and then whether it
// stays like this. since is when it last became true, moves how many Claims and Releases there were then.
func (s *simulation) rest(since time.Duration, moves int64) {
	s.after(s.look(), func() {
		if !slices.ContainsFunc(s.procs, func(p *process) bool { return p.phase != dead }) {
			pick(s, s.procs).start() // the last ones have left
			s.rearm()
		}
		l := &s.live
		if unrest := s.unrest(true); unrest != "" {
			if l.Owned = s.now - s.calmAt; l.Owned > l.OwnedBound {
				s.fail("L1", "after %s without faults, and within %s: %s", l.Owned, l.OwnedBound, unrest)
			}
		}
		unrest := s.unrest(false)
		if unrest != "" || s.ref.moves != moves {
			if l.Balanced = s.now - s.calmAt; l.Balanced > l.BalancedBound {
				if unrest == "" {
					unrest = "there are still Claims and Releases"
				}
				s.fail("L2", "after %s without faults, and within %s: %s", l.Balanced, l.BalancedBound, unrest)
			}
			s.rest(s.now, s.ref.moves)
			return
		}
		if s.now-max(since, s.lastWish) < 2*s.maxTTL+time.Second {
			s.rest(since, moves)
			return
		}
		s.checkBalance()
		s.settled = true
	})
}

// inherits tells whether somebody is the heir of a client id: of its earlier run, which parked, or of a namesake who leaves.
func (s *simulation) inherits(w *lease.World) bool {
	clients := map[string]bool{}
	for i := range w.Instances() {
		if i.Status != lease.Ended && clients[i.Client] {
			return true
		}
		clients[i.Client] = clients[i.Client] || i.Status != lease.Ended
	}
	return false
}

// marked tells whether somebody is marked unfit for some key.
func (s *simulation) marked(w *lease.World) bool {
	for _, t := range s.topics {
		for n := lease.WholeTopic; n < t.count; n++ {
			if w.HasMark(lease.Key{Topic: t.name, Partition: n}) {
				return true
			}
		}
	}
	return false
}
