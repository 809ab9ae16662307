package member

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/kafka-marshal/marshal/internal/lease"
)

func announcements(p *proc) (at []time.Duration) {
	for i, r := range p.written {
		if r.Kind == lease.KindHeartbeat && r.Heartbeat.Announces {
			at = append(at, p.at[i])
		}
	}
	return at
}

func TestTheFirstLiveInstanceInRendezvousOrderOfTheGroupAnnouncesASnapshotTheNextAHeartbeatLater(t *testing.T) {
	s := newScript(t)
	var ps []*proc
	for _, n := range []string{"p1", "p2", "p3"} {
		ps = append(ps, s.process(n, Config{Group: "g"}, want(some(1))))
	}
	s.pass(5 * time.Second)
	for _, p := range ps {
		require.Empty(t, announcements(p))
	}
	order := rendezvous([]byte("g"), ps)
	s.append(lease.Record{Kind: lease.KindProbe, Probe: lease.Probe{Nonce: 1, WantsBase: true}})
	asked := s.now
	// The first announces, but no Snapshot comes.
	s.until(3*time.Second, "an announcement", func() bool { return len(announcements(order[0])) == 1 })
	require.Empty(t, announcements(order[1]))
	require.Empty(t, announcements(order[2]))
	s.until(6*time.Second, "the second", func() bool { return len(announcements(order[1])) == 1 })
	assert.GreaterOrEqual(t, s.now-asked, 2*time.Second)
	assert.Empty(t, announcements(order[2]))
	assert.Len(t, announcements(order[0]), 1, "not in each heartbeat")
	records := order[0].log.TakeSnapshot()
	require.NotEmpty(t, records)
	assert.Equal(t, lease.KindSnapshot, records[0].Kind)
}

func TestAJoinProposesATokenBase(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{LargestSeen: 5}, want())
	assert.Equal(t, p.clock(false).Wall.Milliseconds()<<20, p.written[0].Join.TokenBase)
	seen := p.clock(false).Wall.Milliseconds() + 7
	q := s.process("q", Config{LargestSeen: seen}, want())
	assert.Equal(t, (seen+1)<<20, q.written[0].Join.TokenBase)
}

func TestNobodyWritesAboveTheLowestVersionOfTheJoined(t *testing.T) {
	s := newScript(t)
	p := s.process("p", Config{}, want())
	s.pass(5 * time.Second)
	for _, r := range p.written {
		assert.EqualValues(t, 2, r.Version)
	}
	assert.Equal(t, lease.WireVersion, p.written[0].Join.MaxVersion)
}
