package marshal

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// What happens in a group is told in the log as it happens: who comes and goes, what this process holds, whether it may hand out.

// tell tells what a record did to a member of the group. Called with g.mu held.
func (m *Marshaler) tell(e *lease.Event) {
	switch e.Kind {
	case lease.Joined:
		if e.Instance == m.instance {
			m.tellMember(logrus.InfoLevel, MemberJoined, e.Instance, "joined the group as "+m.nameOf(e.Instance))
		} else {
			m.tellMember(logrus.InfoLevel, MemberJoined, e.Instance, "member "+m.nameOf(e.Instance)+" has joined")
			if i := m.g.log.World().Instance(e.Instance); i != nil && i.Client == m.clientID {
				m.namesake(e.Instance)
			}
		}
		m.warnOfMix()
	case lease.Interested:
		m.warnOfMix()
	case lease.Left:
		m.tellMember(logrus.InfoLevel, MemberLeft, e.Instance, "member "+m.nameOf(e.Instance)+" has left")
	case lease.Parked:
		m.parked[e.Instance] = true
		m.tellMember(logrus.InfoLevel, MemberParked, e.Instance, "member "+m.nameOf(e.Instance)+" has left, and its keys are kept for the next run of its client id")
	case lease.Evicted:
		m.tellEnd(e)
	}
}

// tellMember tells of a member. Called with g.mu held.
func (m *Marshaler) tellMember(level logrus.Level, kind EventKind, id lease.InstanceID, text string) {
	e := Event{Kind: kind, Instance: id.String(), Text: text}
	if i := m.g.log.World().Instance(id); i != nil {
		e.Client = i.Client
	}
	m.emit(level, e)
}

// tellEnd tells why a member was declared dead. Called with g.mu held.
func (m *Marshaler) tellEnd(e *lease.Event) {
	w := m.g.log.World()
	who, by := w.Instance(e.Instance), w.Instance(e.By)
	switch {
	case e.Instance == m.instance: // told as our own end
	case m.parked[e.Instance]:
		m.tellMember(logrus.InfoLevel, MemberEvicted, e.Instance, "the earlier run "+m.nameOf(e.Instance)+" is over, its keys are not kept any longer")
	case who != nil && by != nil && who.Client == by.Client:
		m.tellMember(logrus.InfoLevel, MemberEvicted, e.Instance, "member "+m.nameOf(e.Instance)+" was replaced by its next run, "+m.nameOf(e.By))
	default:
		m.tellMember(logrus.WarnLevel, MemberEvicted, e.Instance, "member "+m.nameOf(e.Instance)+" was silent for its lease, and was declared dead by "+m.nameOf(e.By))
	}
	delete(m.parked, e.Instance)
}

// namesake notes a living process that has our client id. Called with g.mu held.
func (m *Marshaler) namesake(id lease.InstanceID) {
	if !m.leaving {
		m.namesakes[id] = true
		m.tellNamesakes()
	}
}

// nameOf names an instance for people: its client id, and the beginning of its instance id. Called with g.mu held.
func (m *Marshaler) nameOf(id lease.InstanceID) string {
	if i := m.g.log.World().Instance(id); i != nil {
		return fmt.Sprintf("%s (%v)", printable(i.Client), id)
	}
	return id.String()
}

// tellHoldings writes what this process holds when that has changed. Called with g.mu held.
func (m *Marshaler) tellHoldings() {
	if !m.claimsChanged {
		return
	}
	m.claimsChanged = false
	byTopic := map[string][]int32{}
	for k, c := range m.claims {
		if c.consumer != nil {
			byTopic[k.Topic] = append(byTopic[k.Topic], k.Partition)
		}
	}
	if holds := nameByTopic(byTopic); holds != m.holds {
		m.holds = holds
		m.c.report.info(m.fields(), "marshal: holds "+holds) // of the claims one by one whoever listens has heard
	}
}

// nameByTopic names partitions in a line of the log, as in "orders [0 2], paid (whole)".
func nameByTopic(byTopic map[string][]int32) string {
	var text []string
	for _, topic := range slices.Sorted(maps.Keys(byTopic)) {
		ps := byTopic[topic]
		slices.Sort(ps)
		switch {
		case ps[0] == lease.WholeTopic:
			text = append(text, topic+" (whole)")
		case len(ps) > 20:
			text = append(text, fmt.Sprintf("%s [%d partitions]", topic, len(ps)))
		default:
			text = append(text, fmt.Sprint(topic, " ", ps))
		}
	}
	if len(text) == 0 {
		return "nothing"
	}
	return strings.Join(text, ", ")
}

// tellFresh tells which partitions begin where StartOffset says: those of a new group, or of one whose positions are gone from the coordination
// topic and from Kafka, which nobody can tell apart.
func (c *Consumer) tellFresh(byTopic map[string][]int32) {
	if len(byTopic) > 0 {
		c.m.c.report.info(c.m.fields(), "marshal: no position of "+nameByTopic(byTopic)+" is known to the group: beginning where StartOffset says")
	}
}

// tellTrust tells when hand-out stops because the lease is not confirmed any more, and when it goes on. Called with g.mu held.
func (m *Marshaler) tellTrust() {
	suspended := m.member != nil && m.isJoined && !m.trusted()
	if suspended == m.suspended {
		return
	}
	m.suspended = suspended
	if !suspended {
		m.emit(logrus.InfoLevel, Event{Kind: HandOutResumed, Client: m.clientID, Text: "the lease is confirmed again, hand-out goes on"})
		return
	}
	e := Event{Kind: HandOutSuspended, Client: m.clientID, Err: m.troubled(), Text: "hand-out is suspended, the lease was not confirmed in time"}
	if e.Err != nil {
		e.Text += ": " + e.Err.Error()
	}
	m.emit(logrus.WarnLevel, e)
}

// printable is a name that somebody else has chosen, for a line of text: it cannot pass for a line of its own, nor move a terminal's cursor.
func printable(name string) string {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// warnOfMix warns, once, of a topic that some of the group claim as a whole and others by partitions: one of the two kinds
// may get nothing of it. Called with g.mu held.
func (m *Marshaler) warnOfMix() {
	for i := range m.g.log.World().Instances() {
		for _, interest := range i.Interests {
			for _, t := range interest.Topics {
				c := m.consumerOf(t.Topic)
				if c == nil || interest.Whole == c.options.ClaimEntireTopic || m.mixed[t.Topic] {
					continue
				}
				m.mixed[t.Topic] = true
				m.emit(logrus.WarnLevel, Event{
					Kind: MixedClaims, Topic: t.Topic, Partition: lease.WholeTopic, Client: i.Client, Instance: i.ID.String(),
					Text: fmt.Sprintf("topic %s is claimed as a whole by some members and by partitions by others (%s): "+
						"set ClaimEntireTopic alike in the whole group, else some may get nothing of it", t.Topic, m.nameOf(i.ID)),
				})
			}
		}
	}
}

// tellTopic tells when a topic appears, grows or vanishes.
func (c *Consumer) tellTopic(name string, was, now int) {
	if now == 0 {
		c.tellMissing(name)
		return
	}
	c.ailments.over("topic " + name)
	text := fmt.Sprintf("topic %s has %d partitions now, it had %d", name, now, was)
	if was == 0 {
		text = fmt.Sprintf("topic %s is there, with %d partitions", name, now)
	}
	c.m.emit(logrus.InfoLevel, Event{Kind: TopicChanged, Topic: name, Partition: lease.WholeTopic, Text: text})
}

// tellMissing warns of a topic that does not exist, at once and each minute.
func (c *Consumer) tellMissing(name string) {
	e := Event{
		Kind: TopicChanged, Topic: name, Partition: lease.WholeTopic,
		Text: fmt.Sprintf("topic %s does not exist; asked for again every %v", name, c.options.WatchInterval),
	}
	if c.ailments.remind("topic "+name, e.problem(), time.Now()) {
		c.m.emit(logrus.WarnLevel, e)
	}
}

// tellStalled warns of a partition that waits for a commit for long. Called by the loop alone.
func (c *Consumer) tellStalled(p *partition) {
	p.mu.Lock()
	full, at, n := p.win.Full() && (p.stalled || len(p.queue) > 0), p.win.Position(), p.win.Len()
	p.mu.Unlock()
	stands := full && p.stall.full && p.stall.fullAt == at // a full one whose position moves is only busy
	p.stall.full, p.stall.fullAt = full, at
	if stands && !c.options.StrictOrdering {
		c.stalled(p, fmt.Sprintf("%s/%d is paused at MaxInFlight: %d messages are handed out from offset %d on, which is not committed", p.topic, p.id, n, at))
	}
}

// stalled tells, for as long as it lasts, that the messages of a partition are not finished. To be called each CommitInterval.
func (c *Consumer) stalled(p *partition, text string) {
	e := p.event(ClaimStalled, text)
	e.Err = fmt.Errorf("%w: %s", ErrStalled, text)
	c.lasting(fmt.Sprintf("stalled %s/%d", p.topic, p.id), c.options.CommitInterval, e)
}

// unanswered reports that the cluster does not say what there is of a topic: mostly that this user may not know.
func (c *Consumer) unanswered(topic string, err error) {
	c.mu.Lock()
	c.problem(lease.Key{Topic: topic, Partition: lease.WholeTopic}, -1, err)
	c.mu.Unlock()
	e := c.trouble(time.Now(), "cannot ask for topic "+topic, err)
	e.Topic, e.Partition = topic, lease.WholeTopic
	c.lasting(unansweredFor+topic, callLimit+c.options.RetryBackoffMax, e)
}

const unansweredFor = "answer about "

// whereItWent tells whose a key is that was ours. Called with g.mu held.
func (m *Marshaler) whereItWent(k lease.Key) string {
	l, held := m.g.log.World().Lease(k)
	switch {
	case !held:
		return "was given back"
	case l.Instance == m.instance:
		return "stays with this process, kept or claimed anew"
	}
	return "was handed over to " + m.nameOf(l.Instance)
}
