package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/types"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// graph has the files of a package, and what each uses of the others.
type graph struct {
	dir      string                               // of the package, relative to the tree
	uses     map[string]map[string]map[string]int // from file, to file: names, and how often
	private  map[string]int                       // by type: its methods that are not exported
	exported int                                  // exported functions, and methods of exported types
	imports  []string                             // folders of the packages of this project that it imports
}

// floors are the folders of the engine from the ground up. A package imports those of its own floor
// and of floors below it. What is on none of them stands above the root package.
var floors = [][]string{
	{"internal/base", "conn"},
	{"internal/protocol"},
	{"internal/driver", "redlatchrueidis", "redlatchgoredis"},
	{"internal/link"},
	{"internal/record"},
	{"internal/engine"},
	{"."},
}

// floor returns the number of the floor that a folder is on. A suite of tests is on none.
func floor(dir string) int {
	for n, folders := range floors {
		for _, f := range folders {
			if dir == f || strings.HasPrefix(dir, f+"/") && dir != "conn/conntest" {
				return n
			}
		}
	}
	return len(floors)
}

// up counts the imports of a package that lead to a higher floor.
func (g *graph) up() int {
	n := 0
	for _, dir := range g.imports {
		if floor(dir) > floor(g.dir) {
			n++
		}
	}
	return n
}

// newGraph reads a package that has been type-checked.
func newGraph(root string, p *packages.Package) *graph {
	dir, err := filepath.Rel(root, filepath.Dir(p.GoFiles[0]))
	if err != nil {
		dir = p.PkgPath
	}
	g := &graph{dir: dir, uses: make(map[string]map[string]map[string]int), private: make(map[string]int)}
	const module = "github.com/redlatch/redlatch"
	for path := range p.Imports {
		if path == module {
			g.imports = append(g.imports, ".")
		} else if dir, ok := strings.CutPrefix(path, module+"/"); ok {
			g.imports = append(g.imports, dir)
		}
	}
	for _, file := range p.Syntax {
		from := filepath.Base(p.Fset.Position(file.Pos()).Filename)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				g.declared(n)
			case *ast.Ident:
				if used := p.TypesInfo.Uses[n]; used != nil && used.Pkg() == p.Types {
					g.use(from, filepath.Base(p.Fset.Position(used.Pos()).Filename), used)
				}
			}
			return true
		})
	}
	return g
}

// declared counts a function.
func (g *graph) declared(f *ast.FuncDecl) {
	receiver := ""
	if f.Recv != nil {
		receiver = types.ExprString(f.Recv.List[0].Type)
		receiver, _, _ = strings.Cut(strings.TrimPrefix(receiver, "*"), "[")
	}
	switch {
	case !f.Name.IsExported():
		g.private[receiver]++
	case receiver == "" || ast.IsExported(receiver):
		g.exported++
	}
}

// use notes that a file uses a thing of another.
func (g *graph) use(from, to string, what types.Object) {
	if from == to {
		return
	}
	name := what.Name()
	if f, ok := what.(*types.Func); ok {
		if r := f.Signature().Recv(); r != nil {
			name = types.TypeString(r.Type(), func(*types.Package) string { return "" }) + "." + name
		}
	}
	if g.uses[from] == nil {
		g.uses[from] = make(map[string]map[string]int)
	}
	if g.uses[from][to] == nil {
		g.uses[from][to] = make(map[string]int)
	}
	g.uses[from][to][name]++
}

// pairs counts the pairs of files of which the first uses the second.
func (g *graph) pairs() int {
	n := 0
	for _, to := range g.uses {
		n += len(to)
	}
	return n
}

// circles returns the largest sets of files that all reach each other, the largest set first.
func (g *graph) circles() [][]string {
	reach := make(map[string]map[string]bool)
	for from := range g.uses {
		reach[from] = make(map[string]bool)
		g.walk(from, reach[from])
	}
	var found [][]string
	seen := make(map[string]bool)
	for _, from := range slices.Sorted(maps.Keys(reach)) {
		if seen[from] || !reach[from][from] {
			continue
		}
		var circle []string
		for _, to := range slices.Sorted(maps.Keys(reach[from])) {
			if reach[to][from] {
				circle, seen[to] = append(circle, to), true
			}
		}
		found = append(found, circle)
	}
	slices.SortStableFunc(found, func(a, b []string) int { return cmp.Compare(len(b), len(a)) })
	return found
}

// walk notes all files that a file reaches.
func (g *graph) walk(from string, seen map[string]bool) {
	for to := range g.uses[from] {
		if !seen[to] {
			seen[to] = true
			g.walk(to, seen)
		}
	}
}

// largest returns the largest circle of files and its size.
func (g *graph) largest() (int, []string) {
	if c := g.circles(); len(c) > 0 {
		return len(c[0]), c[0]
	}
	return 0, nil
}

// print prints the circles of more than two files, and the uses within them.
func (g *graph) print() {
	for _, circle := range g.circles() {
		if len(circle) <= 2 {
			continue
		}
		fmt.Printf("%s: %d files reach each other\n", g.dir, len(circle))
		for _, from := range circle {
			for _, to := range circle {
				if names := g.uses[from][to]; len(names) > 0 {
					fmt.Printf("  %s uses %s: %s\n", from, to, strings.Join(slices.Sorted(maps.Keys(names)), " "))
				}
			}
		}
	}
}
