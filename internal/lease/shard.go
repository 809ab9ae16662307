package lease

import (
	"crypto/sha256"
	"encoding/binary"
)

// Shards is how many partitions the coordination topic has; more are ignored.
const Shards = 32

// ShardOf is the partition of the coordination topic that all records of a group are in.
func ShardOf(group string) int32 {
	sum := sha256.Sum256([]byte(group))
	return int32(binary.BigEndian.Uint64(sum[:8]) % Shards)
}
