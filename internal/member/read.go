package member

import "github.com/kafka-marshal/marshal/internal/lease"

// read takes a batch of events, in order. Whoever is named in them is met and lost event by event, since who was there
// at a record is not who is there after the batch.
func (m *Member) read(events []lease.Event, now Now) {
	m.claims.linger = false
	for i := range events {
		e := &events[i]
		mine := e.Instance == m.cfg.Instance
		switch e.Kind {
		case lease.Renewed:
			if mine {
				m.entered(now)
				m.readBack(e.Seq, now)
			} else {
				m.renewed(e.Instance, now)
			}
		case lease.Joined:
			if mine {
				m.entered(now)
			} else {
				m.metNew(e.Instance, now)
			}
		case lease.Left, lease.Evicted:
			m.lose(e.Instance)
		case lease.Parked:
			if i := m.world().Instance(e.Instance); i != nil {
				m.see(i, now)
			}
		case lease.TakenOver:
			if mine {
				m.claims.reclaimed[e.Key] = true
			}
		case lease.Granted:
			if mine && !e.By.IsZero() {
				m.claims.reclaimed[e.Key] = true
			}
		case lease.Refused:
			if mine {
				m.refused(e.Key, e.Reason)
			}
		case lease.Progressed:
			if mine && e.Author == m.cfg.Instance && e.Record == lease.KindHeartbeat {
				m.progressed(e.Key, e.Next)
			}
		case lease.Ignored:
			if e.Author == m.cfg.Instance && e.Key == (lease.Key{}) {
				m.ignored(e)
			}
		case lease.Newer:
			m.upgrade(now)
		}
		switch e.Kind {
		case lease.Joined, lease.Interested, lease.Left, lease.Parked, lease.Evicted:
			m.watch.moved = now.Mono
		case lease.Rebased:
			if m.stage == member {
				m.notice(Notice{Kind: Rejoining})
				m.end("the group's history began anew")
			} else {
				m.meet(now)
			}
		}
		if m.ended(e); m.stage == over {
			return
		}
	}
}

// ended takes an event that says that we are over: we left, or another evicted us.
func (m *Member) ended(e *lease.Event) {
	if e.Instance != m.cfg.Instance || m.stage != member {
		return
	}
	switch e.Kind {
	case lease.Left, lease.Parked:
		m.leave()
	case lease.Evicted:
		m.notice(Notice{Kind: Rejoining, Other: e.By})
		m.end("evicted by " + m.nameOf(e.By))
	}
}

// entered takes that our Join was read back: we are in the world.
func (m *Member) entered(now Now) {
	if m.stage != joining {
		return
	}
	m.stage = member
	m.join.first = lease.Record{}
	m.watch.moved = now.Mono
	m.claims.stale = true
	m.pace = m.interval()
	m.begin()
	m.ask()
}

// ignored takes that Apply ignored a record of ours. An echo is no news, and an author that has ended reads of that
// elsewhere. What the world will not take however often it is written (a Join over its limits) is as good as refused.
func (m *Member) ignored(e *lease.Event) {
	switch {
	case e.Reason != lease.TooMany && e.Reason != lease.Malformed && e.Reason != lease.OtherTopic:
	case m.stage == joining:
		m.turnedAway(e.Reason)
	default:
		m.refuse(e.Seq)
	}
}

// metNew takes that another instance joined.
func (m *Member) metNew(id lease.InstanceID, now Now) {
	i := m.world().Instance(id)
	if i == nil {
		return
	}
	var before []*peer
	namesake := i.Client == m.cfg.Client
	if namesake {
		before = m.namesakes()
	}
	if i.Status != lease.Ended { // else it has ended within the batch
		m.see(i, now)
	}
	if namesake {
		m.arrived(before)
	}
}

// upgrade takes that the group writes in a version that we cannot read: what we believe of the world is not true any
// more. We leave, so that our keys are free at once.
func (m *Member) upgrade(now Now) {
	m.notice(Notice{Kind: UpgradeNeeded})
	if m.stage == member {
		m.farewell(now)
	}
	m.end("the group writes a newer version than ours")
}
