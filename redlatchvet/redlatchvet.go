// Package redlatchvet has an analyzer that reports leases which no code can release: such a lock
// stays taken for as long as the process lives, since its lease is extended all the time.
//
// It reports three mistakes:
//
//	_, err := m.TryLock(ctx)      // the lease is discarded
//
//	lease, err := m.Lock(ctx)     // the lease is never released
//	if err != nil {
//		return err
//	}
//	return work(lease.Context())
//
//	lease, err := m.Lock(ctx)     // the lease is not released on all paths
//	if err != nil {
//		return err
//	}
//	file, err := os.Open(name)
//	if err != nil {
//		return err                // here it is still held
//	}
//	defer lease.Release(ctx)
//
// A lease that is returned, stored, captured by a function literal or given to another function
// counts as released: the analyzer looks at one function at a time. `_ = lease` says that a lease
// is kept on purpose. In files that import testing the analyzer looks at examples only, since tests
// try locks that they know to be taken, and leave leases to the end of their server.
//
// Methods that take a function, such as Do and Run, rule out all three mistakes.
package redlatchvet

import (
	"go/ast"
	"go/types"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/ctrlflow"
	"golang.org/x/tools/go/cfg"
	"golang.org/x/tools/go/types/typeutil"
)

// Analyzer reports leases that are discarded or not released on some path.
var Analyzer = &analysis.Analyzer{
	Name:     "redlatchvet",
	Doc:      "report leases of redlatch that are discarded or not released on some path",
	URL:      "https://pkg.go.dev/github.com/redlatch/redlatch/redlatchvet",
	Requires: []*analysis.Analyzer{ctrlflow.Analyzer},
	Run:      run,
}

// library is the package whose leases are looked at.
const library = "github.com/redlatch/redlatch"

func run(pass *analysis.Pass) (any, error) {
	flow := pass.ResultOf[ctrlflow.Analyzer].(*ctrlflow.CFGs)
	for _, file := range pass.Files {
		test := forTests(pass, file)
		for _, decl := range file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if test && !(ok && strings.HasPrefix(f.Name.Name, "Example")) {
				continue
			}
			if ok && f.Body != nil {
				check(pass, f.Body, flow.FuncDecl(f))
			}
			ast.Inspect(decl, func(n ast.Node) bool { // also what variables are set to
				if lit, ok := n.(*ast.FuncLit); ok {
					check(pass, lit.Body, flow.FuncLit(lit))
				}
				return true
			})
		}
	}
	return nil, nil
}

// forTests reports whether a file is a test or a helper of tests.
func forTests(pass *analysis.Pass, file *ast.File) bool {
	return strings.HasSuffix(pass.Fset.File(file.FileStart).Name(), "_test.go") ||
		slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing"` })
}

// acquisition is a call that returns a lease and an error.
type acquisition struct {
	stmt  ast.Node // the assignment
	call  string   // such as "Mutex.Lock"
	lease *types.Var
	err   *types.Var // nil if it is discarded
}

// check looks at the acquisitions of one function, without those of function literals in it.
func check(pass *analysis.Pass, body *ast.BlockStmt, graph *cfg.CFG) {
	ast.Inspect(body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ExprStmt:
			thrownAway(pass, n.X)
		case *ast.GoStmt:
			thrownAway(pass, n.Call)
		case *ast.DeferStmt:
			thrownAway(pass, n.Call)
		case *ast.AssignStmt:
			assigned(pass, body, graph, n, n.Lhs, n.Rhs)
		case *ast.ValueSpec:
			names := make([]ast.Expr, len(n.Names))
			for i, name := range n.Names {
				names[i] = name
			}
			assigned(pass, body, graph, n, names, n.Values)
		}
		return true
	})
}

// thrownAway reports an acquisition whose results are not used.
func thrownAway(pass *analysis.Pass, e ast.Expr) {
	if call := acquires(pass.TypesInfo, e); call != "" {
		pass.ReportRangef(e, "the lease of %s is discarded, and the lock stays taken: release it", call)
	}
}

// assigned looks at an assignment of what a call returns.
func assigned(pass *analysis.Pass, body *ast.BlockStmt, graph *cfg.CFG, stmt ast.Node, to, from []ast.Expr) {
	if len(to) != 2 || len(from) != 1 {
		return
	}
	call := acquires(pass.TypesInfo, from[0])
	lease, ok := ast.Unparen(to[0]).(*ast.Ident)
	if call == "" || !ok { // a field or an element: the lease is stored
		return
	}
	if lease.Name == "_" {
		thrownAway(pass, from[0])
		return
	}
	err, ok := ast.Unparen(to[1]).(*ast.Ident)
	if !ok { // where the error is asked that is stored, the graph does not tell
		return
	}
	a := acquisition{stmt: stmt, call: call, lease: variable(pass.TypesInfo, lease), err: variable(pass.TypesInfo, err)}
	// A variable of another function, or a result of this one, may be released elsewhere.
	if a.lease == nil || a.lease.Pos() < body.Pos() || a.lease.Pos() > body.End() {
		return
	}
	p := paths{info: pass.TypesInfo, failed: make(map[*types.Var]bool), acquisition: a}
	if p.unclear(body) || p.captured(body) {
		return
	}
	lost := p.lost(graph)
	if lost == nil {
		return
	}
	message := "the lease of " + call + " is not released on all paths"
	if !p.releases(body) {
		message = "the lease of " + call + " is never released"
	}
	pass.Report(analysis.Diagnostic{
		Pos: stmt.Pos(), End: stmt.End(),
		Message: message + ": defer " + lease.Name + ".Release",
		Related: []analysis.RelatedInformation{{Pos: lost.Pos(), Message: "here " + lease.Name + " may still be held"}},
	})
}

// acquires returns the name of the method of the library that is called, if it returns a lease
// and an error, and "" otherwise.
func acquires(info *types.Info, e ast.Expr) string {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return ""
	}
	f := typeutil.StaticCallee(info, call)
	if f == nil {
		return ""
	}
	return acquirer(f)
}

// acquirer returns the name of a method of the library that returns a lease and an error, and ""
// for any other function.
func acquirer(f *types.Func) string {
	s := f.Signature()
	if f.Pkg() == nil || f.Pkg().Path() != library || s.Recv() == nil || s.Results().Len() != 2 {
		return ""
	}
	receiver := pointee(s.Recv().Type())
	if isLease(receiver) || !isLease(pointee(s.Results().At(0).Type())) {
		return "" // Lease.Slot returns the same lease
	}
	return receiver + "." + f.Name()
}

func isLease(name string) bool { return name == "Lease" || name == "Slot" || name == "MultiLease" }

// pointee returns the name of the type that a pointer leads to, and "" for any other type.
func pointee(t types.Type) string {
	if p, ok := types.Unalias(t).(*types.Pointer); ok {
		if n, ok := types.Unalias(p.Elem()).(*types.Named); ok {
			return n.Obj().Name()
		}
	}
	return ""
}

// variable returns the variable that an identifier defines or names, and nil for "_".
func variable(info *types.Info, id *ast.Ident) *types.Var {
	v, _ := info.ObjectOf(id).(*types.Var)
	return v
}
