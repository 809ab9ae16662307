package marshal

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// EventKind tells the events apart.
type EventKind int

// What a process hears of its group, and of its own claims. ClaimStarted, ClaimDraining, ClaimResumed and ClaimReleased have no log
// line of their own: one line tells what is held in all.
const (
	MemberJoined     EventKind = iota + 1 // a member has joined the group; our own too
	MemberLeft                            // a member has left
	MemberParked                          // a member has left, and its keys are kept for the next run of its client id
	MemberEvicted                         // a member was declared dead, or replaced by its next run; our own too: then it joins again
	ClientIDInUse                         // another living process has our client id; again each minute while it lasts
	HandOutSuspended                      // our lease was not confirmed in time: nothing is handed out
	HandOutResumed                        // it is confirmed again
	ClaimStarted                          // a key is ours from here on
	ClaimDraining                         // it is to be handed over: nothing more of it is handed out
	ClaimResumed                          // the hand-over came to nothing: it goes on as before
	ClaimReleased                         // it was handed over, or given back, or only kept (Terminate(false)), or begins anew after a Seek
	ClaimLost                             // it is not ours any more, against our will
	DrainCut                              // it was handed over with messages unfinished: DrainTimeout was over; or kept so, by Terminate(false)
	ClaimStalled                          // its oldest message is not finished in time (StallTimeout), or it is full (MaxInFlight)
	ClaimGivenUp                          // it goes to a fitter member because of that
	OffsetChanged                         // the position was set: by Seek, from outside, or since it was out of range
	PartitionFailed                       // a partition cannot be read: Err is a *PartitionError; again each 10 s while it lasts
	TopicChanged                          // a topic appeared, grew, vanished, or was recreated; a missing one again each minute
	MixedClaims                           // a topic is claimed as a whole by some members and by partitions by others
	UpgradeNeeded                         // a newer version of the protocol is in use in the group
	HistoryDiffers                        // a snapshot or another member's history differs from ours
	ForeignRecord                         // somebody else writes to the coordination topic under the group's name: skipped; again each minute if more come
	PartitionPaused                       // Pause was called for it, or (Partition -1) for its topic: nothing of it is handed out here
	PartitionResumed                      // Resume was called
	Trouble                               // something else fails; what may pass is told when it has lasted for 2 s, and then each 10 s
)

var kindNames = []string{
	"None", "MemberJoined", "MemberLeft", "MemberParked", "MemberEvicted", "ClientIDInUse", "HandOutSuspended", "HandOutResumed",
	"ClaimStarted", "ClaimDraining", "ClaimResumed", "ClaimReleased", "ClaimLost", "DrainCut", "ClaimStalled", "ClaimGivenUp",
	"OffsetChanged", "PartitionFailed", "TopicChanged", "MixedClaims", "UpgradeNeeded", "HistoryDiffers", "ForeignRecord",
	"PartitionPaused", "PartitionResumed", "Trouble",
}

// String is the name of the constant.
func (k EventKind) String() string {
	if k < 0 || int(k) >= len(kindNames) {
		return fmt.Sprintf("EventKind(%d)", int(k))
	}
	return kindNames[k]
}

// MarshalText gives the name.
func (k EventKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText takes a name.
func (k *EventKind) UnmarshalText(text []byte) error {
	i := slices.Index(kindNames, string(text))
	if i < 0 {
		return fmt.Errorf("marshal: no kind of event is named %.40q", text)
	}
	*k = EventKind(i)
	return nil
}

// Event is something that happened. Fields that do not apply are zero, Partition -1. As JSON its fields have their names in lower
// case, those that do not apply are left out, and Err is its text.
type Event struct {
	Time             time.Time
	Kind             EventKind
	Group            string
	Topic            string
	Partition        int32  // -1: a whole topic, or none in particular
	Offset           int64  // for OffsetChanged where it goes on, for PartitionFailed where it stands, for ForeignRecord its own in the coordination topic, for ClaimLost where it stood (-1: a whole topic, or it had not begun)
	Token            int64  // of the claim
	Client, Instance string // of the member that it is about; for ClaimLost of the one that has it now, if that is known
	Err              error  // what is wrong, if something is
	Text             string // the same in words, as it is in the log
	Missed           int64  // how many events before this one were dropped, because this listener is too slow
}

// MarshalJSON implements json.Marshaler.
func (e Event) MarshalJSON() ([]byte, error) {
	j := struct {
		Time      time.Time `json:"time"`
		Kind      EventKind `json:"kind"`
		Group     string    `json:"group,omitempty"`
		Topic     string    `json:"topic,omitempty"`
		Partition *int32    `json:"partition,omitempty"`
		Offset    *int64    `json:"offset,omitempty"`
		Token     int64     `json:"token,omitempty"`
		Client    string    `json:"client,omitempty"`
		Instance  string    `json:"instance,omitempty"`
		Err       string    `json:"err,omitempty"`
		Text      string    `json:"text"`
		Missed    int64     `json:"missed,omitempty"`
	}{Time: e.Time, Kind: e.Kind, Group: e.Group, Topic: e.Topic, Token: e.Token, Client: e.Client, Instance: e.Instance, Text: e.Text, Missed: e.Missed}
	if e.Topic != "" && e.Partition >= 0 {
		j.Partition = &e.Partition
	}
	if e.hasOffset() {
		j.Offset = &e.Offset
	}
	if e.Err != nil {
		j.Err = e.Err.Error()
	}
	return json.Marshal(j)
}

func (e *Event) hasOffset() bool {
	return e.Kind == OffsetChanged || e.Kind == PartitionFailed || e.Kind == ForeignRecord || e.Kind == ClaimLost && e.Offset >= 0
}

// eventQueue is how many events wait for one listener at most.
const eventQueue = 4096

// Events yields what happens in the group and to the claims of this process, in that order, from the call of Events on (not from
// the first step of the loop). It ends when ctx ends, or when the Marshaler is over and its last events have been yielded. Range
// over it once.
//
// A listener that is slow holds nobody up: up to 4,096 events wait for it, then the oldest are dropped, and Missed of the next
// event says how many. One that is never ranged over costs their memory until ctx ends. Without listeners an event costs
// nothing but its log line.
func (m *Marshaler) Events(ctx context.Context) iter.Seq[Event] {
	return m.hearers.listen(ctx, nil, m.closed)
}

// Events is Marshaler.Events for what concerns this consumer: its topics, partitions and claims, and what concerns the whole
// membership (HandOutSuspended, HandOutResumed, ClientIDInUse, UpgradeNeeded, HistoryDiffers, ForeignRecord, Trouble, and the Member… events of this
// client id). It ends when ctx ends, or when the consumer is over and its last events (the release of its claims) have been yielded.
func (c *Consumer) Events(ctx context.Context) iter.Seq[Event] {
	return c.m.hearers.listen(ctx, c, c.closed)
}

// hears tells whether an event of the membership or of a topic is one for this consumer.
func (c *Consumer) hears(e *Event) bool {
	switch {
	case e.Topic != "":
		return slices.Contains(c.names, e.Topic)
	case e.Kind == MemberJoined, e.Kind == MemberLeft, e.Kind == MemberParked, e.Kind == MemberEvicted:
		return e.Client == c.m.clientID
	}
	return true
}

// hearers are those who listen to the events of one Marshaler. A leaf: its lock may be taken under any other.
type hearers struct {
	mu  sync.Mutex
	all []*hearer
}

// hearer is one of them.
type hearer struct {
	consumer *Consumer // nil: hears everything

	// guarded by the lock of hearers
	queue  []Event
	missed int64
	over   bool
	kick   chan struct{}
}

// tell passes an event on. It never blocks.
func (hs *hearers) tell(e Event) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if len(hs.all) == 0 {
		return
	}
	e.Time = time.Now() // under the lock: they rise
	if e.Topic == "" {
		e.Partition = lease.WholeTopic
	}
	for _, h := range hs.all {
		if h.consumer != nil && !h.consumer.hears(&e) {
			continue
		}
		if len(h.queue) == eventQueue {
			h.queue = h.queue[1:]
			h.missed++
		}
		h.queue = append(h.queue, e)
		wakeUp(h.kick)
	}
}

// any tells whether somebody listens.
func (hs *hearers) any() bool {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return len(hs.all) > 0
}

// listen adds a hearer and gives its sequence. over is closed before its owner calls end.
func (hs *hearers) listen(ctx context.Context, c *Consumer, over <-chan struct{}) iter.Seq[Event] {
	h := &hearer{consumer: c, kick: make(chan struct{}, 1)}
	hs.mu.Lock()
	select {
	case <-over:
		h.over = true
	default:
		hs.all = append(hs.all, h)
	}
	hs.mu.Unlock()
	stop := context.AfterFunc(ctx, func() { hs.remove(h) })
	return func(yield func(Event) bool) {
		defer stop()
		defer hs.remove(h)
		for {
			e, ok := hs.next(ctx, h)
			if !ok || !yield(e) {
				return
			}
		}
	}
}

// next waits for the next event; false: there is none any more.
func (hs *hearers) next(ctx context.Context, h *hearer) (e Event, ok bool) {
	for ctx.Err() == nil {
		hs.mu.Lock()
		over := h.over
		if len(h.queue) > 0 {
			e = h.queue[0]
			h.queue[0] = Event{}
			h.queue = h.queue[1:]
			e.Missed, h.missed = h.missed, 0
			hs.mu.Unlock()
			return e, true
		}
		hs.mu.Unlock()
		if over {
			break
		}
		select {
		case <-h.kick:
		case <-ctx.Done():
		}
	}
	return e, false
}

// remove forgets a hearer; what waits for it is dropped.
func (hs *hearers) remove(h *hearer) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.all = slices.DeleteFunc(hs.all, func(o *hearer) bool { return o == h })
	h.queue, h.over = nil, true
	wakeUp(h.kick) // should two range over one sequence, the other one ends too
}

// end says that nothing more comes for the hearers of a consumer; nil: for any.
func (hs *hearers) end(c *Consumer) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.all = slices.DeleteFunc(hs.all, func(h *hearer) bool {
		if c != nil && h.consumer != c {
			return false
		}
		h.over = true
		wakeUp(h.kick)
		return true
	})
}

// emit tells of an event: in the log, and whoever listens. It never blocks, and may be called with any lock held.
func (m *Marshaler) emit(level logrus.Level, e Event) {
	m.c.report.put(level, m.eventFields(&e), "marshal: "+e.Text)
	m.hear(e)
}

// hear tells of an event without a line in the log: whoever listens, nobody else.
func (m *Marshaler) hear(e Event) {
	e.Group = m.groupID
	m.hearers.tell(e)
}

// lasting tells of a problem that comes again and again (each period, if it lasts), once it has lasted for 2 s, and then each 10 s.
// While it lasts Healthy gives e.Err, or the text where that is nil. e.Time, where set, is when the try began that failed now. It never blocks, and may be called with any lock held.
func (m *Marshaler) lasting(key string, period time.Duration, e Event) {
	if m.ailments.again(key, e.problem(), period, e.began(), time.Now()) {
		m.emit(logrus.WarnLevel, e)
	}
}

// lasting is Marshaler.lasting for what concerns this consumer alone.
func (c *Consumer) lasting(key string, period time.Duration, e Event) {
	if c.ailments.again(key, e.problem(), period, e.began(), time.Now()) {
		c.m.emit(logrus.WarnLevel, e)
	}
}

// emit tells of an event of the whole group: one line in the log, and whoever listens to one of its members here. Called with
// g.mu held.
func (g *group) emit(level logrus.Level, e Event) {
	f := eventFields(&e)
	f["group"] = g.name
	g.r.c.report.put(level, f, "marshal: "+e.Text)
	for _, m := range g.members {
		m.hear(e)
	}
}

// lasting is Marshaler.lasting for what concerns the whole group. Called without g.mu.
func (g *group) lasting(key string, period time.Duration, e Event) {
	if g.ailments.again(key, e.problem(), period, e.began(), time.Now()) {
		g.mu.Lock()
		defer g.mu.Unlock()
		g.emit(logrus.WarnLevel, e)
	}
}

func (m *Marshaler) eventFields(e *Event) logrus.Fields {
	f := eventFields(e)
	f["group"], f["client"] = m.groupID, m.clientID
	return f
}

// eventFields are those of a log line.
func eventFields(e *Event) logrus.Fields {
	f := logrus.Fields{"event": e.Kind.String()}
	if e.Topic != "" {
		f["topic"] = e.Topic
		if e.Partition >= 0 {
			f["partition"] = e.Partition
		}
	}
	if e.Token != 0 {
		f["token"] = e.Token
	}
	if e.hasOffset() {
		f["offset"] = e.Offset
	}
	if e.Instance != "" {
		f["instance"] = e.Instance
	}
	return f
}

// event is one about a claim.
func (c *claim) event(kind EventKind, text string) Event {
	return Event{Kind: kind, Topic: c.key.Topic, Partition: c.key.Partition, Token: c.token, Text: text}
}

// hear tells those who listen what happened to a claim. One that is only kept is none. Called with the group's lock held.
func (c *claim) hear(kind EventKind, what string) {
	if !c.unread && c.m.hearers.any() {
		c.m.hear(c.event(kind, nameOfKey(c.key)+" "+what))
	}
}

// begins, released and lost tell and count what becomes of a claim. Called with the group's lock held.
func (c *claim) begins() {
	c.hear(ClaimStarted, "is ours")
	if c.consumer != nil {
		c.consumer.counters.count(&c.consumer.counters.s.Claims)
	}
}

func (c *claim) released(what string) {
	c.hear(ClaimReleased, what)
	if c.consumer != nil {
		c.consumer.counters.count(&c.consumer.counters.s.Releases)
	}
}

func (c *claim) lost() {
	if c.consumer != nil {
		c.consumer.counters.count(&c.consumer.counters.s.Losses)
	}
}

// event is one about a partition of a claim.
func (p *partition) event(kind EventKind, text string) Event {
	return Event{Kind: kind, Topic: p.topic, Partition: p.id, Token: p.token, Text: text}
}

// nameOfKey names a key for people.
func nameOfKey(k lease.Key) string {
	if k.Partition == lease.WholeTopic {
		return k.Topic + " (whole)"
	}
	return fmt.Sprintf("%s/%d", k.Topic, k.Partition)
}
