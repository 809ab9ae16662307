// Package member is one instance's mind as a step machine (PROTOCOL.md §6). It sees no clock, no socket and no lock:
// time comes in as Now, what happened as events, and what is to be done goes out as Output.
//
// Every call does three things: it takes its input into the state, it lets settle do whatever that state and the time
// call for, and it says in Output.Wake when the time alone will call for more. Each activity has a due function that
// tells when it is to happen; settle acts on it and Wake is the smallest of them, so that the two cannot disagree.
//
// Whose part is where: trust.go our own records, what they prove, and deafness; heartbeat.go when and what to heartbeat;
// join.go what the world knows of our wishes; suspect.go the others' silence and eviction; reconcile.go what is to become
// of each key that we hold; claim.go free keys; handover.go drains and Releases; reclaim.go and park.go the last run of
// our client id; leave.go the end; read.go the events, and where an instance ends so that its process joins as a new one.
//
// What became of a record of our own is known when it, or a later one, is read back (trust.go). So nothing is a
// reply and nothing has a timeout: a wish stays in the state, beside the seq of the record that is to fulfil it, until
// the world agrees.
package member

import (
	"cmp"
	"math"
	"time"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// Now is three clocks of one machine, read together: monotonic (any origin), wall (since the Unix epoch) and boot (any
// origin; goes on while the machine is suspended; read on ticks only, elsewhere zero and then not looked at).
type Now struct{ Mono, Wall, Boot time.Duration }

// Never is the Wake of a member that has nothing more to do: so far off that clocks do not get there, and that it can
// still be reckoned with.
const Never = time.Duration(math.MaxInt64 / 4)

// Config is what a member is made with.
type Config struct {
	Instance        lease.InstanceID
	Client, Host    string
	Group           string        // the group's name: who announces a snapshot follows from it
	TTL, Heartbeat  time.Duration // the own settings; what counts is derived from the world (§1, §6). Default to 10 s, 2 s
	CommitInterval  time.Duration // positions that moved go out within it. Defaults to 1 s
	Seed            uint64        // of the jitter; zero: none
	LargestSeen     int64         // largest timestamp seen in the shard, Unix ms, for the token base
	MaxReleaseBytes int           // a record of any kind larger than this is split. Defaults to 512 KiB
}

// Shared is what the members of one group in one process have in common. The caller holds the group's lock.
type Shared struct {
	Log     *history.Log
	Planner *policy.Planner
}

// stage is how far the instance has come.
type stage uint8

const (
	joining stage = iota // its Join is not read back yet
	member               // it is in the world
	over                 // it has ended, or left
)

// Member is one instance's mind.
type Member struct {
	cfg Config
	s   *Shared

	stage stage
	now   time.Duration // Mono of the newest call
	tick  Now           // the newest reading of all three clocks, to know the boot clock between ticks
	rng   uint64
	pace  time.Duration // the heartbeat interval as computed from the world
	out   Output        // of the call that is being worked on

	own     own     // what we wrote and have not read back, and the trust that follows from what we have
	beat    beat    // when and what to heartbeat
	join    join    // what our Join says, and what it should say
	watch   watch   // the other instances, and for how long they were silent
	probe   probe   // is the namesake that was there before us alive?
	claims  claims  // what we run
	take    take    // free keys, and what we asked for
	seeks   []seek  // Seeks that are not read back
	leaving leaving // the wish to end
}

// New makes a member whose first output, of whatever call comes first, is its Join.
func New(cfg Config, s *Shared, now Now) *Member {
	cfg.TTL = cmp.Or(max(cfg.TTL, 0), 10*time.Second)
	cfg.TTL = min(max(cfg.TTL, lease.MinTTL), lease.MaxTTL)
	cfg.Heartbeat = cmp.Or(max(cfg.Heartbeat, 0), 2*time.Second)
	cfg.CommitInterval = cmp.Or(max(cfg.CommitInterval, 0), time.Second)
	cfg.MaxReleaseBytes = cmp.Or(max(cfg.MaxReleaseBytes, 0), 512<<10)
	m := &Member{cfg: cfg, s: s, now: now.Mono, rng: cfg.Seed}
	m.own.bound = cfg.MaxReleaseBytes
	m.beat.init()
	m.watch.init()
	m.claims.init()
	m.take.init()
	m.clocks(now)
	m.meet(now)
	s.Log.Own(cfg.Instance)
	return m
}

// Wanted is what the instance's consumers want at the moment.
type Wanted struct {
	Interests   []lease.Interest
	FastReclaim bool          // some consumer has the option
	Pinned      []lease.Key   // claimed by hand: run them, unbalanced
	Kept        []lease.Key   // of a consumer that ended with Terminate(false): held, unread
	KeptUntil   time.Duration // Mono; when it is past, Kept is forgotten
}

// Position is how far the application has finished a partition.
type Position struct {
	Key     lease.Key // a partition
	TopicID lease.TopicID
	Epoch   int64
	Next    int64 // lowest offset not finished
}

// ActionKind tells the actions apart.
type ActionKind uint8

// What a member tells its process to do with a claim. They are to be obeyed in order; gates are moved under the lock.
// A key that only changes between read and unread, or between claimed by hand and by an interest, is finished and started
// again, under the same epoch.
const (
	Start  ActionKind = iota + 1 // run the key with this epoch, from the world's progress
	Drain                        // stop handing out; when nothing is in flight (or after DrainTimeout) call Drained
	Stop                         // it is not ours any more, or not under this epoch: ErrClaimLost for what is in flight
	Finish                       // it is released as we wanted (hand-over confirmed), or only kept from now on: forget it
	Resume                       // a Drain came to nothing: hand out again, same epoch, from where it was
)

// Action is one of them.
type Action struct {
	Kind   ActionKind
	Key    lease.Key
	Epoch  int64
	Reason string // for the log line of a Stop; ended by what, whose it is now
	Unread bool   // Start of a key that is only kept: do not fetch
}

// NoticeKind tells what an operator should hear of.
type NoticeKind uint8

// The notices.
const (
	ClientInUse   NoticeKind = iota + 1 // another living instance has our client id
	UpgradeNeeded                       // a newer version is written in the group: comes with Ended, and joining again is no use
	Deaf                                // what we wrote was acknowledged and is not read back
	Rejoining                           // our instance has ended against our will; Other ended it
	JoinRefused                         // our Join is too large for the log: what we want is not known to the others
)

// Notice is one of them.
type Notice struct {
	Kind  NoticeKind
	Other lease.InstanceID
}

// Append is a record to append; Acked and Rejected take its seq.
type Append struct {
	Record lease.Record
}

// Output is what is to be done now.
type Output struct {
	Appends []Append // in this order, after those given before
	Actions []Action // in this order, before the lock is given back
	Notices []Notice
	Wake    time.Duration // Mono at which Tick is wanted; always set
	Reopen  bool          // deaf: open the reading side anew
	Ended   bool          // this instance is over, not by its own Leave: stop everything; make a new member unless it was leaving
	Left    bool          // our Leave was read back: the wish of Leave is fulfilled
}

// Step takes the events of the records just applied (one batch). The world is as after all of them.
func (m *Member) Step(events []lease.Event, now Now) Output {
	if m.stage == over {
		return m.done()
	}
	m.clocks(now)
	now.Mono = m.now
	m.read(events, now)
	return m.settle(now)
}

// Tick takes the time.
func (m *Member) Tick(now Now) Output {
	if m.stage == over {
		return m.done()
	}
	m.clocks(now)
	m.claims.linger = false
	m.awaken(now)
	return m.settle(now)
}

// Positions reports how far the application is; only what changed needs to be given.
func (m *Member) Positions(ps []Position, load lease.Load, now Now) Output {
	if m.stage == over {
		return m.done()
	}
	m.clocks(now)
	m.beat.load = load
	for _, p := range ps {
		m.report(p)
	}
	return m.settle(now)
}

// Flush asks for a heartbeat at once with all positions reported so far.
func (m *Member) Flush(now Now) Output {
	if m.stage == over {
		return m.done()
	}
	m.clocks(now)
	m.beat.at = m.now
	return m.settle(now)
}

// Instance is the member's id.
func (m *Member) Instance() lease.InstanceID { return m.cfg.Instance }

// clocks notes the time. Callers read the clock before they take the group's lock, so that it may step back a little
// from one call to the next: the newest counts.
func (m *Member) clocks(now Now) {
	m.now = max(m.now, now.Mono)
	if now.Boot != 0 {
		m.tick = now
	}
}

// settle does whatever the state and the time call for.
func (m *Member) settle(now Now) Output {
	now.Mono = m.now
	switch m.stage {
	case joining:
		m.listen()
		m.enter(now)
	case member:
		if m.watch.paced != m.watch.turn {
			m.pace, m.watch.paced = m.interval(), m.watch.turn
		}
		if m.listen(); m.stage == over {
			return m.done()
		}
		m.judge()
		m.reconcile(now)
		m.depart(now)
		m.takeOver(now)
		m.evict(now)
		m.pulse(now)
	}
	if m.stage == over {
		return m.done()
	}
	m.out.Wake = m.wake()
	return m.give()
}

// wake is when the time alone will call for something.
func (m *Member) wake() time.Duration {
	if m.stage == joining {
		return min(m.deafDue(), m.enterDue())
	}
	w := min(m.deafDue(), m.reconcileDue(), m.departDue(), m.takeOverDue(), m.evictDue(), m.pulseDue())
	if m.claims.linger {
		w = min(w, m.now)
	}
	return w
}

func (m *Member) done() Output {
	m.out.Wake = Never
	return m.give()
}

func (m *Member) give() Output {
	out := m.out
	m.out = Output{}
	return out
}

func (m *Member) act(a Action)        { m.out.Actions = append(m.out.Actions, a) }
func (m *Member) notice(n Notice)     { m.out.Notices = append(m.out.Notices, n) }
func (m *Member) world() *lease.World { return m.s.Log.World() }

// self is our instance in the world; nil before our Join is read.
func (m *Member) self() *lease.Instance { return m.world().Instance(m.cfg.Instance) }

// random is splitmix64: the jitter must be the same in every run of one seed.
func (m *Member) random() uint64 {
	m.rng += 0x9e3779b97f4a7c15
	z := m.rng
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}
