package marshal

import (
	"google.golang.org/protobuf/encoding/protowire"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// The value of a message in the coordination topic is a zero byte, the wire version, and a protobuf message that
// record.proto describes. Both directions work on lease.Record without generated types between them: a heartbeat is
// decoded by every process of its group, so this is the path that a replay's speed depends on.
const (
	headerMark   = 0x00 // no text begins with it
	headerLen    = 2
	firstVersion = 2
)

// Tags: the number of a field in record.proto, and its wire type.
const (
	asVarint  = uint64(protowire.VarintType)
	asFixed64 = uint64(protowire.Fixed64Type)
	asBytes   = uint64(protowire.BytesType)

	tagInstance = 1<<3 | asBytes
	tagSeq      = 2<<3 | asVarint

	tagKeyTopic     = 1<<3 | asBytes
	tagKeyPartition = 2<<3 | asVarint

	tagJoinClient     = 1<<3 | asBytes
	tagJoinHost       = 2<<3 | asBytes
	tagJoinTTL        = 3<<3 | asVarint
	tagJoinTopicID    = 4<<3 | asBytes
	tagJoinMaxVersion = 5<<3 | asVarint
	tagJoinTokenBase  = 6<<3 | asVarint
	tagJoinInterests  = 7<<3 | asBytes
	tagJoinPinned     = 8<<3 | asBytes

	tagInterestTopics = 1<<3 | asBytes
	tagInterestWhole  = 2<<3 | asVarint
	tagInterestMax    = 3<<3 | asVarint
	tagInterestWeight = 4<<3 | asVarint
	tagInterestGreedy = 5<<3 | asVarint

	tagTopicInterestTopic      = 1<<3 | asBytes
	tagTopicInterestPartitions = 2<<3 | asVarint

	tagHeartbeatTopics    = 1<<3 | asBytes
	tagHeartbeatInFlight  = 2<<3 | asVarint
	tagHeartbeatLag       = 3<<3 | asVarint
	tagHeartbeatP         = 4<<3 | asVarint
	tagHeartbeatHash      = 5<<3 | asFixed64
	tagHeartbeatAnnounces = 6<<3 | asVarint

	tagProgressTopic      = 1<<3 | asBytes
	tagProgressTopicID    = 2<<3 | asBytes
	tagProgressPartitions = 3<<3 | asBytes
	tagProgressEpochs     = 4<<3 | asBytes
	tagProgressNext       = 5<<3 | asBytes

	tagClaimKeys   = 1<<3 | asBytes
	tagClaimAtomic = 2<<3 | asVarint

	tagReleaseKeys      = 1<<3 | asBytes
	tagReleaseSuccessor = 2<<3 | asBytes
	tagReleaseUnfit     = 3<<3 | asVarint

	tagReleasedTopic      = 1<<3 | asBytes
	tagReleasedPartition  = 2<<3 | asVarint
	tagReleasedEpoch      = 3<<3 | asVarint
	tagReleasedTopicID    = 4<<3 | asBytes
	tagReleasedPartitions = 5<<3 | asBytes
	tagReleasedNext       = 6<<3 | asBytes

	tagLeaveKeys  = 1<<3 | asBytes
	tagLeaveKeep  = 2<<3 | asVarint
	tagLeaveGrace = 3<<3 | asVarint

	tagEvictTargets  = 1<<3 | asBytes
	tagEvictTakeover = 2<<3 | asVarint

	tagTargetInstance = 1<<3 | asBytes
	tagTargetRenewed  = 2<<3 | asVarint

	tagDirectiveKind      = 1<<3 | asVarint
	tagDirectiveTopic     = 2<<3 | asBytes
	tagDirectivePartition = 3<<3 | asVarint
	tagDirectiveTopicID   = 4<<3 | asBytes
	tagDirectiveNext      = 5<<3 | asVarint
	tagDirectiveEpoch     = 6<<3 | asVarint

	tagSnapshotUpto    = 1<<3 | asVarint
	tagSnapshotAuthor  = 2<<3 | asBytes
	tagSnapshotTopicID = 3<<3 | asBytes
	tagSnapshotIndex   = 4<<3 | asVarint
	tagSnapshotCount   = 5<<3 | asVarint
	tagSnapshotChunk   = 6<<3 | asBytes

	tagBaseSeen      = 1<<3 | asVarint
	tagBaseTokenBase = 2<<3 | asVarint

	tagProbeNonce     = 1<<3 | asFixed64
	tagProbeWantsBase = 2<<3 | asVarint
)

// contentTag is the tag of a kind's content in Record: the fields of the oneof are numbered in the order of the kinds.
func contentTag(k lease.Kind) uint64 { return (uint64(k)+2)<<3 | asBytes }

// contentKind is the kind that a tag of Record stands for; Foreign: none.
func contentKind(tag uint64) lease.Kind {
	if tag < contentTag(lease.KindJoin) || tag > contentTag(lease.KindProbe) || tag&7 != asBytes {
		return lease.Foreign
	}
	return lease.Kind(tag>>3 - 2)
}

// hasAuthor tells whether records of a kind carry instance and seq.
func hasAuthor(k lease.Kind) bool {
	return k != lease.KindSnapshot && k != lease.KindBase && k != lease.KindProbe
}
