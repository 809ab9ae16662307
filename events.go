package marshal

import (
	"time"

	"github.com/sirupsen/logrus"
)

// EventKind tells the events apart.
type EventKind int

// What a process hears of its group, and of its own claims.
const (
	MemberJoined     EventKind = iota + 1 // a member has joined the group; our own too
	MemberLeft                            // a member has left
	MemberParked                          // a member has left, and its keys are kept for the next run of its client id
	MemberEvicted                         // a member was declared dead, or replaced by its next run; our own too
	ClientIDInUse                         // another living process has our client id
	HandOutSuspended                      // our lease was not confirmed in time: nothing is handed out
	HandOutResumed                        // it is confirmed again
	ClaimStarted                          // a key is ours from here on
	ClaimDraining                         // it is to be handed over: nothing more of it is handed out
	ClaimReleased                         // it was handed over, or given back
	ClaimLost                             // it is not ours any more, against our will
	DrainCut                              // it was handed over with messages unfinished: DrainTimeout was over
	ClaimStalled                          // its oldest message is not finished in time (StallTimeout), or it is full (MaxInFlight)
	ClaimGivenUp                          // it goes to a fitter member because of that
	OffsetChanged                         // the position was set: by Seek, from outside, or since it was out of range
	PartitionFailed                       // a partition cannot be read: Err is a *PartitionError
	TopicChanged                          // a topic appeared, grew, vanished, or was recreated
	MixedClaims                           // a topic is claimed as a whole by some members and by partitions by others
	UpgradeNeeded                         // a newer version of the protocol is in use in the group
	HistoryDiffers                        // a snapshot or another member's history differs from ours
	Trouble                               // something else fails, and has for a while
)

// Event is something that happened. Fields that do not apply are zero, Partition -1.
type Event struct {
	Time             time.Time
	Kind             EventKind
	Group            string
	Topic            string
	Partition        int32  // -1: a whole topic, or none in particular
	Offset           int64  // for OffsetChanged where it goes on, for PartitionFailed where it stands
	Token            int64  // of the claim
	Client, Instance string // of the member that it is about
	Err              error  // what is wrong, if something is
	Text             string // the same in words, as it is in the log
}

// emit tells of an event: in the log, and whoever listens. It never blocks, and may be called with any lock held.
func (m *Marshaler) emit(level logrus.Level, e Event) {
	f := m.fields()
	if e.Topic != "" {
		f["topic"] = e.Topic
	}
	m.c.report.put(level, f, "marshal: "+e.Text)
}
