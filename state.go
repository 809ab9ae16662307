package marshal

import (
	"fmt"
	"slices"
	"time"

	"github.com/kafka-marshal/marshal/internal/lease"
	"github.com/kafka-marshal/marshal/internal/policy"
)

// State is what this process knows of its group at one moment: the world that every member has computed from the same log.
type State struct {
	Group     string
	Offset    int64 // of the group's newest record that is part of it; -1: none, or the log is being read anew
	Instances []InstanceState
	Keys      []KeyState // in the order of topic and partition
}

// InstanceState is one member.
type InstanceState struct {
	Instance, Client, Host string
	Parked                 bool // its keys are kept for the next run of its client id
	TTL                    time.Duration
	LastHeartbeat          time.Time     // the broker's clock; for display
	Silent                 time.Duration // how long nothing was heard of it while the log was alive; 0 for our own
	Claims                 int
	InFlight, Lag          int64 // as it last said
}

// KeyState is one partition, or one topic that is claimed as a whole (Partition -1).
type KeyState struct {
	Topic     string
	Partition int32
	Instance  string // of its holder; empty: nobody holds it
	Client    string // of its holder, or of the last one
	Epoch     int64
	Token     int64
	Next      int64  // the next offset to read, of a partition; -1: not known
	Why       string // of one that nobody holds
}

// State gives what this process knows of the group. It does not touch the network.
func (m *Marshaler) State() State {
	m.g.mu.Lock()
	defer m.g.mu.Unlock()
	s := State{Group: m.groupID, Offset: -1}
	if !m.g.live {
		return s
	}
	w := m.g.log.World()
	s.Offset = w.Last()
	clients := map[lease.InstanceID]string{}
	counts := map[string]int32{}
	whole := map[string]bool{}
	for i := range w.Instances() {
		clients[i.ID] = i.Client
		in := InstanceState{
			Instance: i.ID.String(), Client: i.Client, Host: i.Host, Parked: i.Status == lease.IsParked, TTL: i.TTL,
			LastHeartbeat: time.UnixMilli(i.RenewedTime), Claims: w.HeldCount(i.ID), InFlight: i.Load.InFlight, Lag: i.Load.Lag,
		}
		if m.member != nil && i.ID != m.instance {
			in.Silent = m.member.LiveTime(i.ID)
		}
		s.Instances = append(s.Instances, in)
		for _, interest := range i.Interests {
			for _, t := range interest.Topics {
				counts[t.Topic] = w.Partitions(t.Topic)
				whole[t.Topic] = whole[t.Topic] || interest.Whole
			}
		}
	}
	for k, l := range w.Leases() {
		ks := KeyState{
			Topic: k.Topic, Partition: k.Partition, Instance: l.Instance.String(), Client: clients[l.Instance],
			Epoch: l.Epoch, Token: w.TokenBase() + l.Epoch, Next: lease.NoProgress,
		}
		if p, ok := w.Progress(k.Topic, k.Partition); ok {
			ks.Next = p.Next
		}
		s.Keys = append(s.Keys, ks)
	}
	plan := m.g.planner.Plan(w)
	for topic, n := range counts {
		for id := range n {
			if _, _, held := w.Owner(topic, id); !held {
				s.Keys = append(s.Keys, unheld(w, plan, clients, lease.Key{Topic: topic, Partition: id}, whole[topic]))
			}
		}
	}
	slices.SortFunc(s.Keys, func(a, b KeyState) int {
		return compareKeys(lease.Key{Topic: a.Topic, Partition: a.Partition}, lease.Key{Topic: b.Topic, Partition: b.Partition})
	})
	return s
}

// unheld describes a partition that nobody holds.
func unheld(w *lease.World, plan *policy.Plan, clients map[lease.InstanceID]string, k lease.Key, whole bool) KeyState {
	ks := KeyState{Topic: k.Topic, Partition: k.Partition, Next: lease.NoProgress}
	if p, ok := w.Progress(k.Topic, k.Partition); ok {
		ks.Next, ks.Client = p.Next, p.Client
	}
	id, ok := plan.Claimant(k, 0)
	if !ok && whole {
		id, ok = plan.Claimant(lease.Key{Topic: k.Topic, Partition: lease.WholeTopic}, 0)
	}
	switch {
	case ok:
		ks.Why = "free, to be claimed by " + clients[id]
	case w.HasMark(k):
		ks.Why = "free, given up as unfit by everybody who wants it"
	default:
		ks.Why = "free, everybody who wants it is at the maximum"
	}
	return ks
}

// PrintState writes State to the log, one line per member and per key. It does not block anything else.
func (m *Marshaler) PrintState() { m.c.set.log.Info(m.State().String()) }

// PrintState writes the state of the consumer's group to the log; see Marshaler.PrintState.
func (c *Consumer) PrintState() { c.m.PrintState() }

// String gives a line per member and per key.
func (s State) String() string {
	b := fmt.Appendf(nil, "group %s at offset %d: %d members, %d keys\n", s.Group, s.Offset, len(s.Instances), len(s.Keys))
	for _, i := range s.Instances {
		note := ""
		if i.Parked {
			note = ", parked"
		}
		b = fmt.Appendf(b, "  member %s client %s on %s: %d claims, lag %d, in flight %d, silent %v of %v%s\n",
			i.Instance, i.Client, i.Host, i.Claims, i.Lag, i.InFlight, i.Silent.Round(time.Millisecond), i.TTL, note)
	}
	for _, k := range s.Keys {
		name := fmt.Sprintf("%s/%d", k.Topic, k.Partition)
		if k.Partition == lease.WholeTopic {
			name = k.Topic + " (whole topic)"
		}
		if k.Instance == "" {
			b = fmt.Appendf(b, "  %s next %d: %s\n", name, k.Next, k.Why)
		} else {
			b = fmt.Appendf(b, "  %s next %d: %s client %s epoch %d token %d\n", name, k.Next, k.Instance, k.Client, k.Epoch, k.Token)
		}
	}
	return string(b)
}
