package policy

import (
	"fmt"
	"testing"
)

// BenchmarkCompute plans a settled group that a member has just joined, one that has settled, and one that starts cold.
func BenchmarkCompute(b *testing.B) {
	for _, size := range []struct {
		topics, partitions int32
		members            int
	}{{1, 1000, 10}, {10, 100, 10}, {1000, 1, 10}, {1, 10_000, 50}, {100, 100, 50}, {1000, 10, 50}, {10_000, 1, 50}} {
		for _, what := range []string{"settled", "joined", "died", "cold"} {
			b.Run(fmt.Sprintf("%dx%dby%d/%s", size.topics, size.partitions, size.members, what), func(b *testing.B) {
				g, ns := newGroup(), names(size.members)
				var ts []string
				for i := range size.topics {
					ts = append(ts, fmt.Sprintf("topic-%04d", i))
				}
				for _, n := range ns {
					g.join(n, n, topics(size.partitions, ts...))
				}
				if what != "cold" {
					for p := Compute(g.World); len(p.Free()) > 0; p = Compute(g.World) {
						for _, n := range ns {
							if keys := p.Planned(id(n)); len(keys) > 0 {
								g.claim(n, keys...)
							}
						}
					}
				}
				switch what {
				case "joined":
					g.join("new", "new", topics(size.partitions, ts...))
				case "died":
					g.leave("m3", false)
				}
				b.ReportAllocs()
				var p *Plan
				for b.Loop() {
					p = Compute(g.World)
				}
				b.ReportMetric(float64(len(p.Moves())), "moves")
			})
		}
	}
}
