package marshal

import (
	"math"
	"time"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kafka-marshal/marshal/internal/lease"
)

const (
	maxTopicName = 249  // Kafka's limit, in bytes
	maxInterned  = 4096 // names that a decoder remembers, of all topics that a shard's groups ever named
)

// decoder decodes the records of a shard. The zero value is ready. Not safe for concurrent use.
type decoder struct {
	topics map[string]string // every name of a topic once, so that a heartbeat costs no allocation
}

// decode fills rec from the value of a message and never fails: what cannot be read whole is Foreign, and a record of a
// newer version is KindNewer with its Instance, Seq and Version. Offset and Timestamp are left as they are. Nothing in
// rec points into value; its slices are used again, so what is to outlive the next decode must be copied.
func (d *decoder) decode(value []byte, rec *lease.Record) {
	if !d.record(value, rec) {
		rec.Kind, rec.Version, rec.Instance, rec.Seq = lease.Foreign, 0, lease.InstanceID{}, 0
	}
}

func (d *decoder) record(value []byte, rec *lease.Record) bool {
	if len(value) < headerLen || value[0] != headerMark || value[1] < firstVersion {
		return false
	}
	rec.Kind, rec.Version, rec.Instance, rec.Seq = lease.Foreign, value[1], lease.InstanceID{}, 0
	newer := rec.Version > lease.WireVersion
	var content []byte
	for b := value[headerLen:]; len(b) > 0; {
		f, ok := nextField(&b)
		if !ok {
			return false
		}
		switch f.tag {
		case tagInstance:
			ok = readID(f.data, &rec.Instance)
		case tagSeq:
			rec.Seq = f.v
		default:
			kind := contentKind(f.tag)
			if kind == lease.Foreign || newer {
				continue
			}
			ok = rec.Kind == lease.Foreign
			rec.Kind, content = kind, f.data
		}
		if !ok {
			return false
		}
	}
	if newer {
		rec.Kind = lease.KindNewer
	}
	if hasAuthor(rec.Kind) && (rec.Instance.IsZero() || rec.Seq == 0) {
		return false
	}
	return newer || d.content(content, rec)
}

func (d *decoder) content(b []byte, rec *lease.Record) bool {
	switch rec.Kind {
	case lease.KindJoin:
		return d.join(b, &rec.Join)
	case lease.KindHeartbeat:
		return d.heartbeat(b, &rec.Heartbeat)
	case lease.KindClaim:
		return d.claim(b, &rec.Claim)
	case lease.KindRelease:
		return d.release(b, &rec.Release)
	case lease.KindLeave:
		return d.leave(b, &rec.Release, &rec.Leave)
	case lease.KindEvict:
		return d.evict(b, &rec.Evict)
	case lease.KindDirective:
		return d.directive(b, &rec.Directive)
	case lease.KindSnapshot:
		return d.snapshot(b, &rec.Snapshot)
	case lease.KindBase:
		return d.base(b, &rec.Base)
	case lease.KindProbe:
		return d.probe(b, &rec.Probe)
	}
	return false
}

func (d *decoder) join(b []byte, j *lease.Join) bool {
	*j = lease.Join{Interests: j.Interests[:0], Pinned: j.Pinned[:0]}
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return false
		}
		switch f.tag {
		case tagJoinClient:
			j.Client, ok = string(f.data), utf8.Valid(f.data)
		case tagJoinHost:
			j.Host, ok = string(f.data), utf8.Valid(f.data)
		case tagJoinTTL:
			ok = readDuration(f.v, &j.TTL)
		case tagJoinTopicID:
			ok = readID(f.data, &j.TopicID)
		case tagJoinMaxVersion:
			j.MaxVersion, ok = uint8(f.v), f.v <= math.MaxUint8
		case tagJoinTokenBase:
			ok = readTokenBase(f.v, &j.TokenBase)
		case tagJoinInterests:
			j.Interests = extend(j.Interests)
			ok = d.interest(f.data, &j.Interests[len(j.Interests)-1])
		case tagJoinPinned:
			j.Pinned, ok = d.key(f.data, j.Pinned)
		}
		if !ok {
			return false
		}
	}
	return true
}

func (d *decoder) interest(b []byte, in *lease.Interest) bool {
	*in = lease.Interest{Topics: in.Topics[:0]}
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return false
		}
		switch f.tag {
		case tagInterestTopics:
			in.Topics = append(in.Topics, lease.TopicInterest{})
			ok = d.topicInterest(f.data, &in.Topics[len(in.Topics)-1])
		case tagInterestWhole:
			in.Whole = f.v != 0
		case tagInterestMax:
			ok = readNatural(f.v, &in.Max)
		case tagInterestWeight:
			ok = readNatural(f.v, &in.Weight)
		case tagInterestGreedy:
			in.Greedy = f.v != 0
		}
		if !ok {
			return false
		}
	}
	return true
}

func (d *decoder) topicInterest(b []byte, t *lease.TopicInterest) bool {
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return false
		}
		switch f.tag {
		case tagTopicInterestTopic:
			t.Topic, ok = d.topic(f.data)
		case tagTopicInterestPartitions:
			ok = readNatural(f.v, &t.Partitions)
		}
		if !ok {
			return false
		}
	}
	return t.Topic != ""
}

func (d *decoder) heartbeat(b []byte, h *lease.Heartbeat) bool {
	*h = lease.Heartbeat{Topics: h.Topics[:0], P: -1}
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return false
		}
		switch f.tag {
		case tagHeartbeatTopics:
			h.Topics = extend(h.Topics)
			ok = d.progress(f.data, &h.Topics[len(h.Topics)-1])
		case tagHeartbeatInFlight:
			h.Load.InFlight = int64(f.v)
		case tagHeartbeatLag:
			h.Load.Lag = int64(f.v)
		case tagHeartbeatP:
			ok = readNatural(f.v, &h.P)
		case tagHeartbeatHash:
			h.Hash = f.v
		case tagHeartbeatAnnounces:
			h.Announces = f.v != 0
		}
		if !ok {
			return false
		}
	}
	return true
}

func (d *decoder) progress(b []byte, p *lease.TopicProgress) bool {
	*p = lease.TopicProgress{Partitions: p.Partitions[:0], Epochs: p.Epochs[:0], Next: p.Next[:0]}
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return false
		}
		switch f.tag {
		case tagProgressTopic:
			p.Topic, ok = d.topic(f.data)
		case tagProgressTopicID:
			ok = readID(f.data, &p.TopicID)
		case tagProgressPartitions:
			p.Partitions, ok = readPacked(f.data, p.Partitions)
		case tagProgressEpochs:
			p.Epochs, ok = readPacked(f.data, p.Epochs)
		case tagProgressNext:
			p.Next, ok = readPacked(f.data, p.Next)
		default:
			ok = !unpacked(f.tag, tagProgressPartitions, tagProgressEpochs, tagProgressNext)
		}
		if !ok {
			return false
		}
	}
	return p.Topic != "" && len(p.Epochs) == len(p.Partitions) && len(p.Next) == len(p.Partitions)
}

func (d *decoder) claim(b []byte, c *lease.Claim) bool {
	*c = lease.Claim{Keys: c.Keys[:0]}
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return false
		}
		switch f.tag {
		case tagClaimKeys:
			c.Keys, ok = d.key(f.data, c.Keys)
		case tagClaimAtomic:
			c.Atomic = f.v != 0
		}
		if !ok {
			return false
		}
	}
	return true
}

// key appends one key.
func (d *decoder) key(b []byte, keys []lease.Key) ([]lease.Key, bool) {
	var k lease.Key
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return keys, false
		}
		switch f.tag {
		case tagKeyTopic:
			k.Topic, ok = d.topic(f.data)
		case tagKeyPartition:
			ok = readPartition(f.v, &k.Partition)
		}
		if !ok {
			return keys, false
		}
	}
	return append(keys, k), k.Topic != ""
}

func (d *decoder) release(b []byte, r *lease.Release) bool {
	*r = lease.Release{Keys: r.Keys[:0]}
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return false
		}
		switch f.tag {
		case tagReleaseKeys:
			r.Keys = extend(r.Keys)
			ok = d.released(f.data, &r.Keys[len(r.Keys)-1])
		case tagReleaseSuccessor:
			ok = readID(f.data, &r.Successor)
		case tagReleaseUnfit:
			r.Unfit = f.v != 0
		}
		if !ok {
			return false
		}
	}
	return true
}

func (d *decoder) leave(b []byte, r *lease.Release, l *lease.Leave) bool {
	*r, *l = lease.Release{Keys: r.Keys[:0]}, lease.Leave{}
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return false
		}
		switch f.tag {
		case tagLeaveKeys:
			r.Keys = extend(r.Keys)
			ok = d.released(f.data, &r.Keys[len(r.Keys)-1])
		case tagLeaveKeep:
			l.Keep = f.v != 0
		case tagLeaveGrace:
			ok = readDuration(f.v, &l.Grace)
		}
		if !ok {
			return false
		}
	}
	return true
}

func (d *decoder) released(b []byte, k *lease.ReleasedKey) bool {
	*k = lease.ReleasedKey{Partitions: k.Partitions[:0], Next: k.Next[:0]}
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return false
		}
		switch f.tag {
		case tagReleasedTopic:
			k.Key.Topic, ok = d.topic(f.data)
		case tagReleasedPartition:
			ok = readPartition(f.v, &k.Key.Partition)
		case tagReleasedEpoch:
			ok = readNatural(f.v, &k.Epoch)
		case tagReleasedTopicID:
			ok = readID(f.data, &k.TopicID)
		case tagReleasedPartitions:
			k.Partitions, ok = readPacked(f.data, k.Partitions)
		case tagReleasedNext:
			k.Next, ok = readPacked(f.data, k.Next)
		default:
			ok = !unpacked(f.tag, tagReleasedPartitions, tagReleasedNext)
		}
		if !ok {
			return false
		}
	}
	return k.Key.Topic != "" && len(k.Next) == len(k.Partitions)
}

func (d *decoder) evict(b []byte, e *lease.Evict) bool {
	*e = lease.Evict{Targets: e.Targets[:0]}
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return false
		}
		switch f.tag {
		case tagEvictTargets:
			e.Targets = append(e.Targets, lease.Target{})
			ok = d.target(f.data, &e.Targets[len(e.Targets)-1])
		case tagEvictTakeover:
			e.Takeover = f.v != 0
		}
		if !ok {
			return false
		}
	}
	return true
}

func (d *decoder) target(b []byte, t *lease.Target) bool {
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return false
		}
		switch f.tag {
		case tagTargetInstance:
			ok = readID(f.data, &t.Instance)
		case tagTargetRenewed:
			ok = readNatural(f.v, &t.Renewed)
		}
		if !ok {
			return false
		}
	}
	return !t.Instance.IsZero()
}

func (d *decoder) directive(b []byte, dir *lease.Directive) bool {
	*dir = lease.Directive{Epoch: lease.NoEpoch}
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return false
		}
		switch f.tag {
		case tagDirectiveKind:
			dir.Kind = lease.DirectiveKind(min(f.v, math.MaxUint8))
		case tagDirectiveTopic:
			dir.Key.Topic, ok = d.topic(f.data)
		case tagDirectivePartition:
			ok = readPartition(f.v, &dir.Key.Partition)
		case tagDirectiveTopicID:
			ok = readID(f.data, &dir.TopicID)
		case tagDirectiveNext:
			ok = readNatural(f.v, &dir.Next)
		case tagDirectiveEpoch:
			ok = readNatural(f.v, &dir.Epoch)
		}
		if !ok {
			return false
		}
	}
	return dir.Kind != lease.Seek || dir.Key.Topic != ""
}

func (d *decoder) snapshot(b []byte, s *lease.Snapshot) bool {
	*s = lease.Snapshot{Chunk: s.Chunk[:0]}
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return false
		}
		switch f.tag {
		case tagSnapshotUpto:
			ok = readNatural(f.v, &s.Upto)
		case tagSnapshotAuthor:
			ok = readID(f.data, &s.Author)
		case tagSnapshotTopicID:
			ok = readID(f.data, &s.TopicID)
		case tagSnapshotIndex:
			s.Index, ok = uint32(f.v), f.v <= math.MaxUint32
		case tagSnapshotCount:
			s.Count, ok = uint32(f.v), f.v <= math.MaxUint32
		case tagSnapshotChunk:
			s.Chunk = append(s.Chunk[:0], f.data...)
		}
		if !ok {
			return false
		}
	}
	return !s.Author.IsZero() && s.Index < s.Count
}

func (d *decoder) base(b []byte, base *lease.Base) bool {
	*base = lease.Base{}
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return false
		}
		switch f.tag {
		case tagBaseSeen:
			base.Seen = protowire.DecodeZigZag(f.v)
			ok = base.Seen >= -1
		case tagBaseTokenBase:
			ok = readTokenBase(f.v, &base.TokenBase)
		}
		if !ok {
			return false
		}
	}
	return true
}

func (d *decoder) probe(b []byte, p *lease.Probe) bool {
	*p = lease.Probe{}
	for len(b) > 0 {
		f, ok := nextField(&b)
		if !ok {
			return false
		}
		switch f.tag {
		case tagProbeNonce:
			p.Nonce = f.v
		case tagProbeWantsBase:
			p.WantsBase = f.v != 0
		}
	}
	return true
}

// topic gives a topic's name, each time the same string for it. A table that is full is begun anew: names come again.
func (d *decoder) topic(name []byte) (string, bool) {
	if s, ok := d.topics[string(name)]; ok {
		return s, true
	}
	if len(name) == 0 || len(name) > maxTopicName || !utf8.Valid(name) {
		return "", false
	}
	if d.topics == nil || len(d.topics) == maxInterned {
		d.topics = make(map[string]string)
	}
	s := string(name)
	d.topics[s] = s
	return s, true
}

// field is one field of a message. data is set where the wire type is asBytes, v where it is a varint or fixed64.
type field struct {
	tag  uint64
	v    uint64
	data []byte
}

// nextField takes the next field off b. A field of a wire type that record.proto does not use comes without content: no
// case of a switch over tags names it.
func nextField(b *[]byte) (f field, ok bool) {
	var n int
	if f.tag, n = readVarint(*b); n < 0 || f.tag>>3 == 0 || f.tag > math.MaxUint32 {
		return f, false
	}
	rest := (*b)[n:]
	switch f.tag & 7 {
	case asVarint:
		f.v, n = readVarint(rest)
	case asBytes:
		var size uint64
		if size, n = readVarint(rest); n >= 0 {
			if size > uint64(len(rest)-n) {
				return f, false
			}
			f.data = rest[n : n+int(size)]
			n += int(size)
		}
	case asFixed64:
		f.v, n = protowire.ConsumeFixed64(rest)
	default:
		n = protowire.ConsumeFieldValue(protowire.Number(f.tag>>3), protowire.Type(f.tag&7), rest)
	}
	if n < 0 {
		return f, false
	}
	*b = rest[n:]
	return f, true
}

// readVarint is protowire.ConsumeVarint with the common case in line.
func readVarint(b []byte) (uint64, int) {
	if len(b) > 0 && b[0] < 0x80 {
		return uint64(b[0]), 1
	}
	return protowire.ConsumeVarint(b)
}

// readPacked appends the numbers of a packed array, each of which must be one that T can hold and >= 0.
func readPacked[T int32 | int64](b []byte, to []T) ([]T, bool) {
	for len(b) > 0 {
		v, n := readVarint(b)
		var x T
		if n < 0 || !readNatural(v, &x) {
			return to, false
		}
		to, b = append(to, x), b[n:]
	}
	return to, true
}

// unpacked tells whether tag is the one that an array of numbers has when it is not packed. Protobuf would read both;
// nobody writes it, and an array that is half skipped would be worse than a record that is not taken.
func unpacked(tag uint64, packed ...uint64) bool {
	for _, p := range packed {
		if tag == p&^7|asVarint {
			return true
		}
	}
	return false
}

// readNatural reads a number >= 0 that T can hold.
func readNatural[T int32 | int64](v uint64, to *T) bool {
	*to = T(v)
	return *to >= 0 && uint64(*to) == v
}

func readPartition(v uint64, to *int32) bool {
	p := protowire.DecodeZigZag(v)
	*to = int32(p)
	return p >= int64(lease.WholeTopic) && p <= math.MaxInt32
}

func readDuration(v uint64, to *time.Duration) bool {
	*to = time.Duration(v)
	return *to >= 0
}

func readTokenBase(v uint64, to *int64) bool {
	*to = int64(v)
	return v < uint64(lease.MaxTokenBase)
}

func readID[T lease.InstanceID | lease.TopicID](b []byte, to *T) bool {
	switch len(b) {
	case 0:
		*to = T{}
		return true
	case 16:
		*to = T(b)
		return true
	}
	return false
}

// extend makes s one longer, and gives an element that was cut off before, with its own slices, a second life.
func extend[T any](s []T) []T {
	if len(s) < cap(s) {
		return s[:len(s)+1]
	}
	return append(s, *new(T))
}
