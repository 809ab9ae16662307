package main

import (
	"math"
	"slices"
)

// values are those of one mode, in the order of the rounds.
func (rs readings) values(of func(result) float64, mode string) (vs []float64) {
	for _, round := range rs.Rounds {
		if r, ok := round[mode]; ok {
			vs = append(vs, of(r))
		}
	}
	return vs
}

// ratios are those of a mode to its peer within each round, so that what slows a whole round down cancels out; of several peers to
// the one with the smallest value in that round.
func (rs readings) ratios(of func(result) float64, mode string, peers ...string) (qs []float64) {
	for _, round := range rs.Rounds {
		mine, ok := round[mode]
		best := math.NaN()
		for _, p := range peers {
			if r, ok := round[p]; ok && !(of(r) >= best) {
				best = of(r)
			}
		}
		if ok && !math.IsNaN(best) {
			qs = append(qs, of(mine)/best)
		}
	}
	return qs
}

// median of an even number is the mean of the two in the middle; NaN of nothing.
func median(vs []float64) float64 {
	if len(vs) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(vs))
	half := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[half]
	}
	return (sorted[half-1] + sorted[half]) / 2
}

// largest is NaN of nothing.
func largest(vs []float64) float64 {
	l := math.NaN()
	for _, v := range vs {
		l = larger(l, v)
	}
	return l
}

// larger does not mind one that is NaN.
func larger(a, b float64) float64 {
	if b > a || math.IsNaN(a) {
		return b
	}
	return a
}
