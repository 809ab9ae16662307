package lease

import (
	"encoding/hex"
	"time"
)

// InstanceID is the random id of one run of one Marshaler. It is made at start and never used again.
type InstanceID [16]byte

// TopicID is Kafka's id of a topic; the zero value means "unknown" and compares as equal to every other (Same).
type TopicID [16]byte

// IsZero tells whether the id is absent.
func (i InstanceID) IsZero() bool { return i == InstanceID{} }

// String gives the first eight hex digits, which is what people compare in a log.
func (i InstanceID) String() string { return hex.EncodeToString(i[:4]) }

// IsZero tells whether the topic id is unknown.
func (t TopicID) IsZero() bool { return t == TopicID{} }

// Same tells whether two topic ids may name one topic: equal, or one of them unknown.
func (t TopicID) Same(o TopicID) bool { return t == o || t.IsZero() || o.IsZero() }

func (t TopicID) String() string { return hex.EncodeToString(t[:]) }

// WholeTopic is the partition of a key that claims a whole topic.
const WholeTopic int32 = -1

// Key is what is claimed: one partition of a topic, or (Partition == WholeTopic) all of it.
type Key struct {
	Topic     string
	Partition int32
}

// Kind tells the records apart.
type Kind uint8

// The kinds of records (PROTOCOL.md §4). Foreign stands for a message of the group that is none of ours, or that
// could not be read: it moves World.Last and nothing else.
const (
	Foreign Kind = iota
	KindJoin
	KindHeartbeat
	KindClaim
	KindRelease
	KindLeave
	KindEvict
	KindDirective
	KindSnapshot
	KindBase
	KindProbe
	KindNewer // written in a newer wire version: author, seq and version are known, the content is not
)

// Record is one message of a shard, decoded. Offset and Timestamp come from Kafka; which of the pointed-to or
// embedded contents is meant is told by Kind, the others are to be ignored (a decoder reuses a Record and its slices).
type Record struct {
	Offset    int64 // Kafka's offset: the only clock of the protocol
	Timestamp int64 // the broker's, Unix ms; for display and for §7 a: Apply decides nothing by it
	Kind      Kind
	Version   uint8
	Instance  InstanceID
	Seq       uint64

	Join      Join
	Heartbeat Heartbeat
	Claim     Claim
	Release   Release // of KindRelease and KindLeave
	Leave     Leave   // of KindLeave, beside Release.Keys
	Evict     Evict
	Directive Directive
	Snapshot  Snapshot
	Base      Base
	Probe     Probe
}

// Join makes an instance (seq 1) or changes what it wants.
type Join struct {
	Client, Host string
	TTL          time.Duration // clamped by Apply to MinTTL..MaxTTL
	TopicID      TopicID       // of the coordination topic; zero: unknown
	MaxVersion   uint8         // the highest wire version that the author can read
	TokenBase    int64         // proposal, already shifted: max(author's Unix ms, largest timestamp seen + 1) << 20
	Interests    []Interest    // one per consumer
	Pinned       []Key         // claimed by hand, or kept for a restart: not balanced
}

// Interest is what one consumer of an instance wants.
type Interest struct {
	Topics []TopicInterest
	Whole  bool  // whole topics; else partitions
	Max    int32 // at most so many keys; 0: no limit
	Weight int32 // share in proportion to it; 0 counts as 1
	Greedy bool
}

// TopicInterest names a topic and how many partitions the author sees in it.
type TopicInterest struct {
	Topic      string
	Partitions int32
}

// Heartbeat renews its author and moves progress.
type Heartbeat struct {
	Topics    []TopicProgress
	Load      Load
	P         int64  // newest offset of the group that the author has applied; -1: none
	Hash      uint64 // rolling hash of the group's records up to P
	Announces bool   // a Snapshot of the world after this very record follows
}

// Load is for display only; it is no part of the plan.
type Load struct {
	InFlight int64
	Lag      int64
}

// TopicProgress holds the progress of one topic's partitions in parallel arrays of equal length.
type TopicProgress struct {
	Topic      string
	TopicID    TopicID
	Partitions []int32
	Epochs     []int64
	Next       []int64 // next offset to read
}

// Claim asks for keys.
type Claim struct {
	Keys   []Key
	Atomic bool
}

// Release gives keys up, each with the exact next offsets of its partitions.
type Release struct {
	Keys      []ReleasedKey
	Successor InstanceID // zero: none
	Unfit     bool
}

// ReleasedKey is one key of a Release or Leave.
type ReleasedKey struct {
	Key        Key
	Epoch      int64
	TopicID    TopicID
	Partitions []int32 // parallel to Next; of a partition's key exactly that partition, or none where nothing is known
	Next       []int64
}

// Leave ends its author, or parks it (Keep) for at most Grace.
type Leave struct {
	Keep  bool
	Grace time.Duration
}

// Evict declares instances dead.
type Evict struct {
	Targets  []Target
	Takeover bool
}

// Target names an instance and the renewal after which nothing was seen of it.
type Target struct {
	Instance InstanceID
	Renewed  int64
}

// DirectiveKind tells the directives apart.
type DirectiveKind uint8

// The directives (§8). Only Seek is built; a record with another kind is valid, renews its author and does nothing more.
const (
	DirectiveNone DirectiveKind = iota
	Seek
)

// Directive changes the world on an operator's word.
type Directive struct {
	Kind    DirectiveKind
	Key     Key // of a partition, or of a whole topic (each of its partitions then has the offset)
	TopicID TopicID
	Next    int64 // the next offset to read
	Epoch   int64 // the owner's epoch that must still be the key's; NoEpoch: whatever it is
}

// NoEpoch says that a Seek does not name an epoch.
const NoEpoch int64 = -1

// Snapshot is chunk Index of Count of the group's world after all records <= Upto.
type Snapshot struct {
	Upto         int64
	Author       InstanceID
	TopicID      TopicID
	Index, Count uint32
	Chunk        []byte
}

// Base starts the group's history afresh.
type Base struct {
	Seen      int64
	TokenBase int64
}

// Probe changes no world; it lets one who has not joined measure log-live time, and asks for a Snapshot.
type Probe struct {
	Nonce     uint64
	WantsBase bool
}

// Limits of PROTOCOL.md §1 and §3.
const (
	MinTTL       = 300 * time.Millisecond
	MaxTTL       = 30 * time.Second
	MaxGrace     = time.Hour
	MaxTokenBase = int64(1) << 62 // a token base at or above it is malformed
	MaxSeqJump   = uint64(1) << 32
	// EndedMemory is for how many offsets an ended instance is remembered.
	EndedMemory = 65536
	// WireVersion is the version that this code writes and the highest that it reads.
	WireVersion uint8 = 2
)
