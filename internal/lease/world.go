package lease

import (
	"iter"
	"time"
)

// Status of an instance.
type Status uint8

// The statuses (PROTOCOL.md §1).
const (
	Alive Status = iota + 1 // "joined" in PROTOCOL.md: known and neither ended nor parked
	IsParked
	Ended
)

// Instance is what the world knows of one instance. Read only for everybody but Apply.
type Instance struct {
	ID           InstanceID
	Client, Host string
	TTL          time.Duration // clamped; of a parked one max(ttl, grace)
	MaxVersion   uint8
	Status       Status
	Seq          uint64
	FirstJoin    int64 // offset of its first Join
	Renewed      int64 // offset of the newest record of it that Apply took
	EndedAt      int64 // offset, when Status is Ended
	Interests    []Interest
	Pinned       []Key
	Load         Load  // as it last said; display only
	RenewedTime  int64 // broker's timestamp of Renewed, Unix ms; display only, no part of the world's value
}

// Lease is the fact that Instance holds a key.
type Lease struct {
	Instance InstanceID
	Epoch    int64
}

// Progress is what is known of a partition, whoever holds it.
type Progress struct {
	TopicID  TopicID
	Next     int64 // next offset to read; NoProgress when nothing is known
	Replaced []TopicID
	Client   string // the last owner's client id
	Epoch    int64  // and its epoch
}

// NoProgress is the Next of a partition of which nothing is known but its last owner.
const NoProgress int64 = -1

// World is the state that the records of one group produce, applied in order. It is not safe for concurrent use.
type World struct{}

// NewWorld makes the empty world of a group. topicID is that of the coordination topic.
func NewWorld(topicID TopicID) *World { panic("todo") }

// Apply applies one record and appends what it did to events. It never fails and never panics. Records must come in the
// order of their offsets; it keeps nothing of rec (slices are copied).
func (w *World) Apply(rec *Record, events []Event) []Event { panic("todo") }

// Last is the offset of the group's newest record applied; -1: none.
func (w *World) Last() int64 { panic("todo") }

// TokenBase is what every token of the group starts from; 0: not set yet.
func (w *World) TokenBase() int64 { panic("todo") }

// Version changes whenever membership, interests, leases or unfit marks change: what a plan depends on.
func (w *World) Version() uint64 { panic("todo") }

// TopicID is that of the coordination topic, as given to NewWorld.
func (w *World) TopicID() TopicID { panic("todo") }

// WireVersion is the highest version that everybody joined can read (at least 2).
func (w *World) WireVersion() uint8 { panic("todo") }

// Instance finds an instance, ended ones too while they are remembered; nil: unknown.
func (w *World) Instance(id InstanceID) *Instance { panic("todo") }

// Instances yields those that have not ended (alive and parked), in the order of FirstJoin.
func (w *World) Instances() iter.Seq[*Instance] { panic("todo") }

// Lease finds the lease on exactly this key.
func (w *World) Lease(k Key) (Lease, bool) { panic("todo") }

// Owner finds the lease that covers a partition: its own or its topic's.
func (w *World) Owner(topic string, partition int32) (Key, Lease, bool) { panic("todo") }

// Conflict finds a lease on k or on a key that conflicts with it.
func (w *World) Conflict(k Key) (Key, Lease, bool) { panic("todo") }

// Leases yields every lease, in the order of topic and partition.
func (w *World) Leases() iter.Seq2[Key, Lease] { panic("todo") }

// HeldBy yields the leases of one instance, in the order of topic and partition, without walking those of others.
func (w *World) HeldBy(id InstanceID) iter.Seq2[Key, Lease] { panic("todo") }

// HeldCount is how many leases an instance has.
func (w *World) HeldCount(id InstanceID) int { panic("todo") }

// Partitions is the world's partition count of a topic: the largest that an alive instance's newest Join states.
func (w *World) Partitions(topic string) int32 { panic("todo") }

// Progress finds what is known of a partition.
func (w *World) Progress(topic string, partition int32) (Progress, bool) { panic("todo") }

// AllProgress yields every partition of which something is known, in the order of topic and partition.
func (w *World) AllProgress() iter.Seq2[Key, Progress] { panic("todo") }

// Unfit tells whether (instance, key) is marked.
func (w *World) Unfit(id InstanceID, k Key) bool { panic("todo") }

// HasMark tells whether anybody is marked unfit for the key.
func (w *World) HasMark(k Key) bool { panic("todo") }

// Digest is a hash of the world's value, kept up incrementally: equal worlds have equal digests.
func (w *World) Digest() uint64 { panic("todo") }

// Clone makes an independent copy.
func (w *World) Clone() *World { panic("todo") }

// AppendBinary appends the canonical bytes of the world: equal worlds give equal bytes.
func (w *World) AppendBinary(b []byte) []byte { panic("todo") }

// ParseWorld reads canonical bytes back. It never panics, takes only what AppendBinary writes, and allocates in
// proportion to len(b).
func ParseWorld(b []byte) (*World, error) { panic("todo") }

// Rank orders instances for x by SHA-256(x, instance), largest first: the rendezvous order of PROTOCOL.md §1.
// ids is sorted in place.
func Rank(x []byte, ids []InstanceID) { panic("todo") }
