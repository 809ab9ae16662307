package house

import (
	"fmt"
	"go/ast"
	"go/token"
	"regexp"
	"strings"
)

// sleeping: nobody sleeps, tests neither. One waits for what is to happen, with a limit.
func sleeping(s *source) []Breach {
	var bs []Breach
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		if pkg, name, _ := s.selects(n); pkg == "time" && name == "Sleep" {
			bs = append(bs, s.breach(n.Pos(), "time.Sleep"))
		}
		return true
	})
	return bs
}

// bareGo: every goroutine has an owner that waits for it, so it begins with WaitGroup.Go or errgroup's Go.
func bareGo(s *source) []Breach {
	var bs []Breach
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		if g, ok := n.(*ast.GoStmt); ok {
			bs = append(bs, s.breach(g.Pos(), "bare go statement: use WaitGroup.Go or errgroup"))
		}
		return true
	})
	return bs
}

// globals are variables of other packages that a library leaves alone.
var globals = map[string]map[string]bool{
	sarama:  set("Logger", "DebugLogger", "PanicHandler", "MaxRequestSize", "MaxResponseSize"),
	metrics: set("UseNilMetrics", "DefaultRegistry"),
}

// logging is what begins the names of logrus' functions that change or use its global logger.
var logging = regexp.MustCompile(`^(Set|AddHook|Trace|Debug|Info|Print|Warn|Error|Fatal|Panic|With)`)

// globalState: the library changes no variable of another package and does not log by a global logger. A TestMain may,
// and testutil's help for it.
func globalState(s *source) []Breach {
	var bs []Breach
	look := func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			return !(s.test && n.Name.Name == "TestMain") && !(s.pkg == "testutil" && n.Name.Name == "VerifyNoLeaks")
		case *ast.AssignStmt:
			for _, l := range n.Lhs {
				if pkg, name, ok := s.selects(l); ok && n.Tok == token.ASSIGN && (globals[pkg][name] || pkg == logrus) {
					bs = append(bs, s.breach(n.Pos(), "sets %s.%s, which is everybody's", pkg, name))
				}
			}
		case *ast.CallExpr:
			pkg, name, ok := s.selects(n.Fun)
			if ok && pkg == logrus && logging.MatchString(name) && !s.test {
				bs = append(bs, s.breach(n.Pos(), "logrus.%s uses the global logger", name))
			}
			if ok && pkg == "log" && !s.test {
				bs = append(bs, s.breach(n.Pos(), "log.%s uses the global logger", name))
			}
			if sel, isSel := n.Fun.(*ast.SelectorExpr); isSel {
				inner, isCall := sel.X.(*ast.CallExpr)
				if isCall && strings.HasPrefix(sel.Sel.Name, "Set") || isCall && sel.Sel.Name == "AddHook" {
					if pkg, name, _ := s.selects(inner.Fun); pkg == logrus && name == "StandardLogger" {
						bs = append(bs, s.breach(n.Pos(), "%s changes the global logger", sel.Sel.Name))
					}
				}
			}
		}
		return true
	}
	ast.Inspect(s.syntax, look)
	return bs
}

// verified: a test of the root has its broker from newBenchOn, which looks at the logs that the test leaves.
func verified(s *source) []Breach {
	var bs []Breach
	ast.Inspect(s.syntax, func(n ast.Node) bool {
		if f, ok := n.(*ast.FuncDecl); ok && f.Name.Name == "newBenchOn" {
			return false
		}
		if pkg, name, ok := s.selects(n); ok && pkg == Module+"/testutil" && name == "NewCluster" && s.pkg == "" {
			bs = append(bs, s.breach(n.Pos(), "a cluster whose logs nobody verifies: use newBenchOn"))
		}
		return true
	})
	return bs
}

const porcupine = "github.com/anishathalye/porcupine"

// checkers: what only checks others is linked into nothing but testutil.
func checkers(s *source) []Breach {
	var bs []Breach
	for _, spec := range s.syntax.Imports {
		if strings.Trim(spec.Path.Value, "`\"") == porcupine && s.pkg != "testutil" {
			bs = append(bs, s.breach(spec.Pos(), "imports %s outside of testutil", porcupine))
		}
	}
	return bs
}

// maxLines is how long a file may get that is neither a test nor generated. A file says one thing.
const maxLines = 500

func length(s *source) []Breach {
	if n := strings.Count(s.text, "\n"); n > maxLines && !s.test && !ast.IsGenerated(s.syntax) {
		return []Breach{{Text: fmt.Sprintf("%d lines, more than %d", n, maxLines)}}
	}
	return nil
}

// docComments: an exported name says what it is. Methods that implement fmt.Stringer or error need not.
func docComments(s *source) []Breach {
	if s.test || s.syntax.Name.Name == "main" || ast.IsGenerated(s.syntax) {
		return nil
	}
	var bs []Breach
	missing := func(n *ast.Ident, docs ...*ast.CommentGroup) {
		if !n.IsExported() {
			return
		}
		for _, d := range docs {
			if d != nil {
				return
			}
		}
		bs = append(bs, s.breach(n.Pos(), "exported %s has no doc comment", n.Name))
	}
	for _, d := range s.syntax.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			switch d.Name.Name {
			case "String", "Error", "Unwrap":
				continue
			}
			if d.Recv == nil || exportedReceiver(d.Recv) {
				missing(d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					missing(spec.Name, d.Doc, spec.Doc, spec.Comment)
				case *ast.ValueSpec:
					for _, n := range spec.Names {
						missing(n, d.Doc, spec.Doc, spec.Comment)
					}
				}
			}
		}
	}
	return bs
}

func exportedReceiver(r *ast.FieldList) bool {
	t := r.List[0].Type
	if p, ok := t.(*ast.StarExpr); ok {
		t = p.X
	}
	switch x := t.(type) {
	case *ast.IndexExpr:
		t = x.X
	case *ast.IndexListExpr:
		t = x.X
	}
	id, ok := t.(*ast.Ident)
	return ok && id.IsExported()
}

// somebodys finds a path below a folder that only one machine has. The slashes are apart so that this file is clean.
var somebodys = regexp.MustCompile(`(^|[^\w.\-/])` + "/" + `(home|root|work|Users)` + "/" + `[\w.\-]+`)

func paths(s *source) []Breach { return inText(s.name, s.text) }

// inText finds the paths of somebody's machine in any text. What is not text has none.
func inText(name, text string) []Breach {
	if strings.ContainsRune(text, 0) {
		return nil
	}
	var bs []Breach
	for i, line := range strings.Split(text, "\n") {
		if m := somebodys.FindString(line); m != "" {
			bs = append(bs, Breach{Rule: "paths", File: name, Line: i + 1, Text: "a path of somebody's machine: " + strings.TrimSpace(m)})
		}
	}
	return bs
}
