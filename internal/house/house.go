// Package house holds the rules of the house as code: which package may import which, where a clock, a goroutine or a
// log line may be, and a few habits. They are checked by its test, on the syntax of every file of the module, so a
// breach fails the build and names its line.
//
// Syntax is all they look at: a name that is smuggled in through a variable is not seen. They are there to keep the
// honest from slipping.
package house

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// Module is the import path whose packages the rules know.
const Module = "github.com/kafka-marshal/marshal"

// Breach is one place that breaks a rule.
type Breach struct {
	Rule string
	File string // from the module's root
	Line int    // 0: the file as a whole
	Text string
}

func (b Breach) String() string { return fmt.Sprintf("%s:%d: %s (%s)", b.File, b.Line, b.Text, b.Rule) }

// source is one Go file.
type source struct {
	name    string // from the module's root, with slashes
	pkg     string // its folder; "" is the root
	test    bool
	text    string
	syntax  *ast.File
	set     *token.FileSet
	imports map[string]string // local name -> import path
}

// rule looks at one file.
type rule struct {
	name  string
	check func(*source) []Breach
}

// rules are all that look at Go files.
var rules = []rule{
	{"imports", imports},
	{"sarama", saramaClient},
	{"pure", pure},
	{"edge", edge},
	{"sleep", sleeping},
	{"go", bareGo},
	{"global state", globalState},
	{"verified", verified},
	{"checkers", checkers},
	{"length", length},
	{"doc comments", docComments},
	{"paths", paths},
}

// parse reads a Go file; text is its content.
func parse(name, text string) (*source, error) {
	s := &source{name: name, pkg: path.Dir(name), test: strings.HasSuffix(name, "_test.go"), text: text,
		set: token.NewFileSet(), imports: make(map[string]string)}
	if s.pkg == "." {
		s.pkg = ""
	}
	var err error
	if s.syntax, err = parser.ParseFile(s.set, name, text, parser.ParseComments); err != nil {
		return nil, err
	}
	for _, i := range s.syntax.Imports {
		p := strings.Trim(i.Path.Value, "`\"")
		local := localName(p)
		if i.Name != nil {
			local = i.Name.Name
		}
		s.imports[local] = p
	}
	return s, nil
}

// localName is the name that a package most likely has, from its path.
func localName(p string) string {
	base := path.Base(p)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(p))
	}
	return strings.TrimPrefix(base, "go-")
}

// check applies every rule.
func (s *source) check() []Breach {
	var all []Breach
	for _, r := range rules {
		for _, b := range r.check(s) {
			b.Rule, b.File = r.name, s.name
			all = append(all, b)
		}
	}
	return all
}

func (s *source) breach(at token.Pos, format string, args ...any) Breach {
	return Breach{Line: s.set.Position(at).Line, Text: fmt.Sprintf(format, args...)}
}

// selects tells which name of which import a selector is: time.Now is ("time", "Now").
func (s *source) selects(n ast.Node) (pkg, name string, ok bool) {
	sel, ok := n.(*ast.SelectorExpr)
	if !ok {
		return "", "", false
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok || x.Obj != nil { // a variable of that name
		return "", "", false
	}
	pkg, ok = s.imports[x.Name]
	return pkg, sel.Sel.Name, ok
}

// skipped are folders of other modules, of build output and of tools.
func skipped(name string) bool {
	return name == ".git" || name == "bin" || name == "tmp" || name == ".kafka"
}

// Check applies the rules to the module in dir.
func Check(dir string) ([]Breach, error) {
	var all []Breach
	files := 0
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, file)
		if err != nil {
			return err
		}
		name := filepath.ToSlash(rel)
		if d.IsDir() {
			if skipped(name) {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || skipped(name) { // .git is a file in a linked worktree
			return nil
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if !strings.HasSuffix(name, ".go") || inOtherModule(dir, rel) {
			all = append(all, inText(name, string(b))...)
			return nil
		}
		s, err := parse(name, string(b))
		if err != nil {
			return err
		}
		files++
		all = append(all, s.check()...)
		return nil
	})
	if err == nil && files == 0 {
		err = errors.New("no Go file there")
	}
	return all, err
}

// inOtherModule tells whether a folder on the way to a file has a go.mod of its own.
func inOtherModule(dir, rel string) bool {
	for d := filepath.Dir(rel); d != "."; d = filepath.Dir(d) {
		if _, err := os.Stat(filepath.Join(dir, d, "go.mod")); err == nil {
			return true
		}
	}
	return false
}
