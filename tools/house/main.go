// House prints measures of the tree: how large it is, and how far its files hang together. It fails
// if one is worse than scripts/house.txt allows. With -set it rewrites that file. With -knots it
// prints each circle of files of a package and what ties it.
package main

import (
	"bytes"
	"flag"
	"fmt"
	"io/fs"
	"log"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// measure is a figure of the tree. All are better when they are less.
type measure struct {
	name  string
	what  string
	goal  int // what a maintainer can keep in mind
	now   int
	where string // the place that has the figure, for the largest of many
	loose bool   // it may be a hundredth more than allowed: a mended sentence is no new weight
}

// most returns the figure up to which the measure is as it was.
func (m measure) most(allowed int) int {
	if m.loose {
		return allowed + allowed/100
	}
	return allowed
}

const record = "scripts/house.txt"

func main() {
	log.SetFlags(0)
	log.SetPrefix("house: ")
	set := flag.Bool("set", false, "write "+record+" anew")
	knots := flag.Bool("knots", false, "print the circles of files, and the uses within them")
	flag.Parse()
	text, err := read(".")
	if err != nil {
		log.Fatal(err)
	}
	all, err := load(".")
	if err != nil {
		log.Fatal(err)
	}
	if *knots {
		for _, p := range all {
			p.print()
		}
		return
	}
	measures, err := take(text, all)
	if err != nil {
		log.Fatal(err)
	}
	if *set {
		if err := write(measures); err != nil {
			log.Fatal(err)
		}
		return
	}
	if err := compare(measures); err != nil {
		log.Fatal(err)
	}
}

// take measures the tree.
func take(text *tree, all []*graph) ([]measure, error) {
	root := all[slices.IndexFunc(all, func(g *graph) bool { return g.dir == "." })]
	_, circle := root.largest()
	worst, files := all[0], text.fullest()
	most, up := 0, 0
	for _, g := range all {
		up += g.up()
		if n, _ := g.largest(); n > most && g != root {
			worst, most = g, n
		}
	}
	if up > 0 {
		for _, g := range all {
			if g.up() > 0 {
				log.Printf("%s imports %s", g.dir, strings.Join(g.imports, " "))
			}
		}
	}
	doc, err := exec.Command("go", "doc", "-all", ".").Output()
	if err != nil {
		return nil, fmt.Errorf("go doc: %w", err)
	}
	return []measure{
		{name: "root-files", what: "files of the root package", goal: 22, now: text.files["."]},
		{name: "root-lines", what: "lines of the root package", goal: 4500, now: text.lines["."], loose: true},
		{name: "root-pairs", what: "pairs of its files, of which the first uses the second", goal: 120, now: root.pairs()},
		{name: "root-circle", what: "its files that all reach each other", goal: 3, now: len(circle)},
		{name: "circle", what: "such files of any other package", goal: 3, now: most, where: worst.dir},
		{name: "client-methods", what: "private methods of Client", goal: 8, now: root.private["Client"]},
		{name: "exported", what: "exported functions and methods of the root package", goal: 130, now: root.exported},
		{name: "go-doc", what: "lines of its page (go doc -all)", goal: 2000, now: bytes.Count(doc, []byte("\n")), loose: true},
		{name: "internal", what: "folders directly in internal", goal: 8, now: text.folders["internal"]},
		{name: "up", what: "imports that lead up a floor", goal: 0, now: up},
		{name: "package-files", what: "Go files of any folder, its tests too", goal: 25, now: text.all[files], where: files},
		{name: "go", what: "lines of Go besides tests", goal: 43000, now: text.code, loose: true},
		{name: "go-tests", what: "lines of Go of tests", goal: 36000, now: text.tests, loose: true},
		{name: "words", what: "words of documents", goal: 38000, now: text.words, loose: true},
		{name: "readme", what: "words of the README", goal: 1600, now: text.readme},
	}, nil
}

// tree is what the files say without being compiled.
type tree struct {
	files, lines, all          map[string]int // by folder: Go files besides tests, their lines, and all Go files
	folders                    map[string]int // folders in a folder
	code, tests, words, readme int
}

// read counts the files of a tree.
func read(dir string) (*tree, error) {
	t := &tree{files: map[string]int{}, lines: map[string]int{}, all: map[string]int{}, folders: map[string]int{}}
	return t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != dir && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata" || name == "bin") {
				return fs.SkipDir
			}
			t.folders[filepath.Dir(path)]++
			return nil
		}
		switch filepath.Ext(path) {
		case ".go", ".md":
		default:
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		t.add(path, text)
		return nil
	})
}

// add counts a file.
func (t *tree) add(path string, text []byte) {
	folder, lines := filepath.Dir(path), bytes.Count(text, []byte("\n"))
	switch {
	case filepath.Ext(path) == ".md":
		n := len(bytes.Fields(text))
		t.words += n
		if path == "README.md" {
			t.readme = n
		}
		return
	case isTest(path):
		t.tests += lines
	default:
		t.code += lines
		t.files[folder]++
		t.lines[folder] += lines
	}
	t.all[folder]++
}

// isTest reports whether a file is for tests: its name says so, or no program imports its package.
func isTest(path string) bool {
	return strings.HasSuffix(path, "_test.go") || strings.HasPrefix(path, "tests/") ||
		strings.HasPrefix(path, "redlatchtest/internal/simulation/")
}

// fullest returns the folder with the most Go files; the root package has a measure of its own.
func (t *tree) fullest() string {
	folders := slices.DeleteFunc(slices.Sorted(maps.Keys(t.all)), func(f string) bool { return f == "." })
	return slices.MaxFunc(folders, func(a, b string) int { return t.all[a] - t.all[b] })
}

// load type-checks all packages of the workspace below a folder, without tests.
func load(dir string) ([]*graph, error) {
	out, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}/...").Output()
	if err != nil {
		return nil, fmt.Errorf("go list -m: %w", err)
	}
	mode := packages.NeedName | packages.NeedFiles | packages.NeedSyntax | packages.NeedTypes | packages.NeedTypesInfo | packages.NeedImports
	loaded, err := packages.Load(&packages.Config{Mode: mode, Dir: dir}, strings.Fields(string(out))...)
	if err != nil {
		return nil, err
	}
	if n := packages.PrintErrors(loaded); n > 0 {
		return nil, fmt.Errorf("%d packages do not compile", n)
	}
	root, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var all []*graph
	for _, p := range loaded {
		if len(p.GoFiles) > 0 {
			all = append(all, newGraph(root, p))
		}
	}
	return all, nil
}

// write allows the figures as they are.
func write(measures []measure) error {
	var b strings.Builder
	for _, m := range measures {
		fmt.Fprintf(&b, "%s %d\n", m.name, m.now)
	}
	return os.WriteFile(record, []byte(b.String()), 0o644)
}

// compare prints the figures, and returns an error if one is worse than it was.
func compare(measures []measure) error {
	text, err := os.ReadFile(record)
	if err != nil {
		return err
	}
	allowed := make(map[string]int)
	for line := range strings.Lines(string(text)) {
		var name string
		var n int
		if _, err := fmt.Sscan(line, &name, &n); err != nil {
			return fmt.Errorf("%s: %q: %w", record, line, err)
		}
		allowed[name] = n
	}
	fmt.Printf("%8s %8s %8s\n", "now", "allowed", "goal")
	var worse, better []string
	for _, m := range measures {
		what := m.what
		if m.where != "" {
			what += ": " + m.where
		}
		fmt.Printf("%8d %8d %8d  %s\n", m.now, allowed[m.name], m.goal, what)
		switch {
		case m.now > m.most(allowed[m.name]):
			worse = append(worse, m.name)
		case m.now < allowed[m.name]:
			better = append(better, m.name)
		}
	}
	if len(worse) > 0 {
		return fmt.Errorf("worse than %s allows: %s", record, strings.Join(worse, ", "))
	}
	if len(better) > 0 {
		fmt.Printf("better than %s: %s; make house SET=1 writes that down\n", record, strings.Join(better, ", "))
	}
	return nil
}
