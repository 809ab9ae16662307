package lease

// tokenShift makes room below the token base for the epochs of a log.
const tokenShift = 20

// ProposeTokenBase is what a Join or a Base proposes for world.token_base (PROTOCOL.md §3), from the author's wall clock and
// the largest timestamp that it has seen in the shard, both in Unix ms. It stays below MaxTokenBase whatever anybody wrote into
// the shard: a proposal above it would be malformed, and nobody could join any more.
func ProposeTokenBase(wall, seen int64) int64 {
	return min(max(wall, min(seen, MaxTokenBase>>tokenShift)+1, 0), MaxTokenBase>>tokenShift-1) << tokenShift
}
