package mutants

import (
	"bytes"
	"go/ast"
	"go/build"
	"go/format"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redlatch/redlatch/internal/testkit/check"
)

// testSource is the source of the tests in one folder. It writes those of one mutant without the
// rest, which takes the compiler and the linker several times as long.
type testSource struct {
	dir      string // of the folder, from the directory tests
	set      *token.FileSet
	files    map[string]*ast.File    // by name
	declared map[string][]ast.Decl   // by name; a method counts as part of its type
	inits    map[ast.Decl][]ast.Decl // of the file that a declaration is in
}

// readTestSource parses the tests in all folders of the directories tests and internal/engine of a
// repository.
func readTestSource(t *testing.T, repository string) (all []*testSource) {
	t.Helper()
	root := filepath.Join(repository, "tests")
	walk := func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.IsDir() {
			return err
		}
		names, err := filepath.Glob(filepath.Join(path, "*_test.go"))
		if err != nil || len(names) == 0 {
			return err
		}
		dir, err := filepath.Rel(root, path)
		all = append(all, parseTests(t, dir, names))
		return err
	}
	for _, in := range []string{root, filepath.Join(repository, "internal", "engine")} {
		if err := filepath.WalkDir(in, walk); err != nil {
			t.Fatal(err)
		}
	}
	return all
}

// parseTests parses the tests of one folder, which has files of these names.
func parseTests(t *testing.T, dir string, names []string) *testSource {
	t.Helper()
	s := &testSource{dir, token.NewFileSet(), map[string]*ast.File{}, map[string][]ast.Decl{}, map[ast.Decl][]ast.Decl{}}
	for _, name := range names {
		if match, err := build.Default.MatchFile(filepath.Split(name)); err != nil || !match {
			continue // it is for another system
		}
		file := check.Value(parser.ParseFile(s.set, name, nil, parser.SkipObjectResolution)).OK(t)
		s.files[filepath.Base(name)] = file
		inits := slices.DeleteFunc(slices.Clone(file.Decls), func(d ast.Decl) bool { return !slices.Contains(declaredBy(d), "init") })
		for _, decl := range file.Decls {
			s.inits[decl] = inits
			for _, declared := range declaredBy(decl) {
				s.declared[declared] = append(s.declared[declared], decl)
			}
		}
	}
	return s
}

// declaredBy returns the names that a declaration adds to the package. A method counts as part of
// its type.
func declaredBy(decl ast.Decl) (names []string) {
	switch d := decl.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			return []string{d.Name.Name}
		}
		return identifiers(d.Recv.List[0].Type)
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

// identifiers returns all identifiers in a piece of source.
func identifiers(piece ast.Node) (names []string) {
	ast.Inspect(piece, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok {
			names = append(names, id.Name)
		}
		return true
	})
	return names
}

// has reports whether the name of a test matches, or of a fuzz target, whose inputs a test runs.
func (s *testSource) has(tests *regexp.Regexp) bool {
	for name := range s.declared {
		test := strings.HasPrefix(name, "Test") || strings.HasPrefix(name, "Fuzz")
		if test && name != "TestMain" && tests.MatchString(name) {
			return true
		}
	}
	return false
}

// binary returns the name of what the go command builds of the folder.
func (s *testSource) binary() string {
	for _, file := range s.files {
		return strings.TrimSuffix(file.Name.Name, "_test") + ".test"
	}
	return ""
}

// needed returns the declarations of the tests whose names match, and all that these refer to. It may
// return too many, as it takes the name of a field for a declaration of the same name.
func (s *testSource) needed(tests *regexp.Regexp) map[ast.Decl]bool {
	needed := make(map[ast.Decl]bool)
	next := slices.Clone(s.declared["TestMain"])
	for name, decls := range s.declared {
		if strings.HasPrefix(name, "Test") && tests.MatchString(name) {
			next = append(next, decls...)
		}
	}
	for len(next) > 0 {
		decl := next[0]
		if next = next[1:]; needed[decl] {
			continue
		}
		needed[decl] = true
		next = append(next, s.inits[decl]...)
		for _, name := range identifiers(decl) {
			if name != "init" {
				next = append(next, s.declared[name]...)
			}
		}
	}
	return needed
}

// write puts the tests whose names match, and what they need, into a directory, in place of all
// tests that are there.
func (s *testSource) write(t *testing.T, dir string, tests *regexp.Regexp) {
	t.Helper()
	before := check.Value(filepath.Glob(filepath.Join(dir, "*_test.go"))).OK(t)
	for _, file := range before {
		check.OK(t, "Remove", os.Remove(file))
	}
	needed := s.needed(tests)
	for name, file := range s.files {
		some := only(file, needed)
		if some == nil {
			continue
		}
		var text bytes.Buffer
		check.OK(t, "Node", format.Node(&text, s.set, some))
		check.OK(t, "WriteFile", os.WriteFile(filepath.Join(dir, name), text.Bytes(), 0o600))
	}
}

// only returns a file with those of its declarations that are needed, and with what they import; nil
// if none is needed.
func only(file *ast.File, needed map[ast.Decl]bool) *ast.File {
	var decls []ast.Decl
	var names []string
	for _, decl := range file.Decls {
		if needed[decl] {
			decls = append(decls, decl)
			names = append(names, identifiers(decl)...)
		}
	}
	if decls == nil {
		return nil
	}
	imports := &ast.GenDecl{Tok: token.IMPORT, Lparen: file.Package, Rparen: file.Package}
	for _, spec := range file.Imports {
		if name := importedAs(spec); name == "_" || slices.Contains(names, name) {
			imports.Specs = append(imports.Specs, spec)
		}
	}
	if len(imports.Specs) > 0 {
		decls = append([]ast.Decl{imports}, decls...)
	}
	return &ast.File{Package: file.Package, Name: file.Name, Decls: decls}
}

// importedAs returns the name of an imported package, which its path ends with, before a version.
func importedAs(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	from, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		return ""
	}
	base := path.Base(from)
	if regexp.MustCompile(`^v[0-9]+$`).MatchString(base) {
		base = path.Base(path.Dir(from))
	}
	return strings.TrimPrefix(base, "go-") // go-redis
}
