package marshal

import (
	"fmt"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// foreign counts the records that somebody else wrote under a group's name, and remembers when they were told of. Guarded by the
// group's lock.
type foreign struct {
	count   int64
	told    time.Time
	rebased int64 // broker's time of the newest Base, Unix ms: what its members of before had under way comes after it
}

// lateFor is for how long after a Base its members of before may still be heard.
const lateFor = time.Minute

// meet looks whether a record was written by somebody else, and tells of it at once and then each minute at most. Called with g.mu
// held, after the record was applied.
func (g *group) meet(e *entry, news []lease.Event) {
	f := &g.foreign
	for i := range news {
		if news[i].Kind == lease.Rebased {
			f.rebased = e.timestamp
		}
	}
	why := g.stranger(e, news)
	if why == "" {
		return
	}
	f.count++
	now := time.Now()
	if now.Sub(f.told) < remindEvery {
		return
	}
	f.told = now
	g.emit(logrus.WarnLevel, Event{Kind: ForeignRecord, Offset: e.offset, Text: fmt.Sprintf(
		"somebody else writes to the coordination topic under this group's name: the record at %s/%d offset %d (%d bytes) %s; skipped, %d so far",
		g.r.c.set.topic, g.r.shard, e.offset, len(e.value), why, f.count)})
}

// stranger says why a record is none of a member's; "": it is one, perhaps a late one: of a member that has ended, or a second time.
func (g *group) stranger(e *entry, news []lease.Event) string {
	rec := &g.reading.record
	if len(news) == 0 || news[0].Kind != lease.Ignored || news[0].Key != (lease.Key{}) {
		return ""
	}
	author := g.log.World().Instance(rec.Instance)
	switch reason := news[0].Reason; {
	case writtenByOriginal(e.value):
		return "is one of the original Marshal, whose processes cannot share a topic with ours (WithTopic)"
	case rec.Kind == lease.Foreign:
		return "cannot be read"
	case reason == lease.AuthorUnknown && e.timestamp-g.foreign.rebased > lateFor.Milliseconds(), rec.Kind == lease.KindNewer && author == nil:
		return fmt.Sprintf("is of %v, which has never joined", rec.Instance)
	case reason == lease.Malformed && rec.Kind != lease.KindNewer:
		return "has values that no member writes"
	}
	return ""
}
