package sim

import (
	"math"
	"math/rand/v2"
)

// Guide chooses schedules: every other one is a seed that was never run, the others are near schedules that came by something new.
// What it chooses depends on the first seed and on what it has learned, in order; so a run can be repeated whatever the
// number of workers, as long as a generation is chosen before the first of it is run.
type Guide struct {
	rng    *rand.Rand
	plain  bool
	next   uint64
	corpus []parent
	Seen   Coverage
}

// parent is a schedule that came by something new.
type parent struct {
	schedule Schedule
	worth    float64 // how much, for its length; a long one may cost more than it brings
}

// NewGuide makes a guide that takes its seeds from first on. A plain one takes nothing but seeds.
func NewGuide(first uint64, plain bool) *Guide {
	return &Guide{rng: rand.New(rand.NewPCG(first, 0x6775696465)), plain: plain, next: first}
}

// Next chooses a generation of n schedules.
func (g *Guide) Next(n int) []Schedule {
	list := make([]Schedule, n)
	for i := range list {
		if g.plain || len(g.corpus) == 0 || i%2 == 0 {
			list[i] = Schedule{Seed: g.next}
			g.next++
			continue
		}
		list[i] = g.choose().Mutate(g.rng, g.choose())
	}
	return list
}

// NextSeed is the first seed that was not chosen yet.
func (g *Guide) NextSeed() uint64 { return g.next }

// choose takes a schedule of the corpus: of some the one that was worth most.
func (g *Guide) choose() Schedule {
	best := &g.corpus[g.rng.IntN(len(g.corpus))]
	for range 3 {
		if f := &g.corpus[g.rng.IntN(len(g.corpus))]; f.worth > best.worth {
			best = f
		}
	}
	return best.schedule
}

// Learn takes in what a schedule came to.
func (g *Guide) Learn(res *Result) {
	news := 0
	for _, t := range res.Covered {
		if g.Seen.Add(t) {
			news++
		}
	}
	if news > 0 && len(res.Schedule.Set) < maxSettings {
		g.corpus = append(g.corpus, parent{res.Schedule, float64(news) / math.Sqrt(float64(res.Steps+500))})
	}
}

// maxSettings keeps what is printed of a schedule short.
const maxSettings = 10
