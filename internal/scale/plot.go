package main

import (
	"fmt"
	"math"
	"slices"
	"strings"
)

// panel is one diagram with logarithmic axes.
type panel struct {
	title, x, y string
	lines       []line
}

type line struct {
	name   string
	points [][2]float64
}

const (
	panelWidth, panelHeight = 400, 300
	left, right, top, foot  = 62, 130, 34, 46
)

var colours = []string{"#1b6ca8", "#d1495b", "#2a9d5c", "#8a5fbf", "#c98a1b"}

// plot draws what grows with what, as SVG.
func (r *results) plot() string {
	panels := []panel{
		{title: "One process in a settled group", x: "members", y: "% of one core"},
		{title: "A plan after one death", x: "partitions", y: "ms"},
		{title: "World and log in memory", x: "partitions", y: "MB"},
	}
	for _, a := range r.lones {
		if a.refused || a.topics != 1 {
			continue
		}
		if a.partitions == 10_000 {
			panels[0].add("idle", float64(a.members), a.idle.share*100)
			panels[0].add("moving", float64(a.members), a.moving.share*100)
		}
		of := num(a.members) + " members"
		panels[1].add(of, float64(a.partitions), a.died.plan.Seconds()*1e3)
		panels[2].add(of, float64(a.partitions), float64(a.world)/1e6)
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="11">`+"\n",
		len(panels)*panelWidth, panelHeight)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	for i, p := range panels {
		fmt.Fprintf(&b, `<g transform="translate(%d 0)">`+"\n", i*panelWidth)
		p.draw(&b)
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (p *panel) add(name string, x, y float64) {
	i := slices.IndexFunc(p.lines, func(l line) bool { return l.name == name })
	if i < 0 {
		i = len(p.lines)
		p.lines = append(p.lines, line{name: name})
	}
	p.lines[i].points = append(p.lines[i].points, [2]float64{x, max(y, 1e-4)})
}

// decades are the powers of ten that a coordinate of all points lies between.
func (p *panel) decades(coordinate int) (from, to float64) {
	from, to = math.Inf(1), math.Inf(-1)
	for _, l := range p.lines {
		for _, q := range l.points {
			from, to = min(from, math.Floor(math.Log10(q[coordinate]))), max(to, math.Ceil(math.Log10(q[coordinate])))
		}
	}
	if from >= to {
		to = from + 1
	}
	return from, to
}

func (p *panel) draw(b *strings.Builder) {
	fmt.Fprintf(b, `<text x="%d" y="20" font-size="13" font-weight="bold">%s</text>`+"\n", left, p.title)
	if len(p.lines) == 0 {
		return
	}
	x0, x1 := p.decades(0)
	y0, y1 := p.decades(1)
	width, height := float64(panelWidth-left-right), float64(panelHeight-top-foot)
	at := func(q [2]float64) (x, y float64) {
		return left + (math.Log10(q[0])-x0)/(x1-x0)*width, top + height - (math.Log10(q[1])-y0)/(y1-y0)*height
	}
	for d := x0; d <= x1; d++ {
		x, y := at([2]float64{math.Pow(10, d), math.Pow(10, y0)})
		fmt.Fprintf(b, `<path d="M%.1f %d V%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="middle">%s</text>`+"\n", x, top, y, x, y+15, power(d))
	}
	for d := y0; d <= y1; d++ {
		x, y := at([2]float64{math.Pow(10, x0), math.Pow(10, d)})
		fmt.Fprintf(b, `<path d="M%.1f %.1f H%.1f" stroke="#ddd"/><text x="%.1f" y="%.1f" text-anchor="end">%s</text>`+"\n", x, y, x+width, x-5, y+4, power(d))
	}
	fmt.Fprintf(b, `<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", left+width/2, panelHeight-10, p.x)
	fmt.Fprintf(b, `<text transform="translate(14 %.1f) rotate(-90)" text-anchor="middle">%s</text>`+"\n", top+height/2, p.y)
	for i, l := range p.lines {
		colour := colours[i%len(colours)]
		slices.SortFunc(l.points, func(a, b [2]float64) int { return int(a[0] - b[0]) })
		var path []string
		for _, q := range l.points {
			x, y := at(q)
			path = append(path, fmt.Sprintf("%.1f,%.1f", x, y))
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="2.5" fill="%s"/>`+"\n", x, y, colour)
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", strings.Join(path, " "), colour)
		fmt.Fprintf(b, `<text x="%.1f" y="%d" fill="%s">%s</text>`+"\n", left+width+8, top+12+14*i, colour, l.name)
	}
}

// power writes a power of ten.
func power(d float64) string {
	switch {
	case d >= 6:
		return fmt.Sprintf("%.0fM", math.Pow(10, d-6))
	case d >= 3:
		return fmt.Sprintf("%.0fk", math.Pow(10, d-3))
	}
	return fmt.Sprintf("%g", math.Pow(10, d))
}
