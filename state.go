package marshal

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// State is what this process knows of a group at one moment: the world that every member has computed from the same log.
type State struct {
	Group      string          `json:"group"`
	Offset     int64           `json:"offset"`               // of the group's newest record that is part of it; -1: none, or the log is being read anew
	Unreadable string          `json:"unreadable,omitempty"` // why nothing is known of it yet (WithAllGroups); "" where the log was read
	Foreign    int64           `json:"foreign"`              // records by somebody else under the group's name, as met since this process follows its log: skipped
	Instances  []InstanceState `json:"instances"`
	Keys       []KeyState      `json:"keys"` // in the order of topic and partition
}

// InstanceState is one member.
//
// Its Status is for display, by Silent where that is measured, else by LastHeartbeat: silent, nothing was heard of it for more than
// two fifths of its lease, in which there are two heartbeats; overdue, for longer than its lease: whoever is there will evict it;
// parked, its keys are kept for the next run of its client id; replaced, that run is there and has them.
type InstanceState struct {
	Instance      string        `json:"instance"`
	Client        string        `json:"client"`
	Host          string        `json:"host,omitempty"`
	Status        string        `json:"status"`         // alive, silent, overdue, parked or replaced; see below
	Parked        bool          `json:"parked"`         // its keys are kept for the next run of its client id
	TTL           time.Duration `json:"ttl_ns"`         // its lease
	LastHeartbeat time.Time     `json:"last_heartbeat"` // the broker's clock; for display
	Overdue       bool          `json:"overdue"`        // by that, its lease looks expired; for display: nobody decides by clocks
	Silent        time.Duration `json:"silent_ns"`      // how long nothing was heard of it while the log was alive; 0 for our own, -1: nobody here measures it
	Claims        int           `json:"claims"`
	InFlight      int64         `json:"in_flight"` // as it last said
	Lag           int64         `json:"lag"`       // as it last said
	Suspended     bool          `json:"suspended"` // this process: its lease is not confirmed at the moment, so it hands out nothing
}

// KeyState is one partition, or one topic that is claimed as a whole (Partition -1).
type KeyState struct {
	Topic     string  `json:"topic"`
	Partition int32   `json:"partition"`
	Instance  string  `json:"instance,omitempty"` // of its holder; empty: nobody holds it
	Client    string  `json:"client,omitempty"`   // of its holder, or of the last one
	Epoch     int64   `json:"epoch,omitempty"`
	Token     int64   `json:"token,omitempty"`
	Next      int64   `json:"next"`            // the next offset to read, of a partition; -1: not known
	Parts     []int64 `json:"parts,omitempty"` // the same for each partition, of a topic that is claimed as a whole
	Why       string  `json:"why,omitempty"`   // nobody holds it, or a member that is parked, silent or overdue does: why, and for how long

	// What this process knows of keys that its own consumers hold; of a whole topic it is so of one partition at least.
	Pending  string        `json:"pending,omitempty"`    // why it has not begun
	Paused   bool          `json:"paused,omitempty"`     // by Pause
	Draining bool          `json:"draining,omitempty"`   // it is to be handed over: nothing more of it is handed out
	Stalled  time.Duration `json:"stalled_ns,omitempty"` // for how long its oldest message in hand is unfinished, where that is StallTimeout or longer
	Failed   string        `json:"failed,omitempty"`     // why it cannot be read
}

// State gives what this process knows of the group. It does not touch the network. After Terminate it is what was known last.
func (m *Marshaler) State() State {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	return m.g.state(m)
}

// state gives what is known of the group, with what a member of it can tell beside (nil: there is none here). Called with g.mu
// held.
func (g *group) state(m *Marshaler) State {
	s := State{Group: g.name, Offset: -1, Foreign: g.foreign.count, Instances: []InstanceState{}, Keys: []KeyState{}}
	if !g.live {
		s.Unreadable = g.unreadable
		return s
	}
	now := time.Now()
	w := g.log.World()
	s.Offset = w.Last()
	clients := map[lease.InstanceID]string{}
	counts := map[string]int32{}
	whole := map[string]bool{}
	for i := range w.Instances() {
		clients[i.ID] = i.Client
		in := InstanceState{
			Instance: i.ID.String(), Client: i.Client, Host: i.Host, Parked: i.Status == lease.IsParked, TTL: i.TTL,
			LastHeartbeat: time.UnixMilli(i.RenewedTime), Overdue: now.Sub(time.UnixMilli(i.RenewedTime)) > i.TTL, Silent: -1, Claims: w.HeldCount(i.ID), InFlight: i.Load.InFlight, Lag: i.Load.Lag,
		}
		switch {
		case m == nil || m.member == nil:
		case i.ID == m.instance:
			in.Silent, in.Suspended = 0, !m.trusted()
		default:
			in.Silent = m.member.LiveTime(i.ID)
		}
		in.Status = in.status(w.HasClient(i.Client), now)
		s.Instances = append(s.Instances, in)
		for _, interest := range i.Interests {
			for _, t := range interest.Topics {
				counts[t.Topic] = w.Partitions(t.Topic)
				whole[t.Topic] = whole[t.Topic] || interest.Whole
			}
		}
	}
	why := s.holders(now)
	for k, l := range w.Leases() {
		ks := KeyState{
			Topic: k.Topic, Partition: k.Partition, Instance: l.Instance.String(), Client: clients[l.Instance],
			Epoch: l.Epoch, Token: w.TokenBase() + l.Epoch, Next: lease.NoProgress, Why: why[l.Instance.String()],
		}
		if k.Partition == lease.WholeTopic {
			for id := range w.Partitions(k.Topic) {
				ks.Parts = append(ks.Parts, next(w, k.Topic, id))
			}
		} else {
			ks.Next = next(w, k.Topic, k.Partition)
		}
		if m != nil && l.Instance == m.instance {
			if cl := m.claims[k]; cl != nil {
				ks.own(cl)
			}
		}
		s.Keys = append(s.Keys, ks)
	}
	plan := g.planner.Plan(w)
	for topic, n := range counts {
		if n == 0 {
			s.Keys = append(s.Keys, KeyState{Topic: topic, Partition: lease.WholeTopic, Next: lease.NoProgress, Why: "no such topic, or its members may not see it"})
		}
		for id := range n {
			if _, _, held := w.Owner(topic, id); !held {
				s.Keys = append(s.Keys, unheld(w, plan, clients, lease.Key{Topic: topic, Partition: id}, whole[topic]))
			}
		}
	}
	for k, p := range w.AllProgress() {
		n, wanted := counts[k.Topic]
		why := "free, no member wants it"
		if wanted {
			why = fmt.Sprintf("free, the topic has %d partitions now, as far as the group sees", n)
		}
		if _, _, held := w.Owner(k.Topic, k.Partition); !held && k.Partition >= n && (n > 0 || !wanted) {
			s.Keys = append(s.Keys, KeyState{Topic: k.Topic, Partition: k.Partition, Next: p.Next, Client: p.Client, Why: why})
		}
	}
	slices.SortFunc(s.Keys, func(a, b KeyState) int {
		return compareKeys(lease.Key{Topic: a.Topic, Partition: a.Partition}, lease.Key{Topic: b.Topic, Partition: b.Partition})
	})
	return s
}

func next(w *lease.World, topic string, partition int32) int64 {
	if p, ok := w.Progress(topic, partition); ok {
		return p.Next
	}
	return lease.NoProgress
}

// unheld describes a partition that nobody holds.
func unheld(w *lease.World, plan *policy.Plan, clients map[lease.InstanceID]string, k lease.Key, whole bool) KeyState {
	ks := KeyState{Topic: k.Topic, Partition: k.Partition, Next: lease.NoProgress}
	if p, ok := w.Progress(k.Topic, k.Partition); ok {
		ks.Next, ks.Client = p.Next, p.Client
	}
	id, ok := plan.Claimant(k, 0)
	all := lease.Key{Topic: k.Topic, Partition: lease.WholeTopic}
	if !ok && whole {
		id, ok = plan.Claimant(all, 0)
	}
	other, by, conflict := w.Conflict(all)
	switch {
	case ok:
		ks.Why = "free, to be claimed by " + clients[id]
	case whole && conflict:
		ks.Why = fmt.Sprintf("free, wanted as a part of the whole topic, of which %s holds %s/%d", clients[by.Instance], other.Topic, other.Partition)
	case w.HasMark(k) || w.HasMark(all):
		ks.Why = "free, everybody who wants it is at the maximum, or gave it up as unfit"
	default:
		ks.Why = "free, everybody who wants it is at the maximum"
	}
	return ks
}

// PrintState writes State to the log, a line for the group, for each member and for each key. It does not block, and touches no
// network; after Terminate it writes what was known last.
func (m *Marshaler) PrintState() {
	lines := m.State().lines()
	for i := range lines {
		lines[i] = "marshal: " + lines[i]
	}
	m.c.report.put(logrus.InfoLevel, m.fields(), lines...)
}

// PrintState writes the state of the consumer's group to the log; see Marshaler.PrintState.
func (c *Consumer) PrintState() { c.m.PrintState() }

// String gives the lines that PrintState writes.
func (s State) String() string { return strings.Join(s.lines(), "\n") }

func (s State) lines() []string {
	if s.Unreadable != "" {
		return []string{fmt.Sprintf("group %s: nothing is known of it yet: %s", printable(s.Group), s.Unreadable)}
	}
	lines := []string{fmt.Sprintf("group %s at offset %d: %d members, %d keys", printable(s.Group), s.Offset, len(s.Instances), len(s.Keys))}
	if s.Foreign > 0 {
		lines[0] += fmt.Sprintf(", %d records by somebody else under its name", s.Foreign)
	}
	for _, i := range s.Instances {
		note := ""
		switch {
		case i.Status == isReplaced:
			note = ", replaced by its next run"
		case i.Parked:
			note = ", parked: its keys are kept for the next run"
		case i.Suspended:
			note = ", hand-out suspended: its lease is not confirmed"
		case i.Status == isOverdue:
			note = ", overdue: its lease looks expired"
		case i.Status == isSilent:
			note = ", misses its heartbeats"
		}
		silent := fmt.Sprintf("silent %v of %v", i.Silent.Round(time.Millisecond), i.TTL)
		if i.Silent < 0 {
			silent = fmt.Sprintf("last heard of at %s, lease %v", i.LastHeartbeat.UTC().Format(time.RFC3339), i.TTL)
		}
		work := fmt.Sprintf("lag %d, in flight %d, %s", i.Lag, i.InFlight, silent)
		if i.Parked { // nobody works on it
			work = fmt.Sprintf("left at %s", i.LastHeartbeat.UTC().Format(time.RFC3339))
		}
		lines = append(lines, fmt.Sprintf("  member %s (%s) on %s: %d claims, %s%s", printable(i.Client), i.Instance, printable(i.Host), i.Claims, work, note))
	}
	for _, k := range s.Keys {
		lines = append(lines, "  "+k.String())
	}
	return lines
}
