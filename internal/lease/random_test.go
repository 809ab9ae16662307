package lease

import (
	"math"
	"time"
)

// source makes records out of bytes: the fuzzer's, or random ones. It looks at the world now and then, so that what it
// names (an epoch, a renewal, a seq) is often right; it names wrong ones just as well.
type source struct {
	bytes []byte
	seqs  map[InstanceID]uint64
}

var (
	someIDs    = []InstanceID{{'a'}, {'b'}, {'c'}, {'d'}, {'e'}, {}}
	someTopics = []string{"t", "u"}
	someKeys   = []Key{{"t", 0}, {"t", 1}, {"t", -1}, {"u", 0}, {"u", 2}, {"u", -1}, {"t", 5}}
	otherKeys  = []Key{{"", 0}, {"t", -2}, {"u", math.MaxInt32}}
)

func newSource(bytes []byte) *source { return &source{bytes: bytes, seqs: map[InstanceID]uint64{}} }

func (s *source) done() bool { return len(s.bytes) == 0 }

// n gives a number below limit, 0 when the bytes are used up.
func (s *source) n(limit int) int {
	if len(s.bytes) == 0 {
		return 0
	}
	b := s.bytes[0]
	s.bytes = s.bytes[1:]
	return int(b) % limit
}

// once tells true once in so many times.
func (s *source) once(in int) bool { return s.n(in) == in-1 }

func pick[T any](s *source, from []T) T { return from[s.n(len(from))] }

func (s *source) key() Key {
	if s.once(40) {
		return pick(s, otherKeys)
	}
	return pick(s, someKeys)
}

func (s *source) epoch(w *World, k Key) int64 {
	if s.once(8) {
		return int64(s.n(256)) - 1
	}
	if _, l, ok := w.Conflict(k); ok {
		return l.Epoch
	}
	return NoEpoch
}

func (s *source) next() int64 {
	if s.once(50) {
		return pick(s, []int64{-1, math.MinInt64, math.MaxInt64})
	}
	return int64(s.n(40))
}

func (s *source) topicID() TopicID {
	if s.once(4) {
		return TopicID{byte(1 + s.n(7))}
	}
	return TopicID{byte(s.n(3))}
}

// record makes the next record of a log of which w is the world.
func (s *source) record(w *World) Record {
	r := Record{Offset: w.Last() + 1, Timestamp: 5, Version: 2, Kind: KindHeartbeat}
	switch {
	case s.once(12):
		r.Offset += int64(s.n(9))
	case s.once(60):
		r.Offset += EndedMemory - 2 + int64(s.n(5))
	case s.once(60):
		r.Offset -= int64(s.n(9))
	}
	r.Kind = pick(s, []Kind{
		KindHeartbeat, KindHeartbeat, KindHeartbeat, KindClaim, KindClaim, KindRelease, KindRelease, KindJoin, KindJoin,
		KindDirective, KindEvict, KindEvict, KindLeave, KindClaim, Foreign, KindNewer, KindSnapshot, KindProbe, KindBase,
	})
	if r.Kind == KindBase && !s.once(6) {
		r.Kind = KindJoin
	}
	s.author(&r, w)
	switch r.Kind {
	case KindJoin:
		s.join(&r.Join)
	case KindHeartbeat:
		r.Heartbeat = Heartbeat{Load: Load{int64(s.n(3)), int64(s.n(3))}, Announces: s.once(20)}
		for range s.n(4) {
			k := s.heldKey(w, r.Instance)
			if k.Partition == WholeTopic && !s.once(8) {
				k.Partition = int32(s.n(3))
			}
			tp := TopicProgress{Topic: k.Topic, TopicID: s.topicID()}
			for range 1 + s.n(2) {
				tp.Partitions, tp.Epochs, tp.Next = append(tp.Partitions, max(-1, k.Partition)), append(tp.Epochs, s.epoch(w, k)), append(tp.Next, s.next())
				k.Partition = int32(s.n(3))
			}
			if s.once(40) {
				tp.Next = tp.Next[1:]
			}
			r.Heartbeat.Topics = append(r.Heartbeat.Topics, tp)
		}
	case KindClaim:
		r.Claim.Atomic = s.once(3)
		for range 1 + s.n(4) {
			r.Claim.Keys = append(r.Claim.Keys, s.key())
		}
	case KindRelease, KindLeave:
		s.release(&r, w)
	case KindEvict:
		takeover := s.once(2)
		r.Evict.Takeover = takeover || s.once(4)
		for range 1 + s.n(2) {
			t := Target{Instance: pick(s, someIDs), Renewed: int64(s.n(256))}
			if takeover {
				t.Instance, _ = silent(w)
			}
			if in := w.Instance(t.Instance); in != nil && !s.once(4) {
				t.Renewed = in.Renewed
			}
			r.Evict.Targets = append(r.Evict.Targets, t)
		}
	case KindDirective:
		k := s.key()
		r.Directive = Directive{Kind: DirectiveKind(s.n(8)/7) ^ Seek, Key: k, TopicID: s.topicID(), Next: s.next(), Epoch: NoEpoch}
		if s.once(2) {
			r.Directive.Epoch = s.epoch(w, k)
		}
	case KindBase:
		r.Base = Base{Seen: r.Offset - 1 - int64(s.n(3)) + int64(s.n(3)), TokenBase: pick(s, []int64{0, 77, 1 << 61, 1 << 62, -1})}
	}
	return r
}

// alive gives an instance that is alive or unknown, most often.
func (s *source) alive(w *World, first InstanceID) InstanceID {
	for range 5 {
		if in := w.Instance(first); in == nil || in.Status == Alive {
			break
		}
		first = pick(s, someIDs)
	}
	return first
}

// heldKey gives a key that an instance holds, most often.
func (s *source) heldKey(w *World, by InstanceID) Key {
	k := s.key()
	if n := w.HeldCount(by); n > 0 && !s.once(4) {
		n = s.n(n)
		for held := range w.HeldBy(by) {
			if k = held; n == 0 {
				break
			}
			n--
		}
	}
	return k
}

// silent finds an instance that was not heard of since a namesake joined, and that namesake.
func silent(w *World) (target, namesake InstanceID) {
	for t := range w.Instances() {
		for a := range w.Instances() {
			if t.Client == a.Client && t.Renewed < a.FirstJoin && t.Status == Alive && a.Status == Alive {
				target, namesake = t.ID, a.ID
			}
		}
	}
	return target, namesake
}

func (s *source) author(r *Record, w *World) {
	r.Instance = pick(s, someIDs)
	if _, a := silent(w); r.Kind == KindEvict && !a.IsZero() && s.once(2) {
		r.Instance = a
	} else if !s.once(8) {
		r.Instance = s.alive(w, r.Instance)
	}
	seq := s.seqs[r.Instance] + 1
	in := w.Instance(r.Instance)
	switch {
	case in == nil && !s.once(8):
		r.Kind, seq = KindJoin, 1
	case s.once(20):
		seq = uint64(s.n(6))
	case s.once(80):
		seq += pick(s, []uint64{1<<32 - 1, 1 << 32, math.MaxUint64 - seq})
	}
	s.seqs[r.Instance] = seq
	if in != nil && seq > in.Seq && seq-in.Seq > MaxSeqJump {
		s.seqs[r.Instance] = in.Seq
	}
	r.Seq = seq
}

func (s *source) join(j *Join) {
	*j = Join{
		Client: pick(s, []string{"x", "y", "z"}), Host: "h", TTL: time.Duration(s.n(50)) * time.Second,
		MaxVersion: pick(s, []uint8{2, 2, 3, 0, 255}), TokenBase: pick(s, []int64{0, 5, 9}),
	}
	if s.once(30) {
		j.TokenBase = pick(s, []int64{-1, 1 << 62, 1<<62 - 1})
	}
	if s.once(20) {
		j.TopicID = TopicID{1}
	}
	for range s.n(3) {
		in := Interest{Whole: s.once(2), Greedy: s.once(2), Max: int32(s.n(3)), Weight: int32(s.n(3))}
		for range s.n(3) {
			in.Topics = append(in.Topics, TopicInterest{pick(s, someTopics), int32(s.n(6))})
		}
		j.Interests = append(j.Interests, in)
	}
	for range s.n(2) {
		j.Pinned = append(j.Pinned, pick(s, someKeys))
	}
}

func (s *source) release(r *Record, w *World) {
	r.Release = Release{Successor: pick(s, someIDs), Unfit: s.once(3)}
	if s.once(3) {
		r.Release.Successor = InstanceID{}
	} else if !s.once(3) {
		r.Release.Successor = s.alive(w, r.Release.Successor)
	}
	r.Leave = Leave{Keep: s.once(2), Grace: time.Duration(s.n(100)) * time.Minute}
	topic := s.topicID()
	for range s.n(4) {
		k := s.heldKey(w, r.Instance)
		rk := ReleasedKey{Key: k, Epoch: s.epoch(w, k), TopicID: topic}
		if s.once(8) {
			rk.TopicID = s.topicID()
		}
		for i := range s.n(3) {
			rk.Partitions, rk.Next = append(rk.Partitions, max(-1, k.Partition)+int32(i)), append(rk.Next, s.next())
		}
		if s.once(40) {
			rk.Next = append(rk.Next, 3)
		}
		r.Release.Keys = append(r.Release.Keys, rk)
	}
}
