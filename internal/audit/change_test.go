package audit

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

func TestKeysThatFollowEachOtherAreARange(t *testing.T) {
	for want, keys := range map[string][]string{
		"":                                 nil,
		"t/3":                              {"t/3"},
		"t/0-2":                            {"t/0", "t/1", "t/2"},
		"t/0-1,3,5-6":                      {"t/0", "t/1", "t/3", "t/5", "t/6"},
		"t/0, u/1":                         {"t/0", "u/1"},
		"t (whole), t/0-1":                 {"t", "t/0", "t/1"},
		"t/0,2, u (whole)":                 {"t/0", "t/2", "u"},
		"t/0 at 5, t/1-2 at 6":             {"t/0@5", "t/1@6", "t/2@6"},
		"t/0,2,4,6,8,10,12,14, and 3 more": {"t/0", "t/2", "t/4", "t/6", "t/8", "t/10", "t/12", "t/14", "t/16", "t/17", "t/19"},
	} {
		var l keyList
		for _, k := range keys {
			name, at, placed := strings.Cut(k, "@")
			if placed {
				at = " at " + at
			}
			l.add(key(name), at)
		}
		assert.Equal(t, want, l.String())
	}
}

// TestChangesNameEveryKey: what the words leave out, a program finds in the changes.
func TestChangesNameEveryKey(t *testing.T) {
	s := newScript(t)
	s.join("a", "b")
	require.Equal(t, []Change{{Kind: "joined", Partition: -1, Client: "client-b", Instance: "62000000", Offset: -1}}, s.last.Changes)
	var keys []string
	for p := range 40 {
		keys = append(keys, fmt.Sprintf("t/%d", 2*p))
	}
	e := s.claim("a", keys...)
	require.Contains(t, s.last.Effects[0], "and 32 more")
	require.Len(t, s.last.Changes, 40)
	for p, c := range s.last.Changes {
		require.Equal(t, Change{Kind: "granted", Topic: "t", Partition: int32(2 * p), Client: "client-a", Instance: "61000000", Epoch: e, Offset: -1}, c)
	}
	s.claim("b", "t/4")
	c := s.last.Changes[0]
	assert.Equal(t, []string{"refused", "client-b", "61000000", "held"}, []string{c.Kind, c.Client, c.By, c.Reason})
	s.progress("a", "t/4", e, 0)
	assert.Equal(t, []Change{{Kind: "progress", Topic: "t", Partition: 4, Client: "client-a", Instance: "61000000", Epoch: e}}, s.last.Changes, "0 is a position")
	s.write("b", lease.Record{Kind: lease.KindHeartbeat, Heartbeat: lease.Heartbeat{P: -1}})
	assert.Empty(t, s.last.Changes, "it only renews")
	s.write("a", lease.Record{Kind: lease.KindLeave, Leave: lease.Leave{Keep: true, Grace: time.Minute}})
	require.Len(t, s.last.Changes, 41)
	assert.Equal(t, "parked", s.last.Changes[0].Kind)
	assert.Equal(t, Change{Kind: "kept", Topic: "t", Partition: 78, Client: "client-a", Instance: "61000000", Epoch: e, Offset: -1}, s.last.Changes[40])
	s.evict("b", "a")
	assert.Equal(t, "client-a (61000000) is evicted (declared dead) by client-b (62000000)", s.last.Effects[0])
	require.Len(t, s.last.Changes, 41)
	assert.Equal(t, []string{"evicted", "61000000", "62000000"}, []string{s.last.Changes[0].Kind, s.last.Changes[0].Instance, s.last.Changes[0].By})
	assert.Equal(t, "released", s.last.Changes[7].Kind)
}

func TestAFormerRunIsReplacedAndNotEvicted(t *testing.T) {
	s := newScript(t)
	join := lease.Record{Kind: lease.KindJoin, Join: lease.Join{Client: "c", Host: "h", TTL: time.Second, TopicID: coordination, MaxVersion: 2}}
	s.write("a", join)
	s.claim("a", "t/0")
	s.write("b", join)
	s.write("b", lease.Record{Kind: lease.KindEvict, Evict: lease.Evict{Takeover: true, Targets: []lease.Target{{Instance: id("a"), Renewed: s.a.World().Instance(id("a")).Renewed}}}})
	assert.Contains(t, s.last.Text, "c (62000000) replaces its former run: c (61000000)")
	assert.Equal(t, []string{"c (61000000) is replaced by c (62000000)", "taken over by c (62000000) from its former run 61000000: t/0"}, s.last.Effects)
	assert.Equal(t, "taken_over", s.last.Changes[1].Kind)
}
