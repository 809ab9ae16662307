package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
)

func (f *finder) block(b *ast.BlockStmt) {
	if b != nil {
		f.stmts(b.List)
	}
}

func (f *finder) stmts(list []ast.Stmt) {
	for _, s := range list {
		f.stmt(s, true)
	}
}

// stmt looks for mutants in a statement. alone: it stands in a block, not in the head of an if, a for or a switch.
func (f *finder) stmt(s ast.Stmt, alone bool) {
	switch s := s.(type) {
	case *ast.BlockStmt:
		f.block(s)
	case *ast.LabeledStmt:
		f.stmt(s.Stmt, false)
	case *ast.IfStmt:
		if onlyBroken(s.Cond) {
			f.stmt(s.Else, true)
			return
		}
		f.stmt(s.Init, false)
		f.condition(s.Cond)
		f.block(s.Body)
		f.stmt(s.Else, true)
	case *ast.ForStmt:
		f.stmt(s.Init, false)
		f.condition(s.Cond)
		f.stmt(s.Post, false)
		f.block(s.Body)
	case *ast.RangeStmt:
		f.expr(s.X)
		f.block(s.Body)
	case *ast.SwitchStmt:
		f.stmt(s.Init, false)
		f.expr(s.Tag)
		f.cases(s.Body, s.Tag == nil)
	case *ast.TypeSwitchStmt:
		f.stmt(s.Init, false)
		f.cases(s.Body, false)
	case *ast.ReturnStmt:
		f.returns(s)
	case *ast.ExprStmt:
		f.remove(s, alone && f.worthRemoving(s.X))
		f.expr(s.X)
	case *ast.DeferStmt:
		f.remove(s, alone)
		f.expr(s.Call)
	case *ast.BranchStmt:
		f.remove(s, alone && (s.Tok == token.BREAK || s.Tok == token.CONTINUE))
	case *ast.IncDecStmt:
		f.incDec(s, alone)
	case *ast.AssignStmt:
		f.assign(s, alone)
	case *ast.DeclStmt:
		f.declare(s.Decl.(*ast.GenDecl))
	}
}

func (f *finder) cases(body *ast.BlockStmt, conditions bool) {
	for _, s := range body.List {
		c := s.(*ast.CaseClause)
		if len(c.List) == 1 && onlyBroken(c.List[0]) {
			continue
		}
		if conditions {
			for _, e := range c.List {
				f.condition(e)
			}
		}
		f.stmts(c.Body)
	}
}

// remove makes a statement one that is left out.
func (f *finder) remove(s ast.Stmt, worth bool) {
	if worth {
		f.edits.wrap(f.pkg, s, "if !"+on(f.point(s, removal, f.text(s), "nothing"))+" { ", " }")
	}
}

func (f *finder) incDec(s *ast.IncDecStmt, alone bool) {
	other := f.text(s.X) + opposite[s.Tok].String()
	id := f.point(s, increment, f.text(s), other)
	if alone {
		f.edits.wrap(f.pkg, s, "if "+on(id)+" { "+other+" } else if !"+on(f.point(s, removal, f.text(s), "nothing"))+" { ", " }")
	} else {
		at := f.offset(s.TokPos)
		name, ok := f.typeText(f.info.Types[s.X].Type)
		if !ok {
			panic("the type of " + f.text(s.X) + " has no name here")
		}
		f.edits.replace(at, at+2, " "+s.Tok.String()[:1]+"= "+call("Step["+name+"]", id)+"1)")
	}
	f.expr(s.X)
}

func (f *finder) assign(s *ast.AssignStmt, alone bool) {
	worth := alone && s.Tok != token.DEFINE && !f.onlyCapacity(s)
	if other, ok := opposite[s.Tok]; worth && ok && isNumber(f.info.Types[s.Lhs[0]].Type) {
		with := f.text(s.Lhs[0]) + " " + other.String() + " " + f.text(s.Rhs[0])
		id := f.point(s, increment, f.text(s), with)
		f.edits.wrap(f.pkg, s, "if "+on(id)+" { "+with+" } else if !"+on(f.point(s, removal, f.text(s), "nothing"))+" { ", " }")
	} else {
		f.remove(s, worth)
	}
	if s.Tok != token.DEFINE {
		f.exprs(s.Lhs...)
	}
	f.exprs(s.Rhs...)
}

func (f *finder) declare(d *ast.GenDecl) {
	for _, spec := range d.Specs {
		if v, ok := spec.(*ast.ValueSpec); ok && d.Tok == token.VAR {
			f.exprs(v.Values...)
		}
	}
}

// returns looks at each result by itself.
func (f *finder) returns(s *ast.ReturnStmt) {
	if len(s.Results) == 0 && f.results.Len() == 0 {
		f.remove(s, true)
	}
	for i, e := range s.Results {
		if len(s.Results) == f.results.Len() && (i == len(s.Results)-1 || !f.beside(s)) { // else one call gives them all, or nobody looks
			f.result(e, f.results.At(i).Type())
		}
		f.expr(e)
	}
}

func (f *finder) result(e ast.Expr, of types.Type) {
	t := f.info.Types[e]
	switch x := ast.Unparen(e).(type) {
	case *ast.BinaryExpr:
		if isBool(t.Type) { // it has mutants of its own
			return
		}
	case *ast.UnaryExpr:
		if x.Op == token.NOT {
			return
		}
	}
	if c, ok := ast.Unparen(e).(*ast.CompositeLit); ok && len(c.Elts) == 0 && isStruct(of) {
		return // it is the zero value
	}
	name, ok := f.typeText(of)
	switch {
	case t.IsNil() || !ok:
	case t.Value != nil && t.Value.Kind() == constant.Bool:
		id := f.point(e, result, f.text(e), map[bool]string{true: "false", false: "true"}[constant.BoolVal(t.Value)])
		f.edits.replace(f.offset(e.Pos()), f.offset(e.End()), "("+f.text(e)+" != "+on(id)+")")
	case isBool(t.Type):
		if f.plainBool(e) && !isBroken(e) {
			f.negate(e, "!"+f.text(e))
		}
	case t.Value != nil && isZero(t.Value):
		if isNumber(of) {
			f.edits.wrap(f.pkg, e, call("One["+name+"]", f.point(e, result, f.text(e), "1")), ")")
		}
	default:
		f.edits.wrap(f.pkg, e, call("Zero["+name+"]", f.point(e, result, f.text(e), zeroText(of))), ")")
	}
}

func isBool(t types.Type) bool {
	b, ok := t.Underlying().(*types.Basic)
	return ok && b.Info()&types.IsBoolean != 0
}

func isStruct(t types.Type) bool {
	switch t.Underlying().(type) {
	case *types.Struct, *types.Array:
		return true
	}
	return false
}

// zeroText is the zero value as it is told.
func zeroText(t types.Type) string {
	if b, ok := t.Underlying().(*types.Basic); ok {
		if b.Info()&types.IsString != 0 {
			return `""`
		}
		return "0"
	}
	if isStruct(t) {
		return "its zero value"
	}
	return "nil"
}
