package marshal

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/kafka-marshal/marshal/internal/lease"
)

// What happens in a group is told in the log as it happens: who comes and goes, what this process holds, whether it may hand out.

// tell writes a line about what a record did to a member of the group. Called with g.mu held.
func (m *Marshaler) tell(e *lease.Event) {
	r := m.c.report
	switch e.Kind {
	case lease.Joined:
		if e.Instance == m.instance {
			r.info(m.fields(), "marshal: joined the group as "+m.nameOf(e.Instance))
		} else {
			r.info(m.fields(), "marshal: member "+m.nameOf(e.Instance)+" has joined")
			if i := m.g.log.World().Instance(e.Instance); i != nil && i.Client == m.clientID && !m.leaving {
				r.warn(m.fields(), "marshal: another process has joined under this client id; each should have its own")
			}
		}
		m.warnOfMix()
	case lease.Interested:
		m.warnOfMix()
	case lease.Left:
		r.info(m.fields(), "marshal: member "+m.nameOf(e.Instance)+" has left")
	case lease.Parked:
		m.parked[e.Instance] = true
		r.info(m.fields(), "marshal: member "+m.nameOf(e.Instance)+" has left, and its keys are kept for the next run of its client id")
	case lease.Evicted:
		m.tellEnd(e)
	}
}

// tellEnd writes why a member was declared dead. Called with g.mu held.
func (m *Marshaler) tellEnd(e *lease.Event) {
	w := m.g.log.World()
	who, by := w.Instance(e.Instance), w.Instance(e.By)
	switch {
	case e.Instance == m.instance: // our own end is told as such
	case m.parked[e.Instance]:
		m.c.report.info(m.fields(), "marshal: the earlier run "+m.nameOf(e.Instance)+" is over, its keys are not kept any longer")
	case who != nil && by != nil && who.Client == by.Client:
		m.c.report.info(m.fields(), "marshal: member "+m.nameOf(e.Instance)+" was replaced by its next run, "+m.nameOf(e.By))
	default:
		m.c.report.warn(m.fields(), "marshal: member "+m.nameOf(e.Instance)+" was silent for its lease, and was declared dead by "+m.nameOf(e.By))
	}
	delete(m.parked, e.Instance)
}

// nameOf names an instance for people: its client id, and the beginning of its instance id. Called with g.mu held.
func (m *Marshaler) nameOf(id lease.InstanceID) string {
	if i := m.g.log.World().Instance(id); i != nil {
		return fmt.Sprintf("%s (%v)", i.Client, id)
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
		text = []string{"nothing"}
	}
	if holds := strings.Join(text, ", "); holds != m.holds {
		m.holds = holds
		m.c.report.info(m.fields(), "marshal: holds "+holds)
	}
}

// tellTrust writes when hand-out stops because the lease is not confirmed any more, and when it goes on. Called with g.mu held.
func (m *Marshaler) tellTrust() {
	suspended := m.member != nil && m.isJoined && !m.trusted()
	if suspended == m.suspended {
		return
	}
	m.suspended = suspended
	switch {
	case !suspended:
		m.c.report.info(m.fields(), "marshal: the lease is confirmed again, hand-out goes on")
	case m.troubled() != nil:
		m.c.report.warn(m.fields(), "marshal: hand-out is suspended, the lease was not confirmed in time: "+m.troubled().Error())
	default:
		m.c.report.warn(m.fields(), "marshal: hand-out is suspended, the lease was not confirmed in time")
	}
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
				m.c.report.warn(m.fields(), fmt.Sprintf("marshal: topic %s is claimed as a whole by some members and by partitions by others (%s): "+
					"set ClaimEntireTopic alike in the whole group, else some may get nothing of it", t.Topic, m.nameOf(i.ID)))
			}
		}
	}
}

// tellTopic writes when a topic appears or vanishes.
func (c *Consumer) tellTopic(name string, was, now int) {
	switch {
	case now == 0:
		c.m.c.report.warn(c.m.fields(), fmt.Sprintf("marshal: topic %s does not exist; asked for again every %v", name, c.options.WatchInterval))
	case was == 0:
		c.m.c.report.info(c.m.fields(), fmt.Sprintf("marshal: topic %s is there, with %d partitions", name, now))
	default:
		c.m.c.report.info(c.m.fields(), fmt.Sprintf("marshal: topic %s has %d partitions now, it had %d", name, now, was))
	}
}

// tellStalled warns of a partition that waits for a commit for long.
func (c *Consumer) tellStalled(p *partition) {
	p.mu.Lock()
	stalled, at, n := p.stalled && p.win.Full(), p.win.Position(), p.win.Len()
	p.mu.Unlock()
	if stalled && !c.options.StrictOrdering {
		c.m.c.report.lasting(fmt.Sprintf("stalled %s %s/%d", c.m.groupID, p.topic, p.id), p.claim.fields(), fmt.Sprintf(
			"marshal: %s/%d is paused at MaxInFlight: %d messages are handed out from offset %d on, which is not committed", p.topic, p.id, n, at))
	}
}
