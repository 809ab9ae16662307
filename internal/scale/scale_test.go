package main

import (
	"encoding/xml"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestATinyGridGivesEveryFigureAndAPlot(t *testing.T) {
	var out strings.Builder
	svg := filepath.Join(t.TempDir(), "plot.svg")
	require.Equal(t, 0, run([]string{"-grid", "tiny", "-svg", svg}, &out), out.String())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	last := lines[len(lines)-1]
	for _, name := range []string{"beat_bytes_idle=", "records_per_member_beat=", "converge_cold=", "converge_died=", "evicted_alive=0"} {
		assert.Contains(t, last, name)
	}
	for _, text := range []string{"| cold start |", "| a tenth dies |", "| deploy with grace |", "| 20 | 200 | 10 |"} {
		assert.Contains(t, out.String(), text)
	}
	assert.NotContains(t, out.String(), "did not get its share")
	drawn, err := os.ReadFile(svg)
	require.NoError(t, err)
	assert.NoError(t, xml.Unmarshal(drawn, new(struct{})))
}

func TestWhatIsSimulatedIsTheSameForASeed(t *testing.T) {
	simulated := func(seed uint64) []int64 {
		f := runFlows(cell{10, 100, 2}, seed)
		var all []int64
		for _, x := range []figure{f.cold, f.idle, f.died, f.back, f.parked, f.rolled} {
			all = append(all, int64(x.took), x.records, x.beats, x.bytes, x.moves)
		}
		return all
	}
	assert.Equal(t, simulated(1), simulated(1))
	assert.NotEqual(t, simulated(1), simulated(2))
}

func TestASettledGroupWritesOneSmallRecordForEachMemberAndHeartbeat(t *testing.T) {
	f := runFlows(cell{10, 100, 1}, 3)
	assert.Zero(t, f.idle.records)
	assert.InDelta(t, 1, f.rate(), 0.05)
	assert.Less(t, f.beatBytes(), float64(beatBar))
	assert.Zero(t, f.wrong)
	for _, x := range []figure{f.cold, f.died, f.back, f.parked, f.rolled} {
		assert.Positive(t, x.took)
	}
	assert.GreaterOrEqual(t, f.died.took, ttl-heartbeat-heartbeat/10, "nobody is given up before a ttl after its last renewal")
	assert.Zero(t, f.parked.moves, "within the grace everybody gets back what was its own")
}

func TestEachBarIsMissedOnItsOwn(t *testing.T) {
	good := func() *results {
		return &results{
			lones: []alone{
				{cell: cell{1000, 10_000, 1}, died: reaction{plan: planBar}, catching: parts{apply: applyBar}},
				{cell: cell{10, 100_000, 1}, world: 100_000 * (keyBar - 1)},
			},
			crowds: []flows{{cell: cell{members: 1}, idle: figure{took: 10 * heartbeat, beats: 10, bytes: 1000}}},
		}
	}
	line, ok := good().verdict()
	require.True(t, ok, line)
	for name, spoil := range map[string]func(*results){
		"plan_ms_1000x10000":      func(r *results) { r.lones[0].joined.plan = planBar + 1 },
		"apply_ns_3pos":           func(r *results) { r.lones[0].catching.apply = applyBar + 1 },
		"bytes_per_key":           func(r *results) { r.lones[1].world = 100_000 * keyBar },
		"beat_bytes_idle":         func(r *results) { r.crowds[0].idle.bytes = 10 * beatBar },
		"records_per_member_beat": func(r *results) { r.crowds[0].idle.records = 1 },
		"never_converged":         func(r *results) { r.crowds[0].rolled.took = -1 },
		"evicted_alive":           func(r *results) { r.crowds[0].wrong = 1 },
	} {
		r := good()
		spoil(r)
		line, ok := r.verdict()
		assert.False(t, ok, name)
		assert.Regexp(t, name+`=[^ ]*\(missed\)`, line)
	}
}

func TestAGridIsNamedOrMeasuredOut(t *testing.T) {
	g, err := parseGrid("30x300x3")
	require.NoError(t, err)
	assert.Equal(t, []cell{{30, 300, 3}}, g.crowds)
	for _, bad := range []string{"", "large", "2x10x1", "20x10x1", "10x100x3"} {
		_, err := parseGrid(bad)
		assert.Error(t, err, bad)
	}
}
