package member

import "github.com/kafka-marshal/marshal/internal/lease"

// Upper bounds of what the parts of a record take on the wire, for splitting it. Numbers are varints of at most ten
// bytes, an id has sixteen, and each field has a tag and a length.
const (
	targetSize   = 32 // an instance and an offset
	topicSize    = 48 // a topic's name (its length comes on top), its id and the heads of three packed arrays
	positionSize = 30 // partition, epoch, next offset
	keySize      = 24 // a key, without its topic's name
)

// sizeOf bounds a released key.
func sizeOf(k lease.ReleasedKey) int {
	return topicSize + keySize + len(k.Key.Topic) + positionSize*len(k.Partitions)
}

// split cuts a list into runs that fit into a record each; a run has at least one element.
func split[T any](list []T, bound int, size func(T) int) [][]T {
	var parts [][]T
	from, sum := 0, 0
	for i, v := range list {
		n := size(v)
		if i > from && sum+n > bound {
			parts = append(parts, list[from:i])
			from, sum = i, 0
		}
		sum += n
	}
	if from < len(list) {
		parts = append(parts, list[from:])
	}
	return parts
}
