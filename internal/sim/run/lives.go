package main

import (
	"fmt"
	"io"
	"time"

	"github.com/kafka-marshal/marshal/internal/sim"
)

// lives gathers how runs came to rest, each against its own bound.
type lives struct {
	owned, balanced times
	moves, needed   int64
	most            int64 // of one run
}

// times are those of many runs, and how much of its bound each took.
type times struct {
	took  sim.Standstill // ms
	share sim.Standstill // thousandths of the bound
	bound sim.Standstill // ms
}

func (t *times) add(took, bound time.Duration) {
	t.took = append(t.took, took.Milliseconds())
	t.bound = append(t.bound, bound.Milliseconds())
	if bound > 0 {
		t.share = append(t.share, int64(1000*took/bound))
	}
}

func (t *times) print(out io.Writer, what string) {
	fmt.Fprintf(out, "sim: %s_ms p50=%d p99=%d max=%d bound_p50=%d bound_max=%d share_p50=%.2f share_p99=%.2f share_max=%.2f\n", what,
		t.took.Quantile(0.5), t.took.Quantile(0.99), t.took.Quantile(1), t.bound.Quantile(0.5), t.bound.Quantile(1),
		float64(t.share.Quantile(0.5))/1000, float64(t.share.Quantile(0.99))/1000, float64(t.share.Quantile(1))/1000)
}

func (l *lives) add(live *sim.Liveness) {
	l.owned.add(live.Owned, live.OwnedBound)
	l.balanced.add(live.Balanced, live.BalancedBound)
	l.moves += live.Moves
	l.needed += live.MovesBound
	l.most = max(l.most, live.Moves)
}

func (l *lives) print(out io.Writer) {
	l.owned.print(out, "owned")
	l.balanced.print(out, "balanced")
	fmt.Fprintf(out, "sim: moves=%d moves_bound=%d moves_max=%d\n", l.moves, l.needed, l.most)
}
