package history

import "github.com/kafka-marshal/marshal/internal/lease"

// Scan reads a stretch of the shard, from an offset to the end that it had, and finds the newest base in it.
type Scan struct {
	topicID lease.TopicID
	from    int64
	last    int64 // the group's newest record in the stretch; from-1 stands for whatever was before it
	chunks  assembler
	base    Base
	found   bool
}

// NewScan begins a scan that reads from offset from on. from == 0 is a base by itself, if nothing newer is found. All of
// the group's records from there on must be given to it, in order.
func NewScan(topicID lease.TopicID, from int64) *Scan {
	s := &Scan{topicID: topicID, from: from, last: from - 1}
	if from == 0 {
		s.base, s.found = emptyBase(topicID, 0), true
	}
	return s
}

// Add takes the group's next record. value is the message's value as it stands in the log.
func (s *Scan) Add(rec *lease.Record, value []byte) {
	switch rec.Kind {
	case lease.KindProbe:
		return
	case lease.KindSnapshot:
		s.addChunk(rec)
	case lease.KindBase:
		s.addBase(rec)
	}
	s.last = max(s.last, rec.Offset)
}

// addBase takes a Base for the start of the history if it is one. Who began behind its seen+1 cannot know whether there
// were records of the group in between; who began there or before has met them: nothing before from can be above
// from-1, so it is as if the record at from-1 were the group's.
func (s *Scan) addBase(rec *lease.Record) {
	if validBase(rec, s.last) {
		s.take(emptyBase(s.topicID, rec.Offset))
	}
}

// addChunk takes a snapshot for the start, once complete, if every record after its upto is in the stretch.
func (s *Scan) addChunk(rec *lease.Record) {
	if rec.Snapshot.Upto+1 < s.from || s.found && rec.Snapshot.Upto+1 <= s.base.From {
		return
	}
	payload, complete := s.chunks.add(rec)
	if !complete || !rec.Snapshot.TopicID.Same(s.topicID) {
		return
	}
	hash, w, err := parsePayload(payload)
	if err != nil || !believable(w, rec, s.topicID) {
		return
	}
	s.take(Base{From: rec.Snapshot.Upto + 1, World: w, Hash: hash})
}

// believable tells whether a snapshot can be what its author announced: the announcing heartbeat, at upto, is the newest
// record in that world and renewed its author there.
func believable(w *lease.World, rec *lease.Record, topicID lease.TopicID) bool {
	author := w.Instance(rec.Snapshot.Author)
	return w.Last() == rec.Snapshot.Upto && w.TopicID().Same(topicID) &&
		author != nil && author.Status == lease.Alive && author.Renewed == rec.Snapshot.Upto
}

// take takes a base that is newer than what was found before.
func (s *Scan) take(b Base) { s.base, s.found = b, true }

// Base gives the newest base found: the complete Snapshot with the largest upto that can still be followed from here, a
// valid Base record, or offset 0.
func (s *Scan) Base() (Base, bool) { return s.base, s.found }
