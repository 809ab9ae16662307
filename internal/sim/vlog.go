package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// group is the name of the one group that is simulated.
const group = "g"

// topicID is that of the virtual coordination topic.
var topicID = lease.TopicID{0xc0}

// origin says who wrote a record, and what it knew: the checkers look at it, the code under test does not.
type origin struct {
	by      *agent // nil: none of the members
	readTo  int64  // the newest offset that the author had applied when it decided
	strange bool   // what it had applied is not what the log says: the log has lost records
	chain   uint64 // of a snapshot: the history that its author had applied up to Upto
	raw     string // what kind of injected record it is; "" for a member's
}

// entry is one message of the shard.
type entry struct {
	offset int64
	millis int64 // broker's timestamp, Unix ms
	group  bool  // of our group; the others only take offsets
	rec    lease.Record
	value  []byte
	uid    uint64 // the same for every copy of a record
	origin origin
	copyOf bool   // an earlier copy is in the log already
	anew   bool   // it is a copy to nobody: what it says counts again (countsAnew)
	took   bool   // it renewed its author
	chain  uint64 // identifies the sequence of the group's messages up to here
	digest uint64 // of the reference world after it
	bytes  []byte // canonical bytes of the reference world after it, when kept
	real   time.Duration
}

// vlog is the virtual shard.
type vlog struct {
	entries []*entry
	first   int64 // offset of entries[0]
	start   int64 // log start: what is below it cannot be read any more
	next    int64 // offset of the next entry
	holes   bool  // some offsets have no entry: other groups' messages that nobody needs to look at
	millis  int64 // broker's clock at real time 0, Unix ms
	down    bool  // nobody reaches it
	blind   bool  // fetches do not report a diverging epoch: only the rolling hash can tell
}

func (l *vlog) end() int64 { return l.next }

// add appends an entry; its offset is the log's to say.
func (l *vlog) add(e *entry) {
	e.offset = l.next
	l.next++
	l.entries = append(l.entries, e)
}

// skip leaves out n offsets, as if so many messages of other groups were there. The last of them is.
func (l *vlog) skip(n int64, last *entry) {
	l.holes = true
	l.next += n - 1
	l.add(last)
}

// cut loses what is at an offset and above it, and no more: where there is no entry just below, a message of another group
// is the last that remains.
func (l *vlog) cut(offset int64) {
	i := l.index(offset)
	if below := l.below(offset); i < len(l.entries) && offset > max(l.first, l.start) && (below == nil || below.offset < offset-1) {
		e := l.entries[i]
		l.entries = append(l.entries[:i], &entry{offset: offset - 1, uid: e.uid, millis: e.millis, real: e.real})
		i++
	}
	l.entries, l.next = l.entries[:i], offset
}

// index is the place of the first entry at or above an offset.
func (l *vlog) index(offset int64) int {
	if offset <= l.first {
		return 0
	}
	if !l.holes {
		return min(int(offset-l.first), len(l.entries))
	}
	i, _ := slices.BinarySearchFunc(l.entries, offset, func(e *entry, o int64) int { return cmp.Compare(e.offset, o) })
	return i
}

// at gives the first entry at or above an offset; nil: none.
func (l *vlog) at(offset int64) *entry {
	if i := l.index(offset); i < len(l.entries) {
		return l.entries[i]
	}
	return nil
}

// below gives the newest entry below an offset; nil: none.
func (l *vlog) below(offset int64) *entry {
	if i := l.index(offset); i > 0 {
		return l.entries[i-1]
	}
	return nil
}

// before gives the newest message of the group at or below offset; nil: none.
func (l *vlog) before(offset int64) *entry {
	for i := l.index(offset+1) - 1; i >= 0; i-- {
		if e := l.entries[i]; e.group {
			return e
		}
	}
	return nil
}

// since gives the first offset whose timestamp is at least millis.
func (l *vlog) since(millis int64) int64 {
	for _, e := range l.entries[l.index(l.start):] {
		if e.millis >= millis {
			return e.offset
		}
	}
	return l.end()
}

// read gives what stands from an offset on, at most limit messages.
func (l *vlog) read(from int64, limit int) []*entry {
	i := l.index(from)
	return l.entries[i:min(len(l.entries), i+limit)]
}

// between gives what stands from an offset on and below another.
func (l *vlog) between(from, to int64) []*entry {
	i := l.index(from)
	return l.entries[i:max(i, l.index(to))]
}
