package sim

import (
	"math/rand/v2"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAScheduleIsReadAsItIsWritten(t *testing.T) {
	for _, text := range []string{"0", "7331", "7331,members=30", "1,keys=400,often=freeze,often2=terminate-true,fork=3,forkto=9"} {
		sc, err := ParseSchedule(text)
		require.NoError(t, err)
		assert.Equal(t, text, sc.String())
	}
	rng := rand.New(rand.NewPCG(1, 2))
	sc := Schedule{Seed: 5}
	for range 500 {
		next := sc.Mutate(rng, Schedule{Seed: 6})
		read, err := ParseSchedule(next.String())
		require.NoError(t, err)
		assert.Equal(t, next, read)
		if len(next.Set) < 8 {
			sc = next
		}
	}
	for _, text := range []string{"", "x", "1,members", "1,members=x", "1,members=-1", "1,size=3", "1,often=nothing", "1,often=77", "1,"} {
		_, err := ParseSchedule(text)
		assert.Error(t, err, text)
	}
}

func TestEveryFaultHasALabelOfItsOwn(t *testing.T) {
	seen := map[string]bool{}
	for k := range lastEvent {
		assert.False(t, seen[faultLabel(k)], faultLabel(k))
		assert.NotContains(t, faultLabel(k), ",")
		seen[faultLabel(k)] = true
	}
}

// TestASettingChangesOnlyWhatItNames: the same seed with one parameter set draws the others as before.
func TestASettingChangesOnlyWhatItNames(t *testing.T) {
	for seed := range uint64(50) {
		plain := newSimulation(Config{Schedule: Schedule{Seed: seed}})
		plain.choose()
		set := newSimulation(Config{Schedule: Schedule{Seed: seed}.with(members, 11)})
		set.choose()
		assert.Equal(t, 11, set.members)
		plain.members, plain.crowd, set.crowd = 11, 0, 0
		assert.Equal(t, plain.scenario, set.scenario)
	}
}

// TestAForkGoesAnotherWayFromThereOn: up to the fault of the fork the run is the same.
func TestAForkGoesAnotherWayFromThereOn(t *testing.T) {
	traced := func(sc Schedule) (lines []string) {
		Run(Config{Schedule: sc, Trace: func(line string) { lines = append(lines, line) }})
		return lines
	}
	base := Schedule{Seed: 31}.with(faultsOf, 6)
	plain, forked := traced(base), traced(base.with(forkAt, 4).with(forkTo, 1))
	same := 0
	for same < min(len(plain), len(forked)) && plain[same] == forked[same] {
		same++
	}
	assert.Greater(t, same, 10, "the beginning is the same")
	assert.NotEqual(t, plain, forked)
}
