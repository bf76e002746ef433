package redlatchvet

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/cfg"
	"golang.org/x/tools/go/types/typeutil"
)

// paths looks for a way through a function on which a lease is not released.
//
// It follows the graph of the function from the acquisition on. A path ends well where the lease is
// released or given away, and where a condition says that the acquisition failed. A path ends badly
// at a return, and where another value takes the variable, as in a loop that acquires again. In
// doubt a path ends well, so that what is reported is a mistake.
type paths struct {
	info   *types.Info
	token  *types.Var          // has what Token of the lease returned; nil if there is none
	failed map[*types.Var]bool // each has what errors.Is or its like said of the error
	acquisition
}

// place is where a path has come to.
type place struct {
	block *cfg.Block
	err   *types.Var // says, where it is not nil, that there is no lease; nil if there is no such variable
}

// lost returns the node at which a path ends badly, and nil if no path does.
func (p *paths) lost(graph *cfg.CFG) ast.Node {
	for _, b := range graph.Blocks {
		for i, n := range b.Nodes {
			if n == p.stmt {
				return p.follow(b, i+1, p.err, make(map[place]bool))
			}
		}
	}
	return nil // the acquisition cannot be reached
}

// follow goes on in a block, from the node of that index.
func (p *paths) follow(b *cfg.Block, from int, err *types.Var, seen map[place]bool) ast.Node {
	for _, n := range b.Nodes[from:] {
		asked, flag := p.asksTheLease(n), p.asksTheError(n, err)
		switch {
		case p.releases(n), flag == nil && p.copies(n, err):
			return nil
		case flag != nil:
			p.failed[flag] = true
		case n == p.stmt, p.assigns(n, p.lease):
			return n
		case asked != nil:
			err = asked
		case p.assigns(n, err):
			err = nil
		}
	}
	if ret := b.Return(); ret != nil {
		return ret
	}
	for i, next := range b.Succs {
		if at := (place{next, err}); !seen[at] && !p.excluded(b, i == 0, err) {
			seen[at] = true
			if n := p.follow(next, 0, err, seen); n != nil {
				return n
			}
		}
	}
	return nil
}

// excluded reports whether the condition at the end of a block, being true or false, says that
// there is no lease. A condition on the error that is not understood excludes both.
func (p *paths) excluded(b *cfg.Block, isTrue bool, err *types.Var) bool {
	if len(b.Succs) != 2 || len(b.Nodes) == 0 {
		return false
	}
	condition, ok := b.Nodes[len(b.Nodes)-1].(ast.Expr)
	return ok && p.noLease(condition, isTrue, err)
}

// noLease reports whether a condition, being true or false, says that there is no lease.
func (p *paths) noLease(e ast.Expr, isTrue bool, err *types.Var) bool {
	switch e := ast.Unparen(e).(type) {
	case *ast.UnaryExpr:
		if e.Op == token.NOT {
			return p.noLease(e.X, !isTrue, err)
		}
	case *ast.BinaryExpr:
		switch e.Op {
		case token.LAND, token.LOR:
			x, y := p.noLease(e.X, isTrue, err), p.noLease(e.Y, isTrue, err)
			if (e.Op == token.LAND) == isTrue {
				return x || y // both have that value
			}
			return x && y
		case token.EQL, token.LEQ, token.GEQ, token.NEQ, token.GTR, token.LSS: // a token <= 0 is 0
			equal := (e.Op == token.EQL || e.Op == token.LEQ || e.Op == token.GEQ) == isTrue
			if p.comparesWithNil(e, p.lease) || p.compares(e, p.isToken, p.isZero) {
				return equal
			}
			if p.comparesWithNil(e, err) || p.compares(e, p.isErr, p.isNil) {
				return !equal
			}
			if p.compares(e, p.isToken, p.isConstant) {
				return true // not understood, such as Token() < 1
			}
		}
	case *ast.CallExpr:
		switch {
		case p.fromErrors(e) && (p.mentions(e, err) || within(e, p.isNotHeld)):
			return isTrue // errors.Is and errors.As of nil are false
		case p.method(e) == "Held":
			return !isTrue
		}
	case *ast.Ident:
		if v, ok := p.info.Uses[e].(*types.Var); ok && p.failed[v] {
			return isTrue
		}
	}
	return p.mentions(e, err)
}

// method returns the name of the method of the lease that is called, and "" if another function is,
// or if a MultiLease says that one of its names is lost: the others are still held.
func (p *paths) method(e ast.Expr) string {
	if pointee(p.lease.Type()) == "MultiLease" {
		return ""
	}
	if call, ok := ast.Unparen(e).(*ast.CallExpr); ok {
		if s, ok := call.Fun.(*ast.SelectorExpr); ok && p.names(s.X, p.lease) {
			return s.Sel.Name
		}
	}
	return ""
}

// asksTheLease returns the variable to which a node assigns the error of a method that says that
// the lease is no longer held, and nil for another node. It notes a variable to which the token is
// assigned.
func (p *paths) asksTheLease(n ast.Node) *types.Var {
	last, from := p.given(n)
	switch p.method(from) {
	case "ID", "Err":
		return last
	case "Token":
		p.token = last
	}
	return nil
}

// asksTheError returns the variable to which a node assigns what errors.Is or its like says of the
// error, and nil for another node.
func (p *paths) asksTheError(n ast.Node, err *types.Var) *types.Var {
	last, from := p.given(n)
	if last == nil || !p.mentions(from, err) || !p.fromErrors(from) {
		return nil
	}
	return last
}

// given returns the last variable to which a node assigns a value, and the expression that it
// assigns, if it assigns just one.
func (p *paths) given(n ast.Node) (last *types.Var, from ast.Expr) {
	if assign, ok := n.(*ast.AssignStmt); ok && len(assign.Rhs) == 1 {
		if id, ok := ast.Unparen(assign.Lhs[len(assign.Lhs)-1]).(*ast.Ident); ok {
			return variable(p.info, id), assign.Rhs[0]
		}
	}
	return nil, nil
}

// comparesWithNil reports whether a comparison is that of a variable with nil.
func (p *paths) comparesWithNil(e *ast.BinaryExpr, v *types.Var) bool {
	return p.compares(e, func(e ast.Expr) bool { return p.names(e, v) }, p.isNil)
}

// compares reports whether a comparison is that of the one with the other, in either order.
func (p *paths) compares(e *ast.BinaryExpr, one, other func(ast.Expr) bool) bool {
	return one(e.X) && other(e.Y) || one(e.Y) && other(e.X)
}

// names reports whether a node is a variable, in parentheses or not.
func (p *paths) names(n ast.Node, v *types.Var) bool {
	if e, ok := n.(ast.Expr); ok {
		n = ast.Unparen(e)
	}
	id, ok := n.(*ast.Ident)
	return ok && v != nil && p.info.Uses[id] == v
}

// With these the lease says that it is not held: Err returns an error, and the others return 0.
func (p *paths) isErr(e ast.Expr) bool { return p.method(e) == "Err" }

func (p *paths) isToken(e ast.Expr) bool {
	return p.method(e) == "Token" || p.method(e) == "Remaining" || p.names(e, p.token)
}

// isNotHeld reports whether a node is the error of the library that says so.
func (p *paths) isNotHeld(n ast.Node) bool {
	id, ok := n.(*ast.Ident)
	return ok && id.Name == "ErrNotHeld" && p.info.Uses[id] != nil && p.info.Uses[id].Pkg().Path() == library
}

func (p *paths) isNil(e ast.Expr) bool { return p.info.Types[e].IsNil() }

func (p *paths) isConstant(e ast.Expr) bool { return p.info.Types[e].Value != nil }

func (p *paths) isZero(e ast.Expr) bool {
	v := p.info.Types[e].Value
	return v != nil && v.Kind() == constant.Int && constant.Sign(v) == 0
}

// fromErrors reports whether e calls a function of package errors whose last result is a bool.
func (p *paths) fromErrors(e ast.Expr) bool {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return false
	}
	f := typeutil.StaticCallee(p.info, call)
	if f == nil || f.Pkg() == nil || f.Pkg().Path() != "errors" {
		return false
	}
	last := f.Signature().Results()
	return types.Identical(last.At(last.Len()-1).Type(), types.Typ[types.Bool])
}

// harmless are the methods that leave a lease held and do not let it out of the function.
var harmless = map[string]bool{
	"Context": true, "Deadline": true, "Ensure": true, "Err": true, "Extend": true,
	"ExtendTo": true, "Held": true, "ID": true, "LogValue": true, "Name": true, "Owner": true, "Permits": true,
	"Remaining": true, "String": true, "Token": true, "Wanted": true,
}

// releases reports whether a node releases the lease or gives it away.
func (p *paths) releases(n ast.Node) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if p.names(n.X, p.lease) && harmless[n.Sel.Name] {
				return false
			}
		case *ast.BinaryExpr:
			if p.comparesWithNil(n, p.lease) {
				return false
			}
		case *ast.AssignStmt:
			// What is assigned to counts where it is not the variable alone.
			for _, e := range n.Rhs {
				found = found || p.releases(e)
			}
			for _, e := range n.Lhs {
				if _, alone := ast.Unparen(e).(*ast.Ident); !alone {
					found = found || p.releases(e)
				}
			}
			return false
		case *ast.Ident:
			found = found || p.info.Uses[n] == p.lease
		}
		return !found
	})
	return found
}

// assigns reports whether a node gives a variable another value.
func (p *paths) assigns(n ast.Node, v *types.Var) bool {
	assign, ok := n.(*ast.AssignStmt)
	return ok && v != nil && slices.ContainsFunc(assign.Lhs, func(e ast.Expr) bool {
		id, ok := ast.Unparen(e).(*ast.Ident)
		return ok && p.info.ObjectOf(id) == v
	})
}

// copies reports whether a node keeps what the error or Held says in another variable, by which the
// function may go on.
func (p *paths) copies(n ast.Node, err *types.Var) bool {
	var from []ast.Expr
	switch n := n.(type) {
	case *ast.AssignStmt:
		from = n.Rhs
	case *ast.ValueSpec:
		from = n.Values
	}
	return slices.ContainsFunc(from, func(e ast.Expr) bool {
		return p.mentions(e, err) || p.method(e) == "Held"
	})
}

// unclear reports whether a function has a switch on the error or on what the lease says, whose cases the
// graph does not tell apart.
func (p *paths) unclear(body *ast.BlockStmt) bool {
	return within(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SwitchStmt:
			return n.Tag != nil && (p.mentions(n.Tag, p.err) || p.mentions(n.Tag, p.lease))
		case *ast.TypeSwitchStmt:
			return p.mentions(n.Assign, p.err)
		}
		return false
	})
}

// mentions reports whether a node names a variable.
func (p *paths) mentions(n ast.Node, v *types.Var) bool {
	return within(n, func(n ast.Node) bool { return p.names(n, v) })
}

// captured reports whether code before the acquisition can release the lease, as a defer statement
// does: with a function literal, or with the address of the variable.
func (p *paths) captured(body *ast.BlockStmt) bool {
	return within(body, func(n ast.Node) bool {
		if n.Pos() >= p.stmt.Pos() {
			return false
		}
		switch n := n.(type) {
		case *ast.FuncLit:
			return p.releases(n.Body)
		case *ast.UnaryExpr:
			return n.Op == token.AND && p.names(n.X, p.lease)
		}
		return false
	})
}

// within reports whether such holds for a node, or for any node in it.
func within(n ast.Node, such func(ast.Node) bool) (found bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		found = found || n != nil && such(n)
		return !found
	})
	return found
}
