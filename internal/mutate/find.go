package main

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"strconv"
	"strings"
)

// The operators.
const (
	boundary   = "boundary"   // < and <=, > and >=
	negation   = "negation"   // of a comparison, or of what else is a condition: == and !=, < and >=, a dropped !
	logic      = "logic"      // && and ||
	arithmetic = "arithmetic" // + and -, * and /, % to *, and the operators on bits
	increment  = "increment"  // ++ and --, += and -= and their like
	removal    = "removal"    // of a call, an assignment, a break, a continue
	result     = "result"     // what is returned: another bool, 1 for 0, the zero value for any other
	constantly = "constant"   // half of it, or twice
)

// mutant is one small change of a package.
type mutant struct {
	id       int
	pkg      string
	file     string
	line     int
	in       string // the function, or what is declared
	operator string
	from, to string
	nth      int // among its equals in the function, from 1

	fate   fate
	killer string // the test that noticed it first, where the binary says so
}

// key tells a mutant from all others for as long as the code of its function stays as it is.
func (m *mutant) key() string {
	k := fmt.Sprintf("%s: %s: %s: %s => %s", m.pkg, m.in, m.operator, m.from, m.to)
	if m.nth > 1 {
		k += fmt.Sprintf(" #%d", m.nth)
	}
	return k
}

// finder finds the mutants of one file after the other, and how the file is to be rewritten to contain them.
type finder struct {
	*pkg
	file      *file
	edits     edits
	in        string
	results   *types.Tuple // of the function or function literal
	mutants   []*mutant
	equals    map[string]int
	constants map[types.Object][2]int // the two mutants of a constant, which change all its uses at once
	settings  map[types.Object]string // constants of this package that may be changed, and where they are declared
}

// find gives the mutants of a package, numbered, and the rewritten text of each of its files by path.
func find(p *pkg) ([]*mutant, map[string][]byte) {
	f := &finder{pkg: p, equals: map[string]int{}, constants: map[types.Object][2]int{}, settings: settings(p)}
	texts := map[string][]byte{}
	for _, f.file = range p.files {
		if filepath.Base(f.file.path) == brokenFile {
			continue
		}
		f.edits = edits{}
		for _, d := range f.file.syntax.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil && !noBehaviour(fn) {
				f.in = functionName(fn)
				f.results = p.info.Defs[fn.Name].Type().(*types.Signature).Results()
				f.block(fn.Body)
			}
		}
		if len(f.edits.list) == 0 {
			continue
		}
		end := p.offset(f.file.syntax.Name.End())
		f.edits.replace(end, end, fmt.Sprintf("; import %s %q", runtimeName, runtimePath))
		texts[f.file.path] = f.edits.apply(f.file.text)
	}
	return f.mutants, texts
}

func functionName(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	if star, ok := t.(*ast.StarExpr); ok {
		t = star.X
	}
	if generic, ok := t.(*ast.IndexExpr); ok {
		t = generic.X
	}
	return t.(*ast.Ident).Name + "." + fn.Name.Name
}

// point notes a mutant and gives its id.
func (f *finder) point(n ast.Node, operator, from, to string) int {
	m := &mutant{id: len(f.mutants), pkg: f.name, in: f.in, operator: operator, from: short(from), to: short(to)}
	at := f.fset.Position(n.Pos())
	m.file, m.line = at.Filename, at.Line
	k := m.key()
	f.equals[k]++
	m.nth = f.equals[k]
	f.mutants = append(f.mutants, m)
	return m.id
}

// short puts a text on one line that is not too long.
func short(s string) string {
	const most = 90
	s = strings.Join(strings.Fields(s), " ")
	if r := []rune(s); len(r) > most {
		return string(r[:most]) + "…"
	}
	return s
}

func (f *finder) text(n ast.Node) string { return f.source(f.file, n) }

// call is the beginning of a call of the package point: what follows is the next argument.
func call(name string, ids ...int) string {
	s := runtimeName + "." + name + "("
	for _, id := range ids {
		s += strconv.Itoa(id) + ", "
	}
	return s
}

func on(id int) string { return fmt.Sprintf("%s.On(%d)", runtimeName, id) }

func off(id int) string { return fmt.Sprintf("%s.Off(%d)", runtimeName, id) }

// negate makes a condition its contrary.
func (f *finder) negate(e ast.Expr, to string) {
	id := f.point(e, negation, f.text(e), to)
	f.edits.wrap(f.pkg, e, "(", " != "+on(id)+")")
}

// plainBool tells whether an expression is of type bool, or an untyped one, and not a constant.
func (f *finder) plainBool(e ast.Expr) bool {
	t := f.info.Types[e]
	b, ok := t.Type.(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0 && t.Value == nil
}

// opposite are the tokens that the operators put in each other's place.
var opposite = map[token.Token]token.Token{
	token.LSS: token.LEQ, token.LEQ: token.LSS, token.GTR: token.GEQ, token.GEQ: token.GTR,
	token.LAND: token.LOR, token.LOR: token.LAND,
	token.ADD: token.SUB, token.SUB: token.ADD, token.MUL: token.QUO, token.QUO: token.MUL, token.REM: token.MUL,
	token.AND: token.OR, token.OR: token.AND, token.XOR: token.AND, token.AND_NOT: token.AND,
	token.SHL: token.SHR, token.SHR: token.SHL,
	token.INC: token.DEC, token.DEC: token.INC,
	token.ADD_ASSIGN: token.SUB_ASSIGN, token.SUB_ASSIGN: token.ADD_ASSIGN,
	token.MUL_ASSIGN: token.QUO_ASSIGN, token.QUO_ASSIGN: token.MUL_ASSIGN, token.REM_ASSIGN: token.MUL_ASSIGN,
	token.AND_ASSIGN: token.OR_ASSIGN, token.OR_ASSIGN: token.AND_ASSIGN, token.XOR_ASSIGN: token.AND_ASSIGN,
	token.AND_NOT_ASSIGN: token.AND_ASSIGN, token.SHL_ASSIGN: token.SHR_ASSIGN, token.SHR_ASSIGN: token.SHL_ASSIGN,
}

// contrary are the comparisons that are true where the other is false.
var contrary = map[token.Token]token.Token{
	token.EQL: token.NEQ, token.NEQ: token.EQL,
	token.LSS: token.GEQ, token.GEQ: token.LSS, token.GTR: token.LEQ, token.LEQ: token.GTR,
}

// helper names the function of the package point that is an operator.
var helper = map[token.Token]string{
	token.LSS: "Less", token.LEQ: "LessEqual", token.GTR: "Greater", token.GEQ: "GreaterEqual",
	token.ADD: "Add", token.SUB: "Sub", token.MUL: "Mul", token.QUO: "Quo", token.REM: "Rem",
	token.AND: "And", token.OR: "Or", token.XOR: "Xor", token.AND_NOT: "AndNot", token.SHL: "Shl", token.SHR: "Shr",
}
