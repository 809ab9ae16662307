package main

import (
	"bytes"
	"cmp"
	"go/ast"
	"slices"
)

// edits are the changes of one file: text put in at an offset, text replaced.
type edits struct {
	list []edit
}

type edit struct {
	at, until int // until > at: what is between is replaced
	text      string
	closes    bool // it follows a node, so it stands before what is put in front of the next
	turn      int
}

func (e *edits) add(x edit) {
	x.turn = len(e.list)
	e.list = append(e.list, x)
}

// wrap puts text before and after a node. Where several wrap one node, the first is the outermost.
func (e *edits) wrap(p *pkg, n ast.Node, before, after string) {
	at, until := p.offset(n.Pos()), p.offset(n.End())
	e.add(edit{at: at, until: at, text: before})
	e.add(edit{at: until, until: until, text: after, closes: true})
}

// replace puts text in the place of what is between two offsets.
func (e *edits) replace(at, until int, text string) { e.add(edit{at: at, until: until, text: text}) }

func (e *edits) apply(source []byte) []byte {
	slices.SortStableFunc(e.list, func(a, b edit) int {
		switch {
		case a.at != b.at:
			return cmp.Compare(a.at, b.at)
		case a.closes != b.closes:
			if a.closes {
				return -1
			}
			return 1
		case a.closes:
			return cmp.Compare(b.turn, a.turn)
		}
		return cmp.Compare(a.turn, b.turn)
	})
	var out bytes.Buffer
	at := 0
	for _, x := range e.list {
		out.Write(source[at:x.at])
		out.WriteString(x.text)
		at = x.until
	}
	out.Write(source[at:])
	return out.Bytes()
}
