package lease

import "time"

// Status of an instance.
type Status uint8

// The statuses (PROTOCOL.md §1).
const (
	Alive Status = iota + 1 // "joined" in PROTOCOL.md: known and neither ended nor parked
	IsParked
	Ended
)

// Instance is what the world knows of one instance. Read only for everybody but Apply. Of an ended one only ID, Client,
// Status, FirstJoin and EndedAt are remembered; of a parked one no interests, pinned keys and load.
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

// instance is an Instance and what Apply finds through it.
type instance struct {
	Instance
	hash  uint64 // of the id
	size  int    // joinSize of its newest Join, while alive
	held  heldList
	marks []*slot // the keys that it is unfit for, in no order
	index int     // its place among the present; who uses it sets it first

	planSum, restSum, quietSum uint64 // what it adds to the digest, and to the version
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
	Client   string // the last owner's client id (of the partition or of its whole topic, the newer one); it may own it still
	Epoch    int64  // and its epoch; NoEpoch: nobody ever held it
}

// NoProgress is the Next of a partition of which nothing is known but its last owner.
const NoProgress int64 = -1

// World is the state that the records of one group produce, applied in order. It is not safe for concurrent use, and
// that goes for its readers too: some of them put an index in order first.
type World struct {
	topicID    TopicID
	last       int64
	tokenBase  int64
	keys       int   // slots of all topics
	marked     int   // unfit marks
	joins      int   // sum of the sizes of the alive
	partitions int64 // sum of the topics' counts

	instances map[InstanceID]*instance
	present   []*instance // alive and parked, in the order of FirstJoin
	ended     []*instance // in the order of EndedAt
	clients   map[string][]*instance
	versions  [256]int32 // how many of the alive can read at most this wire version

	wishes     map[uint64]*wish // by hashInterests
	topics     topicTable
	topicOrder []*topic              // by name; nil: to be made anew
	marks      map[*slot][]*instance // who is unfit for a key, in the order of FirstJoin

	planSum, restSum, quietSum uint64

	journal []grant  // scratch of an atomic Claim
	named   []naming // scratch of any record: which id it named for a topic
}

// NewWorld makes the empty world of a group. topicID is that of the coordination topic.
func NewWorld(topicID TopicID) *World {
	w := &World{topicID: topicID, last: -1}
	w.clear()
	return w
}

// clear leaves nothing but the topic id, the last offset and the token base.
func (w *World) clear() {
	*w = World{
		topicID: w.topicID, last: w.last, tokenBase: w.tokenBase,
		instances: map[InstanceID]*instance{}, clients: map[string][]*instance{},
		wishes: map[uint64]*wish{}, marks: map[*slot][]*instance{},
	}
}

// naming is the id that a record named for a topic.
type naming struct {
	topic *topic
	id    TopicID
}
