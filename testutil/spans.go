package testutil

import (
	"cmp"
	"fmt"
	"slices"
)

// Span is the offsets from From up to, not including, To.
type Span struct{ From, To int64 }

func (s Span) String() string {
	if s.To == s.From+1 {
		return fmt.Sprint(s.From)
	}
	return fmt.Sprintf("%d-%d", s.From, s.To-1)
}

// spans is a set of offsets: in order, not empty, not touching.
type spans []Span

// setOf makes a set of spans in any order.
func setOf(in ...Span) spans {
	all := slices.DeleteFunc(slices.Clone(in), func(s Span) bool { return s.To <= s.From })
	slices.SortFunc(all, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	out := all[:0]
	for _, s := range all {
		if n := len(out); n > 0 && s.From <= out[n-1].To {
			out[n-1].To = max(out[n-1].To, s.To)
			continue
		}
		out = append(out, s)
	}
	return spans(out)
}

func (a spans) or(b spans) spans { return setOf(slices.Concat(a, b)...) }

func (a spans) and(b spans) spans {
	var out spans
	for i, j := 0, 0; i < len(a) && j < len(b); {
		if s := (Span{max(a[i].From, b[j].From), min(a[i].To, b[j].To)}); s.From < s.To {
			out = append(out, s)
		}
		if a[i].To < b[j].To {
			i++
		} else {
			j++
		}
	}
	return out
}

func (a spans) without(b spans) spans {
	var out spans
	j := 0
	for _, s := range a {
		for j < len(b) && b[j].To <= s.From {
			j++
		}
		for k := j; k < len(b) && b[k].From < s.To; k++ {
			if s.From < b[k].From {
				out = append(out, Span{s.From, b[k].From})
			}
			s.From = max(s.From, b[k].To)
		}
		if s.From < s.To {
			out = append(out, s)
		}
	}
	return out
}

func (a spans) count() int64 {
	var n int64
	for _, s := range a {
		n += s.To - s.From
	}
	return n
}
