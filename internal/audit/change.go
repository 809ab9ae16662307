package audit

import "github.com/kafka-marshal/marshal/internal/lease"

// Change is one thing that a record did, for programs. Where a field does not apply it is zero, and Offset is -1.
type Change struct {
	Kind      string
	Topic     string
	Partition int32  // lease.WholeTopic also where there is no Topic
	Client    string // whom it happened to
	Instance  string
	By        string // the other one: who holds it, had it, or evicts
	Epoch     int64
	Offset    int64 // the next to read
	Reason    string
}

var changeNames = [...]string{
	lease.Joined: "joined", lease.Interested: "wants", lease.Left: "left", lease.Parked: "parked", lease.Evicted: "evicted", lease.Granted: "granted",
	lease.Held: "held", lease.Refused: "refused", lease.Released: "released", lease.HandedOver: "handed_over", lease.TakenOver: "taken_over",
	lease.Progressed: "progress", lease.Marked: "unfit", lease.Unmarked: "fit", lease.Sought: "sought", lease.Rebased: "rebased",
	lease.Announced: "announced", lease.Ignored: "ignored", lease.Newer: "newer",
}

// changes gives all that a record did, key by key.
func (a *Audit) changes(into []Change) []Change {
	w := a.log.World()
	for i := range a.events {
		e := &a.events[i]
		if e.Kind == lease.Renewed {
			continue
		}
		c := Change{Kind: changeNames[e.Kind], Partition: lease.WholeTopic, Epoch: e.Epoch, Offset: lease.NoProgress, Reason: reasons[e.Reason]}
		if e.Key.Topic != "" {
			c.Topic, c.Partition = e.Key.Topic, e.Key.Partition
		}
		if !e.Instance.IsZero() {
			m, _ := a.authors.find(e.Instance)
			c.Client, c.Instance = m.client, e.Instance.String()
		}
		if !e.By.IsZero() {
			c.By = e.By.String()
		}
		if e.Kind == lease.Progressed || e.Kind == lease.Sought {
			c.Offset = e.Next
		}
		into = append(into, c)
		if e.Kind != lease.Parked {
			continue
		}
		for k, l := range w.HeldBy(e.Instance) {
			kept := c
			kept.Kind, kept.Topic, kept.Partition, kept.Epoch = "kept", k.Topic, k.Partition, l.Epoch
			into = append(into, kept)
		}
	}
	return into
}
