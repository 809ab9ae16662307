package lease

// The limits of a world's size. They are rules of the protocol like any other: everybody must refuse the same record, so
// a change of one is a new wire version. An honest group stays far below all of them; they are there so that nobody
// who can write to the topic can make the readers' memory grow without bound. A whole record over a limit is skipped
// like a malformed one, an entry over a limit like an entry that does not fit; both with reason TooMany.
const (
	MaxTopicName  = 249       // bytes of a topic's name: Kafka's own limit
	MaxLabel      = 1024      // bytes of a client id or a host label
	MaxJoinSize   = 1 << 20   // of one Join, as joinSize counts; a Join that fits a record stays below it
	MaxJoinsSize  = 256 << 20 // of the newest Joins of all alive instances together
	MaxInstances  = 10_000    // alive and parked ones
	MaxKeys       = 1 << 20   // keys with a lease, a last owner or progress; leases of one instance are among them
	MaxPartitions = 1 << 20   // the partition counts of all topics together
	MaxMarks      = 1 << 16   // unfit marks
	MaxReplaced   = 4         // replaced topic ids remembered per partition
)

// joinSize measures what the world keeps of a Join: its names, and a flat sum per name for what stands beside them.
func joinSize(client, host string, interests []Interest, pinned []Key) int {
	const perName = 32
	size := len(client) + len(host) + 2*perName
	for i := range interests {
		size += perName
		for _, t := range interests[i].Topics {
			size += len(t.Topic) + perName
		}
	}
	for _, k := range pinned {
		size += len(k.Topic) + perName
	}
	return size
}

func validTopic(name string) bool { return name != "" && len(name) <= MaxTopicName }

func (k Key) valid() bool { return validTopic(k.Topic) && k.Partition >= WholeTopic }

// malformed tells whether a record has values that no writer of ours ever writes. Those of single entries are looked
// at where the entry is applied; here is what makes all of the record unbelievable.
func malformed(rec *Record) bool {
	switch rec.Kind {
	case KindJoin:
		return malformedJoin(&rec.Join)
	case KindHeartbeat:
		for i := range rec.Heartbeat.Topics {
			t := &rec.Heartbeat.Topics[i]
			if len(t.Epochs) != len(t.Partitions) || len(t.Next) != len(t.Partitions) {
				return true
			}
		}
	case KindRelease, KindLeave:
		for i := range rec.Release.Keys {
			if k := &rec.Release.Keys[i]; len(k.Next) != len(k.Partitions) {
				return true
			}
		}
	}
	return false
}

func malformedJoin(j *Join) bool {
	if !validTokenBase(j.TokenBase) {
		return true
	}
	for i := range j.Interests {
		in := &j.Interests[i]
		if in.Max < 0 || in.Weight < 0 {
			return true
		}
		for _, t := range in.Topics {
			if !validTopic(t.Topic) || t.Partitions < 0 {
				return true
			}
		}
	}
	for _, k := range j.Pinned {
		if !k.valid() {
			return true
		}
	}
	return false
}

func validTokenBase(base int64) bool { return 0 <= base && base < MaxTokenBase }
