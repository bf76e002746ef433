package tests

import (
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testFiles knows which files of this directory a test needs, so that a mutant's tests can be built
// without the rest, which takes the compiler four times as long.
type testFiles struct {
	declares map[string][]string // the files that declare a name, or a method of a type
	uses     map[string][]string // the names that a file takes from others
}

// readTestFiles parses the files of this directory.
func readTestFiles(t *testing.T) testFiles {
	t.Helper()
	files := testFiles{map[string][]string{}, map[string][]string{}}
	names, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		if match, err := build.Default.MatchFile(".", name); err != nil || !match {
			continue // it is for another system
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, decl := range file.Decls {
			for _, declared := range declaredBy(decl) {
				files.declares[declared] = append(files.declares[declared], name)
			}
		}
		for _, id := range file.Unresolved {
			files.uses[name] = append(files.uses[name], id.Name)
		}
	}
	return files
}

// declaredBy returns the names that a declaration adds to the package. A method counts as part of
// its type.
func declaredBy(decl ast.Decl) (names []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		ast.Inspect(d.Recv.List[0].Type, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				names = append(names, id.Name)
			}
			return true
		})
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				names = append(names, s.Name.Name)
			case *ast.ValueSpec:
				for _, id := range s.Names {
					names = append(names, id.Name)
				}
			}
		}
	}
	return names
}

// of returns the files of the tests whose names match, and all files that these refer to. It may
// name too many, as it takes the name of a field for what has the same name in another file.
func (f testFiles) of(tests *regexp.Regexp) []string {
	needed := map[string]bool{"main_test.go": true}
	for name, in := range f.declares {
		if strings.HasPrefix(name, "Test") && tests.MatchString(name) {
			for _, file := range in {
				needed[file] = true
			}
		}
	}
	for before := 0; before < len(needed); {
		before = len(needed)
		for _, file := range slices.Collect(maps.Keys(needed)) {
			for _, name := range f.uses[file] {
				for _, in := range f.declares[name] {
					needed[in] = true
				}
			}
		}
	}
	return slices.Sorted(maps.Keys(needed))
}
