package explore

import (
	"github.com/kafka-marshal/marshal/internal/history"
	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/member"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// node is a place in the tree of all logs: what is below it is its parent's log, and its record is the newest.
type node struct {
	parent, rec int32
	depth       int32 // how many nodes are above it
	events      []lease.Event
	shared      *member.Shared     // the log and the plan of everybody who has read up to here
	takenOver   []lease.InstanceID // whose keys a namesake took by fast reclaim, up to here
	children    map[int32]int32    // by record
}

func (n *node) log() *history.Log { return n.shared.Log }

// plant makes the root: the empty log.
func (sp *space) plant() {
	log := history.NewLog(history.Base{World: lease.NewWorld(topicID)})
	sp.nodes = []*node{{parent: -1, rec: -1, shared: &member.Shared{Log: log, Planner: &policy.Planner{}}}}
}

var topicID = lease.TopicID{0xc0}

// grow gives the log of a node with one more record, and what is wrong with what the record did.
func (sp *space) grow(at, rec int32) (int32, string) {
	n := sp.nodes[at]
	if child, ok := n.children[rec]; ok {
		return child, ""
	}
	child := &node{parent: at, rec: rec, depth: n.depth + 1, takenOver: n.takenOver}
	log := n.log().Clone()
	r := sp.place(rec, int64(n.depth))
	var found history.Outcome
	child.events, found = log.Take(&r, sp.recs[rec].value, nil)
	child.shared = &member.Shared{Log: log, Planner: &policy.Planner{}}
	for i := range child.events {
		if e := &child.events[i]; e.Kind == lease.Evicted && r.Evict.Takeover {
			child.takenOver = append(child.takenOver[:len(child.takenOver):len(child.takenOver)], e.Instance)
		}
	}
	if n.children == nil {
		n.children = map[int32]int32{}
	}
	id := int32(len(sp.nodes))
	n.children[rec] = id
	sp.nodes = append(sp.nodes, child)
	if found != history.Fine && len(sp.cfg.Authors) == 0 {
		return id, "S1: a process finds that the log is another one, or a snapshot wrong"
	}
	return id, sp.checkRecord(n.log().World(), &r, log.World())
}

// place is a record as it stands at an offset. Time goes on in the log by a second a record: nothing may depend on it.
func (sp *space) place(rec int32, offset int64) lease.Record {
	r := sp.recs[rec].rec
	r.Offset, r.Timestamp = offset, offset*1000
	return r
}

// next is the node after one on the way to another; ok is false where that is the same.
func (sp *space) next(from, to int32) (int32, bool) {
	if from == to {
		return 0, false
	}
	for sp.nodes[to].parent != from {
		to = sp.nodes[to].parent
	}
	return to, true
}
