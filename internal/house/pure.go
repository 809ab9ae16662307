package house

import (
	"go/ast"
	"go/token"
	"strings"
)

// impure are packages that floor 1 does without.
var impure = []string{"context", "os", "net", "log", "sync", "testing", "syscall", "crypto/rand", "golang.org/x/sys", "golang.org/x/sync", logrus}

// clocks are the names of package time that look at a clock or wait for one.
var clocks = set("Now", "Since", "Until", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Sleep", "Local", "LoadLocation")

// ownRandom are the names of math/rand and math/rand/v2 that make a source of one's own.
var ownRandom = set("New", "NewSource", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "Source64", "PCG", "ChaCha8", "Zipf")

func set(names ...string) map[string]bool {
	m := make(map[string]bool, len(names))
	for _, n := range names {
		m[n] = true
	}
	return m
}

// pure: floor 1 has no clock, goroutine, channel, context, global random, input or output, log or lock.
func pure(s *source) []Breach {
	if s.onFloor() != floor1 || s.test {
		return nil
	}
	var bs []Breach
	for _, i := range s.syntax.Imports {
		p := strings.Trim(i.Path.Value, "`\"")
		for _, no := range impure {
			if within(p, no) {
				bs = append(bs, s.breach(i.Pos(), "floor 1 imports %s", p))
			}
		}
	}
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			switch pkg, name, _ := s.selects(n); {
			case pkg == "time" && clocks[name]:
				bs = append(bs, s.breach(n.Pos(), "floor 1 uses time.%s: time comes in as an argument", name))
			case (pkg == "math/rand" || pkg == "math/rand/v2") && !ownRandom[name]:
				bs = append(bs, s.breach(n.Pos(), "floor 1 uses the global random source: %s", name))
			}
		case *ast.ChanType:
			bs = append(bs, s.breach(n.Pos(), "floor 1 has a channel"))
		case *ast.SelectStmt:
			bs = append(bs, s.breach(n.Pos(), "floor 1 has a select"))
		case *ast.SendStmt:
			bs = append(bs, s.breach(n.Pos(), "floor 1 sends to a channel"))
		case *ast.UnaryExpr:
			if n.Op == token.ARROW {
				bs = append(bs, s.breach(n.Pos(), "floor 1 receives from a channel"))
			}
		}
		return true
	})
	return append(bs, goroutines(s, "floor 1")...)
}

// edge: floor 2 starts no goroutine and logs nothing; it takes a ctx and returns errors.
func edge(s *source) []Breach {
	if s.onFloor() != floor2 || s.test || within(s.pkg, "internal/sim") {
		return nil
	}
	var bs []Breach
	for _, i := range s.syntax.Imports {
		if p := strings.Trim(i.Path.Value, "`\""); within(p, "log") || p == logrus {
			bs = append(bs, s.breach(i.Pos(), "floor 2 imports %s", p))
		}
	}
	return append(bs, goroutines(s, "floor 2")...)
}

// goroutines finds WaitGroup.Go, errgroup's Go and time.AfterFunc. Bare go statements are everybody's: bareGo.
func goroutines(s *source, floor string) []Breach {
	var bs []Breach
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if _, _, imported := s.selects(sel); sel.Sel.Name == "Go" && !imported {
			bs = append(bs, s.breach(n.Pos(), "%s starts a goroutine", floor))
		}
		if pkg, name, _ := s.selects(sel); floor == "floor 2" && pkg == "time" && name == "AfterFunc" {
			bs = append(bs, s.breach(n.Pos(), "%s starts a goroutine by time.AfterFunc", floor))
		}
		return true
	})
	return bs
}
