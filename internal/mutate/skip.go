package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"
)

// What has no mutants, because it is no behaviour that a test should hold:
//
//   - texts: the methods String, GoString, Error and Format, what is given to fmt, errors and panic, texts that are returned
//   - capacities: those given to make and slices.Grow, the size of a map, slices.Grow and slices.Clip themselves
//   - rule.Broken, what it is combined with by && or ||, and what is done where a rule is broken: nothing, in a build for use.
//     Files that are named broken.go have nothing else in them; neither have calls of their functions
//   - what is returned beside a false or an error
//   - panics, which say that the code is wrong
//   - tables at package level; numbered constants (iota), which are names; the kinds of a named type

const brokenFile = "broken.go"

// noBehaviour tells whether a function is one of these.
func noBehaviour(fn *ast.FuncDecl) bool {
	return fn.Recv != nil && slices.Contains([]string{"String", "GoString", "Error", "Format"}, fn.Name.Name)
}

func isText(callee string) bool {
	return strings.HasPrefix(callee, "fmt.") || strings.HasPrefix(callee, "errors.New") || callee == "panic"
}

// isBroken tells whether a condition is rule.Broken, its contrary, or the beginning of what is true only where a rule is broken.
func isBroken(e ast.Expr) bool {
	not, ok := ast.Unparen(e).(*ast.UnaryExpr)
	return ok && isBroken(not.X) || onlyBroken(e)
}

// onlyBroken tells whether a condition is true only where a rule is broken.
func onlyBroken(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.BinaryExpr:
		return e.Op == token.LAND && onlyBroken(e.X) || e.Op == token.LOR && onlyBroken(e.X) && onlyBroken(e.Y)
	case *ast.CallExpr:
		sel, ok := e.Fun.(*ast.SelectorExpr)
		if !ok || sel.Sel.Name != "Broken" {
			return false
		}
		x, ok := sel.X.(*ast.Ident)
		return ok && x.Name == "rule"
	}
	return false
}

// callee names a function of another package or of the language: "slices.Grow", "make". Empty: any other.
func (f *finder) callee(e *ast.CallExpr) string {
	switch fun := ast.Unparen(e.Fun).(type) {
	case *ast.Ident:
		if _, ok := f.info.Uses[fun].(*types.Builtin); ok {
			return fun.Name
		}
	case *ast.SelectorExpr:
		if x, ok := fun.X.(*ast.Ident); ok {
			if p, ok := f.info.Uses[x].(*types.PkgName); ok {
				return p.Imported().Path() + "." + fun.Sel.Name
			}
		}
	}
	return ""
}

// beside tells whether a return says, by its last result, that the others mean nothing: false, or an error.
func (f *finder) beside(s *ast.ReturnStmt) bool {
	last := s.Results[len(s.Results)-1]
	t := f.info.Types[last]
	if t.Value != nil && t.Value.Kind() == constant.Bool {
		return !constant.BoolVal(t.Value)
	}
	return !t.IsNil() && types.Identical(f.results.At(f.results.Len()-1).Type(), types.Universe.Lookup("error").Type()) && f.makesError(last)
}

// makesError tells whether an expression is an error for sure: a call of fmt.Errorf or errors.New, or a variable Err….
func (f *finder) makesError(e ast.Expr) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.CallExpr:
		return isText(f.callee(e))
	case *ast.Ident:
		_, ok := f.info.Uses[e].(*types.Var)
		return ok && strings.HasPrefix(strings.ToLower(e.Name), "err") && e.Name != "err"
	}
	return false
}

func (f *finder) worthRemoving(e ast.Expr) bool {
	c, ok := ast.Unparen(e).(*ast.CallExpr)
	return ok && f.callee(c) != "panic" && !f.breaks(c)
}

// breaks tells whether a call is of a function of broken.go.
func (f *finder) breaks(c *ast.CallExpr) bool {
	var name *ast.Ident
	switch fun := ast.Unparen(c.Fun).(type) {
	case *ast.Ident:
		name = fun
	case *ast.SelectorExpr:
		name = fun.Sel
	}
	o := f.info.Uses[name]
	return o != nil && filepath.Base(f.fset.Position(o.Pos()).Filename) == brokenFile
}

// onlyCapacity tells whether an assignment changes no value, only what is allotted for it, or nothing at all.
func (f *finder) onlyCapacity(s *ast.AssignStmt) bool {
	if x, ok := s.Lhs[0].(*ast.Ident); ok && x.Name == "_" && len(s.Lhs) == 1 {
		return true
	}
	c, ok := ast.Unparen(s.Rhs[0]).(*ast.CallExpr)
	if !ok {
		return false
	}
	name := f.callee(c)
	return name == "slices.Grow" || name == "slices.Clip"
}

// settings are the constants of a package that stand for an amount: numbers and durations that are written out.
func settings(p *pkg) map[types.Object]string {
	found := map[types.Object]string{}
	for _, f := range p.files {
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			d, ok := n.(*ast.GenDecl)
			if !ok || d.Tok != token.CONST {
				return true
			}
			for _, s := range d.Specs {
				v := s.(*ast.ValueSpec)
				for i, x := range v.Names {
					if i < len(v.Values) && !namesIota(v.Values[i]) && isAmount(p.info.Defs[x].Type()) {
						found[p.info.Defs[x]] = p.source(f, v.Values[i])
					}
				}
			}
			return false
		})
	}
	return found
}

func namesIota(e ast.Expr) bool {
	found := false
	ast.Inspect(e, func(n ast.Node) bool {
		x, ok := n.(*ast.Ident)
		found = found || ok && x.Name == "iota"
		return true
	})
	return found
}

func isAmount(t types.Type) bool {
	if named, ok := t.(*types.Named); ok {
		return isDuration(named)
	}
	return isNumber(t)
}

func isDuration(t types.Type) bool { return types.TypeString(t, nil) == "time.Duration" }

// setting gives the mutants of a constant expression, half and twice: those of the first setting that it names, or some of its
// own if it is a duration that is written out.
func (f *finder) setting(e ast.Expr) (ids [2]int, ok bool) {
	var of types.Object
	unit := false
	ast.Inspect(e, func(n ast.Node) bool {
		x, isName := n.(*ast.Ident)
		if !isName {
			return true
		}
		c, isConst := f.info.Uses[x].(*types.Const)
		switch {
		case !isConst || of != nil:
		case c.Pkg() != nil && c.Pkg().Path() == "time":
			unit = true
		case f.settings[c] != "":
			of = c
		}
		return true
	})
	switch {
	case of != nil:
		if ids, ok = f.constants[of]; !ok {
			in := f.in
			f.in = "const " + of.Name()
			ids = f.halfAndTwice(e, of.Name(), f.settings[of])
			f.in = in
			f.constants[of] = ids
		}
		return ids, true
	case unit:
		return f.halfAndTwice(e, f.text(e), f.text(e)), true
	}
	return ids, false
}

func (f *finder) halfAndTwice(e ast.Expr, name, value string) [2]int {
	return [2]int{f.point(e, constantly, name+" = "+value, "half of it"), f.point(e, constantly, name+" = "+value, "twice")}
}

func isZero(v constant.Value) bool {
	switch v.Kind() {
	case constant.Int, constant.Float:
		return constant.Sign(v) == 0
	}
	return true
}

// typeText is a type as it is written in the file. False: it has no name there.
func (f *finder) typeText(t types.Type) (string, bool) {
	if b, ok := t.(*types.Basic); ok && b.Info()&types.IsUntyped != 0 {
		return "", false
	}
	ok := true
	s := types.TypeString(t, func(p *types.Package) string {
		if p == f.types {
			return ""
		}
		for _, spec := range f.file.syntax.Imports {
			if strings.Trim(spec.Path.Value, `"`) == p.Path() {
				if spec.Name != nil {
					return spec.Name.Name
				}
				return p.Name()
			}
		}
		ok = false
		return ""
	})
	return s, ok
}
