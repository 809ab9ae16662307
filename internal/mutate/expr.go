package main

import (
	"go/ast"
	"go/token"
	"go/types"
)

// exprs looks for mutants in expressions that are no conditions.
func (f *finder) exprs(list ...ast.Expr) {
	for _, e := range list {
		f.expr(e)
	}
}

// condition looks for mutants in what decides something.
func (f *finder) condition(e ast.Expr) {
	switch x := ast.Unparen(e).(type) {
	case nil:
		return
	case *ast.BinaryExpr:
	case *ast.UnaryExpr:
	default:
		if f.plainBool(x) && !isBroken(x) {
			f.negate(x, "!"+f.text(x))
		}
	}
	f.expr(e)
}

func (f *finder) expr(e ast.Expr) {
	if e == nil || f.constant(e) {
		return
	}
	switch e := e.(type) {
	case *ast.BinaryExpr:
		f.binary(e)
	case *ast.UnaryExpr:
		f.unary(e)
	case *ast.ParenExpr:
		f.expr(e.X)
	case *ast.CallExpr:
		f.call(e)
	case *ast.CompositeLit:
		f.composite(e)
	case *ast.FuncLit:
		outer := f.results
		f.results = f.info.Types[e].Type.(*types.Signature).Results()
		f.block(e.Body)
		f.results = outer
	case *ast.IndexExpr:
		f.exprs(e.X, e.Index)
	case *ast.SelectorExpr:
		f.expr(e.X)
	case *ast.SliceExpr:
		f.exprs(e.X, e.Low, e.High) // e.Max is a capacity
	case *ast.StarExpr:
		f.expr(e.X)
	case *ast.TypeAssertExpr:
		f.expr(e.X)
	}
}

// constant takes an expression that the compiler evaluates. If it names one of our settings, that is changed as a whole: half
// and twice, at all its uses at once. So is a duration that is written out.
func (f *finder) constant(e ast.Expr) bool {
	t := f.info.Types[e]
	if t.Value == nil {
		return t.IsType()
	}
	name, ok := f.typeText(t.Type)
	if !ok || isZero(t.Value) {
		return true
	}
	ids, ok := f.setting(e)
	if ok {
		f.edits.wrap(f.pkg, e, call("Constant["+name+"]", ids[0], ids[1]), ")")
	}
	return true
}

func (f *finder) binary(e *ast.BinaryExpr) {
	from, op := f.text(e), e.Op
	with := func(other token.Token) string { return f.text(e.X) + " " + other.String() + " " + f.text(e.Y) }
	switch {
	case onlyBroken(e):
		return
	case op == token.LAND || op == token.LOR:
		if !isBroken(e.X) && !isBroken(e.Y) {
			id := f.point(e, logic, from, with(opposite[op]))
			swapped := "(" + f.text(e.X) + ") " + opposite[op].String() + " (" + f.text(e.Y) + ")"
			f.edits.wrap(f.pkg, e, "("+on(id)+" && ("+swapped+") || "+off(id)+" && (", "))")
		}
		f.condition(e.X)
		f.condition(e.Y)
		return
	case contrary[op] != 0:
		f.negate(e, with(contrary[op]))
		if opposite[op] != 0 {
			f.operator(e, boundary, from, with(opposite[op]))
		}
	case isNumber(f.info.Types[e].Type):
		f.operator(e, arithmetic, from, with(opposite[op]))
	}
	f.exprs(e.X, e.Y)
}

// operator makes a call of a binary operator.
func (f *finder) operator(e *ast.BinaryExpr, kind, from, to string) {
	id := f.point(e, kind, from, to)
	of := ""
	if e.Op == token.SHL || e.Op == token.SHR {
		name, ok := f.typeText(f.info.Types[e].Type)
		if !ok {
			panic("the type of " + from + " has no name here")
		}
		of = "[" + name + "]"
	}
	f.edits.wrap(f.pkg, e, call(helper[e.Op]+of, id), ")")
	at := f.offset(e.OpPos)
	f.edits.replace(at, at+len(e.Op.String()), ",")
}

func (f *finder) unary(e *ast.UnaryExpr) {
	switch e.Op {
	case token.NOT:
		x := ast.Unparen(e.X)
		if b, ok := x.(*ast.BinaryExpr); ok { // its own mutants are the same
			f.expr(b)
			return
		}
		if f.plainBool(e) && !isBroken(x) {
			f.negate(e, f.text(e.X))
		}
	case token.SUB:
		id := f.point(e, arithmetic, f.text(e), f.text(e.X))
		f.edits.wrap(f.pkg, e, call("Neg", id), ")")
		at := f.offset(e.OpPos)
		f.edits.replace(at, at+1, "")
	}
	f.expr(e.X)
}

func (f *finder) call(e *ast.CallExpr) {
	args := e.Args
	switch name := f.callee(e); {
	case isText(name) || isBroken(e):
		return
	case name == "make" && f.isMap(args[0]):
		args = nil // a hint
	case name == "make":
		args = args[1:min(len(args), 2)] // the length, not the capacity
	case name == "slices.Grow":
		args = args[:1]
	}
	f.expr(e.Fun)
	f.exprs(args...)
}

func (f *finder) composite(e *ast.CompositeLit) {
	for _, x := range e.Elts {
		if kv, ok := x.(*ast.KeyValueExpr); ok {
			if f.isMap(e) {
				f.expr(kv.Key)
			}
			x = kv.Value
		}
		f.expr(x)
	}
}

func (f *finder) isMap(e ast.Expr) bool {
	_, ok := f.info.Types[e].Type.Underlying().(*types.Map)
	return ok
}

func isNumber(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsNumeric != 0
}
