package marshal

import (
	"math"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// maxInterned is how many names a decoder remembers, of all topics that a shard's groups ever named.
const maxInterned = 4096

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
	f := fields{rest: value[headerLen:]}
	for f.next() {
		switch f.tag {
		case tagInstance:
			readID(&f, &rec.Instance)
		case tagSeq:
			rec.Seq = f.v
		default:
			if kind := contentKind(f.tag); kind != lease.Foreign && !newer {
				f.must(rec.Kind == lease.Foreign) // one content, not two
				rec.Kind, content = kind, f.data
			}
		}
	}
	if f.bad {
		return false
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
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagJoinClient:
			j.Client = readString(&f)
		case tagJoinHost:
			j.Host = readString(&f)
		case tagJoinTTL:
			readDuration(&f, &j.TTL)
		case tagJoinTopicID:
			readID(&f, &j.TopicID)
		case tagJoinMaxVersion:
			j.MaxVersion = uint8(f.v)
			f.must(f.v <= math.MaxUint8)
		case tagJoinTokenBase:
			readTokenBase(&f, &j.TokenBase)
		case tagJoinInterests:
			j.Interests = extend(j.Interests)
			f.must(d.interest(f.data, &j.Interests[len(j.Interests)-1]))
		case tagJoinPinned:
			j.Pinned = d.key(&f, j.Pinned)
		}
	}
	return !f.bad
}

func (d *decoder) interest(b []byte, in *lease.Interest) bool {
	*in = lease.Interest{Topics: in.Topics[:0]}
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagInterestTopics:
			in.Topics = append(in.Topics, lease.TopicInterest{})
			f.must(d.topicInterest(f.data, &in.Topics[len(in.Topics)-1]))
		case tagInterestWhole:
			in.Whole = f.v != 0
		case tagInterestMax:
			readNatural(&f, &in.Max)
		case tagInterestWeight:
			readNatural(&f, &in.Weight)
		case tagInterestGreedy:
			in.Greedy = f.v != 0
		}
	}
	return !f.bad
}

func (d *decoder) topicInterest(b []byte, t *lease.TopicInterest) bool {
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagTopicInterestTopic:
			t.Topic = d.topic(&f)
		case tagTopicInterestPartitions:
			readNatural(&f, &t.Partitions)
		}
	}
	return !f.bad && t.Topic != ""
}

func (d *decoder) heartbeat(b []byte, h *lease.Heartbeat) bool {
	*h = lease.Heartbeat{Topics: h.Topics[:0], P: -1}
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagHeartbeatTopics:
			h.Topics = extend(h.Topics)
			f.must(d.progress(f.data, &h.Topics[len(h.Topics)-1]))
		case tagHeartbeatInFlight:
			h.Load.InFlight = int64(f.v)
		case tagHeartbeatLag:
			h.Load.Lag = int64(f.v)
		case tagHeartbeatP:
			readNatural(&f, &h.P)
		case tagHeartbeatHash:
			h.Hash = f.v
		case tagHeartbeatAnnounces:
			h.Announces = f.v != 0
		}
	}
	return !f.bad
}

func (d *decoder) progress(b []byte, p *lease.TopicProgress) bool {
	*p = lease.TopicProgress{Partitions: p.Partitions[:0], Epochs: p.Epochs[:0], Next: p.Next[:0]}
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagProgressTopic:
			p.Topic = d.topic(&f)
		case tagProgressTopicID:
			readID(&f, &p.TopicID)
		case tagProgressPartitions:
			p.Partitions = readPacked(&f, p.Partitions)
		case tagProgressEpochs:
			p.Epochs = readPacked(&f, p.Epochs)
		case tagProgressNext:
			p.Next = readPacked(&f, p.Next)
		default:
			f.must(!unpacked(f.tag, tagProgressPartitions, tagProgressEpochs, tagProgressNext))
		}
	}
	return !f.bad && p.Topic != "" && len(p.Epochs) == len(p.Partitions) && len(p.Next) == len(p.Partitions)
}

func (d *decoder) claim(b []byte, c *lease.Claim) bool {
	*c = lease.Claim{Keys: c.Keys[:0]}
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagClaimKeys:
			c.Keys = d.key(&f, c.Keys)
		case tagClaimAtomic:
			c.Atomic = f.v != 0
		}
	}
	return !f.bad
}

// key appends the key that is f's content.
func (d *decoder) key(outer *fields, keys []lease.Key) []lease.Key {
	var k lease.Key
	f := fields{rest: outer.data}
	for f.next() {
		switch f.tag {
		case tagKeyTopic:
			k.Topic = d.topic(&f)
		case tagKeyPartition:
			readPartition(&f, &k.Partition)
		}
	}
	outer.must(!f.bad && k.Topic != "")
	return append(keys, k)
}

func (d *decoder) release(b []byte, r *lease.Release) bool {
	*r = lease.Release{Keys: r.Keys[:0]}
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagReleaseKeys:
			r.Keys = extend(r.Keys)
			f.must(d.released(f.data, &r.Keys[len(r.Keys)-1]))
		case tagReleaseSuccessor:
			readID(&f, &r.Successor)
		case tagReleaseUnfit:
			r.Unfit = f.v != 0
		}
	}
	return !f.bad
}

func (d *decoder) leave(b []byte, r *lease.Release, l *lease.Leave) bool {
	*r, *l = lease.Release{Keys: r.Keys[:0]}, lease.Leave{}
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagLeaveKeys:
			r.Keys = extend(r.Keys)
			f.must(d.released(f.data, &r.Keys[len(r.Keys)-1]))
		case tagLeaveKeep:
			l.Keep = f.v != 0
		case tagLeaveGrace:
			readDuration(&f, &l.Grace)
		}
	}
	return !f.bad
}

func (d *decoder) released(b []byte, k *lease.ReleasedKey) bool {
	*k = lease.ReleasedKey{Partitions: k.Partitions[:0], Next: k.Next[:0]}
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagReleasedTopic:
			k.Key.Topic = d.topic(&f)
		case tagReleasedPartition:
			readPartition(&f, &k.Key.Partition)
		case tagReleasedEpoch:
			readNatural(&f, &k.Epoch)
		case tagReleasedTopicID:
			readID(&f, &k.TopicID)
		case tagReleasedPartitions:
			k.Partitions = readPacked(&f, k.Partitions)
		case tagReleasedNext:
			k.Next = readPacked(&f, k.Next)
		default:
			f.must(!unpacked(f.tag, tagReleasedPartitions, tagReleasedNext))
		}
	}
	return !f.bad && k.Key.Topic != "" && len(k.Next) == len(k.Partitions)
}

func (d *decoder) evict(b []byte, e *lease.Evict) bool {
	*e = lease.Evict{Targets: e.Targets[:0]}
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagEvictTargets:
			e.Targets = append(e.Targets, lease.Target{})
			f.must(d.target(f.data, &e.Targets[len(e.Targets)-1]))
		case tagEvictTakeover:
			e.Takeover = f.v != 0
		}
	}
	return !f.bad
}

func (d *decoder) target(b []byte, t *lease.Target) bool {
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagTargetInstance:
			readID(&f, &t.Instance)
		case tagTargetRenewed:
			readNatural(&f, &t.Renewed)
		}
	}
	return !f.bad && !t.Instance.IsZero()
}

func (d *decoder) directive(b []byte, dir *lease.Directive) bool {
	*dir = lease.Directive{Epoch: lease.NoEpoch}
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagDirectiveKind:
			dir.Kind = lease.DirectiveKind(min(f.v, math.MaxUint8))
		case tagDirectiveTopic:
			dir.Key.Topic = d.topic(&f)
		case tagDirectivePartition:
			readPartition(&f, &dir.Key.Partition)
		case tagDirectiveTopicID:
			readID(&f, &dir.TopicID)
		case tagDirectiveNext:
			readNatural(&f, &dir.Next)
		case tagDirectiveEpoch:
			readNatural(&f, &dir.Epoch)
		}
	}
	return !f.bad && (dir.Kind != lease.Seek || dir.Key.Topic != "")
}

func (d *decoder) snapshot(b []byte, s *lease.Snapshot) bool {
	*s = lease.Snapshot{Chunk: s.Chunk[:0]}
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagSnapshotUpto:
			readNatural(&f, &s.Upto)
		case tagSnapshotAuthor:
			readID(&f, &s.Author)
		case tagSnapshotTopicID:
			readID(&f, &s.TopicID)
		case tagSnapshotIndex:
			s.Index = uint32(f.v)
			f.must(f.v <= math.MaxUint32)
		case tagSnapshotCount:
			s.Count = uint32(f.v)
			f.must(f.v <= math.MaxUint32)
		case tagSnapshotChunk:
			s.Chunk = append(s.Chunk[:0], f.data...)
		}
	}
	return !f.bad && !s.Author.IsZero() && s.Index < s.Count
}

func (d *decoder) base(b []byte, base *lease.Base) bool {
	*base = lease.Base{}
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagBaseSeen:
			base.Seen = protowire.DecodeZigZag(f.v)
			f.must(base.Seen >= -1)
		case tagBaseTokenBase:
			readTokenBase(&f, &base.TokenBase)
		}
	}
	return !f.bad
}

func (d *decoder) probe(b []byte, p *lease.Probe) bool {
	*p = lease.Probe{}
	f := fields{rest: b}
	for f.next() {
		switch f.tag {
		case tagProbeNonce:
			p.Nonce = f.v
		case tagProbeWantsBase:
			p.WantsBase = f.v != 0
		}
	}
	return !f.bad
}

// topic gives a topic's name, each time the same string for it. A table that is full is begun anew: names come again.
func (d *decoder) topic(f *fields) string {
	if s, ok := d.topics[string(f.data)]; ok {
		return s
	}
	f.must(len(f.data) > 0 && len(f.data) <= lease.MaxTopicName)
	s := readString(f)
	if f.bad {
		return ""
	}
	if d.topics == nil || len(d.topics) == maxInterned {
		d.topics = make(map[string]string)
	}
	d.topics[s] = s
	return s
}

// extend makes s one longer, and gives an element that was cut off before, with its own slices, a second life.
func extend[T any](s []T) []T {
	if len(s) < cap(s) {
		return s[:len(s)+1]
	}
	return append(s, *new(T))
}
