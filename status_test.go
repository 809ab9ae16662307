package marshal

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/kafka-marshal/marshal/testutil"
)

func TestTheStatusOfAMemberAndWhyItsKeysStandStill(t *testing.T) {
	now := time.Date(2026, 1, 2, 15, 4, 5, 0, time.UTC)
	for name, c := range map[string]struct {
		heard, measured time.Duration // measured -1: by the broker's clock
		parked          bool
		claims          int
		namesake, alone bool
		status, why     string
	}{
		"heard of":                    {heard: 4 * time.Second, measured: -1, claims: 1, status: "alive"},
		"by the broker's clock":       {heard: 9 * time.Second, measured: -1, claims: 1, status: "silent", why: "its holder was last heard of 9s ago, its lease is 10s"},
		"measured":                    {heard: 9 * time.Second, measured: 0, claims: 1, status: "alive"},
		"measured silence":            {heard: time.Second, measured: 5 * time.Second, claims: 1, status: "silent", why: "last heard of 5s ago"},
		"overdue":                     {heard: 11 * time.Second, measured: -1, claims: 1, status: "overdue", why: "last heard of 11s ago, its lease was 10s: to be evicted by the others"},
		"overdue, and nobody is left": {heard: time.Hour, measured: -1, claims: 1, alone: true, status: "overdue", why: "its holder looks dead, last heard of 1h0m0s ago, and nobody is there to take over: start a process"},
		"parked":                      {heard: 3 * time.Second, measured: -1, parked: true, claims: 1, status: "parked", why: "parked, kept for the next run of a, for up to 7s more, until 15:04:12Z"},
		"parked, its run is there":    {heard: 3 * time.Second, measured: -1, parked: true, claims: 1, namesake: true, status: "parked", why: "for up to 7s more"},
		"parked for too long":         {heard: 13 * time.Second, measured: -1, parked: true, claims: 1, status: "parked", why: "parked, kept for the next run of a, whose time is over: free soon"},
		"and nobody is there":         {heard: 13 * time.Second, measured: -1, parked: true, claims: 1, alone: true, status: "parked", why: "whose time is over; nobody is there to take over: start a process"},
		"parked with nothing":         {heard: 3 * time.Second, measured: -1, parked: true, status: "parked", why: "kept"},
		"replaced":                    {heard: 3 * time.Second, measured: -1, parked: true, namesake: true, status: "replaced", why: "kept"},
	} {
		i := InstanceState{Instance: "x", Client: "a", TTL: 10 * time.Second, LastHeartbeat: now.Add(-c.heard), Silent: c.measured, Parked: c.parked, Claims: c.claims}
		i.Status = i.status(c.namesake, now)
		assert.Equal(t, c.status, i.Status, name)
		s := State{Instances: []InstanceState{i, {Instance: "y", Status: isAlive}}}
		if c.alone {
			s.Instances[1].Status = isOverdue
		}
		why := s.holders(now)["x"]
		assert.Contains(t, why, c.why, name)
		assert.Equal(t, c.why == "", why == "", "%s: %s", name, why)
	}
}

func TestAHolderThatIsSilentThenDeadThenReplacedIsTold(t *testing.T) {
	b := newBench(t, "t")
	m := b.member("a", "one", "t")
	eventually(t, "claims", func() bool { return holds(m) == 4 })
	c := b.observer()
	shown := func(status, why string) func() bool {
		return func() bool {
			s := sees(c, "one")
			return slices.ContainsFunc(s.Instances, func(i InstanceState) bool { return i.Status == status }) &&
				slices.ContainsFunc(s.Keys, func(k KeyState) bool { return k.Instance != "" && strings.Contains(k.Why, why) })
		}
	}
	cut := b.Faults().Add(testutil.Fault{Client: "a", Do: testutil.Cut})
	eventually(t, "silent", shown("silent", "its holder was last heard of"))
	eventually(t, "dead, and nobody there", shown("overdue", "nobody is there to take over: start a process"))
	cut.Remove()
	eventually(t, "alive", shown("alive", ""))

	b = newBench(t, "t")
	watch := b.marshaler("watch")
	old := b.marshaler("a")
	first := b.consumer(old, ConsumerOptions{RestartGrace: time.Minute}, "t")
	eventually(t, "claims", func() bool { return holds(old) == 4 })
	first.Terminate(false)
	old.Terminate()
	eventually(t, "parked", func() bool {
		return slices.ContainsFunc(watch.State().Instances, func(i InstanceState) bool { return i.Status == "parked" })
	})
	next := b.marshaler("a")
	b.consumer(next, ConsumerOptions{}, "t")
	eventually(t, "replaced", func() bool { return strings.Contains(watch.State().String(), ", replaced by its next run") })
	assert.Equal(t, 4, holds(next))
}
