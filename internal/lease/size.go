package lease

// What a field costs at most in the wire format: a tag of two bytes, a number of ten, a length of five.
const (
	tagSize    = 2
	numberSize = tagSize + 10
	lengthSize = tagSize + 5
	idSize     = lengthSize + 16
)

func stringSize(s string) int { return lengthSize + len(s) }

func (k *Key) sizeBound() int { return lengthSize + stringSize(k.Topic) + numberSize }

// packedSize is the most that n numbers in one packed field take.
func packedSize(n int) int { return lengthSize + 10*n }

// SizeBound is an upper bound of the record's encoded size in bytes, cheap and generous: a writer splits a record when the
// bound, not the size, passes the limit.
func (r *Record) SizeBound() int {
	// Header, author, seq, version and the frame of the content.
	size := 2 + idSize + 2*numberSize + lengthSize
	switch r.Kind {
	case KindJoin:
		return size + r.Join.sizeBound()
	case KindHeartbeat:
		return size + r.Heartbeat.sizeBound()
	case KindClaim:
		size += numberSize
		for i := range r.Claim.Keys {
			size += r.Claim.Keys[i].sizeBound()
		}
	case KindRelease, KindLeave:
		size += idSize + 3*numberSize
		for i := range r.Release.Keys {
			k := &r.Release.Keys[i]
			size += lengthSize + k.Key.sizeBound() + numberSize + idSize + packedSize(len(k.Partitions)) + packedSize(len(k.Next))
		}
	case KindEvict:
		size += numberSize + len(r.Evict.Targets)*(lengthSize+idSize+numberSize)
	case KindDirective:
		size += 4*numberSize + r.Directive.Key.sizeBound() + idSize
	case KindSnapshot:
		size += 3*numberSize + 2*idSize + lengthSize + len(r.Snapshot.Chunk)
	case KindBase, KindProbe:
		size += 2 * numberSize
	}
	return size
}

func (j *Join) sizeBound() int {
	size := stringSize(j.Client) + stringSize(j.Host) + 3*numberSize + idSize
	for i := range j.Interests {
		size += lengthSize + 4*numberSize
		for _, t := range j.Interests[i].Topics {
			size += lengthSize + stringSize(t.Topic) + numberSize
		}
	}
	for i := range j.Pinned {
		size += j.Pinned[i].sizeBound()
	}
	return size
}

func (h *Heartbeat) sizeBound() int {
	size := lengthSize + 5*numberSize
	for i := range h.Topics {
		t := &h.Topics[i]
		size += lengthSize + stringSize(t.Topic) + idSize + packedSize(len(t.Partitions)) + packedSize(len(t.Epochs)) + packedSize(len(t.Next))
	}
	return size
}
