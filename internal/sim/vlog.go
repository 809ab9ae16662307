package sim

import (
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// group is the name of the one group that is simulated.
const group = "g"

// topicID is that of the virtual coordination topic.
var topicID = lease.TopicID{0xc0}

// origin says who wrote a record, and what it knew: the checkers look at it, the code under test does not.
type origin struct {
	by     *agent // nil: none of the members
	readTo int64  // the newest offset that the author had applied when it decided
	chain  uint64 // of a snapshot: the history that its author had applied up to Upto
	raw    string // what kind of injected record it is; "" for a member's
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
	millis  int64 // broker's clock at real time 0, Unix ms
	down    bool  // nobody reaches it
	blind   bool  // fetches do not report a diverging epoch: only the rolling hash can tell
}

func (l *vlog) end() int64 { return l.first + int64(len(l.entries)) }

func (l *vlog) at(offset int64) *entry { return l.entries[offset-l.first] }

// before gives the newest message of the group at or below offset; nil: none.
func (l *vlog) before(offset int64) *entry {
	for o := min(offset, l.end()-1); o >= l.first; o-- {
		if e := l.at(o); e.group {
			return e
		}
	}
	return nil
}

// since gives the first offset whose timestamp is at least millis.
func (l *vlog) since(millis int64) int64 {
	for o := l.start; o < l.end(); o++ {
		if l.at(o).millis >= millis {
			return o
		}
	}
	return l.end()
}

// read gives what stands from an offset on, at most limit messages.
func (l *vlog) read(from int64, limit int) []*entry {
	to := min(l.end(), from+int64(limit))
	return l.entries[from-l.first : to-l.first]
}
