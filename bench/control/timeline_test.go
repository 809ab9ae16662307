package main

import (
	"path/filepath"
	"testing"
	"time"
)

var origin = time.Unix(1_000_000, 0)

func ms(n int) time.Time { return origin.Add(time.Duration(n) * time.Millisecond) }

// flow is one partition handed out every 50 ms from one moment to another.
func flow(who, from, to int) (all []handed) {
	for t := from; t <= to; t += 50 {
		all = append(all, handed{at: ms(t), offset: int64(t / 50), who: who})
	}
	return all
}

func TestWhatAChangeDidIsReadOffTheTimeline(t *testing.T) {
	change := span{ms(1000), ms(5000)}
	for name, c := range map[string]struct {
		lines   timeline
		settled int // ms after the change; -1: never
		stayed  bool
	}{
		"nothing happens":               {timeline{flow(0, 0, 5000)}, 0, true},
		"moves":                         {timeline{append(flow(0, 0, 1500), flow(1, 1700, 5000)...)}, 700, false},
		"moves and comes back":          {timeline{append(append(flow(0, 0, 1500), flow(1, 1550, 2000)...), flow(0, 2050, 5000)...)}, 1050, false},
		"stops and goes on":             {timeline{append(flow(0, 0, 1500), flow(0, 2500, 5000)...)}, 1500, true},
		"stops for good":                {timeline{flow(0, 0, 1500)}, -1, true},
		"nobody had it":                 {timeline{flow(1, 1400, 5000)}, 400, false},
		"stops again at its new owner":  {timeline{append(append(flow(0, 0, 1500), flow(1, 1550, 2000)...), flow(1, 3000, 5000)...)}, 2000, false},
		"the slowest of two counts":     {timeline{flow(0, 0, 5000), append(flow(0, 0, 1500), flow(1, 1700, 5000)...)}, 700, true},
		"stopped when the change began": {timeline{append(flow(0, 0, 400), flow(0, 1200, 5000)...)}, 200, true},
	} {
		t.Run(name, func(t *testing.T) {
			at := c.lines.settled(change, 100*time.Millisecond)
			switch want := ms(1000 + c.settled); {
			case c.settled < 0 && !at.IsZero(), c.settled >= 0 && !at.Equal(want):
				t.Errorf("settled %v after the change, want %d ms", at.Sub(change.from), c.settled)
			}
			if c.lines.stayed(0, change) != c.stayed {
				t.Errorf("stayed is %v", !c.stayed)
			}
		})
	}
}

func TestTheLongestGapIsThatOfThePartitionsThatAreAskedFor(t *testing.T) {
	lines := timeline{flow(0, 0, 5000), append(flow(0, 0, 1500), flow(0, 2500, 5000)...)}
	s := span{ms(1000), ms(5000)}
	if gap := lines.longest(s, nil); gap != time.Second {
		t.Errorf("longest gap of all is %v", gap)
	}
	if gap := lines.longest(s, func(p int) bool { return p == 0 }); gap != 50*time.Millisecond {
		t.Errorf("longest gap of the first is %v", gap)
	}
}

func TestHandoversAreReadOffTheTimeline(t *testing.T) {
	lines := timeline{append(flow(1, 1600, 2000), flow(0, 0, 1500)...)}
	lines.sort()
	moves := lines.handovers(0)
	if len(moves) != 1 || moves[0].took != 100*time.Millisecond || moves[0].to != 1 || moves[0].skipped != 1 {
		t.Errorf("hand-overs are %+v", moves)
	}
}

func TestSharesAreEvenWhenTheyDifferByOneAndTheDeadHaveNothing(t *testing.T) {
	for _, c := range []struct {
		owners []int
		living []bool
		even   bool
	}{
		{[]int{3, 4, 3}, []bool{true, true, true}, true},
		{[]int{3, 5, 3}, []bool{true, true, true}, false},
		{[]int{5, 5, 0}, []bool{true, true, true}, false},
		{[]int{5, 5, 0}, []bool{true, true, false}, true},
		{[]int{5, 4, 1}, []bool{true, true, false}, false},
	} {
		if even(c.owners, c.living) != c.even {
			t.Errorf("%v of %v: even is %v", c.owners, c.living, !c.even)
		}
	}
}

func TestAJournalIsReadAsItGrows(t *testing.T) {
	dir := t.TempDir()
	r, path, err := newReader(dir, "journal")
	if err != nil {
		t.Fatal(err)
	}
	defer r.close()
	j, err := openJournal(path)
	if err != nil {
		t.Fatal(err)
	}
	if path != filepath.Join(dir, "journal") {
		t.Errorf("it is at %s", path)
	}
	var offsets []int64
	read := func() { r.read(func(_ time.Time, _ int32, offset int64) { offsets = append(offsets, offset) }) }
	read()
	j.note(7, 41)
	read()
	read()
	j.note(7, 42)
	read()
	if len(offsets) != 2 || offsets[0] != 41 || offsets[1] != 42 {
		t.Errorf("read %v", offsets)
	}
}
