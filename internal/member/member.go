// Package member is one instance's mind as a step machine (PROTOCOL.md §6). It sees no clock, no socket and no lock:
// time comes in as Now, what happened as events, and what is to be done goes out as Output.
package member

import (
	"time"

	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// Now is three clocks of one machine, read together: monotonic (any origin), wall (since the Unix epoch) and boot (any
// origin; goes on while the machine is suspended; read on ticks only, elsewhere zero and then not looked at).
type Now struct{ Mono, Wall, Boot time.Duration }

// Config is what a member is made with.
type Config struct {
	Instance        lease.InstanceID
	Client, Host    string
	TTL, Heartbeat  time.Duration // the own settings; what counts is derived from the world (§1, §6)
	CommitInterval  time.Duration // positions that moved go out within it
	RestartGrace    time.Duration
	Seed            uint64 // of the jitter
	LargestSeen     int64  // largest timestamp seen in the shard, Unix ms, for the token base
	MaxReleaseBytes int    // reserved: 512 KiB when 0
}

// Shared is what the members of one group in one process have in common. The caller holds the group's lock.
type Shared struct {
	Log     *history.Log
	Planner *policy.Planner
}

// Member is one instance's mind.
type Member struct{}

// New makes a member whose first output is its Join.
func New(cfg Config, s *Shared, now Now) *Member { panic("todo") }

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
const (
	Start  ActionKind = iota + 1 // run the key with this epoch, from the world's progress
	Drain                        // stop handing out; when nothing is in flight (or after DrainTimeout) call Drained
	Stop                         // it is not ours any more, or not under this epoch: ErrClaimLost for what is in flight
	Finish                       // it is released as we wanted (hand-over confirmed): forget it
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
	UpgradeNeeded                       // a newer version is written in the group
	Deaf                                // what we wrote was acknowledged and is not read back
	Rejoining                           // our instance has ended against our will
)

// Notice is one of them.
type Notice struct {
	Kind  NoticeKind
	Other lease.InstanceID
}

// Append is a record to append. ID counts this member's appends; Acked takes it.
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
	Ended   bool          // this instance is over: stop everything; make a new member unless Leaving
	Left    bool          // our Leave was read back: the wish of Leave is fulfilled
}

// Step takes the events of the records just applied (one batch). The world is as after all of them.
func (m *Member) Step(events []lease.Event, now Now) Output { panic("todo") }

// Tick takes the time.
func (m *Member) Tick(now Now) Output { panic("todo") }

// Want changes what is wanted.
func (m *Member) Want(w Wanted, now Now) Output { panic("todo") }

// Positions reports how far the application is; only what changed needs to be given.
func (m *Member) Positions(ps []Position, load lease.Load, now Now) Output { panic("todo") }

// Flush asks for a heartbeat at once with all positions reported so far.
func (m *Member) Flush(now Now) Output { panic("todo") }

// Drained answers a Drain: nothing more is in flight, and these are the exact next offsets (one per partition known).
func (m *Member) Drained(k lease.Key, epoch int64, topicID lease.TopicID, ps []Position, now Now) Output {
	panic("todo")
}

// GiveUp asks to hand k to somebody fitter (StallTimeout): drain, then Release with unfit.
func (m *Member) GiveUp(k lease.Key, epoch int64, now Now) Output { panic("todo") }

// Seek sets the progress of a key that we hold, or of a free one. If epoch is NoEpoch it counts whatever the epoch is.
func (m *Member) Seek(k lease.Key, topicID lease.TopicID, next, epoch int64, now Now) Output {
	panic("todo")
}

// Leave ends the instance: everything is drained and handed over first, then Leave is written. keep parks it instead:
// nothing is handed over, its keys stay leased for grace.
func (m *Member) Leave(keep bool, grace time.Duration, now Now) Output { panic("todo") }

// Abandon gives up what a Leave still waits for: writes Leave with what is known at once.
func (m *Member) Abandon(now Now) Output { panic("todo") }

// Acked says that the append of our record with this seq was acknowledged.
func (m *Member) Acked(seq uint64, now Now) Output { panic("todo") }

// Rejected says that our record with this seq was refused for good: too large (a heartbeat is followed by an empty one).
func (m *Member) Rejected(seq uint64, now Now) Output { panic("todo") }

// Instance is the member's id.
func (m *Member) Instance() lease.InstanceID { panic("todo") }

// Trust is until when the instance may act on its leases: hand-out is allowed while now is before it on each clock
// (Boot only where it was read). Zero: not at all.
func (m *Member) Trust() Now { panic("todo") }

// HandsOut tells whether a message of k may be handed out now, and under which epoch: trust, the world's lease, no
// Release on its way, not draining, not only kept.
func (m *Member) HandsOut(k lease.Key, now Now) (epoch int64, ok bool) { panic("todo") }

// Running lists the keys that the member has started and not stopped or finished, for displays and tests.
func (m *Member) Running() []lease.Key { panic("todo") }

// LiveTime is the log-live time since we read the newest renewal of t (display and tests).
func (m *Member) LiveTime(t lease.InstanceID) time.Duration { panic("todo") }

// Clone makes an independent copy that works on s.
func (m *Member) Clone(s *Shared) *Member { panic("todo") }

// AppendBinary appends a canonical form of the member's whole state (for the explorer).
func (m *Member) AppendBinary(b []byte) []byte { panic("todo") }
