package marshal

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// appendRecord appends rec as the value of a message. A Join with seq 1, a Base and a Probe are written in the first
// version, so that everybody can read who is there and where a history begins; others in rec.Version.
func appendRecord(b []byte, rec *lease.Record) []byte {
	version := max(rec.Version, firstVersion)
	switch {
	case rec.Kind == lease.KindJoin && rec.Seq == 1, rec.Kind == lease.KindBase, rec.Kind == lease.KindProbe:
		version = firstVersion
	}
	b = append(b, headerMark, version)
	b = appendID(b, tagInstance, rec.Instance)
	b = appendUint(b, tagSeq, rec.Seq)
	b, at := openMessage(b, contentTag(rec.Kind))
	switch rec.Kind {
	case lease.KindJoin:
		b = appendJoin(b, &rec.Join)
	case lease.KindHeartbeat:
		b = appendHeartbeat(b, &rec.Heartbeat)
	case lease.KindClaim:
		b = appendKeys(b, tagClaimKeys, rec.Claim.Keys)
		b = appendBool(b, tagClaimAtomic, rec.Claim.Atomic)
	case lease.KindRelease:
		b = appendReleased(b, tagReleaseKeys, rec.Release.Keys)
		b = appendID(b, tagReleaseSuccessor, rec.Release.Successor)
		b = appendBool(b, tagReleaseUnfit, rec.Release.Unfit)
	case lease.KindLeave:
		b = appendReleased(b, tagLeaveKeys, rec.Release.Keys)
		b = appendBool(b, tagLeaveKeep, rec.Leave.Keep)
		b = appendUint(b, tagLeaveGrace, uint64(rec.Leave.Grace))
	case lease.KindEvict:
		b = appendTargets(b, rec.Evict.Targets)
		b = appendBool(b, tagEvictTakeover, rec.Evict.Takeover)
	case lease.KindDirective:
		b = appendDirective(b, &rec.Directive)
	case lease.KindSnapshot:
		b = appendSnapshot(b, &rec.Snapshot)
	case lease.KindBase:
		b = appendSigned(b, tagBaseSeen, rec.Base.Seen)
		b = appendUint(b, tagBaseTokenBase, uint64(rec.Base.TokenBase))
	case lease.KindProbe:
		b = appendFixed64(b, tagProbeNonce, rec.Probe.Nonce)
		b = appendBool(b, tagProbeWantsBase, rec.Probe.WantsBase)
	}
	return closeMessage(b, at)
}

func appendJoin(b []byte, j *lease.Join) []byte {
	b = appendString(b, tagJoinClient, j.Client)
	b = appendString(b, tagJoinHost, j.Host)
	b = appendUint(b, tagJoinTTL, uint64(j.TTL))
	b = appendID(b, tagJoinTopicID, j.TopicID)
	b = appendUint(b, tagJoinMaxVersion, uint64(j.MaxVersion))
	b = appendUint(b, tagJoinTokenBase, uint64(j.TokenBase))
	for i := range j.Interests {
		in, at := &j.Interests[i], 0
		b, at = openMessage(b, tagJoinInterests)
		for _, t := range in.Topics {
			var at int
			b, at = openMessage(b, tagInterestTopics)
			b = appendString(b, tagTopicInterestTopic, t.Topic)
			b = appendUint(b, tagTopicInterestPartitions, uint64(t.Partitions))
			b = closeMessage(b, at)
		}
		b = appendBool(b, tagInterestWhole, in.Whole)
		b = appendUint(b, tagInterestMax, uint64(in.Max))
		b = appendUint(b, tagInterestWeight, uint64(in.Weight))
		b = appendBool(b, tagInterestGreedy, in.Greedy)
		b = closeMessage(b, at)
	}
	return appendKeys(b, tagJoinPinned, j.Pinned)
}

func appendHeartbeat(b []byte, h *lease.Heartbeat) []byte {
	for i := range h.Topics {
		t, at := &h.Topics[i], 0
		b, at = openMessage(b, tagHeartbeatTopics)
		b = appendString(b, tagProgressTopic, t.Topic)
		b = appendID(b, tagProgressTopicID, t.TopicID)
		b = appendPacked(b, tagProgressPartitions, t.Partitions)
		b = appendPacked(b, tagProgressEpochs, t.Epochs)
		b = appendPacked(b, tagProgressNext, t.Next)
		b = closeMessage(b, at)
	}
	b = appendUint(b, tagHeartbeatInFlight, uint64(h.Load.InFlight))
	b = appendUint(b, tagHeartbeatLag, uint64(h.Load.Lag))
	if h.P != -1 {
		b = appendVarint(b, tagHeartbeatP, uint64(h.P))
	}
	b = appendFixed64(b, tagHeartbeatHash, h.Hash)
	return appendBool(b, tagHeartbeatAnnounces, h.Announces)
}

func appendKeys(b []byte, tag uint64, keys []lease.Key) []byte {
	for i := range keys {
		var at int
		b, at = openMessage(b, tag)
		b = appendString(b, tagKeyTopic, keys[i].Topic)
		b = appendSigned(b, tagKeyPartition, int64(keys[i].Partition))
		b = closeMessage(b, at)
	}
	return b
}

func appendReleased(b []byte, tag uint64, keys []lease.ReleasedKey) []byte {
	for i := range keys {
		k, at := &keys[i], 0
		b, at = openMessage(b, tag)
		b = appendString(b, tagReleasedTopic, k.Key.Topic)
		b = appendSigned(b, tagReleasedPartition, int64(k.Key.Partition))
		b = appendUint(b, tagReleasedEpoch, uint64(k.Epoch))
		b = appendID(b, tagReleasedTopicID, k.TopicID)
		b = appendPacked(b, tagReleasedPartitions, k.Partitions)
		b = appendPacked(b, tagReleasedNext, k.Next)
		b = closeMessage(b, at)
	}
	return b
}

func appendTargets(b []byte, targets []lease.Target) []byte {
	for _, t := range targets {
		var at int
		b, at = openMessage(b, tagEvictTargets)
		b = appendID(b, tagTargetInstance, t.Instance)
		b = appendUint(b, tagTargetRenewed, uint64(t.Renewed))
		b = closeMessage(b, at)
	}
	return b
}

func appendDirective(b []byte, d *lease.Directive) []byte {
	b = appendUint(b, tagDirectiveKind, uint64(d.Kind))
	b = appendString(b, tagDirectiveTopic, d.Key.Topic)
	b = appendSigned(b, tagDirectivePartition, int64(d.Key.Partition))
	b = appendID(b, tagDirectiveTopicID, d.TopicID)
	b = appendUint(b, tagDirectiveNext, uint64(d.Next))
	if d.Epoch != lease.NoEpoch {
		b = appendVarint(b, tagDirectiveEpoch, uint64(d.Epoch))
	}
	return b
}

func appendSnapshot(b []byte, s *lease.Snapshot) []byte {
	b = appendUint(b, tagSnapshotUpto, uint64(s.Upto))
	b = appendID(b, tagSnapshotAuthor, s.Author)
	b = appendID(b, tagSnapshotTopicID, s.TopicID)
	b = appendUint(b, tagSnapshotIndex, uint64(s.Index))
	b = appendUint(b, tagSnapshotCount, uint64(s.Count))
	if len(s.Chunk) > 0 {
		b = protowire.AppendBytes(protowire.AppendVarint(b, tagSnapshotChunk), s.Chunk)
	}
	return b
}

// openMessage begins a field whose length is not known yet, and gives the place where its content begins.
func openMessage(b []byte, tag uint64) ([]byte, int) {
	b = append(protowire.AppendVarint(b, tag), 0)
	return b, len(b)
}

// closeMessage fills in the length of what was appended since openMessage. One byte was kept for it; where that is not
// enough the content moves up, which is rare and cheaper than to compute every length in advance.
func closeMessage(b []byte, at int) []byte {
	n := len(b) - at
	if n < 0x80 {
		b[at-1] = byte(n)
		return b
	}
	more := protowire.SizeVarint(uint64(n)) - 1
	var room [10]byte
	b = append(b, room[:more]...)
	copy(b[at+more:], b[at:at+n])
	protowire.AppendVarint(b[:at-1], uint64(n))
	return b
}

func appendVarint(b []byte, tag, v uint64) []byte {
	return protowire.AppendVarint(protowire.AppendVarint(b, tag), v)
}

// The functions below leave out a field that has its default value, as protobuf does.

func appendUint(b []byte, tag, v uint64) []byte {
	if v == 0 {
		return b
	}
	return appendVarint(b, tag, v)
}

func appendSigned(b []byte, tag uint64, v int64) []byte {
	return appendUint(b, tag, protowire.EncodeZigZag(v))
}

func appendBool(b []byte, tag uint64, v bool) []byte {
	return appendUint(b, tag, protowire.EncodeBool(v))
}

func appendFixed64(b []byte, tag, v uint64) []byte {
	if v == 0 {
		return b
	}
	return protowire.AppendFixed64(protowire.AppendVarint(b, tag), v)
}

func appendString(b []byte, tag uint64, s string) []byte {
	if s == "" {
		return b
	}
	return protowire.AppendString(protowire.AppendVarint(b, tag), s)
}

func appendID[T lease.InstanceID | lease.TopicID](b []byte, tag uint64, id T) []byte {
	if id == (T{}) {
		return b
	}
	raw := [16]byte(id)
	return protowire.AppendBytes(protowire.AppendVarint(b, tag), raw[:])
}

func appendPacked[T int32 | int64](b []byte, tag uint64, values []T) []byte {
	if len(values) == 0 {
		return b
	}
	b, at := openMessage(b, tag)
	for _, v := range values {
		b = protowire.AppendVarint(b, uint64(v))
	}
	return closeMessage(b, at)
}
